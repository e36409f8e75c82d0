"""Determine what is read and called when attributes are read or set, and which values result."""

from __future__ import annotations

import abc
import ast
import contextlib
import functools
import sys
import types

from ...basics.definition_access import defining_module_name, is_class, order_of, space_of
from ..enum_members import is_enum
from ..stored_attributes import attribute_dict, module_dict
from .abstract_values import UNKNOWN_ROOTS, Value, either, roots_of
from .effects import class_read, function_read
from .pure_calls import is_method_of_immutable
from .static_attributes import UNKNOWN_OBJECT, function_in, slot_value, unbound_attribute

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .effects import Effects
    from .function_runs import FunctionRuns
    from .workspace_code import WorkspaceCode

ABC_REGISTER: Any = vars(abc.ABCMeta)["register"]
"""The method that registers a virtual subclass of an abstract class. It does not read any attributes of that class."""


class AttributeAccess:
    """Gets and sets attributes of values. Follows properties and descriptors of the workspace."""

    def __init__(self, found: Effects, workspace: WorkspaceCode, runs: FunctionRuns) -> None:
        self.found, self.workspace, self.runs = found, workspace, runs

    def get(self, owner: Value, node: ast.Attribute) -> Value:  # noqa: C901, PLR0912  # one branch per kind
        """Return the value of an attribute, and record that it is read."""
        name, live = node.attr, owner.live
        if owner.alternatives:
            return either([self.get(alternative, node) for alternative in owner.alternatives])
        if live is not UNKNOWN_OBJECT and issubclass(type(live), types.ModuleType):
            home = str(module_dict(live).get("__name__"))
            self.found.reads.add((home, name))
            found = module_dict(live) if name == "__dict__" else module_dict(live).get(name, UNKNOWN_OBJECT)
            getter = module_dict(live).get("__getattr__") if found is UNKNOWN_OBJECT else None
            if self.workspace.has_function(getter):
                return self.runs.run(getter, [Value(live=name)], node)
            return Value(roots_of(found) if found is not UNKNOWN_OBJECT else UNKNOWN_ROOTS, found)
        if is_class(live):
            return self._get_of_class(live, owner, name)
        if type(live) is types.FunctionType:
            return self._get_of_function(live, owner, name)
        if owner.inner is not None:
            function, outer = owner.inner
            if name == "__doc__" and outer.names is None:
                self.found.reads.add((outer.home, f"{function.name}.__doc__"))
            return Value()
        attributes = attribute_dict(live).get(name, UNKNOWN_OBJECT) if live is not UNKNOWN_OBJECT else UNKNOWN_OBJECT
        found = unbound_attribute(owner.kind, name) if owner.kind is not None else UNKNOWN_OBJECT
        is_data_descriptor = self.workspace.has_function(unbound_attribute(type(found), "__set__"))
        if attributes is not UNKNOWN_OBJECT and not is_data_descriptor:
            if is_enum(type(live)):
                self.found.reads.add(class_read(type(live), f"{attribute_dict(live).get('_name_')}.{name}"))
            is_followed = self.workspace.has_function(attributes) or is_method_of_immutable(attributes)
            return Value(roots_of(attributes) | owner.roots, attributes, bound=None if is_followed else owner)
        field = self._field(owner, name, found)
        if field is not None:
            return field
        if (
            type(found) is property
            and type(found.fget) is types.FunctionType
            and self.workspace.has_function(found.fget)
        ):
            self.read(owner.kind, name)
            return self.runs.run(found.fget, [owner], node)
        if issubclass(type(found), (staticmethod, classmethod)):
            wrapped: Any = found
            return Value(live=wrapped.__func__, bound=owner if issubclass(type(found), classmethod) else None)
        if type(found) is types.FunctionType:
            definer = next((base for base in order_of(owner.kind) if name in space_of(base)), owner.kind)
            self.found.guesses.add(class_read(definer, name))
            return Value(live=found, bound=owner)
        if type(found) is functools.singledispatchmethod:
            self.read(owner.kind, name)
            return Value(live=found.dispatcher, bound=owner)
        if type(found) is functools.partialmethod:
            self.read(owner.kind, name)
            return Value(live=found, bound=owner)
        if found is not UNKNOWN_OBJECT and is_class(owner.kind):
            self.read(owner.kind, name)
            getter = unbound_attribute(type(found), "__get__")
            if self.workspace.has_function(getter):
                return self.runs.run(getter, [Value(roots_of(found), found), owner, Value(live=owner.kind)], node)
            is_shadowed = owner.live is UNKNOWN_OBJECT and (owner.attributes is None or name in owner.attributes)
            if is_class(found) and not is_shadowed:  # such as `kind = int`, which is called as `self.kind()`
                return Value(roots_of(found) | owner.roots, found)
        if found is UNKNOWN_OBJECT and attributes is UNKNOWN_OBJECT and owner.kind is not None:
            getter = unbound_attribute(owner.kind, "__getattr__")
            if self.workspace.has_function(getter) and self._lacks(owner, name):
                return self.runs.run(getter, [owner, Value(live=name)], node)
        is_missing = found is UNKNOWN_OBJECT and owner.live is not UNKNOWN_OBJECT
        if owner.kind is None or is_enum(owner.kind) or (is_missing and not self.workspace.has_class(owner.kind)):
            self.found.guesses.add(("*", f".{name}"))
        return Value(owner.roots, bound=owner)

    def _get_of_function(self, live: types.FunctionType, owner: Value, name: str) -> Value:
        self.found.reads.add(function_read(live, f".{name}"))
        found = attribute_dict(live).get(name, UNKNOWN_OBJECT)
        if found is UNKNOWN_OBJECT and not hasattr(types.FunctionType, name):
            self.found.guesses.add(("*", f".{name}"))  # the value may be another object than this function
        return Value(owner.roots, found, bound=None if self.workspace.has_function(found) else owner)

    def _lacks(self, owner: Value, name: str) -> bool:
        """Return whether an object, which may be new, has no attribute of its own with this name."""
        if owner.live is not UNKNOWN_OBJECT:
            return name not in attribute_dict(owner.live)
        is_tracked = owner.attributes is not None and name not in owner.attributes
        return is_tracked and not self.workspace.has_function(function_in(unbound_attribute(owner.kind, "__new__")))

    def get_of_super(self, owner: Value, name: str) -> Value:
        """Return an attribute that `super()` finds in the bases of the current method's class."""
        kinds = order_of(owner.kind)
        for kind in kinds[kinds.index(owner.after) + 1 :]:
            found = function_in(space_of(kind).get(name))
            if self.workspace.has_function(found):
                return Value(live=found, bound=Value(owner.roots, owner.live, owner.kind))
            if found is not None:
                break
        return Value(owner.roots, bound=Value(owner.roots, kind=object))

    def _field(self, owner: Value, name: str, found: Any) -> Value | None:
        """Return the value of an object's attribute, or None if its type is unknown.

        `found` is the attribute in its class. The annotation of a dataclass field is trusted if the annotated class has
        no subclass.
        """
        if type(found) is types.MemberDescriptorType and owner.live is not UNKNOWN_OBJECT:
            with contextlib.suppress(AttributeError):  # the slot is empty
                live = found.__get__(owner.live)
                return Value(
                    roots_of(live) | owner.roots, live, bound=None if self.workspace.has_function(live) else owner
                )
        if owner.live is not UNKNOWN_OBJECT:
            return None
        known = (owner.attributes or {}).get(name)
        if known is not None:
            bound = known.bound or (
                None if known.inner is not None or self.workspace.has_function(known.live) else owner
            )
            made = Value(known.roots | owner.roots, known.live, known.kind, known.inner, bound, known.items)
            made.options, made.attributes = known.options, known.attributes
            return made
        fields = unbound_attribute(owner.kind, "__dataclass_fields__")
        kind: Any = slot_value(fields[name], "type") if type(fields) is dict and name in fields else None
        if type(kind) is str and kind.isidentifier():
            module = sys.modules.get(str(defining_module_name(owner.kind)))
            kind = module_dict(module).get(kind) if module is not None else None
        if not is_class(kind) or not self.workspace.has_class(kind) or type.__subclasses__(kind):
            return None
        return Value(owner.roots, kind=kind, bound=owner)

    def _get_of_class(self, live: Any, owner: Value, name: str) -> Value:
        found: Any = unbound_attribute(live, name)
        self.read(live, name)
        for base in order_of(live)[1:] if live is self.found.created else ():
            if name in space_of(base):  # the hook that sets the attribute has read the attribute of a base
                self.found.reads.add(class_read(base, name))
        if found is UNKNOWN_OBJECT and name == "__subclasses__":
            self.found.reads.add(class_read(live, "__subclasses__()"))
            return Value(owner.roots, bound=owner)
        of_meta = unbound_attribute(type(live), name) if found is UNKNOWN_OBJECT else UNKNOWN_OBJECT
        if of_meta is not UNKNOWN_OBJECT and name not in space_of(type) and of_meta is not ABC_REGISTER:
            self.found.read_class(live)
            self.read(type(live), name)
            if type(of_meta) is property and self.workspace.has_function(of_meta.fget):
                return self.runs.run(of_meta.fget, [Value(roots_of(live), live)], ast.Pass())
            if self.workspace.has_function(of_meta):
                return Value(live=of_meta, bound=Value(roots_of(live), live))
        if issubclass(type(found), (staticmethod, classmethod)):  # such as Django's `classonlymethod`
            bound = Value(roots_of(live), live) if issubclass(type(found), classmethod) else None
            return Value(live=found.__func__, bound=bound)
        if name == "__dict__":
            return Value(owner.roots, dict(space_of(live)))
        if type(found) is types.ClassMethodDescriptorType:  # such as `dict.fromkeys`
            return Value(owner.roots, bound=owner)
        return Value(roots_of(found) | owner.roots if found is not UNKNOWN_OBJECT else owner.roots, found)

    def read(self, kind: Any, name: str) -> None:
        """Record that an attribute is read, both from `kind` and from the class that defines the attribute.

        If it is a descriptor from a library, the library may call functions that the descriptor contains.
        """
        owner = next((base for base in order_of(kind) if name in space_of(base)), kind)
        for each in (owner, kind):
            self.found.reads.add(class_read(each, name))
        found = space_of(owner).get(name, UNKNOWN_OBJECT)
        getter = unbound_attribute(type(found), "__get__") if not is_class(found) else UNKNOWN_OBJECT
        if type(getter) is types.FunctionType and not self.workspace.has_function(getter):
            self._read_code_in(found, kind)

    def _read_code_in(self, found: Any, kind: Any) -> None:
        """Record what the functions in a descriptor read when they are called with the class `kind`."""
        for function in attribute_dict(found).values():
            if self.workspace.has_function(function):
                self.runs.read_call(function, [Value(roots_of(kind), kind)])

    def is_stored_in_instance(self, live: Any, name: str) -> bool:
        """Return whether an attribute of a workspace object is stored in the instance itself."""
        if live is UNKNOWN_OBJECT or is_class(live) or not self.workspace.has_class(type(live)):
            return False
        of_class = unbound_attribute(type(live), name)
        is_data_descriptor = (
            of_class is not UNKNOWN_OBJECT and unbound_attribute(type(of_class), "__set__") is not UNKNOWN_OBJECT
        )
        return name in attribute_dict(live) and not is_data_descriptor

    def run_setters(self, owner: Value, name: str | None) -> None:
        """Visit a descriptor's `__set__` method that an assignment calls.

        If `name` is None, visit the methods of all descriptors in the class.
        """
        for kind in order_of(owner.kind) if is_class(owner.kind) else ():
            for attribute, found in list(space_of(kind).items()):
                setter = unbound_attribute(type(found), "__set__") if name in (None, attribute) else UNKNOWN_OBJECT
                if self.workspace.has_function(setter):
                    self.runs.run(setter, [Value(roots_of(found), found), owner, Value()], ast.Pass())
