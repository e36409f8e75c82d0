"""Files in Jupyter's runtime directory: connection files of kernels, and files of notebook servers with their URL.

A file does not prove that its kernel runs: killed servers leave their own files and those of their kernels, and another
program may listen on the ports now. Only a connection shows whether a kernel is there, because the kernel has to know
the key in the file.

Source: jupyter_client, "Connection files"; `jpserver-*.json` as jupyter_server 2 writes them.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import stat
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from codriver import files
from codriver.files import Links, Rules
from codriver.net.server_record import LARGEST_PORT
from codriver.systems.file_system import HAS_MODES, is_open, is_trusted
from codriver.wire.untrusted import text_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from codriver.files import Stamp


CODRIVER_PREFIX: Final = "kernel-codriver-"
"""The names of the files of kernels that Codriver servers start; the server's process id follows."""

MAX_FILE_BYTES: Final = 64 * files.KIBIBYTE
EXPOSED_RULES: Final = Rules(Links.NEVER, MAX_FILE_BYTES, is_granting=True, is_secret=True)
"""Connection files hold keys and tokens, and decide where code is sent: nobody else may read or write the files."""
SHELTERED_RULES: Final = Rules(Links.NEVER, MAX_FILE_BYTES)
"""Rules for files that no other user can reach, whatever their modes: VS Code leaves them to the umask."""

MAX_FILES: Final = 1000
"""The most files that are read: killed servers leave theirs, and nobody cleans up."""

SETTLED_NS: Final = 10**9
"""A folder or a file that changed within this time may change again without a trace in its times."""

PROBE_S: Final = 0.3
LOOPBACK: Final = frozenset({"127.0.0.1", "::1", "localhost"})


@dataclass(frozen=True, slots=True)
class ConnectionFile:
    """One kernel's connection file, without its key, which only the connection needs."""

    path: Path
    written_ns: int
    host: str
    port: int
    """The port of the shell."""
    transport: str = "tcp"
    kernel_name: str = ""
    session: str = ""
    """The absolute path of the notebook, for a kernel that a server started for a session."""

    @property
    def kernel_id(self) -> str:
        """Return the id by which its server knows the kernel."""
        return self.path.stem.removeprefix("kernel-")

    @property
    def address(self) -> str:
        """Return the address of the REPL."""
        return f"jupyter://{self.path}"

    def is_listened_to(self) -> bool:
        """Return whether anything listens at the shell's port now. Waits a moment."""
        if self.transport == "ipc":
            return os.path.exists(f"{self.host}-{self.port}")  # noqa: PTH110  # a socket's name, no file of ours
        try:
            with socket.create_connection((self.host, self.port), PROBE_S):
                return True
        except OSError:
            return False


@dataclass(frozen=True, slots=True)
class NotebookServer:
    """One Jupyter Server of this user on this machine. The token is a secret."""

    path: Path
    url: str
    root: Path
    process_id: int
    token: str = field(repr=False, default="")

    def concerns(self, workspace: Path) -> bool:
        """Whether the server's notebooks may lie in the workspace: its folder is the workspace, above it, or in it."""
        return workspace.is_relative_to(self.root) or self.root.is_relative_to(workspace)


@dataclass(frozen=True, slots=True)
class Contents:
    """The content of the runtime folder at one time."""

    kernels: tuple[ConnectionFile, ...] = ()
    servers: tuple[NotebookServer, ...] = ()
    errors: tuple[tuple[Path, str], ...] = ()
    """The reasons why files cannot be used."""


class RuntimeDirectory:
    """Jupyter's runtime folder, read again only after it changed. Lives as long as its caller; one caller at a time."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._stamp: Stamp | None = None
        self._contents = Contents()

    def contents(self) -> Contents:
        """Return the present files; the same object as before if nothing changed. Waits for a disk."""
        try:
            status = self._directory.stat()
        except OSError:
            status = None
        stamp = None if status is None else files.stamp_of(status)
        if stamp == self._stamp:
            return self._contents
        found = Contents() if stamp is None else _read_all(self._directory)
        # A file that is still empty, or another one in the same tick, changes no time of the folder.
        now = time.time_ns()
        is_settled = status is None or not 0 <= now - status.st_mtime_ns < SETTLED_NS
        self._stamp = stamp if is_settled else None
        if found != self._contents:
            self._contents = found
        return self._contents


def is_sheltered(file: Path) -> bool:
    """Return whether a directory on the path keeps all other users away from a file, which not everybody may write."""
    try:
        is_for_everybody = bool(file.lstat().st_mode & stat.S_IWOTH)
    except OSError:
        return False
    directory = file.parent.resolve()  # a link on the way shelters nothing
    return HAS_MODES and not is_for_everybody and any(map(_is_writable_by_user_only, (directory, *directory.parents)))


def _is_writable_by_user_only(directory: Path) -> bool:
    try:
        status = directory.stat()
    except OSError:
        return False
    # A group with the number of its user is the user's alone, by the convention of Debian, Fedora and others.
    rights = 0o007 if status.st_gid == status.st_uid else 0o077
    return is_trusted(status.st_uid) and not is_open(status, rights)


def _read_all(directory: Path) -> Contents:
    kernels, servers, errors = [], [], []
    with contextlib.suppress(OSError):
        for path in sorted(directory.iterdir(), key=lambda path: path.name)[:MAX_FILES]:
            is_kernel = path.name.startswith("kernel-") and not path.name.startswith(CODRIVER_PREFIX)
            if path.suffix != ".json" or not (is_kernel or path.name.startswith("jpserver-")):
                continue
            try:
                rules = SHELTERED_RULES if is_sheltered(path) else EXPOSED_RULES
                data, status = files.read_stamped(path, rules, root=directory)
                if is_kernel:
                    kernels.append(read_connection_file(path, data, status.st_mtime_ns))
                else:
                    servers.append(read_server_file(path, data))
            except FileNotFoundError:
                continue
            except OSError as error:
                errors.append((path, error.strerror or type(error).__name__))
            except ValueError as error:
                errors.append((path, str(error)))
    return Contents(tuple(kernels), tuple(servers), tuple(errors))


def _object(data: bytes) -> Mapping[str, object]:
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise ValueError("it holds no JSON object")  # noqa: TRY004  # a wrong type in a file is a wrong value
    return found


def read_connection_file(path: Path, data: bytes, written_ns: int = 0) -> ConnectionFile:
    """Return the contents of a connection file.

    Raises:
        ValueError: the file is none, for the reason said.
    """
    found = _object(data)
    host, port, transport = found.get("ip"), found.get("shell_port"), found.get("transport", "tcp")
    if not isinstance(host, str) or not isinstance(port, int) or not 0 < port <= LARGEST_PORT:
        raise ValueError("it holds no `ip` and `shell_port`")
    return ConnectionFile(
        path, written_ns, host, port, str(transport), text_of(found, "kernel_name"), text_of(found, "jupyter_session")
    )


def read_server_file(path: Path, data: bytes) -> NotebookServer:
    """Return the contents of a server's file.

    Raises:
        ValueError: the file is none, for the reason said.
    """
    found = _object(data)
    url, root, process_id = text_of(found, "url"), text_of(found, "root_dir"), found.get("pid")
    if not url or not root or not isinstance(process_id, int):
        raise ValueError("it holds no `url`, `root_dir` and `pid`")
    return NotebookServer(path, url, Path(root), process_id, text_of(found, "token"))
