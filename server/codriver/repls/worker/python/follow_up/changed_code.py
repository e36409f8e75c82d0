"""Find the functions whose code has changed, with the functions nested in them."""

from __future__ import annotations

import ast
import copy

from ..effects.effects import code_position_name
from ..statements import FUNCTION, FUNCTION_NODES, comparable_dump

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..edits.edited_module import EditedModule
    from ..name_changes import NameChanges


def record_changed_code(name: str, edited: EditedModule, changes: NameChanges) -> None:
    """Record the code that has changed in the module `name`. Call this after functions have been updated."""
    for change in edited.comparison.changes:
        old, new = change.old, change.new
        if old is None or new is None:
            continue
        if "docstring" in change.parts:
            changes.updated.add((name, new.name + ".__doc__"))
        if not old.kind == new.kind == FUNCTION:
            continue
        if "signature" in change.parts or edited.changes_behaviour(old, new):
            changes.codes.add((name, new.name + "()"))
        if "signature" in change.parts or edited.changes_kind(old, new):
            changes.codes.add((name, new.name + "(...)"))
        known = {
            _text_without_bodies(node) for node in ast.walk(old.node) if isinstance(node, (*FUNCTION_NODES, ast.Lambda))
        }
        for node in ast.walk(new.node):
            if (
                node is not new.node
                and isinstance(node, (*FUNCTION_NODES, ast.Lambda))
                and _text_without_bodies(node) not in known
            ):
                changes.codes.add((name, code_position_name(node)))


class _WithoutBodies(ast.NodeTransformer):
    """A transformer that removes the bodies of functions."""

    def visit_FunctionDef(self, node: Any) -> Any:  # the name of the node
        made = type(node)(**{name: getattr(node, name, None) for name in node._fields})
        made.body = []
        return made

    visit_AsyncFunctionDef = visit_FunctionDef  # noqa: N815

    def visit_Lambda(self, node: Any) -> Any:
        return ast.Lambda(node.args, ast.Constant(None))


def _text_without_bodies(node: Any) -> str:
    """Return the text of a function or lambda without the bodies of the functions within it."""
    parts = node.body if isinstance(node.body, list) else [node.body]
    return comparable_dump([node.args, *[_WithoutBodies().visit(copy.deepcopy(part)) for part in parts]]) + getattr(
        node, "name", ""
    )
