"""JSON with comments: a parser that records positions, and edits of single members that preserve everything else.

Source: RFC 8259; comments and trailing commas as editors accept them in their settings files.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from codriver.errors import StartError

if TYPE_CHECKING:
    from collections.abc import Sequence

MAX_DEPTH: Final = 200
"""Maximum depth of nested values, well below the interpreter's recursion limit."""

_TOKEN: Final = re.compile(r'"(?:[^"\\\x00-\x1f]|\\.)*"|-?[0-9][0-9.eE+-]*|[A-Za-z]+')
_COMMENT: Final = re.compile(r"//[^\r\n]*|/\*.*?\*/", re.DOTALL)
_WHITESPACE: Final = re.compile(r"[ \t\r\n\ufeff]+")


class FileFormatError(StartError):
    """Raised when a file does not have the expected format. `line` and `column` count from 1."""

    def __init__(self, message: str, line: int, column: int) -> None:
        super().__init__(f"line {line}, column {column}: {message}")
        self.line = line
        self.column = column


@dataclass(frozen=True, slots=True)
class Member:
    """A member of an object. `start` is the position of its key, and `comma` that of a comma after its value."""

    key: str
    start: int
    node: Node
    comma: int | None


@dataclass(frozen=True, slots=True)
class Node:
    """A value from position `start` up to `end`, exclusive. `members` are those of an object, in order."""

    value: object
    start: int
    end: int
    members: tuple[Member, ...] = ()

    def member(self, key: str) -> Member | None:
        """Return the member with this key, or None.

        If the key occurs repeatedly, the last member counts, as for JSON parsers.
        """
        return next((member for member in reversed(self.members) if member.key == key), None)


def parse_jsonc(text: str, *, comments: bool = True, trailing_commas: bool = True) -> Node | None:
    """Parse a text, and return None if it only has whitespace and comments.

    Raises:
        FileFormatError: it is not valid JSON, or has comments or trailing commas although they are not allowed.
    """
    return _Parser(text, comments=comments, trailing_commas=trailing_commas).document()


def set_member(text: str, path: Sequence[str], value: object) -> str:
    """Return the text with the member at `path` set to `value`, creating missing objects.

    Raises:
        FileFormatError: the text is not valid JSON, or `path` leads through something other than an object.
    """
    root = parse_jsonc(text)
    if root is None:
        raise FileFormatError("there is no value", 1, 1)
    holder, rest = _descend(text, root, path)
    for key in reversed(rest[1:]):
        value = {key: value}
    return _StyledEditor(text).put(holder, rest[0], value)


def remove_member(text: str, path: Sequence[str]) -> str:
    """Return the text without the member at `path`, or unchanged if it does not exist.

    Raises:
        FileFormatError: the text is not valid JSON, or `path` leads through something other than an object.
    """
    root = parse_jsonc(text)
    if root is None:
        return text
    holder, rest = _descend(text, root, path)
    member = holder.member(rest[0])
    return text if len(rest) > 1 or member is None else _StyledEditor(text).cut(holder, member)


def remove_with_empty_parents(text: str, path: Sequence[str]) -> str:
    """Return the text without the member at `path`, and without the objects around it that become empty.

    The outermost object and objects with comments are preserved.

    Raises:
        FileFormatError: the text is not valid JSON, or `path` leads through something other than an
            object.
    """
    keys = list(path)
    text = remove_member(text, keys)
    while len(keys) > 1:
        keys.pop()
        root = parse_jsonc(text)
        if root is None:
            break
        holder, rest = _descend(text, root, keys)
        member = holder.member(rest[0])
        if len(rest) > 1 or member is None or text[member.node.start + 1 : member.node.end - 1].strip():
            break
        text = _StyledEditor(text).cut(holder, member)
    return text


def format_json(value: object, *, unit: str = "  ", indent: str = "", newline: str = "\n") -> str:
    """Format a value as JSON: objects on several lines, lists on one."""
    if isinstance(value, dict) and value:
        inner = indent + unit
        members = (
            inner
            + json.dumps(key, ensure_ascii=False)
            + ": "
            + format_json(item, unit=unit, indent=inner, newline=newline)
            for key, item in value.items()
        )
        return "{" + newline + f",{newline}".join(members) + newline + indent + "}"
    return json.dumps(value, ensure_ascii=False)


def line_and_column(text: str, offset: int) -> tuple[int, int]:
    """Return the line and column of an offset, counted from 1."""
    line_start = text.rfind("\n", 0, offset) + 1
    return text.count("\n", 0, offset) + 1, offset - line_start + 1


def _descend(text: str, root: Node, path: Sequence[str]) -> tuple[Node, list[str]]:
    """Return the innermost existing object on `path`, and the keys that remain after it."""
    holder, rest = root, list(path)
    while True:
        if not isinstance(holder.value, dict):
            raise FileFormatError("expected an object here", *line_and_column(text, holder.start))
        member = holder.member(rest[0])
        if len(rest) == 1 or member is None:
            return holder, rest
        holder, rest = member.node, rest[1:]


class _Parser:
    """A recursive-descent parser for one text."""

    def __init__(self, text: str, *, comments: bool, trailing_commas: bool) -> None:
        self._text = text
        self._comments = comments
        self._trailing_commas = trailing_commas
        self._at = 0

    def document(self) -> Node | None:
        self._skip()
        if self._at == len(self._text):
            return None
        node = self._value(0)
        self._skip()
        if self._at < len(self._text):
            raise self._error("unexpected text after the end of the value")
        return node

    def _value(self, depth: int) -> Node:
        if depth > MAX_DEPTH:
            raise self._error(f"nested deeper than {MAX_DEPTH} levels")
        match self._text[self._at : self._at + 1]:
            case "{":
                return self._object(depth)
            case "[":
                return self._array(depth)
            case _:
                return self._scalar()

    def _object(self, depth: int) -> Node:
        start, members = self._at, list[Member]()
        value: dict[str, object] = {}
        self._at += 1
        self._skip()
        comma: int | None = None
        while not self._closes("}", comma):
            key_at = self._at
            key = self._scalar() if self._text.startswith('"', key_at) else None
            if key is None:
                raise self._error("expected a key in double quotes")
            self._skip()
            if not self._text.startswith(":", self._at):
                raise self._error("expected a colon")
            self._at += 1
            self._skip()
            node = self._value(depth + 1)
            comma = self._comma("}")
            members.append(Member(str(key.value), key_at, node, comma))
            value[str(key.value)] = node.value
        self._at += 1
        return Node(value, start, self._at, tuple(members))

    def _array(self, depth: int) -> Node:
        start, items = self._at, list[object]()
        self._at += 1
        self._skip()
        comma: int | None = None
        while not self._closes("]", comma):
            items.append(self._value(depth + 1).value)
            comma = self._comma("]")
        self._at += 1
        return Node(items, start, self._at)

    def _closes(self, bracket: str, comma: int | None) -> bool:
        """Return whether the object or array ends here.

        Raises FileFormatError for a trailing comma that is not allowed.
        """
        if not self._text.startswith(bracket, self._at):
            return False
        if comma is not None and not self._trailing_commas:
            raise self._error(f"a comma before {bracket} is not allowed in this file")
        return True

    def _comma(self, bracket: str) -> int | None:
        """Skip a comma after a value and return its position, or None before the closing bracket."""
        self._skip()
        at = self._at
        if self._text.startswith(",", at):
            self._at += 1
            self._skip()
            return at
        if not self._text.startswith(bracket, at):
            raise self._error(f"expected a comma or {bracket}")
        return None

    def _scalar(self) -> Node:
        found = _TOKEN.match(self._text, self._at)
        if found is None:
            raise self._error("expected a value" if self._at < len(self._text) else "unexpected end of file")
        try:
            value = json.loads(found.group(), parse_constant=_reject_constant)
        except ValueError:
            raise self._error(f"{found.group()[:40]} is not JSON") from None
        start, self._at = self._at, found.end()
        return Node(value, start, self._at)

    def _skip(self) -> None:
        while True:
            if blanks := _WHITESPACE.match(self._text, self._at):
                self._at = blanks.end()
            comment = _COMMENT.match(self._text, self._at)
            if comment is None:
                return
            if not self._comments:
                raise self._error("a comment is not allowed in this file")
            self._at = comment.end()

    def _error(self, message: str) -> FileFormatError:
        return FileFormatError(message, *line_and_column(self._text, self._at))


def _reject_constant(name: str) -> None:
    raise ValueError(name)


class _StyledEditor:
    """Edits one text in its existing style: line endings, indentation, and objects on one line or several."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._newline = "\r\n" if "\r\n" in text else "\n"
        indented = re.search(r"^([ \t]+)[\"}\]/]", text, re.MULTILINE)
        self._unit = "\t" if indented and indented.group(1)[0] == "\t" else (indented.group(1) if indented else "  ")

    def put(self, holder: Node, key: str, value: object) -> str:
        member = holder.member(key)
        if member is not None:
            at = member.node
            return self._text[: at.start] + self._dump(value, self._indent(member.start)) + self._text[at.end :]
        if not holder.members:
            return self._put_first(holder, key, value)
        last = holder.members[-1]
        if "\n" not in self._text[holder.start : holder.end]:
            new = f"{json.dumps(key, ensure_ascii=False)}: {json.dumps(value, ensure_ascii=False)}"
            glue = " " if last.comma else ", "
            at_offset = last.node.end if last.comma is None else last.comma + 1
            return self._text[:at_offset] + glue + new + self._text[at_offset:]
        indent = self._indent(last.start)
        behind = self._line_rest(last.node.end if last.comma is None else last.comma + 1)
        new = f"{self._newline}{indent}{self._member(key, value, indent)}" + ("," if last.comma else "")
        head = self._text[: last.node.end] + ("" if last.comma else ",") + self._text[last.node.end : behind]
        return head + new + self._before_close(holder, behind)

    def cut(self, holder: Node, member: Member) -> str:
        index = holder.members.index(member)
        start, end = member.start, member.node.end if member.comma is None else member.comma + 1
        text = self._text
        line_start = text.rfind("\n", 0, start) + 1
        line_end = re.compile(r"[ \t]*(?=\r?\n|\Z)").match(text, end)
        if not text[line_start:start].strip() and line_end:
            # Nothing else is on the member's lines, so remove them with the preceding line ending.
            start = line_start - (2 if text[:line_start].endswith("\r\n") else 1) if line_start else start
            end = line_end.end()
        elif found := re.compile(r"[ \t]+").match(text, end):
            end = found.end()
        head, tail = text[:start], text[end:]
        if index == len(holder.members) - 1 and index and member.comma is None:
            comma = holder.members[index - 1].comma or 0
            between = head[comma + 1 :]
            head = head[:comma] + (between if between.strip(" \t") else "")
        opening = head.rstrip()
        if len(holder.members) == 1 and len(opening) == holder.start + 1 and tail.lstrip().startswith("}"):
            return opening + tail.lstrip()
        return head + tail

    def _put_first(self, holder: Node, key: str, value: object) -> str:
        outer = self._indent(holder.start)
        inner = outer + self._unit
        inside = self._text[holder.start : holder.end - 1].rstrip()
        new = f"{self._newline}{inner}{self._member(key, value, inner)}{self._newline}{outer}"
        return self._text[: holder.start] + inside + new + self._text[holder.end - 1 :]

    def _before_close(self, holder: Node, at: int) -> str:
        """Return the text from `at` on. If there is a closing bracket at `at`, it is moved to a separate line."""
        rest = self._text[at:]
        return self._newline + self._indent(holder.start) + rest.lstrip(" \t") if at == holder.end - 1 else rest

    def _line_rest(self, at: int) -> int:
        """Return the offset after whitespace and comments that follow `at` on the same line."""
        while found := re.compile(r"[ \t]*(//[^\r\n]*|/\*[^\n]*?\*/)").match(self._text, at):
            at = found.end()
        return at

    def _member(self, key: str, value: object, indent: str) -> str:
        return f"{json.dumps(key, ensure_ascii=False)}: {self._dump(value, indent)}"

    def _dump(self, value: object, indent: str) -> str:
        return format_json(value, unit=self._unit, indent=indent, newline=self._newline)

    def _indent(self, at: int) -> str:
        """Return the indentation of the line that contains `at`."""
        line_start = self._text.rfind("\n", 0, at) + 1
        found = re.compile(r"[ \t]*").match(self._text, line_start)
        return found.group() if found else ""
