r"""A reader for Clojure and related dialects that accepts unbalanced text and explains errors in its brackets.

The reader records the kind and position of each form. It is lossless: all text between forms is whitespace or comments,
and nothing is changed or dropped. Because it knows the shape of forms and not their meaning, it works for Clojure,
ClojureScript, reader conditionals, EDN, babashka, Basilisp, and Hy where its syntax agrees.

One regular expression splits the text into tokens. Each character belongs to exactly one token, so joining the tokens
restores the text. All quantifiers are possessive, so splitting takes linear time even for broken text. Where dialects
differ, the grammar chooses the reading that keeps brackets right. A character literal is a backslash with the next
character (`\(`), and the rest of the word if that is alphanumeric (`\newline`). `#!` starts a comment wherever a token
can start. The letters before a string, as in Hy's `f"…"`, are a symbol of their own. `#[word[` starts a string that
ends with `]word]`, as in Hy; no other dialect uses `#[`.

The reader was written by hand after measuring the tree-sitter grammar for Clojure on the same machine and files
(clojure/core.clj, 272 kB). tree-sitter took 25 ms to parse the file and another 40 ms to visit its nodes from Python,
which editing requires; this reader builds its whole tree in about the same total time. For unbalanced text, which this
reader is designed for, tree-sitter produces an error node and a guess, while this reader identifies the bracket.
tree-sitter also reported an error in a valid Basilisp file, and counts positions in bytes instead of characters.

The tree is stored in arrays of integers, and a form is an index into them. With an object for each form, reading took
more time per character in longer texts and larger processes, because Python's cyclic garbage collector visits every
container object. It does not visit arrays of integers.

Sources: Clojure's `LispReader` (macros, dispatch macros, terminating characters), the EDN specification, and the
readers of Basilisp and Hy.
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

__all__ = ["Form", "Kind", "ReadResult", "Span", "Unbalanced", "check_balance", "read_forms", "top_level_forms"]

Kind = Literal["list", "vector", "map", "set", "function", "string", "character", "atom", "prefixed", "discard"]

_KINDS_BY_OPENER: dict[str, Kind] = {
    "(": "list",
    "[": "vector",
    "{": "map",
    "#(": "function",
    "#{": "set",
    "#[": "vector",
}
"""Kinds of forms, by opening bracket."""


@dataclass(frozen=True, slots=True)
class Span:
    """The position of a form: its start and end offsets, and the line and column of its start, which count from 1."""

    start: int
    end: int
    line: int
    column: int


class _Tree:
    """The forms in a source text in order of their starts, as parallel lists.

    For each form, `afters` contains the index of the first form after it and its descendants.
    """

    __slots__ = ("_most", "afters", "ends", "kinds", "starts")

    def __init__(self, most_forms: int) -> None:
        self._most = most_forms
        self.kinds: list[Kind] = []
        self.starts = array("q")
        self.ends = array("q")
        self.afters = array("q")

    def add(self, kind: Kind, start: int, end: int) -> int:
        """Add a form without children, and return its index.

        Raises:
            TooManyFormsError: the tree already has the maximum number of forms.
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
        """Yield the sibling forms from index `begin` up to but not including `after`."""
        while begin < after:
            yield Form(self, begin)
            begin = self.afters[begin]


@dataclass(frozen=True, slots=True)
class Form:
    """A form in a source text, with its kind, its start and end offsets, and its children.

    The kind `string` includes regexes and bracket strings, and `atom` is any symbol, keyword or number. A form of kind
    `prefixed` is a quote, tag, metadata, namespaced map or reader conditional. Its children are the forms that the
    prefix applies to, with the actual form last. `discard` is `#_` with the discarded form. In unbalanced text, a form
    may lack its end or some of the forms that its prefix needs.
    """

    _tree: _Tree
    _index: int

    @property
    def kind(self) -> Kind:
        """Return the kind of the form, such as `vector`."""
        return self._tree.kinds[self._index]

    @property
    def start(self) -> int:
        """Return the offset of the first character."""
        return self._tree.starts[self._index]

    @property
    def end(self) -> int:
        """Return the offset after the last character."""
        return self._tree.ends[self._index]

    @property
    def children(self) -> tuple[Form, ...]:
        """Return the forms directly inside this form, including discarded ones."""
        return tuple(self._tree.within(self._index + 1, self._tree.afters[self._index]))


@dataclass(frozen=True, slots=True)
class ReadResult:
    """The top-level forms in a source text, including discarded ones, and the first error in its brackets or None."""

    forms: tuple[Form, ...]
    imbalance: Imbalance | None


def read_forms(text: str, *, most_forms: int | None = None) -> ReadResult:
    """Read all forms in a source text, even if its brackets do not balance.

    An unmatched closer is skipped. A mismatched closer ends the innermost enclosing form that it matches, if there is
    one. Forms that are still open end with the text.

    Raises:
        TooManyFormsError: there are more than `most_forms` forms, counting nested ones.
    """
    tree, imbalance = _read(text, most_forms)
    return ReadResult(tuple(tree.within(0, len(tree.kinds))), imbalance)


def _read(text: str, most_forms: int | None = None) -> tuple[_Tree, Imbalance | None]:
    """Read the forms in a source text into a tree, and return the tree and the first error or None."""
    # There cannot be more forms than characters.
    reader = _Reader(len(text) if most_forms is None else most_forms)
    for token in tokens(text):
        match token.lastgroup:
            # The most frequent kinds come first, because cases are tried in order.
            case "space" | "comment":
                pass
            case "atom":
                reader.add_leaf("atom", *token.span())
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
                reader.add_leaf("character", *token.span())
                if token[0] == "\\":
                    reader.record_error(Imbalance("dangling", token.start()))
            case _:
                reader.add_leaf("string", *token.span())
                if token["quote"] is None and token["ending"] is None:
                    reader.record_error(Imbalance("string", token.start()))
    return reader.tree, reader.end(len(text))


class _Reader:
    """Builds the tree of forms.

    The stack has an entry for each unfinished form: its index, the closer of its bracket, and the number of forms that
    its prefix still needs. The first entry represents the text itself.
    """

    def __init__(self, most_forms: int) -> None:
        self.tree = _Tree(most_forms)
        self._waiting = [-1]
        self._closers = [""]
        self._wants = [0]
        self._open = dict.fromkeys(
            CLOSERS_BY_OPENER.values(), 0
        )  # open brackets by closer, to know quickly that none matches
        self._imbalance: Imbalance | None = None

    def record_error(self, imbalance: Imbalance) -> None:
        """Record an error. Only the first one is retained."""
        self._imbalance = self._imbalance or imbalance

    def push(self, kind: Kind, start: int, end: int, closer: str, wants: int) -> None:
        """Start a form whose end is not known yet."""
        self._waiting.append(self.tree.add(kind, start, end))
        self._closers.append(closer)
        self._wants.append(wants)

    def open(self, bracket: str, start: int) -> None:
        """Start the form of an opening bracket."""
        closer = CLOSERS_BY_OPENER[bracket[-1]]
        self._open[closer] += 1
        self.push(_KINDS_BY_OPENER[bracket], start, start + len(bracket), closer, 0)

    def add_leaf(self, kind: Kind, start: int, end: int) -> None:
        """Add a form without children."""
        index = self.tree.add(kind, start, end)
        if self._wants[-1]:
            self._finish(index)

    def _finish(self, index: int) -> None:
        """End the prefixes that were waiting for the form at `index`.

        Discarded forms do not end a prefix. They stay in the tree.
        """
        tree, wants = self.tree, self._wants
        while wants[-1]:
            prefix = self._waiting[-1]
            tree.ends[prefix] = tree.ends[index]
            if tree.kinds[index] != "discard":
                wants[-1] -= 1
            if wants[-1]:
                return
            self._pop_unfinished()
            index = prefix

    def _pop_unfinished(self) -> int:
        """Pop the innermost unfinished form from the stack, and return its index."""
        self._closers.pop()
        self._wants.pop()
        index = self._waiting.pop()
        self.tree.afters[index] = len(self.tree.kinds)
        return index

    def close(self, closer: str, at: int) -> None:
        """End the form that `closer` closes, and all unfinished forms inside it."""
        if self._closers[-1] != closer:
            self._check_match(closer, at)
            if not self._open[closer]:
                return
            while self._closers[-1] != closer:
                self._end_early(at)
        self._open[closer] -= 1
        index = self._pop_unfinished()
        self.tree.ends[index] = at + 1
        if self._wants[-1]:
            self._finish(index)

    def _check_match(self, closer: str, at: int) -> None:
        """Record an error if a closer does not match the innermost open bracket.

        A prefix directly before a closer is not an error, because some prefixes are also names in Hy.
        """
        if self._imbalance is not None:
            return
        opened = next((number for number in range(len(self._closers) - 1, 0, -1) if self._closers[number]), None)
        if opened is None:
            tree, last = self.tree, None
            end = self._waiting[1] if len(self._waiting) > 1 else len(tree.kinds)
            for form in tree.within(0, end):
                last = form.start
            self.record_error(Imbalance("stray", at, last))
        elif self._closers[opened] != closer:
            self.record_error(Imbalance("mismatched", at, self.tree.starts[self._waiting[opened]]))

    def _end_early(self, at: int) -> None:
        """End the innermost unfinished form although it is incomplete.

        A bracket ends at offset `at`, and a prefix after its last form.
        """
        closer = self._closers[-1]
        index = self._pop_unfinished()
        if closer:
            self._open[closer] -= 1
            self.tree.ends[index] = at

    def end(self, length: int) -> Imbalance | None:
        """End all unfinished forms at the end of a text of this length, and return the first error or None."""
        starts = self.tree.starts
        unfinished = len(self._waiting) - 1
        pairs = zip(self._waiting, self._closers, strict=True)
        opened = tuple(starts[index] for index, closer in pairs if closer)
        if opened:
            self.record_error(Imbalance("unclosed", opened[0], others=opened[1:]))
        elif unfinished:
            self.record_error(Imbalance("dangling", starts[self._waiting[-1]]))
        for _ in range(unfinished):
            self._end_early(length)
        return self._imbalance


def check_balance(text: str) -> Unbalanced | None:
    """Return the first error in the brackets and strings of a source text, or None if it is balanced."""
    _, imbalance = _read(text)
    return None if imbalance is None else describe_imbalance(text, imbalance)


def top_level_forms(text: str, reading: ReadResult | None = None) -> tuple[Span, ...]:
    """Return the positions of the top-level forms in a source text, excluding discarded ones.

    A prefix such as a quote, tag or metadata is part of the form after it. If the text was already read, pass the
    result of `read_forms` as `reading`.
    """
    positions = Positions(text)
    forms = (reading or read_forms(text)).forms
    return tuple(
        Span(form.start, form.end, *positions.line_and_column(form.start)) for form in forms if form.kind != "discard"
    )


@dataclass(frozen=True, slots=True)
class Unbalanced:
    """The reason why a source text is not balanced, with a position. The line and column count from 1."""

    message: str
    line: int
    column: int


@dataclass(frozen=True, slots=True)
class Imbalance:
    """The first error in the brackets and quotes of a source text. Positions are offsets.

    * `stray`: the closer at `at` closes nothing. The form before it, if any, starts at `opener`.
    * `mismatched`: the closer at `at` does not match the bracket at `opener`.
    * `unclosed`: the brackets at `at` and `others`, outermost first, are open at the end of the text.
    * `string`: the string that starts at `at` does not end.
    * `dangling`: the prefix at `at` has no form after it, or the backslash at `at` has no character after it.
    """

    kind: Literal["stray", "mismatched", "unclosed", "string", "dangling"]
    at: int
    opener: int | None = None
    others: tuple[int, ...] = ()


def describe_imbalance(text: str, imbalance: Imbalance) -> Unbalanced:
    """Describe an error in the brackets of a source text for the user, with line numbers."""
    positions = Positions(text)
    line, column = positions.line_and_column(imbalance.at)
    match imbalance.kind:
        case "stray":
            words = f"the `{text[imbalance.at]}` at line {line} closes nothing"
            if imbalance.opener is not None:
                words += f": the form before it, from line {positions.line(imbalance.opener)}, is already closed"
        case "mismatched" if imbalance.opener is not None:
            opener = opening_bracket(text, imbalance.opener)
            words = (
                f"the `{opener}` at line {positions.line(imbalance.opener)} needs `{CLOSERS_BY_OPENER[opener[-1]]}`, "
            )
            words += f"and `{text[imbalance.at]}` at line {line} was found instead"
        case "string":
            words = f"the string that starts at line {line} is never closed"
            earlier = _find_swallowing_string(text, imbalance.at)
            if earlier is not None:
                line, column = positions.line_and_column(earlier)
                words += f". The string that starts at line {line} seems to lack its closing quote"
        case "dangling":
            lacking = "character" if text[imbalance.at] == "\\" else "form"
            words = f"the `{_prefix_at(text, imbalance.at)}` at line {line} has no {lacking} after it"
        case _:
            return _describe_unclosed(text, (imbalance.at, *imbalance.others), positions)
    return Unbalanced(words, line, column)


def opening_bracket(text: str, at: int) -> str:
    """Return the opening bracket at an offset, including a `#` before it."""
    return text[at : at + 2] if text[at] == "#" else text[at]


def _prefix_at(text: str, at: int) -> str:
    return next(tokens(text, at))[0]


def _describe_unclosed(text: str, openers: tuple[int, ...], positions: Positions) -> Unbalanced:
    """Describe the bracket that most probably lacks its closer.

    If a line is not indented deeper than a bracket that is open before it, the bracket should probably have been closed
    before that line. The first such bracket is described.
    """
    suspicion = _find_unclosed(text, openers[0], positions)
    if suspicion is None:
        line, column = positions.line_and_column(openers[-1])
        return Unbalanced(f"the `{opening_bracket(text, openers[-1])}` at line {line} is never closed", line, column)
    suspect, end = suspicion
    line, column = positions.line_and_column(suspect)
    word = opening_bracket(text, suspect)
    if suspect in openers:
        words = f"the `{word}` at line {line} is never closed. Its form seems to end before line {positions.line(end)}"
    else:
        outer = openers[-1]
        words = (
            f"the `{opening_bracket(text, outer)}` at line {positions.line(outer)} is never closed; "
            "going by the indentation, "
        )
        words += (
            f"it is the `{word}` at line {line} that lacks its `{CLOSERS_BY_OPENER[word[-1]]}` before line "
            f"{positions.line(end)}"
        )
    return Unbalanced(words, line, column)


def _find_unclosed(text: str, begin: int, positions: Positions) -> tuple[int, int] | None:
    """Find the first bracket that should be closed, judging by the indentation of a later line.

    Return the offset of the bracket and the offset of that line's first token, or None.
    """
    openers: list[tuple[int, int]] = []
    line_before = positions.line(begin)
    for token in tokens(text, begin):
        kind, at = token.lastgroup, token.start()
        if kind in ("space", "comment"):
            continue
        line, column = positions.line_and_column(at)
        if line != line_before and kind != "close" and openers and openers[-1][1] >= column:
            return openers[-1][0], at
        if kind == "open":
            openers.append((at, column))
        elif kind == "close" and openers:
            openers.pop()
        line_before = positions.line(token.end())
    return None


_WORD_START_PATTERN = re.compile(r"""[^\s,\[\](){}"';`~@^\\]""")


def _find_swallowing_string(text: str, last: int) -> int | None:
    """Find a multi-line string that ends directly before a word, which suggests that a quote is missing.

    Return the offset of the string, or None. Only strings before `last` are considered.
    """
    for token in tokens(text[:last]):
        if token.lastgroup == "string" and "\n" in token[0] and _WORD_START_PATTERN.match(text, token.end()):
            return token.start()
    return None


CLOSERS_BY_OPENER = {"(": ")", "[": "]", "{": "}"}

_FIRST_WORD_CHARACTER = r"""[^\s,\[\](){}"';`~@^\\]"""
"""Pattern for the first character in a word."""
_OTHER_WORD_CHARACTER = r"""[^\s,\[\](){}";`~@^\\]"""
"""Pattern for any other character in a word, including `'`."""

TOKEN_PATTERN = re.compile(
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
    | (?P<prefix>\#'|\#=|\#\?@?|\#::?{_OTHER_WORD_CHARACTER}*+|~@|['`~@])
    | (?P<character>\\(?:\w{_OTHER_WORD_CHARACTER}*+|.)?)
    | (?P<tag>\#[^\s,\[\](){{}}"';`~@^\\\#<]{_OTHER_WORD_CHARACTER}*+)
    | (?P<atom>{_FIRST_WORD_CHARACTER}{_OTHER_WORD_CHARACTER}*+|.)
    """,
    re.VERBOSE | re.DOTALL,
)
"""Matches one Lisp token. The name of the matching group is the token's kind."""

LINE_END_PATTERN = re.compile(r"\r\n|\r|\n")
"""Matches the end of a line. Unlike `str.splitlines`, it ignores form feeds, vertical tabs and Unicode separators."""


class Positions:
    """Converts offsets in a source text to lines and columns, which count from 1."""

    def __init__(self, text: str) -> None:
        self._starts = [0, *(match.end() for match in LINE_END_PATTERN.finditer(text))]

    def line(self, offset: int) -> int:
        """Return the line of an offset."""
        return bisect_right(self._starts, offset)

    def line_and_column(self, offset: int) -> tuple[int, int]:
        """Return the line and column of an offset."""
        line = bisect_right(self._starts, offset)
        return line, offset - self._starts[line - 1] + 1

    def line_start(self, line: int) -> int:
        """Return the offset of the start of an existing line."""
        return self._starts[line - 1]

    @property
    def count(self) -> int:
        """Return the number of lines. The empty line after a final line ending counts too."""
        return len(self._starts)


def tokens(text: str, start: int = 0) -> Iterator[re.Match[str]]:
    """Yield the tokens of a source text from `start` on, including whitespace and comments.

    The `lastgroup` of each match is the kind of the token.
    """
    return TOKEN_PATTERN.finditer(text, start)
