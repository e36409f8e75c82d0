"""The sessions on one nREPL server. They are clones or, if the server does not isolate sessions, connections."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Protocol

import anyio

from codriver.core.requests import MAIN_SESSION
from codriver.errors import ReplDisconnectedError
from codriver.repls.contract.adapter import CapabilityMissingError, NotAReplError, SessionNotOpenError
from codriver.repls.nrepl.connection import Exchange, NreplConnection, OnMessage, open_connection
from codriver.repls.nrepl.connection_routes import CODRIVER_SESSIONS, Route, choose_route
from codriver.repls.nrepl.opened_sessions import OpenedSessions
from codriver.repls.nrepl.session_turns import SessionTurn

if TYPE_CHECKING:
    from anyio.abc import TaskGroup

    from codriver.core.print_limits import PrintLimits
    from codriver.repls.contract.endpoints import AcceptedStream, Endpoint
    from codriver.repls.dialects.server_dialect import Dialect
    from codriver.repls.nrepl.connection import Message
    from codriver.repls.nrepl.failures import SentFailure
    from codriver.repls.nrepl.session_record import SessionRecord
    from codriver.wire.bencode import Value


class Stoppable(Protocol):
    """An evaluation that can be interrupted."""

    is_stopping: bool
    """Whether an interrupt was requested, in which case no further form is sent."""


@dataclass(slots=True, eq=False)
class NreplSession:
    """A session with its connection, and with its id if the server supports sessions."""

    name: str
    connection: NreplConnection
    id: str | None = None
    shared_id: str | None = None
    """The id of the session whose names this session uses, if they are not its own."""
    namespace: str | None = None
    """The namespace of the next evaluation, if the server has reported it."""
    turn: SessionTurn = field(default_factory=SessionTurn)
    """The session's turn, which is held during an evaluation."""
    evaluation: Stoppable | None = None
    """The evaluation that was started in this session and has not ended."""
    running: Exchange | None = None
    """The exchange of the running request. It is None between the forms of an evaluation."""
    prints_to: PrintLimits | None = None
    """The print limits that the server applies to requests without limits."""
    preserves_loaders: bool = False
    """Whether code in the session may use the class loaders of its evaluations, in which case none may be discarded."""
    is_in_file: bool = False
    """Whether the last evaluated code came from a file."""
    unprinted: int = 0
    """The number of requests that were evaluated without a value from Codriver's printer."""
    is_deaf: bool = False
    """Whether the server no longer runs code in this session, although it has not reported the end of an evaluation."""
    failure: SentFailure | None = None
    """The last failure, for servers that send a failure together with its trace."""

    @property
    def namespace_session_id(self) -> str:
        """Return the id of the session whose names this session uses, or "" if the server has no sessions."""
        return self.shared_id or self.id or ""

    def address(self) -> dict[str, Value]:
        """Return the request fields that identify this session."""
        return {"session": self.id} if self.id else {}


class SessionPool:
    """The sessions of one adapter, by name."""

    def __init__(
        self,
        endpoint: Endpoint | AcceptedStream,
        tasks: TaskGroup,
        on_stray: OnMessage,
        *,
        op_timeout_s: float,
        record: SessionRecord | None = None,
    ) -> None:
        self._endpoint = endpoint
        self._tasks = tasks
        self._on_stray = on_stray
        self._op_timeout_s = op_timeout_s
        self._sessions: dict[str, NreplSession] = {}
        self._reading: set[anyio.CancelScope] = set()
        self.opened = OpenedSessions(str(endpoint), record)
        """All open sessions, including temporary ones, which are closed by the code that opened them."""
        self._opening = anyio.Lock()
        self._is_closed = False
        self.dialect: Dialect | None = None
        """The dialect. It is unknown while the main session is being opened."""
        self.prints_by: dict[str, Value] = {}
        """The fields that make the REPL use Codriver's printer for Codriver's own requests, if there is one."""

    def get(self, name: str) -> NreplSession:
        """Return an open session.

        Raises:
            ReplDisconnectedError: the pool is closed.
            SessionNotOpenError: no session with this name is open.
        """
        if self._is_closed:
            raise ReplDisconnectedError("Codriver closed the connection")
        if (session := self._sessions.get(name)) is None:
            raise SessionNotOpenError(name)
        return session

    @property
    def main(self) -> NreplSession:
        """Return the main session."""
        return self.get(MAIN_SESSION)

    async def open_main(self, *, connect_timeout_s: float) -> NreplSession:
        """Open the first connection, and return the main session.

        Raises:
            ReplUnreachableError: nothing listens at the address.
        """
        connection = await self._dial(connect_timeout_s)
        session = self._sessions[MAIN_SESSION] = NreplSession(MAIN_SESSION, connection)
        return session

    async def reconnect_main(self, *, connect_timeout_s: float) -> None:
        """Replace the connection of the main session with a new one, which has no last values.

        Raises:
            ReplUnreachableError: nothing listens at the address any longer.
        """
        main = self.main
        before, main.connection = main.connection, await self._dial(connect_timeout_s)
        await before.close()

    async def open(self, name: str, *, shares_names: bool = False) -> NreplSession:
        """Return the session with this name, opening it if needed.

        With `shares_names`, it uses the main session's names.

        Raises:
            ReplDisconnectedError: the connection to the server is closed.
            CapabilityMissingError: the server has a single session.
        """
        self.main.connection.check_open()
        async with self._opening:
            if (known := self._sessions.get(name)) is not None:
                await self.renew(known)
                return known
            main = self.get(MAIN_SESSION)
            match self._route_to(name, shares_names=shares_names):
                case Route.REFUSED:
                    raise CapabilityMissingError(
                        "sessions", "all callers share this REPL's only namespace. Start another REPL"
                    )
                case Route.MAIN:
                    return main
                case Route.SEPARATE_CONNECTION:
                    session = NreplSession(name, await self._dial(self._op_timeout_s))
                case Route.CLONE:
                    session = NreplSession(name, main.connection, id=await self.clone(main.connection))
                case Route.CLONE_APART:
                    session = NreplSession(name, main.connection, id=await self.clone(main.connection, apart=True))
                case Route.CLONE_JOINED:
                    session = NreplSession(name, main.connection, id=await self.clone(main.connection))
                    await self._join(session, main)
            session.namespace = main.namespace if name in CODRIVER_SESSIONS else None
            self._sessions[name] = session
            return session

    def _route_to(self, name: str, *, shares_names: bool) -> Route:
        isolates = self.dialect.isolates if self.dialect else None
        has_joining = bool(self.dialect and self.dialect.joins and self.main.id)
        return choose_route(name, isolates, shares_names=shares_names, has_joining=has_joining)

    async def _join(self, session: NreplSession, main: NreplSession) -> None:
        """Make a cloned session use the main session's names."""
        if self.dialect is None or not self.dialect.joins or not main.id:
            return
        code = self.dialect.joins.replace("$main", self.dialect.quote(main.id))
        await main.connection.request("eval", timeout_s=self._op_timeout_s, code=code, **session.address())
        session.shared_id = main.id

    async def evaluate(self, name: str, code: str) -> list[Message]:
        """Evaluate Codriver's own code in the session with this name, opening it if needed. Return the replies.

        Raises:
            CodriverError: the session could not be opened, or no reply was received in time.
        """
        session = await self.open(name)
        fields = {**session.address(), **self.prints_by, "code": code}
        return await session.connection.request("eval", timeout_s=self._op_timeout_s, **fields)

    async def renew(self, session: NreplSession) -> None:
        """Make a session usable again after it has lost its connection or the server stopped running code in it.

        In the first case, the session gets a new connection. In the second case, it gets the id of a clone in the same
        namespace, so its last values are preserved.

        Raises:
            ReplUnreachableError: nothing listens at the address any longer.
        """
        if session.is_deaf:
            await self._replace(session)
        if session.connection is not self.get(MAIN_SESSION).connection and session.connection.cause is not None:
            session.connection = await self._dial(self._op_timeout_s)
            session.namespace = session.prints_to = None

    async def _replace(self, session: NreplSession) -> None:
        request, timeout_s = session.connection.request, self._op_timeout_s
        clone = await self.opened.clone(session.connection, timeout_s=timeout_s, **session.address())
        session.id = clone or session.id
        session.is_deaf, session.prints_to = False, None
        if session.namespace and self.dialect and self.dialect.namespace_by == "key":
            # nREPL's clones start in `user`.
            await request("eval", timeout_s=timeout_s, code=f"(in-ns '{session.namespace})", **session.address())

    async def clone(self, connection: NreplConnection, *, apart: bool = False) -> str | None:
        """Open a session on `connection`, and return its id, or None if the server does not report an id.

        With `apart`, Codriver's worker gives the session its own namespace. Other servers ignore that field.
        """
        fields: dict[str, Value] = {"codriver/apart": "yes"} if apart else {}
        return await self.opened.clone(connection, timeout_s=self._op_timeout_s, **fields)

    async def close(self, name: str) -> None:
        """Close the session with this name. Ignore unknown names and the main session."""
        if name == MAIN_SESSION or (session := self._sessions.pop(name, None)) is None:
            return
        try:
            if session.id:
                await self.opened.close(session.id)
        finally:
            if session.connection is not self.main.connection:
                await session.connection.close()

    async def close_leftover_sessions(self) -> None:
        """Close the sessions left open by an earlier connection."""
        await self.opened.close_leftover_sessions(partial(self._dial, self._op_timeout_s))

    async def close_all(self) -> None:
        """Close all sessions and connections, even while the owner's tasks are being cancelled.

        Repeated calls have no effect.
        """
        sessions, self._sessions, self._is_closed = self._sessions, {}, True
        main = sessions.get(MAIN_SESSION)
        busy = [session.id for session in sessions.values() if session.id and session.turn.is_acquired]
        await self.opened.close_all(main.connection if main else None, busy=busy)
        for connection in {id(session.connection): session.connection for session in sessions.values()}.values():
            await connection.close()
        for scope in tuple(self._reading):
            scope.cancel()

    async def _dial(self, timeout_s: float) -> NreplConnection:
        connection = await open_connection(self._endpoint, self._on_stray, timeout_s=timeout_s)
        connection.send_gap_s = self.dialect.send_gap_s if self.dialect else 0.0
        self._tasks.start_soon(self._read, connection)
        return connection

    async def _read(self, connection: NreplConnection) -> None:
        """Read until the connection is closed.

        This is shielded so that requests sent during a cancellation are still answered.
        """
        with anyio.CancelScope(shield=True) as scope:
            self._reading.add(scope)
            try:
                await connection.read()
            finally:
                self._reading.discard(scope)

    def not_a_repl_error(self, cause: str) -> NotAReplError:
        """Create the error for a peer that does not behave like an nREPL server."""
        return NotAReplError(self._endpoint, cause)
