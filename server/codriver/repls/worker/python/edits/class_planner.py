"""Plan whether to apply differences in the body of a class to the existing class, or to create the class again."""

from __future__ import annotations

import ast

from ...basics.definition_access import defining_module_name, order_of, space_of
from ..class_renewal import can_be_created_again, is_plain_class
from ..enum_members import is_enum
from ..statements import CLASS, FUNCTION, GUARD, OTHER, VALUE, assigned_names, line_range
from .open_classes import accepts_attributes, accepts_method, can_be_set_later
from .statement_syntax import called_name, dotted_name, has_no_effect

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..statements import Change, Statement
    from .edited_module import EditedModule
    from .function_planner import FunctionPlanner
    from .load_plan import LoadPlan

MEMBER_CREATION_METHODS = ("_generate_next_value_", "__init__", "__new__")
"""Enumeration methods that affect how members are created."""
COLUMN_FUNCTIONS = ("mapped_column", "Column")
"""SQLAlchemy functions that create columns.

A table has its columns in the order of their creation. Source: `sort_order` of `mapped_column` in the documentation.
"""


class ClassPlanner:
    """Plans the steps for changes in the bodies of classes."""

    def __init__(self, edited: EditedModule, plan: LoadPlan, functions: FunctionPlanner) -> None:
        self.edited, self.plan, self.functions = edited, plan, functions

    def plan_change(self, change: Change, new: Statement, *, has_code: bool) -> None:
        """Plan the steps for a new or changed statement in the body of a class."""
        kind = self.edited.class_of(new.owner)
        is_made = change.old is None and any(
            candidate.kind == CLASS and candidate.name + "." == new.owner for candidate in self.edited.added_statements
        )
        if has_no_effect(new.node) or is_made:
            return
        if kind is None or new.kind == CLASS:
            self.plan.tops.add(new.top)
        elif new.kind == VALUE and self.outer_reader(new.owner):
            self.plan_new_class(self.outer_reader(new.owner), new)
        elif new.kind == FUNCTION:
            self._plan_method(change, new, kind, has_code=has_code)
        elif is_enum(kind) and new.kind == VALUE:
            self.plan.members.setdefault(new.owner, set()).update(assigned_names(new.node))
        elif self._registers_in_class(kind, new):
            self.plan_new_class(new.owner, new)
        elif self.can_set_attributes(kind, new):
            self.plan.attributes[id(new.node)] = new.owner, new
            self._record_order(kind, new)
            if change.old is None and not is_plain_class(kind) and self._precedes_other_columns(kind, new):
                self.plan.stays.append(
                    (dotted_name(new), "the new column comes after the existing columns of the class")
                )
        else:
            self.plan_new_class(new.owner, new)

    def _plan_method(self, change: Change, new: Statement, kind: Any, *, has_code: bool) -> None:
        """Plan the steps for a new or changed method of a class."""
        is_done = has_code and self.functions.needs_only_update(change)
        if is_enum(kind) and new.node.name in MEMBER_CREATION_METHODS:
            self.plan.members.setdefault(new.owner, set()).update(space_of(kind)["_member_map_"])
        if is_done:
            return
        is_open = all(accepts_method(kind, statement.node) for statement in (change.old, new) if statement is not None)
        if is_open or self._is_unread(kind, [new.node.name]):
            self.plan.defined[id(new.node)] = new
        else:
            self.plan_new_class(new.owner, new)

    def plan_new_class(self, owner: str, statement: Statement) -> None:
        """Plan to create a class again, unless that would register it a second time."""
        kind = self.edited.class_of(owner)
        followers = self.edited.followers
        found = [each for each in self.edited.statements if each.kind == CLASS and each.name + "." == owner]
        if kind is not None and followers is not None and followers.registrations.registers_again(kind, followers.text):
            self.plan.stays.append(
                (dotted_name(statement), f"creating {owner[:-1]} again would register it a second time")
            )
        elif kind is not None and not can_be_created_again(kind):
            self.plan.stays.append(
                (
                    dotted_name(statement),
                    f"a library reads this name only once, when it creates {owner[:-1]}",
                )
            )
        elif found:
            self.plan.tops.add(found[-1].top)
            self._report_double_fills(owner, kind)

    def _report_double_fills(self, owner: str, kind: Any) -> None:
        """Report objects that would be filled a second time by values in a class body, such as a counter of fields."""
        followers = self.edited.followers
        if followers is None or kind is None:
            return
        values = [
            statement.node
            for statement in self.edited.statements
            if statement.owner == owner and statement.kind == VALUE
        ]
        filled = sorted({name for node in values for name in followers.registrations.names_filled_in_class(node, kind)})
        if filled:
            self.plan.stays.append(
                (owner[:-1], f"creating the class again would change {', '.join(filled)} a second time")
            )

    def had_effect_at_creation(self, kind: Any, statement: Statement) -> bool:
        """Return whether a removed statement had an effect when its class was created."""
        if has_no_effect(statement.node):
            return False
        if statement.kind == FUNCTION:
            return not accepts_method(kind, statement.node)
        followers = self.edited.followers
        if followers is not None and any(
            followers.registrations.was_named_by_hook(kind, name) for name in assigned_names(statement.node)
        ):
            return True
        return statement.kind in (VALUE, OTHER, GUARD) and not self.can_set_attributes(kind, statement)

    def can_set_attributes(self, kind: Any, statement: Statement) -> bool:
        """Return whether setting an attribute on an existing class has the same effect as in its body."""
        names = assigned_names(statement.node)
        if not can_be_set_later(kind, names):
            return False
        return accepts_attributes(kind, statement.node, names) or self._is_unread(kind, names)

    def _is_unread(self, kind: Any, names: list[str]) -> bool:
        """Return whether the hooks that registered a class did not read these names from its body."""
        followers = self.edited.followers
        return followers is not None and followers.registrations.can_change_in_place(kind, names, followers.text)

    def outer_reader(self, owner: str) -> str:
        """Return the scope of the outermost class whose creation may have read a nested class such as `Meta`, or ""."""
        parts = owner[:-1].split(".")[:-1]
        outer = (".".join(parts[: number + 1]) + "." for number in range(len(parts)))
        kinds = ((scope, self.edited.class_of(scope)) for scope in outer)
        return next((scope for scope, kind in kinds if kind is not None and not is_plain_class(kind)), "")

    def _record_order(self, kind: Any, statement: Statement) -> None:
        """Record that a new attribute will be the last of its class, but a fresh import would create others later."""
        values = [each for each in self.edited.statements if each.owner == statement.owner and each.kind == VALUE]
        names = [name for each in values for name in assigned_names(each.node)]
        existing = [name in space_of(kind) for name in names]
        is_new = any(name not in space_of(kind) for name in assigned_names(statement.node))
        if is_new and existing != sorted(existing, reverse=True) and self.edited.followers is not None:
            self.edited.followers.changes.reordered.add((self.edited.module.__name__, statement.owner[:-1]))

    def _precedes_other_columns(self, kind: Any, statement: Statement) -> bool:
        """Return whether a fresh import would create other columns of a class after a new column."""
        value = getattr(statement.node, "value", None)
        if not isinstance(value, ast.Call) or called_name(value) not in COLUMN_FUNCTIONS:
            return False
        line = line_range(statement.node)[0]
        later = [each for each in self.edited.statements if each.owner == statement.owner and each.kind == VALUE]
        mixins = [each for each in order_of(kind)[1:] if type(each) is type and each is not object]
        return any(line_range(each.node)[0] > line for each in later) or any(
            space_of(each).get("__annotations__") and not str(defining_module_name(each)).startswith("sqlalchemy")
            for each in mixins
        )

    def _registers_in_class(self, kind: Any, statement: Statement) -> bool:
        """Return whether a value in a class body adds itself to the class. Report anything else that it fills again."""
        followers = self.edited.followers
        if followers is None or statement.kind != VALUE:
            return False
        filled = followers.registrations.names_filled_in_class(statement.node, kind)
        line = line_range(statement.node)[0]
        later = [
            each.node
            for each in self.edited.statements
            if each.owner == statement.owner and each.kind == VALUE and line_range(each.node)[0] > line
        ]
        edited = {id(change.new.node) for change in self.edited.comparison.changes if change.old and change.new}
        is_counted_twice = id(statement.node) in edited or any(
            followers.registrations.names_filled_in_class(each, kind) for each in later
        )
        if filled and is_counted_twice:
            self.plan.stays.append(
                (dotted_name(statement), f"creating the class again would change {', '.join(filled)} a second time")
            )
        fills_class = followers.registrations.fills_class_collection
        is_last = id(statement.node) not in edited and not any(fills_class(each, kind) for each in later)
        return fills_class(statement.node, kind) and not is_last
