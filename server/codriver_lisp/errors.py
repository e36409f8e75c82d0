"""Exceptions of the Lisp package, and the error that explains a refused edit."""

from __future__ import annotations

from dataclasses import dataclass


class LispError(Exception):
    """Base class of all exceptions in this package."""


class TooManyFormsError(LispError, ValueError):
    """The text has more forms than the reader accepts."""


@dataclass(frozen=True, slots=True)
class EditError:
    """The reason for refusing an edit.

    `context` shows the lines around a target that was not found. `balanced_text` is a suggestion for new text whose
    brackets do not balance.
    """

    message: str
    context: str | None = None
    balanced_text: str | None = None


class EditFailedError(LispError):
    """An edit cannot be applied. `error` has the reason."""

    def __init__(self, error: EditError) -> None:
        super().__init__(error.message)
        self.error = error


def truncate(text: str, max_characters: int) -> str:
    """Return `text`, shortened to `max_characters` with an ellipsis at the end if it is longer."""
    return text if len(text) <= max_characters else f"{text[: max_characters - 1]}…"
