"""The story of the work in a workspace, put together from the entries of its log.

Evaluations and test runs are put together from their entries. A server that still knows an evaluation knows its
outcome; for all others there is only the log: an error without a result. What Codriver itself reports is read from the
`kind` and the `data` of an entry, never from its text.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from codriver.core.log_facts import CONNECTED, ENDED, LOAD, PURPOSE
from codriver.core.values import CHECKPOINT, NOT_LISP
from codriver.features.handoff.defined_names import assigned_names, names_in
from codriver.log.error_lines import error_line
from codriver.log.facts import EDIT, TESTS, UNDO, facts_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from codriver.log.output_log import Entry

PART: Final = re.compile(r"[^\s./:]+")
"""A part of a test's name or of a selection: of a namespace, a directory, a file or a test."""
OUTCOMES: Final = ("passed", "failed", "errors", "skipped", "xfailed", "xpassed")


@dataclass(frozen=True, slots=True)
class Step:
    """One evaluation. `life` is the line of its REPL's connection, 0 if unknown; `goal` its purpose.

    `error` is the error in a line, blank if it went well; `meant` are the names of its definitions; `file` was loaded.
    """

    id: str
    who: str
    key: str
    namespace: str
    line: int
    last_line: int
    timestamp: int
    code: str
    goal: str = ""
    file: str = ""
    error: str = ""
    meant: tuple[str, ...] = ()
    data: tuple[str, ...] = ()
    """The names that the code assigned at the top of a module, in Python alone: in Lisp these are definitions."""
    life: int = 0

    @property
    def names(self) -> tuple[str, ...]:
        """The names that the code defined."""
        return () if self.error else self.meant


@dataclass(frozen=True, slots=True)
class TestsRun:
    """A run of tests that has ended."""

    __test__ = False

    who: str
    evaluation: str
    selection: str
    """The selection in words."""
    paths: tuple[str, ...] = ()
    """The files, namespaces or tests that were selected; all if empty."""
    failed: tuple[str, ...] = ()
    """The names of tests that failed, as far as known."""
    passed_again: tuple[str, ...] = ()
    """The names of tests that had failed before and passed, as far as known."""
    has_failed: bool = False
    is_partial: bool = False
    """Whether only some tests of `paths` ran to their end."""

    def covers(self, name: str) -> bool:
        """Return whether the test of this name is among those of `paths`."""
        parts = _parts(name)
        for path in self.paths:
            wanted = _parts(path)
            if any(parts[start : start + len(wanted)] == wanted for start in range(len(parts))):
                return True
        return not self.paths

    def replaces(self, name: str) -> bool:
        """Return whether the run has an outcome for the test of this name, newer than any outcome before."""
        return name in self.passed_again or name in self.failed or (not self.is_partial and self.covers(name))


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A name that a caller gave to a moment."""

    name: str
    timestamp: int
    who: str = ""
    session: str = ""
    evaluation: str = ""

    @property
    def text(self) -> str:
        """The checkpoint in words."""
        by = f"by {self.who} in {self.session} ({self.evaluation})" if self.who else ""
        return ": ".join(filter(None, (self.name, by)))


@dataclass(frozen=True, slots=True)
class Story:
    """The log, put together: in line order, except `checkpoints` and `edits`, whose newest are last."""

    steps: tuple[Step, ...] = ()
    runs: tuple[TestsRun, ...] = ()
    checkpoints: tuple[Checkpoint, ...] = ()
    edits: tuple[tuple[str, str], ...] = ()
    """The callers that edited, each with the edited file."""
    lives: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    """By a REPL's key: the line of its last connection in this run."""
    first_line: int = 0
    last_line: int = 0


@dataclass(frozen=True, slots=True)
class _Connection:
    """A connection of a REPL: its line, the dialect, and the run of the server, None for the present one."""

    line: int = 0
    dialect: str = ""
    run: str | None = None


def read_story(entries: Iterable[Entry], known: Mapping[str, str | None]) -> Story:
    """Put the entries of the log together. `known`: by id of a finished evaluation, its error if it has one."""
    steps: dict[str, list[Entry]] = {}
    connections: dict[str, _Connection] = {}
    started: dict[str, _Connection] = {}
    runs: dict[str, TestsRun] = {}
    checkpoints: list[Checkpoint] = []
    edits: dict[tuple[str, str], None] = {}
    ordered = sorted(entries, key=lambda entry: entry.line)
    for entry in ordered:
        facts = facts_of(entry)
        if entry.category == CHECKPOINT:
            checkpoints.append(_checkpoint(entry))
        elif entry.kind == CONNECTED:
            connections[str(facts.get("repl"))] = _Connection(entry.line, str(facts.get("dialect")), entry.run)
        elif entry.kind == TESTS:
            if (ran := _run(entry)) is not None:
                runs[ran.evaluation] = ran
        elif entry.kind == UNDO:
            runs.pop(str(facts.get("job")), None)  # the tested code is not there any more
        elif entry.kind == EDIT:
            for file in facts.get("files", ()):
                edit = entry.who or "somebody", str(file["file"])
                edits.pop(edit, None)
                edits[edit] = None
        elif entry.evaluation:
            steps.setdefault(entry.evaluation, []).append(entry)
            started.setdefault(entry.evaluation, connections.get(_repl_of(entry), _Connection()))
    found = (_step(one, of, known, started[one]) for one, of in steps.items())
    lines = [entry.line for entry in ordered if entry.category != CHECKPOINT]
    return Story(
        tuple([step for step in found if step is not None]),
        tuple(runs.values()),
        tuple(sorted(checkpoints, key=lambda one: one.timestamp)),
        tuple(edits),
        MappingProxyType({key: one.line for key, one in connections.items() if one.run is None}),
        min(lines, default=0),
        max(lines, default=0),
    )


def _repl_of(entry: Entry) -> str:
    return (entry.session_key or "").partition("/")[0]


def _checkpoint(entry: Entry) -> Checkpoint:
    facts = facts_of(entry)
    by = [str(facts.get(name, "")) for name in ("who", "session", "evaluation")]
    return Checkpoint(str(facts.get("name", entry.text)), entry.timestamp, *by)


def _run(entry: Entry) -> TestsRun | None:
    """Return the test run of an entry; None for one without tests, or one that says nothing about the files."""
    facts = facts_of(entry)
    stopped = facts.get("stopped")
    counts = [int(facts.get(name, 0)) for name in OUTCOMES]
    has_failed = bool(facts.get("failed") or facts.get("errors")) or stopped is not None
    if "purpose" in facts or not (any(counts) or has_failed):
        return None
    return TestsRun(
        entry.who or "somebody",
        str(facts.get("job", entry.evaluation)),
        str(facts.get("tests", "")),
        tuple(map(str, facts.get("paths", ()))),
        tuple(map(str, filter(None, [*facts.get("failures", ()), stopped]))),
        tuple(map(str, facts.get("passedAgain", ()))),
        has_failed=has_failed,
        is_partial=bool(facts.get("isPartial")) or stopped is not None,
    )


def _step(identity: str, entries: list[Entry], known: Mapping[str, str | None], life: _Connection) -> Step | None:
    """Return one evaluation from its entries; None for one without code, such as tests that ended early."""
    code = next((entry for entry in entries if entry.category == "evaluatedCode"), None)
    if code is None:
        return None
    purpose = next((entry.text for entry in entries if entry.kind == PURPOSE), "")
    loaded = next((str(facts_of(entry).get("file", "")) for entry in entries if entry.kind == LOAD), "")
    error = known[identity] or "" if identity in known else _error_in(entries)
    is_lisp = life.dialect not in NOT_LISP if life.dialect else code.text.lstrip().startswith("(")
    return Step(
        identity,
        code.who or "somebody",
        code.session_key or "",
        next((entry.namespace for entry in entries if entry.namespace), ""),
        code.line,
        entries[-1].line,
        code.timestamp,
        code.text,
        goal=" ".join(purpose.split()),
        file=loaded,
        error=" ".join(error.split()),
        meant=names_in(code.text, is_lisp=is_lisp),
        data=() if is_lisp or error or loaded else assigned_names(code.text),
        life=life.line,
    )


def _error_in(entries: list[Entry]) -> str:
    """Return the error of an evaluation in a line, as the log has it; blank for none."""
    ends = [str(facts_of(entry).get("cause", "")) for entry in entries if entry.kind == ENDED]
    if ends:
        return ends[-1] or "it did not end by itself"
    if any(entry.category == "evaluationResults" for entry in entries):
        return ""
    return error_line("".join(entry.text for entry in entries if entry.category == "evaluationErrorOutput"))


def _parts(name: str) -> list[str]:
    return [part for part in PART.findall(name) if part != "py"]
