"""Other processes: whether a process runs, signals to it, and the tree of a started one.

A process can be detached from the terminal and the pipes of its starter.
"""

from __future__ import annotations

import os
import signal
import stat
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Final, Self

if TYPE_CHECKING:
    from collections.abc import Callable


HAS_SIGNALS: Final = sys.platform != "win32"
"""Whether SIGTERM asks a process to end. On other systems a process ends at once, with nothing wound down."""
HAS_GROUPS: Final = hasattr(os, "killpg")
"""Whether processes are in groups that a signal reaches as a whole."""

if sys.platform == "win32":
    import ctypes
    import subprocess
    from ctypes import wintypes

    NEW_CONSOLE: Final = subprocess.CREATE_NO_WINDOW
    _SYNCHRONIZE, _TERMINATE_AND_SET_QUOTA = 0x100000, 0x1 | 0x100
    _STILL_RUNS, _LIMITS, _KILL_ON_CLOSE = 0x102, 9, 0x2000
    """Source: Microsoft, WaitForSingleObject, JOBOBJECTINFOCLASS, JOBOBJECT_BASIC_LIMIT_INFORMATION."""

    class _Limits(ctypes.Structure):
        """The extended limits of a job. Source: Microsoft, JOBOBJECT_EXTENDED_LIMIT_INFORMATION."""

        _fields_ = (
            ("times", ctypes.c_int64 * 2),
            ("flags", wintypes.DWORD),
            ("working_set", ctypes.c_size_t * 2),
            ("most_processes", wintypes.DWORD),
            ("affinity", ctypes.c_size_t),
            ("classes", wintypes.DWORD * 2),
            ("io", ctypes.c_uint64 * 6),
            ("memory", ctypes.c_size_t * 4),
        )

    def _kernel() -> ctypes.WinDLL:
        kernel = ctypes.WinDLL("kernel32", use_last_error=True)
        kernel.OpenProcess.restype = kernel.CreateJobObjectW.restype = wintypes.HANDLE
        for function in (kernel.WaitForSingleObject, kernel.TerminateJobObject):
            function.argtypes = (wintypes.HANDLE, wintypes.DWORD)
        kernel.CloseHandle.argtypes = (wintypes.HANDLE,)
        kernel.AssignProcessToJobObject.argtypes = (wintypes.HANDLE, wintypes.HANDLE)
        kernel.SetInformationJobObject.argtypes = (wintypes.HANDLE, ctypes.c_int, ctypes.c_void_p, wintypes.DWORD)
        return kernel

    def is_running(pid: int, *, of_this_user: bool = False) -> bool:
        """Return true for a running process, also for another user's process, which may not be asked."""
        kernel = _kernel()
        process = kernel.OpenProcess(_SYNCHRONIZE, 0, pid)
        if not process:
            return not of_this_user and ctypes.get_last_error() == 5  # access denied
        try:
            return bool(kernel.WaitForSingleObject(process, 0) == _STILL_RUNS)
        finally:
            kernel.CloseHandle(process)

    def interrupt(_pid: int, *, is_group: bool) -> bool:  # noqa: ARG001  # as elsewhere
        """False: any signal to another process here ends that process."""
        return False

    class ProcessTree:
        """A started process and all that it starts: a job that ends with this process, however that ends."""

        def __init__(self, job: int | None) -> None:
            self._job = job

        @classmethod
        def of(cls, pid: int) -> Self:
            """Return the tree of a process that was started just now."""
            kernel = _kernel()
            job = kernel.CreateJobObjectW(None, None)
            process = kernel.OpenProcess(_TERMINATE_AND_SET_QUOTA, 0, pid)
            limits = _Limits(flags=_KILL_ON_CLOSE)
            is_assigned = kernel.SetInformationJobObject(
                job, _LIMITS, ctypes.byref(limits), ctypes.sizeof(limits)
            ) and kernel.AssignProcessToJobObject(job, process)
            if process:
                kernel.CloseHandle(process)
            return cls(job if is_assigned else None)

        def kill(self) -> bool:
            """End the whole tree; whether that worked. Again is harmless."""
            job, self._job = self._job, None
            if job is None:
                return False
            kernel = _kernel()
            is_done = bool(kernel.TerminateJobObject(job, 1))
            kernel.CloseHandle(job)
            return is_done

else:
    NEW_CONSOLE: Final = 0
    """The flag that gives a started process a console of its own, so that an interrupt reaches its tree alone."""

    def is_running(pid: int, *, of_this_user: bool = False) -> bool:
        """Return true for a running process, also for another user's process, which may not be asked."""
        try:
            os.kill(pid, 0)
        except (ProcessLookupError, OverflowError):
            return False
        except OSError:
            return not of_this_user
        return True

    def interrupt(pid: int, *, is_group: bool) -> bool:
        """Send SIGINT to a process, or to its whole group; whether the signal was sent."""
        try:
            if is_group:
                os.killpg(os.getpgid(pid), signal.SIGINT)
            else:
                os.kill(pid, signal.SIGINT)
        except OSError:
            return False
        return True

    class ProcessTree:
        """A started process and all that it starts: its process group, whose number is the process's own."""

        def __init__(self, pid: int) -> None:
            self._pid = pid

        @classmethod
        def of(cls, pid: int) -> Self:
            """Return the tree of a process that leads a group."""
            return cls(pid)

        def kill(self) -> bool:
            """End the whole tree; whether that worked. It fails on systems without groups."""
            if not HAS_GROUPS:
                return False
            try:
                os.killpg(self._pid, signal.SIGKILL)
            except (ProcessLookupError, PermissionError):
                # The group is gone already; on macOS a group of zombies answers with a permission error.
                return True
            return True


def stay() -> None:
    """Tell no one, as no one waits for this process."""


if sys.platform == "win32":

    def daemonize() -> Callable[[], None]:
        """Nothing: processes cannot be copied here."""
        return stay

else:

    def daemonize() -> Callable[[], None]:
        """Daemonize: go on in a new process. The caller calls what is returned when the server can be reached.

        The first process waits for that call and then ends well, so the new one has no parent left. If the new process
        ends earlier, the first ends with the same status: its starter learns how the start ended. Call this before
        there is a second thread.
        """
        reading, writing = os.pipe()
        if new := os.fork():
            os.close(writing)
            _end_as(new, reading)
        os.close(reading)

        def reached() -> None:
            _leave_readers()
            os.write(writing, b"\n")
            os.close(writing)

        return reached

    def _leave_readers() -> None:
        """Release the terminal, and of pipes at standard output and error, so that their readers see the end."""
        with suppress(OSError):  # already in a session of its own
            os.setsid()
        nothing = os.open(os.devnull, os.O_WRONLY)
        for stream in (1, 2):
            if stat.S_ISFIFO(os.fstat(stream).st_mode):
                os.dup2(nothing, stream)
        os.close(nothing)

    def _end_as(process_id: int, reading: int) -> None:
        if os.read(reading, 1):
            os._exit(0)
        status = os.waitstatus_to_exitcode(os.waitpid(process_id, 0)[1])
        # A signal's number is told as shells tell it.
        os._exit(status if status >= 0 else 128 - status)
