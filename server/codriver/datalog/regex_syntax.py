"""Regular expression syntax: constructs that cost more than a time limit can bound, found before they run.

The `regex` package knows recursion, which takes memory without end, and fuzzy matching, whose time is not bounded by
what is searched. Neither is in Java's syntax. A group that is repeated is, and it takes memory for every repetition.

This reads a pattern as the package does, of its version 1: what is escaped, in a set or in a comment is no construct.
Where the two could differ, this errs towards finding one. Source: mrab-regex, `_regex_core.py`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

SET_OPERATORS = ("||", "~~", "&&", "--")
NAMED_ESCAPE = re.compile(r"[pPN]\{\^?[\w \-&./:=]+\}")
NO_CHARACTER = frozenset("dDhsSwW")
"""Escapes that stand for more than one character, and so begin no range of a set."""
GROUP_NAME = re.compile(r"<\w+>")
POSIX_CLASS = re.compile(r"\[:\^?[\w \-&./:=]*?:\]")
FLAGS = re.compile(r"(?P<on>[A-Za-z01]*)(?:-(?P<off>[A-Za-z]*))?(?P<end>[:)])")
NO_SINGLE = frozenset("123456789gXRbBAZGKmM")
"""Escapes that match no character, or more than one: a repeat of one takes memory as a group's does."""
CALL = re.compile(r"R|[0-9]|&|[+-][0-9]|P[>&]")
FUZZY = re.compile(r"\{(?:[deis]|[0-9]+<|[0-9]*[dis][+<])")
REPEAT = re.compile(r"[*+]|\{[0-9]*,?[0-9]*\}")
VERBOSE_SPACE = re.compile(r"(?:\s|#[^\n]*(?:\n|$))+")


@dataclass(frozen=True, slots=True)
class Construct:
    """A construct that is not allowed: its name, how it stands in the pattern, and its use instead."""

    name: str
    text: str
    instead: str


@dataclass(frozen=True, slots=True)
class Shape:
    """The shape of a pattern: the first construct that is not allowed, and what repetitions take memory for.

    `repeated`: the groups that are or lie in repeated ones, and whatever else may be as long, such as a grapheme.
    """

    refused: Construct | None
    repeated: int


def shape(pattern: str) -> Shape:
    """The shape of a pattern; one that is no regular expression has some shape too."""
    reading = _Reading(pattern)
    reading.run()
    return Shape(reading.refused, reading.repeated)


class _Reading:
    """One reading of a pattern, from its beginning to its end."""

    def __init__(self, pattern: str) -> None:
        self.refused: Construct | None = None
        self.repeated = 0
        self._text = pattern
        self._place = 0
        self._is_verbose = False
        self._open: list[tuple[bool, int]] = []
        """Of each group that is open: whether spaces count around it, and how many groups had ended before it."""
        self._ended = 0

    def run(self) -> None:
        """Read all of it, or up to what is refused."""
        while self.refused is None and self._place < len(self._text):
            if self._is_verbose and (space := VERBOSE_SPACE.match(self._text, self._place)):
                self._place = space.end()
                continue
            character = self._text[self._place]
            self._place += 1
            match character:
                case "\\":
                    self._outer_escape()
                case "[":
                    self._set()
                case "(":
                    self._group()
                case ")":
                    self._end_group()
                case "{" if found := FUZZY.match(self._ahead("{")):
                    self._refuse(
                        "fuzzy matching", found[0], 'escape the brace, as \\{, or write the variants out: "a|b"'
                    )

    def _ahead(self, before: str = "") -> str:
        """What comes next, without the spaces and comments that do not count."""
        rest = self._text[self._place :]
        return before + (VERBOSE_SPACE.sub("", rest) if self._is_verbose else rest)

    def _has(self, text: str) -> bool:
        """Whether this comes next; if so, it is read."""
        if not self._text.startswith(text, self._place):
            return False
        self._place += len(text)
        return True

    def _refuse(self, name: str, text: str, instead: str) -> None:
        self.refused = Construct(name, text, instead)

    def _outer_escape(self) -> None:
        escaped = self._text[self._place : self._place + 1]
        self._escape()
        if escaped in NO_SINGLE:
            self._has_name()
            self.repeated += bool(REPEAT.match(self._ahead()))

    def _has_name(self) -> None:
        if name := GROUP_NAME.match(self._text, self._place):
            self._place = name.end()

    def _escape(self) -> bool:
        """Read what is behind a backslash; whether it stands for one character."""
        named = NAMED_ESCAPE.match(self._text, self._place)
        escaped = self._text[self._place : self._place + 1]
        self._place = named.end() if named else self._place + 1
        return not (named and escaped != "N") and escaped not in NO_CHARACTER

    def _group(self) -> None:
        """Read the beginning of a group, as far as it says which kind of group it is."""
        if self._has("?#"):
            self._comment()
            return
        self._open.append((self._is_verbose, self._ended))
        if not self._has("?"):
            return
        rest = self._ahead()
        if call := CALL.match(rest):
            closing = rest.find(")")
            text = f"(?{rest[: closing + 1] if 0 <= closing < 40 else call[0]}"
            self._refuse("recursion", text, "write the group's pattern out once more, as deep as it has to go")
        elif rest[:1] not in {"P", "<", "=", "!", "(", ">", "|"}:
            self._flags(rest)

    def _comment(self) -> None:
        while self._place < len(self._text):
            self._place += 1
            if self._text[self._place - 1] == ")":
                return
            if self._text[self._place - 1] == "\\":
                self._place += 1

    def _flags(self, rest: str) -> None:
        """Read flags, which hold to the group's end, or of the group that they stand in."""
        flags = FLAGS.match(rest)
        if flags is None:
            return
        if "V" in flags["on"]:
            text = f"(?{flags[0]}"
            self._refuse("a change of the syntax's version", text, "leave the flag out: it is always version 1")
            return
        is_verbose = (self._is_verbose or "x" in flags["on"]) and "x" not in (flags["off"] or "")
        self._place = self._text.index(flags["end"], self._place) + 1
        if flags["end"] == ")":
            self._open.pop()
        self._is_verbose = is_verbose

    def _end_group(self) -> None:
        if not self._open:
            return
        self._is_verbose, ended_before = self._open.pop()
        self._ended += 1
        if REPEAT.match(self._ahead()):
            self.repeated += self._ended - ended_before

    def _set(self) -> None:
        """Read a set behind its opening bracket, the sets within it too."""
        depth = 1
        self._has("^")
        must_be_member = True  # the first bracket behind an opening one, or an operator, is a character
        while depth and self._place < len(self._text):
            if not must_be_member and self._has("]"):
                depth -= 1
            elif not must_be_member and any(map(self._has, SET_OPERATORS)):
                must_be_member = True
            elif self._opens_set():
                depth += 1
                self._has("^")
                must_be_member = True
            else:
                self._member()
                must_be_member = False

    def _opens_set(self) -> bool:
        return not POSIX_CLASS.match(self._text, self._place) and self._has("[")

    def _member(self) -> None:
        """Read a character, a class, or a range of a set."""
        is_character = self._item()
        dash = self._place
        if not is_character or not self._has("-"):
            return
        if self._has("-"):
            self._place = dash
        elif not self._text.startswith(("]", "["), self._place):
            self._item()

    def _item(self) -> bool:
        """Read a character or a class; whether it is a character."""
        if posix := POSIX_CLASS.match(self._text, self._place):
            self._place = posix.end()
            return False
        self._place += 1
        return self._text[self._place - 1] != "\\" or self._escape()
