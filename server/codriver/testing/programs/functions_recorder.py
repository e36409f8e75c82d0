"""Records the project's functions that each test executed, by `sys.monitoring`, which Python has from 3.12 on.

An event of the whole interpreter finds the codes, and is disabled for each at once. The rest are events of the
project's own codes. A function that is called often in a test has its events disabled until another test starts.
Functions that run while a file is imported count for all tests of the file, and those of a shared fixture for all tests
that use it.
"""

from __future__ import annotations

import sys

from .own_code import ALL_TAKEN, OwnCode, is_function, take_tool

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from types import CodeType
    from typing import Any

    Place = tuple[str, ...]

OFTEN = 16
"""The calls after which a function is disabled in one test: enabling it for the next costs as much as ten calls."""
TOO_OLD = "the functions that tests execute are recorded by sys.monitoring, which Python has from 3.12 on"
OUTSIDE = ("", "")


def recorder(options: Mapping[str, Any]) -> FunctionsRecorder:
    """Return the recorder for a run."""
    return FunctionsRecorder(options["roots"])


class FunctionsRecorder:
    """The functions by test. `roots`: the directories of the project."""

    name = "functions"

    def __init__(self, roots: Sequence[str]) -> None:
        self._own = OwnCode(roots)
        self._monitoring: Any = getattr(sys, "monitoring", None)
        self._tool = -1
        self._problem = ""
        self._numbers: dict[int, int] = {}
        """The number of a code's function, by the id of the code."""
        self._codes: list[CodeType] = []
        """The codes of the project: they are kept, so that no other code gets the id of one of them."""
        self._functions: dict[tuple[str, int, str], int] = {}
        self._current: dict[int, int] = {}
        """The calls of each function since the last test started, by its number."""
        self._often: list[CodeType] = []
        self._place: Place = OUTSIDE
        self._sets: dict[Place, set[int]] = {}
        self._tests: dict[str, tuple[str, list[str]]] = {}

    def start(self) -> None:
        """Record from now on."""
        monitoring = self._monitoring
        if monitoring is None:
            self._problem = TOO_OLD
            return
        self._tool = take_tool(monitoring)
        if self._tool < 0:
            self._problem = ALL_TAKEN
            return
        events = monitoring.events
        for event, callback in zip(self._events(), self._callbacks()):
            monitoring.register_callback(self._tool, event, callback)
        monitoring.set_events(self._tool, events.PY_START | events.PY_UNWIND)

    def enter(self, *place: str) -> None:
        """Record from now on for a test, the import of a file (`module`), a shared `fixture`, or nothing."""
        if self._tool < 0:
            return
        self._keep()
        self._place = place
        often, self._often = self._often, []
        events = self._monitoring.events
        for code in often:
            self._monitoring.set_local_events(self._tool, code, 0)
            self._monitoring.set_local_events(self._tool, code, events.PY_RETURN | events.PY_YIELD)

    def uses(self, nodeid: str, file: str, fixtures: Iterable[str]) -> None:
        """Note the file of a test, and the fixtures that it uses."""
        if self._tool >= 0:
            self._tests[nodeid] = file, list(fixtures)

    def finish(self) -> dict[str, Any]:
        """Stop recording, and return what was recorded."""
        if self._tool >= 0:
            self._keep()
            monitoring = self._monitoring
            monitoring.set_events(self._tool, 0)
            for code in self._codes:
                monitoring.set_local_events(self._tool, code, 0)
            for event in self._events():
                monitoring.register_callback(self._tool, event, None)
            monitoring.free_tool_id(self._tool)
            self._tool = -1
        shared = [
            [*place, sorted(numbers)] for place, numbers in self._sets.items() if place[0] in ("module", "fixture")
        ]
        tests = [
            [nodeid, file, [one for one in fixtures if ("fixture", one) in self._sets],
             sorted(self._sets.get(("test", nodeid), ()))]
            for nodeid, (file, fixtures) in self._tests.items()
        ]  # fmt: skip
        modules = {self._own.path(str(getattr(one, "__file__", None) or "")) for one in list(sys.modules.values())}
        data = {
            "functions": [list(one) for one in self._functions],
            "shared": shared,
            "tests": tests,
            "files": sorted(modules - {""}),
        }
        return {"data": data, "problem": self._problem}

    def _keep(self) -> None:
        if self._current:
            self._sets.setdefault(self._place, set()).update(self._current)
            # The callbacks have this very map.
            self._current.clear()

    def _look(self, code: CodeType) -> int:
        """Return the number of a function of the project that is seen for the first time; -1 for any other code."""
        path = self._own.path(code.co_filename) if is_function(code) else ""
        if not path:
            return -1
        place = path, code.co_firstlineno, code.co_qualname
        number = self._functions.setdefault(place, len(self._functions))
        self._numbers[id(code)] = number
        self._codes.append(code)
        events = self._monitoring.events
        self._monitoring.set_local_events(self._tool, code, events.PY_RETURN | events.PY_YIELD)
        return number

    def _events(self) -> Sequence[int]:
        events = self._monitoring.events
        return events.PY_START, events.PY_RETURN, events.PY_YIELD, events.PY_UNWIND

    def _callbacks(self) -> Sequence[Any]:
        disable, numbers, current, look = self._monitoring.DISABLE, self._numbers, self._current, self._look

        def started(code: CodeType, _offset: int) -> Any:
            number = numbers.get(id(code))
            number = look(code) if number is None else number
            if number >= 0:
                current.setdefault(number, 0)
            return disable

        def left(code: CodeType, _offset: int, _value: object) -> Any:
            number = numbers.get(id(code))
            if number is None:
                return disable
            count = current[number] = current.get(number, 0) + 1
            if count < OFTEN:
                return None
            self._often.append(code)
            return disable

        def unwound(code: CodeType, _offset: int, _error: object) -> None:
            number = numbers.get(id(code))
            if number is not None:
                current.setdefault(number, 0)

        return started, left, left, unwound
