r"""Regular expressions with a time limit.

Python's own `re` can neither be interrupted nor does it let other threads run, so one bad pattern would stop the whole
server. The `regex` package can do both. This is the only door to it. The syntax is nearly that of Java: inline flags
such as `(?i)`, `\p{Lu}`, possessive and lazy quantifiers, look-around, `&&` in sets.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol

import regex  # type: ignore[import-untyped]  # it has no annotations

MAX_CHARACTERS = 1000  # of a pattern
MAX_MATCHES = 100_000  # of a re-seq
LET_OTHERS_RUN_FROM = 4096  # characters of a text; below, letting other threads run costs more than the search


class InvalidPatternError(ValueError):
    """A pattern that is no regular expression: says why."""


class OutOfTimeError(Exception):
    """The time for a query is over."""


class Clock(Protocol):
    """What knows how much time is left."""

    def remaining_s(self) -> float:
        """Seconds left; above 0.

        Raises:
            OutOfTimeError: none are.
        """


@dataclass(frozen=True, slots=True)
class Pattern:
    """A regular expression. Two are the same when their texts are."""

    text: str
    compiled: Any = field(compare=False, repr=False)


def compile_pattern(text: str) -> Pattern:
    """The regular expression of a text.

    Raises:
        InvalidPatternError: there is none, or it is too long.
    """
    if len(text) > MAX_CHARACTERS:
        raise InvalidPatternError(f"it has {len(text)} characters, and {MAX_CHARACTERS} are allowed")
    try:
        return Pattern(text, regex.compile(text, regex.VERSION1, cache_pattern=False))
    except (regex.error, OverflowError, RecursionError, ValueError, KeyError) as error:
        raise InvalidPatternError(str(error)) from None


def find(clock: Clock, pattern: Pattern, text: str) -> object:
    """The first match, None if there is none."""
    try:
        return _match_value(pattern.compiled.search(text, **_limits(clock, text)))
    except TimeoutError:
        raise OutOfTimeError from None


def matches(clock: Clock, pattern: Pattern, text: str) -> object:
    """The match of the whole text, None if there is none."""
    try:
        return _match_value(pattern.compiled.fullmatch(text, **_limits(clock, text)))
    except TimeoutError:
        raise OutOfTimeError from None


def find_all(clock: Clock, pattern: Pattern, text: str) -> tuple[object, ...] | None:
    """Every match in turn; None if there is none, as in Clojure."""
    found: list[object] = []
    try:
        for match in pattern.compiled.finditer(text, **_limits(clock, text)):
            found.append(_match_value(match))
            if len(found) >= MAX_MATCHES:
                raise ValueError(f"more than {MAX_MATCHES} matches")
    except TimeoutError:
        raise OutOfTimeError from None
    return tuple(found) or None


def split(clock: Clock, pattern: Pattern, text: str, limit: int = 0) -> tuple[str, ...]:
    """The parts between the matches: at most `limit` when above 0, else without empty ones at the end, as in Java."""
    parts: list[str] = []
    place = 0
    try:
        for match in pattern.compiled.finditer(text, **_limits(clock, text)):
            if 0 < limit <= len(parts) + 1 or len(parts) >= MAX_MATCHES:
                break
            if match.end() == 0 or (match.start() == match.end() == len(text)):
                continue  # Java splits off no empty text before the first character or after the last
            parts.append(text[place : match.start()])
            place = match.end()
    except TimeoutError:
        raise OutOfTimeError from None
    parts.append(text[place:])
    while limit == 0 and len(parts) > 1 and not parts[-1]:
        parts.pop()
    return tuple(parts)


def _limits(clock: Clock, text: str) -> dict[str, Any]:
    return {"timeout": clock.remaining_s(), "concurrent": len(text) >= LET_OTHERS_RUN_FROM}


def _match_value(match: Any) -> object:
    """As Clojure gives a match: its text, or a vector of the text and each group's."""
    if match is None:
        return None
    groups = match.groups()
    return (match[0], *groups) if groups else match[0]
