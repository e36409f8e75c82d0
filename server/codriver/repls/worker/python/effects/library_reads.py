"""Determine what libraries may read from workspace functions, classes and objects that are passed to them."""

from __future__ import annotations

import ast
import sys
import types

from ...basics.definition_access import is_class, order_of, space_of
from ..stored_attributes import attribute_dict, is_module, module_dict
from .effects import class_read, function_read
from .pure_calls import CONFIGURATION_READING_METHODS, SIGNATURE_READING_LIBRARIES
from .static_attributes import UNKNOWN_OBJECT, function_in, library_of, slot_value, unbound_attribute

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .abstract_values import Value
    from .effects import Effects
    from .workspace_code import WorkspaceCode

DEFERRED_ATTRIBUTE = "deferred_functions"
"""The attribute with the functions that a Flask blueprint calls when it is registered. Source: `Blueprint.record`."""


def module_name_of(value: object) -> str | None:
    """Return the name of a module, or None if the value is not a module."""
    return str(module_dict(value).get("__name__")) if is_module(value) else None


class LibraryReads:
    """Records what libraries may read or call in the workspace's objects, without following them."""

    def __init__(self, found: Effects, workspace: WorkspaceCode) -> None:
        self.found, self.workspace = found, workspace

    def read_arguments(self, function: Value, expression: ast.AST, every: list[Value]) -> None:
        """Record what a library reads from functions and classes that are passed to it."""
        owner = function.bound
        live = function.live if function.live is not UNKNOWN_OBJECT else None if owner is None else owner.kind
        library = library_of(live)
        method = expression.attr if isinstance(expression, ast.Attribute) else ""
        for argument in every if library in SIGNATURE_READING_LIBRARIES else ():
            self.read_signature(argument.live)
        for argument in every if library == "flask" or method.startswith("register") else ():
            deferred = attribute_dict(argument.live).get(DEFERRED_ATTRIBUTE) if argument.live is not None else None
            for recorded in deferred if type(deferred) is list else ():
                called = attribute_dict(recorded).get("__wrapped__", recorded)  # `record_once` wraps it
                if self.workspace.has_function(called):
                    self.found.reads.add(function_read(called, "()"))
        for argument in every if method in CONFIGURATION_READING_METHODS else ():
            if is_class(argument.live):
                self.found.read_class(argument.live)
            name = argument.live if type(argument.live) is str else module_name_of(argument.live)
            if name is not None and name in sys.modules:
                self.found.reads.add((name, "**"))
        if owner is not None and is_class(owner.live) and self.workspace.has_class(owner.live):
            found = function_in(unbound_attribute(owner.live, method))
            if type(found) is types.FunctionType and not self.workspace.has_function(found):
                self.found.read_class(owner.live, "+")
                self.read_overridden(owner.live)

    def read_signature(self, live: Any) -> None:
        """Record that the signature of a function or of a class's constructor is read."""
        if type(live) is types.FunctionType and self.workspace.has_function(live):
            self.found.reads.add(function_read(live, "(...)"))
        elif is_class(live):
            for base in order_of(live):
                self.found.reads.add(class_read(base, "__init__(...)"))
        elif type(live).__module__ == "typing" and hasattr(live, "__metadata__"):
            self.read_signature(live.__origin__)  # `Annotated[C, Depends()]` depends on the class
        elif live is not UNKNOWN_OBJECT:
            called = unbound_attribute(type(live), "__call__")
            if self.workspace.has_function(called):
                self.read_signature(called)

    def read_overridden(self, kind: Any) -> None:
        """Record that a library reads the class attributes that override the library's own, except for methods."""
        bases = order_of(kind)[:-1]
        of_library = [base for base in bases if not self.workspace.has_class(base)]
        names = {name for base in of_library for name in space_of(base) if name[:2] != "__"}
        for base in bases:
            if base not in of_library:
                found = [name for name, value in list(space_of(base).items()) if not callable(value) and name in names]
                self.found.reads.update(class_read(base, name) for name in found)

    def read_callbacks(self, owner: Value) -> None:
        """Record the methods of a workspace class that an inherited library method may call."""
        for kind in order_of(owner.kind)[:-1] if is_class(owner.kind) else ():
            for name, value in list(space_of(kind).items()):
                if self.workspace.has_function(function_in(value)):
                    self.found.reads.add(class_read(kind, f"{name}()"))
                    self.found.reads.add(class_read(kind, "+"))

    def guess_subclasses(self, kind: Any) -> None:
        """Record that an object of this class may be an instance of any subclass."""
        waiting = type.__subclasses__(kind) if is_class(kind) and self.workspace.has_class(kind) else []
        for subclass in waiting:
            self.found.guesses.update(class_read(subclass, word) for word in ("=", "%"))
            waiting += [inner for inner in type.__subclasses__(subclass) if inner not in waiting]

    def guess_code_of_models(self, kind: Any, seen: frozenset[int] = frozenset()) -> None:
        """Record that a library may call any function in a model and in the models that its fields contain."""
        if id(kind) in seen:
            return
        for base in order_of(kind):
            self.found.guesses.add(class_read(base, "%"))
        fields = unbound_attribute(kind, "__pydantic_fields__")
        for field in fields.values() if type(fields) is dict else ():
            waiting = [slot_value(field, "annotation")]
            while waiting:
                annotation = waiting.pop()
                waiting += (
                    getattr(annotation, "__args__", ()) if type(annotation).__module__ in ("typing", "types") else ()
                )
                if is_class(annotation) and library_of(annotation) == "pydantic":
                    self.guess_code_of_models(annotation, seen | {id(kind)})
