"""What recorders recorded in the processes of a run, as values: functions by test, and lines that did not run."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from codriver.testing.runs import Recorded


@dataclass(frozen=True, slots=True)
class Function:
    """A function of the project."""

    file: str
    line: int
    """The first line, of the first decorator if there is one."""
    name: str
    """The qualified name."""


@dataclass(slots=True)
class ExecutedFunctions:
    """The functions that each test executed, also in the import of its file and in fixtures that it shares."""

    by_test: dict[str, frozenset[Function]] = field(default_factory=dict)
    file_of: dict[str, str] = field(default_factory=dict)
    """The file of each test."""
    files: frozenset[str] = frozenset()
    """The project's files that were loaded as modules."""
    problem: str = ""
    """Why nothing was recorded."""

    def tests_of(self, functions: Iterable[tuple[str, str]]) -> list[str]:
        """Return the tests that executed one of these functions, each a file and a qualified name, or an inner one."""
        named = list(functions)
        return [
            test
            for test, executed in self.by_test.items()
            if any(
                one.file == file and f"{one.name}.".startswith(f"{name}.") for one in executed for file, name in named
            )
        ]


def executed_functions(recorded: Iterable[Recorded]) -> ExecutedFunctions:
    """Return the functions by test from the events of a run: several processes may have recorded, as under xdist."""
    found = ExecutedFunctions()
    for one in recorded:
        if one.recorder == "functions":
            found.problem = found.problem or one.problem
            try:
                _add(found, _map(one.data))
            except (IndexError, TypeError, ValueError):  # the project's process may write anything
                found.problem = "the record of executed functions cannot be read"
    return found


def _add(found: ExecutedFunctions, data: Mapping[str, Any]) -> None:
    """Add what one process recorded."""
    functions = [Function(str(file), int(line), str(name)) for file, line, name in _list(data.get("functions"))]
    shared = {(kind, name): _of(functions, numbers) for kind, name, numbers in _list(data.get("shared"))}
    for nodeid, file, fixtures, numbers in _list(data.get("tests")):
        places = [("module", file), *[("fixture", fixture) for fixture in fixtures]]
        executed = _of(functions, numbers).union(*[shared.get(place, ()) for place in places])
        found.by_test[nodeid] = found.by_test.get(nodeid, frozenset()) | executed
        found.file_of[nodeid] = file
    found.files |= frozenset(_list(data.get("files")))


def lines_not_run(recorded: Iterable[Recorded]) -> dict[str, tuple[int, ...]]:
    """Return the lines of interest that no process of a run executed, by file."""
    left: dict[str, set[int]] = {}
    ran: dict[str, set[int]] = {}
    for one in recorded:
        if one.recorder == "lines":
            for file, rows in _map(one.data).items():
                left.setdefault(file, set()).update(_list(_map(rows).get("lines")))
                ran.setdefault(file, set()).update(_list(_map(rows).get("ran")))
    found = {file: tuple(sorted(lines - ran[file])) for file, lines in left.items()}
    return {file: lines for file, lines in found.items() if lines}


def _of(functions: list[Function], numbers: Iterable[int]) -> frozenset[Function]:
    return frozenset(functions[number] for number in numbers)


def _map(found: object) -> Mapping[str, Any]:
    return found if isinstance(found, dict) else {}


def _list(found: object) -> list[Any]:
    return found if isinstance(found, list) else []
