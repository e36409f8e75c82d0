"""The sessions that Codriver opened on a server, which are closed again, whatever becomes of the connection."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Final

import anyio

from codriver.errors import CodriverError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Sequence

    from codriver.repls.nrepl.connection import Message, NreplConnection
    from codriver.repls.nrepl.session_record import SessionRecord
    from codriver.wire.bencode import Value

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
            OpTimedOutError, ReplDisconnectedError: as `NreplConnection.request`.
        """
        identity = _new_session(await connection.request("clone", timeout_s=timeout_s, **fields))
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
        opened = dict(self._opened)
        if self._record is not None and main is not None and main.cause is None:
            opened |= dict.fromkeys(await self._record.to_close(self._address, with_busy=True), main)
        await self._close(opened)
        if self._record is not None:
            self._record.left(self._opened, busy=busy)

    async def close_left(self, dial: Callable[[], Awaitable[NreplConnection]]) -> None:
        """Close the sessions of an earlier connection in which nothing ran when it broke.

        This comes before any session is opened, so that several kills leave at most one does. Several connections by
        `dial` do it at once, as nREPL keeps each busy for 0.1 s with a session.
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
        await connection.request("close", timeout_s=FAREWELL_S, session=identity)
    except CodriverError:
        return False  # nothing is left to close, or nobody to close it: leaving must not fail
    return True


def _new_session(messages: Sequence[Message]) -> str | None:
    """Return the id of the session in the answer to `clone`."""
    return next((identity for message in messages if (identity := message.text("new-session"))), None)
