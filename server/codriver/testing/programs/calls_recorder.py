"""Record calls to the project's functions, with short representations of their arguments and results."""

from __future__ import annotations

import sys

from ...repls.worker.python.call_monitor import CallMonitor
from ...repls.worker.python.call_profiler import CallProfiler
from ...repls.worker.python.recorded_calls import Recording, Selection

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any


def recorder(options: Mapping[str, Any]) -> CallsRecorder:
    """Create the recorder for a run."""
    return CallsRecorder(options["roots"], options["names"])


class CallsRecorder:
    """Records the calls to functions by name, or to all functions below `roots` if there are no names."""

    name = "calls"

    def __init__(self, roots: Sequence[str], names: Sequence[str]) -> None:
        self._recording = Recording(Selection(roots, names))
        kind: Any = CallMonitor if hasattr(sys, "monitoring") else CallProfiler
        self._recorder = kind(self._recording)
        self._error = ""

    def start(self) -> None:
        """Start recording."""
        self._error = self._recorder.begin()

    def set_context(self, *context: str) -> None:
        """Do nothing, because the calls of all tests are recorded together."""

    def record_test(self, nodeid: str, file: str, fixtures: object) -> None:
        """Do nothing, because the calls of all tests are recorded together."""

    def finish(self) -> dict[str, Any]:
        """Stop recording, and return the recorded calls."""
        self._recorder.end()
        return {"data": {} if self._error else self._recording.report(), "problem": self._error}
