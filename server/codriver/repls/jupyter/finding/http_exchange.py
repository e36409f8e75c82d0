"""An HTTP exchange with a Jupyter Server: one request and its whole answer, bounded in time and length.

It blocks, so it runs in a thread. No redirection is followed. Every GET asks not to be taken for an activity of the
user, after which the server would never cull an idle kernel. Source: Jupyter Server's REST API, `no_track_activity`.
"""

from __future__ import annotations

import http.client
import socket
import time
from contextlib import closing, suppress
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

if TYPE_CHECKING:
    import ssl
    from collections.abc import Mapping

MAX_ANSWER_BYTES: Final = 16 * 2**20
PIECE_BYTES: Final = 64 * 1024


class HttpExchange:
    """One exchange with the server at a URL, which `abort` ends from another thread: a server that drips would keep it.

    `timeout_s` bounds the wait for each piece of the answer, and the answer as a whole.
    """

    def __init__(self, base: str, *, timeout_s: float, max_bytes: int = MAX_ANSWER_BYTES) -> None:
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

    def _connection(self, tls: ssl.SSLContext | None) -> http.client.HTTPConnection:
        host, port = self._base.hostname or "", self._base.port
        if tls is None:
            return http.client.HTTPConnection(host, port, timeout=self._timeout_s)
        return http.client.HTTPSConnection(host, port, timeout=self._timeout_s, context=tls)

    def _read(self, answer: http.client.HTTPResponse, ends: float) -> bytes:
        pieces, size = [], 0
        while piece := answer.read1(PIECE_BYTES):
            pieces.append(piece)
            size += len(piece)
            if size > self._max_bytes:
                raise http.client.HTTPException(f"an answer of more than {self._max_bytes:,} bytes")
            if time.monotonic() > ends:
                raise http.client.HTTPException(f"an answer that takes longer than {self._timeout_s:g} s")
        return b"".join(pieces)
