"""A single HTTP request to a Jupyter Server, and its complete response.

Size and duration are limited, and redirects are not followed. The request blocks, so callers run it in a thread. Each
GET asks the server not to count it as user activity, because a server never culls a kernel that seems to be in use.
Source: Jupyter Server's REST API, `no_track_activity`.
"""

from __future__ import annotations

import socket
import time
from contextlib import closing, suppress
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

if TYPE_CHECKING:
    import ssl
    from collections.abc import Mapping
    from http.client import HTTPConnection, HTTPResponse


MAX_RESPONSE_BYTES: Final = 16 * 2**20
"""Default maximum size of a response."""
MAX_CHUNK_BYTES: Final = 64 * 1024
"""Maximum number of bytes to read at once."""


class HttpExchange:
    """An HTTP request to a Jupyter Server, and its response.

    `timeout_s` limits both the wait for each chunk of the response and the total duration. Another thread may call
    `abort` to cancel the request.
    """

    def __init__(self, base: str, *, timeout_s: float, max_bytes: int = MAX_RESPONSE_BYTES) -> None:
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
        """Send the request. Return the status and the body of the response.

        `path` is relative to the path of the base URL. `tls` is the context for HTTPS.

        Raises:
            OSError: the server is not reachable, TLS fails, or the response takes too long.
            HTTPException: the response is not HTTP or is too long.
        """
        deadline = time.monotonic() + self._timeout_s
        with closing(self._create_connection(tls)) as connection:
            connection.connect()
            self._socket = connection.sock  # if the response has no length, the connection releases its socket
            query = "?no_track_activity=1" if method == "GET" else ""
            connection.request(method, self._base.path.rstrip("/") + path + query, body, dict(headers))
            with connection.getresponse() as response:
                return response.status, self._read_body(response, deadline)

    def abort(self) -> None:
        """Close the connection, which makes a blocked `run` fail. Can be called from any thread."""
        if self._socket is not None:
            with suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)

    def _create_connection(self, tls: ssl.SSLContext | None) -> HTTPConnection:
        from http.client import HTTPConnection, HTTPSConnection  # noqa: PLC0415  # as above

        host, port = self._base.hostname or "", self._base.port
        if tls is None:
            return HTTPConnection(host, port, timeout=self._timeout_s)
        return HTTPSConnection(host, port, timeout=self._timeout_s, context=tls)

    def _read_body(self, response: HTTPResponse, deadline: float) -> bytes:
        from http.client import HTTPException  # noqa: PLC0415  # as above

        chunks, size = [], 0
        while chunk := response.read1(MAX_CHUNK_BYTES):
            chunks.append(chunk)
            size += len(chunk)
            if size > self._max_bytes:
                raise HTTPException(f"the response has more than {self._max_bytes:,} bytes")
            if time.monotonic() > deadline:
                raise TimeoutError(f"the response took longer than {self._timeout_s:g} s")
        return b"".join(chunks)
