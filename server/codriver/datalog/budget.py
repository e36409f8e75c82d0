"""What a query may spend: time, and rows held at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from codriver.datalog.matching import OutOfTimeError

if TYPE_CHECKING:
    from collections.abc import Callable

MAX_HELD_ROWS = 500_000  # about 100 MB of rows


class OutOfRowsError(Exception):
    """The query would hold more rows at once than it may."""


class Budget:
    """The budget of one query. `clock` gives seconds that only go up."""

    def __init__(self, clock: Callable[[], float], time_limit_s: float, max_held_rows: int = MAX_HELD_ROWS) -> None:
        self._clock = clock
        self._deadline_s = clock() + time_limit_s
        self._rows_left = max_held_rows

    def check(self) -> None:
        """Go on.

        Raises:
            OutOfTimeError: no.
        """
        if self._clock() >= self._deadline_s:
            raise OutOfTimeError

    def remaining_s(self) -> float:
        """Seconds left; above 0.

        Raises:
            OutOfTimeError: none are.
        """
        remaining = self._deadline_s - self._clock()
        if remaining <= 0:
            raise OutOfTimeError
        return remaining

    def hold(self, rows: int) -> None:
        """So many rows more are held until the query ends.

        Raises:
            OutOfRowsError: these are too many.
        """
        self._rows_left -= rows
        if self._rows_left < 0:
            raise OutOfRowsError
