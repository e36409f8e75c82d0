"""Read the files in Jupyter's runtime directory: kernels' connection files, and the URLs of notebook servers.

A file does not prove that its kernel is running. Killed servers leave their own files and those of their kernels
behind, and another program may now be listening on the ports. Only connecting shows whether the kernel is running,
because the kernel has to know the key in the file.

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
from codriver.files import FileRules, Links
from codriver.net.server_record import MAX_PORT
from codriver.systems.file_system import HAS_MODES, is_open, is_trusted
from codriver.wire.untrusted import text_at

if TYPE_CHECKING:
    from collections.abc import Mapping

    from codriver.files import Stamp


CODRIVER_PREFIX: Final = "kernel-codriver-"
"""Prefix of the connection files of kernels that Codriver starts. The process id of the server follows."""

MAX_FILE_BYTES: Final = 64 * files.KIBIBYTE
"""Maximum size of a connection file."""
SHARED_DIRECTORY_RULES: Final = FileRules(Links.NEVER, MAX_FILE_BYTES, is_granting=True, is_secret=True)
"""Rules for files in directories that other users can access. Nobody else may read or write the files themselves,
because they contain keys and tokens and determine where code is sent.
"""
PRIVATE_DIRECTORY_RULES: Final = FileRules(Links.NEVER, MAX_FILE_BYTES)
"""Rules for files in directories that no other user can access, whatever the files' mode. VS Code creates its files
with the default umask.
"""

MAX_FILES: Final = 1000
"""Maximum number of files to read. Killed servers leave files behind, and nothing removes them."""

TIMESTAMP_RESOLUTION_NS: Final = 10**9
"""Time after which another change to a directory or file is certain to change its timestamp again."""

PROBE_TIMEOUT_S: Final = 0.3
"""Maximum time to wait for a connection to a kernel's port."""
LOOPBACK_HOSTS: Final = frozenset({"127.0.0.1", "::1", "localhost"})
"""Names and addresses of this machine's loopback interface."""


@dataclass(frozen=True, slots=True)
class ConnectionFile:
    """The content of a kernel's connection file, without its signing key."""

    path: Path
    written_ns: int
    host: str
    port: int
    """The port of the shell socket."""
    transport: str = "tcp"
    kernel_name: str = ""
    session: str = ""
    """The absolute path of the notebook if a server started the kernel for a session."""

    @property
    def kernel_id(self) -> str:
        """Return the id that the kernel has on the server that started it."""
        return self.path.stem.removeprefix("kernel-")

    @property
    def address(self) -> str:
        """Return the REPL address of the kernel."""
        return f"jupyter://{self.path}"

    def has_listener(self) -> bool:
        """Return whether a process is listening on the kernel's shell port. Blocks for at most `PROBE_TIMEOUT_S`."""
        if self.transport == "ipc":
            return os.path.exists(f"{self.host}-{self.port}")  # noqa: PTH110  # a socket, which is not opened as a file
        try:
            with socket.create_connection((self.host, self.port), PROBE_TIMEOUT_S):
                return True
        except OSError:
            return False


@dataclass(frozen=True, slots=True)
class NotebookServer:
    """A Jupyter Server run by this user on this machine."""

    path: Path
    url: str
    root: Path
    process_id: int
    token: str = field(repr=False, default="")

    def overlaps(self, workspace: Path) -> bool:
        """Return whether the server's root directory is the workspace, contains it, or is inside it."""
        return workspace.is_relative_to(self.root) or self.root.is_relative_to(workspace)


@dataclass(frozen=True, slots=True)
class Contents:
    """The parsed files of the runtime directory."""

    kernels: tuple[ConnectionFile, ...] = ()
    servers: tuple[NotebookServer, ...] = ()
    errors: tuple[tuple[Path, str], ...] = ()
    """Unusable files, with the reasons."""


class RuntimeDirectory:
    """A cached view of Jupyter's runtime directory. Not thread-safe."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._stamp: Stamp | None = None
        self._contents = Contents()

    def contents(self) -> Contents:
        """Return the current contents. Blocks while the directory is read again, if necessary.

        Return the same object as long as the contents do not change.
        """
        try:
            status = self._directory.stat()
        except OSError:
            status = None
        stamp = None if status is None else files.stamp_from_status(status)
        if stamp == self._stamp:
            return self._contents
        contents = Contents() if stamp is None else _read_directory(self._directory)
        # Writing to an empty file, or adding a file within the same tick, does not change the directory's timestamp.
        now_ns = time.time_ns()
        is_settled = status is None or not 0 <= now_ns - status.st_mtime_ns < TIMESTAMP_RESOLUTION_NS
        self._stamp = stamp if is_settled else None
        if contents != self._contents:
            self._contents = contents
        return self._contents


def is_in_private_directory(file: Path) -> bool:
    """Return whether one of the directories above a file is closed to other users.

    Return False if everybody may write to the file itself.
    """
    try:
        is_for_everybody = bool(file.lstat().st_mode & stat.S_IWOTH)
    except OSError:
        return False
    directory = file.parent.resolve()  # the mode of a directory that contains a link does not protect the link's target
    return HAS_MODES and not is_for_everybody and any(map(_is_closed_to_others, (directory, *directory.parents)))


def _is_closed_to_others(directory: Path) -> bool:
    try:
        status = directory.stat()
    except OSError:
        return False
    # A group with the same id as its user contains only that user, by convention of Debian, Fedora and others.
    rights = 0o007 if status.st_gid == status.st_uid else 0o077
    return is_trusted(status.st_uid) and not is_open(status, rights)


def _read_directory(directory: Path) -> Contents:
    kernels, servers, errors = [], [], []
    with contextlib.suppress(OSError):
        for path in sorted(directory.iterdir(), key=lambda path: path.name)[:MAX_FILES]:
            is_kernel = path.name.startswith("kernel-") and not path.name.startswith(CODRIVER_PREFIX)
            if path.suffix != ".json" or not (is_kernel or path.name.startswith("jpserver-")):
                continue
            try:
                rules = PRIVATE_DIRECTORY_RULES if is_in_private_directory(path) else SHARED_DIRECTORY_RULES
                data, status = files.read_with_status(path, rules, root=directory)
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


def _parse_object(data: bytes) -> Mapping[str, object]:
    try:
        document = json.loads(data)
    except (ValueError, RecursionError):
        document = None
    if not isinstance(document, dict):
        raise ValueError("the file does not contain a JSON object")  # noqa: TRY004  # the file has a wrong value
    return document


def read_connection_file(path: Path, data: bytes, written_ns: int = 0) -> ConnectionFile:
    """Parse a connection file.

    Raises:
        ValueError: the data does not come from a connection file.
    """
    document = _parse_object(data)
    host, port, transport = document.get("ip"), document.get("shell_port"), document.get("transport", "tcp")
    if not isinstance(host, str) or not isinstance(port, int) or not 0 < port <= MAX_PORT:
        raise ValueError("the file has no valid `ip` and `shell_port`")
    return ConnectionFile(
        path,
        written_ns,
        host,
        port,
        str(transport),
        text_at(document, "kernel_name"),
        text_at(document, "jupyter_session"),
    )


def read_server_file(path: Path, data: bytes) -> NotebookServer:
    """Parse a file that a running Jupyter Server wrote to the runtime directory.

    Raises:
        ValueError: the file was not written by a Jupyter Server.
    """
    document = _parse_object(data)
    url, root, process_id = text_at(document, "url"), text_at(document, "root_dir"), document.get("pid")
    if not url or not root or not isinstance(process_id, int):
        raise ValueError("the file has no valid `url`, `root_dir` and `pid`")
    return NotebookServer(path, url, Path(root), process_id, text_at(document, "token"))
