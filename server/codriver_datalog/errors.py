"""Exceptions raised for queries."""

from __future__ import annotations

MAX_FOUND_CHARACTERS = 120
"""Maximum number of characters that an error quotes from a query."""


class DatalogError(Exception):
    """Base class of this package's exceptions."""


class QueryError(DatalogError):
    """Raised when a query or its inputs are invalid, or when a clause cannot be run.

    Attributes:
        reason: what is wrong, such as "expected a form".
        found: the invalid text, truncated to `MAX_FOUND_CHARACTERS`.
        line: the line of the invalid text, starting at 1.
        column: the column of the invalid text, starting at 1.
        part: the text that contains the error, such as "query" or "inputs".
    """

    def __init__(self, reason: str, found: str, *, line: int, column: int, part: str = "query") -> None:
        self.reason = reason
        self.found = truncate(found, MAX_FOUND_CHARACTERS)
        self.line = line
        self.column = column
        self.part = part
        super().__init__(f"line {line}, column {column} of the {part}: {reason}, found {self.found}")


class InvalidPatternError(DatalogError, ValueError):
    """Raised when a regular expression is invalid or uses an unsupported construct."""


class OutOfTimeError(DatalogError):
    """Raised when a query exceeds its time limit."""


class OutOfRowsError(DatalogError):
    """Raised when a query exceeds its limit on rows or memory."""


def truncate(text: str, max_characters: int) -> str:
    """Shorten a string to at most `max_characters`, ending in an ellipsis if anything was removed."""
    return text if len(text) <= max_characters else f"{text[: max_characters - 1]}…"
