"""The times and events that are observed during a test run."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from codriver.features.warm_tests import decisions
from codriver.testing.runs import Collected, RunFinished, TestStarted

if TYPE_CHECKING:
    from codriver.testing.runs import Event

COLLECTION_NAME: Final = "the collection"
"""Name used in messages for what a run does before its first test."""


@dataclass(slots=True)
class RunObservations:
    """Times and events that were observed during a test run."""

    started_ns: int
    started_s: float
    collected_s: float | None = None
    """Seconds from the start of the run until the tests were collected."""
    last_s: float = 0.0
    running: str = COLLECTION_NAME
    stalled_at: str = ""

    @classmethod
    def start(cls) -> RunObservations:
        """Return new observations for a run that starts now."""
        now_s = time.monotonic()
        return cls(time.time_ns(), now_s, last_s=now_s)

    def add(self, event: Event) -> None:
        """Update the observations with an event."""
        now_s = time.monotonic()
        if isinstance(event, Collected) and self.collected_s is None:
            self.collected_s = now_s - self.started_s
        elif isinstance(event, TestStarted):
            self.running = event.nodeid
        elif isinstance(event, RunFinished) and now_s - self.last_s > decisions.STALL_TIMEOUT_S:
            self.stalled_at = self.running
        self.last_s = now_s
