"""The page of a document: lines that remember their steps; its header, and the names of tests, in every format."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from textwrap import wrap
from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from codriver.documents.verification import Checked

Format = Literal["test", "script", "comment", "notebook"]

WIDTH: Final = 100
_WORD: Final = re.compile(r"[A-Za-z][A-Za-z0-9]*")


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
    """A document being written, line by line; which line came of which step is remembered."""

    lines: list[str] = field(default_factory=list)
    steps: dict[int, Checked] = field(default_factory=dict)
    """By line, counted from 1."""

    def write(self, text: str = "", of: Checked | None = None) -> None:
        """Add lines."""
        for line in text.split("\n"):
            self.lines.append(line)
            if of is not None:
                self.steps[len(self.lines)] = of

    def gap(self, lines: int) -> None:
        """Leave so many lines blank before what comes next."""
        while self.lines and not self.lines[-1]:
            self.lines.pop()
        self.lines += [""] * lines

    @property
    def text(self) -> str:
        """The whole, with one newline at its end."""
        return "\n".join(self.lines).rstrip() + "\n"


def commented(text: str, mark: str) -> str:
    """A text as comment, `mark` before each of its lines, whatever character separates them: no part of it is code."""
    return "\n".join(f"{mark} {line}" for line in text.splitlines() or [""])


def summary(checked: Sequence[Checked]) -> str:
    """The part of checked steps that reproduces, in words."""
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
    """The sentences at the top of every document."""
    ids = list(dict.fromkeys(one.of.id for one in checked))
    which = ids[0] if len(ids) == 1 else f"{ids[0]} to {ids[-1]}" if ids else "none"
    return [
        f"Exported by Codriver on {origin.day}: session {origin.session}, evaluations {which}.",
        *wrap(f"Verified in a fresh {origin.repl}: {summary(checked)}.", WIDTH),
    ]


def left_out(one: Checked) -> str:
    """Why a step that ran is not in a file of tests."""
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
    """A name for each test: of its description, else of a name of the session that it is about, and a number."""
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
