"""Record the project's functions that each test executes, with `sys.monitoring` in Python 3.12 and later.

A global event discovers code objects, and is disabled for each one as soon as it is found. All other events are local
to the project's code. If a function is called often in a test, its events are disabled until another test starts. The
event of a line is disabled when the line has run, also until another test starts. The lines of each test are only
returned if it failed. For other tests, the number of tests that executed a line is enough.
Functions that run while a file is imported count for all tests in the file, and those of a shared fixture for all tests
that use it.

The callbacks may run at any time, in other threads and when garbage is collected. Maps that they change are therefore
only iterated as copies, and entries are removed one by one, so that none is lost.
"""

from __future__ import annotations

import os
import sys

from .project_code import NO_FREE_TOOL_MESSAGE, ProjectCode, claim_tool, is_function

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from types import CodeType
    from typing import Any

    Context = tuple[str, ...]

MAX_TRACKED_CALLS = 16
"""Number of calls in one test after which the events of a function are disabled.

Enabling them again costs as much as ten calls.
"""
TOO_OLD_MESSAGE = "recording the functions that tests execute needs sys.monitoring, which was added in Python 3.12"
OUTSIDE_CONTEXT = ("", "")
"""Context of code that runs outside of tests, imports and fixtures."""
PROCESSES_FILE = "<processes>"
"""Placeholder for the file of a function that starts a process, because the process is not recorded."""
XDIST_VARIABLE = "PYTEST_XDIST_WORKER"
"""Environment variable that pytest-xdist sets in its workers."""
PROCESS_STARTERS = ("Popen._execute_child", "Popen._launch")
"""Qualified names of the functions that start processes, in `subprocess` and `multiprocessing`."""


def recorder(options: Mapping[str, Any]) -> FunctionsRecorder:
    """Create the recorder for a run."""
    return FunctionsRecorder(options["roots"])


class FunctionsRecorder:
    """Records the functions that each test executes. `roots` are the project's directories."""

    name = "functions"
    is_early = True
    """Whether the recorder starts before `conftest` files are imported."""

    def __init__(self, roots: Sequence[str]) -> None:
        self._project_code = ProjectCode(roots)
        self._monitoring: Any = getattr(sys, "monitoring", None)
        self._tool = -1
        self._error = ""
        self._numbers: dict[int, int] = {}
        """Number of a code object's function, by the id of the code object."""
        self._codes: dict[int, CodeType] = {}
        """The project's code objects by their ids, which are not reused because of these references."""
        self._functions: dict[tuple[str, int, str], int] = {}
        self._current: dict[int, int] = {}
        """Calls to each function since the last test started, by its number. The one that returned last is last."""
        self._code_of: dict[int, CodeType] = {}
        """The newest code object of each function, by its number."""
        self._lines: dict[int, set[int]] = {}
        """Lines executed since the last test started, by the id of their code object."""
        self._test_lines: dict[int, set[int]] = {}
        """Lines that the running test has executed, by the number of their function."""
        self._has_failed = False
        """Whether the running test has failed."""
        self._failed_lines: dict[str, dict[int, set[int]]] = {}
        """Lines that each failed test executed, by the number of their function."""
        self._line_counts: dict[int, dict[int, int]] = {}
        """Number of tests that executed each line, by the number of its function."""
        self._disabled: dict[int, CodeType] = {}
        """Code objects with disabled events, by their ids."""
        self._context: Context = OUTSIDE_CONTEXT
        self._sets: dict[Context, set[int]] = {}
        self._tests: dict[str, tuple[str, list[str]]] = {}
        self._collected: dict[str, int] = {}
        self._preloaded: set[str] = set()

    def start(self) -> None:
        """Start recording."""
        monitoring = self._monitoring
        if monitoring is None:
            self._error = TOO_OLD_MESSAGE
            return
        self._tool = claim_tool(monitoring)
        if self._tool < 0:
            self._error = NO_FREE_TOOL_MESSAGE
            return
        self._preloaded = self._loaded_files()
        events = monitoring.events
        for event, callback in zip(self._events(), self._callbacks()):
            monitoring.register_callback(self._tool, event, callback)
        monitoring.set_events(self._tool, events.PY_START | events.PY_UNWIND)

    def set_context(self, *context: str) -> None:
        """Set the context to which executed functions are attributed from now on.

        This is a test, the import of a file (`module`), a shared `fixture`, or nothing.
        """
        if self._tool < 0:
            return
        self._store_calls()
        self._store_lines()
        if context == OUTSIDE_CONTEXT:
            self._finish_test()
        self._context = context
        monitoring, tool, local_events = self._monitoring, self._tool, self._local_events()
        for identity, code in list(self._disabled.items()):
            del self._disabled[identity]
            monitoring.set_local_events(tool, code, 0)
            monitoring.set_local_events(tool, code, local_events)

    def record_failure(self) -> list[CodeType] | None:
        """Record that the running test has failed, and return the functions that it executed, last returned first.

        Return None if nothing is recorded. Only the first `MAX_TRACKED_CALLS` calls to a function affect the order.
        """
        self._has_failed = True
        return [self._code_of[number] for number in reversed(list(self._current))] if self._tool >= 0 else None

    def record_test(self, nodeid: str, file: str, fixtures: Iterable[str]) -> None:
        """Record the file of a test and the names of its fixtures."""
        if self._tool >= 0:
            self._tests[nodeid] = file, list(fixtures)

    def collect(self, counts: Mapping[str, int]) -> None:
        """Record the number of tests in each file that was collected completely."""
        self._collected.update(counts)

    def finish(self) -> dict[str, Any]:
        """Stop recording, and return the recorded functions."""
        if self._tool >= 0:
            self._store_calls()
            monitoring = self._monitoring
            monitoring.set_events(self._tool, 0)
            for code in list(self._codes.values()):
                monitoring.set_local_events(self._tool, code, 0)
            for event in self._events():
                monitoring.register_callback(self._tool, event, None)
            monitoring.free_tool_id(self._tool)
            self._tool = -1
        shared = [
            [*context, sorted(numbers)]
            for context, numbers in self._sets.items()
            if context[0] in ("module", "fixture") or context == OUTSIDE_CONTEXT
        ]
        tests = [
            [nodeid, file, [fixture for fixture in fixtures if ("fixture", fixture) in self._sets],
             sorted(self._sets.get(("test", nodeid), ()))]
            for nodeid, (file, fixtures) in self._tests.items()
        ]  # fmt: skip
        data = {
            "functions": [list(function) for function in self._functions],
            "sizes": [len(self._code_of[number].co_code) for number in self._functions.values()],
            "shared": shared,
            "tests": tests,
            "files": sorted(self._loaded_files()),
            "preloaded": sorted(self._preloaded),
            "collected": self._collected,
            "failedLines": [
                [nodeid, [[number, sorted(lines)] for number, lines in of_functions.items()]]
                for nodeid, of_functions in self._failed_lines.items()
            ],
            "lineCounts": self._needed_line_counts(),
        }
        return {"data": data, "problem": self._error}

    def _needed_line_counts(self) -> list[Any]:
        """Return the number of tests that executed each line of the functions that failed tests executed.

        In a worker of pytest-xdist, return those of all functions, because tests of other workers may have failed.
        """
        numbers = {number for of_functions in self._failed_lines.values() for number in of_functions}
        return [
            [number, [list(pair) for pair in counts.items()]]
            for number, counts in self._line_counts.items()
            if number in numbers or XDIST_VARIABLE in os.environ
        ]

    def _loaded_files(self) -> set[str]:
        """Return the project's files that are loaded as modules."""
        files = [str(getattr(module, "__file__", None) or "") for module in list(sys.modules.values())]
        return {self._project_code.path(file) for file in files} - {""}

    def _store_calls(self) -> None:
        """Add the functions executed so far to the record of the current context."""
        if self._current:
            numbers = list(self._current)
            self._sets.setdefault(self._context, set()).update(numbers)
            for number in numbers:
                self._current.pop(number, None)

    def _store_lines(self) -> None:
        """Add the lines executed so far to those of the running test. The lines of other code are discarded."""
        for identity, lines in list(self._lines.items()):
            del self._lines[identity]
            if self._context[0] == "test":
                self._test_lines.setdefault(self._numbers[identity], set()).update(lines)

    def _finish_test(self) -> None:
        """Count the lines of the test that has just finished, and store them if it failed."""
        for number, lines in self._test_lines.items():
            counts = self._line_counts.setdefault(number, {})
            for line in lines:
                counts[line] = counts.get(line, 0) + 1
        if self._has_failed and self._context[0] == "test":
            self._failed_lines[self._context[1]] = self._test_lines
        self._test_lines, self._has_failed = {}, False

    def _find_function(self, code: CodeType) -> int:
        """Return the number of a project function on its first call, or -1 for other code."""
        path = self._project_code.path(code.co_filename) if is_function(code) else ""
        if not path and code.co_qualname in PROCESS_STARTERS:
            path = PROCESSES_FILE
        if not path:
            return -1
        function = path, code.co_firstlineno, code.co_qualname
        number = self._functions.setdefault(function, len(self._functions))
        self._numbers[id(code)] = number
        self._codes[id(code)] = code
        self._code_of[number] = code
        self._monitoring.set_local_events(self._tool, code, self._local_events())
        return number

    def _local_events(self) -> int:
        """Return the events of the project's functions."""
        events = self._monitoring.events
        return int(events.PY_RETURN | events.PY_YIELD | events.LINE)

    def _events(self) -> Sequence[int]:
        """Return the `sys.monitoring` events to record."""
        events = self._monitoring.events
        return events.PY_START, events.PY_RETURN, events.PY_YIELD, events.PY_UNWIND, events.LINE

    def _callbacks(self) -> Sequence[Any]:
        """Return the callbacks for the events returned by `_events`, in the same order."""
        disable, numbers, current, find_function = (
            self._monitoring.DISABLE,
            self._numbers,
            self._current,
            self._find_function,
        )
        executed_lines, disabled = self._lines, self._disabled

        def started(code: CodeType, _offset: int) -> Any:
            number = numbers.get(id(code))
            number = find_function(code) if number is None else number
            if number >= 0:
                current.setdefault(number, 0)
            return disable

        def left(code: CodeType, _offset: int, _value: object) -> Any:
            number = numbers.get(id(code))
            if number is None:
                return disable
            count = current[number] = current.pop(number, 0) + 1
            if count < MAX_TRACKED_CALLS:
                return None
            disabled[id(code)] = code
            return disable

        def unwound(code: CodeType, _offset: int, _error: object) -> None:
            number = numbers.get(id(code))
            if number is not None:
                current.setdefault(number, 0)

        def line_reached(code: CodeType, line: int) -> Any:
            lines = executed_lines.get(id(code))
            if lines is None:
                if id(code) not in numbers:
                    return disable
                lines = executed_lines[id(code)] = set()
                disabled[id(code)] = code
            lines.add(line)
            return disable

        return started, left, left, unwound, line_reached
