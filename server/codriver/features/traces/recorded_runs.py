"""Store the recorded calls of evaluations and test runs, for the Datalog source `$run` and for `get_evaluation`.

A REPL sends each run as one JSON text. The text is parsed when it is first used, because most runs are used for only
one answer. The newest runs are stored, limited by number and bytes.
"""

from __future__ import annotations

import ast
import json
import re
import threading
from collections import OrderedDict
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from codriver.testing.recordings import lines_not_run
from codriver_datalog.entity_store import EntityStore, Schema

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from codriver.testing.runs import TestReport
    from codriver.testing.test_jobs import TestJob
    from codriver_datalog.entity_store import Record, Snapshot, Value

MAX_STORED_RUNS: Final = 8
"""Maximum number of stored runs."""
MAX_STORED_BYTES: Final = 24 * 2**20
"""Maximum total size of the stored texts. A parsed run takes about three times as much memory."""
MAX_ENTITIES: Final = 20_000
"""Maximum number of entities in one run: its calls, and as many of their arguments as fit."""
STORED_RECORDERS: Final = ("calls", "lines")
"""The test-run recorders whose records are stored."""
RUNS_SOURCE: Final = "$run"
"""Name of the source with recorded runs in queries."""
RUN_SCHEMA: Final = Schema(
    namespace="run",
    attributes=(
        "row", "id", "call", "name", "file", "line", "caller", "parent", "depth", "args", "result", "error", "ms", "at",
        "thread", "yields", "of", "arg", "value",
    ),
    required=frozenset({"row", "id", "call"}),
    indexed=frozenset({"id", "call", "name", "parent", "of", "arg", "error"}),
    only_in=(RUNS_SOURCE, 0),
)  # fmt: skip
"""The attributes of a call. Those from `of` on describe an argument: the row of its call, its name and its value."""
QUERY_RULES: Final = """[
    [(calls-under ?a ?b) [$run ?b :run/parent ?a]]
    [(calls-under ?a ?b) [$run ?c :run/parent ?a] (calls-under ?c ?b)]
    [(before ?a ?b) [$run ?a :run/id ?run] [$run ?a :run/call ?x]
                    [$run ?b :run/id ?run] [$run ?b :run/call ?y] [(< ?x ?y)]]
]"""
"""Datalog rules available in all queries.

They determine whether `?b` was called during `?a`, directly or indirectly, and whether `?a` started first.
"""
PRINTED_NUMBER: Final = re.compile(r"-?\d{1,15}(\.\d+)?([eE][-+]?\d+)?")
"""Matches a printed number."""


class MalformedRunError(ValueError):
    """Raised when a recorded run that a REPL sent cannot be parsed."""


@dataclass(frozen=True, slots=True)
class Function:
    """A function that was called in a recorded run.

    `is_capped` is true if there were more calls than are recorded.
    """

    module: str
    qualified_name: str
    file: str
    line: int
    parameters: tuple[str, ...]
    count: int
    is_capped: bool
    arities: tuple[tuple[str, ...], ...] | None = None
    """The parameter lists of a Lisp function, with `&` before the rest parameter; None for other functions."""
    text_mark: int | None = None
    """A hash of the function's code, or in Clojure of its source in the file at the end of the run; None if unknown."""
    changed_ms: int = 0
    """The time at which loading last changed the function's code, in milliseconds since the epoch; 0 if unknown."""

    @property
    def name(self) -> str:
        """Return the qualified name by which code can refer to the function after importing its module."""
        return self._qualify(self.module) if self.module not in {"", "__main__"} else self.qualified_name

    @property
    def is_redefined(self) -> bool:
        """Return whether evaluated code has redefined the function, in which case its source is not in a file."""
        return self.file.startswith("<eval ") and self.module not in {"", "__main__"}

    @property
    def short_name(self) -> str:
        """Return the name of the function, qualified with the last component of its module's name."""
        return self.name if "." not in self.module else self._qualify(self.module.rpartition(".")[2])

    def _qualify(self, module: str) -> str:
        """Return the name of the function, qualified with the name of a module."""
        return f"{module}{'.' if self.arities is None else '/'}{self.qualified_name}"

    def is_named(self, name: str) -> bool:
        """Return whether `name` is the qualified name of the function, or its last components."""
        return any(f"{mark}{self.name}".endswith(f"{mark}{name}") for mark in "./")

    def pair_with_parameters(self, arguments: Sequence[str]) -> list[tuple[str, str]]:
        """Pair arguments with the names of their parameters.

        In a Lisp, all arguments of a rest parameter are combined into one list.
        """
        if self.arities is None:
            return list(zip(self.parameters, arguments, strict=False))
        for names in sorted(self.arities, key=lambda parameters: "&" in parameters):
            fixed = names[: names.index("&")] if "&" in names else names
            if len(fixed) == len(arguments) or ("&" in names and len(fixed) < len(arguments)):
                rest = [(names[-1], f"({' '.join(arguments[len(fixed) :])})")] if len(fixed) < len(arguments) else []
                return [*zip(fixed, arguments, strict=False), *rest]
        return [(f"arg{number}", text) for number, text in enumerate(arguments, 1)]

    @property
    def call_count_text(self) -> str:
        """Return the number of calls as text, followed by `+` if not all calls were recorded."""
        return f"{self.count}+" if self.is_capped else str(self.count)


@dataclass(frozen=True, slots=True)
class CallRecord:
    """A recorded call of a function.

    Calls are numbered from 1 in the order in which they started. `duration_us` is -1 for a call that has not ended.
    """

    number: int
    function: Function
    parent: CallRecord | None = field(repr=False)
    thread: int
    at_us: int
    duration_us: int
    arguments: tuple[str, ...]
    result: str | None
    error: str | None
    yields: int
    depth: int

    @property
    def source(self) -> str:
        """Return the call in the syntax of its language."""
        name, arguments = self.function.short_name, self.argument_text
        return f"{name}({arguments})" if self.function.arities is None else f"({f'{name} {arguments}'.strip()})"

    @property
    def argument_text(self) -> str:
        """Return the arguments in the syntax of the language, without `self` or `cls`."""
        if self.function.arities is not None:
            return " ".join(self.arguments)
        is_method = self.function.parameters[:1] in {("self",), ("cls",)} and len(self.arguments) > 0
        return ", ".join(self.arguments[1 if is_method else 0 :])


@dataclass(frozen=True, slots=True)
class Run:
    """The calls recorded during an evaluation or a test run. If nothing was recorded, `refused` is the reason."""

    id: str
    functions: tuple[Function, ...] = ()
    calls: tuple[CallRecord, ...] = ()
    threads: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    refused: str = ""
    is_traced: bool = True
    """Whether calls were recorded. Otherwise, the run contains only the other requested data."""
    unrun: tuple[tuple[str, tuple[int, ...]], ...] | None = None
    """The changed lines that no code ran, by file; None if they were not requested."""
    profile: tuple[tuple[str, str, int, int, int, int], ...] | None = None
    """The slowest functions: name, file, line, number of calls, and microseconds without and with the functions that
    they called; None if not requested.
    """

    @property
    def count(self) -> str:
        """Return the total number of calls as text, followed by `+` if not all calls were recorded."""
        more = any(function.is_capped for function in self.functions)
        return f"{sum(function.count for function in self.functions)}{'+' if more else ''}"

    def children(self) -> Mapping[int, Sequence[CallRecord]]:
        """Map the number of each call to its direct calls. The number 0 maps to calls without a caller."""
        found: dict[int, list[CallRecord]] = {}
        for call in self.calls:
            found.setdefault(call.parent.number if call.parent else 0, []).append(call)
        return found


class RecordedRuns:
    """Stores the latest recorded runs of a server. Thread-safe.

    Runs are stored as text and parsed when they are first used. `redact` is applied to all of their texts.
    """

    def __init__(self, *, redact: Callable[[str], str] = str) -> None:
        self._redact = redact
        self._lock = threading.Lock()
        self._unparsed: OrderedDict[str, str] = OrderedDict()
        """The unparsed texts by evaluation, oldest first."""
        self._read: dict[str, Run] = {}
        self._rows: dict[str, range] = {}
        self._store = EntityStore(RUN_SCHEMA)
        self._next_row = 1

    def store(self, evaluation: str, text: str) -> None:
        """Store the text of a run. Drop the oldest runs if there are too many or they are too large."""
        with self._lock:
            self._forget(evaluation)
            self._unparsed[evaluation] = text
            while len(self._unparsed) > 1 and (
                len(self._unparsed) > MAX_STORED_RUNS or sum(map(len, self._unparsed.values())) > MAX_STORED_BYTES
            ):
                self._forget(next(iter(self._unparsed)))

    def store_test_run(self, identity: str, job: TestJob, report: TestReport) -> None:
        """Store the calls recorded during a test run, and the changed lines that it did not execute."""
        if job.spec.recorders.keys().isdisjoint(STORED_RECORDERS):
            return
        found: dict[str, object] = {}
        for recording in report.recorded:
            if recording.recorder not in STORED_RECORDERS:
                continue
            if recording.error:
                found["refused"] = recording.error
            elif recording.recorder == "calls" and not found:
                found |= recording.data
        if "lines" in job.spec.recorders and "refused" not in found:
            found["unrun"] = [[file, list(lines)] for file, lines in sorted(lines_not_run(report.recorded).items())]
        self.store(identity, json.dumps(found))

    def evaluation_ids(self) -> tuple[str, ...]:
        """Return the ids of the evaluations whose runs are stored, oldest first."""
        with self._lock:
            return tuple(self._unparsed)

    def get(self, evaluation: str) -> Run | None:
        """Return the run of an evaluation, or None if it is not stored.

        The first call parses the run, which may take 0.1 s if it is large.
        """
        with self._lock:
            text = self._unparsed.get(evaluation)
            if text is None:
                return None
            if evaluation not in self._read:
                self._read[evaluation] = parse_run(evaluation, text, self._redact)
            return self._read[evaluation]

    def read(self, evaluation: str, text: str) -> Run:
        """Parse the text of a run without storing it.

        Raises:
            MalformedRunError: the text is not a run.
        """
        return parse_run(evaluation, text, self._redact)

    def snapshot(self) -> Snapshot:
        """Return the calls and the arguments of all stored runs as entities for Datalog queries."""
        for evaluation in self.evaluation_ids():
            run = self.get(evaluation)
            with self._lock:
                if run is not None and evaluation in self._unparsed and evaluation not in self._rows:
                    self._add(run)
        with self._lock:
            return self._store.snapshot()

    def _add(self, run: Run) -> None:
        first = self._next_row
        for record in run_records(run, first):
            self._store.add(record)
            self._next_row += 1
        self._rows[run.id] = range(first, self._next_row)

    def _forget(self, evaluation: str) -> None:
        self._unparsed.pop(evaluation, None)
        self._read.pop(evaluation, None)
        for row in self._rows.pop(evaluation, ()):
            self._store.remove(row)


def parse_run(evaluation: str, text: str, redact: Callable[[str], str] = str) -> Run:
    """Parse the text of a recorded run.

    Raises:
        MalformedRunError: the text cannot be parsed.
    """
    try:
        data = json.loads(text)
        if data.get("refused"):
            return Run(evaluation, refused=redact(data["refused"]))
        is_traced = "calls" in data or not ("unrun" in data or "profile" in data)
        read = _parse_lisp_function if data.get("lisp") else _parse_function
        functions = tuple(map(read, data["functions"] if is_traced else ()))
        calls: list[CallRecord] = []
        for number, row in enumerate(data["calls"] if is_traced else (), 1):
            calls.append(_parse_call(number, row, functions, calls, redact))
        unrun = tuple((str(file), tuple(lines)) for file, lines in data["unrun"]) if "unrun" in data else None
        profile = tuple(map(_split_timed_row, data["profile"])) if "profile" in data else None
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
        raise MalformedRunError(f"the calls recorded for {evaluation} cannot be read: {error}") from None
    threads, notes = tuple(data.get("threads", ())), tuple(data.get("notes", ()))
    return Run(evaluation, functions, tuple(calls), threads, notes, is_traced=is_traced, unrun=unrun, profile=profile)


def _split_timed_row(row: Sequence[Any]) -> tuple[str, str, int, int, int, int]:
    name, file, line, calls, self_time, total = row
    return name, file, line, calls, self_time, total


def _parse_function(row: Sequence[Any]) -> Function:
    """Parse a function in a Python run from its row."""
    module, name, file, line, parameters, count, is_capped, *marks = row
    mark, changed_ms = (*marks, None, 0)[:2] if len(marks) != 1 else (marks[0], 0)
    return Function(
        module, name, file, line, tuple(parameters), count, bool(is_capped), text_mark=mark, changed_ms=changed_ms
    )


def _parse_lisp_function(row: Sequence[Any]) -> Function:
    module, name, file, line, arities, count, is_capped, *marks = row
    lists = tuple(tuple(map(str, names)) for names in arities)
    return Function(module, name, file, line, (), count, bool(is_capped), lists, marks[0] if marks else None)


def _parse_call(
    number: int,
    row: Sequence[Any],
    functions: Sequence[Function],
    calls: Sequence[CallRecord],
    redact: Callable[[str], str],
) -> CallRecord:
    """Parse a call from its row, redacting all of its texts."""
    function_index, parent, thread, at, duration, arguments, result, error, yields = row
    caller = calls[parent] if parent >= 0 else None
    arguments_text = tuple([redact(argument) for argument in arguments])
    outcome = None if result is None else redact(result), None if error is None else redact(error)
    depth = 0 if caller is None else caller.depth + 1
    return CallRecord(
        number, functions[function_index], caller, thread, at, duration, arguments_text, *outcome, yields, depth
    )


def run_records(run: Run, first_row: int) -> Iterator[Record]:
    """Yield the entities of a run in the order of their rows: first its calls, then their arguments."""
    record = partial(RUN_SCHEMA.record)
    for call in run.calls:
        caller = call.parent
        fields: dict[str, Value | None] = {
            "row": first_row + call.number - 1, "id": run.id, "call": call.number, "name": call.function.name,
            "file": call.function.file, "line": call.function.line, "caller": caller.function.name if caller else None,
            "parent": first_row + caller.number - 1 if caller else None, "depth": call.depth,
            "args": call.argument_text, "result": call.result, "error": call.error,
            "ms": call.duration_us / 1000 if call.duration_us >= 0 else None,
            "at": call.at_us / 1000, "thread": run.threads[call.thread] if call.thread < len(run.threads) else "",
            "yields": call.yields or None,
        }  # fmt: skip
        yield record({name: value for name, value in fields.items() if value is not None})
    row, left = first_row + len(run.calls), MAX_ENTITIES - len(run.calls)
    for call in run.calls:
        for name, text in call.function.pair_with_parameters(call.arguments):
            if left <= 0:
                return
            value = parse_value(text)
            yield record(
                {
                    "row": row,
                    "id": run.id,
                    "call": call.number,
                    "of": first_row + call.number - 1,
                    "arg": name,
                    "value": value,
                }
            )
            row, left = row + 1, left - 1


def parse_value(text: str) -> Value:
    """Convert the printed form of a number or a string to its value. Return other texts unchanged."""
    if PRINTED_NUMBER.fullmatch(text):
        return float(text) if set(text) & set(".eE") else int(text)
    if text[:1] in {"'", '"'} and text[-1:] == text[:1]:
        try:
            found = ast.literal_eval(text)
        except (ValueError, SyntaxError):
            return text
        return found if isinstance(found, str) else text
    return text
