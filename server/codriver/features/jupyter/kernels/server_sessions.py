"""The sessions of Jupyter Servers on this machine: which notebooks and consoles are open, and their kernels.

The server's token is read from the file that the server wrote, and sent to loopback addresses only. Source: Jupyter
Server's REST API, `GET /api/sessions`.
"""

from __future__ import annotations

import json
import os
import re
import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from codriver.errors import CodriverError
from codriver.features.jupyter.kernels.connection_files import (
    LOOPBACK,
    NotebookServer,
)
from codriver.features.jupyter.kernels.http_exchange import HttpExchange
from codriver.systems.other_processes import is_running

if TYPE_CHECKING:
    from collections.abc import Iterable


ANSWER_S: Final = 2.0
MAX_ANSWER_BYTES: Final = 1 << 20

ADDED_BY_EDITOR: Final = re.compile(r"-jvsc-[0-9a-f-]{32,36}(?=(?:\.ipynb)?$)")
"""The text that VS Code adds to the name of a notebook when it asks for a session. Source: vscode-jupyter,
`jvscIdentifier`.
"""


class NotebookServerError(CodriverError):
    """A Jupyter Server did not tell its sessions. The message is a clause that says why."""


@dataclass(frozen=True, slots=True)
class NotebookSession:
    """A notebook or console that is open in a server, and its kernel."""

    path: Path
    """Absolute."""
    kernel_id: str
    kernel_name: str
    url: str
    """The kernel's own at the server, without a token."""


def is_alive(server: NotebookServer) -> bool:
    """Whether the process that wrote the server's file may still run: a dead one's port may be a stranger's now."""
    return is_running(server.process_id, of_this_user=True)  # another user's process did not write this user's file


def list_sessions(server: NotebookServer) -> tuple[NotebookSession, ...]:
    """Return the sessions of a server on this machine. Waits for its answer, 2 s at most.

    The token goes to loopback addresses alone, in a header, and no redirection is followed.

    Raises:
        NotebookServerError: the server did not tell.
    """
    from http.client import FORBIDDEN, OK, UNAUTHORIZED, HTTPException  # noqa: PLC0415  # a fifth of a MB that few servers need

    parts = urlsplit(server.url)
    if parts.hostname not in LOOPBACK or parts.scheme not in ("http", "https"):
        raise NotebookServerError(f"it is not asked at {server.url}, which is no loopback address")
    # A self-made certificate on loopback: nobody signs one for localhost.
    tls = ssl._create_unverified_context() if parts.scheme == "https" else None  # noqa: S323, SLF001  # its own name
    exchange = HttpExchange(server.url, timeout_s=ANSWER_S, max_bytes=MAX_ANSWER_BYTES)
    token = {"Authorization": f"token {server.token}"} if server.token else {}
    try:
        status, data = exchange.run("GET", "/api/sessions", headers={"Accept": "application/json", **token}, tls=tls)
    except (OSError, HTTPException) as error:
        raise NotebookServerError(f"nothing answers at {server.url} ({error})") from error
    if status in (UNAUTHORIZED, FORBIDDEN):
        raise NotebookServerError(f"the server at {server.url} refused the token in {server.path}")
    if status != OK:
        raise NotebookServerError(f"the server at {server.url} answered with status {status}")
    return read_sessions(server, data)


def describe_server_with_notebook(notebook: Path, servers: Iterable[NotebookServer]) -> str | None:
    """The server in which a notebook is open, or may be, in words; None if none of these servers has it open.

    Waits for the answers of servers whose folder the notebook is in.
    """
    for server in servers:
        if not (notebook.is_relative_to(server.root.resolve()) and is_alive(server)):
            continue
        try:
            is_open = any(session.path.resolve() == notebook for session in list_sessions(server))
        except NotebookServerError as error:
            if isinstance(error.__cause__, ConnectionRefusedError):
                continue  # the server is gone, and its process id is another's
            return f"the Jupyter Server at {server.url}, perhaps ({error})"
        if is_open:
            return f"the Jupyter Server at {server.url}"
    return None


def read_sessions(server: NotebookServer, data: bytes) -> tuple[NotebookSession, ...]:
    """Return the sessions in a server's answer, without invalid rows.

    Raises:
        NotebookServerError: the answer is no list.
    """
    try:
        rows = json.loads(data)
    except (ValueError, RecursionError):
        rows = None
    if not isinstance(rows, list):
        raise NotebookServerError(f"the server at {server.url} answered with something else than a list")
    return tuple(found for row in rows if (found := _read(server, row)))


def _read(server: NotebookServer, row: object) -> NotebookSession | None:
    kernel = row.get("kernel") if isinstance(row, dict) else None
    if not isinstance(row, dict) or not isinstance(kernel, dict):
        return None
    path, id_, name = row.get("path"), kernel.get("id"), kernel.get("name")
    if not (isinstance(path, str) and path and isinstance(id_, str) and id_.replace("-", "").isalnum()):
        return None
    # As the server joins them: a path that begins with a slash is below its folder too.
    absolute = Path(os.path.normpath(server.root / ADDED_BY_EDITOR.sub("", path.lstrip("/"))))
    return NotebookSession(absolute, id_, str(name or ""), f"{server.url.rstrip('/')}/api/kernels/{id_}")
