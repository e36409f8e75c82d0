"""A source text with its editable forms, their comments, and its line numbers and line endings.

An edit identifies the form to change by the line number and the text of the form's first line. New text is indented to
fit its position: all its lines move by the same amount, except lines inside strings. When columns are compared, a tab
counts as two, as in `codriver_lisp.parinfer`. Tabs are kept: each line starts with the indentation of the position,
including its tabs, followed by the line's own additional indentation.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

from codriver_lisp.errors import EditError, EditFailedError, truncate
from codriver_lisp.reader import LINE_END_PATTERN, Positions, describe_imbalance, read_forms, tokens

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from codriver_lisp.reader import Form


CONTAINER_HEADS = frozenset({"comment", "clojure.core/comment", "cljs.core/comment", "basilisp.core/comment", "do"})
"""Heads of lists whose inner forms count as top-level forms."""

_BLANK_CHARACTERS = " \t\f,"
_HINT_PATTERN = re.compile(r"#_[\s,]*\{?[\s,]*:[\w.*+!?-]+/")
"""Matches the start of a hint to a linter or formatter.

It is a discarded keyword with a namespace, or a discarded map that starts with one.

Sources: clj-kondo, "Configuration"; cljfmt, "Ignoring forms".
"""
_SPACE_TO_NEXT_LINE_PATTERN = re.compile(r"[ \t\f,]*(?:\r\n|\r|\n)?[ \t\f,]*")
MAX_LINE_CHARACTERS = 200
"""Maximum number of characters per line in a message. Lines in generated files can be very long."""


@dataclass(frozen=True, slots=True)
class Unit:
    """A form that can be edited: a top-level form, or one inside a form such as `(comment …)`.

    The enclosing form can be a `(comment …)`, a `(do …)`, or a reader conditional. In a branch of `#?@`, the spliced
    forms are units as well. A discarded form can be a unit.

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


_LAST_LINE_PATTERN = re.compile(r"[^\r\n]*\Z")


def reindent(text: str, base: str, ending: str, old: str = "") -> str:
    """Indent a source text for a position with the indentation `base`, moving all lines by the same amount.

    The first line gets no indentation, blank lines around the text are removed, and line endings become `ending`. Lines
    inside strings keep their indentation, because it is part of the string.

    If the first line has no indentation, it may have been cut out of an indented line while the other lines are already
    indented correctly. That is assumed if more of the lines equal lines of `old`, the text to replace, before they are
    moved than after. In case of a tie, it is assumed if the other lines are aligned only when the first line alone
    moves.
    """
    found = list(tokens(text))
    indent = ""
    if found and found[0].lastgroup == "space":
        indent = last_line(found.pop(0)[0])
    if found and found[-1].lastgroup == "space":
        found.pop()
    is_cut_out = not indent and bool(base) and _is_cut_out(text, found, base, old)
    indent = base if is_cut_out else indent
    parts: list[str] = []
    for token in found:
        if token.lastgroup == "space":
            first, *others = LINE_END_PATTERN.split(token[0])
            parts.append(first)
            for blank in others[:-1]:
                parts += ending, blank
            if others:
                is_left = is_cut_out and display_width(others[-1]) < display_width(base)
                parts += ending, *((others[-1],) if is_left else (base, _extra_indentation(indent, others[-1])))
        else:
            parts.append(LINE_END_PATTERN.sub(ending, token[0]))
    return "".join(parts)


def display_width(text: str) -> int:
    """Return the width of a string in columns. A tab counts as two."""
    return len(text) + text.count("\t")


def _extra_indentation(indent: str, space: str) -> str:
    """Return the part of the whitespace `space` beyond `indent`, or "" if there is none."""
    if space.startswith(indent):
        return space[len(indent) :]
    return " " * (display_width(space) - display_width(indent))


def _is_cut_out(text: str, found: Sequence[re.Match[str]], base: str, old: str) -> bool:
    """Return whether the first line of a source text lacks its indentation while the other lines have theirs.

    This is the case if the first line was cut out of an indented line. `found` are the tokens of the text.
    """
    old_lines = set(_iterate_lines(old, list(tokens(old))))
    lines = list(_iterate_lines(text, found))
    unmoved = sum(line in old_lines for line in lines)
    moved = sum(base + line in old_lines for line in lines)
    if unmoved != moved:
        return unmoved > moved
    return not _is_aligned(found, 0) and _is_aligned(found, display_width(base))


def _iterate_lines(text: str, found: Sequence[re.Match[str]]) -> Iterator[str]:
    """Yield the lines of a source text, except the first line and lines that start inside a string."""
    for token in found:
        if token.lastgroup == "space" and LINE_END_PATTERN.search(token[0]):
            end = LINE_END_PATTERN.search(text, token.end())
            yield last_line(token[0]) + text[token.end() : end.start() if end else len(text)].rstrip()


def last_line(text: str) -> str:
    """Return the text after the last line ending, or the whole text if there is none."""
    found = _LAST_LINE_PATTERN.search(text)
    return found[0] if found else ""


def _is_aligned(found: Sequence[re.Match[str]], columns: int) -> bool:
    """Return whether the lines would be aligned as usual if all lines but the first moved left by `columns`.

    A line is aligned if it starts one or two columns after its bracket, or below something else in that bracket.
    """
    openers: list[tuple[int, set[int]]] = [(-1, {0})]  # column of a bracket, and columns of its items
    column, leads = 0, False
    for token in found:
        kind = token.lastgroup
        if kind not in ("space", "close", "comment"):
            opener, siblings = openers[-1]
            if leads and column not in siblings and not (len(openers) > 1 and opener < column <= opener + 2):
                return False
            siblings.add(column)
            if kind == "open":
                openers.append((column + len(token[0]) - 1, set()))
        elif kind == "close" and len(openers) > 1:
            openers.pop()
        if LINE_END_PATTERN.search(token[0]) is None:
            column += display_width(token[0]) if kind == "space" else len(token[0])
            leads = leads and kind == "space"
        else:
            column = display_width(last_line(token[0])) - columns
            leads = kind == "space"
    return True


MAX_OTHER_LINES = 5
"""Maximum number of other lines with the requested text that an error message lists."""


@dataclass(frozen=True, slots=True)
class Target:
    """The form to edit, identified by its line number and the text of its first line.

    Surrounding whitespace is ignored. If several forms start on the line, the text must start with the intended form.
    """

    line: int
    text: str


@dataclass(frozen=True, slots=True)
class SearchLimits:
    """Limits on the search for a target.

    `padding` is how many lines the target may be away from the requested line. `context` is how many lines before and
    after the requested line an error displays.
    """

    padding: int = 2
    context: int = 10


def find_target(document: Document, target: Target, limits: SearchLimits) -> Unit:
    """Return the form that `target` identifies, on its line or on the nearest line within the padding.

    Raises:
        EditFailedError: no form matches, two are equally near, the line is not the first line of a form, or the end of
            the form is uncertain because the brackets do not balance.
    """
    expected = LINE_END_PATTERN.split(target.text.strip())[0].strip()
    if not expected:
        raise _create_error(document, target, limits, "targetLineText is blank: pass the text of the form's first line")
    if target.line < 1:
        raise _create_error(document, target, limits, f"there is no line {target.line}: the first line is 1")
    for distance in range(limits.padding + 1):
        lines = sorted({target.line - distance, target.line + distance})
        hits = [
            line for line in lines if 1 <= line <= document.positions.count and _matches_line(document, line, expected)
        ]
        if len(hits) > 1:
            words = f"the text is at line {hits[0]} and at line {hits[1]}, equally near line {target.line}"
            raise _create_error(document, target, limits, words)
        if hits:
            return _unit_at(document, target, hits[0], expected, limits)
    where = f"line {target.line}"
    if limits.padding:
        where += f" or within {limits.padding} lines of it"
    quoted = truncate(expected, MAX_LINE_CHARACTERS)
    words = f"the text {quoted!r} was not found at {where}"
    other_lines = [line for line in document.units_by_line if _matches_line(document, line, expected)]
    if other_lines:
        numbers = ", ".join(map(str, other_lines[:MAX_OTHER_LINES]))
        more = f" and {len(other_lines) - MAX_OTHER_LINES} others" if len(other_lines) > MAX_OTHER_LINES else ""
        words += f"; a form with this text starts at line {numbers}{more}"
    raise _create_error(document, target, limits, words)


def _matches_line(document: Document, line: int, expected: str) -> bool:
    """Return whether `expected` is the text of a line, or of a form that starts on the line."""
    if expected not in (text := document.line_text(line)):
        return False
    return text.strip() == expected or any(
        _matches_unit(document, unit, expected) for unit in document.units_by_line.get(line, ())
    )


def _unit_at(document: Document, target: Target, line: int, expected: str, limits: SearchLimits) -> Unit:
    """Return the form on a line that `expected` identifies.

    Raises:
        EditFailedError: no form or several forms match, or the end of the form is uncertain.
    """
    units = document.units_by_line.get(line, ())
    named = [unit for unit in units if _matches_unit(document, unit, expected)]
    if document.line_text(line).strip() == expected:
        leading = [unit for unit in units if document.begins_line(unit)]
        siblings = [unit for unit in units if leading and unit.start >= leading[0].end]
        if leading and siblings:
            words = (
                f"{1 + len(siblings)} forms start on line {line}: pass the text of the intended one as targetLineText"
            )
            raise _create_error(document, target, limits, words)
        named = leading
    if not named:
        words = (
            f"line {line} is not the first line of a top-level form, nor of one directly in a (comment …), a (do …) "
        )
        words += "or a branch of a reader conditional"
        words += _describe_location(document, line)
        raise _create_error(document, target, limits, words)
    if len(named) > 1:
        words = f"{len(named)} forms that start on line {line} have this text"
        raise _create_error(document, target, limits, words)
    if named[0].end > document.trusted_end:
        words = f"the form at line {line} has no certain end, because the file's brackets do not balance: "
        words += document.bracket_error or ""
        raise _create_error(document, target, limits, words)
    return named[0]


def _describe_location(document: Document, line: int) -> str:
    """Return the end of a message, which states which form contains a line or where the next form starts."""
    around = [unit for unit in document.units if unit.line < line <= document.positions.line(unit.end)]
    if around:
        return f": it is inside the form that starts at line {around[-1].line}"
    behind = next((unit for unit in document.units if unit.line > line), None)
    return f": the next form starts at line {behind.line}" if behind else ""


def _matches_unit(document: Document, unit: Unit, expected: str) -> bool:
    """Return whether `expected` is the text of a form, or of its first line."""
    rest = document.line_text(unit.line)[unit.start - document.positions.line_start(unit.line) :]
    return expected in (rest.strip(), document.text[unit.start : unit.end])


def _create_error(document: Document, target: Target, limits: SearchLimits, words: str) -> EditFailedError:
    """Return an exception with a message and the lines around the target."""
    return EditFailedError(EditError(words, context=document.numbered_lines(target.line, limits.context)))
