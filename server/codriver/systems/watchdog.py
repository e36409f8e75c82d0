"""The watchdog of a REPL that codriver started: a process in between that ends its process group when codriver is gone.

Run as a script by its path, with the standard library only and nothing of ours: ``python -I -S watchdog.py REPORT_FD
STDIN COMMAND...``. It leads a process group of its own. Its stdin is a pipe that codriver holds and never writes to:
the pipe's end, however codriver ended, is the word to stop. `STDIN` is ``shared`` when the command is to see that pipe
too, or ``empty``. To the pipe `REPORT_FD` it writes ``pid N`` or ``failed REASON``, and ``exit N`` when the command
ended (negative: by that signal).
"""

from __future__ import annotations

import os
import select
import signal
import sys
import time

assert sys.platform != "win32"  # noqa: S101  # Windows has jobs in place of groups: see other_processes

GRACE_S = 2.0
"""Between SIGTERM, which lets a REPL remove its port file, and SIGKILL."""


def main(arguments: list[str]) -> None:
    """Start the command, wait until the command or codriver ends, and leave nothing of it behind."""
    report, stdin, command = int(arguments[0]), arguments[1], arguments[2:]
    os.set_inheritable(report, False)  # noqa: FBT003 - the standard library takes it by position only
    wake, woken = os.pipe()
    os.set_blocking(woken, False)
    signal.set_wakeup_fd(woken)
    signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
    stopping = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
    for number in stopping:
        signal.signal(number, signal.SIG_IGN)
    actions = []
    if stdin == "empty":
        actions.append((os.POSIX_SPAWN_DUP2, os.open(os.devnull, os.O_RDONLY), 0))
    try:
        # Signals that are ignored stay so in a new program unless they are named here.
        child = os.posix_spawnp(
            command[0], command, os.environ, file_actions=actions, setsigdef=(*stopping, signal.SIGPIPE)
        )
    except OSError as error:
        os.write(report, f"failed {error.strerror}\n".encode())
        return
    os.write(report, b"pid %d\n" % child)
    status = wait(child, wake)
    if status is None:
        os.killpg(0, signal.SIGTERM)
        deadline = time.monotonic() + GRACE_S
        while status is None and time.monotonic() < deadline:
            select.select([wake], [], [], max(0.0, deadline - time.monotonic()))
            status = poll_child(child)
    if status is not None:
        os.write(report, b"exit %d\n" % status)
    # End all that the command left behind, and this process too.
    os.killpg(0, signal.SIGKILL)


def wait(child: int, wake: int) -> int | None:
    """Return the exit status of the command; None when codriver ended first."""
    while (status := poll_child(child)) is None:
        ready, _, _ = select.select([0, wake], [], [])
        if wake in ready:
            os.read(wake, 64)
        elif not os.read(0, 64):
            return None
    return status


def poll_child(child: int) -> int | None:
    """Return the exit status of the command; None while it runs."""
    pid, status = os.waitpid(child, os.WNOHANG)
    return os.waitstatus_to_exitcode(status) if pid else None


if __name__ == "__main__":
    main(sys.argv[1:])
