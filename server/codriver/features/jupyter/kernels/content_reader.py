"""A JSON parser for message contents that limits their size and does not block the event loop.

`json.loads` holds the interpreter lock until it is done, even in a thread, which takes 2 ms for a megabyte of text. So
the number of elements and the depth of long contents are checked in chunks before anything is built. Long strings are
parsed in chunks and inserted afterwards, so that `json.loads` gets only the short remainder.

If the middle of a message's content was not stored, a marker replaces it. The result is valid JSON only if the gap is
within a single string.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Final, cast

from codriver.wire.head_and_tail import left_out_mark

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Mapping, Sequence


MAX_SHORT_BYTES: Final = 32 * 1024
"""Maximum size of strings and contents that are parsed at once."""
CHUNK_BYTES: Final = 32 * 1024
"""Number of bytes to process between two pauses."""
MAX_ELEMENTS: Final = 300_000
"""Maximum number of values and containers in a message's content, as in a notebook. Figures contain long lists, but
anything larger would fill the memory.
"""
MAX_NESTING_DEPTH: Final = 100
"""Maximum depth of nested arrays and objects, the same as in a notebook."""
TOKENS_PER_TURN: Final = 500
"""Number of tokens to scan between two pauses."""
MAX_CUT_DISTANCE_BYTES: Final = 4096
"""Maximum distance between the desired offset and the actual one when content is split."""

_TOKEN: Final = re.compile(rb'["\[\]{},]')
"""Matches a quote, bracket or comma."""
_STRING_BODY: Final = re.compile(rb'[^"\\]*+(?:\\.[^"\\]*+)*+', re.DOTALL)
"""Matches the text of a JSON string up to its closing quote."""
_SAFE_CUT_OFFSET: Final = re.compile(
    rb"(?<=[^\\]{12})[\x20-\x21\x23-\x5b\x5d-\x7e\xc2-\xf4]|(?<=[^\\])\\(?=[^u]|u[^dD]|u[dD][^c-fC-F])", re.DOTALL
)
"""Matches where a JSON string can be split: at the first byte of a character that is far from any escape, or at a
backslash that starts an escape and does not follow another backslash. Low surrogates do not match, because they belong
to the escape before them.
"""


class UnreadableContentError(Exception):
    """Raised when a message's content is not a JSON object or exceeds a limit. `cause` is the reason."""

    def __init__(self, cause: str) -> None:
        super().__init__(cause)
        self.cause = cause


class TooComplexError(UnreadableContentError):
    """Raised when a message's content has too many elements or is nested too deeply."""


def join_around_gap(head: Sequence[bytes], tail: Sequence[bytes], omitted_bytes: int) -> tuple[bytes, ...]:
    """Join the start and the end of a message's content, with a marker in place of the omitted bytes.

    The arguments and the result are lists of chunks. The result is valid JSON if the omitted bytes are part of one
    string.
    """
    if not omitted_bytes:
        return tuple(head)
    head_end, tail_start = _first_chunks(reversed(head)), _first_chunks(tail)
    head_bytes, tail_bytes = b"".join(reversed(head_end)), b"".join(tail_start)
    cuts = [
        match.start()
        for match in _SAFE_CUT_OFFSET.finditer(head_bytes, max(0, len(head_bytes) - MAX_CUT_DISTANCE_BYTES))
    ]
    tail_cut = _SAFE_CUT_OFFSET.search(tail_bytes, 0, MAX_CUT_DISTANCE_BYTES)
    end, start = cuts[-1] if cuts else len(head_bytes), tail_cut.start() if tail_cut else 0
    mark = json.dumps(left_out_mark(omitted_bytes + len(head_bytes) - end + start))[1:-1]
    return (
        *head[: len(head) - len(head_end)],
        head_bytes[:end],
        mark.encode(),
        tail_bytes[start:],
        *tail[len(tail_start) :],
    )


def _first_chunks(chunks: Iterable[bytes]) -> list[bytes]:
    """Return as many of the first chunks as are needed to find a position where the content can be split."""
    first: list[bytes] = []
    size = 0
    for chunk in chunks:
        if size >= 2 * MAX_CUT_DISTANCE_BYTES:
            break
        first.append(chunk)
        size += len(chunk)
    return first


def join_chunks(chunks: Sequence[bytes]) -> Generator[None, None, bytearray]:
    """Join chunks, yielding regularly to let other tasks run."""
    joined = bytearray(sum(map(len, chunks)))
    offset = 0
    for chunk in chunks:
        joined[offset : offset + len(chunk)] = chunk
        offset += len(chunk)
        yield
    return joined


def parse_content(content: bytes | bytearray, placeholder: str) -> Generator[None, None, Mapping[str, object]]:
    """Parse a message's content, yielding regularly to let other tasks run.

    `placeholder` must be a string that does not occur in the content, such as a random one.

    Raises:
        UnreadableContentError: the content is not a JSON object.
        TooComplexError: the content has too many elements or is nested too deeply.
    """
    if len(content) <= MAX_SHORT_BYTES and content.count(b"[") + content.count(b"{") <= MAX_NESTING_DEPTH:
        return _parse_object(content)
    strings: dict[str, str] = {}
    without_strings = yield from _without_long_strings(content, strings, placeholder)
    parsed = _parse_object(without_strings)
    if strings:
        parsed = cast("Mapping[str, object]", _with_strings(parsed, strings))
    return parsed


def _parse_object(content: bytes | bytearray) -> Mapping[str, object]:
    value = _load(content)
    if not isinstance(value, dict):
        raise UnreadableContentError(f"the content is a JSON {type(value).__name__} instead of an object")
    return cast("dict[str, object]", value)


def _load(text: bytes | bytearray) -> object:
    try:
        return json.loads(text.decode(errors="replace"))
    except ValueError as error:
        raise UnreadableContentError(f"the content is not valid JSON: {error}") from None


def _without_long_strings(
    content: bytes | bytearray, strings: dict[str, str], placeholder: str
) -> Generator[None, None, bytes]:
    """Replace long strings in the content with placeholders, and add the strings to `strings`.

    Raises:
        TooComplexError: the content has too many elements or is nested too deeply.
    """
    parts: list[bytes | bytearray] = []
    copied = offset = elements = depth = tokens = 0
    while offset < len(content):
        token = _TOKEN.search(content, offset, offset + CHUNK_BYTES)
        tokens += 1
        if token is None or tokens % TOKENS_PER_TURN == 0:
            yield
        if token is None:
            offset += CHUNK_BYTES
            continue
        offset, symbol = token.end(), token[0]
        if symbol == b'"':
            start, offset = offset, (yield from _end_of_string(content, offset))
            if offset - start > MAX_SHORT_BYTES:
                name = f"{placeholder}-{len(strings)}"
                strings[name] = yield from _parse_string(content, start, offset - 1)
                parts += (content[copied:start], name.encode(), b'"')
                copied = offset
        elif symbol in b"]}":
            depth -= 1
        else:
            elements += 1
            depth += symbol != b","
        if depth > MAX_NESTING_DEPTH:
            raise TooComplexError(f"arrays and objects are nested more than {MAX_NESTING_DEPTH} levels deep")
        if elements > MAX_ELEMENTS or tokens > 4 * MAX_ELEMENTS:
            raise TooComplexError(f"the content has more than {MAX_ELEMENTS:,} elements")
    return b"".join((*parts, content[copied:]))


def _end_of_string(content: bytes | bytearray, offset: int) -> Generator[None, None, int]:
    """Return the offset after the closing quote of the string whose first character is at `offset`."""
    while offset < len(content):
        stop = min(offset + CHUNK_BYTES, len(content))
        quote = content.find(b'"', offset, stop)
        if content.find(b"\\", offset, stop if quote < 0 else quote) < 0:
            if quote >= 0:
                return quote + 1
            offset = stop
        else:
            body = _STRING_BODY.match(content, offset, stop)
            offset = body.end() if body else stop
            if content[offset : offset + 1] == b'"':
                return offset + 1
            if offset < stop:  # at a backslash whose escaped character is in the next chunk
                offset += 2
        yield
    raise UnreadableContentError("the content ends within a string")


def _parse_string(content: bytes | bytearray, start: int, end: int) -> Generator[None, None, str]:
    """Parse the string between two offsets in chunks."""
    chunks: list[str] = []
    while start < end:
        cut = end
        stop = start + CHUNK_BYTES
        while cut == end and stop < end:
            match = _SAFE_CUT_OFFSET.search(content, max(start + 1, stop - MAX_CUT_DISTANCE_BYTES), stop)
            cut = match.start() if match else end
            stop += MAX_CUT_DISTANCE_BYTES
        chunks.append(str(_load(b'"' + content[start:cut] + b'"')))
        start = cut
        yield
    return "".join(chunks)


def _with_strings(value: object, strings: Mapping[str, str]) -> object:
    """Return the value with its placeholders replaced by the long strings."""
    if isinstance(value, str):
        return strings.get(value, value)
    if isinstance(value, dict):
        return {strings.get(key, key): _with_strings(item, strings) for key, item in value.items()}
    if isinstance(value, list):
        return [_with_strings(item, strings) for item in value]
    return value
