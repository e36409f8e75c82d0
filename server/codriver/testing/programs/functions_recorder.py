"""Record the project's functions that each test executes, with `sys.monitoring` in Python 3.12 and later.

A global event discovers code objects, and is disabled for each one as soon as it is found. All other events are local
to the project's code. If a function is called often in a test, its events are disabled until another test starts.
Functions that run while a file is imported count for all tests in the file, and those of a shared fixture for all tests
that use it.
"""

from __future__ import annotations

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
        self._codes: list[CodeType] = []
        """The project's code objects, referenced so that their ids are not reused."""
        self._functions: dict[tuple[str, int, str], int] = {}
        self._current: dict[int, int] = {}
        """Calls to each function since the last test started, by its number. The one that returned last is last."""
        self._code_of: dict[int, CodeType] = {}
        """The newest code object of each function, by its number."""
        self._often: list[CodeType] = []
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
        self._context = context
        often, self._often = self._often, []
        events = self._monitoring.events
        for code in often:
            self._monitoring.set_local_events(self._tool, code, 0)
            self._monitoring.set_local_events(self._tool, code, events.PY_RETURN | events.PY_YIELD)

    def executed(self) -> list[CodeType] | None:
        """Return the functions executed since the last test started, last returned first.

        Return None if nothing is recorded. Only the first `MAX_TRACKED_CALLS` calls to a function affect the order.
        """
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
            for code in self._codes:
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
        }
        return {"data": data, "problem": self._error}

    def _loaded_files(self) -> set[str]:
        """Return the project's files that are loaded as modules."""
        files = [str(getattr(module, "__file__", None) or "") for module in list(sys.modules.values())]
        return {self._project_code.path(file) for file in files} - {""}

    def _store_calls(self) -> None:
        """Add the functions executed so far to the record of the current context."""
        if self._current:
            self._sets.setdefault(self._context, set()).update(self._current)
            # The callbacks use this same map.
            self._current.clear()

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
        self._codes.append(code)
        self._code_of[number] = code
        events = self._monitoring.events
        self._monitoring.set_local_events(self._tool, code, events.PY_RETURN | events.PY_YIELD)
        return number

    def _events(self) -> Sequence[int]:
        """Return the `sys.monitoring` events to record."""
        events = self._monitoring.events
        return events.PY_START, events.PY_RETURN, events.PY_YIELD, events.PY_UNWIND

    def _callbacks(self) -> Sequence[Any]:
        """Return the callbacks for the events returned by `_events`, in the same order."""
        disable, numbers, current, find_function = (
            self._monitoring.DISABLE,
            self._numbers,
            self._current,
            self._find_function,
        )

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
            self._often.append(code)
            return disable

        def unwound(code: CodeType, _offset: int, _error: object) -> None:
            number = numbers.get(id(code))
            if number is not None:
                current.setdefault(number, 0)

        return started, left, left, unwound
