"""The sessions that we opened in one nREPL server: cloned, and closed again, whatever becomes of the connection."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Final

import anyio

from codriver.errors import CodriverError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Sequence

    from codriver.repls.nrepl.connection import NreplConnection
    from codriver.repls.nrepl.message import Message
    from codriver.repls.nrepl.session_record import SessionRecord
    from codriver.wire.bencode import Value

FAREWELL_S: Final = 1.0
"""How long the end of a connection waits for a server to close its sessions: they are closed for its sake."""
EACH_S: Final = 0.15
"""How much longer for each: nREPL 1.0 takes 0.1 s for one, and closes one after the other."""

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
        """Close sessions, each by a connection, in the time that all may take.

        One after the other: servers do it so, and some mix up two requests at once.
        """
        with anyio.move_on_after(FAREWELL_S + EACH_S * len(sessions)):
            for identity, connection in sessions.items():
                if await _is_closed(connection, identity):
                    await self._forget(identity)

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
