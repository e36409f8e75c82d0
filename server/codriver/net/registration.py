"""Register a server in its workspace, with a lock, a port file and a record of its process.

The process that holds the lock owns the workspace. Files next to a free lock are left over or came with a checkout, and
are removed.
"""

from __future__ import annotations

import json
import os
import secrets
import stat
import time
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from codriver import files
from codriver.errors import StartError
from codriver.files import FileRules, Links
from codriver.files.codriver_paths import state_directory, workspace_state_directory
from codriver.files.file_locks import try_lock
from codriver.net.server_record import (
    STOPPED_FOR_GOOD_STATUS,
    STOPPED_WHILE_STARTING_STATUS,
    TOKEN_RULES,
    ServerRecord,
    describe_remote_server,
    locate_server_file,
    read_port,
    read_record,
    read_token,
    remote_server_host,
)
from codriver.systems.other_processes import is_running
from codriver_relay.safe_files import TOKENS_DIRECTORY

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

LOCK_TIMEOUT_S = 3.0
"""Maximum time to wait for the lock, in seconds.

This is enough for a stopping server to release the lock, or for a starting server to accept connections.
"""
LOCK_POLL_INTERVAL_S = 0.02
"""Pause between two attempts to acquire the lock."""
LAST_STOP_RULES = FileRules(Links.ANY, 64)
PUBLISHED_FILES = ("port", "server.json", "token")
"""The names of the files that a server publishes."""


class AlreadyRunningError(StartError):
    """Raised when the workspace already has a running server."""

    def __init__(self, directory: Path, record: ServerRecord | None) -> None:
        self.record = record
        if host := remote_server_host(directory):
            super().__init__(describe_remote_server(host))
            return
        who = f"pid {record.pid} on port {record.port}" if record else "it is starting or stopping"
        super().__init__(
            f"a Codriver server is already running for this workspace ({who}; {directory}). Connect to it, or stop "
            "it with `codriver stop`"
        )


class ClaimError(StartError):
    """Raised when the server's files cannot be written to the workspace."""

    def __init__(self, directory: Path, error: OSError) -> None:
        super().__init__(
            f"cannot use {error.filename or directory}: {error.strerror or error}. Make {directory} a writable "
            "folder of yours that contains no links, or choose another --workspace"
        )


class StoppedForGoodError(StartError):
    """Raised when a server must not be started on demand, because the user has stopped it permanently."""

    exit_status = STOPPED_FOR_GOOD_STATUS
    """The exit status by which the relay recognizes this error."""

    def __init__(self, workspace: Path) -> None:
        super().__init__(
            f"the server of {workspace} was stopped for good with `codriver stop --for-good`, so clients do not start "
            f"it. To start it and allow that again, run `codriver serve --workspace {workspace}` or `codriver eval "
            "--start` in this folder"
        )


class StoppedWhileStartingError(StartError):
    """Raised when the user stopped the server after this start was requested."""

    exit_status = STOPPED_WHILE_STARTING_STATUS

    def __init__(self, workspace: Path) -> None:
        super().__init__(
            f"the server of {workspace} was stopped with `codriver stop` while it was starting. To start it again, "
            f"run `codriver serve --workspace {workspace}`"
        )


class Claim:
    """A server's exclusive ownership of its workspace, from before it listens until everything is closed."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._published: ServerRecord | None = None
        self.token: str | None = None

    @property
    def port_file(self) -> Path:
        """Return the path of the file with the server's port."""
        return self._directory / "port"

    def create_token(self) -> str:
        """Create the token that peers must send, store it in a file that only this user can read, and return it.

        Raises:
            ClaimError: the file cannot be written.
        """
        self.token = secrets.token_urlsafe(32)
        try:
            _write_file(self._directory, "token", self.token)
        except OSError as error:
            raise ClaimError(self._directory, error) from error
        return self.token

    def publish(self, record: ServerRecord) -> None:
        """Write the files with which clients find this server.

        The port file is written last, so that its readers find the others.

        Raises:
            ClaimError: a file cannot be written.
        """
        fields = {
            "pid": record.pid,
            "port": record.port,
            "host": record.host,
            "sessionId": record.session_id,
            "maxLineBytes": record.max_line_bytes,
            "startedAt": datetime.fromtimestamp(record.started_at / 1000, UTC).isoformat(timespec="milliseconds"),
            "version": record.version,
            **({"hostName": record.host_name, "hostId": record.host_id} if record.host_id else {}),
            **({"portNote": record.port_note} if record.port_note else {}),
        }
        try:
            _write_file(self._directory, "server.json", json.dumps(fields, indent=1) + "\n")
            if self.token:
                files.replace(
                    _token_copy(record),
                    self.token.encode(),
                    links=Links.OF_USER,
                    make_mode=files.PRIVATE_DIRECTORY_MODE,
                )
            _write_file(self._directory, "port", str(record.port))
        except OSError as error:
            raise ClaimError(self._directory, error) from error
        self._published = record

    def withdraw(self) -> None:
        """Remove the files of this server, except those that another server has replaced. May be called repeatedly."""
        mine, token = self._published, self.token
        self._published = self.token = None
        if token and read_token(self._directory) == token:
            _raise_claim_error(self._directory, "token")
        if mine is None:
            return
        if token:
            _remove_token_copy(_token_copy(mine), token)
        now = read_record(self._directory)
        if now is not None and now.session_id != mine.session_id:
            return
        with suppress(OSError, ValueError):
            if read_port(self._directory) == mine.port:
                _raise_claim_error(self._directory, "port")
        if now is not None:
            _raise_claim_error(self._directory, "server.json")


@contextmanager
def claim_workspace(
    directory: Path, *, is_alive: Callable[[ServerRecord], bool], lock_s: float = LOCK_TIMEOUT_S
) -> Iterator[Claim]:
    """Claim the workspace of `directory` for the duration of the context, and make the directory private.

    A lock file ensures that only one server has the claim. `is_alive` returns whether a recorded server is running. It
    is called while another process holds the lock, in order to fail early, and on file systems without locks. It is not
    called if others could write to the directory. Files left by a dead server or a checkout are removed.

    Raises:
        AlreadyRunningError: the workspace has a running server, or another process held the lock for `lock_s` seconds.
        ClaimError: the directory belongs to another user, is reached through a link, or cannot be written.
    """
    try:
        lock, was_private = _open_lock_file(directory)
    except OSError as error:
        raise ClaimError(directory, error) from error

    def live_server() -> ServerRecord | None:
        record = read_record(directory)
        is_live = record is not None and record.pid != os.getpid() and is_running(record.pid) and is_alive(record)
        return record if is_live else None

    try:
        is_certain = _acquire_lock(lock, directory, live_server, lock_s)
        record = live_server() if was_private and not is_certain else None
        if record is not None:
            raise AlreadyRunningError(directory, record)
        for name in PUBLISHED_FILES:
            _remove_file(directory, name)
        acquired = Claim(directory)
        try:
            yield acquired
        finally:
            acquired.withdraw()
    finally:
        os.close(lock)


def remove_stale_files(directory: Path) -> list[str]:
    """Remove the files of a server that is no longer running, and return their names.

    Raises:
        StartError: another server has claimed the workspace, or the directory cannot be used.
    """
    record, token = read_record(directory), read_token(directory)
    with claim_workspace(directory, is_alive=lambda _: False, lock_s=0):
        if record is not None and token:
            _remove_token_copy(_token_copy(record), token)
    return [name for name, found in zip(PUBLISHED_FILES, (record, record, token), strict=True) if found]


def stop_for_good(workspace: Path) -> None:
    """Prevent servers of this workspace from being started on demand, until `allow_start` is called.

    This is recorded in a file outside the workspace, so that no checkout can contain it.

    Raises:
        ClaimError: the file cannot be written.
    """
    mark = _stopped_file(workspace)
    try:
        files.replace(mark, b"", links=Links.ANY, make_mode=files.PRIVATE_DIRECTORY_MODE)
    except OSError as error:
        raise ClaimError(mark.parent, error) from error


def is_stopped_for_good(workspace: Path) -> bool:
    """Return whether servers of this workspace can only be started explicitly."""
    try:
        with files.locate(_stopped_file(workspace), Links.ANY) as mark:
            status = mark.status()
            return status is not None and stat.S_ISREG(status.st_mode)
    except OSError:
        return False


def allow_start(workspace: Path) -> None:
    """Allow servers of this workspace to be started on demand again. Errors are ignored."""
    with suppress(OSError), files.locate(_stopped_file(workspace), Links.ANY, is_last_followed=False) as mark:
        mark.remove()


def record_stop(workspace: Path) -> None:
    """Store the current time, so that servers whose start was requested earlier do not start.

    Nothing is stored for a workspace in which no server was ever started.
    """
    file = _last_stop_file(workspace)
    if file.parent.is_dir():
        with suppress(OSError):
            files.replace(file, str(time.time_ns() // 1_000_000).encode(), links=Links.ANY, is_durable=False)


def was_stopped_since(workspace: Path, requested_ms: int) -> bool:
    """Return whether the user has stopped the server of this workspace since a time in epoch milliseconds.

    A stop in the future does not count. It was recorded before the clock was set back.
    """
    try:
        return requested_ms <= int(files.read(_last_stop_file(workspace), LAST_STOP_RULES)) <= time.time_ns() // 10**6
    except (OSError, ValueError):
        return False


def mark_start(workspace: Path) -> int | None:
    """Mark a workspace as one whose server is being started, until the returned file is closed.

    Processes that inherit the file keep the mark. None is returned if the mark cannot be set, or is already set.
    """
    try:
        with files.locate(_start_file(workspace), Links.ANY, make_mode=files.PRIVATE_DIRECTORY_MODE) as mark:
            descriptor = mark.open_private(os.O_RDWR | os.O_CREAT)
    except OSError:
        return None
    with suppress(OSError):
        if try_lock(descriptor):
            return descriptor
    os.close(descriptor)
    return None


def is_starting(workspace: Path) -> bool:
    """Return whether a server is being started in a workspace by a process that has called `mark_start`."""
    try:
        with files.locate(_start_file(workspace), Links.ANY) as mark:
            descriptor = mark.open_private(os.O_RDWR)
    except OSError:
        return False
    try:
        return not try_lock(descriptor)
    except OSError:
        return False
    finally:
        os.close(descriptor)


def _start_file(workspace: Path) -> Path:
    return workspace_state_directory(workspace) / "starting"


def _last_stop_file(workspace: Path) -> Path:
    return workspace_state_directory(workspace) / "last-stop"


def _stopped_file(workspace: Path) -> Path:
    return workspace_state_directory(workspace) / "stopped-for-good"


def _open_lock_file(directory: Path) -> tuple[int, bool]:
    """Make the directory private and open its lock file. Return the file, and whether it was private before."""
    with locate_server_file(directory, "lock", make=True, is_last_followed=False) as lock:
        was_private = files.is_private_directory(lock.directory_status())
        lock.make_directory_private()
        descriptor = lock.open_private(os.O_RDWR | os.O_CREAT)
    try:
        with locate_server_file(directory, ".gitignore", is_last_followed=False) as ignored:
            status = ignored.status()
        if status is None or not stat.S_ISREG(status.st_mode):
            _write_file(directory, ".gitignore", "*\n")
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor, was_private


def _write_file(directory: Path, name: str, text: str) -> None:
    """Write a small private file atomically. A link of that name is replaced, not followed."""
    with locate_server_file(directory, name, is_last_followed=False) as opened:
        opened.replace(text.encode())


def _remove_file(directory: Path, name: str) -> None:
    try:
        with locate_server_file(directory, name, is_last_followed=False) as stale, suppress(FileNotFoundError):
            stale.remove()
    except OSError as error:
        raise ClaimError(directory, error) from error


def _token_copy(record: ServerRecord) -> Path:
    """Return the path of the copy of the token that can be found from the port alone."""
    return state_directory() / TOKENS_DIRECTORY / str(record.port)


def _remove_token_copy(stop_file: Path, token: str) -> None:
    """Remove the copy of the token, unless it contains another server's token by now."""
    with suppress(OSError), files.locate(stop_file, Links.OF_USER) as position:
        if position.read(TOKEN_RULES) == token.encode():
            position.remove()


def _raise_claim_error(directory: Path, name: str) -> None:
    with suppress(ClaimError):
        _remove_file(directory, name)


def _acquire_lock(lock: int, directory: Path, live_server: Callable[[], ServerRecord | None], wait_s: float) -> bool:
    """Acquire the lock of the workspace for the lifetime of this process, and return True.

    If another process holds the lock, its server may be starting, running or stopping, so this waits up to `wait_s`.
    Returns False if the file system does not support locks.
    """
    deadline = time.monotonic() + wait_s
    try:
        while not try_lock(lock):
            record = live_server()
            if record is not None or time.monotonic() > deadline:
                raise AlreadyRunningError(directory, record)
            time.sleep(LOCK_POLL_INTERVAL_S)
    except OSError:
        return False
    return True
