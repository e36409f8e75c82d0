"""Layout of a document: its page, whose lines remember their steps, and the order of the steps of a test file.

Every format has a header and names of tests. In a test file imports, functions and classes that are defined once stand
above the tests. A step that changes a value belongs with every step that could see the change, as far as names tell; if
its tests fail so, a test file has one test of all steps.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from itertools import chain
from textwrap import wrap
from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from codriver.features.export.documents.verification import Checked

NOTHING = frozenset({"None", "nil"})
"""The values of steps that are run for their effect."""
Format = Literal["test", "script", "comment", "notebook"]

WIDTH: Final = 100
_WORD: Final = re.compile(r"[A-Za-z][A-Za-z0-9]*")


@dataclass(frozen=True, slots=True)
class Layout:
    """The steps above the tests, and those of each test, in the order in which they ran."""

    above: tuple[Checked, ...]
    tests: tuple[tuple[Checked, ...], ...]

    @property
    def names(self) -> frozenset[str]:
        """Return all names that the session gave."""
        return frozenset(name for one in (*self.above, *chain(*self.tests)) for name in one.step.gives)


def arrange(checked: Sequence[Checked], dialect: str, *, in_one: bool = False) -> Layout:
    """Return the layout of all steps that can run.

    With `in_one`, all but imports and the like are in one test, in order.
    """
    present = [one for one in checked if one.verdict != "absent" and not one.is_patch]
    if in_one:
        above = tuple(one for one in present if _must_be_above(one, dialect))
        rest = tuple(one for one in present if one not in above)
        return Layout(above, (rest,) if rest else ())
    rebound, changing = _names(present, dialect)
    above = tuple(one for one in present if _is_above(one, rebound, dialect))
    links = {name: _reach(name, above, changing) for one in present for name in one.step.uses | one.step.gives}
    groups = _Groups()
    for one in present:
        if one not in above:
            names = {link for name in one.step.uses | one.step.gives for link in links[name]}
            groups.add(one, names or {f"evaluation {one.of.id}"})
    return Layout(above, groups.in_order())


def _is_import(one: Checked) -> bool:
    return one.step.role == "import"


def _must_be_above(one: Checked, dialect: str) -> bool:
    """Whether the step can be in no test: only a module imports all names, only compiled code has macros."""
    if dialect == "python":
        return _is_import(one) and ("import *" in one.step.text or "__future__" in one.step.text)
    return _is_import(one) or _is_macro(one, dialect)


def _is_macro(one: Checked, dialect: str) -> bool:
    """Whether code behind the step cannot be read without it: a test is compiled before any of its code runs."""
    heads = ("(defmacro", "(defrecord", "(deftype", "(defprotocol", "(definterface", "(declare")
    return dialect != "python" and one.step.text.startswith(heads)


def _is_above(one: Checked, rebound: frozenset[str], dialect: str) -> bool:
    if _is_import(one) or _is_macro(one, dialect):
        return True
    is_fixed = one.step.role == "definition" or (one.step.role == "assignment" and _is_constant(one, dialect))
    return is_fixed and one.verdict != "differs" and not (one.step.gives & rebound)


def _is_constant(one: Checked, dialect: str) -> bool:
    from codriver.features.export.documents.steps import is_constant  # noqa: PLC0415  # whoever needs the page alone reads no code

    return dialect == "python" and is_constant(one.step)


def _names(present: Sequence[Checked], dialect: str) -> tuple[frozenset[str], frozenset[str]]:
    """The names that are bound anew, and the names whose values change; the first are among the second."""
    times = Counter(name for one in present for name in one.step.gives)
    known = frozenset(times)
    rebound = {name for name, count in times.items() if count > 1}
    changed: set[str] = set()
    for one in present:
        step = one.step
        if step.role == "statement" or (step.role == "assignment" and not _is_constant(one, dialect)):
            rebound |= step.gives
        is_for_effect = step.role == "expression" and (one.value in NOTHING or one.verdict == "differs")
        if step.role == "statement" or is_for_effect:
            changed |= step.needs & known
    imported = {name for one in present if _is_import(one) for name in one.step.gives}
    rebound -= {name for name in imported if times[name] == 1}
    while more := {
        name
        for one in present
        if one.step.role == "definition" and one.step.needs & rebound
        for name in one.step.gives - rebound
    }:
        rebound |= more
    return frozenset(rebound), frozenset(rebound | changed)


def _reach(name: str, above: Iterable[Checked], changing: frozenset[str]) -> frozenset[str]:
    """Return the changing names in the reach of `name`, also by way of the functions above the tests."""
    uses: dict[str, frozenset[str]] = {}
    for one in above:
        if not _is_import(one):
            for given in one.step.gives:
                uses[given] = uses.get(given, frozenset()) | one.step.uses
    seen, left = {name}, [name]
    while left:
        for used in uses.get(left.pop(), frozenset()) - seen:
            seen.add(used)
            left.append(used)
    return frozenset(seen & changing)


class _Groups:
    """Groups of steps with common names; a step that links two groups makes them one."""

    def __init__(self) -> None:
        self._groups: list[tuple[set[str], list[tuple[int, Checked]]]] = []
        self._count = 0

    def add(self, one: Checked, names: set[str]) -> None:
        """Add a step to the groups that know one of `names`; these become one group."""
        links, steps = set(names), [(self._count, one)]
        others = []
        for group in self._groups:
            if group[0] & links:
                links |= group[0]
                steps += group[1]
            else:
                others.append(group)
        self._groups = [*others, (links, sorted(steps, key=lambda step: step[0]))]
        self._count += 1

    def in_order(self) -> tuple[tuple[Checked, ...], ...]:
        """Return the groups in the order of their first steps."""
        ordered = sorted(self._groups, key=lambda group: group[1][0][0])
        return tuple(tuple(one for _, one in steps) for _, steps in ordered)


@dataclass(frozen=True, slots=True)
class Origin:
    """The origin of a document, for its first lines: the session, its REPL in words, and the day in UTC."""

    session: str
    repl: str
    day: str
    name: str = "exported-test"
    """The namespace of a Lisp's document."""


@dataclass(slots=True)
class Page:
    """A page that is written line by line; each line's step is remembered."""

    lines: list[str] = field(default_factory=list)
    steps: dict[int, Checked] = field(default_factory=dict)
    """By line, counted from 1: the step that the line came from."""

    def write(self, text: str = "", of: Checked | None = None) -> None:
        """Add lines."""
        for line in text.split("\n"):
            self.lines.append(line)
            if of is not None:
                self.steps[len(self.lines)] = of

    def gap(self, lines: int) -> None:
        """Leave so many lines blank before the next line."""
        while self.lines and not self.lines[-1]:
            self.lines.pop()
        self.lines += [""] * lines

    @property
    def text(self) -> str:
        """Return the whole text, with one newline at its end."""
        return "\n".join(self.lines).rstrip() + "\n"


def commented(text: str, mark: str) -> str:
    """A text as comment, `mark` before each line, whichever character separates the lines: no part of it is code."""
    return "\n".join(f"{mark} {line}" for line in text.splitlines() or [""])


def summary(checked: Sequence[Checked]) -> str:
    """Return the part of checked steps that reproduces, in words."""
    counts = Counter(one.verdict for one in checked if not one.is_typo)
    typos = sum(one.is_typo for one in checked)
    words = [f"{counts['same'] + counts['ran']} of {len(checked) - typos} steps reproduce exactly"]
    words += [f"{counts['varies']} by a pattern"] * bool(counts["varies"])
    words += [f"{counts['raises']} by the error"] * bool(counts["raises"])
    words += [f"{counts['differs']} differ and are marked"] * bool(counts["differs"])
    words += [f"{counts['absent']} cannot run and are marked"] * bool(counts["absent"])
    words += [f"{typos} that failed as typos, or were interrupted, are left out"] * bool(typos)
    return ", ".join(words)


def header(origin: Origin, checked: Sequence[Checked]) -> list[str]:
    """Return the sentences at the top of every document."""
    ids = list(dict.fromkeys(one.of.id for one in checked))
    which = ids[0] if len(ids) == 1 else f"{ids[0]} to {ids[-1]}" if ids else "none"
    return [
        f"Exported by Codriver on {origin.day}: session {origin.session}, evaluations {which}.",
        *wrap(f"Verified in a fresh {origin.repl}: {summary(checked)}.", WIDTH),
    ]


def left_out(one: Checked) -> str:
    """Return the reason why a step that ran is not in a file of tests."""
    if one.is_patch:
        return f"it redefines what {one.of.namespace} has, which is another file's"
    return "it uses the last value, which only a REPL has"


def write_left_out(page: Page, absent: Iterable[Checked], mark: str) -> None:
    """Write the steps that are left out, as comments that begin with `mark`."""
    page.write(f"{mark} Left out:")
    for one in absent:
        page.write(f"{mark}\n" + commented(f"{one.of.id}: {one.note or left_out(one)}", mark))
        page.write(commented(one.step.text, f"{mark}    "))


def test_names(tests: Sequence[Sequence[Checked]], separator: str, known: frozenset[str]) -> list[str]:
    """A name for each test: from its description, else from a name of the session in it, and a number."""
    return [separator.join([_about(test, known), str(number)]).lower() for number, test in enumerate(tests, 1)]


def _about(test: Sequence[Checked], known: frozenset[str]) -> str:
    described = next((one.of.description for one in test if one.of.description), "")
    if words := _WORD.findall(described.removeprefix("checkpoint:"))[:5]:
        return "_".join(words)
    for one in test:
        for name in sorted((one.step.needs | one.step.gives) & known):
            if re.fullmatch(r"[A-Za-z][A-Za-z0-9_-]{0,30}", name):
                return name
    return "session"
