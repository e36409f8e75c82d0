"""Sessions of Jupyter Servers on this machine: which kernel belongs to which notebook, asked with the server's token.

An HTTP exchange is one request and its whole answer, bounded in time and length. It blocks, so it runs in a thread. No
redirection is followed. Every GET asks not to be taken for an activity of the user, after which the server would never
cull an idle kernel. Source: Jupyter Server's REST API, `GET /api/sessions`, `no_track_activity`.
"""

from __future__ import annotations

import json
import os
import re
import socket
import ssl
import time
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from codriver.errors import CodriverError
from codriver.repls.jupyter.finding.connection_files import LOOPBACK
from codriver.systems.other_processes import is_running

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from http.client import HTTPConnection, HTTPResponse

    from codriver.repls.jupyter.finding.connection_files import NotebookServer


ANSWER_S: Final = 2.0
MAX_ANSWER_BYTES: Final = 1 << 20

ADDED_BY_EDITOR: Final = re.compile(r"-jvsc-[0-9a-f-]{32,36}(?=(?:\.ipynb)?$)")
"""What VS Code puts into the name of a notebook whose session it asks for. Source: vscode-jupyter, `jvscIdentifier`."""


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
    """Whether the process that wrote the server's file may be there: a dead one's port is perhaps a stranger's now."""
    return is_running(server.process_id, of_this_user=True)  # another user's did not write this user's file


def sessions_of(server: NotebookServer) -> tuple[NotebookSession, ...]:
    """The sessions of a server on this machine. Waits for its answer, 2 s at most.

    The token goes to loopback addresses alone, in a header, and no redirection is followed.

    Raises:
        NotebookServerError: it did not tell.
    """
    from http.client import FORBIDDEN, OK, UNAUTHORIZED, HTTPException  # noqa: PLC0415  # a fifth of a MB that few servers need

    parts = urlsplit(server.url)
    if parts.hostname not in LOOPBACK or parts.scheme not in ("http", "https"):
        raise NotebookServerError(f"it is not asked at {server.url}, which is no loopback address")
    # Loopback, and a certificate that its user made: nobody signs one for localhost.
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


def where_open(notebook: Path, servers: Iterable[NotebookServer]) -> str | None:
    """The server in which a notebook is open, or may be, in words; None if it is open in none of these.

    Waits for the answers of those whose folder it is in.
    """
    for server in servers:
        if not (notebook.is_relative_to(server.root.resolve()) and is_alive(server)):
            continue
        try:
            open_there = any(session.path.resolve() == notebook for session in sessions_of(server))
        except NotebookServerError as error:
            if isinstance(error.__cause__, ConnectionRefusedError):
                continue  # it is gone, and its process id is another's
            return f"the Jupyter Server at {server.url}, perhaps ({error})"
        if open_there:
            return f"the Jupyter Server at {server.url}"
    return None


def read_sessions(server: NotebookServer, data: bytes) -> tuple[NotebookSession, ...]:
    """The sessions in a server's answer; what is none is passed over.

    Raises:
        NotebookServerError: it is no list.
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


MOST_BYTES: Final = 16 * 2**20
PIECE_BYTES: Final = 64 * 1024


class HttpExchange:
    """One exchange with the server at a URL, which `abort` ends from another thread: a server that drips would keep it.

    `timeout_s` bounds the wait for each piece of the answer, and the answer as a whole.
    """

    def __init__(self, base: str, *, timeout_s: float, max_bytes: int = MOST_BYTES) -> None:
        self._base = urlsplit(base)
        self._timeout_s = timeout_s
        self._max_bytes = max_bytes
        self._socket: socket.socket | None = None

    def run(
        self,
        method: str,
        path: str,
        *,
        headers: Mapping[str, str],
        body: bytes | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> tuple[int, bytes]:
        """The status and the body of the answer. `path`: from the base URL's own path on. `tls`: how HTTPS is spoken.

        Raises:
            OSError: the server is not reached, or TLS fails.
            HTTPException: the answer is no HTTP, or goes beyond a bound.
        """
        ends = time.monotonic() + self._timeout_s
        with closing(self._connection(tls)) as connection:
            connection.connect()
            self._socket = connection.sock  # an answer without a length takes it away from the connection
            query = "?no_track_activity=1" if method == "GET" else ""
            connection.request(method, self._base.path.rstrip("/") + path + query, body, dict(headers))
            with connection.getresponse() as answer:
                return answer.status, self._read(answer, ends)

    def abort(self) -> None:
        """End the exchange, if it is still under way."""
        if self._socket is not None:
            with suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)

    def _connection(self, tls: ssl.SSLContext | None) -> HTTPConnection:
        from http.client import HTTPConnection, HTTPSConnection  # noqa: PLC0415  # as above

        host, port = self._base.hostname or "", self._base.port
        if tls is None:
            return HTTPConnection(host, port, timeout=self._timeout_s)
        return HTTPSConnection(host, port, timeout=self._timeout_s, context=tls)

    def _read(self, answer: HTTPResponse, ends: float) -> bytes:
        from http.client import HTTPException  # noqa: PLC0415  # as above

        pieces, size = [], 0
        while piece := answer.read1(PIECE_BYTES):
            pieces.append(piece)
            size += len(piece)
            if size > self._max_bytes:
                raise HTTPException(f"an answer of more than {self._max_bytes:,} bytes")
            if time.monotonic() > ends:
                raise HTTPException(f"an answer that takes longer than {self._timeout_s:g} s")
        return b"".join(pieces)
