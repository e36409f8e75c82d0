"""Windows implementations of polling, directory descriptors, owners and permissions, and process sessions.

This module is imported only on Windows. Only sockets can be polled, so a thread reads stdin. An open directory is
represented by its path, which was checked when the directory was opened. The owner and readers of a file are decided by
the access lists of the directories above it, not by a mode.
"""

from __future__ import annotations

import _socket as socket
import os
import select
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeVar

    T = TypeVar("T")

LOCKED_BYTE_OFFSET = 1 << 30
"""Offset of the locked byte. It is beyond the end of the file, because others cannot read a locked byte."""
PATIENCE_S, PAUSE_S = 1.0, 0.01
"""Seconds to keep trying to open a file that is in use, and seconds between two attempts.

For example, a virus scanner may use the file.
"""
LOCK_VIOLATION_ERROR = 33
"""Error code for a locked region of a file. Source: Microsoft, System Error Codes."""
IN_USE_ERRORS = (5, 32, LOCK_VIOLATION_ERROR, 145)
"""Error codes for denied access, sharing and lock violations, and a directory with a file that is being deleted.

Source: Microsoft, System Error Codes.
"""
REPARSE_POINT_ATTRIBUTE = 0x400
"""The attribute of a link or junction. Source: Microsoft, File Attribute Constants."""
POLLIN, POLLOUT = getattr(select, "POLLIN", 1), getattr(select, "POLLOUT", 4)


if sys.platform == "win32":
    import ctypes
    import msvcrt

    def open_directory(path: str, above: str | None = None) -> str:
        """Return the path of a directory. If `above` is given, `path` is the name of a subdirectory of that directory.

        Raises:
            OSError: the directory does not exist, or the subdirectory is a link.
        """
        path = path if above is None else os.path.join(above, path)
        status = os.stat(path) if above is None else os.lstat(path)
        if above is not None and status.st_file_attributes & REPARSE_POINT_ATTRIBUTE:
            raise OSError(1, "the path is a link, and links are not followed")
        if not os.path.isdir(path):
            raise NotADirectoryError(20, "the path is not a directory")
        return path

    def close_directory(_directory: str) -> None:
        """Do nothing, because the directory is not open."""

    def status_of(directory: str) -> os.stat_result:
        """Return the status of a directory."""
        return os.stat(directory)

    def status_in(directory: str, name: str) -> os.stat_result:
        """Return the status of an entry in a directory, without following links."""
        return os.lstat(os.path.join(directory, name))

    def patiently(act: Callable[[], T], patience_s: float = PATIENCE_S) -> T:
        """Call `act`, and retry for `patience_s` while it fails because another process has the file open."""
        deadline = time.monotonic() + patience_s
        while True:
            try:
                return act()
            except OSError as error:
                # Opening a file gives the same POSIX error for all of these.
                is_in_use = error.errno == 13 if error.winerror is None else error.winerror in IN_USE_ERRORS
                if not is_in_use or time.monotonic() >= deadline:
                    raise
            time.sleep(PAUSE_S)

    def open_in(directory: str, name: str, flags: int) -> int:
        """Open a file in a directory, and return its descriptor."""
        return patiently(lambda: os.open(os.path.join(directory, name), flags | os.O_BINARY, 0o600))

    def make_in(directory: str, name: str) -> None:
        """Create a directory in a directory."""
        os.mkdir(os.path.join(directory, name))

    def remove_in(directory: str, name: str) -> None:
        """Remove a file from a directory."""
        patiently(lambda: os.unlink(os.path.join(directory, name)))

    def make_private(_directory: str) -> None:
        """Do nothing, because a directory inherits the access list of its parent directory."""

    def is_mine(_user: int) -> bool:
        """Return True, because a status does not contain the owner."""
        return True

    def is_trusted(_user: int) -> bool:
        """Return True, because a status does not contain the owner."""
        return True

    def is_open(_status: os.stat_result, _rights: int) -> bool:
        """Return False, because Windows has no permission bits. See `codriver_relay.safe_files.is_open`."""
        return False

    def try_lock(file: int) -> bool:
        """Lock an open file until it is closed, or return False if another process holds the lock.

        Raises:
            OSError: the file system does not support locks.
        """
        kernel = ctypes.WinDLL("kernel32", use_last_error=True)
        handle = ctypes.c_void_p(msvcrt.get_osfhandle(file))
        if kernel.LockFile(handle, LOCKED_BYTE_OFFSET, 0, 1, 0):
            return True
        error = ctypes.get_last_error()
        if error == LOCK_VIOLATION_ERROR:
            return False
        raise ctypes.WinError(error)

    def split_command(line: str) -> list[str]:
        """Split a command line as Windows programs do, with backslashes as part of paths.

        Source: Microsoft, CommandLineToArgvW.
        """
        if not line.strip():
            return []
        count = ctypes.c_int()
        shell, kernel = ctypes.WinDLL("shell32"), ctypes.WinDLL("kernel32")
        shell.CommandLineToArgvW.restype = ctypes.POINTER(ctypes.c_wchar_p)
        # The program itself is parsed by different rules, so another word is put in front.
        words = shell.CommandLineToArgvW(ctypes.c_wchar_p(f"program {line}"), ctypes.byref(count))
        found = [str(words[at]) for at in range(1, count.value)]
        kernel.LocalFree(ctypes.cast(words, ctypes.c_void_p))
        return found

    def local_path(path: str) -> str:
        """Convert the path of a `file:` URI, which has a slash before the drive, to a local path."""
        return os.path.normpath(path[1:] if path[2:3] == ":" else path)

    def shared_directories() -> list[str]:
        """Return the directories that belong to no user, and those for temporary files."""
        names = ("TEMP", "TMP", "SystemRoot", "ProgramData", "ProgramFiles", "ProgramFiles(x86)", "PUBLIC")
        return [path for name in names if (path := os.environ.get(name))]

    def state_directory() -> str:
        """Return the directory for the state of the user's programs. Source: platformdirs."""
        return os.environ.get("LOCALAPPDATA") or os.path.expanduser("~\\AppData\\Local")

    def start_flags() -> tuple[int, int]:
        """Return flags for starting a process without a console, first outside the parent's job and then within it."""
        from subprocess import CREATE_BREAKAWAY_FROM_JOB, DETACHED_PROCESS

        return DETACHED_PROCESS | CREATE_BREAKAWAY_FROM_JOB, DETACHED_PROCESS


class SocketPoll:
    """An implementation of `select.poll` for sockets that is based on `select`. It does not report errors."""

    def __init__(self) -> None:
        self.events: dict[int, int] = {}
        self.register, self.unregister = self.events.__setitem__, self.events.__delitem__

    def poll(self, wait_ms: float | None = None) -> list[tuple[int, int]]:
        """Wait at most `wait_ms` milliseconds, and return the ready descriptors with their events."""
        readers, writers = ([fd for fd, events in self.events.items() if events & kind] for kind in (POLLIN, POLLOUT))
        readers, writers, _ = select.select(readers, writers, [], None if wait_ms is None else wait_ms / 1000)
        return [(fd, POLLIN * (fd in readers) | POLLOUT * (fd in writers)) for fd in {*readers, *writers}]


def forward_data(fd: int, read: Callable[[], bytes | None], other: socket.socket) -> None:
    """Forward data from `read` to a socket until the input ends. While the socket is full, nothing is read."""
    while (data := read()) != b"":
        if data is None:
            select.select([fd], [], [])
        else:
            other.sendall(data)
    other.shutdown(socket.SHUT_WR)
