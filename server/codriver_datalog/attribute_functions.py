"""Functions of queries about an entity's attributes: `missing?`, `get-else` and `get-some`."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from codriver_datalog.entity_store import Snapshot


def is_missing(snapshot: Snapshot, entity: object, attribute: object) -> bool:
    """Implement `missing?`: return whether the entity lacks an attribute."""
    return _value(snapshot, entity, attribute) is None


def get_else(snapshot: Snapshot, entity: object, attribute: object, default: object) -> object:
    """Implement `get-else`: return the entity's value of an attribute, or the default."""
    value = _value(snapshot, entity, attribute)
    return default if value is None else value


def get_some(snapshot: Snapshot, entity: object, *attributes: object) -> tuple[object, object] | None:
    """Implement `get-some`: return the first of the attributes that the entity has and its value, or None."""
    for attribute in attributes:
        value = _value(snapshot, entity, attribute)
        if value is not None:
            return attribute, value
    return None


def _value(snapshot: Snapshot, entity: object, attribute: object) -> object:
    """Return the value of an entity's attribute, or None."""
    record = snapshot.entity(entity)
    position = snapshot.schema.positions.get(attribute) if isinstance(attribute, str) else None
    return None if record is None or position is None else record[position]
