"""Poll files and other sources that do not send events when they change."""

from __future__ import annotations

import threading
import time
from concurrent.futures import Future
from contextlib import suppress
from typing import TYPE_CHECKING, Final, Generic, TypeVar

import anyio
import anyio.lowlevel

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")

PORT_FILE_CHECK_INTERVAL_S: Final = 0.75
"""Interval between two checks of port files, in seconds, so that a REPL is found within one second.

Other intervals are multiples of it, so that checks coincide.
"""
MAX_LEEWAY_S: Final = 0.5
"""Maximum time, in seconds, by which a check is brought forward to run together with one that is due.

It is never more than half of the check's interval.
"""
MAX_SHARED_CHECK_S: Final = 0.005
"""Maximum duration in seconds of a check that shares a thread. Other checks are delayed by at most this long."""


class PollingStoppedError(Exception):
    """Raised in a polling thread to end it, because its caller is no longer waiting. It never reaches a caller."""


class Poller(Generic[T]):
    """Repeats a blocking check in a thread while a caller waits for its result, one check at a time.

    After a check, the poller pauses for `interval_s`, or for `rest_times` times the duration of the check if that is
    longer. The first check runs immediately unless `rests_first`. Checks without a relevant change, and the pauses
    between them, do not involve the event loop: waking an idle server many times a second would cost more than the
    checks.

    Short checks of all pollers on an event loop are run together by one thread, because waking a thread takes ten times
    as long as such a check. A check for which `may_wait` returns True, for example on a network, runs in a thread of
    its own.
    """

    def __init__(
        self,
        check: Callable[[], T],
        *,
        interval_s: float,
        rest_times: float = 0.0,
        rests_first: bool = False,
        may_wait: Callable[[], bool] | None = None,
    ) -> None:
        self._check = check
        self._interval_s = interval_s
        self._rest_times = rest_times
        self._may_wait = may_wait
        self._is_short = False
        self._plan(time.monotonic(), interval_s if rests_first else 0.0)

    async def next_result(self, is_changed: Callable[[T], bool] | None = None) -> T:
        """Wait until the next check is due, run it, and return its result.

        With `is_changed`, continue until the function returns True for a result, and return that. It is called in the
        polling thread.
        """
        wait = _Wait(self, is_changed)
        # A separate limiter, because polling for hours must not occupy the threads that calls wait for.
        in_thread = anyio.CapacityLimiter(1)
        try:
            return await anyio.to_thread.run_sync(wait.run, _rounds(), abandon_on_cancel=True, limiter=in_thread)
        finally:
            wait.outcome.cancel()
            wait.wake()

    @property
    def needs_separate_thread(self) -> bool:
        """Return whether the next check may take long, in which case it must not run in the shared thread."""
        return not self._is_short or (self._may_wait is not None and self._may_wait())

    def check(self) -> T:
        """Run the check, and schedule the next one even if this one fails."""
        started_s = time.monotonic()
        try:
            return self._check()
        finally:
            over_s = time.monotonic()
            self._is_short = over_s - started_s < MAX_SHARED_CHECK_S
            self._plan(over_s, max(self._interval_s, self._rest_times * (over_s - started_s)))

    def _plan(self, now_s: float, rest_s: float) -> None:
        self.due_s = now_s + rest_s
        """The time at which the next check is due, by the monotonic clock."""
        self.due_with_others_s = self.due_s - min(MAX_LEEWAY_S, rest_s / 2)
        """The earliest time at which the check may run together with another that is due."""


class _Wait(Generic[T]):
    """A call to `next_result` that is waiting for a changed result in a thread.

    All threads that belong to the same rounds can run each other's checks.
    """

    def __init__(self, poller: Poller[T], is_changed: Callable[[T], bool] | None) -> None:
        self.poller = poller
        self.outcome: Future[T] = Future()
        """The awaited result. Cancelled when the caller is no longer waiting."""
        self._is_changed = is_changed
        # A plain lock: `threading.Event` creates and acquires locks for each wait, which costs as much as a check.
        self._asleep = threading.Lock()
        self._asleep.acquire()

    def run(self, shared: _Rounds) -> T:
        """Block until there is a changed result, and return it."""
        while not self.outcome.done():
            is_apart = self.poller.needs_separate_thread
            (_Rounds() if is_apart else shared).stay(self, is_apart=is_apart)
        if self.outcome.cancelled():
            raise PollingStoppedError
        return self.outcome.result()

    def check(self) -> None:
        """Run the check. If the result has changed or the check fails, the wait ends."""
        try:
            found = self.poller.check()
            is_over = self._is_changed is None or self._is_changed(found)
        except Exception as error:  # noqa: BLE001  # passed to the waiting caller, whichever thread ran the check
            if self.outcome.set_running_or_notify_cancel():
                self.outcome.set_exception(error)
        else:
            if is_over and self.outcome.set_running_or_notify_cancel():
                self.outcome.set_result(found)

    def sleep(self, seconds: float) -> None:
        """Sleep for `seconds` or until `wake` is called. A negative number means no time limit."""
        self._asleep.acquire(timeout=seconds)

    def wake(self) -> None:
        """End the current or the next `sleep`. May be called from any thread."""
        with suppress(RuntimeError):  # the thread is not asleep
            self._asleep.release()


class _Rounds:
    """The calls to `next_result` whose checks run together.

    The thread of the oldest call runs the checks, and the others sleep. There is one instance for each event loop, and
    a temporary one for each call that needs a separate thread.
    """

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._waits: list[_Wait[object]] = []
        """All waits. The thread of the first one runs the checks."""

    def stay(self, wait: _Wait[T], *, is_apart: bool) -> None:
        """Take part in the rounds until the wait has ended or needs to move to or from a separate thread."""
        with self._guard:
            self._waits.append(wait)  # type: ignore[arg-type]  # only the wait's own thread uses the result
            self._waits[0].wake()
        try:
            while not wait.outcome.done() and wait.poller.needs_separate_thread is is_apart:
                if self._waits[0] is wait:
                    self._check(wait)
                else:
                    wait.sleep(-1)
        finally:
            with self._guard:
                self._waits.remove(wait)  # type: ignore[arg-type]  # as above
                if self._waits:
                    self._waits[0].wake()

    def _check(self, leading: _Wait[T]) -> None:
        """Run all checks that are due, or sleep until one is due. `leading` is this thread's wait."""
        with self._guard:
            waits = list(self._waits)
        now_s = time.monotonic()
        rest_s = min(wait.poller.due_s for wait in waits) - now_s
        if rest_s > 0:
            leading.sleep(rest_s)
            return
        for wait in waits:
            if wait.poller.due_with_others_s <= now_s and not wait.outcome.done():
                wait.check()
                if wait.outcome.done() or wait.poller.needs_separate_thread:
                    wait.wake()


_ROUNDS: Final = anyio.lowlevel.RunVar[_Rounds]("codriver_polling_rounds")
"""The polling rounds of the running event loop."""


def _rounds() -> _Rounds:
    try:
        return _ROUNDS.get()
    except LookupError:
        _ROUNDS.set(rounds := _Rounds())
        return rounds
