"""Error messages for unbalanced brackets: the reason and the place, in a person's words."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from codriver.lisp.tokens import CLOSERS, Places, tokens


@dataclass(frozen=True, slots=True)
class Unbalanced:
    """The reason why text does not balance, in a person's words. Line and column count from 1 and are where to look."""

    message: str
    line: int
    column: int


@dataclass(frozen=True, slots=True)
class Fault:
    """The first bracket or quote that a reader stumbled over, as offsets.

    `stray`: the closer at `at` closes nothing; the form before it began at `opener`, if there is one. `mismatched`:
    the closer at `at` meets the bracket at `opener`. `unclosed`: the bracket at `at` and all that stand open at the end
    of the text, outermost first. `string`: the string from `at` goes on to the end. `dangling`: the prefix at `at` has
    no form to belong to, or the backslash there no character.
    """

    kind: Literal["stray", "mismatched", "unclosed", "string", "dangling"]
    at: int
    opener: int | None = None
    others: tuple[int, ...] = ()


def explain(text: str, fault: Fault) -> Unbalanced:
    """`fault` in `text`, in words."""
    places = Places(text)
    line, column = places.of(fault.at)
    match fault.kind:
        case "stray":
            words = f"the `{text[fault.at]}` at line {line} closes nothing"
            if fault.opener is not None:
                words += f": the form before it, from line {places.line(fault.opener)}, is closed already"
        case "mismatched" if fault.opener is not None:
            opener = bracket(text, fault.opener)
            words = f"the `{opener}` at line {places.line(fault.opener)} wants `{CLOSERS[opener[-1]]}`, "
            words += f"and `{text[fault.at]}` at line {line} comes instead"
        case "string":
            words = f"the string that begins at line {line} is never closed"
            earlier = _swallowing_string(text, fault.at)
            if earlier is not None:
                line, column = places.of(earlier)
                words += f"; it looks as if the one that begins at line {line} lacks its closing quote"
        case "dangling":
            lacking = "character" if text[fault.at] == "\\" else "form"
            words = f"the `{_prefix(text, fault.at)}` at line {line} has no {lacking} behind it"
        case _:
            return _unclosed(text, (fault.at, *fault.others), places)
    return Unbalanced(words, line, column)


def bracket(text: str, at: int) -> str:
    """The opening bracket at `at`, with the `#` it may begin with."""
    return text[at : at + 2] if text[at] == "#" else text[at]


def _prefix(text: str, at: int) -> str:
    """The prefix at `at`."""
    return next(tokens(text, at))[0]


def _unclosed(text: str, openers: tuple[int, ...], places: Places) -> Unbalanced:
    """Name the bracket that is most likely the one without a closer.

    A line that begins at or left of a bracket still open shows, if the indentation means anything, that the bracket was
    to be closed before. The first such place in the form is named.
    """
    suspicion = _suspicion(text, openers[0], places)
    if suspicion is None:
        line, column = places.of(openers[-1])
        return Unbalanced(f"the `{bracket(text, openers[-1])}` at line {line} is never closed", line, column)
    suspect, end = suspicion
    line, column = places.of(suspect)
    word = bracket(text, suspect)
    if suspect in openers:
        words = f"the `{word}` at line {line} is never closed; its form seems to end before line {places.line(end)}"
    else:
        outer = openers[-1]
        words = f"the `{bracket(text, outer)}` at line {places.line(outer)} is never closed; going by the indentation, "
        words += (
            f"it is the `{word}` at line {line} that lacks its `{CLOSERS[word[-1]]}` before line {places.line(end)}"
        )
    return Unbalanced(words, line, column)


def _suspicion(text: str, begin: int, places: Places) -> tuple[int, int] | None:
    """The first bracket from `begin` on that a later line's indentation says is closed, and that line's offset."""
    openers: list[tuple[int, int]] = []
    line_before = places.line(begin)
    for token in tokens(text, begin):
        kind, at = token.lastgroup, token.start()
        if kind in ("space", "comment"):
            continue
        line, column = places.of(at)
        if line != line_before and kind != "close" and openers and openers[-1][1] >= column:
            return openers[-1][0], at
        if kind == "open":
            openers.append((at, column))
        elif kind == "close" and openers:
            openers.pop()
        line_before = places.line(token.end())
    return None


_SWALLOWED = re.compile(r"""[^\s,\[\](){}"';`~@^\\]""")


def _swallowing_string(text: str, last: int) -> int | None:
    """The start of a string before `last` that ran over line ends into a word, as one without closing quote does."""
    for token in tokens(text[:last]):
        if token.lastgroup == "string" and "\n" in token[0] and _SWALLOWED.match(text, token.end()):
            return token.start()
    return None
