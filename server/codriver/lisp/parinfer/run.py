"""One pass over a text, as both modes of parinfer make it: code, strings, comments, brackets, and trails."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, NoReturn

from codriver.lisp.parinfer.result import ParinferError
from codriver.lisp.tokens import CLOSERS

if TYPE_CHECKING:
    from codriver.lisp.parinfer.result import Place

_SPECIAL = re.compile(r"""[()\[\]{}";\\\t]""")
_STRING_REST = re.compile(r'(?:[^"\\]|\\.)*+', re.DOTALL)
_QUOTE = re.compile(r'\\.|(?P<quote>")', re.DOTALL)


class StopError(Exception):
    """Ends a run that found an error."""

    def __init__(self, error: ParinferError) -> None:
        super().__init__(error.message)
        self.error = error


class Opener:
    """An open bracket. `x` and `shift` are of its line as corrected: where it stands, how far the line has moved."""

    __slots__ = ("closer", "max_child_x", "place", "shift", "x")

    def __init__(self, closer: str, x: int, shift: int, place: Place) -> None:
        self.closer = closer
        self.x = x
        self.shift = shift
        self.place = place
        self.max_child_x: int | None = None


class Trail:
    """The last trail: line and columns as corrected, and the brackets its closers close, innermost first."""

    __slots__ = ("end", "line", "openers", "start")

    def __init__(self, line: int, x: int) -> None:
        self.line = line
        self.start = x
        self.end = x
        self.openers: list[Opener] = []


def splice(line: str, start: int, end: int, new: str) -> str:
    """`line` with `new` for what is from `start` to `end`; a place before the line is its beginning."""
    return line[: max(start, 0)] + new + line[max(end, 0) :]


class Run(ABC):
    """What both modes do in one pass over a text, line by line, and what each does its own way.

    Fields of the second group are of the current line alone.
    """

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._stack: list[Opener] = []
        self._trail: Trail | None = None
        self._has_shifted = False
        self._string: Place | None = None  # where the open string begins
        self._danger: Place | None = None  # a quote in a comment that waits for its fellow

        self._number = -1
        self._x = 0
        self._shift = 0
        self._edits: list[tuple[int, int, str]] = []  # (index in the line given, x, what the character there becomes)

    def line(self, line: str) -> None:
        """Correct the next line."""
        self._number += 1
        self._x = self._shift = 0
        self._edits = []
        if self._string is None:
            begin = self._indentation(line)
            first = self._x
            at = begin
        else:
            begin = first = 0
            at = self._string_rest(line, 0)
        while at < len(line):
            at = self._code(line, at)
        self.lines.append(self._corrected(line, begin, first))
        self._end_line()

    def end(self) -> None:
        """Correct what the end of the text decides.

        Raises:
            StopError: a string, a comment's quote or, in paren mode, a bracket is still open.
        """
        if self._danger is not None:
            self._stop("quote-danger", self._danger)
        if self._string is not None:
            self._stop("unclosed-quote", self._string)
        self._finish()

    @abstractmethod
    def _leading_closer(self, closer: str, place: Place) -> None:
        """A closer before any code of its line is taken away."""

    @abstractmethod
    def _place_code(self) -> None:
        """The line's first code is here: decide what that means, or where else it belongs."""

    @abstractmethod
    def _enclosing(self) -> list[Opener]:
        """The brackets that a comment alone on its line may stand in."""

    @abstractmethod
    def _stray_closer(self, index: int, place: Place) -> None:
        """A closer behind code does not close the last bracket."""

    @abstractmethod
    def _end_line(self) -> None:
        """Check and finish the trail, if the line has one of its own."""

    @abstractmethod
    def _finish(self) -> None:
        """Correct what the end of the text decides."""

    def _stop(self, name: str, place: Place, opener: Place | None = None) -> NoReturn:
        raise StopError(ParinferError(name, *place, opener))

    def _corrected(self, line: str, begin: int, first: int) -> str:
        """`line` with its edits, whose code begins at the index `begin` and was moved to the column `first`."""
        if first < 0:  # moved beyond the margin: columns are wrong from here on, as the edits of parinfer.js are
            corrected = line[begin:]
            for _, x, new in self._edits:
                corrected = splice(corrected, x, x + 1, new)
            return splice(corrected, self._x, self._x + 1, "")
        parts, at = [" " * first], begin
        for index, _, new in self._edits:
            parts += line[at:index], new
            at = index + 1
        return "".join([*parts, line[at:]])

    def _indentation(self, line: str) -> int:
        """Pass what stands before the first code of `line`, and place that code: its index."""
        for index, character in enumerate(line):
            if character == " ":
                self._x += 1
            elif character == "\t":
                self._x += 2
                self._shift -= 3
            elif character in ")]}":
                self._leading_closer(character, (self._number, index))
                self._shift -= 1
            elif character == ";":
                self._comment_line()
                return index
            else:
                self._first_code()
                return index
        return len(line)

    def _first_code(self) -> None:
        """The line's code begins here."""
        if self._danger is not None:
            self._stop("quote-danger", self._danger)
        self._place_code()

    def _comment_line(self) -> None:
        """A comment alone on its line moves with the bracket it stands in, and decides nothing."""
        if not self._has_shifted:
            return
        stack = self._enclosing()
        count = self._ended(stack)
        if count < len(stack):
            opener = stack[-1 - count]
            if opener.shift != self._shift:
                self._move(opener.shift)

    def _move(self, columns: int) -> None:
        """Move the line's code."""
        self._x += columns
        self._shift += columns

    def _ended(self, stack: list[Opener]) -> int:
        """How many brackets of `stack`, from its top, end before code that begins at the current column.

        A line belongs into a bracket that stands left of it. Where that has changed because one of both moved, a line
        is kept in its bracket only if it did not move itself, and goes into a new one only if the bracket moved left
        against it.
        """
        for count, opener in enumerate(reversed(stack)):
            is_in = opener.x < self._x
            was_in = opener.x - opener.shift < self._x - self._shift
            if was_in and (is_in or self._shift == 0):
                return count
            if is_in and not was_in:
                outer = stack[-2 - count] if count + 1 < len(stack) else None
                if outer is None:
                    adopts = self._shift > opener.shift
                else:
                    adopts = outer.shift > opener.shift or self._x + outer.shift > opener.x
                if adopts:
                    opener.shift = 0
                    return count
        return len(stack)

    def _code(self, line: str, at: int) -> int:
        """Pass code up to the next character that means something to us, and that: the index behind."""
        found = _SPECIAL.search(line, at)
        end = found.start() if found else len(line)
        if end > at:
            length = len(line[at:end].rstrip(" "))
            if length:
                self._trail = Trail(self._number, self._x + length)
            self._x += end - at
        if found is None:
            return end
        match found[0]:
            case "(" | "[" | "{":
                place = self._number, end
                self._stack.append(Opener(CLOSERS[found[0]], self._x, self._shift, place))
                self._has_shifted = self._has_shifted or self._shift != 0
            case ")" | "]" | "}":
                self._closer(found[0], end)
                return end + 1
            case '"':
                self._string = self._number, end
                self._x += 1
                return self._string_rest(line, end + 1)
            case ";":
                return self._comment(line, end)
            case "\\":
                if end + 1 == len(line):
                    self._stop("eol-backslash", (self._number, end))
                self._x += 1
                end += 1
            case _:
                self._edits.append((end, self._x, "  "))
                self._x += 2
                self._shift -= 3
                return end + 1
        self._x += 1
        self._trail = Trail(self._number, self._x)
        return end + 1

    def _closer(self, closer: str, index: int) -> None:
        """A closer behind code closes the last bracket, or is no good."""
        place = self._number, index
        opener = self._stack[-1] if self._stack else None
        if opener is not None and opener.closer == closer:
            self._stack.pop()
            self._x += 1
            if self._trail is not None:
                self._trail.end = self._x
                self._trail.openers.append(opener)
            return
        self._stray_closer(index, place)

    def _string_rest(self, line: str, at: int) -> int:
        """Pass the open string as far as it goes in this line: the index behind."""
        found = _STRING_REST.match(line, at)
        end = found.end() if found else at
        if end < len(line) and line[end] == '"':
            self._string = None
            self._x += end + 1 - at
            self._trail = Trail(self._number, self._x)
            return end + 1
        self._x += len(line) - at
        return len(line)

    def _comment(self, line: str, at: int) -> int:
        """Pass the comment that begins at `at`, watching its quotes: the line's length."""
        for found in _QUOTE.finditer(line, at):
            if found["quote"]:
                self._danger = None if self._danger else (self._number, found.start())
        self._x += len(line) - at
        return len(line)
