"""The project's functions that each test executed, in the runs of tests that this process has seen.

A function that is called often in a test has its events disabled until another test begins. They are events of its own
code. One of the whole interpreter finds the codes, each of which disables it at once; that codes of
libraries stay so is no loss to the next run, and a recorder of calls enables them by `refresh`.

Before Python 3.12 nothing is noted but where coverage is asked for, by a profile function, with which a run takes 1.4
times as long: what is loaded by whom says less, and costs nothing.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import weakref
from array import array

from .call_monitor import NAME, TOOL_IDS
from .recorded_calls import Wanted

TYPE_CHECKING = False
if TYPE_CHECKING:
    import types
    from collections.abc import Iterable, Sequence
    from typing import Any

    Test = tuple[str, str]

MOST_TESTS = 20_000
OFTEN = 16
"""So often a function is told in one test, and then disabled: to enable it for the next costs as much as ten calls."""
NO_TOOL = "no tool id of sys.monitoring is free, as debuggers, profilers or coverage have them"
OUTSIDE = ("", "")
"""The test that functions belong to which run in no test, nor for one."""


class ExecutedFunctions:
    """The functions by test, for the life of the process. `roots`: the folders of the project."""

    def __init__(self, roots: Sequence[str]) -> None:
        self._roots = list(roots)
        self._wanted = Wanted(roots)
        self._monitoring: Any = getattr(sys, "monitoring", None)
        self._tool = -1
        self._numbers: dict[int, int] = {}
        """By the id of a code, while it lives: the number of its function."""
        self._functions: list[tuple[str, str]] = []
        """File and qualified name of each."""
        self._known: dict[tuple[str, str], int] = {}
        self._codes: dict[int, weakref.ref[types.CodeType]] = {}
        self._passed: list[weakref.ref[types.CodeType]] = []
        """Codes of libraries, whose events are disabled."""
        self._current: dict[int, int] = {}
        """By the number of a function how often it ended since the last test began, as far as that is told."""
        self._hit: list[types.CodeType] = []
        self._place: tuple[str, ...] = OUTSIDE
        self._sets: dict[tuple[str, ...], array[int]] = {}
        """By test, module or fixture what ran for it."""
        self._uses: dict[Test, tuple[str, tuple[str, ...]]] = {}
        """By namespace and name of a test: its file, and the fixtures that others may use too."""
        self._lock = threading.Lock()
        self.is_asked = False
        """Whether a profile function may note, where there is nothing that costs less."""
        self._profile: Any = None
        self._unseen = ""
        """Why the last run was not noted, where it could have been, in words."""

    # While tests run

    def begin(self, folder: str = "") -> bool:
        """Note from now on what runs of the project, that in a `folder` too; false if there are no means for it."""
        monitoring = self._monitoring
        if folder and folder not in self._roots:
            self._roots.append(folder)
            self._wanted = Wanted(self._roots)
        if monitoring is None:
            return self.is_asked and self._begin_profile()
        if self._tool >= 0:
            return False
        self._tool = next((one for one in TOOL_IDS if monitoring.get_tool(one) is None), -1)
        self._unseen = NO_TOOL if self._tool < 0 else ""
        if self._tool < 0:
            return False
        monitoring.use_tool_id(self._tool, NAME)
        events = monitoring.events
        self._current, self._hit, self._place = {}, [], OUTSIDE
        for event, callback in zip(self._events(), self._callbacks()):
            monitoring.register_callback(self._tool, event, callback)
        for code in self._living():
            monitoring.set_local_events(self._tool, code, events.PY_RETURN | events.PY_YIELD)
        monitoring.set_events(self._tool, events.PY_START | events.PY_UNWIND)
        return True

    def enter(self, *place: str) -> None:
        """From now on it runs for this test (namespace and name), module (`module`, file) or fixture (`fixture`, …)."""
        if not self._is_noting():
            return
        self._keep()
        self._place, self._current = place, {}
        if self._tool < 0:
            return
        events, hit, self._hit = self._monitoring.events, self._hit, []
        for code in hit:
            self._monitoring.set_local_events(self._tool, code, 0)
            self._monitoring.set_local_events(self._tool, code, events.PY_RETURN | events.PY_YIELD)

    def uses(self, namespace: str, test: str, file: str, fixtures: Iterable[str]) -> None:
        """A test of a file uses these fixtures."""
        if self._is_noting() and len(self._uses) < MOST_TESTS:
            self._uses[namespace, test] = file, tuple(fixtures)
            self._sets.pop((namespace, test), None)

    def end(self) -> None:
        """Note no more, and leave no event of ours in code of the project."""
        if not self._is_noting():
            return
        self._keep()
        if self._profile is not None:
            self._end_profile()
            return
        monitoring, tool = self._monitoring, self._tool
        monitoring.set_events(tool, 0)
        for code in self._living():
            monitoring.set_local_events(tool, code, 0)
        for event in self._events():
            monitoring.register_callback(tool, event, None)
        monitoring.free_tool_id(tool)
        self._tool, self._hit = -1, []

    def _is_noting(self) -> bool:
        return self._tool >= 0 or self._profile is not None

    def _begin_profile(self) -> bool:
        """Note the calls of this thread, and of those that are started from now on; false if a profiler is at work."""
        if self._profile is not None or sys.getprofile() is not None:
            return False
        numbers = self._numbers
        passed: dict[int, types.CodeType] = {}  # no other code gets the number of one that lives

        def profile(frame: types.FrameType, event: str, _value: object) -> None:
            if event == "call" and id(frame.f_code) not in passed:
                code = frame.f_code
                number = numbers.get(id(code))
                number = self._look(code) if number is None else number
                if number >= 0:
                    self._current.setdefault(number, 0)
                else:
                    passed[id(code)] = code

        self._current, self._place = {}, OUTSIDE
        self._living()  # forgets the numbers of codes that are no more
        self._profile = profile
        threading.setprofile(profile)
        sys.setprofile(profile)
        return True

    def _end_profile(self) -> None:
        if sys.getprofile() is self._profile:
            sys.setprofile(None)
        if getattr(threading, "_profile_hook", None) is self._profile:
            threading.setprofile(None)
        self._profile = None

    def refresh(self, tool: int) -> None:
        """Enable the events of this tool again that are disabled in codes of libraries."""
        passed, self._passed = self._passed, []
        for one in passed:
            code = one()
            if code is not None:
                self._monitoring.set_local_events(tool, code, self._monitoring.events.PY_RETURN)
                self._monitoring.set_local_events(tool, code, 0)

    # Afterwards

    def tests_of(self, functions: Iterable[Sequence[str]]) -> dict[str, list[list[str]]]:
        """The tests that executed one of these functions, each a file and a qualified name; the files of all tests.

        A function stands for those within it, too. `unseen` says why the last run is not among those that were noted.
        """
        asked = [(file, name) for file, name in functions]
        wanted = {
            number
            for (file, name), number in self._known.items()
            if any(file == one and f"{name}.".startswith(f"{own}.") for one, own in asked)
        }
        with self._lock:
            found = [list(test) for test, used in self._uses.items() if self._has(test, used, wanted)]
        files = [[file] for file in {file for file, _ in self._uses.values()}]
        return {"tests": found, "files": files, "unseen": [[self._unseen]] if self._unseen else []}

    def _has(self, test: Test, used: tuple[str, tuple[str, ...]], wanted: set[int]) -> bool:
        file, fixtures = used
        places = [test, ("module", file), *[("fixture", one) for one in fixtures]]
        return any(number in wanted for place in places for number in self._sets.get(place, ()))

    def _keep(self) -> None:
        if not self._current:
            return
        with self._lock:
            self._sets[self._place] = array("I", {*self._current, *self._sets.get(self._place, ())})

    def _living(self) -> list[types.CodeType]:
        found = []
        for identity, one in list(self._codes.items()):
            code = one()
            if code is None:
                del self._codes[identity]
                self._numbers.pop(identity, None)
            else:
                found.append(code)
        return found

    def _look(self, code: types.CodeType) -> int:
        """The number of a function of the project that is seen for the first time; -1 of any other."""
        name = code.co_qualname if hasattr(code, "co_qualname") else code.co_name
        if not self._wanted.takes(code, "", name):
            if self._tool >= 0:
                self._passed.append(weakref.ref(code))
            return -1
        place = os.path.realpath(code.co_filename), name
        number = self._known.get(place)
        if number is None:
            number = self._known[place] = len(self._functions)
            self._functions.append(place)
        self._numbers[id(code)], self._codes[id(code)] = number, weakref.ref(code)
        if self._tool >= 0:
            events = self._monitoring.events
            self._monitoring.set_local_events(self._tool, code, events.PY_RETURN | events.PY_YIELD)
        return number

    def _events(self) -> Sequence[int]:
        events = self._monitoring.events
        return events.PY_START, events.PY_RETURN, events.PY_YIELD, events.PY_UNWIND

    def _callbacks(self) -> Sequence[Any]:
        disable, numbers, look = self._monitoring.DISABLE, self._numbers, self._look

        def started(code: types.CodeType, _offset: int) -> Any:
            number = numbers.get(id(code))
            number = look(code) if number is None else number
            if number >= 0:
                self._current.setdefault(number, 0)
            return disable

        def left(code: types.CodeType, _offset: int, _value: object) -> Any:
            number = numbers.get(id(code))
            if number is None:
                return disable
            current = self._current
            count = current[number] = current.get(number, 0) + 1
            if count < OFTEN:
                return None
            self._hit.append(code)
            return disable

        def unwound(code: types.CodeType, _offset: int, _error: object) -> None:
            number = numbers.get(id(code))
            if number is not None:
                self._current.setdefault(number, 0)

        return started, left, left, unwound


def offer(executed: ExecutedFunctions) -> None:
    """Let the program that runs tests find it, which is none of the worker's modules."""
    package = sys.modules.get(__name__.partition(".")[0])
    with contextlib.suppress(AttributeError):
        package.executed = executed  # type: ignore[union-attr]  # the package's own name


def offered() -> ExecutedFunctions | None:
    """The one of this process, if there is one."""
    return getattr(sys.modules.get(__name__.partition(".")[0]), "executed", None)
