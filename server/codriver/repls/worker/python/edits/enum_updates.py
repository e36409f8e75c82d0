"""Update the members of existing enumerations, and report replaced members that are still in use."""

from __future__ import annotations

import ast

from ...basics.definition_access import ABSENT, space_of
from ..enum_members import update_members, update_other_attributes
from ..holders import is_in_use

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from ..python_drift import Drift
    from .edited_module import EditedModule
    from .load_plan import LoadPlan

PREVIOUS_MEMBER_REASON = "references to the previous member are not equal to the new one"


class MemberUpdates:
    """Updates members of enumerations in an edited module."""

    def __init__(self, edited: EditedModule, plan: LoadPlan) -> None:
        self.edited, self.plan = edited, plan
        self._replaced_members: list[tuple[str, Any]] = []

    def make_update(self, owner: str, names: set[str], node: ast.stmt) -> Callable[[], object]:
        """Return a function that updates members of an enumeration."""
        kind, code = self.edited.class_of(owner), self.edited.compile(ast.Module([node], []), "exec")

        def graft() -> object:
            space: dict[str, Any] = {}
            exec(code, self.edited.space, space)
            made = space[owner[:-1].rpartition(".")[2]]
            members = dict(space_of(kind)["_member_map_"])
            changed = update_members(kind, made, names, self.edited.undo.record_change)
            update_other_attributes(kind, made, names - members.keys(), self.edited.undo.record_attribute)
            self._replaced_members += [(owner + name, members[name]) for name in changed]
            return ABSENT

        return graft

    def report_replaced_members(self, drift: Drift, loaded: str) -> None:
        """After the load, report the enumeration members that were replaced and are still in use.

        If the files of other modules than `loaded` were edited too, these modules may refer to a replaced member until
        they are loaded again.
        """
        waiting, self._replaced_members = self._replaced_members, []
        while waiting:
            name, member = waiting.pop(0)
            if is_in_use(member):
                is_deferred = drift.is_another_edited(loaded) and drift.deferred.defer_member(
                    self.edited.module.__name__, name, member
                )
                if not is_deferred:
                    self.plan.stays.append((name, PREVIOUS_MEMBER_REASON))
