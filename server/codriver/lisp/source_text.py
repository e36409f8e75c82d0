"""Source text with its editable forms, line numbers and line endings."""

from __future__ import annotations

from collections import Counter
from functools import cached_property
from typing import TYPE_CHECKING

from codriver.lisp.bracket_errors import explain
from codriver.lisp.editable_forms import Unit, units
from codriver.lisp.indentation import width
from codriver.lisp.reader import read
from codriver.lisp.tokens import LINE_END, Places

if TYPE_CHECKING:
    from collections.abc import Mapping

_BLANK = " \t\f,"

SHOWN_CHARS = 200
"""Of a line that is shown; generated files have lines of any length."""


class Document:
    """Text with its forms, read once. It has no byte order mark. Hy (`is_hy`) binds names in ways of its own."""

    def __init__(self, text: str, *, is_hy: bool = False) -> None:
        self.text = text
        self.is_hy = is_hy
        self.reading = read(text)
        self.places = Places(text)

    @cached_property
    def ending(self) -> str:
        """The line ending of the text: its most frequent one."""
        counted = Counter(LINE_END.findall(self.text)).most_common(1)
        return counted[0][0] if counted else "\n"

    @cached_property
    def sound_end(self) -> int:
        """Where the part of the text ends whose forms can be trusted: all of it, when it balances.

        A closer too many may have ended the form before it too early, so that form is not trusted either.
        """
        fault = self.reading.fault
        if fault is None:
            return len(self.text)
        return max((form.start for form in self.reading.forms if form.start <= fault.at), default=0)

    @cached_property
    def complaint(self) -> str | None:
        """Why the text does not balance, in words."""
        return None if self.reading.fault is None else explain(self.text, self.reading.fault).message

    @cached_property
    def units(self) -> tuple[Unit, ...]:
        """All forms that can be edited, a form before those in it, in the order of the text."""
        return units(self.text, self.reading.forms, self.places)

    @cached_property
    def units_by_line(self) -> Mapping[int, tuple[Unit, ...]]:
        """The units that begin on a line, in order, by line."""
        found: dict[int, list[Unit]] = {}
        for unit in self.units:
            found.setdefault(unit.line, []).append(unit)
        return {line: tuple(units) for line, units in found.items()}

    def line_text(self, line: int) -> str:
        """The text of a line, without its ending."""
        start = self.places.start(line)
        found = LINE_END.search(self.text, start)
        return self.text[start : found.start() if found else len(self.text)]

    def begins_line(self, unit: Unit) -> bool:
        """Whether the unit is the first on its line."""
        start = self.places.start(unit.line)
        return start >= unit.floor and not self.text[start : unit.start].strip(_BLANK)

    def indentation(self, unit: Unit) -> str:
        """What a line must begin with to stand as far right as the unit."""
        start = self.places.start(unit.line)
        before = self.text[start : unit.start]
        code = before.lstrip(_BLANK)
        return before[: len(before) - len(code)] + " " * width(code)

    def with_comments(self, unit: Unit) -> int:
        """Where the unit begins with the comments attached to it: whole lines directly above, no blank line between."""
        begin = unit.start
        if not self.begins_line(unit):
            return begin
        for line in range(unit.line - 1, 0, -1):
            start = self.places.start(line)
            text = self.line_text(line)
            code = text.lstrip(_BLANK)
            # A comment behind the elder is the elder's, also where that is a backslash with the line end it takes.
            if start < unit.floor + unit.has_elder or not code.startswith(";"):
                break
            begin = start + len(text) - len(code)
        return begin

    def end_of_line(self, unit: Unit) -> int:
        """Where the unit ends with the comment behind it on its last line, if it has one."""
        line = self.places.line(unit.end)
        rest = self.line_text(line)[unit.end - self.places.start(line) :]
        return unit.end + len(rest) if rest.lstrip(_BLANK).startswith(";") else unit.end

    def numbered(self, line: int, context: int) -> str:
        """The lines around `line`, `context` each way, each with its number; `→` is at `line`. Long lines are cut."""
        count = self.places.count
        if count > 1 and line != count and not self.line_text(count):
            count -= 1  # the empty line behind the last line ending is none to a person
        first, last = max(1, line - context), min(count, line + context)
        if first > last:
            first, last = max(1, count - context), count
        width = len(str(last))
        rows = []
        for number in range(first, last + 1):
            text = self.line_text(number)
            shown = text if len(text) <= SHOWN_CHARS else text[: SHOWN_CHARS - 1] + "…"
            rows.append(f"{'→' if number == line else ' '} {number:>{width}} {shown}".rstrip())
        return "\n".join(rows)
