"""The limits of one query: its time, and the rows and memory that it may use at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from codriver_datalog.errors import OutOfRowsError, OutOfTimeError

if TYPE_CHECKING:
    from collections.abc import Callable

MAX_ROWS_IN_MEMORY = (
    600_000  # about 100 MB, and enough for a rule that relates each entity of a full log to all after it
)
MAX_MADE_BYTES = 256 * 2**20
SMALL_VALUE = 256  # characters or items; values up to here weigh at most the row that holds them
ITEM_BYTES = 40  # of a number in a tuple


class Budget:
    """The limits of one query. `clock` returns monotonic seconds."""

    def __init__(
        self, clock: Callable[[], float], time_limit_s: float, max_rows_in_memory: int = MAX_ROWS_IN_MEMORY
    ) -> None:
        self._clock = clock
        self._deadline_s = clock() + time_limit_s
        self._rows_left = max_rows_in_memory
        self._bytes_left = MAX_MADE_BYTES

    def check(self) -> None:
        """Check that there is time left.

        Raises:
            OutOfTimeError: the time is over.
        """
        if self._clock() >= self._deadline_s:
            raise OutOfTimeError

    def remaining_s(self) -> float:
        """Return the remaining time in seconds, which is always positive.

        Raises:
            OutOfTimeError: the time is over.
        """
        remaining = self._deadline_s - self._clock()
        if remaining <= 0:
            raise OutOfTimeError
        return remaining

    def charge_rows(self, rows: int) -> None:
        """Count rows that the query holds. A negative number releases rows.

        Raises:
            OutOfRowsError: the query holds too many rows.
        """
        self._rows_left -= rows
        if self._rows_left < 0:
            raise OutOfRowsError

    def make(self, value: object) -> None:
        """Count the memory of a value that a function has created.

        Raises:
            OutOfRowsError: the created values are too large in total.
        """
        if isinstance(value, str | tuple | frozenset) and len(value) > SMALL_VALUE:
            self._bytes_left -= len(value) * (1 if isinstance(value, str) else ITEM_BYTES)
            if self._bytes_left < 0:
                raise OutOfRowsError
