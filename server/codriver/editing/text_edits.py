"""Edits of any text at one place: words that stand there once are replaced, and every other byte stays.

Edits of one text come one after the other, each in the text that the one before left. An end of line in the words meets
that of the file, whichever that is.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import islice
from typing import TYPE_CHECKING, Final

from codriver.editing.python_source import PythonSource
from codriver.lisp.edit import Done, Edited, Refused
from codriver.lisp.targeting import Problem, ProblemError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

MOST_SHOWN: Final = 3
"""Places that a refusal shows, with a line around each."""
MOST_COMPARED: Final = 20_000
"""Lines among which the most alike are looked for."""
MOST_WEIGHED: Final = 20
"""Lines that are compared letter by letter, which takes the square of their length or more."""
MOST_CHARS: Final = 160
"""Characters of a line that are compared, and that a refusal shows of it."""
MIN_ALIKE: Final = 0.5
_ENDING: Final = re.compile(r"\r\n|\n|\r")


@dataclass(frozen=True, slots=True)
class ReplaceText:
    """A replacement of the words `old`, which stand once in the text, or once in its scope, by `new`.

    The scope is the definition `name`, in Python, or the place nearest to `line`; in a notebook the source of `cell`.
    """

    old: str
    new: str
    name: str | None = None
    line: int | None = None
    cell: str | None = None


@dataclass(frozen=True, slots=True)
class _Place:
    """The place of words in a plain text; `line` counts from 1."""

    start: int
    line: int


def apply(text: str, edits: Mapping[int, ReplaceText], *, is_python: bool = False) -> Edited | Refused:
    """`text` after `edits`, all of them or none. The keys are the numbers under which the caller knows them."""
    problems: list[tuple[int, Problem]] = []
    done: dict[int, Done] = {}
    for number, edit in edits.items():
        plain, old = _plain(text), _plain(edit.old)
        try:
            place = _find(plain, old, edit, is_python=is_python)
        except ProblemError as error:
            problems.append((number, error.problem))
            continue
        start, end = _index_in(text, place.start), _index_in(text, place.start + len(old))
        text = text[:start] + _ending_of(text, start).join(_plain(edit.new).split("\n")) + text[end:]
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
    if edit.cell is not None:
        raise ProblemError(Problem("cell is one of a notebook (.ipynb), which this file is not: leave it out"))


def _plain(text: str) -> str:
    """The text with each end of line as LF: it is searched as a string, for which no words take long."""
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _index_in(text: str, plain_index: int) -> int:
    """The index in a text of the character that has `plain_index` in the plain one, where CR LF is one character."""
    index = plain_index
    while (moved := plain_index + text.count("\r\n", 0, index)) != index:
        index = moved
    return index + 1 if text[:index].endswith("\r") and text.startswith("\n", index) else index


def _find(plain: str, old: str, edit: ReplaceText, *, is_python: bool) -> _Place:
    check(edit)
    start, end = _scope(plain, edit, is_python=is_python)
    count = plain.count(old, start, end)
    if not count:
        raise ProblemError(_absent(plain, edit, start, end))
    places = _places(plain, old, start, end)
    if count > 1 and edit.line is not None and edit.name is None:
        found = _nearest(places, edit.line)
    else:
        found = list(islice(places, MOST_SHOWN))
    if len(found) > 1:
        words = f"oldText stands {count} times: take more of it, or say name or line"
        raise ProblemError(Problem(words, _shown(plain, [place.line for place in found])))
    return found[0]


def _places(plain: str, old: str, start: int, end: int) -> Iterator[_Place]:
    line, counted = 1, 0
    while (start := plain.find(old, start, end)) >= 0:
        line += plain.count("\n", counted, start)
        yield _Place(start, line)
        counted, start = start, start + len(old)


def _scope(plain: str, edit: ReplaceText, *, is_python: bool) -> tuple[int, int]:
    """The characters within which the words are looked for."""
    if edit.name is None:
        return 0, len(plain)
    if not is_python:
        raise ProblemError(Problem("name is that of a definition of Python: here say line, or more of oldText"))
    try:
        source = PythonSource(plain, compiles=False)
    except SyntaxError as error:
        raise ProblemError(Problem("the file does not parse, so name means nothing: leave it out")) from error
    found = source.find(edit.name, edit.line)
    before = "".join(source.lines[: found.first - 1])
    return len(before), len(before) + len("".join(source.lines[found.first - 1 : found.last]))


def _nearest(places: Iterable[_Place], line: int) -> list[_Place]:
    """The places nearest to a line: more than one, but no more than are shown, where some are equally near."""
    nearest: list[_Place] = []
    for place in places:
        nearer = abs(nearest[0].line - line) - abs(place.line - line) if nearest else 1
        if nearer > 0:
            nearest = [place]
        elif nearer == 0 and len(nearest) < MOST_SHOWN:
            nearest.append(place)
        elif nearer < 0:
            break  # those behind it are farther still
    return nearest


def _ending_of(text: str, at: int) -> str:
    """The end of line that the text has there."""
    found = _ENDING.search(text, at) or _ENDING.search(text)
    return found[0] if found else "\n"


def _absent(plain: str, edit: ReplaceText, start: int, end: int) -> Problem:
    """The problem that the words are not there, with the places that are most like them."""
    where = f" in {edit.name}" if edit.name else ""
    wanted = _begin(next((line for line in _ENDING.split(edit.old) if line.strip()), ""))
    first = plain.count("\n", 0, start) + 1
    there = [_begin(line) for line in plain[start:end].split("\n", MOST_COMPARED)[:MOST_COMPARED]]
    rough = sorted(
        ((_likeness(line, wanted, is_rough=True), -number) for number, line in enumerate(there)), reverse=True
    )
    weighed = sorted(((_likeness(there[-number], wanted), number) for _, number in rough[:MOST_WEIGHED]), reverse=True)
    near = [first - number for likeness, number in weighed[:MOST_SHOWN] if likeness >= MIN_ALIKE]
    words = f"oldText does not stand{where} in the file as it is now"
    words += ", not even in other spaces: read the file again" if not near else ": these lines are most like it"
    return Problem(words, _shown(plain, sorted(near)) if near else None)


def _begin(line: str) -> str:
    return line.lstrip()[:MOST_CHARS].rstrip()


def _likeness(line: str, wanted: str, *, is_rough: bool = False) -> float:
    """The likeness of two lines, from 0 to 1; a rough one is quick to have, and no less than the other."""
    if line == wanted:
        return 1.0
    if not line or not wanted or abs(len(line) - len(wanted)) > max(len(line), len(wanted)) / 2:
        return 0.0
    matcher = SequenceMatcher(None, line, wanted, autojunk=False)
    return matcher.quick_ratio() if is_rough else matcher.ratio()


def _shown(plain: str, numbers: Sequence[int]) -> str:
    """Three lines around each of these, numbered from 1; of a long line its beginning."""
    lines = plain.split("\n", max(numbers) + 1)
    parts = []
    for number in numbers:
        around = range(max(1, number - 1), min(len(lines), number + 1) + 1)
        parts.append("\n".join(f"{'→' if one == number else ' '} {one}  {_cut(lines[one - 1])}" for one in around))
    return "\n\n".join(parts)


def _cut(line: str) -> str:
    return line if len(line) <= MOST_CHARS else f"{line[:MOST_CHARS]}…"
