"""Query errors: why a query is refused, and where."""

from __future__ import annotations

from typing import ClassVar

from codriver.errors import RefusedError

SHOWN_CHARACTERS = 120  # of a form in an error: enough to know it again


class QueryError(RefusedError):
    """A query that cannot be read, understood or run: what was expected, what was found, and where.

    `line` and `column` count from 1, in the query's text or, when `part` says so, in another text given with it.
    """

    reason: ClassVar[str] = "bad-query"

    def __init__(self, expected: str, found: str, *, line: int, column: int, part: str = "query") -> None:
        if len(found) > SHOWN_CHARACTERS:
            found = found[:SHOWN_CHARACTERS] + "…"
        super().__init__(
            f"line {line}, column {column} of the {part}: expected {expected}, found {found}",
            hint=f"Correct the {part} there and ask again.",
            details={"expected": expected, "found": found, "line": line, "column": column},
        )
        self.expected = expected
        self.found = found
        self.line = line
        self.column = column
