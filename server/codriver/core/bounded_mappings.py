"""Immutable mappings that retain only their newest entries."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final, TypeVar

if TYPE_CHECKING:
    from collections.abc import Mapping

V = TypeVar("V")

MAX_ENTRIES: Final = 64
"""Maximum number of entries in a mapping, such as a connection's callers or a server's conversations."""


def with_newest(mapping: Mapping[str, V], key: str, value: V) -> Mapping[str, V]:
    """Return a copy of a mapping with the entry as its newest one.

    The oldest entries beyond `MAX_ENTRIES` are removed.
    """
    others = [entry for entry in mapping.items() if entry[0] != key][-(MAX_ENTRIES - 1) :]
    return MappingProxyType(dict([*others, (key, value)]))
