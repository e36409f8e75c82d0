"""Find the form to edit by its line number and the text of its first line, up to some lines away."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from codriver_lisp.errors import EditError, EditFailedError, truncate
from codriver_lisp.reader import LINE_END_PATTERN
from codriver_lisp.source_text import MAX_LINE_CHARACTERS

if TYPE_CHECKING:
    from codriver_lisp.source_text import Document, Unit


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
        raise _create_error(document, target, limits, "targetLineText is blank. Pass the text of the form's first line")
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
    """Return the form that starts on a line and matches `expected`.

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
                f"{1 + len(siblings)} forms start on line {line}. Pass the first line of the intended one as "
                "targetLineText"
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
        words = f"it is not known where the form at line {line} ends, because the file's brackets do not balance: "
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
