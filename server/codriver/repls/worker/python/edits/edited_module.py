"""A loaded module whose file was edited: both versions of its source, their differences, and the module's objects."""

from __future__ import annotations
import __future__

import inspect

from ...basics.definition_access import ABSENT, defining_module_name, is_class, qualified_name, space_of
from ..bound_names import BoundNames
from ..live_functions import FileCodes
from ..renewal import is_same_function_code
from ..statements import CLASS, DECORATORS, FUNCTION, assigned_names, compare
from .statement_syntax import dotted_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    import ast
    import types
    from typing import Any

    from ...basics.undo_records import UndoRecord
    from ..statements import SourceText, Statement

FUTURE_FLAGS = 0
"""The compiler flags of all `__future__` features."""
for _name in __future__.all_feature_names:
    FUTURE_FLAGS |= getattr(__future__, _name).compiler_flag
FUNCTION_KIND_FLAGS = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR
"""The code flags that distinguish generators and asynchronous functions from other functions."""
MAX_NAMED_EDITS = 3
"""Maximum number of edited names mentioned in a report about a whole edit."""


class EditedModule:
    """A module with its previous source `old` and the source `new` that is loaded.

    - `comparison` contains the differences between the sources.
    - `codes` contains the compiled sources.
    - `file` is the module's file, and `space` is its namespace.
    - `undo` records how to undo the load.
    - `followers` updates what depends on the changes, if anything does.
    """

    def __init__(
        self, module: types.ModuleType, sources: tuple[SourceText, SourceText], file: str, undo: UndoRecord
    ) -> None:
        self.module, self.space, self.file, self.undo = module, module.__dict__, file, undo
        self.old, self.new = sources
        self.comparison = compare(*sources)
        self.codes = FileCodes(self.old, file), FileCodes(self.new, file)
        self.followers: Any | None = None
        self._statements: list[Statement] | None = None
        self._bound_names: BoundNames | None = None

    @property
    def statements(self) -> list[Statement]:
        """Return the statements in the new source."""
        if self._statements is None:
            self._statements = self.new.statements()
        return self._statements

    @property
    def bound(self) -> BoundNames:
        """Return the names that the new source binds."""
        if self._bound_names is None:
            self._bound_names = BoundNames(self.new.tree)
        return self._bound_names

    def value(self, name: str) -> Any:
        """Return the value of a dotted name, or ABSENT if there is none."""
        space: Any = self.space
        value: Any = ABSENT
        for part in name.split("."):
            value = space.get(part, ABSENT)
            space = space_of(value) if is_class(value) else {}
        return value

    def class_of(self, owner: str) -> Any:
        """Return the module's class for a scope such as `C.` or `C.Inner.`, or None if there is none."""
        found: Any = self.value(owner[:-1])
        is_of_module = is_class(found) and (defining_module_name(found), qualified_name(found)) == (
            self.module.__name__,
            owner[:-1],
        )
        return found if is_of_module else None

    def compile(self, node: Any, mode: str) -> types.CodeType:
        """Compile a statement or expression in the source."""
        flags = self.codes[1].code.co_flags & FUTURE_FLAGS
        code: types.CodeType = compile(node, self.file, mode, flags, dont_inherit=True)
        return code

    @property
    def label(self) -> str:
        """Return a string with the names changed by the edit, at most three of them."""
        names = sorted({dotted_name(change.current_statement) for change in self.comparison.changes})
        return ", ".join(names[:MAX_NAMED_EDITS]) + (" …" if len(names) > MAX_NAMED_EDITS else "")

    def changes_behaviour(self, old: Statement, new: Statement) -> bool:
        """Return whether a function behaves differently now. Nested functions are ignored."""
        before, now = self.codes[0].code_of_statement(old.node), self.codes[1].code_of_statement(new.node)
        return before is None or now is None or not is_same_function_code(before, now)

    def changes_kind(self, old: Statement, new: Statement) -> bool:
        """Return whether a function has changed between plain, generator and asynchronous.

        Decorators and libraries may treat each kind differently.
        """
        kinds = [codes.code_of_statement(statement.node) for codes, statement in zip(self.codes, (old, new))]
        flags = [code.co_flags & FUNCTION_KIND_FLAGS for code in kinds if code is not None]
        return len(set(flags)) > 1

    def nested_statements(self, node: ast.AST) -> list[Statement]:
        """Return the statements inside a top-level class in the new source."""
        return [
            statement
            for statement in self.statements
            if self.new.tree.body[statement.top] is node and statement.node is not node
        ]

    @property
    def added_statements(self) -> list[Statement]:
        """Return the statements that only exist in the new source."""
        return [change.new for change in self.comparison.changes if change.old is None and change.new is not None]

    @property
    def has_same_future_features(self) -> bool:
        """Return whether both sources use the same `__future__` features."""
        old, new = self.codes
        return old.code.co_flags & FUTURE_FLAGS == new.code.co_flags & FUTURE_FLAGS

    @property
    def edited_names(self) -> set[str]:
        """Return the dotted names bound by statements that differ between the sources."""
        changed = [change.current_statement for change in self.comparison.changes]
        return {statement.owner + name for statement in changed for name in assigned_names(statement.node)}

    @property
    def connected_names(self) -> set[str]:
        """Return the names of top-level functions whose decorators have run or may now run in another order."""
        changes = self.comparison.changes
        changed = [change.new for change in changes if change.new and (not change.old or DECORATORS in change.parts)]
        return {
            statement.node.name
            for statement in (*changed, *self.comparison.moved)
            if statement.kind == FUNCTION and not statement.owner and statement.node.decorator_list
        }

    @property
    def changes_classes(self) -> bool:
        """Return whether a class has changed in ways other than the code of its methods."""
        return any(
            (change.current_statement.owner or change.current_statement.kind == CLASS)
            and not (
                change.old
                and change.new
                and change.current_statement.kind == FUNCTION
                and change.current_statement.node.name != "__subclasshook__"
            )
            for change in self.comparison.changes
        )
