"""Pull: the attributes of one entity, as `(pull ?e [*])` shows them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from codriver.datalog.entity_store import Snapshot
    from codriver.datalog.syntax_tree import PullPattern


def pull(snapshot: Snapshot, entity: object, pattern: PullPattern) -> dict[str, object] | None:
    """The entity's `id` and what the pattern asks for, by names without namespace; None if there is no such entity."""
    record = snapshot.entity(entity)
    if record is None:
        return None
    shown: dict[str, object] = {"id": record[0]}
    if pattern.wildcard:
        shown |= snapshot.schema.document(record)
    for attribute in pattern.attributes:
        value = record[snapshot.schema.positions[attribute.keyword]]
        if value is not None:
            shown[attribute.key] = value
        elif attribute.default is not None:
            shown[attribute.key] = attribute.default
    return shown
