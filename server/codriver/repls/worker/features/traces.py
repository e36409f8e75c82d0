"""Call traces: the calls during a request, and the functions that took most of its time.

A recording starts before the request and ends after it, even if the request fails.
"""

from __future__ import annotations

import json
import os
import sys

from ..basics.features import WorkerFeature
from ..python.call_monitor import CallMonitor, CallProfiler
from ..python.recorded_calls import Recording, Selection

TYPE_CHECKING = False
if TYPE_CHECKING:
    import types
    from collections.abc import Callable, Sequence
    from typing import Any

    from ..basics.dialect import Dialect
    from ..basics.jobs import Job

TRACE = "codriver/trace"
"""The field of a request that starts a recording. It lists names, or is empty for all of the project's functions."""
RUN = "codriver/run"
"""The field of a reply with the recording as JSON. See `Recording.report`.

If recording was not possible, it only has `refused` with the reason.
"""


PROFILE = "codriver/profile"
"""The field of a request for the slowest functions."""
MAX_PROFILED_FUNCTIONS = 10
"""Maximum number of functions in a profile."""


class recorded:  # noqa: N801  # it is used like a function
    """A context manager that records the calls of a job, if its request asks for it."""

    __slots__ = ("_dialect", "_job", "_live")

    def __init__(self, job: Job, dialect: Dialect) -> None:
        self._job, self._dialect = job, dialect
        self._live: LiveRecording | None = None

    def __enter__(self) -> None:
        message = self._job.message
        names = message.get(TRACE)
        if names is not None or PROFILE in message:
            dialect, profiles = self._dialect, PROFILE in message
            self._live = LiveRecording(dialect.roots, names, dialect, profiles=profiles, changed_ms=dialect.changed_ms)

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            with self._job.shield:  # the recording must always end
                self._job.answer_soon({RUN: json.dumps(self._live.end())})


class LiveRecording:
    """A recording of the calls of the functions `names`, from its creation until `end`.

    With `profiles`, execution times are recorded as well.
    """

    def __init__(
        self,
        roots: Sequence[str],
        names: Sequence[str] | None,
        dialect: Dialect | None = None,
        *,
        profiles: bool = False,
        changed_ms: Callable[[types.CodeType, int], int] = lambda *_: 0,
    ) -> None:
        self._selection = Selection(roots)
        selection = Selection(roots, [name for name in names or () if type(name) is str])
        self._recording = Recording(selection, dialect, changed_ms)
        self._refused = ""
        self._recorder = None if names is None else recorder_of(self._recording)
        self._profile: Any = None
        if self._recorder is not None:
            self._refused = self._recorder.begin()
        if profiles and not self._refused:
            self._begin_profile()

    def _begin_profile(self) -> None:
        import cProfile  # loading the module takes long

        self._profile = cProfile.Profile()
        try:
            self._profile.enable()
        except ValueError as error:  # another profiler is active
            self._profile, self._refused = None, str(error)

    def end(self) -> dict[str, Any]:
        """End the recording, and return its report, or `refused` with the reason why there is none."""
        if self._profile is not None:
            self._profile.disable()
        if self._recorder is not None:
            self._recorder.end()
        report = {} if self._recorder is None else self._recording.report()
        if self._profile is not None:
            report["profile"] = slowest(self._profile, self._selection)
        return {"refused": self._refused} if self._refused else report


def slowest(profile: Any, selection: Selection) -> list[list[Any]]:
    """Return the project's slowest functions, slowest first.

    Each has its name, file, line, number of calls, and microseconds without and with the functions it called.
    """
    rows = []
    for getstat in profile.getstats():
        code = getstat.code
        if not isinstance(code, str) and code.co_name != "<module>" and selection.is_project_file(code.co_filename):
            name = getattr(code, "co_qualname", code.co_name)
            self_time, total = int(getstat.inlinetime * 1e6), int(getstat.totaltime * 1e6)
            rows.append([name, code.co_filename, code.co_firstlineno, getstat.callcount, self_time, total])
    return sorted(rows, key=lambda row: -row[4])[:MAX_PROFILED_FUNCTIONS]


def recorder_of(recording: Recording) -> Any:
    """Return the recorder that this interpreter supports."""
    return CallMonitor(recording) if hasattr(sys, "monitoring") else CallProfiler(recording)


def operations(changed_ms: Callable[[types.CodeType, int], int]) -> dict[str, Callable[..., Any]]:
    """Return the operations that start and end a recording in a kernel, which runs one cell at a time."""
    running: list[LiveRecording] = []

    def record(names: list[str] | None, directory: str, profiles: bool) -> None:  # noqa: FBT001  # JSON
        recorded_calls()
        running.append(LiveRecording([directory or os.getcwd()], names, profiles=profiles, changed_ms=changed_ms))

    def recorded_calls() -> dict[str, Any] | None:
        return running.pop().end() if running else None

    return {"record": record, "recorded": recorded_calls}


FEATURE = WorkerFeature((TRACE, PROFILE), recorded, operations)
