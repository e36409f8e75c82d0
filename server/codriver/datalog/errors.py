"""Query errors: why a query is refused, and where; and the budget of time, rows and memory beyond which it is cut."""

from __future__ import annotations

from typing import TYPE_CHECKING

from codriver.datalog.regexes import OutOfTimeError
from codriver.errors import RefusedError, cut

if TYPE_CHECKING:
    from collections.abc import Callable

SHOWN_CHARACTERS = 120  # of a form in an error: enough to know it again

MAX_HELD_ROWS = 600_000  # about 100 MB, and enough for a rule that relates each entity of a full log to all after it
MAX_MADE_BYTES = 256 * 2**20
SMALL_VALUE = 256  # characters or items; values up to here weigh no more than the row that holds them
ITEM_BYTES = 40  # of a number in a tuple


class QueryError(RefusedError):
    """A query that cannot be read, understood or run: what was expected, what was found, and where.

    `line` and `column` count from 1, in the query's text or, when `part` says so, in another text given with it.
    """

    reason = "bad-query"

    def __init__(self, expected: str, found: str, *, line: int, column: int, part: str = "query") -> None:
        found = cut(found, SHOWN_CHARACTERS)
        super().__init__(
            f"line {line}, column {column} of the {part}: expected {expected}, found {found}",
            hint=f"Correct the {part} there and ask again.",
            details={"expected": expected, "found": found, "line": line, "column": column},
        )
        self.expected = expected
        self.found = found
        self.line = line
        self.column = column


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
        """Check the time that is left.

        Raises:
            OutOfTimeError: there is none.
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
        """Count so many rows more as held; below 0, so many less.

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
