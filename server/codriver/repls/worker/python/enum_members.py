"""Update the members of an existing enumeration in place.

Members are added, changed and removed in the existing class. A member whose definition is unchanged stays the same
object, so comparisons with it still work.
"""

from __future__ import annotations

import gc
import sys
import types

from ..basics.definition_access import ABSENT, space_of
from .remembered_names import is_plain_value
from .stored_attributes import attribute_dict

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

    Note = Callable[[str, Callable[[], object], Callable[[], object]], None]
    NoteAttribute = Callable[[str, Any, str, object], None]

MEMBER_MAP_ATTRIBUTES = ("_member_map_", "_value2member_map_")
"""Attributes in which an enumeration stores its members by name and by value."""
COMPUTED_ATTRIBUTES = (
    "_flag_mask_",
    "_singles_mask_",
    "_all_bits_",
    "_inverted_",
    "_unhashable_values_",
    "_hashable_values_",
)
"""Enumeration attributes that are computed from the members. Source: CPython 3.8 to 3.13, `enum.EnumType`."""


def is_enum(kind: object) -> bool:
    """Return whether an object is an enumeration with members."""
    library: Any = sys.modules.get("enum")
    return library is not None and issubclass(type(kind), library.EnumMeta) and bool(space_of(kind)["_member_map_"])


def names_of_member_attributes(kind: object) -> set[str]:
    """Return the names of the attributes that `__init__` or `__new__` of an enumeration gives to its members."""
    members = space_of(kind)["_member_map_"].values() if is_enum(kind) else ()
    return {name for member in members for name in attribute_dict(member) if name[:1] != "_"}


def update_members(old: Any, new: Any, changed: Iterable[str], note: Note) -> list[str]:
    """Update the members of an existing enumeration to those of a new one. Unchanged members stay the same objects.

    `changed` contains the names whose definitions have changed. Return the names of members that were replaced and are
    still in use.

    Raises:
        TypeError: the existing class cannot have these members.
    """
    has_changed, space = frozenset(changed), space_of(old)
    before, fresh = dict(space["_member_map_"]), space_of(new)["_member_map_"]
    members: dict[str, Any] = {}
    made_by: dict[int, Any] = {}
    ids = {id(first) for first in before.values()}
    for name, member in fresh.items():
        if id(member) not in made_by:  # otherwise it is an alias of an earlier member
            previous = before.get(name)
            is_same = name in before and (name not in has_changed or _is_same_member(previous, member))
            if is_same and _is_same_member(previous, member):
                made_by[id(member)] = previous
            elif previous is not None and id(previous) in ids and _needs_state(previous):
                made_by[id(member)] = _copy_member_state(previous, member, note)
            else:
                made_by[id(member)] = _adopt_member(member, old)
            ids.discard(id(previous))
        members[name] = made_by[id(member)]
    _note(old, before, note)
    _update_member_attributes(old, new, before, members)
    _replace_items(space["_member_map_"], members)
    values = {key: made_by.get(id(member), member) for key, member in space_of(new)["_value2member_map_"].items()}
    _replace_items(space["_value2member_map_"], values)
    space["_member_names_"][:] = space_of(new)["_member_names_"]
    for name in COMPUTED_ATTRIBUTES:
        if name in space_of(new):
            type.__setattr__(old, name, space_of(new)[name])
    for position, name in enumerate(space["_member_names_"]):
        if "_sort_order_" in members[name].__dict__:
            members[name].__dict__["_sort_order_"] = position
    left = {id(member) for member in members.values()}
    return [name for name, member in before.items() if id(member) not in left and _is_referenced(member)]


def update_other_attributes(old: Any, new: Any, names: Iterable[str], note: NoteAttribute) -> None:
    """Make the named attributes of an enumeration match those of its new version, except for members."""
    for name in names:
        before, now = space_of(old).get(name, ABSENT), space_of(new).get(name, ABSENT)
        if name in space_of(new)["_member_map_"] or now is before:
            continue
        if now is not ABSENT:
            type.__setattr__(old, name, now)
        else:
            type.__delattr__(old, name)
        note("", old, name, before)


def _is_same_member(first: Any, other: Any) -> bool:
    """Return whether two members have the same values and attributes. Only plain values are compared."""
    states = [
        {name: value for name, value in each.__dict__.items() if name not in ("__objclass__", "_sort_order_")}
        for each in (first, other)
    ]
    return states[0].keys() == states[1].keys() and all(
        type(value) is type(states[1][name]) and (not is_plain_value(value) or repr(value) == repr(states[1][name]))
        for name, value in states[0].items()
    )


def _needs_state(member: Any) -> bool:
    """Return whether a member stores its value in attributes, rather than being an instance of a type such as `int`."""
    return space_of(type(member)).get("_member_type_", object) is object


def _copy_member_state(member: Any, other: Any, note: Note) -> Any:
    """Copy the value and attributes of `other` to an existing member, and return the member."""
    state, home = member.__dict__, member.__dict__.get("__objclass__", ABSENT)
    before = dict(state)
    note("", lambda: True, lambda: (state.clear(), state.update(before)))
    state.clear()
    state.update(other.__dict__)
    if home is not ABSENT:
        state["__objclass__"] = home
    return member


def _is_referenced(member: Any) -> bool:
    """Return whether anything other than its class refers to a member."""
    name, value = member.__dict__.get("_name_"), member.__dict__.get("_value_")
    for referrer in gc.get_referrers(member):
        if isinstance(referrer, dict) and (referrer.get(name) is member or _maps_to_member(referrer, value, member)):
            continue
        if isinstance(referrer, (types.FrameType, types.CellType)) or type(referrer) is type(iter({}.items())):
            continue
        if type(referrer) is tuple and len(referrer) == 2 and referrer[0] == name:  # a loop over the names
            continue
        return True
    return False


def _maps_to_member(found: dict[Any, Any], value: Any, member: Any) -> bool:
    """Return whether a mapping contains the member under its value."""
    try:
        return found.get(value) is member
    except TypeError:  # it is not hashable
        return False


def _adopt_member(member: Any, kind: Any) -> Any:
    """Turn a member of a different class into a member of `kind`, and return it."""
    object.__setattr__(member, "__class__", kind)
    if "__objclass__" in member.__dict__:
        member.__dict__["__objclass__"] = kind
    return member


def _update_member_attributes(old: Any, new: Any, before: dict[str, Any], members: dict[str, Any]) -> None:
    """Create and delete the class attributes for the members. Before Python 3.11, there are no such attributes."""
    for name, member in before.items():
        if name in space_of(old) and members.get(name) is not member:
            type.__delattr__(old, name)
    for name, member in members.items():
        if before.get(name) is not member and name in space_of(new):
            value = space_of(new)[name]
            is_member = value is space_of(new)["_member_map_"][name]
            type.__setattr__(old, name, member if is_member else value)


def _replace_items(mapping: dict[Any, Any], values: dict[Any, Any]) -> None:
    mapping.clear()
    mapping.update(values)


def _note(old: Any, before: dict[str, Any], note: Note) -> None:
    """Record how to restore the state of the enumeration."""
    space = space_of(old)
    values, names = dict(space["_value2member_map_"]), list(space["_member_names_"])
    state = {name: space[name] for name in (*before, *COMPUTED_ATTRIBUTES) if name in space}

    def undo() -> None:
        for name in set(space["_member_map_"]).difference(before):
            if name in space_of(old):
                type.__delattr__(old, name)
        for name, value in state.items():
            type.__setattr__(old, name, value)
        _replace_items(space["_member_map_"], before)
        _replace_items(space["_value2member_map_"], values)
        space["_member_names_"][:] = names

    note("", lambda: True, undo)
