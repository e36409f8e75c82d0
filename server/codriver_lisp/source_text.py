"""A source text with its editable forms, their comments, and its line numbers and line endings."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

from codriver_lisp.errors import truncate
from codriver_lisp.indentation import display_width
from codriver_lisp.reader import LINE_END_PATTERN, Positions, describe_imbalance, read_forms

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from codriver_lisp.reader import Form


CONTAINER_HEADS = frozenset({"comment", "clojure.core/comment", "cljs.core/comment", "basilisp.core/comment", "do"})
"""Heads of lists whose inner forms count as top-level forms."""

_BLANK_CHARACTERS = " \t\f,"
_HINT_PATTERN = re.compile(r"#_[\s,]*\{?[\s,]*:[\w.*+!?-]+/")
"""Matches the start of a hint to a linter or formatter.

A hint is a discarded keyword with a namespace, or a discarded map that starts with such a keyword.

Sources: clj-kondo, "Configuration"; cljfmt, "Ignoring forms".
"""
_SPACE_TO_NEXT_LINE_PATTERN = re.compile(r"[ \t\f,]*(?:\r\n|\r|\n)?[ \t\f,]*")
MAX_LINE_CHARACTERS = 200
"""Maximum number of characters per line in a message. Lines in generated files can be very long."""


@dataclass(frozen=True, slots=True)
class Unit:
    """A form that can be edited: a top-level form, or one in a `(comment …)`, a `(do …)` or a reader conditional.

    In a branch of `#?@`, the spliced forms are units as well. A discarded form can be a unit.

    Between the offsets `floor` and `ceiling`, there are only the form, whitespace and comments. `floor` is the end of
    the previous sibling, of the word `comment` or `do`, or of the feature of a branch, or the start of the text.
    `ceiling` is the start of the next sibling or of the closing bracket (`ceiling_closes`), or the end of the text.
    `has_previous_sibling` is true if there is one. A unit that `is_branch` has no siblings, because a branch is one
    feature and one form.
    """

    start: int
    end: int
    line: int
    floor: int
    ceiling: int
    has_previous_sibling: bool
    is_nested: bool
    is_branch: bool
    ceiling_closes: bool


@dataclass(frozen=True, slots=True)
class _Group:
    """Sibling forms between two offsets. In a reader conditional, features and forms alternate."""

    forms: Sequence[Form]
    floor: int
    ceiling: int
    is_nested: bool = True
    are_branches: bool = False
    are_spliced: bool = False


def find_units(text: str, forms: Sequence[Form], positions: Positions) -> tuple[Unit, ...]:
    """Return all editable forms in a source text in order, with outer forms before inner ones."""
    found: list[Unit] = []
    groups = [_Group(forms, 0, len(text), is_nested=False)]
    while groups:
        group = groups.pop()
        floor, is_feature = group.floor, True
        starts = [*(form.start for form in group.forms[1:]), group.ceiling]
        for index, form in enumerate(group.forms):
            is_last = index == len(group.forms) - 1
            if not group.are_branches or not (is_feature or form.kind == "discard"):
                found.append(
                    Unit(
                        form.start,
                        form.end,
                        positions.line(form.start),
                        floor,
                        starts[index],
                        has_previous_sibling=index > 0,
                        is_nested=group.is_nested,
                        is_branch=group.are_branches,
                        ceiling_closes=group.is_nested and is_last,
                    )
                )
                inner = _spliced_group(text, form) if group.are_spliced else _inner_group(text, form)
                if inner is not None:
                    groups.append(inner)
            is_feature ^= form.kind != "discard"
            floor = form.end
    return tuple(sorted(found, key=lambda unit: (unit.start, -unit.end)))


def _inner_group(text: str, form: Form) -> _Group | None:
    """Return the editable forms directly inside a form, or None if there are none."""
    if form.kind == "prefixed" and text.startswith("#?", form.start):
        operands = [child for child in form.children if child.kind != "discard"]
        if operands and operands[-1].kind == "list":
            is_splicing = text.startswith("#?@", form.start)
            return _bracket_group(text, operands[-1], are_branches=True, are_spliced=is_splicing)
    elif form.kind == "list":
        children = form.children
        head = children[0] if children else None
        if head is not None and head.kind == "atom" and text[head.start : head.end] in CONTAINER_HEADS:
            return _bracket_group(text, form, skip=1)
    return None


def _spliced_group(text: str, form: Form) -> _Group | None:
    """Return the forms that a branch of `#?@` splices in, or None if there are none."""
    return _bracket_group(text, form) if form.kind in ("vector", "list") and text[form.start] != "#" else None


def _bracket_group(
    text: str, form: Form, *, skip: int = 0, are_branches: bool = False, are_spliced: bool = False
) -> _Group | None:
    """Return the forms inside a bracket, without the first `skip`.

    Returns None if the last form is an incomplete prefix, which would absorb a form added after it.
    """
    children = form.children
    if len(children) <= skip or _is_incomplete(text, children[-1]):
        return None
    floor = children[skip - 1].end if skip else form.start + 1
    return _Group(children[skip:], floor, form.end - 1, are_branches=are_branches, are_spliced=are_spliced)


def _is_incomplete(text: str, form: Form) -> bool:
    """Return whether a form is a prefix that lacks a form and would therefore absorb the next one."""
    while form.kind in ("prefixed", "discard"):
        operands = [child for child in form.children if child.kind != "discard"]
        if len(operands) < (2 if text.startswith(("^", "#^"), form.start) else 1):
            return True
        form = operands[-1]
    return False


class Document:
    """A source text that is parsed once, with its forms and line numbers.

    The text must not start with a byte order mark. If `is_hy`, the text is Hy, which has its own binding forms.
    """

    def __init__(self, text: str, *, is_hy: bool = False) -> None:
        self.text = text
        self.is_hy = is_hy
        self.reading = read_forms(text)
        self.positions = Positions(text)

    @cached_property
    def ending(self) -> str:
        """Return the most frequent line ending of the text."""
        counted = Counter(LINE_END_PATTERN.findall(self.text)).most_common(1)
        return counted[0][0] if counted else "\n"

    @cached_property
    def trusted_end(self) -> int:
        """Return the offset up to which the forms are certain, even if the text is not balanced.

        An extra closer may have ended the form before it too early, so that form is not certain either.
        """
        error = self.reading.imbalance
        if error is None:
            return len(self.text)
        return max((form.start for form in self.reading.forms if form.start <= error.at), default=0)

    @cached_property
    def bracket_error(self) -> str | None:
        """Return the reason why the text is not balanced, or None if it is balanced."""
        return None if self.reading.imbalance is None else describe_imbalance(self.text, self.reading.imbalance).message

    @cached_property
    def units(self) -> tuple[Unit, ...]:
        """Return all editable forms in order, with outer forms before inner ones."""
        return find_units(self.text, self.reading.forms, self.positions)

    @cached_property
    def units_by_line(self) -> Mapping[int, tuple[Unit, ...]]:
        """Return the units that start on each line, by line number."""
        found: dict[int, list[Unit]] = {}
        for unit in self.units:
            found.setdefault(unit.line, []).append(unit)
        return {line: tuple(units) for line, units in found.items()}

    def line_text(self, line: int) -> str:
        """Return the text of a line without its line ending."""
        start = self.positions.line_start(line)
        found = LINE_END_PATTERN.search(self.text, start)
        return self.text[start : found.start() if found else len(self.text)]

    def begins_line(self, unit: Unit) -> bool:
        """Return whether the unit is the first code on its line."""
        start = self.positions.line_start(unit.line)
        return start >= unit.floor and not self.text[start : unit.start].strip(_BLANK_CHARACTERS)

    def indentation(self, unit: Unit) -> str:
        """Return whitespace that reaches the column where the unit starts."""
        start = self.positions.line_start(unit.line)
        before = self.text[start : unit.start]
        code = before.lstrip(_BLANK_CHARACTERS)
        return before[: len(before) - len(code)] + " " * display_width(code)

    @cached_property
    def _hints(self) -> Mapping[int, Unit]:
        """Return the discarded forms that are hints to tools, by their end offsets."""
        return {unit.end: unit for unit in self.units if _HINT_PATTERN.match(self.text, unit.start)}

    def with_hints(self, unit: Unit) -> Unit:
        """Return the unit including hints to tools before it, such as `#_:clj-kondo/ignore`.

        The hints can be on the same line or the line above.
        """
        while (hint := self._hints.get(unit.floor)) is not None and unit.has_previous_sibling:
            if _SPACE_TO_NEXT_LINE_PATTERN.fullmatch(self.text, hint.end, self.start_with_comments(unit)) is None:
                break
            unit = replace(
                unit, start=hint.start, line=hint.line, floor=hint.floor, has_previous_sibling=hint.has_previous_sibling
            )
        return unit

    def start_with_comments(self, unit: Unit) -> int:
        """Return the offset where the comments directly above the unit start, or where the unit starts."""
        begin = unit.start
        if not self.begins_line(unit):
            return begin
        for line in range(unit.line - 1, 0, -1):
            start = self.positions.line_start(line)
            text = self.line_text(line)
            code = text.lstrip(_BLANK_CHARACTERS)
            # A comment on the last line of the previous form belongs to that form, even if the form is a backslash
            # literal that includes the line ending.
            if start < unit.floor + unit.has_previous_sibling or not code.startswith(";"):
                break
            begin = start + len(text) - len(code)
        return begin

    def end_of_line(self, unit: Unit) -> int:
        """Return the end of the comment after the unit on its last line, or the end of the unit if there is none."""
        line = self.positions.line(unit.end)
        rest = self.line_text(line)[unit.end - self.positions.line_start(line) :]
        return unit.end + len(rest) if rest.lstrip(_BLANK_CHARACTERS).startswith(";") else unit.end

    def numbered_lines(self, line: int, context: int) -> str:
        """Return the lines around `line` with their numbers, for messages. `line` itself is marked with `→`.

        `context` is the number of lines before and after `line`. Long lines are truncated.
        """
        count = self.positions.count
        if count > 1 and line != count and not self.line_text(count):
            count -= 1  # editors do not number the empty line after the last line ending
        first, last = max(1, line - context), min(count, line + context)
        if first > last:
            first, last = max(1, count - context), count
        width = len(str(last))
        rows = []
        for number in range(first, last + 1):
            visible = truncate(self.line_text(number), MAX_LINE_CHARACTERS)
            rows.append(f"{'→' if number == line else ' '} {number:>{width}} {visible}".rstrip())
        return "\n".join(rows)
