"""The exceptions of this package, and the value that explains why an edit was refused."""

from __future__ import annotations

from dataclasses import dataclass


class LispError(Exception):
    """Base class of all exceptions in this package."""


class TooManyFormsError(LispError, ValueError):
    """Raised when a source text has more forms than allowed."""


@dataclass(frozen=True, slots=True)
class EditError:
    """The reason why an edit was refused.

    `context` contains the lines around a target that was not found. `balanced_text` is a suggestion if the brackets of
    the new text do not balance.
    """

    message: str
    context: str | None = None
    balanced_text: str | None = None


class EditFailedError(LispError):
    """Raised when an edit cannot be applied. `error` contains the reason."""

    def __init__(self, error: EditError) -> None:
        super().__init__(error.message)
        self.error = error


def truncate(text: str, max_characters: int) -> str:
    """Shorten a string to at most `max_characters`, ending in an ellipsis if anything was removed."""
    return text if len(text) <= max_characters else f"{text[: max_characters - 1]}…"
