"""A server's claim on its workspace: the lock, the port file, and who is behind it.

Clients find a server by `port` (decimal digits, no newline); `server.json` beside it says whose it is. Both are claims
to verify: a server is alive when its process is, and when what listens on its port gives the same session id.
"""

from __future__ import annotations

import json
import os
import secrets
import sys
import tempfile
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from codriver.errors import StartError
from codriver.locking import try_lock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PRIVATE = 0o600
LOCK_S = 3.0
"""How long a start waits for one that holds the lock: a server that ends frees it at once, one that starts comes up."""
LOCK_POLL_S = 0.02
LARGEST_PORT = 65535
# A link in the lock's place could lead anywhere, and locking would create a file there.
_LOCK_FLAGS = os.O_RDWR | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOFOLLOW", 0)


class AlreadyRunningError(StartError):
    """The workspace has a live server."""

    def __init__(self, folder: Path, record: ServerRecord | None) -> None:
        who = f"pid {record.pid} on port {record.port}" if record else "it is just starting, or just stopping"
        super().__init__(
            f"a codriver server runs for this workspace already ({who}; {folder}): "
            "connect to that one, or end it with `codriver stop`"
        )
        self.record = record


class ClaimError(StartError):
    """The folder for the port file cannot be used."""

    def __init__(self, folder: Path, error: OSError) -> None:
        super().__init__(
            f"cannot write {folder}: {error.strerror or error}; make the folder writable, or choose another --workspace"
        )


class RelayNotInstalledError(StartError):
    """The relay cannot be copied to its stable place."""

    def __init__(self, target: Path, error: OSError) -> None:
        super().__init__(
            f"cannot install the relay as {target}: {error.strerror or error}; make its folder writable, "
            "or set XDG_CONFIG_HOME to one that is"
        )


@dataclass(frozen=True, slots=True)
class ServerRecord:
    """What `server.json` holds. `started_at` is epoch milliseconds."""

    pid: int
    port: int
    host: str
    session_id: str
    started_at: int
    version: str
    port_note: str | None = None


class Claim:
    """The claim on one workspace, from before the server listens until it has closed everything."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._published: ServerRecord | None = None
        self.token: str | None = None

    @property
    def port_file(self) -> Path:
        """Where clients find the port."""
        return self._folder / "port"

    def demand_token(self) -> str:
        """A fresh token that peers have to show, put where only this user can read it."""
        self.token = secrets.token_urlsafe(32)
        try:
            write_file(self._folder / "token", self.token)
        except OSError as error:
            raise ClaimError(self._folder, error) from error
        return self.token

    def publish(self, record: ServerRecord) -> None:
        """Say where the server listens. `port` is written last: who sees it finds the rest."""
        shown = {
            "pid": record.pid,
            "port": record.port,
            "host": record.host,
            "sessionId": record.session_id,
            "startedAt": datetime.fromtimestamp(record.started_at / 1000, UTC).isoformat(timespec="milliseconds"),
            "version": record.version,
            **({"portNote": record.port_note} if record.port_note else {}),
        }
        try:
            write_file(self._folder / "server.json", json.dumps(shown, indent=1) + "\n")
            write_file(self.port_file, str(record.port))
        except OSError as error:
            raise ClaimError(self._folder, error) from error
        self._published = record

    def withdraw(self) -> None:
        """Remove the files that are still ours; what others wrote there meanwhile stays. Again is harmless."""
        mine, token = self._published, self.token
        self._published = self.token = None
        with suppress(OSError):
            if token and (self._folder / "token").read_text(encoding="utf-8") == token:
                (self._folder / "token").unlink()
        if mine is None:
            return
        now = read_record(self._folder)
        if now is not None and now.session_id != mine.session_id:
            return
        with suppress(OSError, ValueError):
            if int(self.port_file.read_text(encoding="utf-8")) == mine.port:
                self.port_file.unlink()
        if now is not None:
            with suppress(OSError):
                (self._folder / "server.json").unlink()


@contextmanager
def claim(folder: Path, *, is_alive: Callable[[ServerRecord], bool], lock_s: float = LOCK_S) -> Iterator[Claim]:
    """The claim on the workspace of `folder`; leaving the context gives it up.

    `is_alive` asks the server that a record names whether it is the one; it is asked only about a process that runs.
    What a dead server left behind is removed.

    Raises:
        AlreadyRunningError: a live server has it, or another start has held the lock for `lock_s` seconds.
        ClaimError: the folder cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if not (folder / ".gitignore").exists():
            write_file(folder / ".gitignore", "*\n")
        lock = os.open(lock_file(folder), os.O_CREAT | _LOCK_FLAGS, PRIVATE)
    except OSError as error:
        raise ClaimError(folder, error) from error

    def live_server() -> ServerRecord | None:
        record = read_record(folder)
        is_ours = record is not None and record.pid != os.getpid() and is_running(record.pid) and is_alive(record)
        return record if is_ours else None

    try:
        _lock(lock, folder, live_server, lock_s)
        record = live_server()
        if record is not None:
            raise AlreadyRunningError(folder, record)
        for name in ("port", "server.json", "token"):
            _remove(folder / name, folder)
        held = Claim(folder)
        try:
            yield held
        finally:
            held.withdraw()
    finally:
        os.close(lock)


def lock_file(folder: Path) -> Path:
    """What a server holds locked from before it can be reached until it has ended."""
    return folder / "lock"


def is_claimed(folder: Path) -> bool:
    """Whether a process holds the claim on the workspace of `folder`: a server that runs, starts or ends.

    False also where the lock cannot be asked. To know, the lock is taken for a moment; a server that starts in it
    tries again.
    """
    try:
        lock = os.open(lock_file(folder), _LOCK_FLAGS)
    except OSError:
        return False
    try:
        return not _try_lock(lock)
    finally:
        os.close(lock)


def read_record(folder: Path) -> ServerRecord | None:
    """What `server.json` says; None when it is missing or says nothing usable."""
    try:
        found = json.loads((folder / "server.json").read_text(encoding="utf-8"))
        note = found.get("portNote")
        record = ServerRecord(
            pid=int(found["pid"]),
            port=int(found["port"]),
            host=str(found["host"]),
            session_id=str(found["sessionId"]),
            started_at=round(datetime.fromisoformat(found["startedAt"]).timestamp() * 1000),
            version=str(found.get("version", "")),
            port_note=None if note is None else str(note),
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError):
        return None
    # A signal to pid 0 or below reaches whole groups of processes.
    return record if record.pid > 0 and 0 < record.port <= LARGEST_PORT else None


def install_relay(source: Path, target: Path) -> Path:
    """Copy the relay to its stable place if what is there differs, so that clients' configurations stay right.

    Raises:
        RelayNotInstalledError: it differs or is missing, and cannot be written.
    """
    text = source.read_bytes()
    with suppress(OSError):
        if target.read_bytes() == text:
            # One that was installed when others could still read it is narrowed.
            if target.stat().st_mode & ~PRIVATE & 0o777:
                target.chmod(PRIVATE)
            return target
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        write_file(target, text.decode())
    except OSError as error:
        raise RelayNotInstalledError(target, error) from error
    return target


def write_file(path: Path, text: str) -> None:
    """Write a small file that is the user's alone, so that nobody ever sees half of it, also after a loss of power."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).chmod(PRIVATE)
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def _lock(lock: int, folder: Path, live_server: Callable[[], ServerRecord | None], wait_s: float) -> None:
    """Hold the lock as long as this process lives: of two servers that start at once, one is refused.

    A lock that is held says that another server starts, runs or ends; which of these, only waiting tells.
    """
    deadline = time.monotonic() + wait_s
    while not _try_lock(lock):
        record = live_server()
        if record is not None or time.monotonic() > deadline:
            raise AlreadyRunningError(folder, record)
        time.sleep(LOCK_POLL_S)


def _try_lock(lock: int) -> bool:
    """Whether the lock is held now. Where a file system knows no locks, asking the server has to do."""
    try:
        return try_lock(lock)
    except OSError:
        return True


def _remove(stale: Path, folder: Path) -> None:
    try:
        stale.unlink(missing_ok=True)
    except OSError as error:
        raise ClaimError(folder, error) from error


def is_running(pid: int) -> bool:
    """Whether there is such a process. Where asking needs a signal that would reach it, its server has to tell."""
    if sys.platform == "win32":
        return True
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:
        return True
    return True
