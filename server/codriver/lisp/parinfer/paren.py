"""Paren mode: brackets are trusted, and say how far lines are indented."""

from __future__ import annotations

from typing import TYPE_CHECKING

from codriver.lisp.parinfer.run import Run, splice

if TYPE_CHECKING:
    from codriver.lisp.parinfer.result import Place
    from codriver.lisp.parinfer.run import Opener, Trail


class ParenRun(Run):
    """One pass that moves each line of code to where its bracket and its elder siblings allow."""

    def __init__(self) -> None:
        super().__init__()
        self._appended: dict[int, tuple[int, list[str]]] = {}  # closers to insert, by line, at a column
        self._max_x: int | None = None  # how far right a top-level line may begin

    def _leading_closer(self, closer: str, place: Place) -> None:
        """The closer goes to the trail before.

        Raises:
            StopError: it matches nothing.
        """
        if not self._stack or self._stack[-1].closer != closer:
            self._stop("unmatched-close-paren", place, self._stack[-1].place if self._stack else None)
        opener = self._stack.pop()
        self._limit_siblings(opener)
        trail = self._trail
        if trail is not None:
            self._appended.setdefault(trail.line, (trail.end, []))[1].append(closer)
            trail.end += 1
            trail.openers.append(opener)

    def _place_code(self) -> None:
        """The line moves right of its bracket, and not beyond its elder siblings."""
        opener = self._stack[-1] if self._stack else None
        x = self._x
        if opener is None:
            limit = self._max_x
        else:
            if opener.shift != self._shift:
                x += opener.shift
            x = max(x, opener.x + 1)
            limit = opener.max_child_x
        x = x if limit is None else min(x, limit)
        if x != self._x:
            self._move(x - self._x)

    def _enclosing(self) -> list[Opener]:
        """Those too that the last trail closes."""
        return self._stack if self._trail is None else self._stack + self._trail.openers[::-1]

    def _stray_closer(self, index: int, place: Place) -> None:
        del index
        self._stop("unmatched-close-paren", place, self._stack[-1].place if self._stack else None)

    def _end_line(self) -> None:
        trail = self._trail
        if trail is None or trail.line != self._number:
            return
        if self._string is not None:
            self._trail = None
            return
        if trail.openers:
            self._limit_siblings(trail.openers[-1])
        self._clean(trail)

    def _finish(self) -> None:
        if self._stack:
            self._stop("unclosed-paren", self._stack[-1].place)
        for number, (x, closers) in self._appended.items():
            self.lines[number] = splice(self.lines[number], x, x, "".join(closers))

    def _limit_siblings(self, opener: Opener) -> None:
        """What follows `opener` in the same bracket begins no further right."""
        if self._stack:
            self._stack[-1].max_child_x = opener.x
        else:
            self._max_x = opener.x

    def _clean(self, trail: Trail) -> None:
        """Take the spaces out of the trail of the current line."""
        line = self.lines[-1]
        closers = line[trail.start : trail.end].replace(" ", "")
        if len(closers) < trail.end - trail.start:
            self.lines[-1] = splice(line, trail.start, trail.end, closers)
            trail.end = trail.start + len(closers)
