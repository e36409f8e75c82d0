"""The open connections to the page. Their number is limited, and idle ones are closed to make room for new ones."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

import anyio

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

T = TypeVar("T")


class TooManyConnectionsError(Exception):
    """Raised when the maximum number of connections is open and none of them is idle."""


class Connection:
    """An open connection to the page."""

    def __init__(self) -> None:
        self.has_been_used = False
        """Whether the connection has been used for an admitted request. Unused connections are closed first."""
        self.waiting: anyio.CancelScope | None = None
        """The scope of a wait for a request. The connection may be closed during such a wait."""

    async def wait_for(self, request: Callable[[], Awaitable[T | None]]) -> T | None:
        """Call `request` and return its result. Return None if the connection is closed to make room for a new one."""
        with anyio.CancelScope() as scope:
            self.waiting = scope
            try:
                return await request()
            finally:
                self.waiting = None
        return None


class Connections:
    """The open connections to the page, limited in number."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._open: dict[Connection, None] = {}
        """The connections, oldest first."""

    @contextmanager
    def admit(self) -> Iterator[Connection]:
        """Count a connection as open while the context is active.

        If there are too many connections, close the oldest idle one.

        Raises:
            TooManyConnectionsError: there are too many connections, and none is idle.
        """
        if len(self._open) >= self._limit:
            self._close_oldest_idle()
        connection = Connection()
        self._open[connection] = None
        try:
            yield connection
        finally:
            self._open.pop(connection, None)

    def _close_oldest_idle(self) -> None:
        idle = [
            (open_connection.has_been_used, scope, open_connection)
            for open_connection in self._open
            if (scope := open_connection.waiting) is not None
        ]
        if not idle:
            raise TooManyConnectionsError
        _, scope, connection = min(idle, key=lambda found: found[0])
        del self._open[connection]
        scope.cancel()
