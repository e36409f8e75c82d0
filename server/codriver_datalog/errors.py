"""The errors of queries."""

from __future__ import annotations

MAX_FOUND_CHARACTERS = 120
"""Characters of a query that an error quotes: enough to recognise the place."""


class DatalogError(Exception):
    """Base class of all errors that this package raises."""


class QueryError(DatalogError):
    """A query, or a string given with it, that cannot be read, understood or run.

    Attributes:
        expected: what would have been valid.
        found: what is in the text instead, cut to `MAX_FOUND_CHARACTERS`.
        line: line in the text, counted from 1.
        column: column in the line, counted from 1.
        part: the text that is wrong: "query", or another one that was given with it, such as "inputs".
    """

    def __init__(self, expected: str, found: str, *, line: int, column: int, part: str = "query") -> None:
        self.expected = expected
        self.found = cut(found, MAX_FOUND_CHARACTERS)
        self.line = line
        self.column = column
        self.part = part
        super().__init__(f"line {line}, column {column} of the {part}: expected {expected}, found {self.found}")


class InvalidPatternError(DatalogError, ValueError):
    """A string that is not a regular expression, or one with a construct that is not allowed."""


class OutOfTimeError(DatalogError):
    """A query that needs more time than its budget allows."""


class OutOfRowsError(DatalogError):
    """A query that needs more rows or memory than its budget allows."""


def cut(text: str, max_characters: int) -> str:
    """Return a string of at most `max_characters`, with an ellipsis at the end if it was cut."""
    return text if len(text) <= max_characters else f"{text[: max_characters - 1]}…"
