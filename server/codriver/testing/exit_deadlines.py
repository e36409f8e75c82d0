"""Decide how long a test process may take to tear down its fixtures and to exit, before and after it is killed."""

from __future__ import annotations

from typing import Final

TEARDOWN_GRACE_S: Final = 5.0
"""Time for an interrupted run to tear down its fixtures, in seconds.

Time spent waiting for a processor does not count.
"""
MAX_TEARDOWN_GRACE_S: Final = 30.0
"""Maximum time, in seconds, for an interrupted run to tear down its fixtures, including waits for a processor."""
EXIT_GRACE_S: Final = 10.0
"""Time for a process to join its threads, run its exit handlers and exit after its last test, in seconds.

Time spent waiting for a processor does not count.
"""
MAX_EXIT_TIMEOUT_S: Final = 60.0
"""Maximum time, in seconds, for a process to exit after its last test, including waits for a processor."""
KILL_TIMEOUT_S: Final = 5.0
"""Maximum time to wait for a killed process, in seconds."""
MAX_COUNTED_GAP_S: Final = 1.0
"""Maximum time between two polls, in seconds, that is counted as time of the run.

If more time passes, this process itself was not running.
"""


def has_grace_time_left(elapsed_s: float, starved_s: float) -> bool:
    """Return whether an interrupted run may continue to tear down its fixtures.

    `starved_s` is the part of `elapsed_s` during which its process waited for a processor.
    """
    return elapsed_s - starved_s < TEARDOWN_GRACE_S and elapsed_s < MAX_TEARDOWN_GRACE_S


def has_exit_time_left(elapsed_s: float, starved_s: float) -> bool:
    """Return whether a process may continue to exit after its last test.

    The arguments are those of `has_grace_time_left`.
    """
    return elapsed_s - starved_s <= EXIT_GRACE_S and elapsed_s <= MAX_EXIT_TIMEOUT_S


class TimeSinceFinished:
    """Measures the time since the last test in a process.

    Long intervals in which the server itself did not run are only counted in part.
    """

    def __init__(self) -> None:
        self._checked_s: float | None = None
        self._starved_before_s = 0.0
        self.elapsed_s = 0.0
        self.starved_s = 0.0
        """The part of this time in which the process waited for a processor."""

    def advance(self, now_s: float, starved_s: float) -> None:
        """Add the time since the previous call.

        `starved_s` is the time that the process has waited for a processor since its start, or 0 if the process is
        gone.
        """
        if self._checked_s is None:
            self._starved_before_s = starved_s
        else:
            self.elapsed_s += min(now_s - self._checked_s, MAX_COUNTED_GAP_S)
        self._checked_s = now_s
        self.starved_s = max(self.starved_s, starved_s - self._starved_before_s)
