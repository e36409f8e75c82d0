"""Query budget: time, rows held at once, and memory for the values that functions make."""

from __future__ import annotations

from typing import TYPE_CHECKING

from codriver.datalog.regexes import OutOfTimeError

if TYPE_CHECKING:
    from collections.abc import Callable

MAX_HELD_ROWS = 600_000  # about 100 MB, and enough for a rule that relates each entity of a full log to all after it
MAX_MADE_BYTES = 256 * 2**20
SMALL_VALUE = 256  # characters or items; values up to here weigh no more than the row that holds them
ITEM_BYTES = 40  # of a number in a tuple


class OutOfRowsError(Exception):
    """A query that would hold more rows at once than it may."""


class Budget:
    """The budget of one query. `clock` gives seconds that only go up."""

    def __init__(self, clock: Callable[[], float], time_limit_s: float, max_held_rows: int = MAX_HELD_ROWS) -> None:
        self._clock = clock
        self._deadline_s = clock() + time_limit_s
        self._rows_left = max_held_rows
        self._bytes_left = MAX_MADE_BYTES

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
        """So many rows more are held; below 0, so many less.

        Raises:
            OutOfRowsError: these are too many.
        """
        self._rows_left -= rows
        if self._rows_left < 0:
            raise OutOfRowsError

    def make(self, value: object) -> None:
        """A function has made this value, and a row holds it.

        Raises:
            OutOfRowsError: it is too large together with those before.
        """
        if isinstance(value, str | tuple | frozenset) and len(value) > SMALL_VALUE:
            self._bytes_left -= len(value) * (1 if isinstance(value, str) else ITEM_BYTES)
            if self._bytes_left < 0:
                raise OutOfRowsError
