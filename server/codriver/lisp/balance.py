"""Balancing the brackets of a text by its indentation."""

from __future__ import annotations

from dataclasses import dataclass

from codriver.lisp.reader import Unbalanced, check


@dataclass(frozen=True, slots=True)
class Balanced:
    """The balanced text; `error` says why it could not be balanced, and then `text` is as it was."""

    text: str
    changed: bool
    error: Unbalanced | None = None


def balance(text: str) -> Balanced:
    """The text with balanced brackets, if it has them."""
    return Balanced(text, changed=False, error=check(text))
