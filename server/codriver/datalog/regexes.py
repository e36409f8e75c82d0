r"""Regular expressions with a time limit.

Python's own `re` can neither be interrupted nor does it let other threads run, so one bad pattern would stop the whole
server. The `regex` package can do both. This is the only door to it. The syntax is nearly that of Java: inline flags
such as `(?i)`, `\p{Lu}`, possessive and lazy quantifiers, look-around, `&&` in sets.

What no limit on time bounds is refused before it runs: recursion and fuzzy matching anywhere, and long texts where each
repetition of a group takes memory.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from time import monotonic
from typing import TYPE_CHECKING, Any, Protocol

import regex  # type: ignore[import-untyped]  # it has no annotations

from codriver.datalog.regex_syntax import Shape, shape

if TYPE_CHECKING:
    from collections.abc import Callable

MAX_CHARACTERS = 1000  # of a pattern
MAX_MATCHES = 100_000  # of a re-seq
# Letting other threads run costs more than the usual search of a short text, so that is first tried without.
SHORT_CHARACTERS = 4096
SHORT_S = 0.005  # no longer than Python itself lets a thread run before another may
# The package counts seconds of the process's processors, which on a busy machine take several of the clock's. So a
# search that is not over after this many is begun again with the time that is left, at the pace that was seen.
TRIAL_S = 0.1
MAX_SEARCH_BYTES = 64 * 2**20
# Measured with random patterns on texts of 200,000 characters: 121 with one repeated group, 1,070 with fifteen.
BYTES_A_CHARACTER = 130
BYTES_A_REPEATED = 75


class InvalidPatternError(ValueError):
    """A pattern that is no regular expression: says why."""


class OutOfTimeError(Exception):
    """A query whose time is over."""


class Clock(Protocol):
    """A clock that knows how much time is left."""

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
    max_characters: int | None = field(default=None, compare=False, repr=False)
    """The longest text that it is run on; None is any."""


def compile_pattern(text: str) -> Pattern:
    """The regular expression of a text.

    Raises:
        InvalidPatternError: there is none, it is too long, or it has a construct that is not allowed.
    """
    if len(text) > MAX_CHARACTERS:
        raise InvalidPatternError(f"it has {len(text)} characters, and {MAX_CHARACTERS} are allowed")
    found = shape(text)
    if found.refused is not None:
        name, written, instead = found.refused.name, found.refused.text, found.refused.instead
        raise InvalidPatternError(f"it has {name}, {written}, which can take more than any limit; {instead}")
    try:
        compiled = regex.compile(text, regex.VERSION1, cache_pattern=False)
    except (regex.error, OverflowError, RecursionError, ValueError, KeyError) as error:
        raise InvalidPatternError(str(error)) from None
    return Pattern(text, compiled, _max_characters(found))


def _max_characters(found: Shape) -> int | None:
    """The longest text for which the repetitions of a pattern fit into memory."""
    if not found.repeated:
        return None
    return MAX_SEARCH_BYTES // (BYTES_A_CHARACTER + BYTES_A_REPEATED * found.repeated)


def find(clock: Clock, pattern: Pattern, text: str) -> object:
    """The first match, None if there is none."""
    return _match_value(_search(clock, pattern, text, partial(pattern.compiled.search, text)))


def matches(clock: Clock, pattern: Pattern, text: str) -> object:
    """The match of the whole text, None if there is none."""
    return _match_value(_search(clock, pattern, text, partial(pattern.compiled.fullmatch, text)))


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

    found: list[Any] = _search(clock, pattern, text, search)
    if len(found) > MAX_MATCHES:
        raise ValueError(f"more than {MAX_MATCHES} matches")
    return found


def _search(clock: Clock, pattern: Pattern, text: str, search: Callable[..., Any]) -> Any:
    """What a search gives within the time left. One that turns out to be long lets other threads run."""
    if pattern.max_characters is not None and len(text) > pattern.max_characters:
        raise ValueError(
            f"the pattern repeats a group, which takes memory for each time: it is run on texts of at most"
            f" {pattern.max_characters} characters, and this one has {len(text)}; search it without a group that is"
            f" repeated, or a part of it with subs"
        )
    try:
        if len(text) < SHORT_CHARACTERS:
            with suppress(TimeoutError):
                return search(timeout=min(SHORT_S, clock.remaining_s()), concurrent=False)
        return _paced(clock, search)
    except MemoryError:
        raise ValueError(f"the pattern takes too much memory on a text of {len(text)} characters") from None


def _paced(clock: Clock, search: Callable[..., Any]) -> Any:
    """What a search gives within the time left, however busy the machine is."""
    began_s = monotonic()
    trial_s = min(TRIAL_S, clock.remaining_s())
    try:
        return search(timeout=trial_s, concurrent=True)
    except TimeoutError:
        pace = trial_s / max(monotonic() - began_s, trial_s)
    try:
        return search(timeout=clock.remaining_s() * pace, concurrent=True)
    except TimeoutError:
        raise OutOfTimeError from None


def _match_value(match: Any) -> object:
    """As Clojure gives a match: its text, or a vector of the text and each group's."""
    if match is None:
        return None
    groups = match.groups()
    return (match[0], *groups) if groups else match[0]
