"""Indent new Python code to fit its position. Lines inside strings are left unchanged."""

from __future__ import annotations

import io
import token
import tokenize

from codriver.editing.python_source import (
    describe_syntax_error,
    leading_whitespace,
    parse_python,
)
from codriver_lisp.errors import EditError, EditFailedError

_LAYOUT_TOKENS = frozenset({token.INDENT, token.DEDENT, tokenize.NL, tokenize.COMMENT, token.NEWLINE})
"""Tokens that do not affect the meaning of code."""


class CodeFragment:
    """Python code with any indentation, as it is passed to an edit.

    Raises:
        EditFailedError: the code cannot be parsed.
    """

    def __init__(self, code: str) -> None:
        text = code.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n").rstrip()
        lines = text.split("\n")
        while lines and not lines[0].strip():
            lines.pop(0)
        self._rows = lines
        self._margin = leading_whitespace(lines[0]) if lines else ""
        self._starts: set[int] = set()
        self._fixed: set[int] = set()
        self._step = ""
        self.ends_in_comment = False
        """Whether the last line is a comment."""
        if lines:
            self._find_statement_lines()
            self._check()

    @property
    def is_blank(self) -> bool:
        """Return whether the code is blank."""
        return not self._rows

    @property
    def starts_with_definition(self) -> bool:
        """Return whether the code starts with a function, a class, a decorator or a comment."""
        return self._rows[0].lstrip().startswith(("def ", "class ", "async ", "@", "#"))

    def reindent(self, margin: str, step: str, ending: str) -> str:
        """Return the code with the indentation `margin`, and with each level indented by `step`.

        The last line has no line ending.
        """
        step = step if step and self._step else ""
        formatted: list[str] = []
        before = after = ""
        for number, row in enumerate(self._rows, 1):
            if number in self._fixed:
                formatted.append(row)
                continue
            if not row.strip():
                formatted.append("")
                continue
            rest = row[len(self._margin) :] if row.startswith(self._margin) else row.lstrip()
            inner = leading_whitespace(rest)
            if number in self._starts:
                before, after = inner, self._convert_indentation(inner, step)
                inner = after
            elif inner.startswith(before):
                inner = after + inner[len(before) :]
            formatted.append(margin + inner + rest.lstrip(" \t\f"))
        return ending.join(formatted)

    def _convert_indentation(self, margin: str, step: str) -> str:
        """Convert the indentation of a line to steps of a different length."""
        if not step or step == self._step:
            return margin
        count = 0
        while margin.startswith(self._step):
            margin, count = margin[len(self._step) :], count + 1
        return step * count + margin

    def _find_statement_lines(self) -> None:
        """Find the lines where a statement starts, and the lines inside a string, which must not be changed."""
        text = "\n".join(self._rows) + "\n"
        try:
            tokens = list(tokenize.generate_tokens(io.StringIO(text).readline))
        except (tokenize.TokenError, SyntaxError):
            return  # the parser describes the error better
        opened: list[int] = []
        is_start, is_first = True, True
        for item in tokens:
            kind = token.tok_name[item.type]
            if item.type == token.INDENT:
                is_first = True
                if not self._step and item.start[0] > 1:
                    self._step = item.string.removeprefix(self._margin)
            if kind.endswith("STRING_START"):
                opened.append(item.start[0])
            elif kind.endswith("STRING_END"):
                self._fixed.update(range(opened.pop() + 1, item.end[0] + 1))
            elif item.type == token.STRING and not (is_start and is_first):
                self._fixed.update(range(item.start[0] + 1, item.end[0] + 1))
            if item.type == tokenize.COMMENT:
                self.ends_in_comment = item.start[0] == len(self._rows)
                if is_start:
                    self._starts.add(item.start[0])
            if item.type in _LAYOUT_TOKENS:
                is_start = is_start or item.type == token.NEWLINE
            elif is_start:
                self._starts.add(item.start[0])
                is_start = is_first = False

    def _check(self) -> None:
        try:
            parse_python(self.reindent("", "", "\n"), compiles=False)
        except SyntaxError as error:
            raise EditFailedError(EditError(f"the new text {describe_syntax_error(error)}")) from error
