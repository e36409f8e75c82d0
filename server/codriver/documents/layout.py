"""Layout of a test file: which steps every test finds there already, and which belong into one test with one another.

Imports, functions and classes that are defined once stand above the tests. A step that changes something belongs with
every step that could see the change, as far as names tell; a test file whose tests do not hold so has one test of all.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING

from codriver.documents.steps import is_constant

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from codriver.documents.verification import Checked

NOTHING = frozenset({"None", "nil"})
"""The values of what is run for its effect."""


@dataclass(frozen=True, slots=True)
class Layout:
    """The steps above the tests, and those of each test, in the order in which they ran."""

    above: tuple[Checked, ...]
    tests: tuple[tuple[Checked, ...], ...]

    @property
    def names(self) -> frozenset[str]:
        """All names that the session gave."""
        return frozenset(name for one in (*self.above, *chain(*self.tests)) for name in one.step.gives)


def arrange(checked: Sequence[Checked], dialect: str, *, in_one: bool = False) -> Layout:
    """The layout of all steps that can run. With `in_one`, all but imports and the like are in one test, in order."""
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
    """Whether no test could have it: only a module imports all names, only what is compiled before has macros."""
    if dialect == "python":
        return _is_import(one) and ("import *" in one.step.text or "__future__" in one.step.text)
    return _is_import(one) or _is_macro(one, dialect)


def _is_macro(one: Checked, dialect: str) -> bool:
    """Whether code behind it cannot be read without it: a test is compiled before anything of it runs."""
    heads = ("(defmacro", "(defrecord", "(deftype", "(defprotocol", "(definterface", "(declare")
    return dialect != "python" and one.step.text.startswith(heads)


def _is_above(one: Checked, rebound: frozenset[str], dialect: str) -> bool:
    if _is_import(one) or _is_macro(one, dialect):
        return True
    is_fixed = one.step.role == "definition" or (one.step.role == "assignment" and _is_constant(one, dialect))
    return is_fixed and one.verdict != "differs" and not (one.step.gives & rebound)


def _is_constant(one: Checked, dialect: str) -> bool:
    return dialect == "python" and is_constant(one.step)


def _names(present: Sequence[Checked], dialect: str) -> tuple[frozenset[str], frozenset[str]]:
    """The names that are bound anew, and those whose values change, these among them."""
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
    """The changing names that whoever uses `name` uses, by the functions above the tests too."""
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
    """Steps by what links them; two groups that a step links become one."""

    def __init__(self) -> None:
        self._groups: list[tuple[set[str], list[tuple[int, Checked]]]] = []
        self._count = 0

    def add(self, one: Checked, names: set[str]) -> None:
        """Add a step to the groups that know one of `names`, which are one group then."""
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
        """The groups by their first steps."""
        ordered = sorted(self._groups, key=lambda group: group[1][0][0])
        return tuple(tuple(one for _, one in steps) for _, steps in ordered)
