"""Defer reports about modules whose files were also edited and are about to be loaded.

If an edit changes several files, they are loaded one after another. If loading a file leaves something out of date in a
module that is still to be loaded, this is reported after that module has been loaded, unless it is up to date by then.
"""

from __future__ import annotations

import weakref

from ..basics.definition_access import ABSENT
from .holders import find_holder_paths
from .statements import assigned_names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

    from .statements import Change

MAX_DEFERRED = 200
"""Maximum number of deferred reports. Later ones are not deferred."""


class DeferredReports:
    """Reports that are deferred until another module has been loaded."""

    def __init__(self) -> None:
        self._rows: dict[str, list[tuple[str, str, int]]] = {}
        self._members: list[tuple[str, str, weakref.ref[Any]]] = []

    def defer(self, module: str, name: str, why: str, value: object) -> bool:
        """Defer the report about a name with this value in a module. Return whether it was deferred."""
        rows = self._rows.setdefault(module, [])
        if len(rows) < MAX_DEFERRED:
            rows.append((name, why, id(value)))
        return len(rows) < MAX_DEFERRED

    def defer_member(self, module: str, name: str, member: Any) -> bool:
        """Defer the report about a replaced member of an enumeration. Return whether it was deferred."""
        if len(self._members) < MAX_DEFERRED:
            self._members.append((module, name, weakref.ref(member)))
        return len(self._members) < MAX_DEFERRED

    def names_in(self, module: str) -> set[str]:
        """Return the names in a module about which reports are deferred."""
        return {name for name, _, _ in self._rows.get(module, ())}

    def pop(
        self, module: str, space: dict[str, Any], changes: Iterable[Change], evaluated: set[str]
    ) -> Iterator[tuple[str, str]]:
        """Yield the name and reason of each deferred report that is still true after its module was loaded.

        `evaluated` contains the names that the load has computed again.
        """
        edited = set(evaluated)
        for change in changes:
            statement = change.current_statement
            edited.update((statement.name, *(statement.owner + name for name in assigned_names(statement.node))))
        for name, why, key in self._rows.pop(module, ()):
            value = space.get(name, ABSENT)
            parts = {name.partition(", ")[0], *name.split(", ")}
            is_gone = "." not in name and name.isidentifier() and value is ABSENT
            if not is_gone and parts.isdisjoint(edited) and (value is ABSENT or id(value) == key):
                yield name, why

    def pop_members(self) -> Iterator[tuple[str, str]]:
        """Yield the module and name of each replaced member that can still be reached from a name in a module."""
        members, self._members = self._members, []
        for module, name, reference in members:
            member = reference()
            if member is not None and find_holder_paths([member], 1):
                yield module, name
