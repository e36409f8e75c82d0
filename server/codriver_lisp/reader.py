r"""Reader of Lisp text of the Clojure family: the place of each form, in sound text and in broken text.

Reading is lossless: a form is a place in the text, everything between forms is space and comments, and nothing is
changed or dropped. It knows shape and no meaning, so one reader serves Clojure, ClojureScript, reader conditionals,
EDN, babashka, Basilisp, and Hy where its syntax agrees.

Written by hand, after measuring the tree-sitter grammar for Clojure on the same files (clojure/core.clj, 272 kB, the
same machine). Parsing took tree-sitter 25 ms, and visiting its nodes from Python, which is what editing needs, 40 ms;
this reader gives its whole tree in about the same time. On unbalanced text, the purpose of this reader, tree-sitter
gives an error node and a guess; this reader names the bracket. tree-sitter also took a file of Basilisp's own for
broken, and counts bytes while all else counts characters.

The tree is a few rows of numbers, and a form an index into them. With one object a form, reading cost more per
character in a longer text and in a larger process: Python's cyclic garbage collector counts and visits all living
containers. The collector does not visit rows of numbers.

Error messages for unbalanced brackets: the reason and the place, in a person's words.

Tokenizer of the Clojure family: the shape of its grammar, as tokens and lines.

One regular expression cuts the text. Every character belongs to exactly one token, so that tokens joined give the text
back, and each quantifier is possessive, so that broken text costs at most sound text: cutting is linear.

Where dialects differ the grammar takes the side that keeps brackets right. A character literal is a backslash with the
next character (`\(`), and the rest of the word if that is alphanumeric (`\newline`). `#!` begins a comment at the
beginning of any token. Letters before a string (`f"…"` in Hy) are a symbol of their own. `#[word[` begins a string that
`]word]` ends, as in Hy; nothing else of the family has `#[`.

Source: Clojure's `LispReader` (macros, dispatch macros, terminating characters), the EDN specification, the readers of
Basilisp and Hy.
"""

from __future__ import annotations

import re
from array import array
from bisect import bisect_right
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from codriver_lisp.errors import TooManyFormsError

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Form", "Kind", "Reading", "Span", "Unbalanced", "check", "read", "top_level_forms"]

Kind = Literal["list", "vector", "map", "set", "function", "string", "character", "atom", "prefixed", "discard"]

_KINDS: dict[str, Kind] = {"(": "list", "[": "vector", "{": "map", "#(": "function", "#{": "set", "#[": "vector"}


@dataclass(frozen=True, slots=True)
class Span:
    """A form's position: offsets `start` and `end` in the text, and its line and column, counted from 1."""

    start: int
    end: int
    line: int
    column: int


class _Tree:
    """All forms of a text in the order they begin, each with its kind, position, and the index after its children."""

    __slots__ = ("_most", "afters", "ends", "kinds", "starts")

    def __init__(self, most_forms: int) -> None:
        self._most = most_forms
        self.kinds: list[Kind] = []
        self.starts = array("q")
        self.ends = array("q")
        self.afters = array("q")

    def add(self, kind: Kind, start: int, end: int) -> int:
        """Add a form, so far without forms in it: its index.

        Raises:
            TooManyFormsError: it would be one too many.
        """
        index = len(self.kinds)
        if index >= self._most:
            raise TooManyFormsError(self._most)
        self.kinds.append(kind)
        self.starts.append(start)
        self.ends.append(end)
        self.afters.append(index + 1)
        return index

    def within(self, begin: int, after: int) -> Iterator[Form]:
        """Yield the forms side by side from the index `begin` up to `after`."""
        while begin < after:
            yield Form(self, begin)
            begin = self.afters[begin]


@dataclass(frozen=True, slots=True)
class Form:
    """One form: its kind, its offsets `start` to `end`, and the forms in it, in order.

    `string` is a regex too, or a string in brackets; `atom` any symbol, keyword or number. `prefixed` is a form after a
    quote, a tag, metadata, a namespace, or `#?`; its children are the forms that the prefix takes, the form proper
    last. `discard` is `#_` with the form it removes. In broken text a form may lack its end, or the forms for its
    prefix.
    """

    _tree: _Tree
    _index: int

    @property
    def kind(self) -> Kind:
        """Return the kind of form, such as a vector or a string."""
        return self._tree.kinds[self._index]

    @property
    def start(self) -> int:
        """Return the offset of the form's start."""
        return self._tree.starts[self._index]

    @property
    def end(self) -> int:
        """Return the offset of the form's end."""
        return self._tree.ends[self._index]

    @property
    def children(self) -> tuple[Form, ...]:
        """Return the forms within the form."""
        return tuple(self._tree.within(self._index + 1, self._tree.afters[self._index]))


@dataclass(frozen=True, slots=True)
class Reading:
    """A string's top-level forms, discarded ones included, and its first fault."""

    forms: tuple[Form, ...]
    imbalance: Imbalance | None


def read(text: str, *, most_forms: int | None = None) -> Reading:
    """Read all forms of `text`. An unmatched closer is skipped, and open forms end with the text.

    A mismatched closer closes its matching bracket further out, if there is one.

    Raises:
        TooManyFormsError: there are more than `most_forms`, those within others counted; without it, never.
    """
    tree, imbalance = _read(text, most_forms)
    return Reading(tuple(tree.within(0, len(tree.kinds))), imbalance)


def _read(text: str, most_forms: int | None = None) -> tuple[_Tree, Imbalance | None]:
    # Each form has a character of its own.
    reader = _Reader(len(text) if most_forms is None else most_forms)
    for token in tokens(text):
        match token.lastgroup:
            # In the order of how often they come, as the cases are tried one by one.
            case "space" | "comment":
                pass
            case "atom":
                reader.leaf("atom", *token.span())
            case "open":
                reader.open(token[0], token.start())
            case "close":
                reader.close(token[0], token.start())
            case "prefix" | "tag":
                reader.push("prefixed", *token.span(), "", 1)
            case "metadata":
                reader.push("prefixed", *token.span(), "", 2)
            case "discard":
                reader.push("discard", *token.span(), "", 1)
            case "character":
                reader.leaf("character", *token.span())
                if token[0] == "\\":
                    reader.find(Imbalance("dangling", token.start()))
            case _:
                reader.leaf("string", *token.span())
                if token["quote"] is None and token["ending"] is None:
                    reader.find(Imbalance("string", token.start()))
    return reader.tree, reader.end(len(text))


class _Reader:
    """The tree so far, and its unfinished forms, outermost first.

    An unfinished form is held as its index, with the closer of its bracket, or with the number of forms that its prefix
    still wants. The outermost is the text itself, which needs nothing.
    """

    def __init__(self, most_forms: int) -> None:
        self.tree = _Tree(most_forms)
        self._waiting = [-1]
        self._closers = [""]
        self._wants = [0]
        self._open = dict.fromkeys(CLOSERS.values(), 0)  # brackets waiting, by closer: spares a search in vain
        self._imbalance: Imbalance | None = None

    def find(self, imbalance: Imbalance) -> None:
        """Remember the first fault."""
        self._imbalance = self._imbalance or imbalance

    def push(self, kind: Kind, start: int, end: int, closer: str, wants: int) -> None:
        """Begin a form."""
        self._waiting.append(self.tree.add(kind, start, end))
        self._closers.append(closer)
        self._wants.append(wants)

    def open(self, bracket: str, start: int) -> None:
        """Begin a form with `bracket`."""
        closer = CLOSERS[bracket[-1]]
        self._open[closer] += 1
        self.push(_KINDS[bracket], start, start + len(bracket), closer, 0)

    def leaf(self, kind: Kind, start: int, end: int) -> None:
        """Add a form that has none in it."""
        index = self.tree.add(kind, start, end)
        if self._wants[-1]:
            self._finish(index)

    def _finish(self, index: int) -> None:
        """Finish the prefixes that waited for the form at `index`, which has ended.

        A discarded form stays where it stands, and no prefix takes it.
        """
        tree, wants = self.tree, self._wants
        while wants[-1]:
            prefix = self._waiting[-1]
            tree.ends[prefix] = tree.ends[index]
            if tree.kinds[index] != "discard":
                wants[-1] -= 1
            if wants[-1]:
                return
            self._pop()
            index = prefix

    def _pop(self) -> int:
        """Remove the last unfinished form, with everything added since, and return its index."""
        self._closers.pop()
        self._wants.pop()
        index = self._waiting.pop()
        self.tree.afters[index] = len(self.tree.kinds)
        return index

    def close(self, closer: str, at: int) -> None:
        """Finish the form that `closer` closes."""
        if self._closers[-1] != closer:
            self._mismatch(closer, at)
            if not self._open[closer]:
                return
            while self._closers[-1] != closer:
                self._abandon(at)
        self._open[closer] -= 1
        index = self._pop()
        self.tree.ends[index] = at + 1
        if self._wants[-1]:
            self._finish(index)

    def _mismatch(self, closer: str, at: int) -> None:
        """Find the error in a closer that does not match the last form started.

        A prefix with nothing after it within brackets is not an error, because in Hy some prefixes are names as well.
        """
        if self._imbalance is not None:
            return
        opened = next((number for number in range(len(self._closers) - 1, 0, -1) if self._closers[number]), None)
        if opened is None:
            tree, last = self.tree, None
            end = self._waiting[1] if len(self._waiting) > 1 else len(tree.kinds)
            for form in tree.within(0, end):
                last = form.start
            self.find(Imbalance("stray", at, last))
        elif self._closers[opened] != closer:
            self.find(Imbalance("mismatched", at, self.tree.starts[self._waiting[opened]]))

    def _abandon(self, at: int) -> None:
        """Take the last form started as it is: a bracket ends at `at`, a prefix with the forms that it got."""
        closer = self._closers[-1]
        index = self._pop()
        if closer:
            self._open[closer] -= 1
            self.tree.ends[index] = at

    def end(self, length: int) -> Imbalance | None:
        """Finish the tree at the end of the text, which is `length` long: the first fault."""
        starts = self.tree.starts
        unfinished = len(self._waiting) - 1
        pairs = zip(self._waiting, self._closers, strict=True)
        opened = tuple(starts[index] for index, closer in pairs if closer)
        if opened:
            self.find(Imbalance("unclosed", opened[0], others=opened[1:]))
        elif unfinished:
            self.find(Imbalance("dangling", starts[self._waiting[-1]]))
        for _ in range(unfinished):
            self._abandon(length)
        return self._imbalance


def check(text: str) -> Unbalanced | None:
    """Return the first error in the brackets and strings of `text`, or None if they balance."""
    _, imbalance = _read(text)
    return None if imbalance is None else describe_imbalance(text, imbalance)


def top_level_forms(text: str, reading: Reading | None = None) -> tuple[Span, ...]:
    """Return the forms of `text` that an evaluation would run, in order: without discarded ones (`#_`) and comments.

    `reading` is the result of `read` for the text, if there is one already.

    A prefix such as a quote, a tag or metadata belongs to the form after it.
    """
    positions = Positions(text)
    forms = (reading or read(text)).forms
    return tuple(Span(form.start, form.end, *positions.of(form.start)) for form in forms if form.kind != "discard")


@dataclass(frozen=True, slots=True)
class Unbalanced:
    """Why text does not balance, with line and column, counted from 1."""

    message: str
    line: int
    column: int


@dataclass(frozen=True, slots=True)
class Imbalance:
    """The first unbalanced bracket or quote, as offsets.

    `stray`: the closer at `at` closes nothing; the form before the closer started at `opener`, if there is one.
    `mismatched`: the closer at `at` meets the bracket at `opener`. `unclosed`: the bracket at `at` and all others open
    at the end of the text, outermost first. `string`: the string from `at` continues to the end. `dangling`: the prefix
    at `at` has no form to belong to, or the backslash there no character.
    """

    kind: Literal["stray", "mismatched", "unclosed", "string", "dangling"]
    at: int
    opener: int | None = None
    others: tuple[int, ...] = ()


def describe_imbalance(text: str, imbalance: Imbalance) -> Unbalanced:
    """Describe `imbalance`, which was found in `text`, as an error with its position."""
    positions = Positions(text)
    line, column = positions.of(imbalance.at)
    match imbalance.kind:
        case "stray":
            words = f"the `{text[imbalance.at]}` at line {line} closes nothing"
            if imbalance.opener is not None:
                words += f": the form before it, from line {positions.line(imbalance.opener)}, is closed already"
        case "mismatched" if imbalance.opener is not None:
            opener = bracket(text, imbalance.opener)
            words = f"the `{opener}` at line {positions.line(imbalance.opener)} wants `{CLOSERS[opener[-1]]}`, "
            words += f"and `{text[imbalance.at]}` at line {line} comes instead"
        case "string":
            words = f"the string that begins at line {line} is never closed"
            earlier = _swallowing_string(text, imbalance.at)
            if earlier is not None:
                line, column = positions.of(earlier)
                words += f"; it looks as if the one that begins at line {line} lacks its closing quote"
        case "dangling":
            lacking = "character" if text[imbalance.at] == "\\" else "form"
            words = f"the `{_prefix(text, imbalance.at)}` at line {line} has no {lacking} behind it"
        case _:
            return _unclosed(text, (imbalance.at, *imbalance.others), positions)
    return Unbalanced(words, line, column)


def bracket(text: str, at: int) -> str:
    """Return the opening bracket at `at`, with the `#` that it may start with."""
    return text[at : at + 2] if text[at] == "#" else text[at]


def _prefix(text: str, at: int) -> str:
    """Return the prefix at `at`."""
    return next(tokens(text, at))[0]


def _unclosed(text: str, openers: tuple[int, ...], positions: Positions) -> Unbalanced:
    """Name the bracket that most likely lacks its closer.

    A line that begins at or left of a bracket still open shows, if the indentation means anything, that the bracket was
    to be closed before. The first such place in the form is named.
    """
    suspicion = _suspicion(text, openers[0], positions)
    if suspicion is None:
        line, column = positions.of(openers[-1])
        return Unbalanced(f"the `{bracket(text, openers[-1])}` at line {line} is never closed", line, column)
    suspect, end = suspicion
    line, column = positions.of(suspect)
    word = bracket(text, suspect)
    if suspect in openers:
        words = f"the `{word}` at line {line} is never closed; its form seems to end before line {positions.line(end)}"
    else:
        outer = openers[-1]
        words = (
            f"the `{bracket(text, outer)}` at line {positions.line(outer)} is never closed; going by the indentation, "
        )
        words += (
            f"it is the `{word}` at line {line} that lacks its `{CLOSERS[word[-1]]}` before line {positions.line(end)}"
        )
    return Unbalanced(words, line, column)


def _suspicion(text: str, begin: int, positions: Positions) -> tuple[int, int] | None:
    """Find the first bracket from `begin` on that a later line's indentation closes, and that line's offset."""
    openers: list[tuple[int, int]] = []
    line_before = positions.line(begin)
    for token in tokens(text, begin):
        kind, at = token.lastgroup, token.start()
        if kind in ("space", "comment"):
            continue
        line, column = positions.of(at)
        if line != line_before and kind != "close" and openers and openers[-1][1] >= column:
            return openers[-1][0], at
        if kind == "open":
            openers.append((at, column))
        elif kind == "close" and openers:
            openers.pop()
        line_before = positions.line(token.end())
    return None


_SWALLOWED = re.compile(r"""[^\s,\[\](){}"';`~@^\\]""")


def _swallowing_string(text: str, last: int) -> int | None:
    """Find a string before `last` that runs over line ends into a word, as if its closing quote were missing."""
    for token in tokens(text[:last]):
        if token.lastgroup == "string" and "\n" in token[0] and _SWALLOWED.match(text, token.end()):
            return token.start()
    return None


CLOSERS = {"(": ")", "[": "]", "{": "}"}

_WORD = r"""[^\s,\[\](){}"';`~@^\\]"""
"""The pattern of a word's first character."""
_REST = r"""[^\s,\[\](){}";`~@^\\]"""
"""The pattern of a word's further characters: `'` does not end one."""

TOKEN = re.compile(
    rf"""
      (?P<space>[\s,]++)
    | (?P<bracketed>\#\[(?P<word>[^\s()\[\]{{}}"]*+)\[
        [^\]]*+(?:\](?!(?P=word)\])[^\]]*+)*+(?:(?P<ending>\](?P=word)\])|\Z))
    | (?P<open>\#?[(\[{{])
    | (?P<close>[)\]}}])
    | (?P<comment>;[^\r\n]*+|\#![^\r\n]*+)
    | (?P<string>\#?"[^"\\]*+(?:\\.[^"\\]*+)*+(?:(?P<quote>")|\\?\Z))
    | (?P<discard>\#_)
    | (?P<metadata>\#?\^)
    | (?P<prefix>\#'|\#=|\#\?@?|\#::?{_REST}*+|~@|['`~@])
    | (?P<character>\\(?:\w{_REST}*+|.)?)
    | (?P<tag>\#[^\s,\[\](){{}}"';`~@^\\\#<]{_REST}*+)
    | (?P<atom>{_WORD}{_REST}*+|.)
    """,
    re.VERBOSE | re.DOTALL,
)

LINE_END = re.compile(r"\r\n|\r|\n")
"""The end of a line. A form feed, a vertical tab or a Unicode separator does not, unlike in `str.splitlines`."""


class Positions:
    """Line and column of any offset in one text, and back. Lines and columns count from 1."""

    def __init__(self, text: str) -> None:
        self._starts = [0, *(match.end() for match in LINE_END.finditer(text))]

    def line(self, offset: int) -> int:
        """Return the line of `offset`."""
        return bisect_right(self._starts, offset)

    def of(self, offset: int) -> tuple[int, int]:
        """Return the line and column of `offset`."""
        line = bisect_right(self._starts, offset)
        return line, offset - self._starts[line - 1] + 1

    def start(self, line: int) -> int:
        """Return the offset at which `line` starts. The line must exist."""
        return self._starts[line - 1]

    @property
    def count(self) -> int:
        """Return the number of lines. A string that ends with a line end has an empty last one."""
        return len(self._starts)


def tokens(text: str, start: int = 0) -> Iterator[re.Match[str]]:
    """Yield the tokens of `text` from `start` on, in order and without gaps. A match's `lastgroup` is its kind."""
    return TOKEN.finditer(text, start)
