"""Edits of any text at one place: words that stand there once are replaced, and every other byte stays.

Edits of one text come one after the other, each in the text that the one before left. An end of line in the words meets
that of the file, whichever that is.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import TYPE_CHECKING, Final

from codriver.editing.python_source import PythonSource
from codriver.lisp.edit import Done, Edited, Refused
from codriver.lisp.targeting import Problem, ProblemError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

MOST_SHOWN: Final = 3
"""Places that a refusal shows, with a line around each."""
MOST_COMPARED: Final = 20_000
"""Lines among which the most alike are looked for."""
MIN_ALIKE: Final = 0.5
_ENDING: Final = re.compile(r"\r\n|\n|\r")


@dataclass(frozen=True, slots=True)
class ReplaceText:
    """A replacement of the words `old`, which stand once in the text, or once in its scope, by `new`.

    The scope is the definition `name`, in Python, or the place nearest to `line`.
    """

    old: str
    new: str
    name: str | None = None
    line: int | None = None


@dataclass(frozen=True, slots=True)
class _Place:
    start: int
    end: int
    line: int


def apply(text: str, edits: Mapping[int, ReplaceText], *, is_python: bool = False) -> Edited | Refused:
    """`text` after `edits`, all of them or none. The keys are the numbers under which the caller knows them."""
    problems: list[tuple[int, Problem]] = []
    done: dict[int, Done] = {}
    for number, edit in edits.items():
        try:
            place = _find(text, edit, is_python=is_python)
        except ProblemError as error:
            problems.append((number, error.problem))
            continue
        ending = _ending_of(text, place.start)
        text = text[: place.start] + ending.join(_ENDING.split(edit.new)) + text[place.end :]
        done[number] = Done(place.line, place.line)
    return Refused(tuple(problems)) if problems else Edited(text, done)


def check(edit: ReplaceText) -> None:
    """Check an edit by itself.

    Raises:
        ProblemError: it names no words, or changes nothing.
    """
    if not edit.old:
        raise ProblemError(Problem("oldText is empty: give the words to replace, or make a file with type create"))
    if edit.old == edit.new:
        raise ProblemError(Problem("oldText and newText are equal: nothing would change"))


def _find(text: str, edit: ReplaceText, *, is_python: bool) -> _Place:
    check(edit)
    start, end = _scope(text, edit, is_python=is_python)
    words = r"(?:\r\n|\n|\r)".join(map(re.escape, _ENDING.split(edit.old)))
    found = list(re.compile(words).finditer(text, start, end))
    places = [_Place(one.start(), one.end(), text.count("\n", 0, one.start()) + 1) for one in found]
    if not places:
        raise ProblemError(_absent(text, edit, start, end))
    if len(places) > 1 and edit.line is not None and edit.name is None:
        places = _nearest(places, edit.line)
    if len(places) > 1:
        shown = _shown(text, [place.line for place in places[:MOST_SHOWN]])
        words = f"oldText stands {len(found)} times: take more of it, or say name or line"
        raise ProblemError(Problem(words, shown))
    return places[0]


def _scope(text: str, edit: ReplaceText, *, is_python: bool) -> tuple[int, int]:
    """The characters within which the words are looked for."""
    if edit.name is None:
        return 0, len(text)
    if not is_python:
        raise ProblemError(Problem("name is that of a definition of Python: here say line, or more of oldText"))
    try:
        source = PythonSource(text, compiles=False)
    except SyntaxError as error:
        raise ProblemError(Problem("the file does not parse, so name means nothing: leave it out")) from error
    found = source.find(edit.name, edit.line)
    before = "".join(source.lines[: found.first - 1])
    return len(before), len(before) + len("".join(source.lines[found.first - 1 : found.last]))


def _nearest(places: Sequence[_Place], line: int) -> list[_Place]:
    """The places nearest to a line: more than one where two are equally near."""
    least = min(abs(place.line - line) for place in places)
    return [place for place in places if abs(place.line - line) == least]


def _ending_of(text: str, at: int) -> str:
    """The end of line that the text has there."""
    found = _ENDING.search(text, at) or _ENDING.search(text)
    return found[0] if found else "\n"


def _absent(text: str, edit: ReplaceText, start: int, end: int) -> Problem:
    """The problem that the words are not there, with the places that are most like them."""
    where = f" in {edit.name}" if edit.name else ""
    lines = [line for line in _ENDING.split(edit.old) if line.strip()]
    first = text.count("\n", 0, start) + 1
    there = _ENDING.split(text[start:end])[:MOST_COMPARED]
    wanted = lines[0].strip() if lines else ""
    alike = sorted(((_likeness(line.strip(), wanted), -number) for number, line in enumerate(there)), reverse=True)
    near = [first - number for likeness, number in alike[:MOST_SHOWN] if likeness >= MIN_ALIKE]
    words = f"oldText does not stand{where} in the file as it is now"
    words += ", not even in other spaces: read the file again" if not near else ": these lines are most like it"
    return Problem(words, _shown(text, sorted(near)) if near else None)


def _likeness(line: str, wanted: str) -> float:
    if line == wanted:
        return 1.0
    if not line or not wanted or abs(len(line) - len(wanted)) > max(len(line), len(wanted)) / 2:
        return 0.0
    matcher = SequenceMatcher(None, line, wanted, autojunk=False)
    return matcher.ratio() if matcher.real_quick_ratio() >= MIN_ALIKE and matcher.quick_ratio() >= MIN_ALIKE else 0.0


def _shown(text: str, numbers: Sequence[int]) -> str:
    """Three lines around each of these, numbered from 1."""
    lines = _ENDING.split(text)
    parts = []
    for number in numbers:
        around = range(max(1, number - 1), min(len(lines), number + 1) + 1)
        parts.append("\n".join(f"{'→' if one == number else ' '} {one}  {lines[one - 1]}" for one in around))
    return "\n\n".join(parts)
