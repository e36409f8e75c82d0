"""Records the calls of the project's functions, with their arguments and results as short texts."""

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
    """The calls of the named functions, or of all functions below `roots`."""

    name = "calls"

    def __init__(self, roots: Sequence[str], names: Sequence[str]) -> None:
        self._recording = Recording(Selection(roots, names))
        kind: Any = CallMonitor if hasattr(sys, "monitoring") else CallProfiler
        self._recorder = kind(self._recording)
        self._problem = ""

    def start(self) -> None:
        """Record from now on."""
        self._problem = self._recorder.begin()

    def enter(self, *place: str) -> None:
        """Nothing to do: the calls of all tests are one record."""

    def uses(self, nodeid: str, file: str, fixtures: object) -> None:
        """Nothing to do."""

    def finish(self) -> dict[str, Any]:
        """Stop recording, and return the calls."""
        self._recorder.end()
        return {"data": {} if self._problem else self._recording.report(), "problem": self._problem}
