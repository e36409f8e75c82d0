"""A JSON text read piece by piece: one value of it at a time is in memory, however long the whole is."""

from __future__ import annotations

import codecs
import json
import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

MAX_VALUE_CHARACTERS = 8 * 2**20  # eight times the longest code that was ever kept whole
MAX_PLAIN_CHARACTERS = 10_000  # outside of strings: an entity has some 30, and 8 MiB of brackets are 200 MiB as lists
SPACE = re.compile(r"[ \t\r\n]*+")
STRING = re.compile(r'"(?:[^"\\]++|\\.)*+"', re.DOTALL)
STRING_REST = re.compile(r'(?:[^"\\]++|\\.)*+', re.DOTALL)
MARK = re.compile(r'["\[\]{}]')
FLAT = re.compile(r'\[(?:[^"\[\]{}]++|"(?:[^"\\]++|\\.)*+")*+\]', re.DOTALL)
"""A list of strings and numbers, as nearly all are."""
ATOM = re.compile(r"[^\s,:\[\]{}\"]*+")


class PiecesError(ValueError):
    """The text is no JSON, or a value of it is longer than any that is read."""


def parsed(text: str) -> Any:
    """The JSON value of a text that is already bounded in length, unless it would take far more memory than the text.

    Raises:
        PiecesError: it is none, or too large.
    """
    if len(text) > MAX_PLAIN_CHARACTERS and len(STRING.sub("", text)) > MAX_PLAIN_CHARACTERS:
        raise PiecesError(f"a value has more than {MAX_PLAIN_CHARACTERS} characters outside of strings")
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise PiecesError(f"no JSON: {error}") from None


class Pieces:
    """The text of a file from its beginning on. Everything but `__init__` raises PiecesError at what is not expected.

    Spaces between values are passed over.
    """

    def __init__(self, chunks: Iterable[bytes]) -> None:
        self._chunks: Iterator[str] = codecs.iterdecode(iter(chunks), "utf-8")
        self._text = ""
        self._place = 0

    def next_mark(self) -> str:
        """The next character, which stays; nothing at the end."""
        while True:
            space = SPACE.match(self._text, self._place)
            self._place = space.end() if space else self._place
            if self._place < len(self._text):
                return self._text[self._place]
            if not self._more():
                return ""

    def has(self, marks: str) -> str:
        """The next character if it is one of these, which is then read; else nothing."""
        mark = self.next_mark()
        if not mark or mark not in marks:
            return ""
        self._place += 1
        return mark

    def take(self, marks: str) -> str:
        """The next character, which has to be one of these."""
        mark = self.has(marks)
        if not mark:
            found = self.next_mark()
            raise PiecesError(f"{found} where one of {marks} belongs" if found else "it ends too early")
        return mark

    def value(self) -> str:
        """The next value as it is written."""
        mark = self.next_mark()
        if self._place > len(self._text) // 2:
            self._text, self._place = self._text[self._place :], 0
        start = self._place
        if mark == "[" and (flat := FLAT.match(self._text, start)):
            self._place = flat.end()
        elif mark and mark in "[{":
            self._place = self._container(start)
        else:
            self._place = self._string(start + 1) if mark == '"' else self._atom(start)
        return self._text[start : self._place]

    def _container(self, place: int) -> int:
        depth = marks = 0
        while marks <= MAX_PLAIN_CHARACTERS:
            found = MARK.search(self._text, place)
            if found is None:
                place = len(self._text)
                self._need_more()
                continue
            place = found.end()
            marks += 1
            if found[0] == '"':
                place = self._string(place)
            else:
                depth += 1 if found[0] in "[{" else -1
            if depth == 0:
                return place
        raise PiecesError(f"a value has more than {MAX_PLAIN_CHARACTERS} parts")

    def _string(self, place: int) -> int:
        """Where a string ends whose first character stands at `place`."""
        while True:
            rest = STRING_REST.match(self._text, place)
            place = rest.end() if rest else place
            if self._text.startswith('"', place):
                return place + 1
            self._need_more()

    def _atom(self, start: int) -> int:
        end = start
        while True:
            atom = ATOM.match(self._text, end)
            end = atom.end() if atom else end
            if end < len(self._text) or not self._grow():
                if end == start:
                    raise PiecesError("a value is missing")
                return end

    def _need_more(self) -> None:
        if not self._grow():
            raise PiecesError("it ends too early")

    def _more(self) -> bool:
        """Whether there was more to read; what is used is forgotten."""
        self._text, self._place = self._text[self._place :], 0
        return self._grow()

    def _grow(self) -> bool:
        """The same, while a value is read that is not whole yet."""
        if len(self._text) - self._place > MAX_VALUE_CHARACTERS:
            raise PiecesError(f"a value has more than {MAX_VALUE_CHARACTERS} characters")
        try:
            chunk = next(self._chunks, "")
        except UnicodeDecodeError as error:
            raise PiecesError(f"no UTF-8: {error.reason}") from None
        self._text += chunk
        return bool(chunk)
