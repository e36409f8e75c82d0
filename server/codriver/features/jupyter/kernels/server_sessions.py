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
    LOOPBACK_HOSTS,
    NotebookServer,
)
from codriver.features.jupyter.kernels.http_exchange import HttpExchange
from codriver.systems.other_processes import is_running

if TYPE_CHECKING:
    from collections.abc import Iterable


RESPONSE_TIMEOUT_S: Final = 2.0
"""Maximum time to wait for a server's list of sessions."""
MAX_SESSIONS_RESPONSE_BYTES: Final = 1 << 20
"""Maximum size of a server's list of sessions."""

VSCODE_SUFFIX: Final = re.compile(r"-jvsc-[0-9a-f-]{32,36}(?=(?:\.ipynb)?$)")
"""Matches what VS Code appends to the name of a notebook when it requests a session. Source: vscode-jupyter,
`jvscIdentifier`.
"""


class NotebookServerError(CodriverError):
    """Raised when a Jupyter Server does not list its sessions. The message is a clause with the reason."""


@dataclass(frozen=True, slots=True)
class NotebookSession:
    """A notebook or console that is open on a local server, with its kernel."""

    path: Path
    """The absolute path."""
    kernel_id: str
    kernel_name: str
    url: str
    """The URL of the kernel on the server, without a token."""


def is_alive(server: NotebookServer) -> bool:
    """Return whether the process that wrote the server's file is still running.

    If it is not, another program may be listening on the server's port.
    """
    return is_running(server.process_id, of_this_user=True)  # a process of another user did not write this user's file


def list_sessions(server: NotebookServer) -> tuple[NotebookSession, ...]:
    """Query a local server for its sessions. Blocks for at most 2 s.

    The token is sent in a header, and only to loopback addresses. Redirects are not followed.

    Raises:
        NotebookServerError: the server did not list its sessions.
    """
    from http.client import FORBIDDEN, OK, UNAUTHORIZED, HTTPException  # noqa: PLC0415  # a fifth of a MB that few servers need

    url = urlsplit(server.url)
    if url.hostname not in LOOPBACK_HOSTS or url.scheme not in ("http", "https"):
        raise NotebookServerError(f"the server's URL {server.url} is not a loopback address, so no token is sent")
    # Certificates for localhost are self-signed, because no authority issues them.
    tls = ssl._create_unverified_context() if url.scheme == "https" else None  # noqa: S323, SLF001  # its public name
    exchange = HttpExchange(server.url, timeout_s=RESPONSE_TIMEOUT_S, max_bytes=MAX_SESSIONS_RESPONSE_BYTES)
    authorization = {"Authorization": f"token {server.token}"} if server.token else {}
    try:
        status, data = exchange.run(
            "GET", "/api/sessions", headers={"Accept": "application/json", **authorization}, tls=tls
        )
    except (OSError, HTTPException) as error:
        raise NotebookServerError(f"no server answers at {server.url} ({error})") from error
    if status in (UNAUTHORIZED, FORBIDDEN):
        raise NotebookServerError(f"the server at {server.url} refused the token in {server.path}")
    if status != OK:
        raise NotebookServerError(f"the server at {server.url} responded with status {status}")
    return read_sessions(server, data)


def describe_server_with_notebook(notebook: Path, servers: Iterable[NotebookServer]) -> str | None:
    """Describe the server on which a notebook is open or may be open. Return None if there is none.

    Blocks until each server whose directory contains the notebook has answered.
    """
    for server in servers:
        if not (notebook.is_relative_to(server.root.resolve()) and is_alive(server)):
            continue
        try:
            is_open = any(session.path.resolve() == notebook for session in list_sessions(server))
        except NotebookServerError as error:
            if isinstance(error.__cause__, ConnectionRefusedError):
                continue  # the server is gone, and a different process now has its id
            return f"possibly the Jupyter Server at {server.url} ({error})"
        if is_open:
            return f"the Jupyter Server at {server.url}"
    return None


def read_sessions(server: NotebookServer, data: bytes) -> tuple[NotebookSession, ...]:
    """Parse the list of sessions that a server returned. Ignore invalid entries.

    Raises:
        NotebookServerError: the response is not a list.
    """
    try:
        rows = json.loads(data)
    except (ValueError, RecursionError):
        rows = None
    if not isinstance(rows, list):
        raise NotebookServerError(f"the server at {server.url} responded with something other than a list")
    return tuple(session for row in rows if (session := _parse_session(server, row)))


def _parse_session(server: NotebookServer, row: object) -> NotebookSession | None:
    kernel = row.get("kernel") if isinstance(row, dict) else None
    if not isinstance(row, dict) or not isinstance(kernel, dict):
        return None
    path, kernel_id, kernel_name = row.get("path"), kernel.get("id"), kernel.get("name")
    if not (isinstance(path, str) and path and isinstance(kernel_id, str) and kernel_id.replace("-", "").isalnum()):
        return None
    # The server joins them like this: even a path that starts with a slash is relative to its directory.
    absolute_path = Path(os.path.normpath(server.root / VSCODE_SUFFIX.sub("", path.lstrip("/"))))
    return NotebookSession(
        absolute_path, kernel_id, str(kernel_name or ""), f"{server.url.rstrip('/')}/api/kernels/{kernel_id}"
    )
