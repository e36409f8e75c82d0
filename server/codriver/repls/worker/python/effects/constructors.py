"""Follow the creation of an object into the constructors, default factories and hooks of its class."""

from __future__ import annotations

import ast
import types

from ...basics.definition_access import order_of, space_of
from ..class_renewal import is_plain_class
from ..stored_attributes import attribute_dict
from .abstract_values import NO_ROOTS, Value, roots_of
from .pure_calls import is_pure_callable
from .static_attributes import defaults_of, slot_value, unbound_attribute

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from .analyzed_call import AnalyzedCall
    from .effects import Effects
    from .function_runs import FunctionRuns
    from .workspace_code import WorkspaceCode

CONSTRUCTING_METHODS = (
    "__new__", "__attrs_pre_init__", "__init__", "__post_init__", "__attrs_post_init__", "model_post_init",
)  # fmt: skip
"""Methods that create an object or complete it. Source: the data model, dataclasses, msgspec, attrs and pydantic."""


class Constructors:
    """Visits the methods that create and complete objects."""

    def __init__(self, found: Effects, workspace: WorkspaceCode, runs: FunctionRuns) -> None:
        self.found, self.workspace, self.runs = found, workspace, runs

    def create(self, kind: Any, call: AnalyzedCall) -> Value:
        """Visit the creation of an object, and return what is known about the object."""
        given, named, node = call.given, call.named, call.node
        made = Value(kind=kind)
        is_partly_known = None in named or any(
            isinstance(argument, ast.Starred) for argument in getattr(node, "args", ())
        )
        made.attributes = None if is_partly_known else _given_fields(kind, given, named)
        is_known, is_exception = True, BaseException in order_of(kind)  # creating one has no external effects
        init = unbound_attribute(kind, "__init__")
        # The constructor that a dataclass generates only calls `__post_init__` and default factories.
        is_dataclass = (
            type(kind) is type
            and "__dataclass_fields__" in space_of(kind)
            and unbound_attribute(kind, "__setattr__") is object.__setattr__
        )
        is_inherited = type(init) is types.FunctionType and init.__code__.co_filename[:1] != "<"
        if not self.workspace.has_function(init) and (is_inherited or not is_plain_class(kind)) and not is_dataclass:
            self.found.guess_code_of_classes(order_of(kind))
        for validator in _validators_of(kind):
            if self.workspace.has_function(validator):
                self.found.reads.add((str(validator.__module__), f"{validator.__qualname__}()"))
        for factory in _default_factories_of(kind):
            if self.workspace.has_function(factory):
                self.runs.run(factory, [], node)
        for name in CONSTRUCTING_METHODS:
            found = unbound_attribute(kind, name)
            found = found.__func__ if type(found) is staticmethod else found
            if type(found) is not types.FunctionType:
                continue
            if self.workspace.has_function(found):
                first = Value(roots_of(kind), kind) if name == "__new__" else made
                result = self.runs.run(found, [first, *(given if name in ("__new__", "__init__") else [])], node, named)
                made.roots |= result.roots if name == "__new__" else NO_ROOTS
            elif found.__code__.co_filename[:1] != "<" and not is_pure_callable(found) and not is_exception:
                is_known = False
        if not is_known or not (is_exception or self.workspace.has_class(kind)):
            self.found.record_effect(node)
        caller = unbound_attribute(type(kind), "__call__")
        if self.workspace.has_function(caller):
            self.runs.run(caller, [Value(live=kind), *given], node, named)
        return made

    def complete_copy(self, original: Value, node: ast.AST) -> None:
        """Visit the methods that complete a copy of an object.

        The attributes of the copy are the attributes of the original, which the methods may change.
        """
        copied = Value(original.roots, kind=original.kind)
        for name in CONSTRUCTING_METHODS[1:]:
            function = unbound_attribute(copied.kind, name) if copied.kind is not None else None
            if self.workspace.has_function(function):
                self.runs.run(function, [copied], node)


def _default_factories_of(kind: Any) -> list[Any]:
    """Return the functions that create default values for a dataclass, an attrs class or a pydantic model."""
    found = []
    fields = unbound_attribute(kind, "__dataclass_fields__")
    if type(fields) is dict:
        found += [
            attribute_dict(field).get("default_factory") or slot_value(field, "default_factory")
            for field in fields.values()
        ]
    attributes = unbound_attribute(kind, "__attrs_attrs__")
    if isinstance(attributes, tuple):
        for attribute in attributes:
            default = slot_value(attribute, "default")
            found += [slot_value(default, "factory"), slot_value(attribute, "converter")]
    fields = unbound_attribute(kind, "__pydantic_fields__")
    if type(fields) is dict:
        found += [slot_value(field, "default_factory") for field in fields.values()]
    return found


def _validators_of(kind: Any) -> Iterator[Any]:
    """Yield the functions in the annotations of a pydantic model's fields, such as those in `AfterValidator`."""
    fields = unbound_attribute(kind, "__pydantic_fields__")
    for field in fields.values() if type(fields) is dict else ():
        for item in slot_value(field, "metadata") or ():
            yield attribute_dict(item).get("func") or slot_value(item, "func")


def _given_fields(kind: Any, given: list[Value], named: dict[str | None, Value]) -> dict[str, Value]:
    """Return the fields set by the arguments of a dataclass's generated constructor, by name."""
    fields = unbound_attribute(kind, "__dataclass_fields__")
    init = unbound_attribute(kind, "__init__")
    if type(fields) is not dict or type(init) is not types.FunctionType or init.__code__.co_filename[:1] != "<":
        return {}
    code = init.__code__
    plain = code.co_varnames[1 : code.co_argcount]
    found = {**dict(zip(plain, given)), **{name: value for name, value in named.items() if name is not None}}
    values = {name: value for name, value in found.items() if name in fields}
    for name, live in defaults_of(init).items():
        if name in fields and name not in found and type(live).__name__ != "_HAS_DEFAULT_FACTORY_CLASS":
            values[name] = Value(roots_of(live), live)
    return values
