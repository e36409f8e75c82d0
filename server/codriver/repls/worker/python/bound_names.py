"""Find names that were rebound after a module was loaded.

A name counts as rebound if a statement in the loaded source binds it and its value has changed since. Rebinding by the
project's own functions is not counted. A new name counts only if it refers to an evaluated function, because libraries
add many names to modules at run time.
"""

from __future__ import annotations

import ast
import re
import types
import weakref

from ..basics.held_definitions import (
    ABSENT,
    defining_module_name,
    is_class,
    qualified_name,
    qualname_of_class,
    space_of,
    unwrap_descriptor,
    unwrap_functions,
)
from .statements import FUNCTION_NODES, assigned_names, names_bound_by

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

PLAIN_TYPES = (int, float, complex, bool, str, bytes, type(None))
EVALUATED_FILE_PATTERN = re.compile(
    r"<(eval|stdin|console|ipython|repl|python-input)\b|.*[\\/](ipykernel|xpython)_\d+[\\/]"
)
"""Matches the pseudo file names of evaluated code. Source: the worker; `code`; IPython; ipykernel; xeus."""
DEFINITION, OTHER_BINDING = "definition", "other"
BLOCK_FIELDS = ("body", "orelse", "finalbody", "handlers", "cases")
"""Syntax node fields that contain statements."""


class RememberedValue:
    """A remembered value that is not kept alive.

    A plain value is stored itself. For any other value, a weak reference or the id is stored.
    """

    __slots__ = ("_is_weak", "_reference")

    def __init__(self, value: object) -> None:
        self._is_weak = False
        self._reference: Any = value
        if not is_plain_value(value):
            try:
                self._reference, self._is_weak = weakref.ref(value), True
            except TypeError:
                self._reference = _Identity(value)

    def is_same_as(self, value: object) -> bool:
        """Return whether `value` is the remembered object or an equal plain value."""
        reference = self._reference
        if self._is_weak:
            return reference() is value
        if type(reference) is _Identity:
            return bool(reference.number == id(value))
        return reference is value or (
            type(reference) is type(value) and is_plain_value(value) and repr(reference) == repr(value)
        )

    def live_object(self) -> object:
        """Return the remembered object, or None if it was a plain value or no longer exists."""
        return self._reference() if self._is_weak else None

    @property
    def was_none(self) -> bool:
        """Return whether the value was None, which is often a placeholder for a value set later."""
        return self._reference is None


class _Identity:
    """The id of an object that does not support weak references."""

    __slots__ = ("number",)

    def __init__(self, value: object) -> None:
        self.number = id(value)


class Names:
    """A snapshot of the names in a module and in its classes. Names in classes are dotted."""

    def __init__(self, space: dict[str, Any]) -> None:
        self._raw: dict[str, Any] | None = dict(space)
        module = space.get("__name__")
        # An inlined `_belongs_to`, because few of the thousands of names are classes in this module.
        self._classes = [
            (name, dict(space_of(value)))
            for name, value in self._raw.items()
            if issubclass(type(value), type)
            and space_of(value).get("__module__") == module
            and qualname_of_class(value) == name
            and not _is_dunder(name)
        ]
        for owner, inner in self._classes:  # this list grows by nested classes
            self._classes += [
                (f"{owner}.{name}", dict(space_of(value)))
                for name, value in inner.items()
                if issubclass(type(value), type)
                and space_of(value).get("__module__") == module
                and qualname_of_class(value) == f"{owner}.{name}"
                and not _is_dunder(name)
            ]
        self._remembered: dict[str, RememberedValue] = {}

    def release(self) -> dict[str, RememberedValue]:
        """Return the remembered values, and drop the strong references to the original objects."""
        if self._raw is not None:
            raw, self._raw = self._raw, None
            # An evaluated value was not created by a load, even if the evaluation ran within one.
            self._remembered = {
                name: RememberedValue(value)
                for name, value in raw.items()
                if not _is_dunder(name) and not is_evaluated(value)
            }
            for owner, space in self._classes:
                for name, value in space.items():
                    if (not _is_dunder(name) or _is_method(value)) and not is_evaluated(value):
                        self._remembered[owner + "." + name] = RememberedValue(value)
            self._classes = []
        return self._remembered

    def remember(self, name: str, value: object = ABSENT) -> None:
        """Record that a load bound a dotted name to `value`, or removed the name if there is no value."""
        remembered = self.release()
        if _is_dunder(name):
            return
        if value is ABSENT:
            remembered.pop(name, None)
        else:
            remembered[name] = RememberedValue(value)
        for inner in [one for one in remembered if one.startswith(name + ".")]:
            del remembered[inner]
        if is_class(value):
            for attribute, remaining in list(space_of(value).items()):
                if not _is_dunder(attribute) or _is_method(remaining):
                    remembered[name + "." + attribute] = RememberedValue(remaining)

    def restore(self, name: str, remembered: RememberedValue | None) -> None:
        """Restore the value remembered earlier for a name, or forget the name if `remembered` is None."""
        if remembered is None:
            self.release().pop(name, None)
        else:
            self.release()[name] = remembered


def changed_names(space: dict[str, Any], left: Names) -> dict[str, tuple[object, RememberedValue | None]]:
    """Return the names that have changed since a load, each with its current and its remembered value.

    The current value is ABSENT if the name was removed, and the remembered value is None if the name is new.
    """
    remembered, found = left.release(), {}
    live = {name: value for name, value in list(space.items()) if not _is_dunder(name)}
    waiting = list(live.items())
    for name, value in waiting:  # this list grows by nested classes
        known = remembered.get(name)
        if "." not in name and (known is None or not known.is_same_as(value)):
            found[name] = value, known
        if _belongs_to(space, name, value) and known is not None and known.is_same_as(value):
            for attribute, remaining in list(space_of(value).items()):
                if not _is_dunder(attribute) or _is_method(remaining):
                    live[name + "." + attribute] = remaining
                    before = remembered.get(name + "." + attribute)
                    if before is None or not before.is_same_as(remaining):
                        found[name + "." + attribute] = remaining, before
                    waiting.append((name + "." + attribute, remaining))
    for name, known in remembered.items():
        if name not in live and name.rpartition(".")[0] not in found:
            found[name] = ABSENT, known
    return found


class BoundNames:
    """The names bound by the statements in a source, and those that its functions rebind when called."""

    def __init__(self, tree: ast.Module) -> None:
        self.kinds: dict[str, str] = {}
        self.rebound: set[str] = set()
        self._read(tree.body, "")
        has_named = False
        for node in ast.walk(tree):
            has_named = has_named or isinstance(node, ast.NamedExpr)
            if isinstance(node, ast.Global):
                self.rebound.update(node.names)
            elif isinstance(node, FUNCTION_NODES):
                self._read_stores(node)
        for statement in tree.body if has_named else ():
            for name in names_bound_by(statement):
                self.kinds.setdefault(name, OTHER_BINDING)

    def _read(self, body: Iterable[Any], scope: str) -> None:
        """Record the names that statements bind. `scope` is the dotted prefix for names in a class."""
        for node in body:
            is_definition = isinstance(node, (*FUNCTION_NODES, ast.ClassDef))
            for name in assigned_names(node) if not isinstance(node, ast.excepthandler) else ():
                attribute = (
                    name.partition(".")[0] if isinstance(node, ast.Import) and not _has_alias(node, name) else name
                )
                self.kinds[scope + attribute] = DEFINITION if is_definition else OTHER_BINDING
            for target in _assignment_targets(node):
                self.kinds.update(
                    (scope + one.id, OTHER_BINDING) for one in ast.walk(target) if isinstance(one, ast.Name)
                )
            if isinstance(node, ast.ClassDef):
                self._read(node.body, scope + node.name + ".")
            elif not is_definition:
                for field in BLOCK_FIELDS:
                    self._read(getattr(node, field, None) or (), scope)

    def _read_stores(self, function: ast.AST) -> None:
        """Record the names that a function rebinds when it is called."""
        for node in ast.walk(function):
            if isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Load):
                self.rebound.add(node.attr)
            elif isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("setattr", "delattr"):
                named = node.args[1] if len(node.args) > 1 else None
                if isinstance(named, ast.Constant) and isinstance(named.value, str):
                    self.rebound.add(named.value)


def assignment_pattern(name: str) -> re.Pattern[str]:
    """Return a pattern that matches code that may assign to a global or an attribute with this name."""
    attribute = re.escape(name)
    assigned = rf"\.{attribute}\s*(?:[-+*/|&^%@<>]{{0,2}}=)(?!=)"
    return re.compile(
        rf"{assigned}|attr\([^\n]*[\"']{attribute}[\"']|\bdel\b[^\n]*\.{attribute}\b|\bglobal\b[^\n]*\b{attribute}\b"
    )


def code_file(value: object) -> str:
    """Return the file name of a function, of the function in a wrapper, or of the first function in a class.

    Returns "" if unknown.
    """
    if type(value) is types.FunctionType:
        return value.__code__.co_filename
    found = (
        [unwrap_descriptor(one) for one in list(space_of(value).values())]
        if is_class(value)
        else [unwrap_descriptor(value)]
    )
    for one in found:
        for function in unwrap_functions(one):
            return function.__code__.co_filename
    return ""


def is_evaluated(value: object) -> bool:
    """Return whether a function or class was created by evaluated code."""
    return EVALUATED_FILE_PATTERN.match(code_file(value)) is not None


def is_plain_value(value: object) -> bool:
    """Return whether a value is a number, string, bytes, boolean, None, or a tuple of such values."""
    return type(value) in PLAIN_TYPES or (type(value) is tuple and all(map(is_plain_value, value)))


def _assignment_targets(node: Any) -> list[ast.AST]:
    if isinstance(node, (ast.For, ast.AsyncFor)):
        return [node.target]
    items = node.items if isinstance(node, (ast.With, ast.AsyncWith)) else ()
    return [item.optional_vars for item in items if item.optional_vars is not None]


def _belongs_to(space: dict[str, Any], name: str, value: object) -> bool:
    """Return whether a value is a class defined under this name in the module whose dictionary is `space`."""
    return is_class(value) and (defining_module_name(value), qualified_name(value)) == (space.get("__name__"), name)


def _is_dunder(name: object) -> bool:
    return not isinstance(name, str) or name[:2] == name[-2:] == "__"


def _is_method(value: object) -> bool:
    return type(value) in (types.FunctionType, staticmethod, classmethod, property)


def _has_alias(node: ast.Import, name: str) -> bool:
    return any(alias.asname == name for alias in node.names)
