"""Find what a statement binds, sets or calls by analyzing its syntax."""

from __future__ import annotations

import ast

from ..statements import assigned_names, comparable_dump

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..statements import Statement


def top_names(node: Any) -> list[str]:
    """Return the undotted names that a top-level statement binds."""
    return [name for name in assigned_names(node) if name.isidentifier()]


def names_bound(node: Any) -> list[str]:
    """Return the undotted names that a statement binds in its scope."""
    if isinstance(node, ast.Import):
        return [alias.asname or alias.name.partition(".")[0] for alias in node.names]
    return [name for name in assigned_names(node) if "." not in name]


def decorators(statement: Statement) -> list[ast.expr]:
    """Return the decorators of a definition."""
    found: list[ast.expr] = statement.node.decorator_list
    return found


def called_name(node: ast.expr) -> str:
    """Return the last part of the name of a decorator, or of the function that creates it."""
    inner = node.func if isinstance(node, ast.Call) else node
    return str(getattr(inner, "attr", None) or getattr(inner, "id", ""))


def has_no_effect(node: Any) -> bool:
    """Return whether a statement is `pass` or a constant such as a docstring."""
    return isinstance(node, ast.Pass) or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))


def setter_target(node: Any) -> str:
    """Return a string for the attribute or item that a statement sets, or for the setter that it calls, or ""."""
    if isinstance(node, ast.Assign) and all(
        isinstance(target, (ast.Attribute, ast.Subscript)) for target in node.targets
    ):
        return comparable_dump(list(node.targets))
    call = node.value if isinstance(node, ast.Expr) else None
    if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr[:3] == "set":
        return comparable_dump([call.func, *call.args[:-1]]) + repr([keyword.arg for keyword in call.keywords])
    if isinstance(call, ast.Call) and getattr(call.func, "attr", "") == "update" and not call.args:
        return comparable_dump([call.func]) + repr(sorted(str(keyword.arg) for keyword in call.keywords))
    is_setattr = isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "setattr"
    return comparable_dump(list(call.args[:2])) if is_setattr and isinstance(call, ast.Call) else ""


def is_set_again(old: Any, new: Any) -> bool:
    """Return whether two statements call the same setter and bind its result to the same names, if they bind any."""
    if type(old) is not type(new) or not isinstance(old, (ast.Assign, ast.Expr)):
        return False
    target = setter_target(ast.Expr(old.value))
    return bool(target) and target == setter_target(ast.Expr(new.value)) and assigned_names(old) == assigned_names(new)


def has_registration_id(node: Any) -> bool:
    """Return whether a definition is registered under an id, in which case a library refuses another one with that id.

    Source: `dispatch_uid` of Django's signals.
    """
    calls = [decorator for decorator in node.decorator_list if isinstance(decorator, ast.Call)]
    return any(keyword.arg == "dispatch_uid" for call in calls for keyword in call.keywords)


def dotted_name(statement: Statement) -> str:
    """Return the dotted name of a statement."""
    return statement.owner + (", ".join(assigned_names(statement.node)) or statement.name[len(statement.owner) :])
