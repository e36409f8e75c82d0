"""Polling of the disk for changes that no event tells: in port files, settings, source files, skills."""

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

PORT_FILES_S: Final = 0.75
"""The rest between two looks for port files: a REPL is found within a second. Multiples of it end at the same time."""
LEEWAY_S: Final = 0.5
"""A look comes so much early to be made with one that is due, but never before half of its rest is over."""
SHORT_S: Final = 0.005
"""The longest look that others may wait for: a saved file or a started REPL is noticed behind it."""


class PollingOverError(Exception):
    """The caller that waited for a finding has left: nobody sees this error."""


class Poller(Generic[T]):
    """Looks at something again and again, in a thread. Lives as long as its caller polls, one look at a time.

    A look is followed by a rest of `interval_s`, or of `rest_times` as long as the look took, if that is longer. The
    first begins at once, unless it `rests_first`. Looks that find nothing new, and the rests between them, pass outside
    of the event loop: an idle server would else wake it many times a second, which costs more than the looks.

    Short looks of an event loop's pollers are made together, by one thread: waking up takes an idle server ten times as
    long as such a look. One that `may_wait`, as for a network, is made apart, in its own thread.
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

    async def next(self, is_changed: Callable[[T], bool] | None = None) -> T:
        """Return the next result when it is due.

        With `is_changed`, return the next result that satisfies it. It is called in the polling thread.
        """
        wait = _Wait(self, is_changed)
        # The limit is the poller's own: polling for hours must not take the threads that calls wait for.
        in_thread = anyio.CapacityLimiter(1)
        try:
            return await anyio.to_thread.run_sync(wait.run, _rounds(), abandon_on_cancel=True, limiter=in_thread)
        finally:
            wait.outcome.cancel()
            wait.wake()

    @property
    def is_apart(self) -> bool:
        """Return true if the next check may delay others."""
        return not self._is_short or (self._may_wait is not None and self._may_wait())

    def check(self) -> T:
        """Check once, and plan the next check."""
        started_s = time.monotonic()
        try:
            return self._check()
        finally:
            over_s = time.monotonic()
            self._is_short = over_s - started_s < SHORT_S
            self._plan(over_s, max(self._interval_s, self._rest_times * (over_s - started_s)))

    def _plan(self, now_s: float, rest_s: float) -> None:
        self.due_s = now_s + rest_s
        """The time of the next look, of the monotonic clock."""
        self.due_with_others_s = self.due_s - min(LEEWAY_S, rest_s / 2)
        """The time from which on the look is taken with another one that is due."""


class _Wait(Generic[T]):
    """A wait for a changed result, in its own thread. Any thread of the same rounds may make its checks."""

    def __init__(self, poller: Poller[T], is_changed: Callable[[T], bool] | None) -> None:
        self.poller = poller
        self.outcome: Future[T] = Future()
        """Cancelled when nobody waits any more."""
        self._is_changed = is_changed
        # Waiting for an event makes a lock at each rest and takes two: such a wake-up costs as much as a look.
        self._asleep = threading.Lock()
        self._asleep.acquire()

    def run(self, shared: _Rounds) -> T:
        """Return the changed result. Blocks until there is one."""
        while not self.outcome.done():
            is_apart = self.poller.is_apart
            (_Rounds() if is_apart else shared).stay(self, is_apart=is_apart)
        if self.outcome.cancelled():
            raise PollingOverError
        return self.outcome.result()

    def check(self) -> None:
        """Look once, and end the wait by news, or by the failure of the look."""
        try:
            found = self.poller.check()
            is_over = self._is_changed is None or self._is_changed(found)
        except Exception as error:  # noqa: BLE001  # the waiting caller gets it, whichever thread looked
            if self.outcome.set_running_or_notify_cancel():
                self.outcome.set_exception(error)
        else:
            if is_over and self.outcome.set_running_or_notify_cancel():
                self.outcome.set_result(found)

    def sleep(self, seconds: float) -> None:
        """Sleep for so long, below zero without end, or until somebody wakes it."""
        self._asleep.acquire(timeout=seconds)

    def wake(self) -> None:
        """Wake its thread, or keep it from its next sleep. From any thread."""
        with suppress(RuntimeError):  # the thread is awake
            self._asleep.release()


class _Rounds:
    """The waits whose looks are made together, by the thread that waits longest; the others sleep until there are news.

    Lives as long as their event loop.
    """

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._waits: list[_Wait[object]] = []
        """The thread of the first wait looks."""

    def stay(self, wait: _Wait[T], *, is_apart: bool) -> None:
        """Have somebody look, this thread too, until the wait is over, or no longer to be made apart, or together."""
        with self._guard:
            self._waits.append(wait)  # type: ignore[arg-type]  # of any finding: only its own thread hears it
            self._waits[0].wake()
        try:
            while not wait.outcome.done() and wait.poller.is_apart is is_apart:
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
        """Sleep until a look is due, or make those that are."""
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
                if wait.outcome.done() or wait.poller.is_apart:
                    wait.wake()


_ROUNDS: Final = anyio.lowlevel.RunVar[_Rounds]("codriver_polling_rounds")


def _rounds() -> _Rounds:
    """Return the rounds of the event loop that runs."""
    try:
        return _ROUNDS.get()
    except LookupError:
        _ROUNDS.set(rounds := _Rounds())
        return rounds
