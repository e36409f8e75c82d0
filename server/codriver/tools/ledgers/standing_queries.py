"""Limits for the waiting queries of all clients, and for the rows that they remember."""

from __future__ import annotations

from collections import Counter
from contextlib import contextmanager
from typing import TYPE_CHECKING

from codriver.errors import RefusedError, refused

if TYPE_CHECKING:
    from collections.abc import Iterator


MAX_WAITS_OF_A_CLIENT = 64
MAX_WAITS = 512
SURE_WAITS = 8
"""Number of queries that a client may always have waiting, whatever other clients have."""
MAX_ROWS_OF_A_CLIENT = 1_000_000
"""Maximum number of rows remembered for a client, at eight bytes each, to recognise new rows."""
MAX_ROWS = 8_000_000
SURE_ROWS = 100_000


def _too_many_waits(standing: int, most: int, whose: str, unit: str) -> RefusedError:
    """Return the refusal of a query that exceeds the limit for one client or for all."""
    return refused(
        "too-many-waits",
        f"{standing} {unit} of {whose} are waiting already, and the limit is {most}",
        hint="Wait for fewer things at once: combine queries with or, or cancel calls of wait_for that are not needed.",
        details={"standing": standing, "most": most},
    )


class Waits:
    """Counts the waiting queries and the rows that they remember, for the life of one server."""

    def __init__(self) -> None:
        self._waits: Counter[str] = Counter()
        self._rows: Counter[str] = Counter()

    def __len__(self) -> int:
        return self._waits.total()

    @contextmanager
    def standing(self, client: str) -> Iterator[None]:
        """Count one more waiting query of this client in the context.

        Raises:
            RefusedError: the query exceeds a limit.
        """
        _check(self._waits, client, 1, (SURE_WAITS, MAX_WAITS_OF_A_CLIENT, MAX_WAITS), "calls of wait_for")
        with _added(self._waits, client, 1):
            yield

    @contextmanager
    def remembering(self, client: str, rows: int) -> Iterator[None]:
        """Count additional rows as remembered for this client in the context.

        Raises:
            RefusedError: the rows exceed a limit.
        """
        _check(self._rows, client, rows, (SURE_ROWS, MAX_ROWS_OF_A_CLIENT, MAX_ROWS), "rows of wait_for")
        with _added(self._rows, client, rows):
            yield


def _check(counted: Counter[str], client: str, more: int, limits: tuple[int, int, int], unit: str) -> None:
    sure, most_of_one, most_of_all = limits
    of_client, total = counted[client], counted.total()
    if of_client + more > most_of_one:
        raise _too_many_waits(of_client, most_of_one, "this client", unit)
    if of_client + more > sure and total + more > most_of_all:
        raise _too_many_waits(total, most_of_all, "all clients", unit)


@contextmanager
def _added(counted: Counter[str], client: str, more: int) -> Iterator[None]:
    counted[client] += more
    try:
        yield
    finally:
        counted[client] -= more
        if not counted[client]:
            del counted[client]
