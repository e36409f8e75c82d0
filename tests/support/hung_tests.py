"""End a test that hangs: it fails and shows all threads, and the run continues."""

import contextlib
import faulthandler
import signal
import sys
import tempfile

import pytest

LIMIT_S = 400
"""Time limit for each of setup, test and teardown. It is longer than any of their waits on a busy machine."""
MORE_S = 60
"""Time after which code that waits once more, as in a `finally`, is ended too."""
HAS_TIMERS = sys.platform != "win32"
"""Windows has no timers, so a test may wait there for as long as the whole run."""


@contextlib.contextmanager
def ended_after(seconds, more=MORE_S):
    """Make the code in this context fail after this many seconds, and again every `more` seconds. Main thread only."""
    if sys.platform == "win32":
        yield
        return

    def fail(*_):
        pytest.fail(f"it was not over after {seconds} s, and may wait without end. All threads:\n{_stacks()}")

    before = signal.signal(signal.SIGALRM, fail)
    timer = signal.setitimer(signal.ITIMER_REAL, seconds, more)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, *timer)
        signal.signal(signal.SIGALRM, before)


def _stacks():
    with tempfile.TemporaryFile("w+") as file:
        faulthandler.dump_traceback(file)
        file.seek(0)
        return file.read()
