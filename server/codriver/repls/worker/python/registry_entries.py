"""Remember which entries the collections of a module have after its import, to find those that were added later."""

from __future__ import annotations

import collections

from ..basics.definition_access import defining_module_name, is_class, space_of
from .stored_attributes import instance_dict_of, is_module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any, Dict, FrozenSet

    Entries = Dict[str, FrozenSet[object]]

    """The keys or items of collections, by the dotted names of the collections in their module."""

COLLECTION_TYPES = (list, dict, set, collections.defaultdict, collections.OrderedDict)
"""Types of collections in which entries are remembered."""
MAX_ENTRIES = 2_000
"""Maximum number of entries in a collection that is remembered. A larger one is probably data."""
PLAIN_KEY_TYPES = (str, int, bool, bytes, type(None))
"""Types of keys that are remembered themselves. For other keys, the id is remembered."""


def named_collections(space: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield the collections in a module, in its classes and in its objects, with their dotted names."""
    home = space.get("__name__")
    for name, value in list(space.items()):
        if name[:2] == "__" or is_module(value):
            continue
        if type(value) in COLLECTION_TYPES:
            yield name, value
            continue
        inner: Any = None
        if is_class(value):
            inner = space_of(value) if defining_module_name(value) == home else None
        elif type(value).__module__ != "builtins":
            inner = instance_dict_of(value)
        for attribute, each in list(inner.items()) if inner else ():
            if type(each) in COLLECTION_TYPES and type(attribute) is str and attribute[:2] != "__":
                yield f"{name}.{attribute}", each


def remember_entries(space: dict[str, Any]) -> Entries:
    """Return the entries of the collections in a module."""
    return {
        name: frozenset(map(entry_key, list(value)))  # another thread may change the collection
        for name, value in named_collections(space)
        if len(value) <= MAX_ENTRIES
    }  # fmt: skip


def entry_key(value: object) -> object:
    """Return what is remembered of a key in a dictionary, or of an item in another collection."""
    return value if type(value) in PLAIN_KEY_TYPES else _Identity(value)


class _Identity:
    """The id of a key that is not kept alive."""

    __slots__ = ("number",)

    def __init__(self, value: object) -> None:
        self.number = id(value)

    def __eq__(self, other: object) -> bool:
        return type(other) is _Identity and self.number == other.number

    def __hash__(self) -> int:
        return hash(self.number)
