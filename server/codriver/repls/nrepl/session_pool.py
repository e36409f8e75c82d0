"""The sessions of one nREPL server: clones where it keeps them apart, connections of their own where only those do.

The sessions that we opened are closed again, whatever becomes of the connection. Who is killed closes none: so they are
recorded in a file, and the next server of the workspace closes what stands there and nothing else. Nobody's own session
is ever closed. An id that another REPL could give again, as one that counts its sessions would, is not recorded.

The main session has a heartbeat. TCP's own keep-alive ends at the next host: behind an SSH tunnel or a container's
proxy it is answered by what listens here, whatever became of the REPL. So the REPL itself is asked something small when
it was silent for a while.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import re
from collections import deque
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, Final

import anyio

from codriver import files
from codriver.core.values import MAIN_SESSION, TEST_SESSION
from codriver.errors import CodriverError, ReplDisconnectedError
from codriver.repls.contract.adapter import CapabilityMissingError, NotAnReplError, OpTimedOutError, SessionNotOpenError
from codriver.repls.nrepl.connection import Exchange, NreplConnection, OnMessage, dial

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Sequence
    from pathlib import Path

    from anyio.abc import TaskGroup

    from codriver.core.values import PrintLimits
    from codriver.repls.contract.adapter_values import Endpoint
    from codriver.repls.dialects.server_dialect import Dialect
    from codriver.repls.nrepl.connection import Message
    from codriver.repls.nrepl.failures import SentFailure
    from codriver.wire.bencode import Value


TOOL_SESSION: Final = "codriver/tool"
"""Our own session, where questions are asked, so that the caller's `*1`, `*e` and namespace stay as they are."""

OURS: Final = frozenset({TOOL_SESSION, TEST_SESSION})


class Turn:
    """The right to use a session: one at a time has it, in the order in which they asked.

    No task owns it, unlike a lock of anyio: an evaluation takes it outside of any, and may give it back in one.
    """

    def __init__(self) -> None:
        self.is_taken = False
        self._waiting: deque[asyncio.Future[None]] = deque()

    def take_at_once(self) -> bool:
        """Take the session if free, and say whether that was so."""
        was_free = not self.is_taken
        self.is_taken = True
        return was_free

    async def take(self) -> None:
        """Wait for it, and take it."""
        if self.take_at_once():
            return
        place = asyncio.get_running_loop().create_future()
        self._waiting.append(place)
        try:
            await place
        except asyncio.CancelledError:
            if not place.cancelled():  # it was handed over in the same moment
                self.give_back()
            raise

    def give_back(self) -> None:
        """Hand it over to who has waited longest, or let it be free."""
        while self._waiting:
            place = self._waiting.popleft()
            if not place.done():
                place.set_result(None)
                return
        self.is_taken = False

    async def __aenter__(self) -> None:
        await self.take()

    async def __aexit__(self, *exc: object) -> None:
        self.give_back()


@dataclass(slots=True, eq=False)
class NreplSession:
    """One session: the connection it lives on and, where the server has sessions, its id there."""

    name: str
    connection: NreplConnection
    id: str | None = None
    shared_id: str | None = None
    """The id of the session whose names it has for its own, if not its own."""
    namespace: str | None = None
    """The namespace in which it will evaluate next, as far as the server told."""
    turn: Turn = field(default_factory=Turn)
    """Taken while it evaluates."""
    running: Exchange | None = None
    prints_to: PrintLimits | None = None
    """The limits to which it prints what a request does not limit."""
    keeps_loaders: bool = False
    """True once code in the session may hold a class loader of its evaluations, so that no loader is unlinked."""
    is_in_file: bool = False
    """Code of a file was evaluated in it last."""
    unprinted: int = 0
    """How many requests were evaluated in it with no value printed by our printer."""
    is_stopping: bool = False
    """An interrupt came: no further form of what runs is sent."""
    is_deaf: bool = False
    """The server runs nothing in it any more: it said so while it owed the end of an evaluation."""
    failure: SentFailure | None = None
    """The last failure, where servers send its trace with it."""

    @property
    def names_id(self) -> str:
        """The id of the session that holds the names of this one; blank before either exists."""
        return self.shared_id or self.id or ""

    def address(self) -> dict[str, Value]:
        """The fields that name this session in a request."""
        return {"session": self.id} if self.id else {}


class SessionPool:
    """All sessions of one adapter, by name. Lives as long as the adapter."""

    def __init__(
        self,
        endpoint: Endpoint,
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
        """Also those that only a question needs: whoever opens one closes it."""
        self._opening = anyio.Lock()
        self._is_closed = False
        self.dialect: Dialect | None = None
        """Set when it is known; the main session is opened before that."""
        self.prints_by: dict[str, Value] = {}
        """The fields of requests with code of ours by which the REPL prints with our printer, if there."""

    def get(self, name: str) -> NreplSession:
        """The open session `name`.

        Raises:
            ReplDisconnectedError: all were closed.
            SessionNotOpenError: it is not open.
        """
        if self._is_closed:
            raise ReplDisconnectedError("it was closed by us")
        if (session := self._sessions.get(name)) is None:
            raise SessionNotOpenError(name)
        return session

    @property
    def main(self) -> NreplSession:
        """The main session, once it is open."""
        return self.get(MAIN_SESSION)

    async def open_main(self, *, connect_timeout_s: float) -> NreplSession:
        """The main session, on the first connection.

        Raises:
            ReplUnreachableError: nobody listens.
        """
        connection = await self._dial(connect_timeout_s)
        session = self._sessions[MAIN_SESSION] = NreplSession(MAIN_SESSION, connection)
        return session

    async def redial_main(self, *, connect_timeout_s: float) -> None:
        """Give the main session a new connection, in which nothing was evaluated, so that its last values are nil.

        Raises:
            ReplUnreachableError: nobody listens any more.
        """
        main = self.main
        before, main.connection = main.connection, await self._dial(connect_timeout_s)
        await before.close()

    async def open(self, name: str, *, shares_names: bool = False) -> NreplSession:
        """The session `name`, made if need be: as one that `shares_names` with the main one where it would not.

        Raises:
            ReplDisconnectedError: the connection to the server is over.
            CapabilityMissingError: the server keeps nothing apart.
        """
        self.main.connection.check_open()
        async with self._opening:
            if (known := self._sessions.get(name)) is not None:
                await self.renew(known)
                return known
            kept = self.dialect.keeps_apart if self.dialect else None
            main = self.get(MAIN_SESSION)
            if kept == "none" and name not in OURS:
                raise CapabilityMissingError("sessions", "this REPL has one namespace for all; start another REPL")
            if kept == "none":
                return main
            if kept == "connection":
                connection = await self._dial(self._op_timeout_s)
                session = NreplSession(name, connection)
            else:
                identity = await self.clone(main.connection, apart=not shares_names and name not in OURS)
                session = NreplSession(name, main.connection, id=identity)
                if shares_names and self.dialect and self.dialect.joins and main.id:
                    code = self.dialect.joins.replace("$main", self.dialect.quote(main.id))
                    await main.connection.ask("eval", timeout_s=self._op_timeout_s, code=code, **session.address())
                    session.shared_id = main.id
            session.namespace = main.namespace if name in OURS else None
            self._sessions[name] = session
            return session

    async def ask(self, name: str, code: str) -> list[Message]:
        """The answer to code of ours that is evaluated in our session `name`, made if need be.

        Raises:
            CodriverError: the session could not be made, or no answer came in time.
        """
        session = await self.open(name)
        fields = {**session.address(), **self.prints_by, "code": code}
        return await session.connection.ask("eval", timeout_s=self._op_timeout_s, **fields)

    async def renew(self, session: NreplSession) -> None:
        """Give `session` a new connection where it had one of its own and lost it, and a new id where it is deaf.

        That is a clone, so its last values stay, and it is brought into the same namespace.

        Raises:
            ReplUnreachableError: nobody listens any more.
        """
        if session.is_deaf:
            await self._replace(session)
        if session.connection is not self.get(MAIN_SESSION).connection and session.connection.cause is not None:
            session.connection = await self._dial(self._op_timeout_s)
            session.namespace = session.prints_to = None

    async def _replace(self, session: NreplSession) -> None:
        ask, timeout_s = session.connection.ask, self._op_timeout_s
        clone = await self.opened.clone(session.connection, timeout_s=timeout_s, **session.address())
        session.id = clone or session.id
        session.is_deaf, session.prints_to = False, None
        if session.namespace and self.dialect and self.dialect.namespace_by == "key":
            # nREPL's clones begin in `user`.
            await ask("eval", timeout_s=timeout_s, code=f"(in-ns '{session.namespace})", **session.address())

    async def clone(self, connection: NreplConnection, *, apart: bool = False) -> str | None:
        """The id of a new session on `connection`; None where the server gives none.

        `apart` asks codriver's worker for a namespace of its own; other servers do not know the key and pass over it.
        """
        fields: dict[str, Value] = {"codriver/apart": "yes"} if apart else {}
        return await self.opened.clone(connection, timeout_s=self._op_timeout_s, **fields)

    async def close(self, name: str) -> None:
        """End the session `name`; an unknown one and the main one are left alone."""
        if name == MAIN_SESSION or (session := self._sessions.pop(name, None)) is None:
            return
        try:
            if session.id:
                await self.opened.close(session.id)
        finally:
            if session.connection is not self.main.connection:
                await session.connection.close()

    async def close_left(self) -> None:
        """Close what an earlier connection to this REPL left open there, before anything is opened."""
        await self.opened.close_left(partial(self._dial, self._op_timeout_s))

    async def close_all(self) -> None:
        """End every session and connection, also while the owner's tasks are being cancelled. Twice is harmless."""
        sessions, self._sessions, self._is_closed = self._sessions, {}, True
        main = sessions.get(MAIN_SESSION)
        busy = [session.id for session in sessions.values() if session.id and session.turn.is_taken]
        await self.opened.close_all(main.connection if main else None, busy=busy)
        for connection in {id(session.connection): session.connection for session in sessions.values()}.values():
            await connection.close()
        for scope in tuple(self._reading):
            scope.cancel()

    async def _dial(self, timeout_s: float) -> NreplConnection:
        connection = await dial(self._endpoint, self._on_stray, timeout_s=timeout_s)
        connection.send_gap_s = self.dialect.send_gap_s if self.dialect else 0.0
        self._tasks.start_soon(self._read, connection)
        return connection

    async def _read(self, connection: NreplConnection) -> None:
        """Read until the connection is over, or all are closed: what is asked as we are cancelled is answered too."""
        with anyio.CancelScope(shield=True) as scope:
            self._reading.add(scope)
            try:
                await connection.read()
            finally:
                self._reading.discard(scope)

    def refuse(self, cause: str) -> NotAnReplError:
        """The error for a peer that does not behave like an nREPL server."""
        return NotAnReplError(self._endpoint, cause)


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """The times for which a REPL may be silent before it is asked, and then before it counts as gone: 25 s together."""

    silence_s: float = 10.0
    answer_s: float = 15.0


async def keep_watch(main: NreplSession, beat: Heartbeat, *, while_busy: bool) -> None:
    """Look after the connection of the session `main` until it is over, and end it when the REPL does not answer.

    A REPL that does one thing at a time does not answer while it works: unless `while_busy`, it is asked only while
    nothing of ours runs there.
    """
    connection = main.connection
    while connection.cause is None:
        quiet_s = monotonic() - connection.heard_at
        if quiet_s < beat.silence_s:
            await anyio.sleep(beat.silence_s - quiet_s)
            continue
        if connection.is_waiting and not while_busy:
            await anyio.sleep(beat.silence_s)
            continue
        asked_at = monotonic()
        try:
            # With the session's turn no evaluation begins meanwhile: some servers mix up two requests at once.
            async with contextlib.nullcontext() if while_busy else main.turn:
                await connection.ask("describe", timeout_s=beat.answer_s)
        except OpTimedOutError:
            if connection.heard_at >= asked_at or (connection.is_waiting and not while_busy):
                continue
            silent_s = monotonic() - connection.heard_at
            await connection.abandon(f"the REPL has been silent for {silent_s:.0f} s and does not answer any more")
        except ReplDisconnectedError:
            return


FAREWELL_S: Final = 1.0
"""How long the end of a connection waits until one session is closed: nREPL 1.0 takes 0.1 s, and more if it is busy."""
MOST_SILENT: Final = 2
"""After so many in a row that were not closed in time, nobody is asked any more: whoever listens there hangs."""
FAREWELLS_S: Final = 10.0
"""How long for all sessions together."""

AT_ONCE: Final = 8
"""Connections by which sessions are closed that an earlier one left."""


class OpenedSessions:
    """Our open sessions of the server at `address`. Lives as long as the adapter; `record` outlives the process."""

    def __init__(self, address: str, record: SessionRecord | None) -> None:
        self._address = address
        self._record = record
        self._opened: dict[str, NreplConnection] = {}
        """By id: the connection that it was made on."""

    async def clone(self, connection: NreplConnection, *, timeout_s: float, **fields: Value) -> str | None:
        """The id of a new session on `connection`; None where the server gives none. `fields` are of the request.

        Raises:
            OpTimedOutError, ReplDisconnectedError: as `NreplConnection.ask`.
        """
        identity = _new_session(await connection.ask("clone", timeout_s=timeout_s, **fields))
        if identity:
            self._opened[identity] = connection
            if self._record is not None:
                await self._record.opened(self._address, identity)
        return identity

    async def close(self, identity: str) -> None:
        """Close a session; where the server is gone or silent it stays in the record."""
        connection = self._opened.get(identity)
        if connection is not None and await _is_closed(connection, identity):
            await self._forget(identity)

    async def close_all(self, main: NreplConnection | None, *, busy: Iterable[str]) -> None:
        """Close every session, and by the connection `main` those that an earlier one left there; in time, or never.

        In those that are `busy` code runs: where the connection broke, a new one of this server leaves them alone.
        """
        asked = dict(self._opened)
        if self._record is not None and main is not None and main.cause is None:
            asked |= dict.fromkeys(await self._record.to_close(self._address, with_busy=True), main)
        await self._close(asked)
        if self._record is not None:
            self._record.left(self._opened, busy=busy)

    async def close_left(self, dial: Callable[[], Awaitable[NreplConnection]]) -> None:
        """Close the sessions that an earlier connection left, and in which nothing ran as it broke.

        That is done before any is opened, so that kills that follow each other leave no more than one does; and by some
        connections at once, which `dial` gives, as nREPL keeps each busy for 0.1 s with a session.
        """
        if self._record is None or not (left := await self._record.to_close(self._address, with_busy=False)):
            return

        async def close(sessions: Sequence[str]) -> None:
            with suppress(CodriverError):
                connection = await dial()
                try:
                    await self._close(dict.fromkeys(sessions, connection))
                finally:
                    await connection.close()

        async with anyio.create_task_group() as tasks:
            for number in range(min(AT_ONCE, len(left))):
                tasks.start_soon(close, left[number::AT_ONCE])

    async def _close(self, sessions: dict[str, NreplConnection]) -> None:
        """Close sessions, each by a connection, as long as the server does so.

        One after the other: servers do it so, and some mix up two requests at once.
        """
        silent = 0
        with anyio.move_on_after(FAREWELLS_S):
            for identity, connection in sessions.items():
                if await _is_closed(connection, identity):
                    await self._forget(identity)
                    silent = 0
                elif (silent := silent + 1) == MOST_SILENT:
                    return

    async def _forget(self, identity: str) -> None:
        self._opened.pop(identity, None)
        if self._record is not None:
            await self._record.closed(self._address, identity)


async def _is_closed(connection: NreplConnection, identity: str) -> bool:
    """Ask a server to close a session, and say whether it has it no more: it closed it, or never had it."""
    try:
        await connection.ask("close", timeout_s=FAREWELL_S, session=identity)
    except CodriverError:
        return False  # there is nothing left to close, or nobody who does: to leave must not fail
    return True


def _new_session(messages: Sequence[Message]) -> str | None:
    """The id of the session that the answer to `clone` tells of."""
    return next((identity for message in messages if (identity := message.text("new-session"))), None)


logger = logging.getLogger(__name__)

RULES: Final = files.Rules(files.Links.OWN, most_bytes=files.MEBIBYTE, is_granting=True)
"""Sessions that stand in the file are closed, so the file must be the user's own."""
MOST_REPLS: Final = 64
"""Addresses that are kept, the newest: a REPL that is gone takes its sessions with it, and is seldom heard of again."""
MOST_SESSIONS: Final = 256
"""Sessions of one REPL that are kept, the newest: the lanes that it may have, four times."""
UNIQUE: Final = re.compile(r"[0-9a-f]{32}|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
"""An id made of 128 bits, nearly all random: a UUID as nREPL has it, or plain."""


class SessionRecord:
    """The record of one workspace, for the life of one server. What cannot be written is left open by a kill.

    `is_ours` says of an address whether the process there is ours, and ends with us. Blocking work is done in a thread.
    """

    def __init__(self, path: Path, *, is_ours: Callable[[str], bool] = lambda _: False) -> None:
        self._path = path
        self._is_ours = is_ours
        self._in_turn = anyio.CapacityLimiter(1)
        self._kept: dict[str, list[str]] | None = None
        """By address; None before the file was read."""
        self._in_use: set[str] = set()
        """The sessions that a connection of this server has opened and not left."""
        self._busy: set[str] = set()
        """The sessions whose connection broke while code ran: the code goes on as long as this server does."""

    async def opened(self, address: str, session: str) -> None:
        """A session was opened: called before anything is done in it."""
        self._in_use.add(session)
        if UNIQUE.fullmatch(session) and not self._is_ours(address):
            await self._in_thread(partial(self._write, address, add=session))

    async def closed(self, address: str, session: str) -> None:
        """The REPL at the address has a session no more."""
        self._in_use.discard(session)
        await self._in_thread(partial(self._write, address, drop=session))

    def left(self, sessions: Iterable[str], *, busy: Iterable[str]) -> None:
        """The connection that opened these sessions is over, and they are open; code ran in those that are `busy`."""
        self._in_use -= frozenset(sessions)
        self._busy |= frozenset(busy)

    async def to_close(self, address: str, *, with_busy: bool) -> tuple[str, ...]:
        """The sessions at an address that an earlier connection left, of this server or one before it."""
        await self._in_thread(self._read)
        kept = self._read().get(address, ())
        passed_over = self._in_use if with_busy else self._in_use | self._busy
        return tuple([session for session in kept if session not in passed_over])

    async def _in_thread(self, work: Callable[[], object]) -> None:
        await anyio.to_thread.run_sync(work, limiter=self._in_turn)

    def _read(self) -> dict[str, list[str]]:
        if self._kept is None:
            found = files.read_json(self._path, RULES)
            rows = found.items() if isinstance(found, dict) else ()
            self._kept = {address: _ids(sessions) for address, sessions in rows if isinstance(sessions, list)}
        return self._kept

    def _write(self, address: str, *, add: str = "", drop: str = "") -> None:
        kept = self._read()
        before = kept.get(address, [])
        after = [*(one for one in before if one != drop), *([add] if add else [])][-MOST_SESSIONS:]
        if after == before:
            return
        kept.pop(address, None)
        if after:
            kept[address] = after
        for oldest in list(kept)[:-MOST_REPLS]:
            del kept[oldest]
        try:
            # A kill loses nothing that was written, and after a loss of power the REPL is gone too.
            files.replace(
                self._path, json.dumps(kept).encode("ascii"), links=files.Links.OWN,
                is_durable=False, make_mode=files.PRIVATE_FOLDER,
            )  # fmt: skip
        except OSError as error:
            logger.warning("the sessions opened in %s are not recorded, and left open by a kill: %s", address, error)


def _ids(values: list[object]) -> list[str]:
    return [value for value in values if isinstance(value, str) and UNIQUE.fullmatch(value)]
