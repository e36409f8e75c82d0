"""Cutting texts to so many bytes, never within a character."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Cut:
    """A part of a text, and how many characters of it were left out."""

    text: str
    omitted: int = 0


def head(text: str, max_bytes: int) -> Cut:
    """The longest beginning of `text` within `max_bytes` of UTF-8, on a character boundary."""
    if len(text) * 4 <= max_bytes:
        return Cut(text)
    raw = text[: max_bytes + 1].encode("utf-8", "replace")  # a character has at least one byte
    if len(raw) <= max_bytes:
        return Cut(text)
    kept = raw[:max_bytes].decode("utf-8", "ignore")
    return Cut(kept, len(text) - len(kept))


def tail(text: str, max_bytes: int) -> Cut:
    """The longest end of `text` within `max_bytes` of UTF-8, on a character boundary."""
    if len(text) * 4 <= max_bytes:
        return Cut(text)
    raw = text[-max_bytes - 1 :].encode("utf-8", "replace")
    if len(raw) <= max_bytes:
        return Cut(text)
    kept = raw[len(raw) - max_bytes :].decode("utf-8", "ignore")
    return Cut(kept, len(text) - len(kept))
