"""Recordings of the calls under one request, and of the changed lines that ran, whatever becomes of the request.

A recording is begun before the request and ended after it. Lines are those of functions that changed since the last
commit, and are noted by `sys.monitoring`: each once, as its event is disabled then. Lines outside of functions run when
a file is loaded, which no test has to do, and are left out.
"""

from __future__ import annotations

import functools
import json
import os
import re
import subprocess
import sys
import types

from ..basics.source_files import bytes_of
from .call_monitor import ALL_TAKEN, NAME, TOOL_IDS, CallMonitor, CallProfiler
from .executed_functions import offered
from .recorded_calls import OPTIMIZED, Recording, Wanted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from ..basics.dialect import Dialect
    from ..basics.jobs import Job
    from .executed_functions import ExecutedFunctions


TRACE = "codriver/trace"
"""The field by which a request asks for a recording: the names that are recorded, none for all of the project's own."""
RUN = "codriver/run"
"""The field that tells one, as JSON: see `Recording.report`; or `refused`, with the reason."""


COVER = "codriver/cover"
PROFILE = "codriver/profile"
"""The fields by which a request asks for the changed lines that no code ran, and for the slowest functions."""
PROFILED = 10


class recorded:  # noqa: N801  # it is used as a function is
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
        import cProfile  # it takes long to load

        self._profile = cProfile.Profile()
        try:
            self._profile.enable()
        except ValueError as error:  # another profiler is at work
            self._profile, self._refused = None, str(error)

    def end(self) -> dict[str, Any]:
        """End it; its report, or why there is none."""
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
    """The recorder that this interpreter has means for. `executed`: what may have disabled events."""
    if hasattr(sys, "monitoring"):
        return CallMonitor(recording, executed.refresh if executed is not None else None)
    return CallProfiler(recording)


TOO_OLD = "coverage needs sys.monitoring, which Python has from 3.12 on; what each test executes was noted for affected"
NO_GIT = "changed lines are told from a Git repository, and this folder is in none: "
GIT_S = 20
HUNK = re.compile(r"@@ -\S+ \+(\d+)(?:,(\d+))? @@")
MOST_FILES = 200


class LineCoverage:
    """The changed lines of one run's project that no code ran, between `begin` and `end`."""

    def __init__(self, root: str) -> None:
        self._root = root
        self._monitoring: Any = getattr(sys, "monitoring", None)
        self._tool = -1
        self._wanted: dict[str, set[int] | None] = {}
        """By real path the changed lines; None for all."""
        self._real: dict[str, str] = {}
        self._seen: dict[str, set[int]] = {}
        self._codes: list[types.CodeType] = []
        self._others: list[types.CodeType] = []

    def begin(self) -> str:
        """Note lines from now on; else in words why that cannot be."""
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
        """Note no more; the files with the lines that nothing ran."""
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
    """By real path of a file of Python the lines that differ from the last commit; of a file that is in none, None.

    Raises:
        OSError, subprocess.SubprocessError: there is no Git, or no repository.
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
    """The lines of a file's functions that run where these are called; none of a file that cannot be read."""
    try:
        status = os.stat(file)
    except OSError:
        return ()
    return _lines_of_text(file, status.st_mtime_ns, status.st_ctime_ns, status.st_size)


@functools.lru_cache(maxsize=MOST_FILES)
def _lines_of_text(file: str, *_stamp: int) -> tuple[int, ...]:
    """The lines of a file as long as its stamp is the same: to compile it takes a tenth of what its tests take."""
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
