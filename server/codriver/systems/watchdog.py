"""A watchdog for a REPL that Codriver started. It ends the REPL's process group when Codriver exits.

It runs as a script with the standard library only: ``python -I -S watchdog.py REPORT_FD STDIN COMMAND...``. It leads a
process group of its own. Its stdin is a pipe that Codriver keeps open and never writes to, so the end of this input
means that Codriver has exited, for whatever reason. `STDIN` is ``shared`` if the command should inherit that pipe, or
``empty``. It writes ``pid N`` or ``failed REASON`` to the pipe `REPORT_FD`, and ``exit N`` when the command has exited.
A negative `N` means a signal.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import time

assert sys.platform != "win32"  # noqa: S101  # Windows has jobs in place of groups: see other_processes

TERMINATION_GRACE_S = 2.0
"""Time between SIGTERM, which lets a REPL remove its port file, and SIGKILL."""


def main(arguments: list[str]) -> None:
    """Run the command until it exits or Codriver does, and then kill all processes in its group."""
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
        # Ignored signals stay ignored in the new program unless they are listed here.
        child = os.posix_spawnp(
            command[0], command, os.environ, file_actions=actions, setsigdef=(*stopping, signal.SIGPIPE)
        )
    except OSError as error:
        os.write(report, f"failed {error.strerror}\n".encode())
        return
    os.write(report, b"pid %d\n" % child)
    status = wait_for_command(child, wake)
    if status is None:
        os.killpg(0, signal.SIGTERM)
        deadline = time.monotonic() + TERMINATION_GRACE_S
        while status is None and time.monotonic() < deadline:
            select.select([wake], [], [], max(0.0, deadline - time.monotonic()))
            status = poll_child(child)
    if status is not None:
        os.write(report, b"exit %d\n" % status)
    # Kill whatever the command left behind, and this process.
    os.killpg(0, signal.SIGKILL)


def wait_for_command(child: int, wake: int) -> int | None:
    """Return the exit status of the command, or None if Codriver exits first."""
    while (status := poll_child(child)) is None:
        ready, _, _ = select.select([0, wake], [], [])
        if wake in ready:
            os.read(wake, 64)
        elif not os.read(0, 64):
            return None
    return status


def poll_child(child: int) -> int | None:
    """Return the exit status of the command, or None while it is running."""
    pid, status = os.waitpid(child, os.WNOHANG)
    return os.waitstatus_to_exitcode(status) if pid else None


if __name__ == "__main__":
    main(sys.argv[1:])
