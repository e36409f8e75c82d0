"""Remove the names that deleted statements had bound, and determine whether this undoes the statements' effects."""

from __future__ import annotations

import ast
import types

from ...basics.definition_access import ABSENT, space_of
from ..enum_members import is_enum
from ..statements import FUNCTION, VALUE, assigned_names, comparable_dump
from .statement_syntax import names_bound, setter_target

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from ..statements import Statement
    from .class_planner import ClassPlanner
    from .edited_module import EditedModule
    from .load_plan import LoadPlan

NOT_UNDONE_REASON = "the effects of the statement are not undone"


class Removals:
    """Plans and carries out the removal of names."""

    def __init__(self, edited: EditedModule, plan: LoadPlan, classes: ClassPlanner) -> None:
        self.edited, self.plan, self.classes = edited, plan, classes
        self._detached: list[str] = []

    def is_undone(self, statement: Statement) -> bool:
        """Return whether nothing remains of the effects of a removed statement, or other statements now cause them."""
        return self.undoes(statement) or self._is_replaced(statement) or self._is_filled_again(statement)

    def plan_removal(self, statement: Statement) -> None:
        """Plan to remove the names bound by a removed statement."""
        kind = self.edited.class_of(statement.owner) if statement.owner else None
        if statement.owner and is_enum(kind) and statement.kind == VALUE:
            self.plan.members.setdefault(statement.owner, set()).update(assigned_names(statement.node))
        elif kind is not None and self.classes.had_effect_at_creation(kind, statement):
            self.classes.plan_new_class(statement.owner, statement)
        else:
            self.plan.removed += [statement.owner + name for name in names_bound(statement.node)]
            if statement.owner and statement.kind == FUNCTION:
                # The getter of a property without its setter, or the function that a deleted one had replaced.
                others = [
                    each for each in self.edited.statements if each.kind == FUNCTION and each.name == statement.name
                ]
                self.plan.defined.update((id(each.node), each) for each in others if not each.guard)

    def undoes(self, statement: Statement) -> bool:
        """Return whether removing its names undoes all effects of a removed statement."""
        names = assigned_names(statement.node)
        dotted = [name for name in names if "." in name]
        for name in dotted if not statement.owner else ():
            owner, _, last = name.rpartition(".")
            kind = self.edited.class_of(owner + ".")
            is_defined_by_class = kind is not None and last in space_of(kind) and self._binds_once(owner, last)
            if not is_defined_by_class:
                return False
            self.plan.removed.append(name)
        return bool(names) and not isinstance(statement.node, ast.AugAssign)

    def _is_replaced(self, statement: Statement) -> bool:
        """Return whether exactly one other statement now sets what a removed statement used to set."""
        target = self._setter_target(statement.node)
        added = [self._setter_target(new.node) for new in self.edited.added_statements]
        return (
            bool(target)
            and target in added
            and [self._setter_target(other.node) for other in self.edited.statements].count(target) == 1
        )

    def _setter_target(self, node: Any) -> str:
        """Return a string that identifies what a statement sets or registers, or "" for other statements."""
        call = node.value if isinstance(node, ast.Expr) else None
        function = call.func if isinstance(call, ast.Call) and len(call.args) == 2 and not call.keywords else None
        if isinstance(call, ast.Call) and isinstance(function, ast.Attribute) and function.attr == "register":
            live = self.edited.space.get(function.value.id) if isinstance(function.value, ast.Name) else None
            if type(live) is types.FunctionType and type(live.__dict__.get("registry")) is types.MappingProxyType:
                return comparable_dump([function, call.args[0]])
        return setter_target(node)

    def _binds_once(self, owner: str, name: str) -> bool:
        """Return whether a class attribute is not bound anywhere else."""
        return f"{owner}.{name}" not in self.edited.bound.kinds

    def _is_filled_again(self, statement: Statement) -> bool:
        """Return whether the objects that a removed statement has filled are emptied and filled again."""
        followers = self.edited.followers
        if followers is None or not followers.shared_registries.is_planned or statement.owner:
            return False
        fills = followers.rebuilds.filled_object_ids(statement.node, followers.text)
        return not fills.isdisjoint(followers.rebuilds.objects)

    def remove_attributes(self) -> None:
        """Remove class attributes that a fresh import would not create. This happens before any statement runs."""
        self._detached = list(self._remove_attributes())

    def remove_names(self) -> Iterator[str]:
        """Remove the names that the source no longer binds. Yield these names and the removed class attributes."""
        yield from self._detached
        for name in self._names_to_remove():
            if "." not in name and name in self.edited.space:
                del self.edited.space[name]
                yield name

    def _remove_attributes(self) -> Iterator[str]:
        """Remove and yield class attributes that a fresh import would not create."""
        removed = set(self.plan.removed)
        for name in self._names_to_remove():
            owner, _, last = name.rpartition(".")
            kind = self.edited.class_of(owner + ".") if owner and owner not in removed else None
            if kind is None or last not in space_of(kind):
                continue
            type.__delattr__(kind, last)
            is_hash_derived = last == "__eq__" and space_of(kind).get("__hash__", ABSENT) is None
            if is_hash_derived and f"{owner}.__hash__" not in self.edited.bound.kinds:
                type.__delattr__(kind, "__hash__")
            yield name

    def _names_to_remove(self) -> Iterator[str]:
        """Yield the names that the source no longer binds, except for names that were rebound at run time."""
        for name in self.plan.removed:
            if name not in self.edited.bound.kinds and name.rpartition(".")[2] not in self.edited.bound.rebound:
                yield name
