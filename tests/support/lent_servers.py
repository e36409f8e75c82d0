"""Servers of other languages that tests start: watched, ended with their users, and lent from one module to the next.

A test run has one folder for all its processes. Each server has a folder in it:

- `life`, a pipe: the server ends when no process has it open for writing any more, however those ended
- `report`, the watchdog's report, locked for as long as the watchdog lives
- `output`, all that the server writes; `group`, the number of its process group

Next to them, `KIND-NUMBER.lent` names the folder of a server of that kind. A process locks it while a module of its
tests uses the server, so each kind is started as often as modules use it at the same time, and not once a process.
"""

import atexit
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress
from itertools import count
from pathlib import Path

import posix_only

from codriver.files.file_locks import try_lock
from codriver.repls.launch.processes import WATCHDOG_PATH

SHARED = "TESTS_OF_CODRIVER_SHARED"
"""The variable that names the run's folder to all its processes."""
END_S = 60
POLL_S = 0.02

_lent = {}
"""The servers that this process uses, by kind, each with the descriptor of its locked file."""
_opened = {}
"""The servers of the run that this process has open, by their folders."""


class Watched:
    """One server and its watchdog, in a directory of their own."""

    def __init__(self, folder):
        self.folder = folder
        self._life = os.open(folder / "life", os.O_RDWR)

    @classmethod
    def start(cls, folder, command, env, *, stdin="empty"):
        """Start a new server, which need not be listening yet."""
        posix_only.make_pipe(folder / "life")
        started = cls(folder)
        report = os.open(folder / "report", os.O_RDWR | os.O_CREAT | os.O_APPEND)
        assert locked(report)
        with (folder / "output").open("ab") as output, (folder / "life").open("rb") as life:
            process = subprocess.Popen(
                [sys.executable, "-I", "-S", WATCHDOG_PATH, str(report), stdin, *command],
                cwd=folder, env=env, stdin=life, stdout=output, stderr=output, start_new_session=True,
                pass_fds=(report,),
            )  # fmt: skip
        os.close(report)
        threading.Thread(target=process.wait, daemon=True).start()  # whoever started it takes its status
        (folder / "group").write_text(str(process.pid))
        return started

    @property
    def pid(self):
        """Return the pid of the server itself, not of its watchdog."""
        while not (words := (self.folder / "report").read_text().split()) and self.is_running():
            time.sleep(POLL_S)
        return int(words[1])

    @property
    def output(self):
        return (self.folder / "output").read_text(errors="replace")

    def is_running(self):
        return _is_locked(self.folder / "report")

    def kill(self):
        """End it as a crash would."""
        with suppress(ProcessLookupError):
            posix_only.kill_group(int((self.folder / "group").read_text()))
        self._wait()

    def leave(self):
        """Close it in this process. It ends when no process has it open."""
        if self._life is not None:
            os.close(self._life)
            self._life = None

    def end(self):
        """End it while no other process has it open; its directory can be used for another one."""
        self.leave()
        self._wait()
        for name in ("life", "report"):
            (self.folder / name).unlink()

    def stop(self):
        """End it while no other process has it open, and remove its directory."""
        self.leave()
        self._wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _wait(self):
        assert _await(lambda: not self.is_running()), f"a server does not end: {self.output[-2000:]}"


def _await(condition):
    """Return whether it became true in time."""
    deadline = time.monotonic() + END_S
    while not (is_so := condition()) and time.monotonic() < deadline:
        time.sleep(POLL_S)
    return is_so


def _is_locked(path):
    """Return whether a process holds the lock of this file."""
    with path.open("rb") as file:
        return not locked(file.fileno())


def locked(descriptor):
    """Try to lock a file until its descriptor is closed, and return whether it was free."""
    return try_lock(descriptor)


def run_directory():
    """Return the directory shared by all processes of this run; whichever creates it removes it at its own end."""
    if SHARED not in os.environ:
        folder = os.environ[SHARED] = tempfile.mkdtemp(prefix="tests-of-codriver-")
        atexit.register(_remove, Path(folder))
    return Path(os.environ[SHARED])


def new_directory(kind):
    """Create a directory for a new server."""
    return Path(tempfile.mkdtemp(prefix=f"{kind}-", dir=run_directory()))


def borrow(kind, start, find):
    """Return a running server of this kind that no other module uses, until `give_back`.

    `start` starts one, and `find` returns the one running in a directory; both return an object with `watched`.
    """
    if kind not in _lent:
        _lent[kind] = _lock_free_file(kind), None
    place, server = _lent[kind]
    if server is None or not server.watched.is_running():
        server = _running(place, find) or start()
        os.truncate(place, 0)
        os.lseek(place, 0, os.SEEK_SET)
        os.write(place, str(server.watched.folder).encode())
        _lent[kind] = place, server
        _opened[server.watched.folder] = server
    return server


def give_back():
    """Let other processes use what this one has borrowed."""
    for place, _ in _lent.values():
        os.close(place)
    _lent.clear()


def _lock_free_file(kind):
    """Return the descriptor of the first file of this kind that can be locked."""
    for number in count():
        place = os.open(run_directory() / f"{kind}-{number}.lent", os.O_RDWR | os.O_CREAT, 0o600)
        if locked(place):
            return place
        os.close(place)
    raise AssertionError("there is no end of numbers")


def _running(place, find):
    """Return the server that a locked file names, if it is running."""
    os.lseek(place, 0, os.SEEK_SET)
    folder = Path(os.read(place, 4096).decode())
    if not folder.name:
        return None
    server = _opened.get(folder) or find(folder)
    return server if server.watched.is_running() else None


@atexit.register
def _leave():
    """Prevent others from borrowing a server that may end with this process, if no other has it open."""
    give_back()
    for path in run_directory().glob("*.lent") if _opened else ():
        with path.open("r+b", buffering=0) as place:
            if locked(place.fileno()) and Path(place.read().decode()) in _opened:
                place.truncate(0)
    for server in _opened.values():
        server.watched.leave()


def _remove(folder):
    """Remove the directory of the run once everything in it has ended, this process's own servers first."""
    _leave()  # what was registered first is run last
    for report in folder.glob("*/report"):
        _await(lambda report=report: not _is_locked(report))
    shutil.rmtree(folder, ignore_errors=True)
