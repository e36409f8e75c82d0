"""Check whether other processes are running, signal them, end process trees, and start daemons."""

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
"""Whether a process can handle SIGTERM. On other systems it is killed without any cleanup."""
HAS_GROUPS: Final = hasattr(os, "killpg")
"""Whether signals can be sent to process groups."""


def processor_wait_s(pid: int) -> float:
    """Return the seconds for which a process's main thread has waited for a processor, or 0 if unknown.

    Source: Linux, Documentation/scheduler/sched-stats.rst.
    """
    try:
        with open(f"/proc/{pid}/schedstat", encoding="ascii") as file:  # noqa: PTH123  # a file of the system
            return int(file.read().split()[1]) / 1e9
    except (OSError, ValueError, IndexError):
        return 0.0


def has_exited(pid: int) -> bool:
    """Return whether a process has ended. On Linux, this includes one that its parent has not waited for.

    Source: Linux, proc_pid_stat(5).
    """
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:  # noqa: PTH123  # a file of the system
            return file.read().rpartition(")")[2].split()[0] in {"Z", "X"}
    except (OSError, IndexError):
        return not is_running(pid)


if sys.platform == "win32":
    import ctypes
    import subprocess
    from ctypes import wintypes

    NEW_CONSOLE: Final = subprocess.CREATE_NO_WINDOW
    _SYNCHRONIZE, _TERMINATE_AND_SET_QUOTA = 0x100000, 0x1 | 0x100
    _STILL_RUNS, _LIMITS, _KILL_ON_CLOSE = 0x102, 9, 0x2000
    """Constants from the Windows API.

    Source: Microsoft, WaitForSingleObject, JOBOBJECTINFOCLASS, JOBOBJECT_BASIC_LIMIT_INFORMATION.
    """

    class _Limits(ctypes.Structure):
        """The extended limits of a job object. Source: Microsoft, JOBOBJECT_EXTENDED_LIMIT_INFORMATION."""

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
        """Return whether a process is running. With `of_this_user`, processes of other users do not count."""
        kernel = _kernel()
        process = kernel.OpenProcess(_SYNCHRONIZE, 0, pid)
        if not process:
            return not of_this_user and ctypes.get_last_error() == 5  # access denied
        try:
            return bool(kernel.WaitForSingleObject(process, 0) == _STILL_RUNS)
        finally:
            kernel.CloseHandle(process)

    def interrupt(_pid: int, *, is_group: bool) -> bool:  # noqa: ARG001  # as elsewhere
        """Return False, because signals to other processes would kill them on Windows."""
        return False

    class ProcessTree:
        """A process and its descendants, in a job object that Windows kills when this process ends in any way."""

        def __init__(self, job: int | None) -> None:
            self._job = job

        @classmethod
        def of(cls, pid: int) -> Self:
            """Return the tree of a process that has just been started."""
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
            """Kill the whole tree and return whether that succeeded. Further calls return False."""
            job, self._job = self._job, None
            if job is None:
                return False
            kernel = _kernel()
            is_done = bool(kernel.TerminateJobObject(job, 1))
            kernel.CloseHandle(job)
            return is_done

else:
    NEW_CONSOLE: Final = 0
    """Creation flag for a console of its own, so that an interrupt reaches only that process's tree. 0 if unneeded."""

    def is_running(pid: int, *, of_this_user: bool = False) -> bool:
        """Return whether a process is running. With `of_this_user`, processes of other users do not count."""
        try:
            os.kill(pid, 0)
        except (ProcessLookupError, OverflowError):
            return False
        except OSError:
            return not of_this_user
        return True

    def interrupt(pid: int, *, is_group: bool) -> bool:
        """Send SIGINT to a process or to its process group. Return whether the signal was sent."""
        try:
            if is_group:
                os.killpg(os.getpgid(pid), signal.SIGINT)
            else:
                os.kill(pid, signal.SIGINT)
        except OSError:
            return False
        return True

    class ProcessTree:
        """A process and its descendants: the process group that it leads."""

        def __init__(self, pid: int) -> None:
            self._pid = pid

        @classmethod
        def of(cls, pid: int) -> Self:
            """Return the tree of a process that leads a process group."""
            return cls(pid)

        def kill(self) -> bool:
            """Kill the whole group and return whether that succeeded. Fails on systems without process groups."""
            if not HAS_GROUPS:
                return False
            try:
                os.killpg(self._pid, signal.SIGKILL)
            except (ProcessLookupError, PermissionError):
                # The group has ended. On macOS, a group of zombies raises a permission error.
                return True
            return True


def do_nothing() -> None:
    """Do nothing. Used in place of the function that `daemonize` returns."""


if sys.platform == "win32":

    def daemonize() -> Callable[[], None]:
        """Return a function that does nothing, because Windows cannot fork."""
        return do_nothing

else:

    def daemonize() -> Callable[[], None]:
        """Continue in a forked process, and return a function to call when the server is ready.

        The original process waits for that call and then exits with status 0, leaving the new one without a parent. If
        the new process exits earlier, the original one exits with the same status, so that its caller learns about a
        failed start. Must be called before a second thread is started.
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
        """Detach from the terminal, and close output pipes so that their readers see the end of the output."""
        with suppress(OSError):  # this process already leads a session
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
        # Shells report a signal as 128 plus its number.
        os._exit(status if status >= 0 else 128 - status)
