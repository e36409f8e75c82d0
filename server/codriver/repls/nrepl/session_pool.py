"""The sessions of one nREPL server: clones if the server keeps them apart, else connections of their own.

The sessions that we opened are closed again, whatever becomes of the connection. A killed server closes none, so
sessions are recorded in a file, and the next server of the workspace closes only the recorded ones. Nobody else's
session is ever closed. An id that another REPL could give again, as a REPL that counts its sessions would, is not
recorded.

The main session has a heartbeat. TCP's own keep-alive ends at the next host: an SSH tunnel or a container's proxy
answers it here, whatever became of the REPL. So the REPL itself is asked something small after a silence.
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
"""Our own session for questions, so that the caller's `*1`, `*e` and namespace stay as they are."""

OURS: Final = frozenset({TOOL_SESSION, TEST_SESSION})


class Turn:
    """The right to use a session: one evaluation at a time has it, in the order of requests.

    Unlike a lock of anyio, a turn has no owning task: an evaluation takes it outside of any task, and may give it back
    in one.
    """

    def __init__(self) -> None:
        self.is_taken = False
        self._waiting: deque[asyncio.Future[None]] = deque()

    def take_at_once(self) -> bool:
        """Take the session if free; whether it was."""
        was_free = not self.is_taken
        self.is_taken = True
        return was_free

    async def take(self) -> None:
        """Wait for the turn, and take it."""
        if self.take_at_once():
            return
        place = asyncio.get_running_loop().create_future()
        self._waiting.append(place)
        try:
            await place
        except asyncio.CancelledError:
            if not place.cancelled():  # the turn was handed over in the same moment
                self.give_back()
            raise

    def give_back(self) -> None:
        """Hand the turn over to the longest waiting caller, or free it."""
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
    """One session: its connection and, if the server has sessions, its id there."""

    name: str
    connection: NreplConnection
    id: str | None = None
    shared_id: str | None = None
    """The id of the session whose names it shares, if not its own."""
    namespace: str | None = None
    """The namespace of the next evaluation, as far as the server told."""
    turn: Turn = field(default_factory=Turn)
    """The turn, taken during an evaluation."""
    running: Exchange | None = None
    prints_to: PrintLimits | None = None
    """The print limits for requests without limits."""
    keeps_loaders: bool = False
    """True once code in the session may hold a class loader of its evaluations, so that no loader is unlinked."""
    is_in_file: bool = False
    """Whether the last evaluated code was a file's."""
    unprinted: int = 0
    """The number of requests evaluated without a value from our printer."""
    is_stopping: bool = False
    """Whether an interrupt came, so that no further form is sent."""
    is_deaf: bool = False
    """Whether the server runs nothing in it any more: it said so while it owed the end of an evaluation."""
    failure: SentFailure | None = None
    """The last failure, if the server sends the trace with it."""

    @property
    def names_id(self) -> str:
        """The id of the session with the names of this one; blank before either exists."""
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
        """The open sessions, also those for a single question: their opener closes them."""
        self._opening = anyio.Lock()
        self._is_closed = False
        self.dialect: Dialect | None = None
        """The dialect, set once known; the main session is opened before that."""
        self.prints_by: dict[str, Value] = {}
        """The fields of our own requests by which the REPL uses our printer, if there is one."""

    def get(self, name: str) -> NreplSession:
        """The open session `name`.

        Raises:
            ReplDisconnectedError: all sessions were closed.
            SessionNotOpenError: the session is not open.
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
        """Give the main session a new connection, without evaluations, so that its last values are nil.

        Raises:
            ReplUnreachableError: nobody listens any more.
        """
        main = self.main
        before, main.connection = main.connection, await self._dial(connect_timeout_s)
        await before.close()

    async def open(self, name: str, *, shares_names: bool = False) -> NreplSession:
        """The session `name`, made if need be; with `shares_names` it shares the main one's names in any dialect.

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
        """The answer to our code, evaluated in our session `name`, which is made if need be.

        Raises:
            CodriverError: the session could not be made, or no answer came in time.
        """
        session = await self.open(name)
        fields = {**session.address(), **self.prints_by, "code": code}
        return await session.connection.ask("eval", timeout_s=self._op_timeout_s, **fields)

    async def renew(self, session: NreplSession) -> None:
        """Give `session` a new connection if it lost its own, and a new id if it is deaf.

        The new session is a clone, so its last values stay, and is brought into the same namespace.

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
        """The id of a new session on `connection`; None if the server gives none.

        `apart` asks codriver's worker for a namespace of its own; other servers ignore the key.
        """
        fields: dict[str, Value] = {"codriver/apart": "yes"} if apart else {}
        return await self.opened.clone(connection, timeout_s=self._op_timeout_s, **fields)

    async def close(self, name: str) -> None:
        """End the session `name`; unknown ones and the main one are left alone."""
        if name == MAIN_SESSION or (session := self._sessions.pop(name, None)) is None:
            return
        try:
            if session.id:
                await self.opened.close(session.id)
        finally:
            if session.connection is not self.main.connection:
                await session.connection.close()

    async def close_left(self) -> None:
        """Close the sessions that an earlier connection left open, before any is opened."""
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
        """Read until the connection is over, or all are closed: questions during a cancellation are answered too."""
        with anyio.CancelScope(shield=True) as scope:
            self._reading.add(scope)
            try:
                await connection.read()
            finally:
                self._reading.discard(scope)

    def refuse(self, cause: str) -> NotAnReplError:
        """The error for a peer that does not act as an nREPL server."""
        return NotAnReplError(self._endpoint, cause)


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """The silence after which a REPL is asked, and the further one after which it counts as gone: 25 s together."""

    silence_s: float = 10.0
    answer_s: float = 15.0


async def keep_watch(main: NreplSession, beat: Heartbeat, *, while_busy: bool) -> None:
    """Watch the connection of the session `main` until its end, and end it when the REPL does not answer.

    A REPL that does one thing at a time does not answer while it works: unless `while_busy`, the REPL is asked only
    while none of our code runs.
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
"""The time that a connection's end waits for closing one session: nREPL 1.0 takes 0.1 s, and more if busy."""
MOST_SILENT: Final = 2
"""After so many failed closes in a row no more are tried: the listener hangs."""
FAREWELLS_S: Final = 10.0
"""The time for closing all sessions together."""

AT_ONCE: Final = 8
"""The number of connections that close an earlier connection's sessions."""


class OpenedSessions:
    """Our open sessions of the server at `address`. Lives as long as the adapter; `record` outlives the process."""

    def __init__(self, address: str, record: SessionRecord | None) -> None:
        self._address = address
        self._record = record
        self._opened: dict[str, NreplConnection] = {}
        """The connection of each session, by id."""

    async def clone(self, connection: NreplConnection, *, timeout_s: float, **fields: Value) -> str | None:
        """The id of a new session on `connection`; None if the server gives none. `fields` are the request's.

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
        """Close a session; if the server is gone or silent, the session stays in the record."""
        connection = self._opened.get(identity)
        if connection is not None and await _is_closed(connection, identity):
            await self._forget(identity)

    async def close_all(self, main: NreplConnection | None, *, busy: Iterable[str]) -> None:
        """Close every session, and by the connection `main` an earlier connection's sessions; in time, or never.

        Code runs in the `busy` ones: after a broken connection, this server's next one leaves them alone.
        """
        asked = dict(self._opened)
        if self._record is not None and main is not None and main.cause is None:
            asked |= dict.fromkeys(await self._record.to_close(self._address, with_busy=True), main)
        await self._close(asked)
        if self._record is not None:
            self._record.left(self._opened, busy=busy)

    async def close_left(self, dial: Callable[[], Awaitable[NreplConnection]]) -> None:
        """Close the sessions of an earlier connection in which nothing ran when it broke.

        This comes before any session is opened, so that several kills leave no more than one does. Several connections
        by `dial` do it at once, as nREPL keeps each busy for 0.1 s with a session.
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
        """Close sessions, each by a connection, as long as the server answers.

        They are closed one after the other, as servers do anyway, and some mix up two requests at once.
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
    """Ask a server to close a session; whether the session is gone: closed now, or never there."""
    try:
        await connection.ask("close", timeout_s=FAREWELL_S, session=identity)
    except CodriverError:
        return False  # nothing is left to close, or nobody to close it: leaving must not fail
    return True


def _new_session(messages: Sequence[Message]) -> str | None:
    """The id of the session in the answer to `clone`."""
    return next((identity for message in messages if (identity := message.text("new-session"))), None)


logger = logging.getLogger(__name__)

RULES: Final = files.Rules(files.Links.OWN, most_bytes=files.MEBIBYTE, is_granting=True)
"""Sessions in the file are closed, so the file must be the user's own."""
MOST_REPLS: Final = 64
"""The newest addresses that are kept: a REPL that is gone takes its sessions with it, and seldom comes back."""
MOST_SESSIONS: Final = 256
"""The newest sessions kept of one REPL: four times its possible lanes."""
UNIQUE: Final = re.compile(r"[0-9a-f]{32}|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
"""An id of 128 bits, nearly all random: a UUID as nREPL's, or plain."""


class SessionRecord:
    """The record of one workspace, for the life of one server. After a kill, unrecorded sessions stay open.

    `is_ours` says whether the process at an address is ours, and ends with us. Blocking work is done in a thread.
    """

    def __init__(self, path: Path, *, is_ours: Callable[[str], bool] = lambda _: False) -> None:
        self._path = path
        self._is_ours = is_ours
        self._in_turn = anyio.CapacityLimiter(1)
        self._kept: dict[str, list[str]] | None = None
        """The recorded sessions by address; None before the file was read."""
        self._in_use: set[str] = set()
        """The sessions of this server's present connections."""
        self._busy: set[str] = set()
        """The sessions whose connection broke while code ran, which goes on as long as this server."""

    async def opened(self, address: str, session: str) -> None:
        """Record a new session, before anything is done in it."""
        self._in_use.add(session)
        if UNIQUE.fullmatch(session) and not self._is_ours(address):
            await self._in_thread(partial(self._write, address, add=session))

    async def closed(self, address: str, session: str) -> None:
        """Record that the REPL at the address no longer has a session."""
        self._in_use.discard(session)
        await self._in_thread(partial(self._write, address, drop=session))

    def left(self, sessions: Iterable[str], *, busy: Iterable[str]) -> None:
        """Record that the connection of these open sessions is over; code runs in the `busy` ones."""
        self._in_use -= frozenset(sessions)
        self._busy |= frozenset(busy)

    async def to_close(self, address: str, *, with_busy: bool) -> tuple[str, ...]:
        """The sessions at an address that an earlier connection left, of this server or a former one."""
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
            # A kill loses no written data, and after a loss of power the REPL is gone too.
            files.replace(
                self._path, json.dumps(kept).encode("ascii"), links=files.Links.OWN,
                is_durable=False, make_mode=files.PRIVATE_FOLDER,
            )  # fmt: skip
        except OSError as error:
            logger.warning("the sessions opened in %s are not recorded, and left open by a kill: %s", address, error)


def _ids(values: list[object]) -> list[str]:
    return [value for value in values if isinstance(value, str) and UNIQUE.fullmatch(value)]
