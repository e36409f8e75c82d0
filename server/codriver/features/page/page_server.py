"""The server of the page. It listens on loopback and serves clients that have its token, until nobody views the page.

Connections from other users are closed unread, as on the port for clients. `page_admission` checks each request, and
refused requests get no answer. The files of the empty page contain nothing from the log.
"""

from __future__ import annotations

import contextlib
import json
import logging
from typing import TYPE_CHECKING, Final

import anyio
from anyio.streams.stapled import MultiListener

from codriver.features.page.connections import Connections, TooManyConnectionsError
from codriver.features.page.http_connection import HttpConnection
from codriver.features.page.loopback_listeners import listen_on_loopback
from codriver.features.page.page_admission import CALL_PATH_PREFIX, JSON_TYPE, classify_request, request_host
from codriver.features.page.page_calls import PageCalls, UnknownCallError
from codriver.features.page.page_credentials import LOOPBACK_HOST, PageAccess
from codriver.features.page.page_files import page_files
from codriver.features.page.page_redirect import remove_redirect
from codriver.features.page.page_rows import RowReader, running_test_progress, server_header
from codriver.features.page.request_body import BadBodyError, parse_body
from codriver.features.page.security_headers import FRAME_POLICY, SECURITY_HEADERS
from codriver.net.admission import PEER_QUERY_THREADS, is_from_user
from codriver.net.outbox import Outbox
from codriver.net.refusal_log import RefusalLog
from codriver.tools.calls.client_traits import HUMAN_CLIENT_NAME

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from anyio.abc import SocketListener, SocketStream

    from codriver.features.page.connections import Connection
    from codriver.features.page.http_connection import Request
    from codriver.features.page.page_admission import Kind
    from codriver.features.page.page_files import PageFile
    from codriver.features.page.page_rows import Row
    from codriver.features.page.request_body import RequestBody
    from codriver.net.client_sessions import Clients, ClientSession
    from codriver.protocol.mcp_server import McpServer
    from codriver.tools.calls.call import Services


logger = logging.getLogger(__name__)

MAX_CONNECTIONS: Final = 64
"""Maximum number of connections to the page. A browser opens at most six per tab."""
EVENTS_PATH: Final = f"{CALL_PATH_PREFIX}events"
"""The path of the call for events."""
NEW_CODE_PATH: Final = f"{CALL_PATH_PREFIX}another"
"""The path of the call that returns a one-time code for opening the page in another tab."""
MIN_UPDATE_INTERVAL_S: Final = 0.05
"""Minimum time between two updates of a page, which allows at most twenty per second."""
PAUSE_RATIO: Final = 20
"""Ratio of the pause after an update to its duration, so that pages use at most a twentieth of the server's time."""
MAX_PAUSE_S: Final = 1.0
"""Maximum pause after an update."""
IDLE_CHECK_S: Final = 0.5
"""Time between two checks while no code is running."""
MIN_HEADER_INTERVAL_S: Final = 0.25
"""Minimum time between two updates of the page header."""
HEARTBEAT_INTERVAL_S: Final = 10.0
"""Time between two heartbeats to a page without updates. They let each side notice that the other is gone."""


class PageServer:
    """The HTTP server of the web page on which a person can watch the activity of Codriver."""

    def __init__(self, services: Services, protocol: McpServer, clients: Clients, *, redirect: Path) -> None:
        """Create the page.

        `redirect` is the redirect file that a command may write. It is removed when the code in it is used.
        """
        self._services = services
        self._clients = clients
        self._caller = protocol.caller
        self._broadcast = protocol.broadcast
        self._calls = PageCalls(services, protocol.caller)
        self._redirect = redirect
        self._access = PageAccess()
        self._port = 0
        self._files: Mapping[str, PageFile] = {}
        self._threads = anyio.CapacityLimiter(PEER_QUERY_THREADS)
        self._refusals = RefusalLog(logger)
        self._connections = Connections(MAX_CONNECTIONS)
        self._looking = 0
        self._last_viewed = 0.0
        self._close: Callable[[], object] = lambda: None
        """Closes the page if it is being served."""
        self._client: ClientSession | None = None
        self._users = 0

    async def open(self) -> Sequence[SocketListener]:
        """Start listening, and return the listeners.

        Raises:
            StartError: no port is free on both loopback addresses.
            OSError: listening fails, or the page's files cannot be read.
        """
        self._files = await anyio.to_thread.run_sync(page_files)
        listeners, self._port = await listen_on_loopback()
        self.restart_idle_timer()
        return listeners

    def new_address(self, host: str) -> str:
        """Return an address that opens the page once, at the loopback address or the page's random host name."""
        host = LOOPBACK_HOST if host == LOOPBACK_HOST else self._access.random_host
        return f"http://{host}:{self._port}/#{self._access.issue_code(host, anyio.current_time())}"

    def restart_idle_timer(self) -> None:
        """Restart the countdown for closing a page that nobody views."""
        self._last_viewed = anyio.current_time()

    async def serve(self, listeners: Sequence[SocketListener], idle_s: float) -> None:
        """Serve the page until nobody has viewed it for `idle_s` seconds."""
        async with MultiListener(listeners) as listener, anyio.create_task_group() as tasks:
            self._close = tasks.cancel_scope.cancel
            tasks.start_soon(listener.serve, self._serve_one)
            while self._looking or anyio.current_time() < self._last_viewed + idle_s:
                rest_s = self._last_viewed + idle_s - anyio.current_time()
                await anyio.sleep(min(max(rest_s, 0.01), idle_s) if not self._looking else idle_s / 10 + 0.01)
            tasks.cancel_scope.cancel()

    async def _serve_one(self, stream: SocketStream) -> None:
        """Serve a connection. An error closes only this connection."""
        try:
            async with stream:
                if not await is_from_user(stream, self._threads, self._refusals):
                    return
                with self._connections.admit() as connection:
                    await self._answer_requests(stream, connection)
        except* TooManyConnectionsError:
            self._refusals.log_refusal(
                f"refused a connection to the page: all {MAX_CONNECTIONS} connections are in use"
            )
        except* (anyio.BrokenResourceError, anyio.ClosedResourceError):
            pass  # the browser closed the connection
        except* Exception:
            logger.exception("a connection to the page ended because of an internal error")

    async def _answer_requests(self, stream: SocketStream, connection: Connection) -> None:
        """Answer the requests on a connection until it is closed or a request is refused."""
        http = HttpConnection(stream)
        while (request := await connection.wait_for(http.request)) is not None:
            kind = classify_request(request, self._access)
            if kind == "refuse":
                self._refusals.log_refusal("refused a request to the page")
                return
            connection.has_been_used = True
            if kind == "file":
                await self._serve_file(http, request)
            elif kind == "frame":
                await self._serve_frame(http, request)
            else:
                await self._answer_post(http, kind, request)

    async def _serve_file(self, http: HttpConnection, request: Request) -> None:
        file = self._files.get(request.target)
        if file is None:
            await http.respond(404, SECURITY_HEADERS, b"")
        else:
            await http.respond(200, file.headers, file.body)

    async def _serve_frame(self, http: HttpConnection, request: Request) -> None:
        body = self._calls.pop_frame(request.target)
        headers = {
            **SECURITY_HEADERS,
            "content-security-policy": FRAME_POLICY,
            "content-type": "text/html; charset=utf-8",
        }
        await http.respond(404 if body is None else 200, headers, body or b"")

    async def _answer_post(self, http: HttpConnection, kind: Kind, request: Request) -> None:
        try:
            body = parse_body(request.body)
            if kind == "enter":
                answer = await self._enter(body, request_host(request))
            elif kind == "prove":
                answer = {"proof": self._access.prove_token_knowledge(body.text("nonce"))}
            elif request.target == NEW_CODE_PATH:
                answer = {"code": self._access.issue_code(request_host(request), anyio.current_time())}
            elif request.target == EVENTS_PATH:
                await self._stream_events(http, body)
                return
            else:
                with self._register_viewer() as client:
                    text = await self._calls.answer(request.target.removeprefix(CALL_PATH_PREFIX), body, client)
                    await http.respond(
                        200, {**SECURITY_HEADERS, "content-type": JSON_TYPE}, text.encode("utf-8", "replace")
                    )
                return
        except BadBodyError:
            await http.respond(400, SECURITY_HEADERS, b"")
        except UnknownCallError:
            await http.respond(404, SECURITY_HEADERS, b"")
        else:
            await http.respond(200, {**SECURITY_HEADERS, "content-type": JSON_TYPE}, json.dumps(answer).encode())

    async def _enter(self, body: RequestBody, host: str) -> dict[str, object]:
        """Exchange a one-time code for the token, and remove the redirect file, which contains the code."""
        token, reason = self._access.exchange_code(body.text("code"), host, anyio.current_time())
        if token is None:
            return {"refused": reason}
        await anyio.to_thread.run_sync(remove_redirect, self._redirect)
        return {"token": token}

    async def _stream_events(self, http: HttpConnection, body: RequestBody) -> None:
        """Send events to a page until it disconnects."""
        reader = RowReader(self._services, body.number("since"), body.number("before"))
        await http.start_response(200, {**SECURITY_HEADERS, "content-type": "text/event-stream"})
        with self._register_viewer() as client, self._count_view():
            async with anyio.create_task_group() as tasks:

                async def leave() -> None:
                    await http.wait_for_disconnect()
                    tasks.cancel_scope.cancel()

                tasks.start_soon(leave)
                await self._stream(http, reader)
            client.has_left = True

    async def _stream(self, http: HttpConnection, reader: RowReader) -> None:
        """Send the server's state and all rows to a page, followed by changes, until the page disconnects."""
        lifecycle = self._services.core.state.lifecycle
        about = {
            "workspace": lifecycle.workspace,
            "version": lifecycle.version,
            "at": lifecycle.started_at,
            "isLoading": reader.before > 0,
        }
        await self._send_event(http, "hello", about)
        last_header, header_at, spoke_at, gap = "", 0.0, 0.0, 0
        while True:
            started_at_s = anyio.current_time()
            if rows := reader.changes(await running_test_progress(self._services)):
                await self._send_rows(http, reader, rows)
                spoke_at = started_at_s
            elif reader.before:
                await self._send_rows(http, reader, reader.older_rows(), is_older=True)
                spoke_at = started_at_s
            if reader.gap != gap:
                gap = reader.gap
                await self._send_event(http, "gap", {"evicted": self._services.log.evicted_count})
            if started_at_s - header_at >= MIN_HEADER_INTERVAL_S:
                header_at, text = started_at_s, self._caller.encode_redacted(server_header(self._services))
                if text != last_header:
                    last_header = text
                    await http.send(f"event: header\ndata: {text}\n\n".encode())
            if started_at_s - spoke_at >= HEARTBEAT_INTERVAL_S:
                spoke_at = started_at_s
                await http.send(b": alive\n\n")
            rest_s = (anyio.current_time() - started_at_s) * PAUSE_RATIO
            await anyio.sleep(min(max(MIN_UPDATE_INTERVAL_S, rest_s), MAX_PAUSE_S))
            if not rows and not reader.before and not self._services.core.state.live:
                await self._await_log_growth()

    async def _send_rows(
        self, http: HttpConnection, reader: RowReader, rows: list[Row], *, is_older: bool = False
    ) -> None:
        about = {"since": reader.since, "before": reader.before, "now": self._services.now(), "older": is_older}
        await self._send_event(http, "rows", {**about, "rows": rows})

    async def _await_log_growth(self) -> None:
        """Wait until the log has new entries or it is time to check for other changes."""
        grown = anyio.Event()
        self._broadcast.followers.add(grown.set)
        try:
            with anyio.move_on_after(IDLE_CHECK_S):
                await grown.wait()
        finally:
            self._broadcast.followers.discard(grown.set)

    async def _send_event(self, http: HttpConnection, event: str, fields: dict[str, object]) -> None:
        await http.send(f"event: {event}\ndata: {self._caller.encode_redacted(fields)}\n\n".encode())

    @contextlib.contextmanager
    def _count_view(self) -> Iterator[None]:
        """Count a viewer of the page while the context is active."""
        self._looking += 1
        try:
            yield
        finally:
            self._looking -= 1
            self.restart_idle_timer()

    @contextlib.contextmanager
    def _register_viewer(self) -> Iterator[ClientSession]:
        """Register a client that represents the viewers of all open pages while the context is active."""
        if self._client is None:
            self._client = self._clients.add(Outbox(max_notifications=1, max_notification_bytes=1, congested_bytes=1))
            self._client.part = self._close
            self._clients.introduce(self._client, name=HUMAN_CLIENT_NAME, handshake=False)
        client, self._users = self._client, self._users + 1
        try:
            yield client
        finally:
            self._users -= 1
            if not self._users:
                self._clients.remove(client)
                self._client = None
