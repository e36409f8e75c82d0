"""Values of unknown shape, from a peer: read as a text, a number, a map or a list, else as nothing.

Four bytes of text become a hundred of objects: a line of brackets within the limit of bytes fills the memory and holds
everybody up. So elements and nesting of a long line are counted first, in pieces, before anything is built of it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, cast

NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})


def as_text(value: object) -> str | None:
    """`value` as text: bytes that are no UTF-8 with their odd bytes escaped, numbers in digits, all else None."""
    if isinstance(value, str):
        return value
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    return str(value) if isinstance(value, int) else None


def as_texts(value: object) -> tuple[str, ...]:
    """The texts in a list, without empty ones."""
    return tuple([text for item in as_list(value) if (text := as_text(item))])


def as_int(value: object) -> int | None:
    """`value` as a whole number, also from digits; None for anything else, true and false included."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, str) and value.removeprefix("-").isdecimal():
        return int(value)
    return None


def as_map(value: object) -> Mapping[str, object]:
    """`value` as a map; empty for anything else, as nil is."""
    return value if isinstance(value, dict) else NOTHING


def as_list(value: object) -> list[object]:
    """`value` as a list; empty for anything else."""
    return value if isinstance(value, list) else []


def as_maps(value: object) -> list[Mapping[str, Any]]:
    """The maps in a list; none for anything but a list."""
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def as_number(value: object) -> float | None:
    """`value` as a number that JSON can say; else None."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number and math.isfinite(value) else None  # type: ignore[arg-type]  # it is one


def text_of(holder: Mapping[str, object], key: str) -> str:
    """The text under `key`; empty for a missing one, or another value."""
    value = holder.get(key)
    return value if isinstance(value, str) else ""


def mapping_of(holder: Mapping[str, object], key: str) -> Mapping[str, object]:
    """The object under `key`; empty for a missing one, or another value."""
    value = holder.get(key)
    return cast("Mapping[str, object]", value) if isinstance(value, Mapping) else NOTHING


def texts_of(holder: Mapping[str, object], key: str) -> tuple[str, ...]:
    """The texts in the list under `key`."""
    value = holder.get(key)
    return tuple(item for item in value if isinstance(item, str)) if isinstance(value, list | tuple) else ()


MAX_ELEMENTS = 100_000
"""Values and containers in one message; more than any client has a use for, and 30 MB of objects at most."""
MAX_DEPTH = 200
"""Arrays and objects within one another that are read: the limit of the parser that the SDK's types are made with."""
PIECE_BYTES = 256 * 1024
"""So much of a text is passed over at once: other threads wait meanwhile."""

_MARK = re.compile(rb'["\[\]{},]')
_TEXT = re.compile(rb'[^"\\]*+(?:\\.[^"\\]*+)*+', re.DOTALL)
_IDENTITY = re.compile(rb'\s*:\s*(-?[0-9]{1,300}|"[^"\\]{0,300}")')


@dataclass(frozen=True, slots=True)
class Excess:
    """The reason why a line is not read. `identity` is the id of its request as JSON, if it came early enough."""

    problem: str
    identity: bytes | None


def may_be_heavy(line: bytes) -> bool:
    """Whether a line could have too many elements or be nested too deep; False is certain of the elements."""
    return line.count(b",") + line.count(b"[") + line.count(b"{") > MAX_ELEMENTS


def excess(line: bytes, *, max_elements: int = MAX_ELEMENTS, max_depth: int = MAX_DEPTH) -> Excess | None:
    """The excess in a line of JSON: elements or depth; None for a readable line. Text that is no JSON passes."""
    elements = depth = place = marks = 0
    identity = None
    while mark := _MARK.search(line, place):
        place, kind = mark.end(), mark[0]
        marks += 1
        if kind == b'"':
            began, place = place, end_of_text(line, place)
            if identity is None and depth == 1 and line[began:place] == b'id"':
                found = _IDENTITY.match(line, place)
                identity = found[1] if found else None
            continue
        if kind in b"]}":
            depth -= 1
            continue
        elements += 1
        depth += kind != b","
        if depth > max_depth:
            return Excess(f"arrays and objects more than {max_depth} deep in one another", identity)
        if elements > max_elements or marks > 4 * max_elements:
            return Excess(f"more than {max_elements} elements", identity)
    return None


def end_of_text(line: bytes, place: int) -> int:
    """The place after the quote that ends the text, or the end of the line."""
    while place < len(line):
        last = place
        found = _TEXT.match(line, place, place + PIECE_BYTES)
        place = found.end() if found else place
        if line[place : place + 1] == b'"':
            return place + 1
        if place == last:  # a backslash, whose escaped character is beyond the piece
            place += 2
    return len(line)
