"""Indent mode: indentation is trusted, and says where brackets end."""

from __future__ import annotations

from typing import TYPE_CHECKING

from codriver.lisp.parinfer.run import Run, splice

if TYPE_CHECKING:
    from codriver.lisp.parinfer.result import Place
    from codriver.lisp.parinfer.run import Opener


class IndentRun(Run):
    """One pass that puts the closers of each trail where the next line of code says by its indentation."""

    def __init__(self) -> None:
        super().__init__()
        # Of the current line alone:
        self._leading: Place | None = None
        self._unmatched: tuple[int, Place, Place | None] | None = None  # x, place, the place of the open bracket

    def _leading_closer(self, closer: str, place: Place) -> None:
        """The closer is gone for good."""
        del closer
        self._leading = self._leading or place

    def _place_code(self) -> None:
        """The line decides which brackets end, and moves with the one that it stands in."""
        self._correct_trail()
        opener = self._stack[-1] if self._stack else None
        if opener is not None and opener.shift != self._shift:
            self._move(opener.shift)

    def _enclosing(self) -> list[Opener]:
        return self._stack

    def _stray_closer(self, index: int, place: Place) -> None:
        """The closer is taken away; whether it is an error shows at the end of its line."""
        if self._unmatched is None:
            self._unmatched = self._x, place, self._stack[-1].place if self._stack else None
        self._edits.append((index, self._x, ""))
        self._shift -= 1

    def _end_line(self) -> None:
        """Take back the closers of the line's trail.

        Raises:
            StopError: a closer before the trail matches nothing, or a closer leads a line that has code.
        """
        trail, leading, unmatched = self._trail, self._leading, self._unmatched
        self._leading = self._unmatched = None
        if unmatched is not None:
            x, place, opener = unmatched
            if trail is not None and x < trail.start:
                last = self._stack[-1].place if self._stack else None
                self._stop("unmatched-close-paren", place, opener or last)
        if trail is None or trail.line != self._number:
            return
        if leading is not None:
            self._stop("leading-close-paren", leading)
        if self._string is not None:
            self._trail = None
        elif trail.start != trail.end:
            self._stack += reversed(trail.openers)
            trail.openers = []

    def _finish(self) -> None:
        self._x = self._shift = 0
        self._correct_trail()

    def _correct_trail(self) -> None:
        """Close in the last trail what ends before code that begins at the current column."""
        ended = self._ended(self._stack)
        closed = self._stack[len(self._stack) - ended :][::-1]
        del self._stack[len(self._stack) - ended :]
        trail = self._trail
        if trail is None:
            return
        closers = "".join(opener.closer for opener in closed)
        line = self.lines[trail.line]
        if line[max(trail.start, 0) : max(trail.end, 0)] != closers:
            self.lines[trail.line] = splice(line, trail.start, trail.end, closers)
        trail.end = trail.start + len(closers)
