"""Limit the time, the rows and the memory that a query uses."""

from __future__ import annotations

from typing import TYPE_CHECKING

from codriver_datalog.errors import OutOfRowsError, OutOfTimeError

if TYPE_CHECKING:
    from collections.abc import Callable

MAX_ROWS_IN_MEMORY = 600_000
"""Maximum number of rows that a query may have in memory at the same time, which is about 100 MB.

This is enough for a rule that relates each entity in a full log to all later ones.
"""
MAX_CREATED_BYTES = 256 * 2**20
"""Maximum total size of the values that functions create during a query."""
MAX_UNCOUNTED_LENGTH = 256
"""Maximum number of characters or items in a value that is not counted, because it is no larger than its row."""
ITEM_BYTES = 40
"""Approximate size of a number in a tuple, in bytes."""


class Budget:
    """Limits the time, rows and memory that one query may use.

    `clock` returns monotonic seconds.
    """

    def __init__(
        self, clock: Callable[[], float], time_limit_s: float, max_rows_in_memory: int = MAX_ROWS_IN_MEMORY
    ) -> None:
        self._clock = clock
        self._deadline_s = clock() + time_limit_s
        self._rows_left = max_rows_in_memory
        self._bytes_left = MAX_CREATED_BYTES

    def check(self) -> None:
        """Check that the time limit has not been reached.

        Raises:
            OutOfTimeError: the time limit has been reached.
        """
        if self._clock() >= self._deadline_s:
            raise OutOfTimeError

    def remaining_s(self) -> float:
        """Return the remaining time in seconds, which is greater than 0.

        Raises:
            OutOfTimeError: the time limit has been reached.
        """
        remaining = self._deadline_s - self._clock()
        if remaining <= 0:
            raise OutOfTimeError
        return remaining

    def charge_rows(self, rows: int) -> None:
        """Add to the number of rows that the query has in memory. A negative number releases rows.

        Raises:
            OutOfRowsError: the query has too many rows in memory.
        """
        self._rows_left -= rows
        if self._rows_left < 0:
            raise OutOfRowsError

    def charge_value(self, value: object) -> None:
        """Count a value created by a function towards the query's memory limit.

        Raises:
            OutOfRowsError: the query has created too much data.
        """
        if isinstance(value, str | tuple | frozenset) and len(value) > MAX_UNCOUNTED_LENGTH:
            self._bytes_left -= len(value) * (1 if isinstance(value, str) else ITEM_BYTES)
            if self._bytes_left < 0:
                raise OutOfRowsError
