"""Correct brackets by indentation, like parinfer's indent mode, but change less of the text.

Indent mode trusts the indentation, with these rules for each line of code:

* The *trail* of a line is the closers and spaces between its last code and a comment or the end of the line.
* The closers in a trail are only suggestions. They are removed, and added again as the indentation of the next line of
  code requires. Closers elsewhere must match.
* Strings and characters are opaque. Comments are only checked for paired quotes, because a single quote would turn code
  into a string if the comment were uncommented.

`indent_mode` gives the same results as parinfer.js 3.13. That includes its behavior with tabs: parinfer.js counts a
replaced character twice, so it assumes that the code after a tab moved left, and code below may move, leave its form or
lose a character. Columns are counted in UTF-16 code units, as in JavaScript. The running time is linear in the length
of the text, except that each comment below a line that moved costs time proportional to the number of open brackets.

On its own, indent mode changes balanced text that is badly indented, gives all lines the line ending of the first, does
not recognize a carriage return as a line ending, and turns tabs into spaces. `balance_by_indentation` adds the missing
care: it leaves balanced text alone, expands tabs before parinfer sees them and keeps them in the indentation, keeps the
ending of each line, and keeps lines with the right brackets exactly as they are. It masks Hy's bracket strings, which
parinfer does not know. The result is checked with the reader, which knows more kinds of literals and comments than
parinfer.

Source: the rules at https://shaunlebron.github.io/parinfer/ and the observed behavior of parinfer.js.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NoReturn

from codriver_lisp.reader import CLOSERS_BY_OPENER, LINE_END_PATTERN, Unbalanced, check_balance, tokens

ERROR_MESSAGES = {
    "quote-danger": "Quotes must balanced inside comment blocks.",
    "eol-backslash": "Line cannot end in a hanging backslash.",
    "unclosed-quote": "String is missing a closing quote.",
    "unmatched-close-paren": "Unmatched close-paren.",
    "leading-close-paren": "Line cannot lead with a close-paren.",
}
"""The message for each error, exactly as in parinfer.js, because users know the messages from their editors."""

Position = tuple[int, int]
"""A line and a column of the input, both counted from 0."""

_SPECIAL_PATTERN = re.compile(r"""[()\[\]{}";\\\t]""")
"""Matches a character that changes the state of a pass."""
_STRING_REST_PATTERN = re.compile(r'(?:[^"\\]|\\.)*+', re.DOTALL)
_QUOTE_PATTERN = re.compile(r'\\.|(?P<quote>")', re.DOTALL)
_LINE_END_PATTERN = re.compile(r"\r?\n")
_NON_BMP_PATTERN = re.compile("[\U00010000-\U0010ffff]")


@dataclass(frozen=True, slots=True)
class ParinferError:
    """An error reported by parinfer. `opener` is the position of the bracket that an unmatched closer should close."""

    name: str
    line: int
    x: int
    opener: Position | None = None

    @property
    def message(self) -> str:
        """Return the message for the user, without the position."""
        return ERROR_MESSAGES[self.name]


@dataclass(frozen=True, slots=True)
class IndentResult:
    """The corrected text. If there is an `error`, it is the original text."""

    text: str
    error: ParinferError | None = None


class StopError(Exception):
    """Raised to end a pass at its first error."""

    def __init__(self, error: ParinferError) -> None:
        super().__init__(error.message)
        self.error = error


class OpenBracket:
    """A bracket that is still open. `x` is its column, and `shift` is how many columns its line was moved."""

    __slots__ = ("closer", "position", "shift", "x")

    def __init__(self, closer: str, x: int, shift: int, position: Position) -> None:
        self.closer = closer
        self.x = x
        self.shift = shift
        self.position = position


class CloserTrail:
    """The closers at the end of the last line of code.

    Columns refer to the corrected line. `openers` are the brackets that the closers close, innermost first.
    """

    __slots__ = ("end", "line", "openers", "start")

    def __init__(self, line: int, x: int) -> None:
        self.line = line
        self.start = x
        self.end = x
        self.openers: list[OpenBracket] = []


def replace_span(line: str, start: int, end: int, new: str) -> str:
    """Replace the characters of a line from `start` to `end` with `new`. Negative positions count as 0."""
    return line[: max(start, 0)] + new + line[max(end, 0) :]


class IndentPass:
    """Corrects the closers at the end of each line, according to the indentation of the next line.

    Call `process_line` for each line, and `close_open_brackets` at the end. The corrected lines are in `lines`.
    """

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._stack: list[OpenBracket] = []
        self._trail: CloserTrail | None = None
        self._has_shifted = False
        self._string: Position | None = None  # where the open string starts
        self._danger: Position | None = None  # an unpaired quote in a comment

        # The following attributes describe the current line.
        self._number = -1
        self._x = 0
        self._shift = 0
        self._edits: list[tuple[int, int, str]] = []  # (index in the input, x, replacement)
        self._leading: Position | None = None  # the first closer that comes before any code
        self._unmatched: tuple[int, Position, Position | None] | None = None  # x, positions of closer and open bracket

    def process_line(self, line: str) -> None:
        """Process the next line. This may correct closers in an earlier line."""
        self._number += 1
        self._x = self._shift = 0
        self._edits = []
        if self._string is None:
            begin = self._move_indentation(line)
            first = self._x
            at = begin
        else:
            begin = first = 0
            at = self._consume_string(line, 0)
        while at < len(line):
            at = self._consume_code(line, at)
        self.lines.append(self._correct_line(line, begin, first))
        self._end_line()

    def close_open_brackets(self) -> None:
        """Close all open brackets at the end of the text.

        Raises:
            StopError: a string, or a quote in a comment, is not closed.
        """
        if self._danger is not None:
            self._stop("quote-danger", self._danger)
        if self._string is not None:
            self._stop("unclosed-quote", self._string)
        self._x = self._shift = 0
        self._correct_trail()

    def _stop(self, name: str, position: Position, opener: Position | None = None) -> NoReturn:
        """Raise a `StopError` for the error `name` at a position."""
        raise StopError(ParinferError(name, *position, opener))

    def _correct_line(self, line: str, begin: int, first: int) -> str:
        """Apply the recorded edits to a line, and move its first code from index `begin` to column `first`."""
        if first < 0:  # moved past the left margin: apply the edits at wrong columns, as parinfer.js does
            corrected = line[begin:]
            for _, x, new in self._edits:
                corrected = replace_span(corrected, x, x + 1, new)
            return replace_span(corrected, self._x, self._x + 1, "")
        parts, at = [" " * first], begin
        for index, _, new in self._edits:
            parts += line[at:index], new
            at = index + 1
        return "".join([*parts, line[at:]])

    def _move_indentation(self, line: str) -> int:
        """Scan a line's indentation, align the code after it with its bracket, and return the index of that code."""
        for index, character in enumerate(line):
            if character == " ":
                self._x += 1
            elif character == "\t":
                self._x += 2
                self._shift -= 3
            elif character in ")]}":
                self._leading = self._leading or (self._number, index)  # this closer is always dropped
                self._shift -= 1
            elif character == ";":
                self._move_comment()
                return index
            else:
                self._move_first_code()
                return index
        return len(line)

    def _move_first_code(self) -> None:
        """Close the brackets that end before the line's first code, and move the code with its enclosing bracket."""
        if self._danger is not None:
            self._stop("quote-danger", self._danger)
        self._correct_trail()
        opener = self._stack[-1] if self._stack else None
        if opener is not None and opener.shift != self._shift:
            self._move(opener.shift)

    def _move_comment(self) -> None:
        """Move a comment on its own line along with its enclosing bracket. Unlike code, it does not close brackets."""
        if not self._has_shifted:
            return
        count = self._closed_count()
        if count < len(self._stack):
            opener = self._stack[-1 - count]
            if opener.shift != self._shift:
                self._move(opener.shift)

    def _move(self, columns: int) -> None:
        """Move the line's code by a number of columns, which is negative for a move to the left."""
        self._x += columns
        self._shift += columns

    def _closed_count(self) -> int:
        """Return the number of open brackets that end before code at the current column.

        A line belongs to a bracket that is to the left of it. If the line or the bracket has moved, the line stays in
        its bracket only if the line itself did not move. The line enters another bracket only if that bracket moved
        left relative to the line.
        """
        stack = self._stack
        for count, opener in enumerate(reversed(stack)):
            is_in = opener.x < self._x
            was_in = opener.x - opener.shift < self._x - self._shift
            if was_in and (is_in or self._shift == 0):
                return count
            if is_in and not was_in:
                outer = stack[-2 - count] if count + 1 < len(stack) else None
                if outer is None:
                    adopts = self._shift > opener.shift
                else:
                    adopts = outer.shift > opener.shift or self._x + outer.shift > opener.x
                if adopts:
                    opener.shift = 0
                    return count
        return len(stack)

    def _consume_code(self, line: str, at: int) -> int:
        """Process code up to and including the next special character, and return the index after it."""
        found = _SPECIAL_PATTERN.search(line, at)
        end = found.start() if found else len(line)
        if end > at:
            length = len(line[at:end].rstrip(" "))
            if length:
                self._trail = CloserTrail(self._number, self._x + length)
            self._x += end - at
        if found is None:
            return end
        match found[0]:
            case "(" | "[" | "{":
                position = self._number, end
                self._stack.append(OpenBracket(CLOSERS_BY_OPENER[found[0]], self._x, self._shift, position))
                self._has_shifted = self._has_shifted or self._shift != 0
            case ")" | "]" | "}":
                self._handle_closer(found[0], end)
                return end + 1
            case '"':
                self._string = self._number, end
                self._x += 1
                return self._consume_string(line, end + 1)
            case ";":
                return self._consume_comment(line, end)
            case "\\":
                if end + 1 == len(line):
                    self._stop("eol-backslash", (self._number, end))
                self._x += 1
                end += 1
            case _:
                self._edits.append((end, self._x, "  "))
                self._x += 2
                self._shift -= 3
                return end + 1
        self._x += 1
        self._trail = CloserTrail(self._number, self._x)
        return end + 1

    def _handle_closer(self, closer: str, index: int) -> None:
        """Process a closer that follows code. It closes the innermost open bracket, or is unmatched."""
        position = self._number, index
        opener = self._stack[-1] if self._stack else None
        if opener is not None and opener.closer == closer:
            self._stack.pop()
            self._x += 1
            if self._trail is not None:
                self._trail.end = self._x
                self._trail.openers.append(opener)
            return
        self._remove_stray_closer(index, position)

    def _consume_string(self, line: str, at: int) -> int:
        """Process a string up to its end or the end of the line, and return the index after it."""
        found = _STRING_REST_PATTERN.match(line, at)
        end = found.end() if found else at
        if end < len(line) and line[end] == '"':
            self._string = None
            self._x += end + 1 - at
            self._trail = CloserTrail(self._number, self._x)
            return end + 1
        self._x += len(line) - at
        return len(line)

    def _consume_comment(self, line: str, at: int) -> int:
        """Process a comment, counting its quotes, and return the length of the line."""
        for found in _QUOTE_PATTERN.finditer(line, at):
            if found["quote"]:
                self._danger = None if self._danger else (self._number, found.start())
        self._x += len(line) - at
        return len(line)

    def _remove_stray_closer(self, index: int, position: Position) -> None:
        """Remove an unmatched closer. `_end_line` decides whether it is an error."""
        if self._unmatched is None:
            self._unmatched = self._x, position, self._stack[-1].position if self._stack else None
        self._edits.append((index, self._x, ""))
        self._shift -= 1

    def _end_line(self) -> None:
        """Reopen the brackets closed at the end of the line, so that the next line decides where they close.

        Raises:
            StopError: a closer before code is unmatched, or a line of code starts with a closer.
        """
        trail, leading, unmatched = self._trail, self._leading, self._unmatched
        self._leading = self._unmatched = None
        if unmatched is not None:
            x, position, opener = unmatched
            if trail is not None and x < trail.start:
                last = self._stack[-1].position if self._stack else None
                self._stop("unmatched-close-paren", position, opener or last)
        if trail is None or trail.line != self._number:
            return
        if leading is not None:
            self._stop("leading-close-paren", leading)
        if self._string is not None:
            self._trail = None
        elif trail.start != trail.end:
            self._stack += reversed(trail.openers)
            trail.openers = []

    def _correct_trail(self) -> None:
        """Replace the last closer trail, so that it closes the brackets that end before the current column."""
        count = self._closed_count()
        closed = self._stack[len(self._stack) - count :][::-1]
        del self._stack[len(self._stack) - count :]
        trail = self._trail
        if trail is None:
            return
        closers = "".join(opener.closer for opener in closed)
        line = self.lines[trail.line]
        if line[max(trail.start, 0) : max(trail.end, 0)] != closers:
            self.lines[trail.line] = replace_span(line, trail.start, trail.end, closers)
        trail.end = trail.start + len(closers)


def indent_mode(text: str) -> IndentResult:
    """Replace the closers at the ends of lines with those that the indentation implies."""
    run = IndentPass()
    units = _NON_BMP_PATTERN.sub(lambda match: _to_surrogate_pair(match[0]), text)
    try:
        for line in _LINE_END_PATTERN.split(units):
            run.process_line(line)
        run.close_open_brackets()
    except StopError as stop:
        return IndentResult(text, stop.error)
    corrected = ("\r\n" if "\r" in text else "\n").join(run.lines)
    if len(units) != len(text):
        corrected = corrected.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
    return IndentResult(corrected)


def _to_surrogate_pair(character: str) -> str:
    """Encode a character outside the Basic Multilingual Plane as a UTF-16 surrogate pair."""
    code = ord(character) - 0x10000
    return chr(0xD800 + (code >> 10)) + chr(0xDC00 + (code & 0x3FF))


_PREAMBLE_PATTERN = re.compile(r"\ufeff?(?:#![^\r\n]*)?")
"""Matches what may precede the code: a byte order mark and a `#!` line."""


_INDENTATION_PATTERN = re.compile(r"^[ \t]+(?=\S)", re.MULTILINE)
MIXED_TAB_STOP_COLUMNS = 8
"""Number of columns between tab stops in text indented with both tabs and spaces, as in Emacs."""
TAB_STOP_COLUMNS = 2
"""Number of columns between tab stops in text indented only with tabs, one for each level."""
_NON_NEWLINE_PATTERN = re.compile(r"[^\r\n]")
_STRING_KINDS = frozenset({"string", "bracketed"})


@dataclass(frozen=True, slots=True)
class BalancedText:
    """The balanced text. If the brackets could not be corrected, it is the original text, and `error` is the reason."""

    text: str
    changed: bool
    error: Unbalanced | None = None
    doubtful_line: int | None = None
    """The first line, counted from 1, where the indentation of balanced text suggests different brackets."""


def balance_by_indentation(text: str) -> BalancedText:
    """Correct the brackets of a source text according to its indentation. Balanced text is returned unchanged."""
    error = check_balance(text)
    suggested = _balance_by_indentation(text)
    if error is None:
        lines = zip(_split_lines(text), _split_lines(suggested), strict=True)
        differing = (number for number, (line, other) in enumerate(lines, 1) if line != other)
        return BalancedText(text, changed=False, doubtful_line=next(differing, None))
    if suggested == text or check_balance(suggested) is not None:
        return BalancedText(text, changed=False, error=error)
    return BalancedText(suggested, changed=True)


def _balance_by_indentation(text: str) -> str:
    """Correct the brackets of a source text, or return it unchanged if parinfer reports an error.

    An error is, for example, a line of code that starts with a closer, or an unpaired quote in a comment.
    """
    found = _PREAMBLE_PATTERN.match(text)
    preamble = found[0] if found else ""
    body = text[len(preamble) :]
    plain = LINE_END_PATTERN.sub("\n", body)
    tab_stop = (
        MIXED_TAB_STOP_COLUMNS
        if any(" " in indentation for indentation in _INDENTATION_PATTERN.findall(plain))
        else TAB_STOP_COLUMNS
    )
    expanded = _expand_tabs(plain, tab_stop)
    corrected = _correct_brackets(expanded)
    return text if corrected is None else preamble + _restore_formatting(body, expanded, corrected, tab_stop)


def _expand_tabs(text: str, tab_stop: int) -> str:
    """Replace each tab in code with spaces up to the next tab stop."""
    if "\t" not in text:
        return text
    chunks: list[str] = []
    column = 0
    for token in tokens(text):
        chunk = token[0]
        if token.lastgroup == "space" and "\t" in chunk:
            chunk = (" " * column + chunk).expandtabs(tab_stop)[column:]
        chunks.append(chunk)
        *earlier, last = chunk.rsplit("\n", 1)
        column = len(((" " * column if not earlier else "") + last).expandtabs(tab_stop))
    return "".join(chunks)


def _correct_brackets(text: str) -> str | None:
    """Correct the brackets of a source text, or return None if that would lose code.

    Code can be lost because parinfer sees brackets inside an unfinished bracket string, or because removing a closer
    joins the tokens around it.
    """
    result = indent_mode(_mask_bracket_strings(text))
    if result.error is not None:
        return None
    corrected = _unmask_strings(result.text, text)
    return corrected if corrected == text or _code_tokens(corrected) == _code_tokens(text) else None


def _code_tokens(text: str) -> list[str]:
    """Return the tokens of a source text, except whitespace and closers."""
    return [token[0] for token in tokens(text) if token.lastgroup not in ("space", "close")]


def _mask_bracket_strings(text: str) -> str:
    """Replace each Hy bracket string with an ordinary string with the same lines and length."""
    if "#[" not in text:
        return text
    return "".join(
        f'"{_NON_NEWLINE_PATTERN.sub("x", token[0][1:-1])}"' if token["ending"] is not None else token[0]
        for token in tokens(text)
    )


def _unmask_strings(corrected: str, text: str) -> str:
    """Replace the strings in `corrected` with those in `text`. This undoes `_mask_bracket_strings`."""
    if "#[" not in text:
        return corrected
    originals = iter([token[0] for token in tokens(text) if token.lastgroup in _STRING_KINDS])
    return "".join(
        next(originals, token[0]) if token.lastgroup in _STRING_KINDS else token[0] for token in tokens(corrected)
    )


def _restore_formatting(original: str, expanded: str, corrected: str, tab_stop: int) -> str:
    """Return `corrected` with the line endings, leading tabs and unchanged lines of `original`."""
    parts: list[str] = []
    lines = zip(_split_lines(original), _split_lines(expanded), _split_lines(corrected), strict=True)
    for (line, ending), (spaced, _), (right, _) in lines:
        if spaced == right:
            parts += line, ending
            continue
        code = line.lstrip(" \t")
        indentation = line[: len(line) - len(code)]
        spaces = indentation.expandtabs(tab_stop)
        if spaced.startswith(spaces) and right.startswith(spaces):
            parts += indentation, right[len(spaces) :], ending
        else:
            parts += right, ending
    return "".join(parts)


def _split_lines(text: str) -> list[tuple[str, str]]:
    """Split a source text into pairs of a line and its line ending. The ending of the last line is ""."""
    chunks = re.split(f"({LINE_END_PATTERN.pattern})", text)
    return list(zip(chunks[::2], [*chunks[1::2], ""], strict=True))
