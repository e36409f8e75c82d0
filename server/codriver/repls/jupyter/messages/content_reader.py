"""Contents of messages, read from JSON of any shape: weighed before anything is built, and in turns where it is long.

`json.loads` holds the interpreter until it is done, in a thread as well: 2 ms for a megabyte of text. So of a long
content elements and depth are counted piece by piece, its long texts are read in pieces and put into their places
afterwards, and what is left for one call is short.

Of a content whose middle was not held, the text in which that lay gets a mark there; other contents cannot be mended.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Final, cast

from codriver.wire.head_and_tail import left_out_mark

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping

SHORT_BYTES: Final = 32 * 1024
"""A content, or a text in one, that is read at once."""
PIECE_BYTES: Final = 32 * 1024
MAX_ELEMENTS: Final = 300_000
"""Values and containers in one content, as of a notebook: figures are long lists, and more fills the memory."""
MAX_DEPTH: Final = 100
"""Arrays and objects within one another, as of a notebook."""
MARKS_AT_ONCE: Final = 500
SEAM_BYTES: Final = 4096
"""Where a text is cut, so far is looked for a place between two characters."""

_MARK: Final = re.compile(rb'["\[\]{},]')
_TEXT: Final = re.compile(rb'[^"\\]*+(?:\\.[^"\\]*+)*+', re.DOTALL)
_SEAM: Final = re.compile(
    rb"(?<=[^\\]{12})[\x20-\x21\x23-\x5b\x5d-\x7e\xc2-\xf4]|(?<=[^\\])\\(?=[^u]|u[^dD]|u[dD][^c-fC-F])", re.DOTALL
)
"""A place in a JSON text where a character begins: one far from any escape, or the backslash that begins one and does
not follow another. The second half of a surrogate pair is none."""


class UnreadableError(Exception):
    """A content is no JSON object, or too heavy to be read; `problem` says in which way."""

    def __init__(self, problem: str) -> None:
        super().__init__(problem)
        self.problem = problem


class TooHeavyError(UnreadableError):
    """A content has too many elements or levels to be read."""


def mended(head: bytes, tail: bytes, left_out: int) -> bytes:
    """A content of its beginning and its end, with a mark between them, as good JSON where both lie in one text."""
    if not left_out:
        return head
    ends = [found.start() for found in _SEAM.finditer(head, max(0, len(head) - SEAM_BYTES))]
    begins = _SEAM.search(tail, 0, SEAM_BYTES)
    end, start = ends[-1] if ends else len(head), begins.start() if begins else 0
    mark = json.dumps(left_out_mark(left_out + len(head) - end + start))[1:-1]
    return b"".join((head[:end], mark.encode(), tail[start:]))


def reading(content: bytes, token: str) -> Generator[None, None, Mapping[str, object]]:
    """Read a content; it yields wherever it can leave off. `token`: what stands in no content by accident.

    Raises:
        UnreadableError: it is no object of JSON.
        TooHeavyError: it has too many elements or levels.
    """
    if len(content) <= SHORT_BYTES:
        return _object(content)
    texts: dict[str, str] = {}
    short = yield from _without_long_texts(content, texts, token)
    whole = _object(short)
    if texts:
        whole = cast("Mapping[str, object]", _with_texts(whole, texts))
    return whole


def _object(content: bytes) -> Mapping[str, object]:
    read = _loaded(content)
    if not isinstance(read, dict):
        raise UnreadableError(f"it is a JSON {type(read).__name__}, and no object")
    return cast("dict[str, object]", read)


def _loaded(text: bytes) -> object:
    try:
        return json.loads(text.decode(errors="replace"))
    except RecursionError:
        raise TooHeavyError("arrays and objects lie too deep in one another") from None
    except ValueError as error:
        raise UnreadableError(f"it is no JSON: {error}") from None


def _without_long_texts(content: bytes, texts: dict[str, str], token: str) -> Generator[None, None, bytes]:
    """The content with a name in the place of each long text, which `texts` gets; elements and levels are counted."""
    kept: list[bytes] = []
    copied = place = elements = depth = marks = 0
    while place < len(content):
        mark = _MARK.search(content, place, place + PIECE_BYTES)
        marks += 1
        if mark is None or marks % MARKS_AT_ONCE == 0:
            yield
        if mark is None:
            place += PIECE_BYTES
            continue
        place, kind = mark.end(), mark[0]
        if kind == b'"':
            start, place = place, (yield from _end_of_text(content, place))
            if place - start > SHORT_BYTES:
                name = f"{token}-{len(texts)}"
                texts[name] = yield from _text(content, start, place - 1)
                kept += (content[copied:start], name.encode(), b'"')
                copied = place
        elif kind in b"]}":
            depth -= 1
        else:
            elements += 1
            depth += kind != b","
        if depth > MAX_DEPTH:
            raise TooHeavyError(f"it holds arrays and objects more than {MAX_DEPTH} deep in one another")
        if elements > MAX_ELEMENTS or marks > 4 * MAX_ELEMENTS:
            raise TooHeavyError(f"it holds more than {MAX_ELEMENTS:,} elements")
    return b"".join((*kept, content[copied:]))


def _end_of_text(content: bytes, place: int) -> Generator[None, None, int]:
    """The place after the quote that ends the text which is read from `place` on."""
    while place < len(content):
        stop = min(place + PIECE_BYTES, len(content))
        quote = content.find(b'"', place, stop)
        if content.find(b"\\", place, stop if quote < 0 else quote) < 0:
            if quote >= 0:
                return quote + 1
            place = stop
        else:
            found = _TEXT.match(content, place, stop)
            place = found.end() if found else stop
            if content[place : place + 1] == b'"':
                return place + 1
            if place < stop:  # a backslash, and what it escapes is beyond the piece
                place += 2
        yield
    raise UnreadableError("it ends within a text")


def _text(content: bytes, start: int, end: int) -> Generator[None, None, str]:
    """The text between two places, read in pieces."""
    pieces: list[str] = []
    while start < end:
        cut = end
        stop = start + PIECE_BYTES
        while cut == end and stop < end:
            seam = _SEAM.search(content, max(start + 1, stop - SEAM_BYTES), stop)
            cut = seam.start() if seam else end
            stop += SEAM_BYTES
        pieces.append(str(_loaded(b'"' + content[start:cut] + b'"')))
        start = cut
        yield
    return "".join(pieces)


def _with_texts(read: object, texts: Mapping[str, str]) -> object:
    """The value with its long texts in their places."""
    if isinstance(read, str):
        return texts.get(read, read)
    if isinstance(read, dict):
        return {texts.get(key, key): _with_texts(value, texts) for key, value in read.items()}
    if isinstance(read, list):
        return [_with_texts(value, texts) for value in read]
    return read
