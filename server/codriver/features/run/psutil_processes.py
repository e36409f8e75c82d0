"""Read the processes of this machine with psutil, for macOS. Start times are in microseconds since the epoch.

No system reports the signal handlers of a process to psutil. A process is therefore considered ready if it executes
Python and was started in a way that installs the handler. macOS hides the environment of programs that belong to the
system or are protected by their signature. Such processes are recognized by their ancestors.

Source: psutil, "Process.environ"; XNU, `bsd/kern/kern_sysctl.c`, `sysctl_procargsx`.
"""

# mypy: disable-error-code="attr-defined"
# Windows lacks some of these functions.

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING, Final, TypeVar

from codriver.features.run.processes import RunProcess

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    import psutil

T = TypeVar("T")

FRAMEWORK_INTERPRETER: Final = "Python"
"""The file name of the interpreter in Python's framework builds. Source: CPython, `Mac/README.rst`."""


def find_processes() -> dict[int, RunProcess]:
    """Return all of this user's processes by process id. Blocks."""
    import psutil  # noqa: PLC0415  # only needed while a program is running

    return {pid: process for pid in psutil.pids() if (process := find_process(pid)) is not None}


def find_process(pid: int) -> RunProcess | None:
    """Return the process with this id, or None if it does not exist or belongs to another user."""
    import psutil  # noqa: PLC0415  # as above

    try:
        process = psutil.Process(pid)
        with process.oneshot():
            return None if process.status() == psutil.STATUS_ZOMBIE else _describe(process)
    except (psutil.Error, OSError):
        return None


def started_ms(process: RunProcess) -> int:
    """Return the start time of a process in epoch milliseconds."""
    return process.started // 1000


def find_ports(pids: Collection[int]) -> dict[int, int]:
    """Return the lowest TCP port on which each process listens, by process id.

    On macOS, an ordinary user may query this only for processes of the same user. Source: psutil,
    "Process.net_connections".
    """
    found = {pid: _listening_ports(pid) for pid in pids}
    return {pid: min(ports) for pid, ports in found.items() if ports}


def _listening_ports(pid: int) -> list[int]:
    import psutil  # noqa: PLC0415  # as above

    try:
        connections = psutil.Process(pid).net_connections("tcp")
    except (psutil.Error, OSError):
        return []
    return [item.laddr.port for item in connections if item.status == psutil.CONN_LISTEN]


def _describe(process: psutil.Process) -> RunProcess | None:
    """Return the state of a process, or None if it belongs to another user and may not be read.

    Raises:
        psutil.Error: the process has ended.
    """
    is_mine = process.uids().effective == os.geteuid()
    if not is_mine and os.geteuid() != 0:
        return None
    executable = _known(process.exe, "")
    environ = _known(process.environ, dict[str, str]())
    words = _known(process.cmdline, list[str]())
    while words and not words[-1]:  # the rest of the memory of a title
        del words[-1]
    if words and os.path.basename(words[0]) == FRAMEWORK_INTERPRETER:  # noqa: PTH119  # this runs often
        words[0] = os.path.join(os.path.dirname(words[0]), "python")  # noqa: PTH118, PTH120  # as above
    described = RunProcess(
        pid=process.pid,
        parent=process.ppid(),
        started=round(process.create_time() * 1_000_000),
        words=tuple(words) or ("",),
        is_ready=False,
        executable=executable,
        isolation="" if is_mine else "runs as a different user",
        environ={os.fsencode(name): os.fsencode(value) for name, value in environ.items()},
        has_unknown_environ=not environ,
    )
    executes_python = described.is_python  # if the executable has been deleted, its path is unknown
    if executable:
        executes_python = described.interpreter.lower().startswith(("python", "pypy"))
    if (
        words and executes_python and not described.is_python
    ):  # it has set a title, for which it may have overwritten all of this
        described = replace(described, has_unknown_environ=True)
        reason = replace(described, words=("python",)).unprepared_reason
    else:
        reason = described.unprepared_reason
    return replace(described, is_ready=executes_python and not reason)


def _known(read: Callable[[], T], default: T) -> T:
    """Return a fact about a process, or `default` if the system hides it.

    While a process executes another program, macOS reports no facts, and psutil may regard it as ended.

    Source: psutil, issue 2650, "incorrect zombie process detection logic".
    """
    import psutil  # noqa: PLC0415  # as above

    try:
        return read()
    except (psutil.Error, OSError):
        return default
