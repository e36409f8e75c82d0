"""Parse JSON with comments, and edit single members while preserving everything else.

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
"""Matches a string, a number or a name."""
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
    """A member of an object, with the positions of its key (`start`) and of the comma after its value (`comma`)."""

    key: str
    start: int
    node: Node
    comma: int | None


@dataclass(frozen=True, slots=True)
class Node:
    """A JSON value from position `start` up to but not including `end`.

    If it is an object, `members` are its members in order.
    """

    value: object
    start: int
    end: int
    members: tuple[Member, ...] = ()

    def member(self, key: str) -> Member | None:
        """Return the member with this key, or None.

        If several members have the key, the last one counts, as in other JSON parsers.
        """
        return next((member for member in reversed(self.members) if member.key == key), None)


def parse_jsonc(text: str, *, comments: bool = True, trailing_commas: bool = True) -> Node | None:
    """Parse JSON text. Return None if it contains only whitespace and comments.

    Raises:
        FileFormatError: the text is not valid JSON, or has comments or trailing commas that are not allowed.
    """
    return _Parser(text, comments=comments, trailing_commas=trailing_commas).parse()


def set_member(text: str, path: Sequence[str], value: object) -> str:
    """Return the text with the member at `path` set to `value`. Missing objects are created.

    Raises:
        FileFormatError: the text is not valid JSON, or `path` leads through a value that is not an object.
    """
    root = parse_jsonc(text)
    if root is None:
        raise FileFormatError("the file contains no value", 1, 1)
    holder, rest = _descend(text, root, path)
    for key in reversed(rest[1:]):
        value = {key: value}
    return _StyledEditor(text).set_member(holder, rest[0], value)


def remove_member(text: str, path: Sequence[str]) -> str:
    """Return the text without the member at `path`, or unchanged if there is no such member.

    Raises:
        FileFormatError: the text is not valid JSON, or `path` leads through a value that is not an object.
    """
    root = parse_jsonc(text)
    if root is None:
        return text
    holder, rest = _descend(text, root, path)
    member = holder.member(rest[0])
    return text if len(rest) > 1 or member is None else _StyledEditor(text).remove_member(holder, member)


def remove_with_empty_parents(text: str, path: Sequence[str]) -> str:
    """Return the text without the member at `path` and any objects around it that become empty.

    The outermost object and objects with comments are preserved.

    Raises:
        FileFormatError: the text is not valid JSON, or `path` leads through a value that is not an object.
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
        text = _StyledEditor(text).remove_member(holder, member)
    return text


def format_json(value: object, *, unit: str = "  ", indent: str = "", newline: str = "\n") -> str:
    """Format a value as JSON, with objects on several lines and lists on one."""
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
    """Return the line and column of an offset, which count from 1."""
    line_start = text.rfind("\n", 0, offset) + 1
    return text.count("\n", 0, offset) + 1, offset - line_start + 1


def _descend(text: str, root: Node, path: Sequence[str]) -> tuple[Node, list[str]]:
    """Follow `path` through existing objects. Return the last one, and the keys that were not found."""
    holder, rest = root, list(path)
    while True:
        if not isinstance(holder.value, dict):
            raise FileFormatError("expected an object here", *line_and_column(text, holder.start))
        member = holder.member(rest[0])
        if len(rest) == 1 or member is None:
            return holder, rest
        holder, rest = member.node, rest[1:]


class _Parser:
    """A recursive-descent parser for a single document."""

    def __init__(self, text: str, *, comments: bool, trailing_commas: bool) -> None:
        self._text = text
        self._comments = comments
        self._trailing_commas = trailing_commas
        self._at = 0

    def parse(self) -> Node | None:
        """Parse the text, and return the value in it, or None if there is none."""
        self._skip_whitespace()
        if self._at == len(self._text):
            return None
        node = self._parse_value(0)
        self._skip_whitespace()
        if self._at < len(self._text):
            raise self._error("unexpected text after the end of the value")
        return node

    def _parse_value(self, depth: int) -> Node:
        if depth > MAX_DEPTH:
            raise self._error(f"the value is nested deeper than {MAX_DEPTH} levels")
        match self._text[self._at : self._at + 1]:
            case "{":
                return self._parse_object(depth)
            case "[":
                return self._parse_array(depth)
            case _:
                return self._parse_scalar()

    def _parse_object(self, depth: int) -> Node:
        start, members = self._at, list[Member]()
        value: dict[str, object] = {}
        self._at += 1
        self._skip_whitespace()
        comma: int | None = None
        while not self._is_at_close("}", comma):
            key_at = self._at
            key = self._parse_scalar() if self._text.startswith('"', key_at) else None
            if key is None:
                raise self._error("expected a key in double quotes")
            self._skip_whitespace()
            if not self._text.startswith(":", self._at):
                raise self._error("expected a colon")
            self._at += 1
            self._skip_whitespace()
            node = self._parse_value(depth + 1)
            comma = self._skip_comma("}")
            members.append(Member(str(key.value), key_at, node, comma))
            value[str(key.value)] = node.value
        self._at += 1
        return Node(value, start, self._at, tuple(members))

    def _parse_array(self, depth: int) -> Node:
        start, items = self._at, list[object]()
        self._at += 1
        self._skip_whitespace()
        comma: int | None = None
        while not self._is_at_close("]", comma):
            items.append(self._parse_value(depth + 1).value)
            comma = self._skip_comma("]")
        self._at += 1
        return Node(items, start, self._at)

    def _is_at_close(self, bracket: str, comma: int | None) -> bool:
        """Return whether the object or array ends at the current position.

        Raises FileFormatError for a trailing comma that is not allowed.
        """
        if not self._text.startswith(bracket, self._at):
            return False
        if comma is not None and not self._trailing_commas:
            raise self._error(f"a comma before {bracket} is not allowed in this file")
        return True

    def _skip_comma(self, bracket: str) -> int | None:
        """Skip the comma after a value and return its position. Return None before the closing bracket."""
        self._skip_whitespace()
        at = self._at
        if self._text.startswith(",", at):
            self._at += 1
            self._skip_whitespace()
            return at
        if not self._text.startswith(bracket, at):
            raise self._error(f"expected a comma or {bracket}")
        return None

    def _parse_scalar(self) -> Node:
        found = _TOKEN.match(self._text, self._at)
        if found is None:
            raise self._error("expected a value" if self._at < len(self._text) else "unexpected end of file")
        try:
            value = json.loads(found.group(), parse_constant=_reject_constant)
        except ValueError:
            raise self._error(f"{found.group()[:40]} is not JSON") from None
        start, self._at = self._at, found.end()
        return Node(value, start, self._at)

    def _skip_whitespace(self) -> None:
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
    """Edits JSON text in its own style: its line endings, its indentation, and whether objects have several lines."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._newline = "\r\n" if "\r\n" in text else "\n"
        indented = re.search(r"^([ \t]+)[\"}\]/]", text, re.MULTILINE)
        self._unit = "\t" if indented and indented.group(1)[0] == "\t" else (indented.group(1) if indented else "  ")

    def set_member(self, holder: Node, key: str, value: object) -> str:
        """Return the text with a member of an object set to a value, adding the member if it does not exist."""
        member = holder.member(key)
        if member is not None:
            at = member.node
            return (
                self._text[: at.start]
                + self._format_value(value, self._indentation_at(member.start))
                + self._text[at.end :]
            )
        if not holder.members:
            return self._set_first_member(holder, key, value)
        last = holder.members[-1]
        if "\n" not in self._text[holder.start : holder.end]:
            new = f"{json.dumps(key, ensure_ascii=False)}: {json.dumps(value, ensure_ascii=False)}"
            glue = " " if last.comma else ", "
            at_offset = last.node.end if last.comma is None else last.comma + 1
            return self._text[:at_offset] + glue + new + self._text[at_offset:]
        indent = self._indentation_at(last.start)
        behind = self._end_of_line_comment(last.node.end if last.comma is None else last.comma + 1)
        new = f"{self._newline}{indent}{self._format_member(key, value, indent)}" + ("," if last.comma else "")
        head = self._text[: last.node.end] + ("" if last.comma else ",") + self._text[last.node.end : behind]
        return head + new + self._before_close(holder, behind)

    def remove_member(self, holder: Node, member: Member) -> str:
        """Return the text without a member of an object."""
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

    def _set_first_member(self, holder: Node, key: str, value: object) -> str:
        outer = self._indentation_at(holder.start)
        inner = outer + self._unit
        inside = self._text[holder.start : holder.end - 1].rstrip()
        new = f"{self._newline}{inner}{self._format_member(key, value, inner)}{self._newline}{outer}"
        return self._text[: holder.start] + inside + new + self._text[holder.end - 1 :]

    def _before_close(self, holder: Node, at: int) -> str:
        """Return the text from `at` on. A closing bracket at `at` is moved to its own line."""
        rest = self._text[at:]
        return self._newline + self._indentation_at(holder.start) + rest.lstrip(" \t") if at == holder.end - 1 else rest

    def _end_of_line_comment(self, at: int) -> int:
        """Return the offset after whitespace and comments on the same line."""
        while found := re.compile(r"[ \t]*(//[^\r\n]*|/\*[^\n]*?\*/)").match(self._text, at):
            at = found.end()
        return at

    def _format_member(self, key: str, value: object, indent: str) -> str:
        return f"{json.dumps(key, ensure_ascii=False)}: {self._format_value(value, indent)}"

    def _format_value(self, value: object, indent: str) -> str:
        return format_json(value, unit=self._unit, indent=indent, newline=self._newline)

    def _indentation_at(self, at: int) -> str:
        """Return the indentation of the line that contains an offset."""
        line_start = self._text.rfind("\n", 0, at) + 1
        found = re.compile(r"[ \t]*").match(self._text, line_start)
        return found.group() if found else ""
