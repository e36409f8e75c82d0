"""Record calls of the project's functions, with short representations of their arguments and results."""

from __future__ import annotations

import sys

from ...repls.worker.python.call_monitor import CallMonitor, CallProfiler
from ...repls.worker.python.recorded_calls import Recording, Selection

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any


def recorder(options: Mapping[str, Any]) -> CallsRecorder:
    """Return the recorder for a run."""
    return CallsRecorder(options["roots"], options["names"])


class CallsRecorder:
    """Recorder of calls of the named functions, or of all functions below `roots`."""

    name = "calls"

    def __init__(self, roots: Sequence[str], names: Sequence[str]) -> None:
        self._recording = Recording(Selection(roots, names))
        kind: Any = CallMonitor if hasattr(sys, "monitoring") else CallProfiler
        self._recorder = kind(self._recording)
        self._error = ""

    def start(self) -> None:
        """Start recording."""
        self._error = self._recorder.begin()

    def enter(self, *context: str) -> None:
        """Do nothing, because the calls of all tests are one record."""

    def uses(self, nodeid: str, file: str, fixtures: object) -> None:
        """Do nothing, because calls are not recorded by test."""

    def finish(self) -> dict[str, Any]:
        """Stop recording, and return the calls."""
        self._recorder.end()
        return {"data": {} if self._error else self._recording.report(), "problem": self._error}
