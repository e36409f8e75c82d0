"""The server of the page: a listener on loopback for everybody with its token, until nobody looks any more.

A connection of another user is closed unheard, as at the port for clients. `codriver.page.page_admission` judges each
request of the rest, and a refused request gets no byte. The files of the bare page hold nothing of any log; every
answer has the same headers.
"""

from __future__ import annotations

import contextlib
import json
import logging
import secrets
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

import anyio

from codriver.net.admission import ASKING, comes_from_user
from codriver.net.client_sessions import Outbox
from codriver.net.known_servers import PageRecord, remove_record, write_record
from codriver.net.listener import listen
from codriver.page.page_admission import CALLS, JSON, LOOPBACK, HttpConnection, kind_of
from codriver.page.page_calls import PageCalls, UnknownCallError
from codriver.page.page_rows import RowReader, header, tests_under_way

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from anyio.abc import SocketListener, SocketStream

    from codriver.net.client_sessions import Clients, ClientSession
    from codriver.page.page_admission import Request
    from codriver.protocol.mcp_server import McpServer
    from codriver.tools.calls.base import Services


logger = logging.getLogger(__name__)

MOST_CONNECTIONS: Final = 64
"""A browser opens six at most for one page."""
NAME: Final = "codriver-page"
TURN_S: Final = 0.05
"""Between two updates of a page, at least: twenty a second at most."""
REST_TIMES: Final = 20
"""An update is followed by a rest so many times as long as it took: pages take a twentieth of the server at most."""
MOST_REST_S: Final = 1.0
IDLE_LOOK_S: Final = 0.5
"""Between two looks while no code runs."""
HEADER_S: Final = 0.25
ALIVE_S: Final = 10.0
"""Between two signs of life to a page without news, so that each side knows that the other is there."""


class PageServer:
    """The page of one server. A closed server can be opened again."""

    def __init__(self, services: Services, protocol: McpServer, clients: Clients, *, record: Path) -> None:
        """`record`: the file that holds its port and token."""
        self._services = services
        self._clients = clients
        self._caller = protocol.caller
        self._broadcast = protocol.broadcast
        self._calls = PageCalls(services, protocol.caller)
        self._file = record
        self._record = PageRecord(0, "")
        self._threads = anyio.CapacityLimiter(ASKING)
        self._connections = 0
        self._looking = 0
        self._last_looked = 0.0
        self._client: ClientSession | None = None
        self._users = 0

    async def open(self, wanted: PageRecord | None = None) -> tuple[SocketListener, PageRecord]:
        """Listen: at the port and with the token `wanted`, if a server had them before; the listener, to be served.

        Raises:
            PageTakenError: the wanted port is taken.
            ListenError, OSError: the server cannot listen, or its record cannot be written.
        """
        self._files = await anyio.to_thread.run_sync(page_files)
        listener, port = await listen(LOOPBACK, wanted.port if wanted else 0)
        if wanted is not None and wanted.port != port:
            await listener.aclose()
            raise PageTakenError(wanted.port)
        try:
            self._record = wanted or PageRecord(port, secrets.token_urlsafe(32))
            await anyio.to_thread.run_sync(write_record, self._file, self._record)
        except BaseException:
            await listener.aclose()
            raise
        self.extend()
        return listener, self._record

    def extend(self) -> None:
        """Start the time anew after which a page that nobody looks at is closed."""
        self._last_looked = anyio.current_time()

    async def serve(self, listener: SocketListener, idle_s: float) -> None:
        """Serve until nobody has looked for `idle_s` seconds; then the record is removed, and the address with it."""
        async with listener, anyio.create_task_group() as tasks:
            tasks.start_soon(listener.serve, self._serve_one)
            while self._looking or anyio.current_time() < self._last_looked + idle_s:
                rest_s = self._last_looked + idle_s - anyio.current_time()
                await anyio.sleep(min(max(rest_s, 0.01), idle_s) if not self._looking else idle_s / 10 + 0.01)
            tasks.cancel_scope.cancel()
        await anyio.to_thread.run_sync(remove_record, self._file)

    async def _serve_one(self, stream: SocketStream) -> None:
        """Serve one connection. A failure ends this connection alone."""
        try:
            async with stream:
                if self._connections >= MOST_CONNECTIONS:
                    return
                self._connections += 1
                try:
                    await self._converse(stream)
                finally:
                    self._connections -= 1
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            return
        except Exception:
            logger.exception("a connection to the page ended by a fault")

    async def _converse(self, stream: SocketStream) -> None:
        if not await comes_from_user(stream, self._threads):
            return
        http = HttpConnection(stream)
        while (request := await http.request()) is not None:
            kind = kind_of(request, self._record.port, self._record.token)
            if kind == "refuse":
                logger.warning("refused a request to the page")
                return
            if kind == "file":
                await self._give_file(http, request)
            elif kind == "frame":
                await self._give_frame(http, request)
            else:
                await self._call(http, request)

    async def _give_file(self, http: HttpConnection, request: Request) -> None:
        file = self._files.get(request.target)
        if file is None:
            await http.answer(404, GUARDS, b"")
        else:
            await http.answer(200, file.headers, file.body)

    async def _give_frame(self, http: HttpConnection, request: Request) -> None:
        body = self._calls.frame(request.target)
        headers = {**GUARDS, "content-security-policy": FRAME_POLICY, "content-type": "text/html; charset=utf-8"}
        await http.answer(404 if body is None else 200, headers, body or b"")

    async def _call(self, http: HttpConnection, request: Request) -> None:
        name = request.target.removeprefix(CALLS)
        try:
            given = json.loads(request.body or b"{}")
        except (ValueError, RecursionError):
            given = None
        if not isinstance(given, dict):
            await http.answer(400, GUARDS, b"")
        elif name == "events":
            await self._tell_events(http, int(given.get("since") or 0), str(given.get("server")))
        else:
            await self._answer(http, name, given)

    async def _answer(self, http: HttpConnection, name: str, given: dict[str, object]) -> None:
        try:
            with self._human() as client:
                text = await self._calls.answer(name, given, client)
        except (UnknownCallError, ValueError, TypeError):
            await http.answer(404, GUARDS, b"")
        else:
            await http.answer(200, {**GUARDS, "content-type": JSON}, text.encode())

    async def _tell_events(self, http: HttpConnection, since: int, server: str) -> None:
        """Send the events to a page, for as long as the page listens."""
        await http.begin(200, {**GUARDS, "content-type": "text/event-stream"})
        with self._human() as client, self._looked_at():
            async with anyio.create_task_group() as tasks:

                async def leave() -> None:
                    await http.hung_up()
                    tasks.cancel_scope.cancel()

                tasks.start_soon(leave)
                is_same = server == self._services.core.state.life.session_id
                await self._stream(http, RowReader(self._services, since if is_same else 0))
            client.has_left = True

    async def _stream(self, http: HttpConnection, reader: RowReader) -> None:
        life = self._services.core.state.life
        about = {"server": life.session_id, "workspace": life.workspace, "version": life.version, "at": life.started_at}
        await self._tell(http, "hello", about)
        told, header_at, spoke_at, gap = "", 0.0, 0.0, 0
        while True:
            began = anyio.current_time()
            if rows := reader.news(await tests_under_way(self._services)):
                await self._tell(http, "rows", {"since": reader.since, "now": self._services.now(), "rows": rows})
                spoke_at = began
            if reader.gap != gap:
                gap = reader.gap
                await self._tell(http, "gap", {"evicted": self._services.log.evicted})
            if began - header_at >= HEADER_S:
                header_at, text = began, self._caller.text_of(header(self._services))
                if text != told:
                    told = text
                    await http.send(f"event: header\ndata: {text}\n\n".encode())
            if began - spoke_at >= ALIVE_S:
                spoke_at = began
                await http.send(b": alive\n\n")
            rest_s = (anyio.current_time() - began) * REST_TIMES
            await anyio.sleep(min(max(TURN_S, rest_s), MOST_REST_S))
            if not rows and not self._services.core.state.live:
                await self._await_growth()

    async def _await_growth(self) -> None:
        """Wait until the log has grown, or until the next look for changes that no log tells."""
        grown = anyio.Event()
        self._broadcast.followers.add(grown.set)
        try:
            with anyio.move_on_after(IDLE_LOOK_S):
                await grown.wait()
        finally:
            self._broadcast.followers.discard(grown.set)

    async def _tell(self, http: HttpConnection, event: str, fields: dict[str, object]) -> None:
        await http.send(f"event: {event}\ndata: {self._caller.text_of(fields)}\n\n".encode())

    @contextlib.contextmanager
    def _looked_at(self) -> Iterator[None]:
        self._looking += 1
        try:
            yield
        finally:
            self._looking -= 1
            self.extend()

    @contextlib.contextmanager
    def _human(self) -> Iterator[ClientSession]:
        """The client that stands for all pages, which is there while any page is."""
        if self._client is None:
            self._client = self._clients.add(Outbox(max_notifications=1, max_notification_bytes=1, congested_bytes=1))
            self._clients.introduce(self._client, name=NAME, handshake=False)
        client, self._users = self._client, self._users + 1
        try:
            yield client
        finally:
            self._users -= 1
            if not self._users:
                self._clients.remove(client)
                self._client = None


class PageTakenError(Exception):
    """The port that the page had is taken by another program."""

    def __init__(self, port: int) -> None:
        super().__init__(
            f"the page of the server before cannot go on, as its port {port} is taken: "
            "`codriver watch --web` prints another address"
        )


FOLDER: Final = Path(__file__).with_name("assets")
KINDS: Final = MappingProxyType(
    {
        ".html": "text/html; charset=utf-8",
        ".css": "text/css; charset=utf-8",
        ".js": "text/javascript; charset=utf-8",
        ".svg": "image/svg+xml",
    }
)
START: Final = "index.html"

GUARDS: Final = MappingProxyType(
    {
        "cache-control": "no-store",
        "cross-origin-opener-policy": "same-origin",
        "cross-origin-resource-policy": "same-origin",
        "referrer-policy": "no-referrer",
        "x-content-type-options": "nosniff",
    }
)
"""Headers of every answer. Source: OWASP, HTTP headers cheat sheet."""

PAGE_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' blob:; "
    "frame-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'"
)
"""No code but our files', no text that becomes markup, and nothing from or to anywhere else. Source: CSP Level 3."""

FRAME_POLICY: Final = (
    "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:; frame-ancestors 'self'; form-action 'none'"
)
"""The policy of a table: its own styles and pictures are allowed, and neither script nor form, nor an origin."""


@dataclass(frozen=True, slots=True)
class PageFile:
    """One file of the page, with its headers."""

    headers: Mapping[str, str]
    body: bytes


def page_files() -> Mapping[str, PageFile]:
    """All files of the page, by the path at which each is served. Reads the disk."""
    found = {}
    for path in sorted(FOLDER.iterdir()):
        if path.suffix in KINDS:
            headers = {**GUARDS, "content-type": KINDS[path.suffix], "content-security-policy": PAGE_POLICY}
            served_at = "/" if path.name == START else f"/{path.name}"
            found[served_at] = PageFile(MappingProxyType(headers), path.read_bytes())
    return MappingProxyType(found)
