"""The queries that stand at once, and what they may hold: refused is the one that is too many, by its number."""

from __future__ import annotations

from collections import Counter
from contextlib import contextmanager
from typing import TYPE_CHECKING

from codriver.errors import RefusedError

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_WAITS_OF_A_CLIENT = 64
MAX_WAITS = 512
SURE_WAITS = 8
"""A client may have so many, however many the others have."""
MAX_ROWS_OF_A_CLIENT = 1_000_000
"""Eight bytes each are kept, to tell the new rows from those that were there."""
MAX_ROWS = 8_000_000
SURE_ROWS = 100_000


class TooManyWaitsError(RefusedError):
    """One more standing query would be more than a client, or all of them, may have."""

    reason = "too-many-waits"

    def __init__(self, standing: int, most: int, whose: str, unit: str) -> None:
        super().__init__(
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
        """One more query of this client stands, for the length of the context.

        Raises:
            TooManyWaitsError: it would be too many.
        """
        _check(self._waits, client, 1, (SURE_WAITS, MAX_WAITS_OF_A_CLIENT, MAX_WAITS), "calls of wait_for")
        with _added(self._waits, client, 1):
            yield

    @contextmanager
    def remembering(self, client: str, rows: int) -> Iterator[None]:
        """Count so many rows more as remembered for this client, for the length of the context.

        Raises:
            TooManyWaitsError: they would be too many.
        """
        _check(self._rows, client, rows, (SURE_ROWS, MAX_ROWS_OF_A_CLIENT, MAX_ROWS), "rows of wait_for")
        with _added(self._rows, client, rows):
            yield


def _check(counted: Counter[str], client: str, more: int, limits: tuple[int, int, int], unit: str) -> None:
    sure, most_of_one, most_of_all = limits
    own, total = counted[client], counted.total()
    if own + more > most_of_one:
        raise TooManyWaitsError(own, most_of_one, "this client", unit)
    if own + more > sure and total + more > most_of_all:
        raise TooManyWaitsError(total, most_of_all, "all clients", unit)


@contextmanager
def _added(counted: Counter[str], client: str, more: int) -> Iterator[None]:
    counted[client] += more
    try:
        yield
    finally:
        counted[client] -= more
        if not counted[client]:
            del counted[client]
