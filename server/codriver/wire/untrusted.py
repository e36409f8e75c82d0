"""Convert values of unknown type received from a peer, and check JSON before parsing it.

Four bytes of JSON can become a hundred bytes of objects, so a line of brackets within the size limit could fill memory
and block the server. Therefore the elements and the nesting of long lines are counted before they are parsed.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, cast

EMPTY_MAPPING: Final[Mapping[str, Any]] = MappingProxyType({})


def text_or_none(value: object) -> str | None:
    """Convert a value to a string, or return None for types other than strings, bytes and integers.

    Invalid UTF-8 in bytes is escaped.
    """
    if isinstance(value, str):
        return value
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    return str(value) if isinstance(value, int) else None


def strings_or_empty(value: object) -> tuple[str, ...]:
    """Convert the items of a list to strings, omitting other types. Return an empty tuple if `value` is not a list."""
    return tuple([text for item in list_or_empty(value) if (text := text_or_none(item))])


def int_or_none(value: object) -> int | None:
    """Return an integer or the value of a string of digits. Return None for other values, including booleans."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, str) and value.removeprefix("-").isdecimal():
        return int(value)
    return None


def mapping_or_empty(value: object) -> Mapping[str, object]:
    """Return `value` if it is a dictionary, otherwise an empty mapping."""
    return value if isinstance(value, dict) else EMPTY_MAPPING


def list_or_empty(value: object) -> list[object]:
    """Return `value` if it is a list, otherwise an empty list."""
    return value if isinstance(value, list) else []


def mappings_or_empty(value: object) -> list[Mapping[str, Any]]:
    """Return the dictionaries in a list, or an empty list if `value` is not a list."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def number_or_none(value: object) -> float | None:
    """Return a finite number as a float. Return None for other values, including booleans."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number and math.isfinite(value) else None  # type: ignore[arg-type]  # it is one


def text_at(holder: Mapping[str, object], key: str) -> str:
    """Return the string under `key`, or an empty string if there is none."""
    value = holder.get(key)
    return value if isinstance(value, str) else ""


def mapping_at(holder: Mapping[str, object], key: str) -> Mapping[str, object]:
    """Return the mapping under `key`, or an empty one if there is none."""
    value = holder.get(key)
    return cast("Mapping[str, object]", value) if isinstance(value, Mapping) else EMPTY_MAPPING


def strings_at(holder: Mapping[str, object], key: str) -> tuple[str, ...]:
    """Return the strings in the list under `key`, ignoring items of other types."""
    value = holder.get(key)
    return tuple(item for item in value if isinstance(item, str)) if isinstance(value, list | tuple) else ()


MAX_ELEMENTS = 100_000
"""Maximum number of values and containers in one message.

Clients need fewer, and this many take at most 30 MB as Python objects.
"""
MAX_DEPTH = 200
"""Maximum nesting of arrays and objects. The JSON parser of the MCP SDK has the same limit."""
CHUNK_BYTES = 256 * 1024
"""Maximum number of bytes of a string that one regular-expression match scans before other threads can run."""

_STRUCTURAL_PATTERN = re.compile(rb'["\[\]{},]')
"""Matches a quote, bracket or comma."""
_STRING_CONTENT_PATTERN = re.compile(rb'[^"\\]*+(?:\\.[^"\\]*+)*+', re.DOTALL)
"""Matches the rest of a string after its opening quote, up to the closing one."""
_ID_VALUE_PATTERN = re.compile(rb'\s*:\s*(-?[0-9]{1,300}|"[^"\\]{0,300}")')
"""Matches the value of the member `id`, starting after the member's name."""


@dataclass(frozen=True, slots=True)
class ExceededLimit:
    """The reason why a line is not parsed.

    `identity` is the JSON id of its request, if the id was found before the limit was exceeded.
    """

    error: str
    identity: bytes | None


def may_exceed_limits(line: bytes) -> bool:
    """Return whether a line may exceed the maximum number of elements.

    This is a fast check. If it returns False, the line is certainly within that limit.
    """
    return line.count(b",") + line.count(b"[") + line.count(b"{") > MAX_ELEMENTS


def find_exceeded_limit(
    line: bytes, *, max_elements: int = MAX_ELEMENTS, max_depth: int = MAX_DEPTH
) -> ExceededLimit | None:
    """Return the limit that a line of JSON exceeds, or None if the line is within both limits.

    Invalid JSON may pass this check, because the parser rejects it later.
    """
    elements = depth = position = marks = 0
    identity = None
    while mark := _STRUCTURAL_PATTERN.search(line, position):
        position, kind = mark.end(), mark[0]
        marks += 1
        if kind == b'"':
            start, position = position, end_of_string(line, position)
            if identity is None and depth == 1 and line[start:position] == b'id"':
                found = _ID_VALUE_PATTERN.match(line, position)
                identity = found[1] if found else None
            continue
        if kind in b"]}":
            depth -= 1
            continue
        elements += 1
        depth += kind != b","
        if depth > max_depth:
            return ExceededLimit(f"arrays and objects nested more than {max_depth} levels deep", identity)
        if elements > max_elements or marks > 4 * max_elements:
            return ExceededLimit(f"more than {max_elements} elements", identity)
    return None


def end_of_string(line: bytes, position: int) -> int:
    """Return the offset after the closing quote of a JSON string.

    `position` is the offset after its opening quote. If the string is not closed, the length of `line` is returned.
    """
    while position < len(line):
        last = position
        found = _STRING_CONTENT_PATTERN.match(line, position, position + CHUNK_BYTES)
        position = found.end() if found else position
        if line[position : position + 1] == b'"':
            return position + 1
        if position == last:  # the chunk ended between a backslash and its character
            position += 2
    return len(line)
