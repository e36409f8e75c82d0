"""The record of a workspace's server: files in `.calva/mcp-server`, read with suspicion, and their process verified.

`port` is decimal digits without a newline; `server.json` next to it describes the server, `token` is the token to show
to the server, and the server holds `lock`. The files may have come with a checkout: no link is followed to them, only a
small regular file of this user's is read, and its content counts only in a directory that is this user's alone, as
`serve` makes it. Even then the files are claims: `verify` and `process_of` ask the kernel.
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
from codriver.files import Links, Rules
from codriver.files.own_folders import try_lock
from codriver.net import kernel_sockets
from codriver.systems.file_system import is_trusted
from codriver.systems.machine import listens

if TYPE_CHECKING:
    from pathlib import Path

CLAIM: Final = Rules(Links.NEVER, 4096, is_granting=True)
"""The rules for a file written by a server; the usual size is a tenth of this."""
SECRET: Final = Rules(Links.NEVER, 256, is_granting=True, is_secret=True)
TOKEN: Final = re.compile(r"[A-Za-z0-9_-]{43}")
"""The shape of `secrets.token_urlsafe(32)`. Any other text is no token, but perhaps a key in a link."""
LARGEST_PORT: Final = 65535
INTRODUCTION: Final = "codriver/token"
"""The notification that shows a token and names the intended server."""
WORKSPACE: Final = "codriver/workspace"
"""The answer to a notification with a workspace."""
ANSWER: Final = "codriver/answer"
"""The answer to a request that a command makes instead of speaking MCP."""
LOG_BYTES: Final = 4096
STOPPED_FOR_GOOD: Final = 5
"""The exit status of a server on demand if the user wants none."""

LOOPBACK: Final = "127.0.0.1"
WILDCARDS: Final = {"0.0.0.0": LOOPBACK, "::": "::1"}  # noqa: S104  # compared, not bound


@dataclass(frozen=True, slots=True)
class ServerRecord:
    """The content of `server.json`. `started_at` is epoch milliseconds."""

    pid: int
    port: int
    host: str
    session_id: str
    started_at: int
    version: str
    port_note: str | None = None
    max_line_bytes: int = 0
    """The longest line that the server reads, for relays; 0 where it is unknown."""


def locate_in(directory: Path, name: str, *, is_last_followed: bool = True, make: bool = False) -> files.DirectoryEntry:
    """Return the location of one of the files, reached from the workspace without a link.

    Raises like `files.locate`.
    """
    return files.locate(
        directory / name,
        Links.NEVER,
        root=directory.parents[1],
        make_mode=0o777 if make else None,
        is_last_followed=is_last_followed,
    )


def read_port(directory: Path) -> int:
    """Return the port that the port file holds.

    Raises:
        OSError: the file is missing, unreadable or does not count; `strerror` says why.
        ValueError: the file holds no port.
    """
    text = _read(directory, "port", CLAIM).decode("ascii").strip()
    # Some resolvers take a port above 65535 modulo 65536: another server's port.
    if not text.isdigit() or not 0 < int(text) <= LARGEST_PORT:
        raise ValueError(text)
    return int(text)


def read_token(directory: Path) -> str | None:
    """Return the token for the server of this workspace; None without one in a file of this user's alone."""
    try:
        text = _read(directory, "token", SECRET).decode("ascii").strip()
    except (OSError, ValueError):
        return None
    return text if TOKEN.fullmatch(text) else None


def read_record(directory: Path) -> ServerRecord | None:
    """Return the record in `server.json`; None for a missing, worthless or unusable record."""
    try:
        found = json.loads(_read(directory, "server.json", CLAIM))
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


def log_tail(directory: Path) -> str:
    """Return the last lines of a background server's log; empty if none can be read."""
    try:
        with locate_in(directory, "serve.log") as log:
            descriptor = log.open(CLAIM)
    except OSError:
        return ""
    with os.fdopen(descriptor, "rb") as file:
        file.seek(max(0, os.fstat(descriptor).st_size - LOG_BYTES))
        return file.read(LOG_BYTES).decode("utf-8", "replace").strip()


def open_log(directory: Path, *, truncate: bool) -> int:
    """Return a descriptor of `serve.log` to append to, in its directory, made private.

    The caller closes the descriptor.

    Raises:
        OSError: the log is no regular file of this user's alone, or cannot be written.
    """
    with locate_in(directory, "serve.log", make=True) as log:
        log.make_directory_private()
        descriptor = log.open_private(os.O_RDWR | os.O_APPEND | os.O_CREAT)
    if truncate:
        os.ftruncate(descriptor, 0)
    return descriptor


def lock_file(directory: Path) -> Path:
    """Return the file that a server keeps locked from before its first connection until its end."""
    return directory / "lock"


def lock_status(directory: Path) -> os.stat_result | None:
    """Return the status of the lock file; None for a missing one."""
    try:
        with locate_in(directory, "lock") as lock:
            return lock.status()
    except OSError:
        return None


def is_claimed(directory: Path) -> bool | None:
    """Return whether a process holds the claim on the workspace of `directory`: a server that runs, starts or ends.

    None on file systems without locks. The check takes the lock for a moment; a server that starts in that moment tries
    again.
    """
    try:
        with locate_in(directory, "lock") as opened:
            lock = opened.open_private(os.O_RDWR)
    except OSError:
        return False
    try:
        return not try_lock(lock)
    except OSError:
        return None
    finally:
        os.close(lock)


def _read(directory: Path, name: str, rules: Rules) -> bytes:
    with locate_in(directory, name) as opened:
        status = opened.directory_status()
        if not is_trusted(status.st_uid):
            raise files.NotOwnedError(directory, "it is another user's folder, so nothing in it counts")
        if not files.is_private(status):
            why = "others may enter this folder, so nothing in it counts until `codriver serve` has made it private"
            raise files.NotOwnedError(directory, why)
        return opened.read(rules)


class NotTheServerError(CodriverError):
    """The listener on a port is not, or not surely, the server of the workspace. Nothing was sent to it."""


def host_of(claimed: ServerRecord | None) -> str:
    """Return the address of this machine at which a server claims to listen; loopback if it names another machine.

    A name is not resolved: only the address of an interface of this machine counts.
    """
    if claimed is None:
        return LOOPBACK
    host = WILDCARDS.get(claimed.host, claimed.host)
    if host == LOOPBACK:
        return host
    try:
        ((family, _, _, _, address), *_) = socket.getaddrinfo(
            host, 0, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST
        )
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.bind(address)  # only an address of this machine can be bound
    except (OSError, ValueError):
        return LOOPBACK
    return host


def verify(connection: socket.socket, directory: Path) -> int | None:
    """Verify that a connection leads to the server of the workspace of `directory`; return its process, if known.

    Raises:
        NotTheServerError: the connection leads elsewhere, or no one can tell; the error's text says which.
    """
    try:
        return _verified_process(kernel_sockets.listener_of(connection), directory)
    except kernel_sockets.KernelSilentError:
        _believe(connection, directory)
        return None


def process_of(claimed: ServerRecord, directory: Path) -> int | None:
    """Return the process of the recorded server, if that is this workspace's, found without connecting to it.

    Raises:
        NotTheServerError: the server is not this workspace's.
        KernelSilentError: this system does not name the process.
    """
    return _verified_process(
        kernel_sockets.listener_at(kernel_sockets.plain((host_of(claimed), claimed.port))), directory
    )


def _verified_process(listener: kernel_sockets.Peer | None, directory: Path) -> int | None:
    if listener is None:
        raise NotTheServerError("nobody on this machine listens there")
    if not is_trusted(listener.uid):  # only Linux reaches this line
        raise NotTheServerError("it belongs to another user of this machine")
    lock, claimed = lock_status(directory), read_record(directory)
    if lock is not None:
        process = kernel_sockets.holder_of(lock, listener.inode, hint=claimed.pid if claimed else None)
        if process is not None:
            return process
        if is_claimed(directory) is None:  # the file system knows no locks
            return None
    lock_path = lock_file(directory)
    why = f"it is not who holds {lock_path}, but another program, or the server of another workspace"
    raise NotTheServerError(why)


def _believe(connection: socket.socket, directory: Path) -> None:
    """Trust the lock when the kernel does not answer: the files read before are this user's alone.

    If the kernel can list the ports of a given process, the recorded process has to listen on the port.
    """
    if is_claimed(directory) is False:
        why = f"nobody holds {lock_file(directory)}: the server that wrote the port file is gone"
        raise NotTheServerError(why)
    claimed = read_record(directory)
    try:
        port = connection.getpeername()[1]
    except OSError:
        raise NotTheServerError("it has hung up already") from None
    if claimed is not None and listens(claimed.pid, port) is False:
        raise NotTheServerError(f"pid {claimed.pid}, which {directory} names as the server's, does not listen there")
