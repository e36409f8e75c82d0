"""Reconstruct the work in a workspace from the entries in its log.

Evaluations and test runs are assembled from their entries. If the server still knows an evaluation, it
supplies the outcome. For all others, error output without a result counts as a failure. Codriver's own reports are read
from the `kind` and `data` of an entry, never from its text.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from codriver.core.checkpoints import CHECKPOINT_PREFIX
from codriver.core.log_facts import (
    CONNECTED_KIND,
    EDIT_KIND,
    FINISHED_KIND,
    LOAD_KIND,
    PURPOSE_KIND,
    TESTS_KIND,
    UNDO_KIND,
    decode_facts,
)
from codriver.core.profiles import NON_LISP_DIALECTS
from codriver.features.handoff.defined_names import assigned_names, defined_names
from codriver.log.error_lines import error_line

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from codriver.log.log_entries import Entry

SELECTION_PART: Final = re.compile(r"[^\s./:]+")
"""Matches a part of a test name or selection, such as a namespace, directory, file or test."""
OUTCOME_NAMES: Final = ("passed", "failed", "errors", "skipped", "xfailed", "xpassed")
"""The names of the test outcomes counted in a log entry, in the order of a run's counts."""


@dataclass(frozen=True, slots=True)
class EvaluationStep:
    """An evaluation, reconstructed from its entries in the log."""

    id: str
    who: str
    key: str
    namespace: str
    line: int
    last_line: int
    timestamp: int
    code: str
    goal: str = ""
    """The description given by the caller."""
    file: str = ""
    """The loaded file, if any."""
    error: str = ""
    """The error in one line, or an empty string if the evaluation succeeded."""
    definitions: tuple[str, ...] = ()
    data: tuple[str, ...] = ()
    """The names assigned at module level. Python only: in Lisp these count as definitions."""
    connection_line: int = 0

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names that the code defined. If it failed, there are none."""
        return () if self.error else self.definitions


@dataclass(frozen=True, slots=True)
class TestsRun:
    """A finished test run, as described by its log entries."""

    __test__ = False

    who: str
    evaluation: str
    selection: str
    """A description of the selection."""
    paths: tuple[str, ...] = ()
    """The selected files, namespaces or tests; empty if all tests ran."""
    failed: tuple[str, ...] = ()
    """The names of failed tests, if the log contains them."""
    passed_again: tuple[str, ...] = ()
    """The names of tests that passed after an earlier failure, if the log contains them."""
    has_failed: bool = False
    is_partial: bool = False
    """Whether only some tests of `paths` ran to completion."""

    def covers(self, name: str) -> bool:
        """Return whether a test is among the selected ones."""
        parts = _split_name(name)
        for path in self.paths:
            selected = _split_name(path)
            if any(parts[start : start + len(selected)] == selected for start in range(len(parts))):
                return True
        return not self.paths

    def supersedes(self, name: str) -> bool:
        """Return whether the outcome of a test in this run replaces earlier ones."""
        return name in self.passed_again or name in self.failed or (not self.is_partial and self.covers(name))


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A point in time that a caller has named in order to refer to it later."""

    name: str
    timestamp: int
    who: str = ""
    session: str = ""
    evaluation: str = ""

    @property
    def text(self) -> str:
        """Return the name of the checkpoint, its caller and its session."""
        by = f"by {self.who} in {self.session} ({self.evaluation})" if self.who else ""
        return ": ".join(filter(None, (self.name, by)))


@dataclass(frozen=True, slots=True)
class Story:
    """The work in a workspace, reconstructed from the log in order."""

    steps: tuple[EvaluationStep, ...] = ()
    runs: tuple[TestsRun, ...] = ()
    checkpoints: tuple[Checkpoint, ...] = ()
    edits: tuple[tuple[str, str], ...] = ()
    """Pairs of a caller and a file that the caller edited."""
    connection_lines: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    """The log line of each REPL's latest connection in the current run of the server."""
    first_line: int = 0
    last_line: int = 0


@dataclass(frozen=True, slots=True)
class _Connection:
    """A connection to a REPL, as recorded in the log. `run` is the run of the server, or None for the current one."""

    line: int = 0
    dialect: str = ""
    run: str | None = None


def read_story(entries: Iterable[Entry], known: Mapping[str, str | None]) -> Story:
    """Reconstruct the work from log entries.

    `known` maps the ids of finished evaluations to their errors, or to None if they succeeded.
    """
    steps: dict[str, list[Entry]] = {}
    connections: dict[str, _Connection] = {}
    started: dict[str, _Connection] = {}
    runs: dict[str, TestsRun] = {}
    checkpoints: list[Checkpoint] = []
    edits: dict[tuple[str, str], None] = {}
    ordered = sorted(entries, key=lambda entry: entry.line)
    for entry in ordered:
        facts = decode_facts(entry)
        if entry.category == CHECKPOINT_PREFIX:
            checkpoints.append(_checkpoint(entry))
        elif entry.kind == CONNECTED_KIND:
            connections[str(facts.get("repl"))] = _Connection(entry.line, str(facts.get("dialect")), entry.run)
        elif entry.kind == TESTS_KIND:
            if (ran := _create_test_run(entry)) is not None:
                runs[ran.evaluation] = ran
        elif entry.kind == UNDO_KIND:
            runs.pop(str(facts.get("job")), None)  # the edit that these tests belonged to has been undone
        elif entry.kind == EDIT_KIND:
            for file in facts.get("files", ()):
                edit = entry.who or "somebody", str(file["file"])
                edits.pop(edit, None)
                edits[edit] = None
        elif entry.evaluation:
            steps.setdefault(entry.evaluation, []).append(entry)
            started.setdefault(entry.evaluation, connections.get(_repl_key(entry), _Connection()))
    found = (_create_step(evaluation, of, known, started[evaluation]) for evaluation, of in steps.items())
    lines = [entry.line for entry in ordered if entry.category != CHECKPOINT_PREFIX]
    return Story(
        tuple([step for step in found if step is not None]),
        tuple(runs.values()),
        tuple(sorted(checkpoints, key=lambda evaluation: evaluation.timestamp)),
        tuple(edits),
        MappingProxyType({key: evaluation.line for key, evaluation in connections.items() if evaluation.run is None}),
        min(lines, default=0),
        max(lines, default=0),
    )


def _repl_key(entry: Entry) -> str:
    return (entry.session_key or "").partition("/")[0]


def _checkpoint(entry: Entry) -> Checkpoint:
    facts = decode_facts(entry)
    by = [str(facts.get(name, "")) for name in ("who", "session", "evaluation")]
    return Checkpoint(str(facts.get("name", entry.text)), entry.timestamp, *by)


def _create_test_run(entry: Entry) -> TestsRun | None:
    """Create a test run from an entry. Return None if no tests ran, or if they ran with changed file contents."""
    facts = decode_facts(entry)
    stopped = facts.get("stopped")
    counts = [int(facts.get(name, 0)) for name in OUTCOME_NAMES]
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


def _create_step(
    identity: str, entries: list[Entry], known: Mapping[str, str | None], connection: _Connection
) -> EvaluationStep | None:
    """Create an evaluation from its entries. Return None if it has no code."""
    code = next((entry for entry in entries if entry.category == "evaluatedCode"), None)
    if code is None:
        return None
    purpose = next((entry.text for entry in entries if entry.kind == PURPOSE_KIND), "")
    loaded = next((str(decode_facts(entry).get("file", "")) for entry in entries if entry.kind == LOAD_KIND), "")
    error = known[identity] or "" if identity in known else _evaluation_error(entries)
    is_lisp = connection.dialect not in NON_LISP_DIALECTS if connection.dialect else code.text.lstrip().startswith("(")
    return EvaluationStep(
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
        definitions=defined_names(code.text, is_lisp=is_lisp),
        data=() if is_lisp or error or loaded else assigned_names(code.text),
        connection_line=connection.line,
    )


def _evaluation_error(entries: list[Entry]) -> str:
    """Return an evaluation's error as one line, according to the log. Return an empty string if there is none."""
    ends = [str(decode_facts(entry).get("cause", "")) for entry in entries if entry.kind == FINISHED_KIND]
    if ends:
        return ends[-1] or "the evaluation was interrupted"
    if any(entry.category == "evaluationResults" for entry in entries):
        return ""
    return error_line("".join(entry.text for entry in entries if entry.category == "evaluationErrorOutput"))


def _split_name(name: str) -> list[str]:
    """Split a test name into its parts, without the suffix `py`."""
    return [part for part in SELECTION_PART.findall(name) if part != "py"]
