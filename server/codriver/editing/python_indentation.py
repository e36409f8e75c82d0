"""Indentation of new Python for its place: its lines move together, and nothing within its texts does."""

from __future__ import annotations

import io
import token
import tokenize

from codriver.editing.python_source import margin_of, parsed, words_of
from codriver.lisp.targeting import Problem, ProblemError

_SILENT = frozenset({token.INDENT, token.DEDENT, tokenize.NL, tokenize.COMMENT, token.NEWLINE})


class Piece:
    """A piece of Python, given with any margin.

    Raises:
        ProblemError: it does not parse.
    """

    def __init__(self, code: str) -> None:
        text = code.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n").rstrip()
        lines = text.split("\n")
        while lines and not lines[0].strip():
            lines.pop(0)
        self._rows = lines
        self._margin = margin_of(lines[0]) if lines else ""
        self._starts: set[int] = set()
        self._fixed: set[int] = set()
        self._step = ""
        if lines:
            self._look()
            self._check()

    @property
    def is_blank(self) -> bool:
        """Whether there is nothing in it."""
        return not self._rows

    def at(self, margin: str, step: str, ending: str) -> str:
        """The piece with its first line at `margin`, its levels by `step` apart, without an end to its last line."""
        step = step if step and self._step else ""
        shown: list[str] = []
        before = after = ""
        for number, row in enumerate(self._rows, 1):
            if number in self._fixed:
                shown.append(row)
                continue
            if not row.strip():
                shown.append("")
                continue
            rest = row[len(self._margin) :] if row.startswith(self._margin) else row.lstrip()
            inner = margin_of(rest)
            if number in self._starts:
                before, after = inner, self._levels(inner, step)
                inner = after
            elif inner.startswith(before):
                inner = after + inner[len(before) :]
            shown.append(margin + inner + rest.lstrip(" \t\f"))
        return ending.join(shown)

    def _levels(self, margin: str, step: str) -> str:
        """A margin in steps of another length."""
        if not step or step == self._step:
            return margin
        count = 0
        while margin.startswith(self._step):
            margin, count = margin[len(self._step) :], count + 1
        return step * count + margin

    def _look(self) -> None:
        """Find the rows that begin a statement, and those within a text, which must stay as they are."""
        text = "\n".join(self._rows) + "\n"
        try:
            tokens = list(tokenize.generate_tokens(io.StringIO(text).readline))
        except (tokenize.TokenError, SyntaxError):
            return  # the parser has better words for it
        opened: list[int] = []
        is_start, is_first = True, True
        for one in tokens:
            kind = token.tok_name[one.type]
            if one.type == token.INDENT:
                is_first = True
                if not self._step and one.start[0] > 1:
                    self._step = one.string.removeprefix(self._margin)
            if kind.endswith("STRING_START"):
                opened.append(one.start[0])
            elif kind.endswith("STRING_END"):
                self._fixed.update(range(opened.pop() + 1, one.end[0] + 1))
            elif one.type == token.STRING and not (is_start and is_first):
                self._fixed.update(range(one.start[0] + 1, one.end[0] + 1))
            if one.type == tokenize.COMMENT and is_start:
                self._starts.add(one.start[0])
            if one.type in _SILENT:
                is_start = is_start or one.type == token.NEWLINE
            elif is_start:
                self._starts.add(one.start[0])
                is_start = is_first = False

    def _check(self) -> None:
        try:
            parsed(self.at("", "", "\n"), compiles=False)
        except SyntaxError as error:
            raise ProblemError(Problem(f"the new text {words_of(error)}")) from error
