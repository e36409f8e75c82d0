"""The standing queries of all clients: how many there are, and how many rows they remember."""

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
"""The standing queries that a client may always have, whatever the others have."""
MAX_ROWS_OF_A_CLIENT = 1_000_000
"""The rows remembered for a client: eight bytes each, to tell the new rows from the known ones."""
MAX_ROWS = 8_000_000
SURE_ROWS = 100_000


def _too_many_waits(standing: int, most: int, whose: str, unit: str) -> RefusedError:
    """Return one more standing query would exceed the most that a client, or all of them, may have."""
    return refused(
        "too-many-waits",
        f"{standing} {unit} of {whose} are standing already, and {most} are the most that is allowed",
        hint="wait for fewer things at once: ask one query with or, or end calls of wait_for that nobody needs",
        details={"standing": standing, "most": most},
    )


class Waits:
    """Counts the standing queries and the rows that they remember, for the life of one server."""

    def __init__(self) -> None:
        self._waits: Counter[str] = Counter()
        self._rows: Counter[str] = Counter()

    def __len__(self) -> int:
        return self._waits.total()

    @contextmanager
    def standing(self, client: str) -> Iterator[None]:
        """Count one more query of this client as standing, for the length of the context.

        Raises:
            RefusedError: the query would be one too many.
        """
        _check(self._waits, client, 1, (SURE_WAITS, MAX_WAITS_OF_A_CLIENT, MAX_WAITS), "calls of wait_for")
        with _added(self._waits, client, 1):
            yield

    @contextmanager
    def remembering(self, client: str, rows: int) -> Iterator[None]:
        """Count so many rows more as remembered for this client, for the length of the context.

        Raises:
            RefusedError: the rows would be too many.
        """
        _check(self._rows, client, rows, (SURE_ROWS, MAX_ROWS_OF_A_CLIENT, MAX_ROWS), "rows of wait_for")
        with _added(self._rows, client, rows):
            yield


def _check(counted: Counter[str], client: str, more: int, limits: tuple[int, int, int], unit: str) -> None:
    sure, most_of_one, most_of_all = limits
    own, total = counted[client], counted.total()
    if own + more > most_of_one:
        raise _too_many_waits(own, most_of_one, "this client", unit)
    if own + more > sure and total + more > most_of_all:
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
