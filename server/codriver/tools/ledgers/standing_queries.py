"""Limit the number of queries that wait for log entries, and the rows that these queries remember."""

from __future__ import annotations

from collections import Counter
from contextlib import contextmanager
from typing import TYPE_CHECKING

from codriver.errors import RefusedError, refused

if TYPE_CHECKING:
    from collections.abc import Iterator


MAX_CLIENT_WAITS = 64
"""Maximum number of queries by one client that may wait at the same time."""
MAX_TOTAL_WAITS = 512
"""Maximum number of waiting queries across all clients."""
GUARANTEED_CLIENT_WAITS = 8
"""Number of queries that each client may always have waiting, no matter how many the others have."""
MAX_CLIENT_ROWS = 1_000_000
"""Maximum number of rows remembered for a client, at eight bytes each, to recognize new rows."""
MAX_TOTAL_ROWS = 8_000_000
"""Maximum number of rows remembered for all clients."""
GUARANTEED_CLIENT_ROWS = 100_000
"""Number of rows that can always be remembered for each client."""


def _too_many_waits_error(standing: int, most: int, whose: str, unit: str) -> RefusedError:
    """Create the error for a query that exceeds the limit for one client or for all clients."""
    return refused(
        "too-many-waits",
        f"{standing} {unit} of {whose} are already waiting, and the limit is {most}",
        hint="Wait for fewer things at once: combine queries with or, or cancel calls of wait_for that are not needed.",
        details={"standing": standing, "most": most},
    )


class QueryLimits:
    """Counts waiting queries and the rows that they remember, for the lifetime of one server."""

    def __init__(self) -> None:
        self._waits: Counter[str] = Counter()
        self._rows: Counter[str] = Counter()

    def __len__(self) -> int:
        return self._waits.total()

    @contextmanager
    def count_query(self, client: str) -> Iterator[None]:
        """Count a waiting query of a client while the context is active.

        Raises:
            RefusedError: there are too many waiting queries.
        """
        _check_limits(
            self._waits, client, 1, (GUARANTEED_CLIENT_WAITS, MAX_CLIENT_WAITS, MAX_TOTAL_WAITS), "calls of wait_for"
        )
        with _counted(self._waits, client, 1):
            yield

    @contextmanager
    def count_rows(self, client: str, rows: int) -> Iterator[None]:
        """Count rows that are remembered for a client while the context is active.

        Raises:
            RefusedError: there are too many remembered rows.
        """
        _check_limits(
            self._rows, client, rows, (GUARANTEED_CLIENT_ROWS, MAX_CLIENT_ROWS, MAX_TOTAL_ROWS), "rows of wait_for"
        )
        with _counted(self._rows, client, rows):
            yield


def _check_limits(counted: Counter[str], client: str, more: int, limits: tuple[int, int, int], unit: str) -> None:
    """Check that the count of a client may grow by `more`.

    `limits` are the number guaranteed to each client, the maximum for one client, and the maximum for all clients.

    Raises:
        RefusedError: a limit is exceeded.
    """
    sure, most_of_one, most_of_all = limits
    of_client, total = counted[client], counted.total()
    if of_client + more > most_of_one:
        raise _too_many_waits_error(of_client, most_of_one, "this client", unit)
    if of_client + more > sure and total + more > most_of_all:
        raise _too_many_waits_error(total, most_of_all, "all clients", unit)


@contextmanager
def _counted(counted: Counter[str], client: str, more: int) -> Iterator[None]:
    """Increase the count of a client by `more` while the context is active."""
    counted[client] += more
    try:
        yield
    finally:
        counted[client] -= more
        if not counted[client]:
            del counted[client]
