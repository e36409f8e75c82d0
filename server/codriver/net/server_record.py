"""The record of a workspace's server: files in `.calva/mcp-server`, read with suspicion, and their process verified.

`port` is decimal digits without a newline; `server.json` beside it describes the server, `token` is the token to show
to the server, and the server holds `lock`. The files may have come with a checkout: no link is followed to them, only a
small regular file of this user's is read, and its content counts only in a folder that is this user's alone, as `serve`
makes it. Even then the files are claims: `verify` and `process_of` ask the kernel.
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
"""The shape of `secrets.token_urlsafe(32)`. Any other text is no token, but perhaps a key behind a link."""
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


def locate_in(folder: Path, name: str, *, is_last_followed: bool = True, make: bool = False) -> files.Place:
    """The place of one of the files, reached from the workspace without a link. Raises like `files.locate`."""
    return files.locate(
        folder / name,
        Links.NEVER,
        root=folder.parents[1],
        make_mode=0o777 if make else None,
        is_last_followed=is_last_followed,
    )


def read_port(folder: Path) -> int:
    """The port that the port file holds.

    Raises:
        OSError: the file is missing, unreadable or does not count; `strerror` says why.
        ValueError: the file holds no port.
    """
    text = _read(folder, "port", CLAIM).decode("ascii").strip()
    # Some resolvers take a port above 65535 modulo 65536: another server's port.
    if not text.isdigit() or not 0 < int(text) <= LARGEST_PORT:
        raise ValueError(text)
    return int(text)


def read_token(folder: Path) -> str | None:
    """The token for the server of this workspace; None without one in a file of this user's alone."""
    try:
        text = _read(folder, "token", SECRET).decode("ascii").strip()
    except (OSError, ValueError):
        return None
    return text if TOKEN.fullmatch(text) else None


def read_record(folder: Path) -> ServerRecord | None:
    """The record in `server.json`; None for a missing, worthless or unusable record."""
    try:
        found = json.loads(_read(folder, "server.json", CLAIM))
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


def log_tail(folder: Path) -> str:
    """The last lines of a background server's log; empty if none can be read."""
    try:
        with locate_in(folder, "serve.log") as log:
            descriptor = log.open(CLAIM)
    except OSError:
        return ""
    with os.fdopen(descriptor, "rb") as file:
        file.seek(max(0, os.fstat(descriptor).st_size - LOG_BYTES))
        return file.read(LOG_BYTES).decode("utf-8", "replace").strip()


def open_log(folder: Path, *, truncate: bool) -> int:
    """A descriptor of `serve.log` to append to, in its folder, made private; the caller closes the descriptor.

    Raises:
        OSError: the log is no regular file of this user's alone, or cannot be written.
    """
    with locate_in(folder, "serve.log", make=True) as log:
        log.make_folder_private()
        descriptor = log.open_private(os.O_RDWR | os.O_APPEND | os.O_CREAT)
    if truncate:
        os.ftruncate(descriptor, 0)
    return descriptor


def lock_file(folder: Path) -> Path:
    """The file that a server keeps locked from before its first connection until its end."""
    return folder / "lock"


def lock_status(folder: Path) -> os.stat_result | None:
    """The status of the lock file; None for a missing one."""
    try:
        with locate_in(folder, "lock") as lock:
            return lock.status()
    except OSError:
        return None


def is_claimed(folder: Path) -> bool | None:
    """Whether a process holds the claim on the workspace of `folder`: a server that runs, starts or ends.

    None on file systems without locks. The check takes the lock for a moment; a server that starts in that moment tries
    again.
    """
    try:
        with locate_in(folder, "lock") as there:
            lock = there.open_private(os.O_RDWR)
    except OSError:
        return False
    try:
        return not try_lock(lock)
    except OSError:
        return None
    finally:
        os.close(lock)


def _read(folder: Path, name: str, rules: Rules) -> bytes:
    with locate_in(folder, name) as there:
        status = there.folder_status()
        if not is_trusted(status.st_uid):
            raise files.NotOwnError(folder, "it is another user's folder, so nothing in it counts")
        if not files.is_private(status):
            why = "others may enter this folder, so nothing in it counts until `codriver serve` has made it private"
            raise files.NotOwnError(folder, why)
        return there.read(rules)


class NotTheServerError(CodriverError):
    """The listener on a port is not, or not surely, the server of the workspace. Nothing was sent to it."""


def host_of(claimed: ServerRecord | None) -> str:
    """The address of this machine at which a server claims to listen; loopback if it names another machine.

    A name is not looked up: only the address of an interface of this machine counts.
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


def verify(connection: socket.socket, folder: Path) -> int | None:
    """Make sure that a connection leads to the server of the workspace of `folder`; its process, if known.

    Raises:
        NotTheServerError: the connection leads elsewhere, or nobody can tell; the error's text says which.
    """
    try:
        return _judge(kernel_sockets.listener_of(connection), folder)
    except kernel_sockets.KernelSilentError:
        _believe(connection, folder)
        return None


def process_of(claimed: ServerRecord, folder: Path) -> int | None:
    """The process of the recorded server, if that is this workspace's, found without connecting to it.

    Raises:
        NotTheServerError: the server is not this workspace's.
        KernelSilentError: this system does not tell the process.
    """
    return _judge(kernel_sockets.listener_at(kernel_sockets.plain((host_of(claimed), claimed.port))), folder)


def _judge(listener: kernel_sockets.Peer | None, folder: Path) -> int | None:
    if listener is None:
        raise NotTheServerError("nobody on this machine listens there")
    if not is_trusted(listener.uid):  # only Linux reaches this line
        raise NotTheServerError("it belongs to another user of this machine")
    lock, claimed = lock_status(folder), read_record(folder)
    if lock is not None:
        process = kernel_sockets.holder_of(lock, listener.inode, hint=claimed.pid if claimed else None)
        if process is not None:
            return process
        if is_claimed(folder) is None:  # the file system knows no locks
            return None
    lock_path = lock_file(folder)
    why = f"it is not who holds {lock_path}, but another program, or the server of another workspace"
    raise NotTheServerError(why)


def _believe(connection: socket.socket, folder: Path) -> None:
    """Believe the lock when the kernel tells nothing: the files read before are this user's alone.

    If the kernel can tell the ports of a given process, the recorded process has to listen there.
    """
    if is_claimed(folder) is False:
        why = f"nobody holds {lock_file(folder)}: the server that wrote the port file is gone"
        raise NotTheServerError(why)
    claimed = read_record(folder)
    try:
        port = connection.getpeername()[1]
    except OSError:
        raise NotTheServerError("it has hung up already") from None
    if claimed is not None and listens(claimed.pid, port) is False:
        raise NotTheServerError(f"pid {claimed.pid}, which {folder} names as the server's, does not listen there")
