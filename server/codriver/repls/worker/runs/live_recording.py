"""Recordings of the calls under one request: begun before it and ended after it, whatever becomes of it."""

from __future__ import annotations

import json
import sys

from .call_monitor import CallMonitor
from .call_profiler import CallProfiler
from .executed_functions import offered
from .line_coverage import LineCoverage
from .recorded_calls import Recording, Wanted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
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
            dialect, covers = self._dialect, COVER in message
            self._live = LiveRecording(dialect.roots, names, dialect, covers=covers, profiles=PROFILE in message)

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
    ) -> None:
        self._wanted = Wanted(roots)
        self._recording = Recording(Wanted(roots, [one for one in names or () if type(one) is str]), dialect)
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
