"""What processes do, as the operating system tells it: they run, they are stopped, they are gone."""

import os
import signal
import subprocess
from contextlib import contextmanager, suppress
from pathlib import Path

from live_server import until

STOPPED, ZOMBIE = "T", "Z"
"""The first letters of states. Source: proc(5), ps(1)."""


def state_of(pid):
    """The letter of a process's state, as `S`; an empty text where there is none."""
    if Path("/proc/self/stat").exists():
        with suppress(OSError):
            return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        return ""
    told = subprocess.run(["ps", "-o", "state=", "-p", str(pid)], capture_output=True, text=True, check=False)
    return told.stdout.strip()[:1]


def states_of_threads(pid):
    """The states of all threads of a process; that of the process where the system tells of no threads."""
    tasks = list(Path(f"/proc/{pid}/task").glob("*"))
    return {state_of(f"{pid}/task/{task.name}") for task in tasks} or {state_of(pid)}


def is_running(pid):
    """Whether there is such a process, and it is not one that has ended and that nobody has asked for."""
    return state_of(pid) not in ("", ZOMBIE)


@contextmanager
def stopped(pid):
    """Hold a process up for the block, all its threads: a signal alone is only seen when one of them is next run."""
    os.kill(pid, signal.Signals["SIGSTOP"])
    try:
        until(lambda: states_of_threads(pid) == {STOPPED}, "the process to stop")
        yield
    finally:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.Signals["SIGCONT"])
