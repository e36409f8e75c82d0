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
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from codriver.errors import StartError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

if sys.platform != "win32":
    import fcntl

PRIVATE = 0o600


class AlreadyRunningError(StartError):
    """The workspace has a live server."""

    def __init__(self, folder: Path, record: ServerRecord | None) -> None:
        who = f"pid {record.pid} on port {record.port}" if record else "it is just starting"
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
        write_file(self._folder / "token", self.token)
        return self.token

    def publish(self, record: ServerRecord) -> None:
        """Say where the server listens. `port` is written last: who sees it finds the rest."""
        shown = {
            "pid": record.pid,
            "port": record.port,
            "host": record.host,
            "sessionId": record.session_id,
            "startedAt": datetime.fromtimestamp(record.started_at / 1000, UTC).isoformat(timespec="seconds"),
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
        """Remove the files, if they are still ours. Again is harmless."""
        mine = self._published
        if mine is None:
            return
        self._published = None
        now = read_record(self._folder)
        if now is not None and now.session_id != mine.session_id:
            return
        with suppress(OSError):
            if self.port_file.read_text().strip() == str(mine.port):
                self.port_file.unlink()
        for name in ("server.json", "token"):
            with suppress(OSError):
                (self._folder / name).unlink()


@contextmanager
def claim(folder: Path, *, is_alive: Callable[[ServerRecord], bool]) -> Iterator[Claim]:
    """The claim on the workspace of `folder`; leaving the context gives it up.

    Raises:
        AlreadyRunningError: a live server holds it.
        ClaimError: the folder cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if not (folder / ".gitignore").exists():
            write_file(folder / ".gitignore", "*\n", mode=0o644)
        lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), PRIVATE)
    except OSError as error:
        raise ClaimError(folder, error) from error
    try:
        _lock(lock, folder)
        record = read_record(folder)
        if record is not None and _runs(record.pid) and record.pid != os.getpid() and is_alive(record):
            raise AlreadyRunningError(folder, record)
        for name in ("port", "server.json", "token"):
            with suppress(FileNotFoundError):
                (folder / name).unlink()
        held = Claim(folder)
        try:
            yield held
        finally:
            held.withdraw()
    finally:
        os.close(lock)


def read_record(folder: Path) -> ServerRecord | None:
    """What `server.json` says; None when it is missing or says nothing usable."""
    try:
        found = json.loads((folder / "server.json").read_text(encoding="utf-8"))
        return ServerRecord(
            pid=int(found["pid"]),
            port=int(found["port"]),
            host=str(found["host"]),
            session_id=str(found["sessionId"]),
            started_at=int(datetime.fromisoformat(found["startedAt"]).timestamp() * 1000),
            version=str(found.get("version", "")),
            port_note=found.get("portNote"),
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def install_relay(source: Path, target: Path) -> Path:
    """Copy the relay to its stable place if what is there differs, so that clients' configurations stay right."""
    text = source.read_bytes()
    with suppress(OSError):
        if target.read_bytes() == text:
            return target
    target.parent.mkdir(parents=True, exist_ok=True)
    write_file(target, text.decode(), mode=0o644)
    return target


def write_file(path: Path, text: str, *, mode: int = PRIVATE) -> None:
    """Write a small file of ours so that nobody ever sees half of it."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="") as file:
            file.write(text)
        Path(temporary).chmod(mode)
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def _lock(lock: int, folder: Path) -> None:
    """Hold the lock as long as this process lives: of two servers that start at once, one is refused."""
    if sys.platform != "win32":  # there the check for a live server stands alone
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise AlreadyRunningError(folder, read_record(folder)) from None


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OSError):
        return True
    return True
