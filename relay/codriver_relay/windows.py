"""Windows' own ways in place of `poll`, folders held open, owners and modes of files, and sessions of processes.

Imported on Windows alone. Only sockets can be polled, and a thread reads stdin. A folder is its path, checked now and
believed until its use; the access lists of the folders above a file decide its owner and readers, not a mode.
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

LOCKED_BYTE = 1 << 30
"""The byte that a lock is on, behind all that a locked file holds: no other process may read a locked byte."""
PATIENCE_S, PAUSE_S = 1.0, 0.01
"""The time for retries on a held file, as virus scanners hold each new one, and the pause between them."""
LOCK_VIOLATION = 33
IN_USE = (5, 32, LOCK_VIOLATION, 145)
"""Access denied, sharing and lock violations, and a folder with a file that is being deleted.

Source: Microsoft, System Error Codes.
"""
REPARSE_POINT = 0x400
"""The attribute of a link, or a junction. Source: Microsoft, File Attribute Constants."""
POLLIN, POLLOUT = getattr(select, "POLLIN", 1), getattr(select, "POLLOUT", 4)


if sys.platform == "win32":
    import ctypes
    import msvcrt

    def open_folder(path: str, above: str | None = None) -> str:
        """Return the path of a directory; below `above` it is a name, and no link is followed.

        Raises:
            OSError: the directory is missing.
        """
        path = path if above is None else os.path.join(above, path)
        status = os.stat(path) if above is None else os.lstat(path)
        if above is not None and status.st_file_attributes & REPARSE_POINT:
            raise OSError(1, "it is a link, and none is followed here")
        if not os.path.isdir(path):
            raise NotADirectoryError(20, "it is no folder")
        return path

    def close_folder(_folder: str) -> None:
        """Nothing: the directory is not held open."""

    def status_of(folder: str) -> os.stat_result:
        """Return the status of a directory."""
        return os.stat(folder)

    def status_in(folder: str, name: str) -> os.stat_result:
        """Return the status of the entry with this name in a directory, of a link itself."""
        return os.lstat(os.path.join(folder, name))

    def patiently(act: Callable[[], T], patience_s: float = PATIENCE_S) -> T:
        """Retry an act that is refused while somebody else has a file open, until it succeeds or the time is over."""
        deadline = time.monotonic() + patience_s
        while True:
            try:
                return act()
            except OSError as error:
                # Opening a file gives one POSIX error for all of these.
                is_in_use = error.errno == 13 if error.winerror is None else error.winerror in IN_USE
                if not is_in_use or time.monotonic() >= deadline:
                    raise
            time.sleep(PAUSE_S)

    def open_in(folder: str, name: str, flags: int) -> int:
        """Return a descriptor of a file in a directory."""
        return patiently(lambda: os.open(os.path.join(folder, name), flags | os.O_BINARY, 0o600))

    def make_in(folder: str, name: str) -> None:
        """Make a directory in a directory."""
        os.mkdir(os.path.join(folder, name))

    def remove_in(folder: str, name: str) -> None:
        """Remove a file in a directory."""
        patiently(lambda: os.unlink(os.path.join(folder, name)))

    def make_private(_folder: str) -> None:
        """Nothing: a directory has the access list of the one above it."""

    def is_mine(_user: int) -> bool:
        """True: each status names the same user."""
        return True

    def is_trusted(_user: int) -> bool:
        """True: each status names the same user."""
        return True

    def is_open(_status: os.stat_result, _rights: int) -> bool:
        """False: the modes of files are made up."""
        return False

    def try_lock(file: int) -> bool:
        """Take the lock on an open file, until that is closed; False if another process has it.

        Raises:
            OSError: the file system knows no locks.
        """
        kernel = ctypes.WinDLL("kernel32", use_last_error=True)
        handle = ctypes.c_void_p(msvcrt.get_osfhandle(file))
        if kernel.LockFile(handle, LOCKED_BYTE, 0, 1, 0):
            return True
        error = ctypes.get_last_error()
        if error == LOCK_VIOLATION:
            return False
        raise ctypes.WinError(error)

    def split_command(line: str) -> list[str]:
        """Return the words of a command line, as programs here read it: a backslash is a letter of a path.

        Source: Microsoft, CommandLineToArgvW.
        """
        if not line.strip():
            return []
        count = ctypes.c_int()
        shell, kernel = ctypes.WinDLL("shell32"), ctypes.WinDLL("kernel32")
        shell.CommandLineToArgvW.restype = ctypes.POINTER(ctypes.c_wchar_p)
        # The first word, the program, is read by other rules, so another word is put before it.
        words = shell.CommandLineToArgvW(ctypes.c_wchar_p(f"program {line}"), ctypes.byref(count))
        found = [str(words[at]) for at in range(1, count.value)]
        kernel.LocalFree(ctypes.cast(words, ctypes.c_void_p))
        return found

    def local_path(path: str) -> str:
        """Return the local path of a `file:` URI's path, which has a slash before the drive."""
        return os.path.normpath(path[1:] if path[2:3] == ":" else path)

    def places_of_all() -> list[str]:
        """Return the directories without an owning user, and those for temporary files."""
        names = ("TEMP", "TMP", "SystemRoot", "ProgramData", "ProgramFiles", "ProgramFiles(x86)", "PUBLIC")
        return [path for name in names if (path := os.environ.get(name))]

    def state_folder() -> str:
        """Return the directory of the user's state of all programs. Source: platformdirs."""
        return os.environ.get("LOCALAPPDATA") or os.path.expanduser("~\\AppData\\Local")

    def start_flags() -> tuple[int, int]:
        """Return the flags that start a process without a console, outside of the starter's job, or within."""
        from subprocess import CREATE_BREAKAWAY_FROM_JOB, DETACHED_PROCESS

        return DETACHED_PROCESS | CREATE_BREAKAWAY_FROM_JOB, DETACHED_PROCESS


class SocketPoll:
    """`select.poll` for sockets alone, by what every system has. Errors are not waited for."""

    def __init__(self) -> None:
        self.events: dict[int, int] = {}
        self.register, self.unregister = self.events.__setitem__, self.events.__delitem__

    def poll(self, wait_ms: float | None = None) -> list[tuple[int, int]]:
        """Return the descriptors that are ready, after waiting at most so long."""
        readers, writers = ([fd for fd, events in self.events.items() if events & kind] for kind in (POLLIN, POLLOUT))
        readers, writers, _ = select.select(readers, writers, [], None if wait_ms is None else wait_ms / 1000)
        return [(fd, POLLIN * (fd in readers) | POLLOUT * (fd in writers)) for fd in {*readers, *writers}]


def pass_on(fd: int, read: Callable[[], bytes | None], other: socket.socket) -> None:
    """Send the bytes that `read` reads from `fd`, until their end; while they are not taken, nothing is read."""
    while (data := read()) != b"":
        if data is None:
            select.select([fd], [], [])
        else:
            other.sendall(data)
    other.shutdown(socket.SHUT_WR)
