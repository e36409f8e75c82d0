"""Sessions that Codriver has opened on a server, which it closes even if the connection is lost."""

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

CLOSE_TIMEOUT_S: Final = 1.0
"""Seconds to wait for a session to close. nREPL 1.0 takes 0.1 s, and longer if it is busy."""
MAX_CLOSE_FAILURES: Final = 2
"""Number of consecutive failures to close a session after which the server is assumed to hang."""
CLOSE_ALL_TIMEOUT_S: Final = 10.0
"""Seconds to wait for all sessions to close."""

MAX_CLOSING_CONNECTIONS: Final = 8
"""Maximum number of concurrent connections for closing the sessions of an earlier connection."""


class OpenedSessions:
    """The sessions that Codriver has opened on the server at `address`. An instance lives as long as its adapter.

    `record` is a file that outlives the process.
    """

    def __init__(self, address: str, record: SessionRecord | None) -> None:
        self._address = address
        self._record = record
        self._opened: dict[str, NreplConnection] = {}
        """The connection of each session, by id."""

    async def clone(self, connection: NreplConnection, *, timeout_s: float, **fields: Value) -> str | None:
        """Open a session on `connection`, and return its id, or None if the server does not report an id.

        `fields` are added to the request.

        Raises:
            OpTimedOutError: the server did not answer in time.
            ReplDisconnectedError: the connection ended first.
        """
        identity = _new_session(await connection.request("clone", timeout_s=timeout_s, **fields))
        if identity:
            self._opened[identity] = connection
            if self._record is not None:
                await self._record.record_opened(self._address, identity)
        return identity

    async def close(self, identity: str) -> None:
        """Close a session. If the server does not answer, the session stays in the record."""
        connection = self._opened.get(identity)
        if connection is not None and await _close_session(connection, identity):
            await self._forget(identity)

    async def close_all(self, main: NreplConnection | None, *, busy: Iterable[str]) -> None:
        """Close every session, including those left open by an earlier connection.

        `main` is the connection used to close those, and `busy` contains the sessions in which code is still running.
        If a busy session cannot be closed, the next connection to the server leaves it open.
        """
        opened = dict(self._opened)
        if self._record is not None and main is not None and main.cause is None:
            opened |= dict.fromkeys(await self._record.sessions_to_close(self._address, with_busy=True), main)
        await self._close(opened)
        if self._record is not None:
            self._record.record_left_open(self._opened, busy=busy)

    async def close_leftover_sessions(self, dial: Callable[[], Awaitable[NreplConnection]]) -> None:
        """Close the sessions of an earlier connection that were idle when the connection was lost.

        This happens before any session is opened, so that sessions do not accumulate if Codriver is killed repeatedly.
        Several connections made with `dial` are used concurrently, because nREPL takes 0.1 s per session.
        """
        if self._record is None or not (left := await self._record.sessions_to_close(self._address, with_busy=False)):
            return

        async def close(sessions: Sequence[str]) -> None:
            with suppress(CodriverError):
                connection = await dial()
                try:
                    await self._close(dict.fromkeys(sessions, connection))
                finally:
                    await connection.close()

        async with anyio.create_task_group() as tasks:
            for number in range(min(MAX_CLOSING_CONNECTIONS, len(left))):
                tasks.start_soon(close, left[number::MAX_CLOSING_CONNECTIONS])

    async def _close(self, sessions: dict[str, NreplConnection]) -> None:
        """Close sessions one after another, until the server stops answering.

        Servers process these requests in order anyway, and some confuse simultaneous requests.
        """
        silent = 0
        with anyio.move_on_after(CLOSE_ALL_TIMEOUT_S):
            for identity, connection in sessions.items():
                if await _close_session(connection, identity):
                    await self._forget(identity)
                    silent = 0
                elif (silent := silent + 1) == MAX_CLOSE_FAILURES:
                    return

    async def _forget(self, identity: str) -> None:
        self._opened.pop(identity, None)
        if self._record is not None:
            await self._record.record_closed(self._address, identity)


async def _close_session(connection: NreplConnection, identity: str) -> bool:
    """Close a session, and return whether the server confirmed that."""
    try:
        await connection.request("close", timeout_s=CLOSE_TIMEOUT_S, session=identity)
    except CodriverError:
        return False  # the connection is gone, which must not prevent the adapter from closing
    return True


def _new_session(messages: Sequence[Message]) -> str | None:
    """Return the id of the new session in the reply to `clone`, or None if there is none."""
    return next((identity for message in messages if (identity := message.text("new-session"))), None)
