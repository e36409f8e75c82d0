"""The errors of reading and editing Lisp text."""

from __future__ import annotations

from dataclasses import dataclass


class LispError(Exception):
    """Base class of all errors that this package raises."""


class TooManyFormsError(LispError, ValueError):
    """A string with more forms than the reader's limit."""


@dataclass(frozen=True, slots=True)
class EditError:
    """Why an edit was refused, with the lines around a wrong target and the new text balanced."""

    message: str
    context: str | None = None
    balanced_text: str | None = None


class EditFailedError(LispError):
    """An edit that cannot be applied."""

    def __init__(self, error: EditError) -> None:
        super().__init__(error.message)
        self.error = error


def cut(text: str, max_characters: int) -> str:
    """Return a string of at most `max_characters`, with an ellipsis at the end if it was cut."""
    return text if len(text) <= max_characters else f"{text[: max_characters - 1]}…"
