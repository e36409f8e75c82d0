"""The files in `.calva/mcp-server` that describe a workspace's server, and checks that a process is that server.

`port` contains decimal digits without a newline, `server.json` describes the server, `token` contains the token to send
to it, and the server holds a lock on `lock`. The files may have come with a checkout. So links are not followed, and
only small regular files of this user are read, in a private directory such as the one that `serve` creates. Even these
files only make claims, which `verify_server` and `recorded_process_id` check with the kernel.
"""

from __future__ import annotations

import json
import os
import re
import socket
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Final

from codriver import files
from codriver.errors import CodriverError
from codriver.files import FileRules, Links
from codriver.files.file_locks import try_lock
from codriver.net import kernel_sockets
from codriver.systems.file_system import is_trusted
from codriver.systems.machine import is_listening_at
from codriver_relay.hosts import is_other_host

if TYPE_CHECKING:
    from pathlib import Path

CLAIM_RULES: Final = FileRules(Links.NEVER, 4096, is_granting=True)
"""Rules for reading a server's files, whose usual size is a tenth of the maximum."""
TOKEN_RULES: Final = FileRules(Links.NEVER, 256, is_granting=True, is_secret=True)
"""Rules for reading the token, which must be unreadable for other users."""
TOKEN_PATTERN: Final = re.compile(r"[A-Za-z0-9_-]{43}")
"""Matches a token made by `secrets.token_urlsafe(32)`. Any other text could be a secret that a link points to."""
MAX_PORT: Final = 65535
INTRODUCTION_METHOD: Final = "codriver/token"
"""The notification that sends the token and names the expected server."""
WORKSPACE_METHOD: Final = "codriver/workspace"
"""The notification that answers an introduction that names a workspace."""
ANSWER_METHOD: Final = "codriver/answer"
"""The notification that answers the single request of a command that does not speak MCP."""
MAX_LOG_TAIL_BYTES: Final = 4096
"""Maximum number of bytes read from the end of the log."""
STOPPED_FOR_GOOD_STATUS: Final = 5
"""Exit status of a server started on demand although the user had stopped it permanently."""
STOPPED_WHILE_STARTING_STATUS: Final = 8
"""Exit status of a server that the user stopped after its start was requested, but before it claimed the workspace."""

LOOPBACK_ADDRESS: Final = "127.0.0.1"
LOOPBACK_BY_WILDCARD_ADDRESS: Final = {"0.0.0.0": LOOPBACK_ADDRESS, "::": "::1"}  # noqa: S104  # compared, not bound
"""The loopback address for reaching a server that listens on all interfaces, by its wildcard address."""


@dataclass(frozen=True, slots=True)
class ServerRecord:
    """The content of `server.json`, which describes a running server. `started_at` is in epoch milliseconds."""

    pid: int
    port: int
    host: str
    session_id: str
    started_at: int
    version: str
    port_note: str | None = None
    max_line_bytes: int = 0
    """Maximum length of a line that the server reads, or 0 if unknown."""
    host_name: str = ""
    """Name of the computer or container on which the server runs, or "" if unknown."""
    host_id: str = ""
    """Identity of that host, or "" if unknown. See `codriver_relay.hosts.host_identity`."""


def locate_server_file(
    directory: Path, name: str, *, is_last_followed: bool = True, make: bool = False
) -> files.DirectoryEntry:
    """Return the directory entry of one of the server's files. Links below the workspace are not followed.

    Raises the errors of `files.locate`.
    """
    return files.locate(
        directory / name,
        Links.NEVER,
        root=directory.parents[1],
        make_mode=0o777 if make else None,
        is_last_followed=is_last_followed,
    )


def read_port(directory: Path) -> int:
    """Return the port in the port file.

    Raises:
        OSError: the file is missing, unreadable or not trusted; `strerror` is the reason.
        ValueError: the file does not contain a port.
    """
    text = _read_file(directory, "port", CLAIM_RULES).decode("ascii").strip()
    # Some resolvers reduce a larger port modulo 65536, which would be another server's port.
    if not text.isdigit() or not 0 < int(text) <= MAX_PORT:
        raise ValueError(text)
    return int(text)


def read_token(directory: Path) -> str | None:
    """Return the token of the workspace's server, or None if there is no private file with a token."""
    try:
        text = _read_file(directory, "token", TOKEN_RULES).decode("ascii").strip()
    except (OSError, ValueError):
        return None
    return text if TOKEN_PATTERN.fullmatch(text) else None


def read_record(directory: Path) -> ServerRecord | None:
    """Return the content of `server.json`, or None if the file is missing, invalid or not trusted."""
    try:
        found = json.loads(_read_file(directory, "server.json", CLAIM_RULES))
        note = found.get("portNote")
        record = ServerRecord(
            pid=int(found["pid"]),
            port=int(found["port"]),
            host=str(found["host"]),
            session_id=str(found["sessionId"]),
            started_at=round(datetime.fromisoformat(found["startedAt"]).timestamp() * 1000),
            version=str(found.get("version", "")),
            port_note=None if note is None else str(note),
            host_name=str(found.get("hostName", "")),
            host_id=str(found.get("hostId", "")),
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError):
        return None
    # A signal to pid 0 or below would reach a group of processes.
    return record if record.pid > 0 and 0 < record.port <= MAX_PORT else None


def local_host_name() -> str:
    """Return the name of this host. Unusual characters, which the relay could not read, are replaced."""
    return re.sub(r"[^A-Za-z0-9._-]", "?", socket.gethostname())


def remote_server_host(directory: Path) -> str:
    """Return the name of the other host on which the server of a workspace runs, or "" if there is none.

    A record that a stopped server left does not count, because its lock is free.
    """
    record = read_record(directory)
    if record is None or not is_other_host(record.host_id) or not is_claimed(directory):
        return ""
    return record.host_name or "another host"


def describe_remote_server(host: str) -> str:
    """Return the message about a workspace whose server runs on another host."""
    return f"this project is in use by a server on {host}. Use it on one host only, or make a checkout for each host"


def read_log_tail(directory: Path) -> str:
    """Return the last lines of a background server's log, or "" if the log cannot be read."""
    try:
        with locate_server_file(directory, "serve.log") as log:
            descriptor = log.open(CLAIM_RULES)
    except OSError:
        return ""
    with os.fdopen(descriptor, "rb") as file:
        file.seek(max(0, os.fstat(descriptor).st_size - MAX_LOG_TAIL_BYTES))
        return file.read(MAX_LOG_TAIL_BYTES).decode("utf-8", "replace").strip()


def open_log(directory: Path, *, truncate: bool) -> int:
    """Make the directory private, open `serve.log` for appending, and return its descriptor.

    Raises:
        OSError: the path is not a regular file of this user, or cannot be written.
    """
    with locate_server_file(directory, "serve.log", make=True) as log:
        log.make_directory_private()
        descriptor = log.open_private(os.O_RDWR | os.O_APPEND | os.O_CREAT)
    if truncate:
        os.ftruncate(descriptor, 0)
    return descriptor


def lock_file(directory: Path) -> Path:
    """Return the path of the file that a server keeps locked while it runs."""
    return directory / "lock"


def lock_status(directory: Path) -> os.stat_result | None:
    """Return the `stat` result of the lock file, or None if it does not exist."""
    try:
        with locate_server_file(directory, "lock") as lock:
            return lock.status()
    except OSError:
        return None


def is_claimed(directory: Path) -> bool | None:
    """Return whether a server of the workspace holds its lock, or None if the file system does not support locks.

    A server holds the lock from before it listens until everything is closed. The check briefly acquires the lock, so a
    server that starts at that moment tries again.
    """
    try:
        with locate_server_file(directory, "lock") as opened:
            lock = opened.open_private(os.O_RDWR)
    except OSError:
        return False
    try:
        return not try_lock(lock)
    except OSError:
        return None
    finally:
        os.close(lock)


def _read_file(directory: Path, name: str, rules: FileRules) -> bytes:
    with locate_server_file(directory, name) as opened:
        status = opened.directory_status()
        if not is_trusted(status.st_uid):
            raise files.NotOwnedError(directory, "the directory belongs to another user, so its files are ignored")
        if not files.is_private_directory(status):
            why = (
                "other users can access the directory, so its files are ignored until `codriver serve` makes it private"
            )
            raise files.NotOwnedError(directory, why)
        return opened.read(rules)


class NotTheServerError(CodriverError):
    """Raised when the listener on a port is not, or may not be, the server of the workspace. Nothing was sent to it."""


def server_host(claimed: ServerRecord | None) -> str:
    """Return the address at which a recorded server can be reached.

    This is loopback if the record is None or has an address on another machine. Host names are not resolved.
    """
    if claimed is None:
        return LOOPBACK_ADDRESS
    host = LOOPBACK_BY_WILDCARD_ADDRESS.get(claimed.host, claimed.host)
    if host == LOOPBACK_ADDRESS:
        return host
    try:
        ((family, _, _, _, address), *_) = socket.getaddrinfo(
            host, 0, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST
        )
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.bind(address)  # only this machine's addresses can be bound
    except (OSError, ValueError):
        return LOOPBACK_ADDRESS
    return host


def verify_server(connection: socket.socket, directory: Path) -> int | None:
    """Verify that a connection leads to the server of a workspace. Return the server's process id, or None if unknown.

    Raises:
        NotTheServerError: another process is listening on the port, or this is unknown. The message has the reason.
    """
    try:
        return _verify_listener(kernel_sockets.find_peer_listener(connection), directory)
    except kernel_sockets.UnsupportedQueryError:
        _verify_lock(connection, directory)
        return None


def recorded_process_id(claimed: ServerRecord, directory: Path) -> int | None:
    """Return the process id of a recorded server, or None if unknown, without connecting to it.

    Raises:
        NotTheServerError: the process on the recorded port is not the server of this workspace.
        UnsupportedQueryError: this system cannot identify the process.
    """
    return _verify_listener(
        kernel_sockets.find_listener(kernel_sockets.normalize_address((server_host(claimed), claimed.port))), directory
    )


def _verify_listener(listener: kernel_sockets.LocalSocket | None, directory: Path) -> int | None:
    if listener is None:
        raise NotTheServerError("no process on this machine is listening on the port")
    if not is_trusted(listener.uid):  # only Linux reaches this line
        raise NotTheServerError("the process belongs to another user of this machine")
    lock, claimed = lock_status(directory), read_record(directory)
    if lock is not None:
        process = kernel_sockets.find_lock_holder(lock, listener.inode, hint=claimed.pid if claimed else None)
        if process is not None:
            return process
        if is_claimed(directory) is None:  # the file system does not support locks
            return None
    lock_path = lock_file(directory)
    why = f"the process does not hold {lock_path}, so it is another program, or the server of another workspace"
    raise NotTheServerError(why)


def _verify_lock(connection: socket.socket, directory: Path) -> None:
    """Verify a server by its lock file, because the kernel cannot identify the process.

    If the ports of a process can be listed, the recorded process must also listen on this port.

    Raises:
        NotTheServerError: no process holds the lock, or the recorded process does not listen on the port.
    """
    if is_claimed(directory) is False:
        why = f"no process holds {lock_file(directory)}, so the server that wrote the port file has ended"
        raise NotTheServerError(why)
    claimed = read_record(directory)
    try:
        port = connection.getpeername()[1]
    except OSError:
        raise NotTheServerError("the connection has already been closed") from None
    if claimed is not None and is_listening_at(claimed.pid, port) is False:
        raise NotTheServerError(f"pid {claimed.pid}, the server according to {directory}, is not listening on the port")
