r"""Regular expressions with a time limit.

Python's own `re` can neither be interrupted nor does it let other threads run, so one bad pattern would stop the whole
server. The `regex` package can do both. This is the only door to it. The syntax is nearly that of Java: inline flags
such as `(?i)`, `\p{Lu}`, possessive and lazy quantifiers, look-around, `&&` in sets.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, Protocol

import regex  # type: ignore[import-untyped]  # it has no annotations

if TYPE_CHECKING:
    from collections.abc import Callable

MAX_CHARACTERS = 1000  # of a pattern
MAX_MATCHES = 100_000  # of a re-seq
# Letting other threads run costs more than the usual search of a short text, so that is first tried without.
SHORT_CHARACTERS = 4096
SHORT_S = 0.005  # no longer than Python itself lets a thread run before another may


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
    return _match_value(_search(clock, text, partial(pattern.compiled.search, text)))


def matches(clock: Clock, pattern: Pattern, text: str) -> object:
    """The match of the whole text, None if there is none."""
    return _match_value(_search(clock, text, partial(pattern.compiled.fullmatch, text)))


def find_all(clock: Clock, pattern: Pattern, text: str) -> tuple[object, ...] | None:
    """Every match in turn; None if there is none, as in Clojure."""
    return tuple(map(_match_value, _matches(clock, pattern, text))) or None


def split(clock: Clock, pattern: Pattern, text: str, limit: int = 0) -> tuple[str, ...]:
    """The parts between the matches: at most `limit` when above 0, else without empty ones at the end, as in Java."""
    parts: list[str] = []
    place = 0
    for match in _matches(clock, pattern, text):
        if 0 < limit <= len(parts) + 1:
            break
        if match.end() == 0 or (match.start() == match.end() == len(text)):
            continue  # Java splits off no empty text before the first character or after the last
        parts.append(text[place : match.start()])
        place = match.end()
    parts.append(text[place:])
    while limit == 0 and len(parts) > 1 and not parts[-1]:
        parts.pop()
    return tuple(parts)


def _matches(clock: Clock, pattern: Pattern, text: str) -> list[Any]:
    def search(**limits: Any) -> list[Any]:
        return list(islice(pattern.compiled.finditer(text, **limits), MAX_MATCHES + 1))

    found: list[Any] = _search(clock, text, search)
    if len(found) > MAX_MATCHES:
        raise ValueError(f"more than {MAX_MATCHES} matches")
    return found


def _search(clock: Clock, text: str, search: Callable[..., Any]) -> Any:
    """What a search gives within the time left. One that turns out to be long lets other threads run."""
    remaining_s = clock.remaining_s()
    if len(text) < SHORT_CHARACTERS:
        try:
            return search(timeout=min(SHORT_S, remaining_s), concurrent=False)
        except TimeoutError:
            remaining_s = clock.remaining_s()
    try:
        return search(timeout=remaining_s, concurrent=True)
    except TimeoutError:
        raise OutOfTimeError from None


def _match_value(match: Any) -> object:
    """As Clojure gives a match: its text, or a vector of the text and each group's."""
    if match is None:
        return None
    groups = match.groups()
    return (match[0], *groups) if groups else match[0]
