"""Let an object of a library share the attributes of the object that a load has created in its place.

For example, a server, a client or another module may still refer to the web application that existed before the load.
Sharing makes the previous application behave like the new one, to which they have no reference.
"""

from __future__ import annotations

from .effects.pure_calls import is_registry_class
from .equal_values import find_slots, has_only_attributes
from .stored_attributes import instance_dict_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..basics.undo_records import UndoRecord

_successors: dict[int, object] = {}
"""The latest new object for each previous one, by the previous object's id.

The new objects are stored because libraries may only have weak references to them.
"""


def share_attributes(old: Any, new: Any, undo: UndoRecord) -> bool:
    """Let `old` share the attributes of `new`. Return whether that was possible.

    It is only possible for objects in which an application registers something, and which store nothing but attributes.
    """
    if old is new or type(old) is not type(new) or not is_registry_class(type(old)) or find_slots(type(old)):
        return False
    before, now = instance_dict_of(old), instance_dict_of(new)
    if type(before) is not dict or type(now) is not dict or before is now or not has_only_attributes(old):
        return False
    _set_attributes(old, now)
    previous = _successors.get(id(old))

    def restore() -> None:
        _set_attributes(old, before)
        _successors[id(old)] = previous

    undo.record_undo(restore)
    _successors[id(old)] = new
    return True


def _set_attributes(value: object, attributes: dict[str, Any]) -> None:
    object.__setattr__(value, "__dict__", attributes)
