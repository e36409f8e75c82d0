"""Read JSON documents with the positions of their values, so that individual values can be replaced in the text.

Only requested values are parsed. All others are skipped without being decoded.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from codriver.wire.untrusted import end_of_string

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    ValueParser = Callable[[bytes, int], tuple[Any, int]]
    """Parses the value at an offset. Returns the value and the offset of its end."""

_SPACE = re.compile(rb"[ \t\r\n]*")
"""Matches white space between values."""
_BRACKET = re.compile(rb'["\[\]{}]')
"""Matches a bracket, or the start of a string that may contain brackets."""
_LITERAL = re.compile(rb'[^\s,\]}\[{":]*')
"""Matches a JSON number or literal."""
MAX_VALUE_BYTES: Final = 20 * 2**20
"""Maximum size of a value to parse, such as a cell's source."""
NO_PARSERS: Final[Mapping[str, ValueParser]] = MappingProxyType({})


class JsonError(ValueError):
    """Raised when the value at `position` is not the expected JSON or is too large."""

    def __init__(self, error_text: str, position: int) -> None:
        super().__init__(error_text)
        self.error_text = error_text
        self.position = position


@dataclass(frozen=True, slots=True)
class Member:
    """A member of a JSON object, with the offsets of its key and its value in the document."""

    lead: str
    """White space before the key."""
    key: int
    """Position of the key."""
    colon: str
    """Text from the end of the key to the value."""
    start: int
    """Start of the value."""
    end: int
    """End of the value."""
    value: Any
    """The value, or None if it was skipped."""


def parse_members(
    data: bytes, position: int, parsers: Mapping[str, ValueParser] = NO_PARSERS
) -> tuple[dict[str, Member], int]:
    """Parse the object at a position. Return its members by key, and the position after the object.

    `parsers` maps keys to the functions that parse their values. Other values are skipped. If a key is repeated, the
    last member is used.

    Raises:
        JsonError: the value is not an object, or a parser cannot parse its value.
    """
    _expect(data, position, b"{")
    members: dict[str, Member] = {}
    lead_start = position + 1
    key_at = skip_space(data, lead_start)
    if data[key_at : key_at + 1] == b"}":
        return members, key_at + 1
    while True:
        _expect(data, key_at, b'"')
        key, key_end = parse_value(data, key_at)
        colon_at = skip_space(data, key_end)
        _expect(data, colon_at, b":")
        start = skip_space(data, colon_at + 1)
        value, end = parsers.get(key, skip_value)(data, start)
        lead, colon = data[lead_start:key_at].decode(), data[key_end:start].decode()
        members[key] = Member(lead, key_at, colon, start, end, value)
        comma_at = skip_space(data, end)
        if _expect(data, comma_at, b",}") == b"}":
            return members, comma_at + 1
        lead_start = comma_at + 1
        key_at = skip_space(data, lead_start)


def parse_array(data: bytes, position: int, parse: ValueParser) -> tuple[list[Any], int]:
    """Parse the array at a position. Return its values, and the position after the array.

    `parse` reads each value. Values are parsed one by one, because parsing a large document in one call would block
    all other threads.

    Raises:
        JsonError: the value is not an array, or `parse` cannot parse one of its values.
    """
    _expect(data, position, b"[")
    values: list[Any] = []
    position = skip_space(data, position + 1)
    if data[position : position + 1] == b"]":
        return values, position + 1
    while True:
        value, end = parse(data, position)
        values.append(value)
        comma_at = skip_space(data, end)
        if _expect(data, comma_at, b",]") == b"]":
            return values, comma_at + 1
        position = skip_space(data, comma_at + 1)


def parse_value(data: bytes, position: int) -> tuple[Any, int]:
    """Parse the value at a position. Return the value and the position after it.

    Raises:
        JsonError: the value is invalid or too large.
    """
    _, end = skip_value(data, position)
    if end - position > MAX_VALUE_BYTES:
        raise JsonError(f"a value has {end - position:,} bytes, which exceeds the limit", position)
    text = data[position:end].decode("utf-8", "surrogatepass")
    try:
        return json.loads(text), end
    except json.JSONDecodeError as error:
        error_position = position + len(text[: error.pos].encode("utf-8", "surrogatepass"))
        raise JsonError(error.msg, error_position) from None
    except RecursionError:
        raise JsonError("the value is nested too deeply", position) from None
    except ValueError:  # Python limits the number of digits
        raise JsonError("a number has too many digits", position) from None


def check_value(data: bytes, position: int) -> tuple[None, int]:
    """Check that the value at a position is valid JSON. Return None and the position after it.

    Raises:
        JsonError: the value is invalid or too large.
    """
    return None, parse_value(data, position)[1]


def skip_value(data: bytes, position: int) -> tuple[None, int]:
    """Skip the value at a position. Return None and the position after it.

    Only the ends of strings and the nesting of brackets are checked.

    Raises:
        JsonError: the value has no end.
    """
    first = data[position : position + 1]
    if first == b'"':
        end = end_of_string(data, position + 1)
        if data[end - 1 : end] != b'"' or end == position + 1:
            raise JsonError("a string is not closed", position)
        return None, end
    if first not in (b"[", b"{"):
        literal = _LITERAL.match(data, position)
        if literal is None or not literal[0]:
            raise JsonError("expected a value", position)
        return None, literal.end()
    open_brackets = bytearray()
    current = position
    while bracket := _BRACKET.search(data, current):
        current, kind = bracket.end(), bracket[0]
        if kind == b'"':
            _, current = skip_value(data, bracket.start())
        elif kind in b"[{":
            open_brackets += kind
        elif open_brackets.pop() + 2 != kind[0]:
            raise JsonError("a closing bracket does not match the opening one", bracket.start())
        if not open_brackets:
            return None, current
    raise JsonError("a bracket is not closed", position)


def skip_space(data: bytes, position: int) -> int:
    """Return the position of the first byte at or after `position` that is not white space."""
    match = _SPACE.match(data, position)
    return match.end() if match else position


def _expect(data: bytes, position: int, characters: bytes) -> bytes:
    """Return the byte at a position if it is one of `characters`.

    Raises:
        JsonError: the byte is a different one, or the end of the data has been reached.
    """
    character = data[position : position + 1]
    if not character or character not in characters:
        raise JsonError(f"expected {' or '.join(characters.decode())}", position)
    return character
