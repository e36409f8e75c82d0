"""HTTP/1.1 connections of the page's server, using h11: requests with small bodies, and complete or streamed responses.

Source: RFC 9112.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

import anyio
import h11

if TYPE_CHECKING:
    from anyio.abc import SocketStream

MAX_READ_BYTES: Final = 64 * 1024
"""Maximum number of bytes to read at a time."""
MAX_HEAD_BYTES: Final = 16 * 1024
"""Maximum size of a request's first line and headers."""
MAX_BODY_BYTES: Final = 64 * 1024
"""Maximum size of a request body. A typed query takes about a hundredth of this."""
IDLE_TIMEOUT_S: Final = 60.0
"""How long a connection may be idle."""
REQUEST_TIMEOUT_S: Final = 10.0
"""Maximum time to receive a request after its first byte."""

Headers = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Request:
    """An HTTP request. Header names are in lower case, and repeated headers are joined with commas."""

    method: str
    target: str
    headers: Headers = field(default_factory=lambda: MappingProxyType({}))
    body: bytes = b""


class HttpConnection:
    """The server side of an HTTP/1.1 connection. Requests are handled one after another."""

    def __init__(self, stream: SocketStream) -> None:
        self._stream = stream
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=MAX_HEAD_BYTES)

    async def request(self) -> Request | None:
        """Return the next request, or None if it is not received in time or is not supported."""
        if self._http.our_state is h11.DONE and self._http.their_state is h11.DONE:
            self._http.start_next_cycle()
        if self._http.our_state is not h11.IDLE:
            return None
        try:
            with anyio.move_on_after(IDLE_TIMEOUT_S) as patience:
                return await self._read_request(patience)
        except (h11.RemoteProtocolError, anyio.BrokenResourceError, anyio.ClosedResourceError):
            return None
        return None

    async def _read_request(self, patience: anyio.CancelScope) -> Request | None:
        """Read a request. The deadline of `patience` is reset when the first bytes are received."""
        head: h11.Request | None = None
        body = b""
        while True:
            event = self._http.next_event()
            if event is h11.NEED_DATA:
                try:
                    data = await self._stream.receive(MAX_READ_BYTES)
                except anyio.EndOfStream:
                    data = b""
                patience.deadline = min(patience.deadline, anyio.current_time() + REQUEST_TIMEOUT_S)
                self._http.receive_data(data)
            elif isinstance(event, h11.Request):
                head = event
            elif isinstance(event, h11.Data):
                body += event.data
                if len(body) > MAX_BODY_BYTES:
                    return None
            elif isinstance(event, h11.EndOfMessage) and head is not None:
                return _request(head, body)
            else:
                return None

    async def respond(self, status: int, headers: Headers, body: bytes) -> None:
        """Send a complete response."""
        await self.start_response(status, {**headers, "content-length": str(len(body))})
        if body:
            await self.send(body)
        await self.finish_response()

    async def start_response(self, status: int, headers: Headers) -> None:
        """Send the head of a response. Send its body with `send`, and end it with `finish_response`."""
        await self._write(h11.Response(status_code=status, headers=[*headers.items()]))

    async def send(self, data: bytes) -> None:
        """Send part of the response body."""
        await self._write(h11.Data(data=data))

    async def finish_response(self) -> None:
        """End the response body."""
        await self._write(h11.EndOfMessage())

    async def wait_for_disconnect(self) -> None:
        """Wait until the client closes the connection or sends more data."""
        try:
            await self._stream.receive(1)
        except (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError):
            return

    async def _write(self, event: h11.Response | h11.Data | h11.EndOfMessage) -> None:
        if data := self._http.send(event):
            await self._stream.send(data)


def _request(head: h11.Request, body: bytes) -> Request:
    headers: dict[str, str] = {}
    for name, value in head.headers:
        key, text = name.decode("latin-1"), value.decode("latin-1")
        headers[key] = f"{headers[key]}, {text}" if key in headers else text
    return Request(head.method.decode("latin-1"), head.target.decode("latin-1"), MappingProxyType(headers), body)
