"""Recordings of the calls under one request: begun before it and ended after it, whatever becomes of it."""

from __future__ import annotations

import json
import sys

from .executed_functions import offered
from .recorded_calls import Recording, Wanted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from ..basics.jobs import Job
    from .executed_functions import ExecutedFunctions

TRACE = "codriver/trace"
"""The field by which a request asks for a recording: the names that are recorded, none for all of the project's own."""
RUN = "codriver/run"
"""The field that tells one, as JSON: see `Recording.report`; or `refused`, with the reason."""


class recorded:  # noqa: N801  # it is used as a function is
    """A context in which the calls of a job are recorded, if its request asks for that."""

    __slots__ = ("_job", "_live", "_roots")

    def __init__(self, job: Job, roots: Sequence[str]) -> None:
        self._job, self._roots = job, roots
        self._live: LiveRecording | None = None

    def __enter__(self) -> None:
        names = self._job.message.get(TRACE)
        if type(names) is list:
            self._live = LiveRecording(self._roots, [one for one in names if type(one) is str])

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            with self._job.shield:  # nothing of it may stay
                self._job.tell({RUN: json.dumps(self._live.end())})


class LiveRecording:
    """A recording from the moment it is made, until `end`."""

    def __init__(self, roots: Sequence[str], names: Sequence[str]) -> None:
        self._recording = Recording(Wanted(roots, names))
        self._recorder = recorder_of(self._recording, offered())
        self._refused = self._recorder.begin()

    def end(self) -> dict[str, Any]:
        """End it; its report, or why there is none."""
        if self._refused:
            return {"refused": self._refused}
        self._recorder.end()
        return self._recording.report()


def recorder_of(recording: Recording, executed: ExecutedFunctions | None) -> Any:
    """The recorder that this interpreter has means for. `executed`: what may have disabled events."""
    if hasattr(sys, "monitoring"):
        from .call_monitor import CallMonitor

        return CallMonitor(recording, executed.refresh if executed is not None else None)
    from .call_profiler import CallProfiler

    return CallProfiler(recording)
