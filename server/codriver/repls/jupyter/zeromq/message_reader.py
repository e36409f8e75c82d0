"""Messages of a kernel as values, read in turns from what its sockets and its server's frames hold."""

from __future__ import annotations

import secrets
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from codriver.net.loop_turns import in_turns
from codriver.repls.jupyter.messages.content_reader import UnreadableError, mended, reading
from codriver.repls.jupyter.messages.messages import LEFT_OUT, NOTHING, read_message
from codriver.wire.head_and_tail import left_out_mark

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from codriver.repls.jupyter.messages.messages import Message, Socket
    from codriver.repls.jupyter.zeromq.inbox import Dropped
    from codriver.repls.jupyter.zeromq.signed_messages import Received

STREAM_CHARACTERS: Final = 64 * 1024
"""What is told at once of a text that a program printed."""


async def read_object(text: bytes) -> Mapping[str, object]:
    """The object in a text of JSON, read in turns.

    Raises:
        UnreadableError: it is none, or too heavy.
    """
    return await in_turns(reading(text, secrets.token_hex(16)))


async def read_received(socket: Socket, received: Received) -> Message:
    """The message that came. One whose content cannot be read has none, and says why."""
    left_out, problem = received.left_out, ""
    metadata = content = NOTHING
    try:
        content = await read_object(mended(received.head, received.tail, left_out))
        metadata = await read_object(received.metadata) if received.metadata else NOTHING
    except UnreadableError as error:
        problem, left_out = error.problem, left_out + received.held_bytes
    parts = {"header": received.header, "parent_header": received.parent, "content": content, "metadata": metadata}
    return replace(read_message(socket, parts), left_out=left_out, problem=problem)


def told_as_dropped(socket: Socket, dropped: Dropped) -> Message:
    """A message in the place of those that were dropped: of a stream a mark in it, as if that had been printed."""
    content = {"name": dropped.stream, "text": left_out_mark(dropped.size)} if dropped.stream else {}
    kind = "stream" if dropped.stream else LEFT_OUT
    parts = {"header": {"msg_type": kind}, "parent_header": dropped.parent, "content": content}
    return replace(read_message(socket, parts), left_out=dropped.size)


def pieces_of(message: Message) -> Iterator[Message]:
    """The message; of a long text that a program printed piece after piece."""
    text = message.text("text") if message.type == "stream" else ""
    if len(text) <= STREAM_CHARACTERS:
        yield message
        return
    for start in range(0, len(text), STREAM_CHARACTERS):
        content = {**message.content, "text": text[start : start + STREAM_CHARACTERS]}
        yield replace(message, content=content, left_out=0 if start else message.left_out)
