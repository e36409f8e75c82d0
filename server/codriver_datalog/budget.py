"""The limits of one query: its time, and the rows and memory that it may use at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from codriver_datalog.errors import OutOfRowsError, OutOfTimeError

if TYPE_CHECKING:
    from collections.abc import Callable

MAX_ROWS_IN_MEMORY = (
    600_000  # about 100 MB, and enough for a rule that relates each entity of a full log to all after it
)
"""Maximum number of rows that a query may hold."""
MAX_CREATED_BYTES = 256 * 2**20
"""Maximum size of all values that functions create during a query."""
MAX_UNCOUNTED_LENGTH = 256  # characters or items; values up to here weigh at most the row that holds them
"""Maximum number of characters or items of a value whose size is not counted. It weighs at most as much as its row."""
ITEM_BYTES = 40  # of a number in a tuple
"""Approximate size of a number in a tuple."""


class Budget:
    """The limits of one query. `clock` returns monotonic seconds."""

    def __init__(
        self, clock: Callable[[], float], time_limit_s: float, max_rows_in_memory: int = MAX_ROWS_IN_MEMORY
    ) -> None:
        self._clock = clock
        self._deadline_s = clock() + time_limit_s
        self._rows_left = max_rows_in_memory
        self._bytes_left = MAX_CREATED_BYTES

    def check(self) -> None:
        """Check that there is time left.

        Raises:
            OutOfTimeError: the time limit has been reached.
        """
        if self._clock() >= self._deadline_s:
            raise OutOfTimeError

    def remaining_s(self) -> float:
        """Return the remaining time in seconds, which is always positive.

        Raises:
            OutOfTimeError: the time limit has been reached.
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

    def charge_value(self, value: object) -> None:
        """Count the memory of a value that a function has created.

        Raises:
            OutOfRowsError: the values created so far are too large in total.
        """
        if isinstance(value, str | tuple | frozenset) and len(value) > MAX_UNCOUNTED_LENGTH:
            self._bytes_left -= len(value) * (1 if isinstance(value, str) else ITEM_BYTES)
            if self._bytes_left < 0:
                raise OutOfRowsError
