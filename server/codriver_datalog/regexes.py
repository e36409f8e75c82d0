r"""Regular expressions with a time limit.

Python's `re` cannot be interrupted and does not let other threads run, so one bad pattern would block the whole server.
The `regex` package supports both, and only this module uses it. The syntax is almost the same as Java's: inline flags
such as `(?i)`, `\p{Lu}`, possessive and lazy quantifiers, look-around, and `&&` in sets.

Constructs that a time limit cannot bound are refused before they run: recursion, fuzzy matching, and patterns whose
repeated groups need too much memory on long strings.
"""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from time import monotonic
from typing import TYPE_CHECKING, Any, Protocol

from codriver_datalog.errors import InvalidPatternError, OutOfTimeError

if TYPE_CHECKING:
    from collections.abc import Callable

SET_OPERATORS = ("||", "~~", "&&", "--")
"""Set operators, which are forbidden in a set of characters."""
NAMED_ESCAPE_PATTERN = re.compile(r"[pPN]\{\^?[\w \-&./:=]+\}")
CLASS_ESCAPES = frozenset("dDhsSwW")
"""Escapes that match several different characters, so they cannot start a range in a set."""
GROUP_NAME_PATTERN = re.compile(r"<\w+>")
POSIX_CLASS_PATTERN = re.compile(r"\[:\^?[\w \-&./:=]*?:\]")
FLAGS_PATTERN = re.compile(r"(?P<on>[A-Za-z01]*)(?:-(?P<off>[A-Za-z]*))?(?P<end>[:)])")
"""Matches the flags after `(?`: those to turn on and those to turn off."""
NON_SINGLE_CHARACTER_ESCAPES = frozenset("123456789gXRbBAZGKmM")
"""Escapes that match no character, or more than one. Repeating one needs as much memory as repeating a group."""
GROUP_CALL_PATTERN = re.compile(r"R|[0-9]|&|[+-][0-9]|P[>&]")
"""Matches the start of a group that calls another group."""
FUZZY_PATTERN = re.compile(r"\{(?:[deis]|[0-9]+<|[0-9]*[dis][+<])")
"""Matches the start of a fuzzy match, which allows errors."""
REPEAT_PATTERN = re.compile(r"[*+]|\{[0-9]*,?[0-9]*\}")
"""Matches a quantifier that may repeat more than once."""
VERBOSE_SPACE_PATTERN = re.compile(r"(?:\s|#[^\n]*(?:\n|$))+")

MAX_PATTERN_CHARACTERS = 1000
"""Maximum length of a regular expression, in characters."""
MAX_MATCHES = 100_000
"""Maximum number of matches that `re-seq` returns."""
# Letting other threads run costs more than a typical search in a short text, so a short text is first searched without.
SHORT_TEXT_CHARACTERS = 4096
"""Maximum length of a string that is first searched without letting other threads run, because that is faster."""
BLOCKING_SEARCH_LIMIT_S = 0.005
"""Time limit, in seconds, for a search that blocks other threads.

This is also the time after which Python switches to another thread by default.
"""
# The package counts seconds of CPU time, each of which may take several seconds of real time on a busy machine. So a
# search that has not finished after this many is started again with the remaining time, at the observed pace.
TRIAL_S = 0.1
"""Time limit for the first attempt at a search, in seconds."""
MAX_SEARCH_BYTES = 64 * 2**20
"""Maximum memory that a search may need according to estimates, in bytes."""
# Measured with random patterns on strings of 200,000 characters: 121 with one repeated group, 1,070 with fifteen.
BYTES_PER_CHARACTER = 130
"""Estimated memory that a search needs for each character in the text, in bytes."""
BYTES_PER_REPETITION = 75
"""Estimated additional memory, in bytes, for each character in the text and each repeated group in the pattern."""


@dataclass(frozen=True, slots=True)
class ForbiddenConstruct:
    """A construct that patterns must not contain: its name, its text in the pattern, and an alternative."""

    name: str
    text: str
    instead: str


@dataclass(frozen=True, slots=True)
class PatternShape:
    """The result of scanning a pattern: its first forbidden construct, and its repetitions that need memory.

    `repeated` counts the groups that are repeated or inside repeated groups, and parts of variable length such as
    graphemes.
    """

    refused: ForbiddenConstruct | None
    repeated: int


def inspect_pattern(pattern: str) -> PatternShape:
    """Scan a pattern for forbidden constructs and repetitions. The pattern may be invalid."""
    reading = _PatternScanner(pattern)
    reading.run()
    return PatternShape(reading.refused, reading.repeated)


class _PatternScanner:
    """Scans a pattern for forbidden constructs and repetitions."""

    def __init__(self, pattern: str) -> None:
        self.refused: ForbiddenConstruct | None = None
        self.repeated = 0
        self._text = pattern
        self._position = 0
        self._is_verbose = False
        self._open: list[tuple[bool, int]] = []
        """For each open group, whether verbose mode was on before it, and the number of groups that were closed before
        it.
        """
        self._closed_groups = 0

    def run(self) -> None:
        """Scan the pattern up to its end or the first forbidden construct."""
        while self.refused is None and self._position < len(self._text):
            if self._is_verbose and (space := VERBOSE_SPACE_PATTERN.match(self._text, self._position)):
                self._position = space.end()
                continue
            character = self._text[self._position]
            self._position += 1
            match character:
                case "\\":
                    self._scan_outer_escape()
                case "[":
                    self._scan_set()
                case "(":
                    self._scan_group()
                case ")":
                    self._end_group()
                case "{" if found := FUZZY_PATTERN.match(self._remaining_pattern("{")):
                    self._refuse(
                        "fuzzy matching", found[0], 'escape the brace as \\{, or write out the variants, as in "a|b"'
                    )

    def _remaining_pattern(self, before: str = "") -> str:
        """Return the rest of the pattern. In verbose mode, leading whitespace and comments are skipped."""
        rest = self._text[self._position :]
        return before + (VERBOSE_SPACE_PATTERN.sub("", rest) if self._is_verbose else rest)

    def _skip(self, text: str) -> bool:
        """Skip `text` if the rest of the pattern starts with it, and return whether it does."""
        if not self._text.startswith(text, self._position):
            return False
        self._position += len(text)
        return True

    def _refuse(self, name: str, text: str, instead: str) -> None:
        """Record a forbidden construct and end the scan."""
        self.refused = ForbiddenConstruct(name, text, instead)

    def _scan_outer_escape(self) -> None:
        escaped = self._text[self._position : self._position + 1]
        self._scan_escape()
        if escaped in NON_SINGLE_CHARACTER_ESCAPES:
            self._skip_group_name()
            self.repeated += bool(REPEAT_PATTERN.match(self._remaining_pattern()))

    def _skip_group_name(self) -> None:
        """Skip a group name in angle brackets, if there is one."""
        if name := GROUP_NAME_PATTERN.match(self._text, self._position):
            self._position = name.end()

    def _scan_escape(self) -> bool:
        """Scan an escape after its backslash, and return whether it matches a single character."""
        named = NAMED_ESCAPE_PATTERN.match(self._text, self._position)
        escaped = self._text[self._position : self._position + 1]
        self._position = named.end() if named else self._position + 1
        return not (named and escaped != "N") and escaped not in CLASS_ESCAPES

    def _scan_group(self) -> None:
        """Scan the start of a group, such as `(?:` or `(?<name>`."""
        if self._skip("?#"):
            self._scan_comment()
            return
        self._open.append((self._is_verbose, self._closed_groups))
        if not self._skip("?"):
            return
        rest = self._remaining_pattern()
        if call := GROUP_CALL_PATTERN.match(rest):
            closing = rest.find(")")
            text = f"(?{rest[: closing + 1] if 0 <= closing < 40 else call[0]}"
            self._refuse("recursion", text, "write out the group's pattern again, nested as deeply as necessary")
        elif rest[:1] not in {"P", "<", "=", "!", "(", ">", "|"}:
            self._scan_flags(rest)

    def _scan_comment(self) -> None:
        """Scan a comment, including its closing parenthesis."""
        while self._position < len(self._text):
            self._position += 1
            if self._text[self._position - 1] == ")":
                return
            if self._text[self._position - 1] == "\\":
                self._position += 1

    def _scan_flags(self, rest: str) -> None:
        """Scan flags, which apply to their own group or to the rest of the enclosing group."""
        flags = FLAGS_PATTERN.match(rest)
        if flags is None:
            return
        if "V" in flags["on"]:
            text = f"(?{flags[0]}"
            self._refuse(
                "a change of the syntax version", text, "omit the flag, because the syntax is always version 1"
            )
            return
        is_verbose = (self._is_verbose or "x" in flags["on"]) and "x" not in (flags["off"] or "")
        self._position = self._text.index(flags["end"], self._position) + 1
        if flags["end"] == ")":
            self._open.pop()
        self._is_verbose = is_verbose

    def _end_group(self) -> None:
        """Scan the end of a group. If the group is repeated, count the groups in it."""
        if not self._open:
            return
        self._is_verbose, closed_before = self._open.pop()
        self._closed_groups += 1
        if REPEAT_PATTERN.match(self._remaining_pattern()):
            self.repeated += self._closed_groups - closed_before

    def _scan_set(self) -> None:
        """Scan a set after its opening bracket, including nested sets."""
        depth = 1
        self._skip("^")
        must_be_member = True  # the first bracket after an opening one or an operator is a character
        while depth and self._position < len(self._text):
            if not must_be_member and self._skip("]"):
                depth -= 1
            elif not must_be_member and any(map(self._skip, SET_OPERATORS)):
                must_be_member = True
            elif self._opens_set():
                depth += 1
                self._skip("^")
                must_be_member = True
            else:
                self._scan_member()
                must_be_member = False

    def _opens_set(self) -> bool:
        """Skip the opening bracket of a nested set, and return whether there is one."""
        return not POSIX_CLASS_PATTERN.match(self._text, self._position) and self._skip("[")

    def _scan_member(self) -> None:
        """Scan a member of a set: a character, a class or a range."""
        is_character = self._scan_set_item()
        dash = self._position
        if not is_character or not self._skip("-"):
            return
        if self._skip("-"):
            self._position = dash
        elif not self._text.startswith(("]", "["), self._position):
            self._scan_set_item()

    def _scan_set_item(self) -> bool:
        """Scan a character or class in a set, and return whether it is a single character."""
        if posix := POSIX_CLASS_PATTERN.match(self._text, self._position):
            self._position = posix.end()
            return False
        self._position += 1
        return self._text[self._position - 1] != "\\" or self._scan_escape()


class Clock(Protocol):
    """A clock with a time limit, such as `Budget`."""

    def remaining_s(self) -> float:
        """Return the remaining time in seconds, which is greater than 0.

        Raises:
            OutOfTimeError: the time limit has been reached.
        """


@dataclass(frozen=True, slots=True)
class Pattern:
    """A compiled regular expression. Patterns with the same text are equal."""

    text: str
    compiled: Any = field(compare=False, repr=False)
    max_characters: int | None = field(default=None, compare=False, repr=False)
    """The maximum length of a string on which the pattern is run, or None for any length."""


def compile_pattern(text: str) -> Pattern:
    """Compile a regular expression.

    Raises:
        InvalidPatternError: the text is invalid or too long, or contains a forbidden construct.
    """
    if len(text) > MAX_PATTERN_CHARACTERS:
        raise InvalidPatternError(
            f"the pattern has {len(text)} characters, but at most {MAX_PATTERN_CHARACTERS} are allowed"
        )
    found = inspect_pattern(text)
    if found.refused is not None:
        name, written, instead = found.refused.name, found.refused.text, found.refused.instead
        raise InvalidPatternError(
            f"the pattern contains {name}, {written}, which can exceed any time or memory limit; {instead}"
        )
    # The package has no annotations; it takes 1.4 MB, and few queries need it.
    import regex  # type: ignore[import-untyped]  # noqa: PLC0415

    try:
        compiled = regex.compile(text, regex.VERSION1, cache_pattern=False)
    except (regex.error, OverflowError, RecursionError, ValueError, KeyError) as error:
        raise InvalidPatternError(str(error)) from None
    return Pattern(text, compiled, _max_characters(found))


def _max_characters(found: PatternShape) -> int | None:
    """Return the maximum length of a string that can be searched with limited memory, or None for any length."""
    if not found.repeated:
        return None
    return MAX_SEARCH_BYTES // (BYTES_PER_CHARACTER + BYTES_PER_REPETITION * found.repeated)


def find_first(clock: Clock, pattern: Pattern, text: str) -> object:
    """Return the first match in a string, or None."""
    return _match_value(_search(clock, pattern, text, partial(pattern.compiled.search, text)))


def match_whole(clock: Clock, pattern: Pattern, text: str) -> object:
    """Return the match if the pattern matches the whole text, or None."""
    return _match_value(_search(clock, pattern, text, partial(pattern.compiled.fullmatch, text)))


def find_all(clock: Clock, pattern: Pattern, text: str) -> tuple[object, ...] | None:
    """Return all matches in a string, or None if there are none, as in Clojure."""
    return tuple(map(_match_value, _matches(clock, pattern, text))) or None


def split(clock: Clock, pattern: Pattern, text: str, limit: int = 0) -> tuple[str, ...]:
    """Split a string at the matches, as in Java.

    A positive `limit` is the maximum number of parts. Without it, empty parts at the end are dropped.
    """
    parts: list[str] = []
    position = 0
    for match in _matches(clock, pattern, text):
        if 0 < limit <= len(parts) + 1:
            break
        if match.end() == 0 or (match.start() == match.end() == len(text)):
            continue  # Java does not split off an empty text at the start or end
        parts.append(text[position : match.start()])
        position = match.end()
    parts.append(text[position:])
    while limit == 0 and len(parts) > 1 and not parts[-1]:
        parts.pop()
    return tuple(parts)


def _matches(clock: Clock, pattern: Pattern, text: str) -> list[Any]:
    """Return all matches.

    Raises:
        ValueError: there are more than `MAX_MATCHES`.
    """

    def search(**limits: Any) -> list[Any]:
        return list(islice(pattern.compiled.finditer(text, **limits), MAX_MATCHES + 1))

    found: list[Any] = _search(clock, pattern, text, search)
    if len(found) > MAX_MATCHES:
        raise ValueError(f"the pattern has more than {MAX_MATCHES} matches in the text")
    return found


def _search(clock: Clock, pattern: Pattern, text: str, search: Callable[..., Any]) -> Any:
    """Run a search within the remaining time. Other threads can run during a long search."""
    if pattern.max_characters is not None and len(text) > pattern.max_characters:
        raise ValueError(
            "the pattern repeats a group, which takes memory for each repetition, so it runs only on texts of at "
            f"most {pattern.max_characters} characters. This text has {len(text)}. Use a pattern without a repeated "
            "group, or search a part of the text with subs"
        )
    try:
        if len(text) < SHORT_TEXT_CHARACTERS:
            with suppress(TimeoutError):
                return search(timeout=min(BLOCKING_SEARCH_LIMIT_S, clock.remaining_s()), concurrent=False)
        return _search_with_retry(clock, search)
    except MemoryError:
        raise ValueError(
            f"searching a text of {len(text)} characters with this pattern takes too much memory"
        ) from None


def _search_with_retry(clock: Clock, search: Callable[..., Any]) -> Any:
    """Run a search within the remaining time, even if the machine is busy."""
    started_s = monotonic()
    trial_s = min(TRIAL_S, clock.remaining_s())
    try:
        return search(timeout=trial_s, concurrent=True)
    except TimeoutError:
        pace = trial_s / max(monotonic() - started_s, trial_s)
    try:
        return search(timeout=clock.remaining_s() * pace, concurrent=True)
    except TimeoutError:
        raise OutOfTimeError from None


def _match_value(match: Any) -> object:
    """Convert a match to its text, or to a vector of the text and the groups if the pattern has groups."""
    if match is None:
        return None
    groups = match.groups()
    return (match[0], *groups) if groups else match[0]
