"""Targeting: the form that an edit means, found by the number and the text of its first line."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from codriver.lisp.reader import LINE_END
from codriver.lisp.source_text import SHOWN_CHARS

if TYPE_CHECKING:
    from codriver.lisp.source_text import Document, Unit


MAX_ELSEWHERE = 5
"""Places far from the line asked for that a refusal names."""


@dataclass(frozen=True, slots=True)
class Target:
    """An edit's target, by its first line: its number, from 1, and its text. Space around the text does not count.

    Where several forms begin on the line, the text is that of the one meant, from its beginning.
    """

    line: int
    text: str


@dataclass(frozen=True, slots=True)
class Limits:
    """Search limits: how far from the line asked for (`padding`), and how many lines a refusal shows each way."""

    padding: int = 2
    context: int = 10


@dataclass(frozen=True, slots=True)
class Problem:
    """Why an edit is refused; the lines around its target, where that is the matter; the new text balanced."""

    message: str
    context: str | None = None
    balanced_text: str | None = None


class ProblemError(Exception):
    """An edit that cannot be done."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.message)
        self.problem = problem


def find(document: Document, target: Target, limits: Limits) -> Unit:
    """The form that `target` means: on its line, else on the nearest line within the padding that has its text.

    Raises:
        ProblemError: there is none, there are two equally near, it is not the first line of a form, or brackets before
            its end do not balance.
    """
    wanted = LINE_END.split(target.text.strip())[0].strip()
    if not wanted:
        raise _refusal(document, target, limits, "targetLineText is blank: give the text of the form's first line")
    if target.line < 1:
        raise _refusal(document, target, limits, f"there is no line {target.line}: lines count from 1")
    for distance in range(limits.padding + 1):
        lines = sorted({target.line - distance, target.line + distance})
        hits = [line for line in lines if 1 <= line <= document.places.count and _has(document, line, wanted)]
        if len(hits) > 1:
            words = (
                f"the text stands at line {hits[0]} and at line {hits[1]}, both {distance} away from line {target.line}"
            )
            raise _refusal(document, target, limits, words)
        if hits:
            return _unit_at(document, target, hits[0], wanted, limits)
    where = f"line {target.line}"
    if limits.padding:
        where += f" or within {limits.padding} lines of it"
    told = wanted if len(wanted) <= SHOWN_CHARS else wanted[: SHOWN_CHARS - 1] + "…"
    words = f"the text {told!r} does not stand at {where}"
    elsewhere = [line for line in document.units_by_line if _has(document, line, wanted)]
    if elsewhere:
        numbers = ", ".join(map(str, elsewhere[:MAX_ELSEWHERE]))
        more = f" and {len(elsewhere) - MAX_ELSEWHERE} others" if len(elsewhere) > MAX_ELSEWHERE else ""
        words += f"; a form with this text begins at line {numbers}{more}"
    raise _refusal(document, target, limits, words)


def _has(document: Document, line: int, wanted: str) -> bool:
    """Whether `wanted` is the text of the line, or of a form that begins on it."""
    if wanted not in (text := document.line_text(line)):
        return False
    return text.strip() == wanted or any(
        _names(document, unit, wanted) for unit in document.units_by_line.get(line, ())
    )


def _unit_at(document: Document, target: Target, line: int, wanted: str, limits: Limits) -> Unit:
    """The form on `line` that `wanted` names."""
    units = document.units_by_line.get(line, ())
    named = [unit for unit in units if _names(document, unit, wanted)]
    if document.line_text(line).strip() == wanted:
        leading = [unit for unit in units if document.begins_line(unit)]
        siblings = [unit for unit in units if leading and unit.start >= leading[0].end]
        if leading and siblings:
            words = f"{1 + len(siblings)} forms begin on line {line}: give the text of the one meant as targetLineText"
            raise _refusal(document, target, limits, words)
        named = leading
    if not named:
        words = (
            f"line {line} is not the first line of a top-level form, nor of one directly in a (comment …), a (do …) "
        )
        words += "or a branch of a reader conditional"
        words += _where(document, line)
        raise _refusal(document, target, limits, words)
    if len(named) > 1:
        words = f"{len(named)} forms that begin on line {line} have this text"
        raise _refusal(document, target, limits, words)
    if named[0].end > document.sound_end:
        words = (
            f"the form at line {line} has no certain end, as the file's brackets do not balance: {document.complaint}"
        )
        raise _refusal(document, target, limits, words)
    return named[0]


def _where(document: Document, line: int) -> str:
    """The form that a line belongs to which is no form's first, in words."""
    around = [unit for unit in document.units if unit.line < line <= document.places.line(unit.end)]
    if around:
        return f": it stands within the form that begins at line {around[-1].line}"
    behind = next((unit for unit in document.units if unit.line > line), None)
    return f": the next form begins at line {behind.line}" if behind else ""


def _names(document: Document, unit: Unit, wanted: str) -> bool:
    """Whether `wanted` is the form, or its line from where it begins."""
    rest = document.line_text(unit.line)[unit.start - document.places.start(unit.line) :]
    return wanted in (rest.strip(), document.text[unit.start : unit.end])


def _refusal(document: Document, target: Target, limits: Limits, words: str) -> ProblemError:
    """A refusal that shows the lines around the target."""
    return ProblemError(Problem(words, context=document.numbered(target.line, limits.context)))
