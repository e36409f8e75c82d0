"""Read what the processes of a test run recorded: the functions and lines that ran, and lines that did not run."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from codriver.testing.runs import Recorded

PROCESSES_FILE: Final = "<processes>"
"""Placeholder for the file of a function that starts a process."""


@dataclass(frozen=True, slots=True)
class Function:
    """A project function, identified by its file, first line and qualified name."""

    file: str
    line: int
    """First line of the function, including its decorators."""
    name: str
    """Qualified name of the function."""


@dataclass(slots=True)
class ExecutedFunctions:
    """The functions that each test in a run executed.

    Functions that ran during the import of a test's file, and in its shared fixtures, are included.
    """

    by_test: dict[str, frozenset[Function]] = field(default_factory=dict)
    after_import: dict[str, frozenset[Function]] = field(default_factory=dict)
    """The functions that ran in a test itself or in its fixtures, by test."""
    file_of: dict[str, str] = field(default_factory=dict)
    """File of each test."""
    files: frozenset[str] = frozenset()
    """Project files that were loaded as modules."""
    at_import: frozenset[Function] = frozenset()
    """Functions that ran while files were imported, or outside of tests. Later tests may depend on their effects."""
    preloaded: frozenset[str] = frozenset()
    """Project files that were loaded before the recording started."""
    starting_processes: frozenset[str] = frozenset()
    """Tests that started processes, in which nothing is recorded."""
    sizes: dict[Function, int] = field(default_factory=dict)
    """Size of each function's bytecode, in bytes."""
    failed_lines: dict[str, dict[Function, frozenset[int]]] = field(default_factory=dict)
    """The lines that each failed test executed, by function."""
    line_counts: dict[Function, Counter[int]] = field(default_factory=dict)
    """The number of tests that executed each line of the functions in `failed_lines`."""
    collected: dict[str, int] = field(default_factory=dict)
    """Number of tests in each file that was collected as a whole."""
    error: str = ""
    """The reason why nothing was recorded."""

    def tests_executing(self, functions: Iterable[tuple[str, str]]) -> list[str]:
        """Return the tests that executed one of these functions, or a function inside one of them.

        Each function is identified by its file and its qualified name.
        """
        named = list(functions)
        return [
            test
            for test, executed in self.by_test.items()
            if any(
                function.file == file and f"{function.name}.".startswith(f"{name}.")
                for function in executed
                for file, name in named
            )
        ]

    def whole_files(self) -> frozenset[str]:
        """Return the files whose tests were all recorded completely."""
        ran: dict[str, set[str]] = {}
        for nodeid, file in self.file_of.items():
            ran.setdefault(file, set()).add(nodeid)
        return frozenset(
            file
            for file, tests in ran.items()
            if len(tests) == self.collected.get(file) and self.starting_processes.isdisjoint(tests)
        )


def executed_functions(recorded: Iterable[Recorded]) -> ExecutedFunctions:
    """Combine the records of executed functions from all processes in a run."""
    found = ExecutedFunctions()
    for recording in recorded:
        if recording.recorder == "functions":
            found.error = found.error or recording.error
            try:
                _add_record(found, _mapping_or_empty(recording.data))
            except (IndexError, TypeError, ValueError):  # data from the project's process is not trusted
                found.error = "the record of executed functions cannot be read"
    return found


def _add_record(result: ExecutedFunctions, data: Mapping[str, Any]) -> None:
    functions = [
        Function(str(file), int(line), str(name)) for file, line, name in _list_or_empty(data.get("functions"))
    ]
    result.sizes.update(zip(functions, map(int, _list_or_empty(data.get("sizes"))), strict=False))
    shared = {
        (kind, name): _select_functions(functions, numbers)
        for kind, name, numbers in _list_or_empty(data.get("shared"))
    }
    for nodeid, file, fixtures, numbers in _list_or_empty(data.get("tests")):
        of_fixtures = [shared.get(("fixture", fixture), frozenset()) for fixture in fixtures]
        after_import = _select_functions(functions, numbers).union(*of_fixtures)
        executed = after_import | shared.get(("module", file), frozenset())
        if any(function.file == PROCESSES_FILE for function in executed):
            result.starting_processes |= {nodeid}
            after_import, executed = (
                frozenset(function for function in found if function.file != PROCESSES_FILE)
                for found in (after_import, executed)
            )
        executed |= result.by_test.get(nodeid, frozenset())
        after_import |= result.after_import.get(nodeid, frozenset())
        result.by_test[nodeid] = executed
        # Most tests import nothing. They keep one set instead of two equal ones.
        result.after_import[nodeid] = executed if len(after_import) == len(executed) else after_import
        result.file_of[nodeid] = file
    result.files |= frozenset(_list_or_empty(data.get("files")))
    result.preloaded |= frozenset(_list_or_empty(data.get("preloaded")))
    result.at_import |= frozenset().union(*[executed for (kind, _), executed in shared.items() if kind != "fixture"])
    for nodeid, of_functions in _list_or_empty(data.get("failedLines")):
        result.failed_lines[nodeid] = {functions[number]: frozenset(lines) for number, lines in of_functions}
    for number, counts in _list_or_empty(data.get("lineCounts")):
        result.line_counts.setdefault(functions[number], Counter()).update(dict(counts))
    for file, count in _mapping_or_empty(data.get("collected")).items():
        result.collected[file] = max(int(count), result.collected.get(file, 0))


def lines_not_run(recorded: Iterable[Recorded]) -> dict[str, tuple[int, ...]]:
    """Return the requested lines that no process of a run executed, by file."""
    left: dict[str, set[int]] = {}
    ran: dict[str, set[int]] = {}
    for recording in recorded:
        if recording.recorder == "lines":
            for file, rows in _mapping_or_empty(recording.data).items():
                left.setdefault(file, set()).update(_list_or_empty(_mapping_or_empty(rows).get("lines")))
                ran.setdefault(file, set()).update(_list_or_empty(_mapping_or_empty(rows).get("ran")))
    found = {file: tuple(sorted(lines - ran[file])) for file, lines in left.items()}
    return {file: lines for file, lines in found.items() if lines}


def _select_functions(functions: list[Function], numbers: Iterable[int]) -> frozenset[Function]:
    return frozenset(functions[number] for number in numbers)


def _mapping_or_empty(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _list_or_empty(value: object) -> list[Any]:
    return value if isinstance(value, list) else []
