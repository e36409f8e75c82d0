"""A JSON parser for the contents of messages, which limits their size and does not block the event loop.

`json.loads` holds the interpreter lock until it is done, even in a thread: 2 ms for a megabyte of text. So the elements
and the depth of a long content are counted in chunks before anything is built. Its long strings are parsed in chunks
and inserted afterwards, so that `json.loads` only gets the short rest.

If the middle of a content was not stored, a mark replaces it. That only results in valid JSON if the gap is within one
string.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Final, cast

from codriver.wire.head_and_tail import left_out_mark

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Mapping, Sequence


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
