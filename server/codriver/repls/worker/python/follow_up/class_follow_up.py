"""Update classes whose bases, decorators, hooks or bodies depend on a change."""

from __future__ import annotations

import ast
import types
from typing import Generic

from ...basics.definition_access import ABSENT, defining_module_name, is_class, order_of, qualified_name, space_of
from ..class_renewal import can_be_created_again, classes_with_hooks, has_plain_metaclass
from ..edits.open_classes import accepts_method
from ..edits.statement_syntax import dotted_name
from ..effects.static_attributes import is_generic_class
from ..enum_members import is_enum
from ..equal_values import is_alike
from ..statements import CLASS, FUNCTION, VALUE, assigned_names
from ..stored_attributes import module_dict

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ...basics.undo_records import UndoRecord
    from ..effects.effects import Effects
    from ..module_text import Text

STANDARD_BASE_MODULES = (
    "builtins",
    "abc",
    "typing",
    "enum",
    "collections.abc",
    "threading",
    "logging",
    "unittest.case",
)
"""Modules whose classes do not process the body of a subclass, or whose subclasses are updated in other ways."""


class ClassFollowUp:
    """Updates the classes in a module after a change.

    `remade` contains the class statements that have been run again, by module and position.
    """

    def __init__(self, followers: Any, undo: UndoRecord) -> None:
        self._followers, self._undo = followers, undo
        self._changes, self._registrations = followers.changes, followers.registrations
        self.remade: set[tuple[str, int]] = set()

    def follow(self, text: Text, top: int, node: ast.ClassDef) -> None:  # one branch per kind of change
        """Update a class if it depends on a change. `top` is the position of its statement `node` in the module."""
        kind = text.space.get(node.name)
        if not is_class(kind):
            effects = self._followers.effects(node, text)
            if self._changes.is_affected(effects):
                self._followers.reports.report(
                    text, node, f"the class was created with {self._changes.cause(effects)}, which has changed"
                )
            return
        if (text.name, top) in self._followers.rebuilds.done:
            return
        head = [*node.bases, *[keyword.value for keyword in node.keywords]]
        made = self._followers.analysis.body_effects(head, text.space, None)
        if self._changes.is_affected(made) and not self._try_rebase(node, kind, text):
            self._make_class(text, node, kind, made)
            return
        if self._is_made_by_library(kind):
            read = self._followers.analysis.bases(kind)
            if self._changes.is_affected(read):
                self._make_class(text, node, kind, read)
                return
        if not self._follow_hooks(text, node, kind):
            return
        if node.decorator_list:
            self._follow_decorators(text, top, node, kind)
        if (text.name, top) not in self.remade:
            self.follow_body(text, node, kind)

    def _follow_decorators(self, text: Text, top: int, node: ast.ClassDef, kind: Any) -> None:
        """Apply the decorators of a class again if they depend on a change."""
        effects = self._followers.analysis.decorator_effects(node, text.space)
        if not self._changes.is_affected(effects):
            return
        if self._followers.decorators.only_connects(text, node) and self._changes.has_only_changed_classes(effects):
            return  # the admin sites are updated when the load is complete
        if effects.effect is None and effects.fills <= {id(kind)}:
            if not self._followers.decorators.apply_again(text, node):
                self._report_not_made(text, node, effects)
        elif effects.effect is None and effects.fills:
            self._followers.rebuilds.rebuild_filled(text, top, node, effects)
        else:
            why = f"the decorators used {self._changes.cause(effects)}, which has changed"
            self._followers.reports.report(text, node, why)

    def _try_rebase(self, node: ast.ClassDef, kind: Any, text: Text) -> bool:
        """Replace the bases of a class if the new ones have the same names. Return whether that was possible."""
        words = self._followers.analysis.body_effects([keyword.value for keyword in node.keywords], text.space, None)
        if not has_plain_metaclass(kind) or space_of(kind).get("__parameters__") or self._changes.is_affected(words):
            return False
        if not all(self._registrations.is_of_project(base) or base is Generic for base in classes_with_hooks(kind)):
            return False
        bases = tuple(self._live(base, text) for base in node.bases)
        before = kind.__bases__
        are_heirs = len(bases) == len(before) and all(
            is_class(statement)
            and (defining_module_name(statement), qualified_name(statement))
            == (defining_module_name(old), qualified_name(old))
            for statement, old in zip(bases, before)
        )
        if not are_heirs:
            return False
        try:
            type.__setattr__(kind, "__bases__", bases)
        except TypeError:  # the memory layouts differ
            return False
        self._undo.record_change(
            "", lambda: kind.__bases__ == bases, lambda: type.__setattr__(kind, "__bases__", before)
        )
        self._subscript_bases(node, kind, text)
        return True

    def _subscript_bases(self, node: ast.ClassDef, kind: Any, text: Text) -> None:
        """Update the arguments of generic bases, which a class stores in `__orig_bases__`."""
        before = space_of(kind).get("__orig_bases__")
        if before is None:
            return
        minimal = self._followers.code.load_for(text)
        bases = ast.Tuple(node.bases, ast.Load())
        ast.copy_location(bases, node)
        now = eval(minimal.edited.compile(ast.Expression(bases), "eval"), text.space)
        type.__setattr__(kind, "__orig_bases__", now)
        self._undo.record_undo(type.__setattr__, kind, "__orig_bases__", before)

    def _live(self, node: Any, text: Text) -> Any:
        """Return the object to which a name or dotted name refers, or None.

        For a subscripted generic class, return the class.
        """
        if isinstance(node, ast.Name):
            return text.space.get(node.id)
        if isinstance(node, ast.Subscript):
            owner = self._live(node.value, text)
            return owner if is_generic_class(owner) else None
        if isinstance(node, ast.Attribute):
            owner = self._live(node.value, text)
            if isinstance(owner, types.ModuleType):
                return module_dict(owner).get(node.attr)
        return None

    def _follow_hooks(self, text: Text, node: ast.ClassDef, kind: Any) -> bool:
        """Call again the hooks that ran when a class was created, if they have changed.

        Returns False if nothing else remains to be done.
        """
        effects = self._followers.analysis.class_creation_effects(node, text.space, reads_bases=False)
        bases = {(str(defining_module_name(base)), str(qualified_name(base))) for base in order_of(kind)}
        if not any(self._changes.has_changed(*read) for read in effects.reads if read not in bases):
            return True
        fills_only_itself = effects.effect is None and effects.fills <= {id(kind)}
        hooks = {name.rpartition(".")[2] for _, name in effects.reads if name.endswith("__()")}
        if "__init_subclass__()" in hooks and self._call_hook(text, node, kind, bases):
            return True
        if fills_only_itself and hooks <= {"__call__()"}:
            return True
        if fills_only_itself and can_be_created_again(kind):
            self._make_class(text, node, kind, effects)
        else:
            self._followers.reports.report(
                text, node, f"the class was created with {self._changes.cause(effects)}, which has changed"
            )
        return False

    def _call_hook(self, text: Text, node: ast.ClassDef, kind: Any, bases: set[tuple[str, str]]) -> bool:
        """Call the inherited `__init_subclass__` of a class again, if nothing else that ran for the class has changed.

        Return whether it was called.
        """
        analysis = self._followers.analysis
        other = analysis.class_creation_effects(node, text.space, reads_bases=False, hooks="metaclass")
        effects = analysis.class_creation_effects(node, text.space, reads_bases=False, hooks="bases")
        if any(self._changes.has_changed(*read) for read in other.reads if read not in bases):
            return False
        if effects.effect is not None or not effects.fills <= {id(kind)}:
            return False
        names = {name for _, name in effects.attributes}
        self._followers.rebuilds.call_hook(text, node, names | self._followers.rebuilds.names_set_by_old_hooks())
        return True

    def _is_made_by_library(self, kind: Any) -> bool:
        """Return whether a library processes the class when it is created, through a base class or metaclass."""
        kinds = [*order_of(kind)[1:-1], *[base for base in order_of(type(kind)) if base not in (type, object)]]
        return any(
            defining_module_name(statement) not in STANDARD_BASE_MODULES
            and not self._registrations.is_of_project(statement)
            for statement in kinds
        )

    def _report_not_made(self, text: Text, node: ast.ClassDef, effects: Effects) -> None:
        """Report that a class cannot be created again."""
        why = (
            f"the class was created with {self._changes.cause(effects)}, which has changed, and cannot be created again"
        )
        self._followers.reports.report(text, node, why)

    def make_again(self, text: Text, node: ast.ClassDef, kind: Any) -> bool:
        """Run a class statement again. Return False if that might have effects outside the class."""
        whole = self._followers.effects(node, text)
        if whole.effect is not None or whole.fills - {id(kind)} or not can_be_created_again(kind):
            return False
        self.remade.add((text.name, text.body.index(node)))
        self._followers.code.run(text, node)
        if text.name != self._followers.name:
            self._undo.record_key(f"{text.name}.{node.name}", text.space, node.name, kind)
        return True

    def _make_class(self, text: Text, node: ast.ClassDef, kind: Any, effects: Effects) -> None:
        """Run a class statement again. If that is not possible, report why."""
        try:
            if not self.make_again(text, node, kind):
                self._report_not_made(text, node, effects)
        except Exception as error:  # an error in user code or a library
            self._followers.reports.report(
                text,
                node,
                f"the class was created with {self._changes.cause(effects)}, which has changed, and creating it "
                f"again raised {type(error).__name__}",
            )

    def follow_body(self, text: Text, node: ast.ClassDef, kind: Any) -> None:  # noqa: C901, PLR0912  # one branch per kind
        """Update the statements in the body of a class that depend on a change."""
        minimal = self._followers.code.load_for(text)
        members: set[str] = set()
        for statement in minimal.edited.nested_statements(node):
            owner = minimal.edited.class_of(statement.owner)
            if owner is None or statement.guard:
                effects = self._followers.analysis.body_effects([statement.node], text.space, owner or kind)
                if statement.kind != CLASS and self._changes.is_affected(effects):
                    self._make_class(text, node, kind, effects)
                    return
                continue
            if statement.kind == FUNCTION:
                self._followers.functions.follow_defaults(text, statement.node, owner)
                self._followers.functions.clear_cache(
                    text, space_of(owner).get(statement.node.name), dotted_name(statement), owner
                )
                self._followers.functions.clear_cached_property(text, statement, owner)
                if statement.node.decorator_list:
                    effects = self._followers.analysis.decorator_effects(statement.node, text.space, owner)
                    if self._changes.is_affected(effects):
                        if effects.effect is not None or not accepts_method(owner, statement.node):
                            self._make_class(text, node, kind, effects)
                            return
                        before = self._registrations.count_entries(effects.fills)
                        minimal.class_bodies.make_definition(statement)()
                        if self._registrations.count_entries(effects.fills) > before:
                            why = "previous registrations by the decorators are not undone"
                            self._followers.reports.report(text, statement.node, why, dotted_name(statement))
                continue
            if statement.kind == CLASS:
                continue
            effects = self._followers.analysis.body_effects([statement.node], text.space, owner)
            if not self._changes.is_affected(effects):
                continue
            if is_enum(owner) and statement.kind == VALUE:
                members.update(assigned_names(statement.node))
            elif statement.kind == VALUE and minimal.classes.outer_reader(statement.owner):
                self._make_class(text, node, kind, effects)  # its creation has read a nested class such as `Meta`
                return
            elif effects.effect is None and effects.fills and effects.fills <= {id(owner)}:
                self._make_class(text, node, kind, effects)  # as if its descriptors had not been named
                return
            elif effects.effect is not None or (effects.fills and statement.kind == VALUE):
                self._followers.reports.report(
                    text,
                    statement.node,
                    f"the statement used {self._changes.cause(effects)}, which has changed",
                    dotted_name(statement),
                )
            elif statement.kind == VALUE and minimal.classes.can_set_attributes(owner, statement):
                self._assign(text, statement, owner)
            else:
                self._make_class(text, node, kind, effects)
                return
        if members:
            minimal.members.make_update(node.name + ".", members, node)()
            self._followers.reports.stays += [(text.name, name, why) for name, why in minimal.pop_not_updated()]

    def _assign(self, text: Text, statement: Any, owner: Any) -> None:
        """Assign an attribute of a class again.

        The previous object stays if it is equal to the new one or can receive its contents.
        """
        before = {name: space_of(owner).get(name, ABSENT) for name in assigned_names(statement.node)}
        try:
            self._followers.code.load_for(text).class_bodies.make_assignment(statement.owner, statement)()
        except Exception as error:  # an error in user code
            self._followers.reports.report(
                text,
                statement.node,
                f"running the statement again raised {type(error).__name__}",
                dotted_name(statement),
            )
            return
        for name, old in before.items():
            new = space_of(owner).get(name, ABSENT)
            if new is old or old is ABSENT:
                continue
            is_alone = not self._followers.objects.is_selection(text, statement.node, (old, new), owner)
            if is_alike(old, new) or (is_alone and self._followers.objects.move_contents(old, new)):
                type.__setattr__(owner, name, old)
            elif text.name != self._followers.name:
                self._undo.record_attribute(f"{text.name}.{owner.__qualname__}.{name}", owner, name, old)
