"""Errors raised for queries."""

from __future__ import annotations

MAX_FOUND_CHARACTERS = 120
"""Maximum number of characters of a query that an error quotes."""


class DatalogError(Exception):
    """Base class of all errors that this package raises."""


class QueryError(DatalogError):
    """Raised when a query, or a text that belongs to it, cannot be read, understood or run.

    Attributes:
        expected: what would have been valid.
        found: the invalid text, cut to `MAX_FOUND_CHARACTERS`.
        line: the line in the text, starting at 1.
        column: the column in the line, starting at 1.
        part: the text that is invalid: "query", or another one such as "inputs".
    """

    def __init__(self, expected: str, found: str, *, line: int, column: int, part: str = "query") -> None:
        self.expected = expected
        self.found = truncate(found, MAX_FOUND_CHARACTERS)
        self.line = line
        self.column = column
        self.part = part
        super().__init__(f"line {line}, column {column} of the {part}: expected {expected}, found {self.found}")


class InvalidPatternError(DatalogError, ValueError):
    """Raised when a text is not a valid regular expression, or uses a construct that is not allowed."""


class OutOfTimeError(DatalogError):
    """Raised when a query exceeds its time limit."""


class OutOfRowsError(DatalogError):
    """Raised when a query exceeds its limit of rows or memory."""


def truncate(text: str, max_characters: int) -> str:
    """Shorten a text to at most `max_characters`, with an ellipsis at the end if it was cut."""
    return text if len(text) <= max_characters else f"{text[: max_characters - 1]}…"
