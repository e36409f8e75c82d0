"""One HTTP request to a Jupyter Server, and its complete response.

Size and duration are limited, and redirects are not followed. The request blocks, so callers run it in a thread. Each
GET asks the server not to count it as activity of the user, because a server never culls a kernel that seems to be
used. Source: Jupyter Server's REST API, `no_track_activity`.
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
CHUNK_BYTES: Final = 64 * 1024


class HttpExchange:
    """One exchange with the server at a URL. `abort` ends it from another thread: a slow server would hold it.

    `timeout_s` bounds the wait for each piece of the answer, and the answer as a whole.
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
        """The status and the body of the answer. `path`: from the base URL's own path on. `tls`: how HTTPS is spoken.

        Raises:
            OSError: the server is not reached, TLS fails, or the answer takes too long.
            HTTPException: the answer is no HTTP, or too long.
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

        chunks, size = [], 0
        while chunk := answer.read1(CHUNK_BYTES):
            chunks.append(chunk)
            size += len(chunk)
            if size > self._max_bytes:
                raise HTTPException(f"an answer of more than {self._max_bytes:,} bytes")
            if time.monotonic() > ends:
                raise TimeoutError(f"an answer that takes longer than {self._timeout_s:g} s")
        return b"".join(chunks)
