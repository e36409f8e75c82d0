"""The query functions `missing?`, `get-else` and `get-some`, which read an entity's attributes."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from codriver_datalog.entity_store import Snapshot


def is_missing(snapshot: Snapshot, entity: object, attribute: object) -> bool:
    """Return whether an entity does not have an attribute. This is the query function `missing?`."""
    return _value(snapshot, entity, attribute) is None


def get_else(snapshot: Snapshot, entity: object, attribute: object, default: object) -> object:
    """Return an entity's value for an attribute, or `default`. This is the query function `get-else`."""
    value = _value(snapshot, entity, attribute)
    return default if value is None else value


def get_some(snapshot: Snapshot, entity: object, *attributes: object) -> tuple[object, object] | None:
    """Return the first of the attributes that an entity has, with its value, or None. This is `get-some`."""
    for attribute in attributes:
        value = _value(snapshot, entity, attribute)
        if value is not None:
            return attribute, value
    return None


def _value(snapshot: Snapshot, entity: object, attribute: object) -> object:
    """Return an entity's value for an attribute, or None if the entity or the value does not exist."""
    record = snapshot.entity(entity)
    position = snapshot.schema.positions.get(attribute) if isinstance(attribute, str) else None
    return None if record is None or position is None else record[position]
