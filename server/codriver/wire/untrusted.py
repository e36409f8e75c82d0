"""Values of unknown shape, from a peer: read as a text, a number, a map or a list, else as nothing."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})


def as_text(value: object) -> str | None:
    """`value` as text: bytes that are no UTF-8 with their odd bytes escaped, numbers in digits, all else None."""
    if isinstance(value, str):
        return value
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    return str(value) if isinstance(value, int) else None


def as_texts(value: object) -> tuple[str, ...]:
    """The texts in a list, those that are empty left out."""
    return tuple([text for item in as_list(value) if (text := as_text(item))])


def as_int(value: object) -> int | None:
    """`value` as a whole number, also when it came as digits; else None."""
    if isinstance(value, int):
        return value
    if isinstance(value, str) and value.removeprefix("-").isdecimal():
        return int(value)
    return None


def as_map(value: object) -> Mapping[str, object]:
    """`value` as a map; empty when it is none, as nil is."""
    return value if isinstance(value, dict) else NOTHING


def as_list(value: object) -> list[object]:
    """`value` as a list; empty when it is none."""
    return value if isinstance(value, list) else []
