"""Messages of the Jupyter protocol, as values, independent of their carrier.

Source: Jupyter documentation, "Messaging in Jupyter"; JEP 65 (`iopub_welcome`), JEP 91 (subshells).

The contract of a channel: one connection to one kernel, whatever carries its messages.

* **Order.** Messages reach `on_message` on the event loop, in the order of each socket; messages of different sockets
have no order.
* **Draining.** A channel always reads, also when nobody waits.
* **Never twice.** A posted message is sent once. After a lost connection nothing is sent again.
* **The end.** A channel that is over stays over; `wait_closed` gives the cause. Leaving the context that opened it
  closes it, and leaves the kernel alive.

Contents of messages, read from JSON of any shape: elements are counted before anything is built, and long contents are
read in turns.

`json.loads` holds the interpreter until it is done, in a thread as well: 2 ms for a megabyte of text. So the elements
and the depth of a long content are counted piece by piece. Its long texts are read in pieces and put into their places
afterwards, so that only a short rest is left for one call.

In a content whose middle was not held, the text around the gap gets a mark; contents with a gap elsewhere cannot be
mended.
"""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, Literal, Protocol, cast
from uuid import uuid4

from codriver.repls.contract.adapter import CapabilityMissingError
from codriver.wire.head_and_tail import left_out_mark
from codriver.wire.untrusted import NOTHING, mapping_of, text_of

if TYPE_CHECKING:
    from collections.abc import Generator
    from contextlib import AbstractAsyncContextManager


Socket = Literal["shell", "control", "stdin", "iopub"]
"""A channel of a kernel. Each keeps its own order; messages of different channels have no order."""

SOCKETS: Final[tuple[Socket, ...]] = ("shell", "control", "stdin", "iopub")

VERSION: Final = "5.3"
"""The version of the protocol in our messages."""
RATE_LIMIT: Final = ("IOPub data rate exceeded", "IOPub message rate exceeded")
"""The words of a Jupyter Server that leaves its kernel's messages out. Source: jupyter_server, its WebSocket."""
LEFT_OUT: Final = "codriver/left-out"
"""The type of our own message in the place of dropped ones."""


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a kernel. Its parent, the request that the message is about, is ours or another client's."""

    socket: Socket
    type: str
    id: str = ""
    session: str = ""
    """The kernel's session: another session means a restart."""
    content: Mapping[str, object] = field(default_factory=lambda: NOTHING)
    metadata: Mapping[str, object] = field(default_factory=lambda: NOTHING)
    parent_id: str = ""
    """Empty for a message without a cause, as at a kernel's start."""
    parent_type: str = ""
    parent_session: str = ""
    """The session of the client that sent the parent."""
    parent_subshell: str = ""
    """The subshell of the parent; empty for the main shell."""
    left_out: int = 0
    """The number of its bytes, or of the bytes in its place, that were not read."""
    read_error: str = ""
    """The reason in words why its content is not read; empty for a content that is."""

    def text(self, key: str) -> str:
        """Return the text under `key` of the content; empty without one."""
        return text_of(self.content, key)

    def mapping(self, key: str) -> Mapping[str, object]:
        """Return the object under `key` of the content; empty without one."""
        return mapping_of(self.content, key)

    @property
    def state(self) -> str:
        """The state in a status message: `busy`, `idle`, `starting`, `restarting` or `dead`; empty for all others."""
        return self.text("execution_state") if self.type == "status" else ""


def read_message(socket: Socket, raw: Mapping[str, object]) -> Message:
    """Return the message in its parts, as an object, or in a frame of a server. Missing parts are empty."""
    header, parent = mapping_of(raw, "header"), mapping_of(raw, "parent_header")
    return Message(
        socket=socket,
        type=text_of(header, "msg_type"),
        id=text_of(header, "msg_id"),
        session=text_of(header, "session"),
        content=mapping_of(raw, "content"),
        metadata=mapping_of(raw, "metadata"),
        parent_id=text_of(parent, "msg_id"),
        parent_type=text_of(parent, "msg_type"),
        parent_session=text_of(parent, "session"),
        parent_subshell=text_of(parent, "subshell_id"),
    )


def new_header(type: str, session: str, subshell: str | None = None) -> dict[str, object]:  # noqa: A002  # the word
    """Return the header of a message of ours, with an id of its own."""
    header: dict[str, object] = {
        "msg_id": uuid4().hex, "msg_type": type, "username": "codriver", "session": session,
        "date": datetime.now(UTC).isoformat(), "version": VERSION,
    }  # fmt: skip
    return {**header, "subshell_id": subshell} if subshell else header


OnMessage = Callable[["Message"], None]
"""Called on the event loop with each message. It must return quickly and not raise."""
CatchUp = Callable[[], Awaitable[None]]
"""Waits until earlier messages are kept, if they come faster than they are kept."""


class Channel(Protocol):
    """One connection to one kernel. A subclass need not have its own interrupt and restart."""

    @property
    def session(self) -> str:
        """Our session id, in the headers of our messages."""
        ...

    @property
    def address(self) -> str:
        """Return the kernel's place, for people: the path of its connection file, or its URL without a token."""
        ...

    @property
    def is_local(self) -> bool:
        """Return whether the kernel runs on this machine."""
        return False

    @property
    def process_id(self) -> int | None:
        """Return the kernel's process on this machine, if the carrier knows it."""
        return None

    @property
    def received_bytes(self) -> int:
        """A number that grows while bytes come, also in the middle of a message, if the carrier counts them."""
        return 0

    @property
    def notebook(self) -> str | None:
        """Return the absolute path of the kernel's notebook, if the carrier knows it."""
        return None

    @property
    def lost_messages(self) -> int:
        """Return the number of lost messages of the kernel so far, as far as known."""
        return 0

    @property
    def can_interrupt(self) -> bool:
        """Return whether the carrier has its own way to interrupt the kernel."""
        return False

    @property
    def can_restart(self) -> bool:
        """Return whether the carrier has its own way to restart the kernel."""
        return False

    def post(
        self,
        socket: Socket,
        type: str,  # noqa: A002  # the protocol's word
        content: Mapping[str, object],
        *,
        metadata: Mapping[str, object] | None = None,
        subshell: str | None = None,
    ) -> str:
        """Put a message in order to be sent, at once; its id.

        Raises:
            ReplDisconnectedError: the channel has finished.
        """
        ...

    async def wait_closed(self) -> str:
        """Wait until the channel is over and give the cause in words. Never raises; after the end at once."""
        ...

    async def silence(self) -> str:
        """Return the likely reason in words for a kernel's silence, as far as the carrier can tell. Never raises."""
        return "it answered nothing"

    async def interrupt(self) -> bool:
        """Interrupt the kernel in the way of the carrier; whether that worked. Else a control message may do it."""
        return False

    async def restart(self) -> None:
        """Restart the kernel in the carrier's own way.

        Raises:
            CapabilityMissingError: the carrier has no such way.
        """
        raise CapabilityMissingError("restart")


Carrier = Callable[[OnMessage], "AbstractAsyncContextManager[Channel]"]
"""How to open a channel to one kernel. The opener leaves the context.

Raises:
    ReplUnreachableError: nobody listens there.
    NotAnReplError: the listener is no kernel.
    PackageMissingError: a needed package is not installed.
"""


SHORT_BYTES: Final = 32 * 1024
"""The length of a text that is read at once, and of a content that cannot be too deep."""
CHUNK_BYTES: Final = 32 * 1024
MAX_ELEMENTS: Final = 300_000
"""Values and containers in one content, as in a notebook: figures are long lists, and more would fill the memory."""
MAX_DEPTH: Final = 100
"""Arrays and objects within one another, as of a notebook."""
MARKS_AT_ONCE: Final = 500
SEAM_BYTES: Final = 4096
"""The distance from a cut within which a place between two characters is looked for."""

_MARK: Final = re.compile(rb'["\[\]{},]')
_TEXT: Final = re.compile(rb'[^"\\]*+(?:\\.[^"\\]*+)*+', re.DOTALL)
_SEAM: Final = re.compile(
    rb"(?<=[^\\]{12})[\x20-\x21\x23-\x5b\x5d-\x7e\xc2-\xf4]|(?<=[^\\])\\(?=[^u]|u[^dD]|u[dD][^c-fC-F])", re.DOTALL
)
"""The beginning of a character in a JSON text: far from any escape, or at a backslash that begins an escape and follows
no other backslash. The second half of a surrogate pair does not count.
"""


class UnreadableError(Exception):
    """A content is no JSON object, or too heavy to be read; `cause` says in which way."""

    def __init__(self, cause: str) -> None:
        super().__init__(cause)
        self.cause = cause


class TooHeavyError(UnreadableError):
    """A content has too many elements or levels to be read."""


def repaired(head: Sequence[bytes], tail: Sequence[bytes], left_out: int) -> tuple[bytes, ...]:
    """A content made of its beginning and its end, with a mark between them: good JSON if both lie in one text.

    All texts are in pieces.
    """
    if not left_out:
        return tuple(head)
    last, first = _near(reversed(head)), _near(tail)
    before, behind = b"".join(reversed(last)), b"".join(first)
    ends = [found.start() for found in _SEAM.finditer(before, max(0, len(before) - SEAM_BYTES))]
    begins = _SEAM.search(behind, 0, SEAM_BYTES)
    end, start = ends[-1] if ends else len(before), begins.start() if begins else 0
    mark = json.dumps(left_out_mark(left_out + len(before) - end + start))[1:-1]
    return (*head[: len(head) - len(last)], before[:end], mark.encode(), behind[start:], *tail[len(first) :])


def _near(chunks: Iterable[bytes]) -> list[bytes]:
    """Return the first chunks, as many as the search for a place needs."""
    near: list[bytes] = []
    size = 0
    for chunk in chunks:
        if size >= 2 * SEAM_BYTES:
            break
        near.append(chunk)
        size += len(chunk)
    return near


def joined(chunks: Sequence[bytes]) -> Generator[None, None, bytearray]:
    """Yield the chunks as one. The generator yields at each point where it can pause: filling new memory takes time."""
    whole = bytearray(sum(map(len, chunks)))
    address = 0
    for chunk in chunks:
        whole[address : address + len(chunk)] = chunk
        address += len(chunk)
        yield
    return whole


def reading(content: bytes | bytearray, token: str) -> Generator[None, None, Mapping[str, object]]:
    """Read a content; the generator yields wherever it can pause. `token`: a text that no content has by accident.

    Raises:
        UnreadableError: the content is no JSON object.
        TooHeavyError: the content has too many elements or levels.
    """
    if len(content) <= SHORT_BYTES and content.count(b"[") + content.count(b"{") <= MAX_DEPTH:
        return _object(content)
    strings: dict[str, str] = {}
    short = yield from _without_long_strings(content, strings, token)
    whole = _object(short)
    if strings:
        whole = cast("Mapping[str, object]", _with_strings(whole, strings))
    return whole


def _object(content: bytes | bytearray) -> Mapping[str, object]:
    read = _loaded(content)
    if not isinstance(read, dict):
        raise UnreadableError(f"it is a JSON {type(read).__name__}, and no object")
    return cast("dict[str, object]", read)


def _loaded(text: bytes | bytearray) -> object:
    try:
        return json.loads(text.decode(errors="replace"))
    except ValueError as error:
        raise UnreadableError(f"it is no JSON: {error}") from None


def _without_long_strings(
    content: bytes | bytearray, strings: dict[str, str], token: str
) -> Generator[None, None, bytes]:
    """The content with a name in the place of each long text, which `strings` gets; elements and levels are counted."""
    parts: list[bytes | bytearray] = []
    copied = address = elements = depth = marks = 0
    while address < len(content):
        mark = _MARK.search(content, address, address + CHUNK_BYTES)
        marks += 1
        if mark is None or marks % MARKS_AT_ONCE == 0:
            yield
        if mark is None:
            address += CHUNK_BYTES
            continue
        address, kind = mark.end(), mark[0]
        if kind == b'"':
            start, address = address, (yield from _end_of_text(content, address))
            if address - start > SHORT_BYTES:
                name = f"{token}-{len(strings)}"
                strings[name] = yield from _text(content, start, address - 1)
                parts += (content[copied:start], name.encode(), b'"')
                copied = address
        elif kind in b"]}":
            depth -= 1
        else:
            elements += 1
            depth += kind != b","
        if depth > MAX_DEPTH:
            raise TooHeavyError(f"it holds arrays and objects more than {MAX_DEPTH} deep in one another")
        if elements > MAX_ELEMENTS or marks > 4 * MAX_ELEMENTS:
            raise TooHeavyError(f"it holds more than {MAX_ELEMENTS:,} elements")
    return b"".join((*parts, content[copied:]))


def _end_of_text(content: bytes | bytearray, address: int) -> Generator[None, None, int]:
    """Yield the place after the quote that ends the text read from `address` on."""
    while address < len(content):
        stop = min(address + CHUNK_BYTES, len(content))
        quote = content.find(b'"', address, stop)
        if content.find(b"\\", address, stop if quote < 0 else quote) < 0:
            if quote >= 0:
                return quote + 1
            address = stop
        else:
            found = _TEXT.match(content, address, stop)
            address = found.end() if found else stop
            if content[address : address + 1] == b'"':
                return address + 1
            if address < stop:  # a backslash, whose escaped character is beyond the piece
                address += 2
        yield
    raise UnreadableError("it ends within a text")


def _text(content: bytes | bytearray, start: int, end: int) -> Generator[None, None, str]:
    """Yield the text between two places, read in chunks."""
    chunks: list[str] = []
    while start < end:
        cut = end
        stop = start + CHUNK_BYTES
        while cut == end and stop < end:
            seam = _SEAM.search(content, max(start + 1, stop - SEAM_BYTES), stop)
            cut = seam.start() if seam else end
            stop += SEAM_BYTES
        chunks.append(str(_loaded(b'"' + content[start:cut] + b'"')))
        start = cut
        yield
    return "".join(chunks)


def _with_strings(read: object, strings: Mapping[str, str]) -> object:
    """Return the value with its long texts in their places."""
    if isinstance(read, str):
        return strings.get(read, read)
    if isinstance(read, dict):
        return {strings.get(key, key): _with_strings(value, strings) for key, value in read.items()}
    if isinstance(read, list):
        return [_with_strings(value, strings) for value in read]
    return read
