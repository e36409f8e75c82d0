"""The states of processes, as reported by the operating system: running, stopped or gone."""

import os
import signal
import subprocess
from contextlib import contextmanager, suppress
from pathlib import Path

from live_server import until

STOPPED, ZOMBIE = "T", "Z"
"""The first letters of states. Source: proc(5), ps(1)."""


def state_of(pid):
    """Return the letter of a process's state, such as `S`; an empty string if there is no such process."""
    if Path("/proc/self/stat").exists():
        with suppress(OSError):
            return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        return ""
    reported = subprocess.run(["ps", "-o", "state=", "-p", str(pid)], capture_output=True, text=True, check=False)
    return reported.stdout.strip()[:1]


def states_of_threads(pid):
    """Return the states of all threads of a process, or that of the process if the system does not report threads."""
    tasks = list(Path(f"/proc/{pid}/task").glob("*"))
    return {state_of(f"{pid}/task/{task.name}") for task in tasks} or {state_of(pid)}


def is_running(pid):
    """Return whether such a process exists and is not a zombie."""
    return state_of(pid) not in ("", ZOMBIE)


@contextmanager
def stopped(pid):
    """Stop a process with all its threads for the duration of the block; a signal alone takes effect only when one
    of them runs.
    """
    os.kill(pid, signal.Signals["SIGSTOP"])
    try:
        until(lambda: states_of_threads(pid) == {STOPPED}, "the process to stop")
        yield
    finally:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.Signals["SIGCONT"])
