"""Reevaluate names, and all statements that fill their objects, in the edited module and in others."""

from __future__ import annotations

import ast
import gc
import types

from ..basics.definition_access import ABSENT, is_class, space_of
from .bound_names import BoundNames
from .equal_values import COMPARED_SIZE_LIMIT, CONSTANT_IDS
from .registrations import REGISTRY_TYPES
from .statements import BLOCK_STATEMENTS, FUNCTION_NODES, line_range, makes_new_object, names_bound_by

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..basics.undo_records import UndoRecord
    from .effects.effects import Effects
    from .module_text import Text

MAX_REFERENCE_STEPS = 5
"""Maximum number of references that are followed from a decorated object to its function."""


class Rebuilds:
    """The statements to run again because an object is created again.

    - `forced` contains the statements to run when their turn comes.
    - `done` contains the statements that have already run.
    - `revived` contains the names that were bound again and may be deleted by later statements.
    - `objects` contains the ids of the objects that are created again.
    """

    def __init__(self, followers: Any, undo: UndoRecord) -> None:
        self._followers, self._undo = followers, undo
        self.forced: set[tuple[str, int]] = set()
        self.done: set[tuple[str, int]] = set()
        self.revived: set[tuple[str, str]] = set()
        self.objects: set[int] = set()

    def statement_chain(self, text: Text, name: str) -> list[tuple[Text, int]]:
        """Return the statements that bind a name in a module or fill its object, in the order in which they run."""
        value = text.space.get(name, ABSENT)
        found = self._chain_in_module(text, {name}, {id(value)}, {name})
        others = [importer for importer in self._followers.find_importers() if importer is not text]
        words = {name, text.name.rpartition(".")[2]}
        if others and id(value) not in CONSTANT_IDS:
            text.statements_mentioning(words)  # other modules may call a function that fills the object
        for other in others:
            found += self._chain_in_module(other, set(), {id(value)}, words)
        return found

    def _chain_in_module(
        self, text: Text, names: set[str], objects: set[int], words: set[str]
    ) -> list[tuple[Text, int]]:
        """Return the statements in one module that bind or delete the names, or fill the objects."""
        found = []
        is_plain_object = not objects or all(key in CONSTANT_IDS for key in objects)
        for top in text.statements_mentioning(set(words)):
            node = text.body[top]
            if (
                not names.isdisjoint(names_bound_by(node))
                or not names.isdisjoint(deleted_names(node))
                or (
                    not is_plain_object
                    and not isinstance(node, (ast.Import, ast.ImportFrom))
                    and self.filled_object_ids(node, text) & objects
                )
            ):
                found.append((text, top))
        return found

    def filled_object_ids(self, node: Any, text: Text) -> set[int]:
        """Return the ids of the existing objects that a statement fills."""
        effects = self._followers.effects(node, text)
        found = set(effects.fills)
        if isinstance(node, ast.Expr) and is_setattr(node.value):
            call: Any = node.value
            found |= {id(text.space.get(argument.id)) for argument in call.args[:1] if isinstance(argument, ast.Name)}
        return found

    def other_filled_ids(self, text: Text, top: int, objects: set[int]) -> set[int] | None:
        """Return the ids of other named objects that a statement fills. Return None if it may have external effects."""
        node = text.body[top]
        effects = self._followers.effects(node, text)
        bound_name = {
            id(value) for name in names_bound_by(node) if (value := text.space.get(name, ABSENT)) is not ABSENT
        }
        if isinstance(node, FUNCTION_NODES):
            functions = self._followers.existing.find(text.file, node)
            bound_name |= {id(function) for function in functions}
            if (
                len(
                    [
                        function
                        for function in functions
                        if len(functions) == 1 or refers_to_function(text.space.get(node.name), function)
                    ]
                )
                != 1
            ):
                return None
        if isinstance(node, ast.ClassDef):
            effects = self._followers.analysis.decorator_effects(node, text.space)
            whole = self._followers.effects(node, text)
            if whole.fills & objects and not effects.fills & objects:
                effects = self._followers.analysis.class_creation_effects(node, text.space)
                kind = text.space.get(node.name)
                is_filled_by_hook = not effects.fills.isdisjoint(objects) and is_class(kind)
                if not is_filled_by_hook or not self._followers.shared_registries.has_plain_hook(node, kind, effects):
                    return None
        return (
            (effects.fills - objects - bound_name) & self._followers.registrations.named_objects()
            if effects.effect is None
            else None
        )

    def rerun(self, text: Text, top: int) -> None:
        """Run a top-level statement again. For a function or class, apply its decorators again instead."""
        self.done.add((text.name, top))
        node = text.body[top]
        if isinstance(node, (*FUNCTION_NODES, ast.ClassDef)):
            self._redecorate(text, top)
        else:
            self.forget_names_set_by_globals(text, node)
            before = {name: text.space.get(name, ABSENT) for name in names_bound_by(node)}
            with self._followers.later.hidden(text, node):
                self._followers.code.run(text, node)
            for name, old in before.items():
                if old is ABSENT:
                    self.revived.add((text.name, name))
                elif (
                    isinstance(node, (ast.Assign, ast.AnnAssign))
                    and (makes_new_object(node) or type(old) not in REGISTRY_TYPES)
                    and self._is_first(text, top, name)
                ):
                    self.preserve_identity(text, name, old, node)
                if text.name != self._followers.name:
                    self._undo.record_key(f"{text.name}.{name}", text.space, name, old)

    def _redecorate(self, text: Text, top: int) -> None:
        """Apply the decorators of a definition again, unless the load has created its class again."""
        node = text.body[top]
        if isinstance(node, ast.ClassDef):
            if self._followers.has_run(text, top):
                return
            creation = self._followers.analysis.class_creation_effects(node, text.space)
            if not creation.fills.isdisjoint(self.objects):
                self.call_hook(text, node, {name for _, name in creation.attributes})
                if not node.decorator_list:
                    return
        if not self._followers.decorators.apply_again(text, node):
            self._followers.reports.report(text, node, "the decorators cannot be applied again")

    def names_set_by_old_hooks(self) -> set[str]:
        """Return the names of attributes that the previous versions of edited `__init_subclass__` methods set."""
        edited = self._followers.code.load_for(self._followers.text).edited
        nodes = [change.old.node for change in edited.comparison.changes if change.old is not None]
        return {
            part.attr
            for node in nodes
            if getattr(node, "name", "") == "__init_subclass__"
            for part in ast.walk(node)
            if isinstance(part, ast.Attribute) and isinstance(part.ctx, ast.Store)
        }

    def call_hook(self, text: Text, node: ast.ClassDef, names: set[str]) -> None:
        """Call the inherited `__init_subclass__` of a class again. `names` contains the attributes that it sets."""
        kind = text.space[node.name]
        bound = {name for statement in node.body for name in names_bound_by(statement)}
        for name in names & space_of(kind).keys() - bound:
            before = space_of(kind)[name]
            type.__delattr__(kind, name)
            self._undo.record_attribute("", kind, name, before)
        minimal = self._followers.code.load_for(text)
        words = {
            str(keyword.arg): eval(minimal.edited.compile(ast.Expression(keyword.value), "eval"), text.space)
            for keyword in node.keywords
            if keyword.arg != "metaclass"
        }
        super(kind, kind).__init_subclass__(**words)

    @staticmethod
    def _is_first(text: Text, top: int, name: str) -> bool:
        """Return whether no earlier statement binds the name."""
        return not any(name in names_bound_by(node) for node in text.body[:top])

    def rebuild_filled(self, text: Text, top: int, node: Any, effects: Effects) -> None:
        """Recreate the objects that a statement fills. If that is not possible, report their names."""
        names = [
            (owner, name)
            for owner in (text, *self._other_modules(text))
            for name, value in list(owner.space.items())
            if id(value) in effects.fills and type(value) is not types.ModuleType
        ]
        seen: set[int] = set()
        for owner, name in names:
            key = id(owner.space.get(name))
            if key not in seen and self.binds_name(owner, name):
                seen.add(key)
                self.rebuild_name(owner, name, text, top, effects)
        if not seen:
            self._followers.reports.report(
                text, node, f"the statement used {self._followers.changes.cause(effects)}, which has changed"
            )

    def _other_modules(self, text: Text) -> list[Text]:
        """Return the edited module and the modules that depend on it, except for `text`."""
        found = [self._followers.text, *self._followers.find_importers()]
        return [other for other in found if other.name != text.name]

    @staticmethod
    def binds_name(text: Text, name: str) -> bool:
        """Return whether a statement in the source, other than an import, binds a name."""
        return any(
            name in names_bound_by(node) and not isinstance(node, (ast.Import, ast.ImportFrom)) for node in text.body
        )

    def rebuild_name(self, text: Text, name: str, at: Text, top: int, effects: Effects) -> None:
        """Run the statements that bind a name and fill its object again. If that is not possible, report the name.

        `at` and `top` are the module and position of the statement that requires this.
        """
        chain = self.statement_chain(text, name)
        if not any(owner.name == at.name and position == top for owner, position in chain):
            chain.append((at, top))
        obstacle = self.rebuild_obstacle(text, name, chain)
        node = at.body[top]
        if obstacle:
            self._followers.reports.report(
                at,
                node,
                f"the statement used {self._followers.changes.cause(effects)}, which has changed, and {obstacle}",
                name,
            )
            return
        self.rebuild(chain, at, top)

    def rebuild_obstacle(
        self, text: Text, name: str, chain: list[tuple[Text, int]], planned: frozenset[int] = frozenset()
    ) -> str:
        """Return the reason why the statements that bind a name and fill its object cannot run again, or ""."""
        objects = {id(text.space.get(name, ABSENT))}
        for number, (owner, top) in enumerate(chain):
            node = owner.body[top]
            if owner is text and top in planned:
                continue  # it runs because it was edited
            if number == 0 and isinstance(node, (ast.Import, ast.ImportFrom)):
                if any(
                    self.filled_object_ids(module_text.body[position], module_text) & objects
                    for module_text, position in chain[1:]
                ):
                    return "another module creates the object"
                continue
            if number == 0:
                effects = self._followers.effects(node, owner)
                before = self._followers.changes.before.get(owner.name, {}).get(name)
                if isinstance(node, ast.ClassDef) and before is owner.space.get(name):
                    return f"line {node.lineno} creates the class"
                others = effects.accumulated - objects if effects.effect is None else None
                if others is None or not self._include_others(others, text, chain, objects):
                    return f"line {node.lineno} creates the object"
                continue
            others = self.other_filled_ids(owner, top, objects)
            if others is None or not self._include_others(others, text, chain, objects):
                where = "" if owner is text else f" of {owner.name}"
                return f"line {line_range(node)[0]}{where} would run again: {owner.source.summary(node)}"
            for bound in names_bound_by(node):
                value = owner.space.get(bound, ABSENT)
                is_definition = type(value) is types.FunctionType or is_class(value)
                if bound != name and not is_definition and id(value) not in CONSTANT_IDS:
                    more = self._chain_in_module(owner, {bound}, {id(value)}, {bound})
                    known = {(module_text.name, position) for module_text, position in chain}
                    objects.add(id(value))
                    chain += [link for link in more if (link[0].name, link[1]) not in known]
        return ""

    def _include_others(self, others: set[int], text: Text, chain: list[tuple[Text, int]], objects: set[int]) -> bool:
        """Add the statements that create or fill other objects of a module to `chain`.

        `others` contains the ids of these objects. Returns False if the module does not create one of them.
        """
        for key in others:
            name = next(
                (
                    candidate
                    for candidate, value in text.space.items()
                    if id(value) == key and self.binds_name(text, candidate)
                ),
                None,
            )
            more = self.statement_chain(text, name) if name is not None else []
            if not more or more[0][0] is not text or isinstance(text.body[more[0][1]], (ast.Import, ast.ImportFrom)):
                return False
            objects.add(key)
            known = {(owner.name, top) for owner, top in chain}
            chain += [link for link in more if (link[0].name, link[1]) not in known]
        return True

    def rebuild(self, chain: list[tuple[Text, int]], at: Text, upto: int) -> None:
        """Run the statements in `chain` again.

        A statement runs immediately if its position has been passed, otherwise when the position is reached. `at` and
        `upto` are the module and position of the statement that is being updated.
        """
        modules = [text.name for text in (self._followers.text, *self._followers.find_importers())]
        now = modules.index(at.name), upto
        is_first = True
        for owner, top in chain[:1]:
            self.objects.update(id(owner.space.get(name)) for name in names_bound_by(owner.body[top]))
        statements = [((modules.index(owner.name), top), owner, top) for owner, top in chain if owner.name in modules]
        for position, owner, top in sorted(statements, key=lambda statement: statement[0]):
            if position > now:
                self.forced.add((owner.name, top))
            elif is_first:
                before = {name: owner.space.get(name, ABSENT) for name in names_bound_by(owner.body[top])}
                if isinstance(owner.body[top], (*FUNCTION_NODES, ast.ClassDef)):
                    self._redecorate(owner, top)
                else:
                    self._followers.code.run(owner, owner.body[top])
                for name, old in before.items():
                    self.preserve_identity(owner, name, old, owner.body[top])
                self.done.add((owner.name, top))
            else:
                self.rerun(owner, top)
            is_first = False

    def preserve_identity(self, text: Text, name: str, old: Any, node: Any) -> None:
        """Restore the previous object of a name that was created again, with the contents of the new object.

        That is possible for collections, for objects of the workspace, and for most objects of libraries. `node` is the
        statement that creates the object.
        """
        objects = self._followers.objects
        new = text.space.get(name, ABSENT)
        is_collection = new is not old and type(old) in REGISTRY_TYPES and objects.move_contents(old, new)
        if is_collection or objects.share(old, new) or self._moves_contents(text, node, old, new):
            text.space[name] = old
            self._followers.changes.updated.add((text.name, name))
        elif text.name != self._followers.name and new is not old:
            self._undo.record_key(f"{text.name}.{name}", text.space, name, old)

    def _moves_contents(self, text: Text, node: Any, old: Any, new: Any) -> bool:
        """Give an object the contents of the new object that a statement has created. Return whether that was done."""
        objects = self._followers.objects
        is_created = new is not old and not objects.is_selection(text, node, (old, new))
        return is_created and bool(objects.move_contents(old, new))

    def forget_names_set_by_globals(self, text: Text, node: Any) -> None:
        """Remove the names that a statement added to the module through `globals()`, before it is run again."""
        if (
            not isinstance(node, (*BLOCK_STATEMENTS, ast.Expr))
            or id(text.space) not in self._followers.effects(node, text).fills
        ):
            return
        others = [
            statement
            for statement in text.body
            if statement is not node and id(text.space) in self._followers.effects(statement, text).fills
        ]
        if others:
            return
        written, standing = set(BoundNames(text.source.tree).kinds), self._followers.drift.rebound_names(text.name)
        for name, value in list(text.space.items()):
            if name[:2] != "__" and name not in written and name not in standing and "*" not in written:
                del text.space[name]
                self._undo.record_key(f"{text.name}.{name}", text.space, name, value)


def is_setattr(node: Any) -> bool:
    """Return whether an expression calls `setattr` with a name and a value."""
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "setattr"
        and len(node.args) == 3
    )


def deleted_names(node: Any) -> list[str]:
    """Return the names that a `del` statement removes."""
    return (
        [target.id for target in node.targets if isinstance(target, ast.Name)] if isinstance(node, ast.Delete) else []
    )


def refers_to_function(value: Any, function: Any) -> bool:
    """Return whether a decorated object refers to a function, directly or through attributes or closures."""
    seen: set[int] = set()
    level = [value]
    for _ in range(MAX_REFERENCE_STEPS):
        level = [item for item in level if id(item) not in seen]
        if any(item is function for item in level):
            return True
        seen.update(map(id, level))
        inner: list[Any] = []
        for item in level:
            if type(item) is types.FunctionType:
                inner += [*(item.__closure__ or ()), *item.__dict__.values()]
            elif not issubclass(type(item), (types.ModuleType, str, bytes)) and not is_class(item):
                inner += gc.get_referents(item)
        level = inner[:COMPARED_SIZE_LIMIT]
    return False
