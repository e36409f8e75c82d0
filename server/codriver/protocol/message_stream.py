"""Read the messages of one client until it has disconnected, and pass each on to be answered."""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

import anyio
from pydantic_core import from_json

from codriver.errors import PeerError
from codriver.protocol.error_messages import (
    BATCH_VERSION,
    CALL,
    INVALID_PARAMS,
    INVALID_REQUEST,
    HugeInteger,
    Refusal,
    read_json,
)
from codriver.protocol.lone_surrogates import has_lone_surrogates, replace_lone_surrogates, replace_unencodable_ids
from codriver.wire.framing import LineBudget, LineBudgetError, LineDecoder
from codriver.wire.untrusted import ExceededLimit, find_exceeded_limit, may_exceed_limits

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping

    from codriver.net.client_sessions import ClientSession
    from codriver.net.fair_threads import FairThreads
    from codriver.protocol.requests_without_sdk import PlainRequests


LONE_SURROGATE_MESSAGE = (
    "nothing was done, because an argument contains half of a surrogate pair, which is not valid in UTF-8. Send the "
    "whole character, or its escape sequence if the argument is code"
)
MAX_UNSCANNED_BYTES = 64 * 1024
"""Maximum size of a line that is parsed without scanning its content first, which takes milliseconds at most."""
MAX_INLINE_PARSE_BYTES = 2**20
"""Maximum size of a line that is parsed on the event loop. Longer lines are parsed in a thread, one at a time."""
BOM = b"\xef\xbb\xbf"
"""UTF-8 byte order mark, which some editors and shells write first. It is ignored before the first line."""

PROBE_S = 0.1
"""Interval, in seconds, at which a client that has closed its input is probed."""
PROBE = b" "
"""The byte sent to a client that has closed its input, to distinguish it from one that has disconnected.

JSON allows this byte as white space before the next message.
"""


class SdkChannel(Protocol):
    """The interface of the part of a connection that uses the SDK.

    It processes the messages that Codriver does not answer by itself.
    """

    async def run(self) -> None:
        """Answer the accepted messages until the input ends."""

    async def replay(self, messages: Iterable[Mapping[str, Any]]) -> None:
        """Process the messages with which the client introduced itself earlier, without answering them again."""

    def read(self, line: bytes, *, in_batch: bool = False) -> Any | None:
        """Parse the message in a line, or send an error and return None."""

    async def accept(self, message: Any) -> None:
        """Process a message that `read` returned."""

    def end_input(self) -> None:
        """Mark the end of the input, so that `run` returns."""


class MessageStream:
    """Reads the messages of a client until it has disconnected and its requests are answered.

    `receive` returns the next bytes, empty bytes once the client has closed its input, or None when the connection is
    broken. `plain` processes plain requests. `open_sdk_channel` loads the SDK when a message needs it. `threads` parse
    long lines, and `line_budget` limits the bytes of unfinished lines on all connections. A client that has closed its
    input can receive answers for `drain_s` seconds.
    """

    def __init__(
        self,
        session: ClientSession,
        receive: Callable[[], Awaitable[bytes | None]],
        *,
        max_line_bytes: int,
        plain: PlainRequests,
        open_sdk_channel: Callable[[], Awaitable[SdkChannel]],
        threads: FairThreads,
        line_budget: LineBudget,
        drain_s: float,
    ) -> None:
        self._session = session
        self._drain_s = drain_s
        self._receive = receive
        self._reading: anyio.CancelScope | None = None
        self._lines = LineDecoder(max_line_bytes=max_line_bytes, budget=line_budget, on_given_up=self._stop_reading)
        self._threads = threads
        self._plain = plain
        self._replies = plain.replies
        self._open_sdk_channel = open_sdk_channel
        self._sdk_channel: SdkChannel | None = None
        self._has_started = False
        self._input_is_closed = False
        session.read_immediately = self._accept_at_once

    async def run(self) -> None:
        """Read and process messages until the client has disconnected and its requests are answered or abandoned."""
        async with anyio.create_task_group() as self._tasks:
            while not self._input_is_closed:
                await self._session.outbox.wait_for_space()
                data = await self._receive_more()
                if data is None:
                    self._session.open_requests.clear()
                if data:
                    await self._accept(data)
                else:
                    self._session.has_left = self._input_is_closed = True
            await self._drain()
            if data is not None:
                self._plain.refuse_unanswerable()
            if self._sdk_channel is not None:
                self._sdk_channel.end_input()

    async def _receive_more(self) -> bytes | None:
        """Return the next bytes from the client.

        If an unfinished line had to be abandoned, return a newline instead, so that the line is answered with an error.
        """
        if not self._lines.is_counted:
            return await self._receive()
        with anyio.CancelScope() as self._reading:
            return await self._receive()
        return b"\n"

    def _stop_reading(self) -> None:
        if self._reading is not None:
            self._reading.cancel()

    def discard_buffer(self) -> None:
        """Discard the bytes that were received but not processed, because reading stops."""
        self._lines.drop()

    def _accept_at_once(self, data: bytes) -> bool:
        """Process a plain request immediately, unless other bytes are waiting, and return whether it was one.

        Nearly every message is a plain request. Processing it immediately avoids waking a task.
        """
        if len(data) > MAX_UNSCANNED_BYTES or self._session.outbox.is_congested:
            return False
        line = self._lines.complete_line(data)
        if line is None or has_lone_surrogates(line):
            return False
        self._replies.line_number += 1
        if self._plain.accept(line):
            return True
        self._replies.line_number -= 1  # the line is read again
        return False

    async def _accept(self, data: bytes) -> None:
        try:
            lines = self._lines.feed(data)
            if lines and not self._has_started:
                self._has_started = True
                lines[0] = lines[0].removeprefix(BOM)
            for line in lines:
                self._replies.line_number += 1
                read = None
                if len(line) > MAX_UNSCANNED_BYTES:
                    read = await self._read_long(line)
                if isinstance(read, ExceededLimit):
                    self._refuse_excess(read)
                elif self._session.handshake_version == BATCH_VERSION and line.lstrip()[:1] == b"[":
                    await self._accept_batch(line)
                elif line:
                    await self._accept_whole(self._without_lone_surrogates(line) if read is None else line, read)
        except PeerError as error:
            self._replies.refuse_line(str(error))
            self._input_is_closed = True

    async def _accept_whole(self, line: bytes | None, read: object) -> None:
        if line is not None and not self._plain.accept(line, read):
            channel = await self._load_sdk_channel()
            await self._forward_to_sdk(channel, channel.read(line))

    async def _load_sdk_channel(self) -> SdkChannel:
        """Return the part of the connection that uses the SDK. When created, it receives the client's handshake."""
        if self._sdk_channel is None:
            self._sdk_channel = await self._open_sdk_channel()
            self._plain.has_sdk = True
            self._tasks.start_soon(self._sdk_channel.run)
            await self._sdk_channel.replay(self._plain.handshake_messages())
        return self._sdk_channel

    async def _forward_to_sdk(self, channel: SdkChannel, message: object) -> None:
        if message is not None:
            await channel.accept(message)

    async def _read_long(self, line: bytes) -> object:
        """Check a long line against the limits before parsing it.

        Returns the limit that it exceeds, or the JSON value of a line longer than a megabyte. Such lines are parsed in
        a thread, one at a time. For shorter lines, and for lines that are not JSON, the result is None.

        Raises:
            LineBudgetError: the line had to be discarded while it waited for the thread.
        """
        if len(line) <= MAX_INLINE_PARSE_BYTES:
            return (
                await self._threads.run(self._session.id, partial(find_exceeded_limit, line))
                if may_exceed_limits(line)
                else None
            )
        try:
            with anyio.CancelScope() as self._reading:
                self._lines.reserve(len(line))
                return await self._threads.run(self._session.id, partial(_parse_within_limits, line))
        finally:
            self._lines.reserve(0)
        raise self._lines.error or LineBudgetError(len(line), 0)

    def _refuse_excess(self, found: ExceededLimit) -> None:
        identity = read_json(found.identity) if found.identity is not None else None
        text = f"this line has {found.error}. Send it in several messages, or with less nesting"
        self._replies.refuse(Refusal(None if isinstance(identity, HugeInteger) else identity, INVALID_REQUEST, text))

    async def _accept_batch(self, line: bytes) -> None:
        """Process a batch, which is an array of messages. Only one protocol version has batches."""
        channel = await self._load_sdk_channel()
        try:
            items = json.loads(line)
        except (ValueError, RecursionError):
            await self._forward_to_sdk(channel, channel.read(line))
            return
        if not items:
            self._replies.refuse_line("a batch must have at least one message")
        elif len(items) > (most := self._plain.max_open_requests):
            text = f"a batch of {len(items)} messages exceeds the limit of {most} open requests"
            self._replies.refuse_line(text)
        else:
            with self._replies.batch():
                whole = [self._without_lone_surrogates(json.dumps(item).encode()) for item in items]
                lines = [line for line in whole if line is not None]
                left = [channel.read(raw, in_batch=True) for raw in lines if not self._plain.accept(raw)]
            for message in left:
                await self._forward_to_sdk(channel, message)

    def _without_lone_surrogates(self, line: bytes) -> bytes | None:
        """Return a line without lone surrogates. If it is a call whose arguments have any, refuse it and return None.

        Text with a lone surrogate cannot be written to a file or sent to a REPL without changing it.
        """
        if not has_lone_surrogates(line):
            return line
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            return line
        if isinstance(value, dict):
            value, names = replace_unencodable_ids(value)
            self._replies.remember_ids(names)
            identity = value.get("id")
            if isinstance(identity, str | int) and has_lone_surrogates(json.dumps(_call_arguments(value)).encode()):
                self._replies.refuse(Refusal(identity, INVALID_PARAMS, LONE_SURROGATE_MESSAGE))
                return None
        return replace_lone_surrogates(json.dumps(value).encode())

    async def _drain(self) -> None:
        with anyio.move_on_after(self._drain_s):
            while self._session.open_requests:
                with anyio.move_on_after(PROBE_S) as silence:
                    await self._session.open_requests.wait_for_removal()
                if silence.cancelled_caught:
                    self._session.outbox.offer(PROBE)


def _parse_within_limits(line: bytes) -> object:
    """Return the JSON value of a line, the limit that it exceeds, or None if it is not JSON."""
    found = find_exceeded_limit(line) if may_exceed_limits(line) else None
    if found is not None:
        return found
    try:
        return from_json(line)
    except ValueError:
        return None


def _call_arguments(message: dict[str, Any]) -> object:
    """Return the arguments of a tool call, or None for any other message."""
    params = message.get("params")
    return params.get("arguments") if message.get("method") == CALL and isinstance(params, dict) else None
