"""Plan which objects to create again, because edited statements create them, fill them or no longer fill them."""

from __future__ import annotations

import ast

from ..celery_tasks import find_task
from ..class_renewal import is_plain_class
from ..effects.pure_calls import REGISTERING_DECORATORS, is_registry_class
from ..enum_members import is_enum
from ..statements import (
    BASES,
    CLASS,
    DECORATORS,
    DOCSTRING,
    FUNCTION,
    IMPORT,
    OTHER,
    SIGNATURE,
    VALUE,
    assigned_names,
    line_range,
    names_bound_by,
)
from .function_planner import is_decorated_otherwise
from .removals import NOT_UNDONE_REASON
from .statement_syntax import called_name, dotted_name, has_registration_id, is_set_again, top_names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..statements import Change, Statement
    from .class_planner import ClassPlanner
    from .edited_module import EditedModule
    from .load_plan import LoadPlan
    from .removals import Removals


class RefillPlanner:
    """Plans to run all statements that create or fill an object, if an edit changes some of them.

    Reports what edited and removed statements have registered if that cannot be undone.
    """

    def __init__(
        self, edited: EditedModule, plan: LoadPlan, classes: ClassPlanner, removals: Removals, followers: Any
    ) -> None:
        self.edited, self.plan, self.classes, self.removals = edited, plan, classes, removals
        self.followers = followers

    def plan_refills(self) -> None:
        """Plan to refill objects that edited statements create or no longer fill."""
        changes: dict[str, list[Change]] = {}
        for change in self.edited.comparison.changes:
            for name in self._affected_names(change):
                changes.setdefault(name, []).append(change)
        for change in self.edited.comparison.changes:
            if change.new is not None and self.plan.runs(change.new):
                fills = [
                    self.followers.rebuilds.filled_object_ids(statement.node, self.followers.text)
                    for statement in (change.old, change.new)
                    if statement
                ]
                self.followers.changes.record_filled(set().union(*fills))
        for name, bindings in changes.items():
            self._plan_refill(bindings, name, self.followers.text)
        for change in self.edited.comparison.changes:
            self._plan_removed(change)
            self._watch(change)
            self._watch_method(change)
        for statement in self.edited.comparison.moved:
            self._plan_moved(statement)

    def _affected_names(self, change: Change) -> list[str]:
        """Return the names in the module whose objects are created or filled by an edited statement."""
        old, new = change.old, change.new
        if change.current_statement.owner or change.current_statement.kind in (IMPORT, DOCSTRING):
            return []
        if (
            change.current_statement.kind == FUNCTION
            and (new is None or id(new.node) not in self.plan.defined)
            and not (new is None and old is not None and old.node.decorator_list)
        ):
            return []
        if change.current_statement.kind == CLASS and not (
            change.current_statement.node.decorator_list
            or (old is not None and getattr(old.node, "decorator_list", None))
        ):
            return []
        found: dict[str, None] = {}
        fills: set[int] = set()
        for statement in (old, new):
            if statement is None:
                continue
            if not (statement.kind == FUNCTION and new is None):
                found.update(dict.fromkeys(top_names(statement.node)))
            fills |= self.followers.rebuilds.filled_object_ids(statement.node, self.followers.text)
        for name, value in list(self.edited.space.items()):
            if id(value) in fills and self.followers.rebuilds.binds_name(self.followers.text, name):
                found[name] = None
        return [name for name in found if name in self.edited.space]

    def _plan_refill(self, changes: list[Change], name: str, text: Any) -> None:
        """Decide whether to create an object again by running all statements that fill it."""
        chain = self.followers.rebuilds.statement_chain(text, name)
        if not chain or chain[0][0] is not text:
            return
        body = self.edited.new.tree.body
        base = chain[0][1]
        planned = frozenset(
            top
            for owner, top in chain
            if owner is text and (top in self.plan.tops or id(body[top]) in self.plan.defined)
        )
        obstacle = self.followers.rebuilds.rebuild_obstacle(text, name, chain, planned)
        if isinstance(body[base], (ast.Import, ast.ImportFrom)) and any(
            id(self.edited.space[name]) in self.followers.rebuilds.filled_object_ids(statement.node, text)
            for change in changes
            for statement in (change.old, change.new)
            if statement is not None
        ):
            obstacle = "another module creates the object"
        elif not obstacle and any(self._precedes_binding(change, name) for change in changes):
            obstacle = "an earlier statement creates the object"
        bindings = [top for owner, top in chain if owner is text]
        if base in planned:
            if obstacle:
                self.plan.tops.discard(base)
                self.plan.defined.pop(id(body[base]), None)
                why = f"line {line_range(body[base])[0]}: the change was not applied, since {obstacle}"
                self.plan.stays.append((name, why))
            elif len(chain) > 1:
                self._plan_whole_chain(changes, name, chain)
        elif (
            all(change.old is None for change in changes)
            and bindings[len(bindings) - len(planned) :] == sorted(planned)
            and (obstacle or not is_registry_class(type(text.space.get(name))))  # which may refuse additions after use
            and (obstacle or not _is_filled_by_others(text, name, chain))
        ):
            return  # only statements at the end were added
        elif not obstacle:
            self._plan_whole_chain(changes, name, chain)
        else:
            for change in changes:
                statement = change.current_statement
                if change.old is not None and change.new is not None and self._has_registered(change):
                    self.plan.stays.append(
                        (
                            statement.name,
                            f"line {line_range(statement.node)[0]}: previous effects of the statement are not undone",
                        )
                    )

    def _precedes_binding(self, change: Change, name: str) -> bool:
        """Return whether a removed statement filled the object of a name before any statement bound the name.

        If so, the statement that binds the name does not create the object, and running it again does not empty it.
        """
        if change.new is not None or change.old is None or change.old.owner:
            return False
        body = self.followers.sources.old_text.body
        return not any(name in names_bound_by(node) for node in body[: change.old.top + 1])

    def _plan_whole_chain(self, changes: list[Change], name: str, chain: list[tuple[Any, int]]) -> None:
        """Plan to run all statements that create and fill an object, rather than only the edited ones."""
        text = self.followers.text
        self.followers.rebuilds.objects.add(id(self.edited.space.get(name)))
        body = self.edited.new.tree.body
        planned = {
            top
            for owner, top in chain
            if owner is text and (top in self.plan.tops or id(body[top]) in self.plan.defined)
        }
        self.followers.rebuilds.forced.update(
            (owner.name, top) for owner, top in chain if owner is not text or top not in planned
        )
        changed = {change.current_statement.name for change in changes if change.new is None}
        self.plan.stays[:] = [row for row in self.plan.stays if not (row[0] in changed and row[1] == NOT_UNDONE_REASON)]

    def _plan_moved(self, statement: Statement) -> None:
        """Plan to create an object again because the order of its statements changed. If impossible, report that."""
        kind = self.edited.class_of(statement.owner) if statement.owner else None
        if statement.kind == VALUE and is_enum(kind):
            self.plan.members.setdefault(statement.owner, set())
        elif statement.kind == VALUE and kind is not None and not is_plain_class(kind):
            self.classes.plan_new_class(statement.owner, statement)
        if (
            statement.owner
            or statement.guard
            or statement.kind in (IMPORT, DOCSTRING)
            or (statement.kind in (FUNCTION, CLASS) and not statement.node.decorator_list)
        ):
            return
        fills = (
            self.followers.rebuilds.filled_object_ids(statement.node, self.followers.text)
            & self.followers.registrations.named_objects()
        )
        names = [
            name
            for name in self.edited.space
            if id(self.edited.space[name]) in fills or name in top_names(statement.node)
        ]
        for name in names:
            chain = self.followers.rebuilds.statement_chain(self.followers.text, name)
            if len(chain) < 2 or id(self.edited.space[name]) in self.followers.rebuilds.objects:
                continue
            planned = frozenset(top for owner, top in chain if owner is self.followers.text and top in self.plan.tops)
            obstacle = self.followers.rebuilds.rebuild_obstacle(self.followers.text, name, chain, planned)
            if obstacle:
                why = f"line {line_range(statement.node)[0]}: the order of this statement has changed, and {obstacle}"
                self.plan.stays.append((name, why))
            else:
                self._plan_whole_chain([], name, chain)

    def _plan_removed(self, change: Change) -> None:
        """Report the effects of a removed function or class that have not been undone."""
        old = change.old
        if change.new is None and old is not None and old.kind == VALUE and not old.owner and not old.guard:
            if self.removals.undoes(old) and self.followers.registrations.has_filled(old.node):
                self.plan.stays.append((old.name, NOT_UNDONE_REASON))
            return
        if change.new is not None or old is None or old.kind not in (FUNCTION, CLASS) or old.owner or old.guard:
            return
        if old.kind == CLASS and self.followers.registrations.is_listed_by_base(self.edited.value(old.name)):
            self.plan.stays.append((old.name, "the class is still listed by `__subclasses__()` of its base"))
            return
        if old.kind == CLASS and self.followers.registrations.has_registered(old.name, old.node):
            self.plan.stays.append((old.name, "registrations made when the class was created are not undone"))
            return
        effects = self.followers.analysis.decorator_effects(old.node, self.followers.text.space)
        fills = effects.fills & self.followers.registrations.registry_ids() - self.followers.rebuilds.objects
        is_undone = not effects.fills.isdisjoint(self.followers.rebuilds.objects)
        if old.node.decorator_list and (effects.effect is not None or fills) and not is_undone:
            why = "the effects of the decorators are not undone"
            names = {called_name(decorator) for decorator in old.node.decorator_list}
            added = [new.node for new in self.edited.added_statements if new.kind == FUNCTION]
            is_refused = has_registration_id(old.node) and any(map(has_registration_id, added))
            is_weak = self.followers.signatures.are_decorators_of_libraries(old.node) and not is_refused
            if names <= REGISTERING_DECORATORS and is_weak:
                self.followers.reports.report_if_used(old.name, old.node, self.edited.space.get(old.name), why)
            else:
                self.plan.stays.append((old.name, why))

    def _watch(self, change: Change) -> None:
        """Prepare to detect whether an edited class, function or statement registers something a second time."""
        old, new = change.old, change.new
        if old is None or new is None or old.owner or old.guard or old.kind not in (FUNCTION, CLASS, VALUE, OTHER):
            return
        is_value = old.kind in (VALUE, OTHER)
        fills = (
            self.followers.rebuilds.filled_object_ids(old.node, self.followers.text)
            if is_value
            else self.followers.analysis.decorator_effects(old.node, self.followers.text.space).fills
        )
        if not fills.isdisjoint(self.followers.rebuilds.objects):
            return
        is_decorated_again = DECORATORS in change.parts or (
            SIGNATURE in change.parts and id(new.node) in self.plan.defined
        )
        if old.kind in (VALUE, OTHER):
            self.followers.registrations.watch_sizes(old.name, old.node, new.node)
        elif is_decorated_again and any(
            called_name(decorator) in REGISTERING_DECORATORS for decorator in old.node.decorator_list
        ):
            task = find_task(self.edited.space.get(old.name))
            if task is not None:
                self.followers.changes.record_filled({id(task.app)})
                if not new.node.decorator_list:
                    self.plan.stays.append((new.name, "the task is still registered"))
                return
            why = "the previous effects of the decorators are not undone"
            is_weak = self.followers.signatures.are_decorators_of_libraries(old.node) and not has_registration_id(
                old.node
            )
            value = self.edited.space.get(old.name) if is_weak else None
            self.followers.reports.report_if_used(new.name, new.node, value, why)
        elif BASES in change.parts and self.followers.registrations.is_no_longer_registered(old, new):
            self.followers.reports.report_not_updated(
                new.name, new.node, "registrations made when the previous class was created are not undone"
            )
        elif DECORATORS in change.parts and self._no_longer_fills(change, fills):
            self.plan.stays.append((new.name, "the effects of the previous decorators are not undone"))
        elif is_decorated_again or BASES in change.parts or is_decorated_otherwise(self.edited, change):
            self.followers.registrations.watch_sizes(old.name, old.node, new.node)

    def _watch_method(self, change: Change) -> None:
        """Report what the previous decorators of a method have registered, or will have registered twice."""
        old, new = change.old, change.new
        kind = self.edited.class_of(old.owner) if old is not None and old.owner else None
        if old is None or kind is None or old.kind != FUNCTION or not old.node.decorator_list:
            return
        if new is not None and DECORATORS not in change.parts and id(new.node) not in self.plan.defined:
            return
        analysis, space = self.followers.analysis, self.followers.text.space
        before = analysis.decorator_effects(old.node, space, kind).fills & self.followers.registrations.registry_ids()
        before -= self.followers.rebuilds.objects
        if before and (new is None or DECORATORS in change.parts):
            self.plan.stays.append((dotted_name(old), "the effects of the previous decorators are not undone"))
        elif new is not None:
            self.followers.registrations.watch_filled(dotted_name(new), new.node, before)

    def _no_longer_fills(self, change: Change, fills: set[int]) -> bool:
        """Return whether an edited definition was added to a registry to which its decorators do not add it now."""
        if change.new is None:
            return False
        now = self.followers.analysis.decorator_effects(change.new.node, self.followers.text.space).fills
        return not (fills - now).isdisjoint(self.followers.registrations.collection_ids())

    def _has_registered(self, change: Change) -> bool:
        """Return whether the previous statement had an effect that the new statement does not replace."""
        old, new = change.old, change.new
        if old is None or new is None:
            return False
        fills = self.followers.rebuilds.filled_object_ids(new.node, self.followers.text)
        if new.kind in (FUNCTION, CLASS) and self.followers.registrations.are_watched(fills):
            return False  # whether they have grown is checked after the load
        if is_set_again(old.node, new.node):
            return False
        if new.kind == FUNCTION and find_task(self.edited.space.get(new.name)) is not None:
            return False  # the task gets the new options
        if top_names(new.node) and fills & self.followers.registrations.named_objects():
            return True
        return not (
            isinstance(old.node, ast.Assign)
            and assigned_names(old.node) == assigned_names(new.node)
            and assigned_names(new.node)
        )


def _is_filled_by_others(text: Any, name: str, chain: list[tuple[Any, int]]) -> bool:
    """Return whether statements in other modules add to a list after those in this module."""
    return type(text.space.get(name)) is list and any(owner is not text for owner, _ in chain)
