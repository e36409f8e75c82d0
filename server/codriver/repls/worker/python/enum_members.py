"""Members of an enumeration: those that a new text adds, changes and takes out, in the class that lives.

A member whose definition is as it was stays the object that it is, so that what holds it is still equal to it.
"""

from __future__ import annotations

import sys

from ..basics.class_spaces import space_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

    Note = Callable[[str, Callable[[], object], Callable[[], object]], None]

MAPS = ("_member_map_", "_value2member_map_")
OF_CLASS = ("_flag_mask_", "_singles_mask_", "_all_bits_", "_inverted_", "_unhashable_values_", "_hashable_values_")
"""What the members add up to. Source: CPython 3.8 to 3.13, `enum.EnumType`."""


def is_enum(kind: object) -> bool:
    """True for a class of members."""
    library: Any = sys.modules.get("enum")
    return library is not None and issubclass(type(kind), library.EnumMeta) and bool(space_of(kind)["_member_map_"])


def take_members(old: Any, new: Any, changed: Iterable[str], note: Note) -> list[str]:
    """Give a living class the members of a new one, but those of its own whose definition is as it was.

    `changed`: the names whose definition is another one. The names of members that are other objects now.

    Raises:
        TypeError: the members cannot be those of the living class.
    """
    has_changed, space = frozenset(changed), space_of(old)
    before, fresh = dict(space["_member_map_"]), space_of(new)["_member_map_"]
    members: dict[str, Any] = {}
    made_by: dict[int, Any] = {}
    for name, member in fresh.items():
        is_kept = name in before and name not in has_changed
        if id(member) not in made_by:  # else another name of one that came before
            made_by[id(member)] = before[name] if is_kept else _adopted(member, old)
        members[name] = made_by[id(member)]
    _note(old, before, note)
    _give_names(old, new, before, members)
    _fill(space["_member_map_"], members)
    values = {key: made_by.get(id(member), member) for key, member in space_of(new)["_value2member_map_"].items()}
    _fill(space["_value2member_map_"], values)
    space["_member_names_"][:] = space_of(new)["_member_names_"]
    for name in OF_CLASS:
        if name in space_of(new):
            type.__setattr__(old, name, space_of(new)[name])
    for place, name in enumerate(space["_member_names_"]):
        if "_sort_order_" in members[name].__dict__:
            members[name].__dict__["_sort_order_"] = place
    return [name for name, member in before.items() if members.get(name) is not member]


def _adopted(member: Any, kind: Any) -> Any:
    """A member of another class, as one of this class."""
    object.__setattr__(member, "__class__", kind)
    if "__objclass__" in member.__dict__:
        member.__dict__["__objclass__"] = kind
    return member


def _give_names(old: Any, new: Any, before: dict[str, Any], members: dict[str, Any]) -> None:
    """Have the attributes of a class say what its members are; before Python 3.11 it has none for them."""
    for name, member in before.items():
        if name in space_of(old) and members.get(name) is not member:
            type.__delattr__(old, name)
    for name, member in members.items():
        if before.get(name) is not member and name in space_of(new):
            held = space_of(new)[name]
            is_member = held is space_of(new)["_member_map_"][name]
            type.__setattr__(old, name, member if is_member else held)


def _fill(mapping: dict[Any, Any], values: dict[Any, Any]) -> None:
    mapping.clear()
    mapping.update(values)


def _note(old: Any, before: dict[str, Any], note: Note) -> None:
    """Keep what the class is, so that it can be put back."""
    space = space_of(old)
    values, names = dict(space["_value2member_map_"]), list(space["_member_names_"])
    own = {name: space[name] for name in (*before, *OF_CLASS) if name in space}

    def undo() -> None:
        for name in set(space["_member_map_"]).difference(before):
            if name in space_of(old):
                type.__delattr__(old, name)
        for name, held in own.items():
            type.__setattr__(old, name, held)
        _fill(space["_member_map_"], before)
        _fill(space["_value2member_map_"], values)
        space["_member_names_"][:] = names

    note("", lambda: True, undo)
