"""Recordings while code runs: the functions that each test executed, the calls under a request, the changed lines.

The functions that each test executed are known for the test runs of this process. A function that is called often in a
test has its events disabled until another test begins. These are events of the function's own code. An event of the
whole interpreter finds the codes, and is disabled for each at once; codes of libraries stay disabled without loss to
the next run, and a recorder of calls enables them by `refresh`. Before Python 3.12 functions are noted only if coverage
is asked for, by a profile function, which makes a run take 1.4 times as long: the imports between modules tell less,
and cost nothing.

A recording of calls is begun before the request and ended after it, whatever becomes of the request. Recorded lines
belong to functions changed since the last commit, and are noted by `sys.monitoring`, each once, as its event is then
disabled. Lines outside of functions run when a file is loaded, not in a test, and are left out.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import re
import subprocess
import sys
import threading
import types
import weakref
from array import array

from ..basics.dialect import bytes_of
from .call_monitor import ALL_TAKEN, NAME, TOOL_IDS, CallMonitor, CallProfiler
from .recorded_calls import OPTIMIZED, Recording, Wanted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Any

    from ..basics.dialect import Dialect
    from ..basics.jobs import Job

    Test = tuple[str, str]

MOST_TESTS = 20_000
OFTEN = 16
"""The calls after which a function is disabled in one test: enabling it for the next costs as much as ten calls."""
NO_TOOL = "no tool id of sys.monitoring is free, as debuggers, profilers or coverage have them"
OUTSIDE = ("", "")
"""The stand-in test for functions that run outside of any test."""
TRACE = "codriver/trace"
"""The field by which a request asks for a recording: the names to record, none for all of the project's own."""
RUN = "codriver/run"
"""The field with a recording, as JSON: see `Recording.report`; or `refused`, with the reason."""


COVER = "codriver/cover"
PROFILE = "codriver/profile"
"""The fields by which a request asks for changed lines without a run, and for the slowest functions."""
PROFILED = 10


class ExecutedFunctions:
    """The functions by test, for the life of the process. `roots`: the folders of the project."""

    def __init__(self, roots: Sequence[str]) -> None:
        self._roots = list(roots)
        self._wanted = Wanted(roots)
        self._monitoring: Any = getattr(sys, "monitoring", None)
        self._tool = -1
        self._numbers: dict[int, int] = {}
        """The number of a code's function, by the id of the living code."""
        self._functions: list[tuple[str, str]] = []
        """File and qualified name of each function."""
        self._known: dict[tuple[str, str], int] = {}
        self._codes: dict[int, weakref.ref[types.CodeType]] = {}
        self._passed: list[weakref.ref[types.CodeType]] = []
        """Codes of libraries with disabled events."""
        self._current: dict[int, int] = {}
        """The told ends of each function since the last test began, by its number."""
        self._hit: list[types.CodeType] = []
        self._place: tuple[str, ...] = OUTSIDE
        self._sets: dict[tuple[str, ...], array[int]] = {}
        """The functions that ran for each test, module or fixture."""
        self._uses: dict[Test, tuple[str, tuple[str, ...]]] = {}
        """A test's file and shared fixtures, by its namespace and name."""
        self._lock = threading.Lock()
        self.is_asked = False
        """Whether a profile function may note, for lack of anything cheaper."""
        self._profile: Any = None
        self._unseen = ""
        """The reason in words why the last run was not noted; empty if it was, or could not be."""

    # While tests run

    def begin(self, folder: str = "") -> bool:
        """Note the project's running code from now on, also in `folder`; False if this Python cannot."""
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
        """Note the fixtures that a test of a file uses."""
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
        """Note the calls of this thread, and of threads started from now on; False if a profiler is at work."""
        if self._profile is not None or sys.getprofile() is not None:
            return False
        numbers = self._numbers
        passed: dict[int, types.CodeType] = {}  # no other code gets the id of a living one

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
        self._living()  # forgets the numbers of dead codes
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
        """Enable this tool's disabled events in codes of libraries again."""
        passed, self._passed = self._passed, []
        for one in passed:
            code = one()
            if code is not None:
                self._monitoring.set_local_events(tool, code, self._monitoring.events.PY_RETURN)
                self._monitoring.set_local_events(tool, code, 0)

    # Afterwards

    def tests_of(self, functions: Iterable[Sequence[str]]) -> dict[str, list[list[str]]]:
        """The tests that executed one of these functions, each a file and a qualified name; the files of all tests.

        A function includes its inner functions. `unseen` says why the last run was not noted.
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
        """The number of a newly seen function of the project; -1 for any other."""
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
    """Let the test program, which is none of the worker's modules, find the record."""
    package = sys.modules.get(__name__.partition(".")[0])
    with contextlib.suppress(AttributeError):
        package.executed = executed  # type: ignore[union-attr]  # the package's own name


def offered() -> ExecutedFunctions | None:
    """The record of this process, if there is one."""
    return getattr(sys.modules.get(__name__.partition(".")[0]), "executed", None)


class recorded:  # noqa: N801  # it is used like a function
    """A context in which the calls of a job are recorded, if its request asks for that."""

    __slots__ = ("_dialect", "_job", "_live")

    def __init__(self, job: Job, dialect: Dialect) -> None:
        self._job, self._dialect = job, dialect
        self._live: LiveRecording | None = None

    def __enter__(self) -> None:
        message = self._job.message
        names = message.get(TRACE)
        if names is not None or COVER in message or PROFILE in message:
            dialect, asked = self._dialect, {"covers": COVER in message, "profiles": PROFILE in message}
            self._live = LiveRecording(dialect.roots, names, dialect, **asked, changed_ms=dialect.changed_ms)

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            with self._job.shield:  # nothing of it may stay
                self._job.tell({RUN: json.dumps(self._live.end())})


class LiveRecording:
    """A recording from the moment it is made, until `end`: of calls by `names`, of changed lines, of times."""

    def __init__(
        self,
        roots: Sequence[str],
        names: Sequence[str] | None,
        dialect: Dialect | None = None,
        *,
        covers: bool = False,
        profiles: bool = False,
        changed_ms: Callable[[types.CodeType, int], int] = lambda *_: 0,
    ) -> None:
        self._wanted = Wanted(roots)
        wanted = Wanted(roots, [one for one in names or () if type(one) is str])
        self._recording = Recording(wanted, dialect, changed_ms)
        self._coverage = LineCoverage(roots[0] if roots else "") if covers else None
        self._executed = offered() if covers else None
        if self._executed is not None:
            self._executed.is_asked = True
        self._refused = self._coverage.begin() if self._coverage is not None else ""
        self._recorder = None if names is None or self._refused else recorder_of(self._recording, offered())
        self._profile: Any = None
        if self._recorder is not None:
            self._refused = self._recorder.begin()
        if profiles and not self._refused:
            self._begin_profile()

    def _begin_profile(self) -> None:
        import cProfile  # the module takes long to load

        self._profile = cProfile.Profile()
        try:
            self._profile.enable()
        except ValueError as error:  # another profiler is at work
            self._profile, self._refused = None, str(error)

    def end(self) -> dict[str, Any]:
        """End the recording; its report, or the reason why there is none."""
        if self._executed is not None:
            self._executed.is_asked = False
        if self._profile is not None:
            self._profile.disable()
        if self._recorder is not None:
            self._recorder.end()
        report = {} if self._recorder is None else self._recording.report()
        if self._coverage is not None:
            report["unrun"] = self._coverage.end()
        if self._profile is not None:
            report["profile"] = slowest(self._profile, self._wanted)
        return {"refused": self._refused} if self._refused else report


def slowest(profile: Any, wanted: Wanted) -> list[list[Any]]:
    """The project's functions that took longest by themselves: name, file, line, calls, own and total microseconds."""
    rows = []
    for one in profile.getstats():
        code = one.code
        if not isinstance(code, str) and code.co_name != "<module>" and wanted.is_own(code.co_filename):
            name = getattr(code, "co_qualname", code.co_name)
            own, total = int(one.inlinetime * 1e6), int(one.totaltime * 1e6)
            rows.append([name, code.co_filename, code.co_firstlineno, one.callcount, own, total])
    return sorted(rows, key=lambda row: -row[4])[:PROFILED]


def recorder_of(recording: Recording, executed: ExecutedFunctions | None) -> Any:
    """The recorder that this interpreter supports. `executed`: the record that may have disabled events."""
    if hasattr(sys, "monitoring"):
        return CallMonitor(recording, executed.refresh if executed is not None else None)
    return CallProfiler(recording)


TOO_OLD = "coverage needs sys.monitoring, which Python has from 3.12 on; what each test executes was noted for affected"
NO_GIT = "changed lines are told from a Git repository, and this folder is in none: "
GIT_S = 20
HUNK = re.compile(r"@@ -\S+ \+(\d+)(?:,(\d+))? @@")
MOST_FILES = 200


class LineCoverage:
    """The changed lines of a project that did not run between `begin` and `end`."""

    def __init__(self, root: str) -> None:
        self._root = root
        self._monitoring: Any = getattr(sys, "monitoring", None)
        self._tool = -1
        self._wanted: dict[str, set[int] | None] = {}
        """The changed lines by real path; None for all lines."""
        self._real: dict[str, str] = {}
        self._seen: dict[str, set[int]] = {}
        self._codes: list[types.CodeType] = []
        self._others: list[types.CodeType] = []

    def begin(self) -> str:
        """Note lines from now on; the reason in words if that is impossible."""
        monitoring = self._monitoring
        if monitoring is None:
            return TOO_OLD
        try:
            self._wanted = changed_lines(self._root)
        except (OSError, subprocess.SubprocessError) as error:
            return NO_GIT + str(getattr(error, "stderr", None) or error).strip()
        self._tool = next((one for one in TOOL_IDS if monitoring.get_tool(one) is None), -1)
        if self._tool < 0:
            return ALL_TAKEN
        events = monitoring.events
        monitoring.use_tool_id(self._tool, NAME)
        monitoring.register_callback(self._tool, events.PY_START, self._started)
        monitoring.register_callback(self._tool, events.LINE, self._line)
        monitoring.set_events(self._tool, events.PY_START)
        return ""

    def end(self) -> list[list[Any]]:
        """Stop noting; the files with their lines that did not run."""
        monitoring, tool = self._monitoring, self._tool
        if tool < 0:
            return []
        events = monitoring.events
        monitoring.set_events(tool, 0)
        for code in self._others:
            monitoring.set_local_events(tool, code, events.LINE)
        for code in [*self._codes, *self._others]:
            monitoring.set_local_events(tool, code, 0)
        for event in (events.PY_START, events.LINE):
            monitoring.register_callback(tool, event, None)
        monitoring.free_tool_id(tool)
        self._tool = -1
        found = []
        for file, lines in sorted(self._wanted.items()):
            own = set(lines_of_functions(file))
            left = (own if lines is None else own & lines) - self._seen.get(file, set())
            if left:
                found.append([file, sorted(left)])
        return found

    def _started(self, code: types.CodeType, _offset: int) -> Any:
        real = self._real.get(code.co_filename)
        if real is None:
            real = self._real[code.co_filename] = os.path.realpath(code.co_filename)
        if real in self._wanted:
            self._codes.append(code)
            self._monitoring.set_local_events(self._tool, code, self._monitoring.events.LINE)
        else:
            self._others.append(code)
        return self._monitoring.DISABLE

    def _line(self, code: types.CodeType, line: int) -> Any:
        self._seen.setdefault(self._real.get(code.co_filename, ""), set()).add(line)
        return self._monitoring.DISABLE


def changed_lines(root: str) -> dict[str, set[int] | None]:
    """The lines that differ from the last commit, by real path of a Python file; None for an uncommitted file.

    Raises:
        OSError, subprocess.SubprocessError: Git or the repository is missing.
    """
    plain = ["diff", "HEAD", "--unified=0", "--no-ext-diff", "--no-textconv", "--no-color", "--relative", "--", "*.py"]
    found: dict[str, set[int] | None] = {}
    file = ""
    for line in _git(root, plain).splitlines():
        if line.startswith("+++ "):
            file = os.path.realpath(os.path.join(root, line[6:].strip())) if line[4:6] == "b/" else ""
        elif file and (hunk := HUNK.match(line)):
            first, count = int(hunk[1]), int(hunk[2] or 1)
            found[file] = {*(found.get(file) or ()), *range(first, first + count)}
    for name in _git(root, ["ls-files", "--others", "--exclude-standard", "--", "*.py"]).splitlines():
        found[os.path.realpath(os.path.join(root, name))] = None
    return dict(list(found.items())[:MOST_FILES])


def _git(root: str, words: list[str]) -> str:
    done = subprocess.run(  # noqa: S603  # in the project's own process, which runs its tests
        ["git", *words],  # noqa: S607  # as the user's shell finds it
        cwd=root or None, capture_output=True, text=True, errors="replace", timeout=GIT_S, check=True,
    )  # fmt: skip
    return done.stdout


def lines_of_functions(file: str) -> tuple[int, ...]:
    """The lines of a file's functions that a call may run; none for an unreadable file."""
    try:
        status = os.stat(file)
    except OSError:
        return ()
    return _lines_of_text(file, status.st_mtime_ns, status.st_ctime_ns, status.st_size)


@functools.lru_cache(maxsize=MOST_FILES)
def _lines_of_text(file: str, *_stamp: int) -> tuple[int, ...]:
    """The lines of a file, kept while its stamp stays: compiling takes a tenth of the time of its tests."""
    try:
        found = bytes_of(file)
        waiting = [] if found is None else [compile(found[1], file, "exec", dont_inherit=True)]
    except (OSError, SyntaxError, ValueError):
        return ()
    lines: list[int] = []
    while waiting:
        code = waiting.pop()
        waiting += [one for one in code.co_consts if isinstance(one, types.CodeType)]
        if code.co_flags & OPTIMIZED:
            lines += (line for _, _, line in code.co_lines() if line and line != code.co_firstlineno)
    return tuple(lines)
