"""The result of parinfer: the text corrected, or an error and its place."""

from __future__ import annotations

from dataclasses import dataclass

MESSAGES = {
    "quote-danger": "Quotes must balanced inside comment blocks.",
    "eol-backslash": "Line cannot end in a hanging backslash.",
    "unclosed-quote": "String is missing a closing quote.",
    "unmatched-close-paren": "Unmatched close-paren.",
    "leading-close-paren": "Line cannot lead with a close-paren.",
}
"""What each error says, word for word as editors that know parinfer show it."""

Place = tuple[int, int]
"""A line and a column of the text given, both from 0."""


@dataclass(frozen=True, slots=True)
class ParinferError:
    """An error of parinfer. `opener`: where the bracket is that an unmatched closer should have closed."""

    name: str
    line: int
    x: int
    opener: Place | None = None

    @property
    def message(self) -> str:
        """The error's sentence."""
        return MESSAGES[self.name]


@dataclass(frozen=True, slots=True)
class Result:
    """The text corrected; with an `error`, the text as it was given."""

    text: str
    error: ParinferError | None = None
