"""The budget of one query: its time, and the rows and memory that it may hold at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from codriver_datalog.errors import OutOfRowsError, OutOfTimeError

if TYPE_CHECKING:
    from collections.abc import Callable

MAX_HELD_ROWS = 600_000  # about 100 MB, and enough for a rule that relates each entity of a full log to all after it
MAX_MADE_BYTES = 256 * 2**20
SMALL_VALUE = 256  # characters or items; values up to here weigh no more than the row that holds them
ITEM_BYTES = 40  # of a number in a tuple


class Budget:
    """The budget of one query. `clock` gives seconds and never goes back."""

    def __init__(self, clock: Callable[[], float], time_limit_s: float, max_held_rows: int = MAX_HELD_ROWS) -> None:
        self._clock = clock
        self._deadline_s = clock() + time_limit_s
        self._rows_left = max_held_rows
        self._bytes_left = MAX_MADE_BYTES

    def check(self) -> None:
        """Check the time that is left.

        Raises:
            OutOfTimeError: no time is left.
        """
        if self._clock() >= self._deadline_s:
            raise OutOfTimeError

    def remaining_s(self) -> float:
        """Seconds left; above 0.

        Raises:
            OutOfTimeError: no time is left.
        """
        remaining = self._deadline_s - self._clock()
        if remaining <= 0:
            raise OutOfTimeError
        return remaining

    def hold(self, rows: int) -> None:
        """Count so many rows more as held; below 0, so many less.

        Raises:
            OutOfRowsError: the query holds too many rows.
        """
        self._rows_left -= rows
        if self._rows_left < 0:
            raise OutOfRowsError

    def make(self, value: object) -> None:
        """Count a value that a function made and a row holds.

        Raises:
            OutOfRowsError: the value is too large together with those before.
        """
        if isinstance(value, str | tuple | frozenset) and len(value) > SMALL_VALUE:
            self._bytes_left -= len(value) * (1 if isinstance(value, str) else ITEM_BYTES)
            if self._bytes_left < 0:
                raise OutOfRowsError
