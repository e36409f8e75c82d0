"""Connection files of kernels and the files of notebook servers, in Jupyter's runtime folder, read without Jupyter.

A file is a claim: a killed server leaves its own and those of its kernels, and by now somebody else may listen at their
ports. Whether a kernel is there is for the connection to find out, which only the file's key can prove.

Source: jupyter_client's "Connection files"; `jpserver-*.json` as jupyter_server 2 writes them.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import socket
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from codriver import files
from codriver.files import Links, Rules
from codriver.net.server_record import LARGEST_PORT
from codriver.repls.jupyter.finding.kernelspecs import data_folder
from codriver.repls.jupyter.messages.messages import text_of

if TYPE_CHECKING:
    from collections.abc import Mapping

OWN_PREFIX: Final = "kernel-codriver-"
"""The names of the files of kernels that Codriver servers start; the server's process id follows."""

FILE_RULES: Final = Rules(Links.NEVER, 64 * files.KIBIBYTE, is_granting=True, is_secret=True)
"""They hold keys and tokens, and say where code is sent: nobody else may read or write them."""

MAX_FILES: Final = 1000
"""Files that are read: killed servers leave theirs, and nobody cleans up."""

SETTLED_NS: Final = 10**9
"""A folder or a file that changed within this time may change again without a trace in its times."""

PROBE_S: Final = 0.3
LOOPBACK: Final = frozenset({"127.0.0.1", "::1", "localhost"})


@dataclass(frozen=True, slots=True)
class ConnectionFile:
    """One kernel's connection file. Without its key, which only the connection needs."""

    path: Path
    written_ns: int
    host: str
    port: int
    """The shell's."""
    transport: str = "tcp"
    kernel_name: str = ""
    session: str = ""
    """Where a server started it for a session: the absolute path of the notebook."""

    @property
    def kernel_id(self) -> str:
        """The id under which the server that started it knows it."""
        return self.path.stem.removeprefix("kernel-")

    @property
    def address(self) -> str:
        """The address of the REPL."""
        return f"jupyter://{self.path}"

    def is_listened_to(self) -> bool:
        """Whether anything listens there now. Waits a moment."""
        if self.transport == "ipc":
            return os.path.exists(f"{self.host}-{self.port}")  # noqa: PTH110  # a socket's name, no path of ours
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
        """Whether its notebooks may lie in the workspace: its folder is that, or above it, or in it."""
        return workspace.is_relative_to(self.root) or self.root.is_relative_to(workspace)


@dataclass(frozen=True, slots=True)
class Contents:
    """The runtime folder at one time."""

    kernels: tuple[ConnectionFile, ...] = ()
    servers: tuple[NotebookServer, ...] = ()
    problems: tuple[tuple[Path, str], ...] = ()
    """Files that cannot be used, and why."""


def runtime_folder(environ: Mapping[str, str]) -> Path:
    """The folder in which Jupyter keeps the files of what runs."""
    given = environ.get("JUPYTER_RUNTIME_DIR")
    return Path(given) if given else data_folder(environ) / "runtime"


class RuntimeFolder:
    """Jupyter's runtime folder, read again only after it changed. Lives as long as whoever looks, one at a time."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._stamp: int | None = None
        self._contents = Contents()

    def look(self) -> Contents:
        """The files that are there: the same object as before where nothing changed. Waits for a disk."""
        try:
            stamp: int | None = self._folder.stat().st_mtime_ns
        except OSError:
            stamp = None
        if stamp == self._stamp:
            return self._contents
        found = Contents() if stamp is None else _read_all(self._folder)
        # A file that is empty yet, or one more in the same tick, changes no time of the folder.
        now = time.time_ns()
        is_settled = stamp is None or not 0 <= now - stamp < SETTLED_NS
        self._stamp = stamp if is_settled else None
        if found != self._contents:
            self._contents = found
        return self._contents


def _read_all(folder: Path) -> Contents:
    kernels, servers, problems = [], [], []
    with contextlib.suppress(OSError):
        for path in sorted(folder.iterdir(), key=lambda path: path.name)[:MAX_FILES]:
            is_kernel = path.name.startswith("kernel-") and not path.name.startswith(OWN_PREFIX)
            if path.suffix != ".json" or not (is_kernel or path.name.startswith("jpserver-")):
                continue
            try:
                data, status = files.read_stamped(path, FILE_RULES, root=folder)
                if is_kernel:
                    kernels.append(read_connection_file(path, data, status.st_mtime_ns))
                else:
                    servers.append(read_server_file(path, data))
            except FileNotFoundError:
                continue
            except OSError as error:
                problems.append((path, error.strerror or type(error).__name__))
            except ValueError as error:
                problems.append((path, str(error)))
    return Contents(tuple(kernels), tuple(servers), tuple(problems))


def _object(data: bytes) -> Mapping[str, object]:
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise ValueError("it holds no JSON object")  # noqa: TRY004  # what a file says is a value
    return found


def read_connection_file(path: Path, data: bytes, written_ns: int = 0) -> ConnectionFile:
    """The contents of a connection file.

    Raises:
        ValueError: it is none, and why.
    """
    found = _object(data)
    host, port, transport = found.get("ip"), found.get("shell_port"), found.get("transport", "tcp")
    if not isinstance(host, str) or not isinstance(port, int) or not 0 < port <= LARGEST_PORT:
        raise ValueError("it holds no `ip` and `shell_port`")
    return ConnectionFile(
        path, written_ns, host, port, str(transport), text_of(found, "kernel_name"), text_of(found, "jupyter_session")
    )


def read_server_file(path: Path, data: bytes) -> NotebookServer:
    """The contents of a server's file.

    Raises:
        ValueError: it is none, and why.
    """
    found = _object(data)
    url, root, process_id = text_of(found, "url"), text_of(found, "root_dir"), found.get("pid")
    if not url or not root or not isinstance(process_id, int):
        raise ValueError("it holds no `url`, `root_dir` and `pid`")
    return NotebookServer(path, url, Path(root), process_id, text_of(found, "token"))


def key_of_notebook(path: str) -> str | None:
    """The session key for the kernel of a notebook, such as `a-ipynb`; None of a console, which has no file."""
    name = Path(path).name
    return (re.sub(r"[^A-Za-z0-9_]+", "-", name).strip("-") or None) if Path(name).suffix else None


def key_of_kernel(kernel_name: str) -> str:
    """The session key for a kernel of no notebook, by the name of its kernelspec: that of the language, if known."""
    name = re.sub(r"[^a-z0-9_]+", "-", kernel_name.lower()).strip("-")
    if not name or "python" in name or "py" in name.split("-"):
        return "jup"
    return {"ir": "r"}.get(name, name)
