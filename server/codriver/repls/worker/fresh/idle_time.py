"""Wait until no evaluation is running, and pause the importing process while one is."""

from __future__ import annotations

import threading

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from .import_process import ImportProcess


class IdleTime:
    """The time in which no evaluation is running. Comparisons only work in this time."""

    def __init__(self) -> None:
        self.condition = threading.Condition()
        """Notified when an evaluation ends. Its lock also protects the loads that wait for a comparison."""
        self.running = 0
        """The number of evaluations in progress."""
        self.evaluated = 0
        """The number of evaluations that have started."""
        self._process: ImportProcess | None = None

    def start_evaluation(self) -> None:
        """Pause the importing process because an evaluation is starting."""
        with self.condition:
            self.running += 1
            self.evaluated += 1
            if self.running == 1 and self._process is not None:
                self._process.pause()

    def end_evaluation(self) -> None:
        """Resume the importing process if no evaluation is running any longer."""
        with self.condition:
            self.running -= 1
            if not self.running:
                if self._process is not None:
                    self._process.resume()
                self.condition.notify_all()

    def wait(self, is_requested: Callable[[], bool]) -> bool:
        """Wait until no evaluation is running. Return False if the comparison is no longer needed."""
        with self.condition:
            self.condition.wait_for(lambda: not self.running or not is_requested())
        return is_requested()

    def run_import(
        self, process: ImportProcess, spec: dict[str, Any], timeout_s: float, is_requested: Callable[[], bool]
    ) -> dict[str, Any] | None:
        """Run an importing process, which is paused during evaluations, and return its result."""
        with self.condition:
            self._process = process
            if self.running:
                process.pause()
        try:
            return process.result(spec, timeout_s, is_requested)
        finally:
            with self.condition:
                self._process = None
