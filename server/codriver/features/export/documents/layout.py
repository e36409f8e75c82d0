"""Arrange the steps of an exported document, and generate its lines.

In a test file, imports and definitions that are never redefined are placed above the tests. A step that changes the
value of a name is in the same test as all steps that use the name. If the tests fail with this grouping, all steps are
put into a single test. This module also creates the header of a document and the names of its tests.
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

    from codriver.features.export.documents.step_verification import CheckedStep

SIDE_EFFECT_VALUES = frozenset({"None", "nil"})
"""Values of steps evaluated only for their side effects."""
Format = Literal["test", "notebook"]

MAX_HEADER_LINE_CHARACTERS: Final = 100
"""Maximum length of a line in a document's header."""
_WORD: Final = re.compile(r"[A-Za-z][A-Za-z0-9]*")


@dataclass(frozen=True, slots=True)
class Layout:
    """The arrangement of steps in a test file: those above the tests, and those in each test."""

    above: tuple[CheckedStep, ...]
    tests: tuple[tuple[CheckedStep, ...], ...]

    @property
    def names(self) -> frozenset[str]:
        """Return the names that the session defined."""
        return frozenset(name for check in (*self.above, *chain(*self.tests)) for name in check.step.gives)


def arrange_steps(checked: Sequence[CheckedStep], dialect: str, *, in_one: bool = False) -> Layout:
    """Assign the steps that can run either to tests or to the part above the tests.

    Steps that share names are put into the same test. With `in_one`, all steps except imports are put into a single
    test in their original order.
    """
    present = [check for check in checked if check.verdict != "absent" and not check.is_patch]
    if in_one:
        above = tuple(check for check in present if _must_be_above(check, dialect))
        rest = tuple(check for check in present if check not in above)
        return Layout(above, (rest,) if rest else ())
    rebound, changing = _rebound_and_changing_names(present, dialect)
    above = tuple(check for check in present if _is_above(check, rebound, dialect))
    links = {
        name: _reachable_names(name, above, changing)
        for check in present
        for name in check.step.uses | check.step.gives
    }
    groups = _Groups()
    for check in present:
        if check not in above:
            names = {link for name in check.step.uses | check.step.gives for link in links[name]}
            groups.add(check, names or {f"evaluation {check.of.id}"})
    return Layout(above, groups.in_order())


def _is_import(check: CheckedStep) -> bool:
    return check.step.role == "import"


def _must_be_above(check: CheckedStep, dialect: str) -> bool:
    """Return whether a step can only run outside a function, as with `import *` or a macro definition."""
    if dialect == "python":
        return _is_import(check) and ("import *" in check.step.text or "__future__" in check.step.text)
    return _is_import(check) or _affects_reading(check, dialect)


def _affects_reading(check: CheckedStep, dialect: str) -> bool:
    """Return whether a step must run before later code can be compiled, as with a macro definition in a Lisp."""
    heads = ("(defmacro", "(defrecord", "(deftype", "(defprotocol", "(definterface", "(declare")
    return dialect != "python" and check.step.text.startswith(heads)


def _is_above(check: CheckedStep, rebound: frozenset[str], dialect: str) -> bool:
    """Return whether a step belongs above the tests: an import, a definition, or a constant that is not rebound."""
    if _is_import(check) or _affects_reading(check, dialect):
        return True
    is_fixed = check.step.role == "definition" or (check.step.role == "assignment" and _is_constant(check, dialect))
    return is_fixed and check.verdict != "differs" and not (check.step.gives & rebound)


def _is_constant(check: CheckedStep, dialect: str) -> bool:
    from codriver.features.export.documents.steps import is_constant  # noqa: PLC0415  # needed only to analyze code, not for the page

    return dialect == "python" and is_constant(check.step)


def _rebound_and_changing_names(present: Sequence[CheckedStep], dialect: str) -> tuple[frozenset[str], frozenset[str]]:
    """Return the names that are bound more than once, and the names whose values may change.

    Every name that is bound more than once is also in the second set.
    """
    times = Counter(name for check in present for name in check.step.gives)
    known = frozenset(times)
    rebound = {name for name, count in times.items() if count > 1}
    changed: set[str] = set()
    for check in present:
        step = check.step
        if step.role == "statement" or (step.role == "assignment" and not _is_constant(check, dialect)):
            rebound |= step.gives
        is_for_effect = step.role == "expression" and (check.value in SIDE_EFFECT_VALUES or check.verdict == "differs")
        if step.role == "statement" or is_for_effect:
            changed |= step.needs & known
    imported = {name for check in present if _is_import(check) for name in check.step.gives}
    rebound -= {name for name in imported if times[name] == 1}
    while more := {
        name
        for check in present
        if check.step.role == "definition" and check.step.needs & rebound
        for name in check.step.gives - rebound
    }:
        rebound |= more
    return frozenset(rebound), frozenset(rebound | changed)


def _reachable_names(name: str, above: Iterable[CheckedStep], changing: frozenset[str]) -> frozenset[str]:
    """Return the changing names that code using `name` depends on, directly or through definitions above the tests."""
    uses: dict[str, frozenset[str]] = {}
    for check in above:
        if not _is_import(check):
            for given in check.step.gives:
                uses[given] = uses.get(given, frozenset()) | check.step.uses
    seen, left = {name}, [name]
    while left:
        for used in uses.get(left.pop(), frozenset()) - seen:
            seen.add(used)
            left.append(used)
    return frozenset(seen & changing)


class _Groups:
    """Groups steps so that steps that share a name end up in the same group."""

    def __init__(self) -> None:
        self._groups: list[tuple[set[str], list[tuple[int, CheckedStep]]]] = []
        self._count = 0

    def add(self, check: CheckedStep, names: set[str]) -> None:
        """Add a step. Merge all groups that use any of `names`."""
        links, steps = set(names), [(self._count, check)]
        others = []
        for group in self._groups:
            if group[0] & links:
                links |= group[0]
                steps += group[1]
            else:
                others.append(group)
        self._groups = [*others, (links, sorted(steps, key=lambda step: step[0]))]
        self._count += 1

    def in_order(self) -> tuple[tuple[CheckedStep, ...], ...]:
        """Return the groups, ordered by their first steps."""
        ordered = sorted(self._groups, key=lambda group: group[1][0][0])
        return tuple(tuple(check for _, check in steps) for _, steps in ordered)


@dataclass(frozen=True, slots=True)
class Origin:
    """The origin of a document: the session, a description of its REPL, and the date of the export in UTC."""

    session: str
    repl: str
    day: str
    name: str = "exported-test"
    """The namespace of a Lisp document."""


@dataclass(slots=True)
class DocumentBuilder:
    """Builds the text of a document, and maps each line to the step that produced it."""

    lines: list[str] = field(default_factory=list)
    steps: dict[int, CheckedStep] = field(default_factory=dict)
    """Maps line numbers, starting at 1, to the step that produced the line."""

    def write(self, text: str = "", of: CheckedStep | None = None) -> None:
        """Append text, and map its lines to the step `of`."""
        for line in text.split("\n"):
            self.lines.append(line)
            if of is not None:
                self.steps[len(self.lines)] = of

    def ensure_blank_lines(self, lines: int) -> None:
        """Add or remove blank lines at the end of the document, so that exactly this many precede the next line."""
        while self.lines and not self.lines[-1]:
            self.lines.pop()
        self.lines += [""] * lines

    @property
    def text(self) -> str:
        """Return the text of the document, which ends with one newline."""
        return "\n".join(self.lines).rstrip() + "\n"


def comment_out(text: str, mark: str) -> str:
    """Insert `mark` before each line of a string."""
    return "\n".join(f"{mark} {line}" for line in text.splitlines() or [""])


def describe_reproduction(checked: Sequence[CheckedStep]) -> str:
    """Describe how many steps reproduced the recorded results."""
    counts = Counter(check.verdict for check in checked if not check.is_typo)
    typos = sum(check.is_typo for check in checked)
    words = [f"{counts['same'] + counts['ran']} of {len(checked) - typos} steps reproduce exactly"]
    words += [f"{counts['varies']} by a pattern"] * bool(counts["varies"])
    words += [f"{counts['raises']} by the error"] * bool(counts["raises"])
    words += [f"{counts['differs']} differ and are marked"] * bool(counts["differs"])
    words += [f"{counts['absent']} cannot run and are marked"] * bool(counts["absent"])
    words += [f"{typos} that failed as typos, or were interrupted, are left out"] * bool(typos)
    return ", ".join(words)


def header_lines(origin: Origin, checked: Sequence[CheckedStep]) -> list[str]:
    """Return the lines of the comment at the start of each document."""
    ids = list(dict.fromkeys(check.of.id for check in checked))
    which = ids[0] if len(ids) == 1 else f"{ids[0]} to {ids[-1]}" if ids else "none"
    return [
        f"Exported by Codriver on {origin.day}: session {origin.session}, evaluations {which}.",
        *wrap(f"Verified in a fresh {origin.repl}: {describe_reproduction(checked)}.", MAX_HEADER_LINE_CHARACTERS),
    ]


def omission_reason(check: CheckedStep) -> str:
    """Return the reason why a step that ran is omitted from a test file."""
    if check.is_patch:
        return f"the code redefines names in {check.of.namespace}, which is another file's namespace"
    return "the code uses the last value, which is available only in a REPL"


def write_omitted_steps(page: DocumentBuilder, absent: Iterable[CheckedStep], mark: str) -> None:
    """Write the omitted steps as comments with the reasons, using `mark` as the comment marker."""
    page.write(f"{mark} Left out:")
    for check in absent:
        page.write(f"{mark}\n" + comment_out(f"{check.of.id}: {check.note or omission_reason(check)}", mark))
        page.write(comment_out(check.step.text, f"{mark}    "))


def name_tests(tests: Sequence[Sequence[CheckedStep]], separator: str, known: frozenset[str]) -> list[str]:
    """Return a unique name for each test, derived from its description or from a name that it uses."""
    return [separator.join([_describe_test(test, known), str(number)]).lower() for number, test in enumerate(tests, 1)]


def _describe_test(test: Sequence[CheckedStep], known: frozenset[str]) -> str:
    """Return a short phrase about a test, taken from its description or from the known names that it uses."""
    described = next((check.of.description for check in test if check.of.description), "")
    if words := _WORD.findall(described.removeprefix("checkpoint:"))[:5]:
        return "_".join(words)
    for check in test:
        for name in sorted((check.step.needs | check.step.gives) & known):
            if re.fullmatch(r"[A-Za-z][A-Za-z0-9_-]{0,30}", name):
                return name
    return "session"
