"""Determine what calls to functions and methods outside the workspace read, call and change."""

from __future__ import annotations

import ast
import builtins
import contextlib
import functools
import importlib.util
import operator
import sys
import types

from ...basics.definition_access import defining_module_name, is_class, order_of, qualified_name, space_of
from ..stored_attributes import module_dict
from .abstract_values import MAX_NAMED, NO_ROOTS, Value, either, roots_of
from .analyzed_call import AnalyzedCall
from .constructors import CONSTRUCTING_METHODS
from .effects import function_read
from .iterated_values import (
    CALLING_BUILTINS,
    MAX_ITEMS,
    arguments_passed_to,
    dict_view_values,
    element_values,
    items_returned_by,
    iterated_values,
    plain_dict,
)
from .pure_calls import (
    CALLED_ARGUMENTS,
    CLASS_READING_FUNCTIONS,
    CONFIGURATION_READING_METHODS,
    CREATING_ARGUMENTS,
    IMPURE_NAMES,
    MUTATING_METHODS,
    READING_METHODS,
    SIGNATURE_READING_FUNCTIONS,
    has_reading_get,
    is_collection,
    is_column_expression,
    is_filling_method,
    is_immutable_kind,
    is_pure_callable,
    is_storing_callable,
    is_wrapping_decorator,
)
from .special_methods import METHODS_CALLED_BY, METHODS_CALLED_ON_ITEMS, PLAIN_TYPES
from .static_attributes import UNKNOWN_OBJECT, function_in, library_of, unbound_attribute

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

    from .attribute_access import AttributeAccess
    from .constructors import Constructors
    from .effects import Effects
    from .function_runs import FunctionRuns
    from .library_reads import LibraryReads
    from .scopes import Scope
    from .special_methods import SpecialMethods
    from .workspace_code import WorkspaceCode

CALLING_METHODS = frozenset({"sort", "map", "sub", "subn", "run", "starmap", "submit"})
"""Methods that call a function they receive. Source: `list`, `re.Pattern`, `contextvars.Context` and executors."""
COPYING_FUNCTIONS, COPYING_LIBRARIES = frozenset({"replace", "evolve"}), frozenset({"attr", "copy", "dataclasses"})
"""Functions that create an object with the attributes of another, and their libraries."""
EFFECTFUL_METHODS = frozenset({
    "write_text", "write_bytes", "mkdir", "unlink", "touch", "rename", "rmdir", "open", "now", "today",
})  # fmt: skip
"""Methods of immutable objects, such as paths and dates, that access files or read the clock."""


class LibraryCalls:
    """Visits calls to functions and methods outside the workspace. `construct` visits the creation of an object."""

    def __init__(
        self,
        found: Effects,
        workspace: WorkspaceCode,
        runs: FunctionRuns,
        attributes: AttributeAccess,
        special: SpecialMethods,
        library: LibraryReads,
        constructors: Constructors,
        construct: Callable[[Any, AnalyzedCall], Value],
    ) -> None:
        self.found, self.workspace, self.runs = found, workspace, runs
        self.attributes, self.special, self.library = attributes, special, library
        self.constructors, self.construct = constructors, construct

    def call_pure(self, live: Any, call: AnalyzedCall, *, is_decorator: bool = False) -> Value:
        """Visit a call to a function that has no effects itself, and return the value of its result.

        The function may call functions passed as arguments.
        """
        name, every = getattr(live, "__name__", ""), call.every
        only_stores = is_decorator or _only_stores(live)
        made = self._call_namespace_function(live, call)
        if made is not None:
            return made
        if live is functools.reduce and len(every) > 1 and self._is_followed(every[0]):
            return self._reduce(*every, node=call.node)
        self._read_arguments(live, every, only_stores=only_stores)
        self._call_arguments(name, call, only_stores=only_stores)
        self.special.record_function(name, every)
        if name in COPYING_FUNCTIONS and every and str(live.__module__).partition(".")[0] in COPYING_LIBRARIES:
            self.constructors.complete_copy(every[0], call.node)
        if live is builtins.super:
            return self._super(every, call.scope)
        if live is type and len(every) == 1 and is_class(every[0].kind):
            return Value(roots_of(every[0].kind), every[0].kind)
        if name == "next" and every:
            self.found.record_addition(every[0].roots)
        if name in ("getattr", "hasattr") and len(every) > 1 and type(every[1].live) is str:
            attribute = ast.copy_location(ast.Attribute(ast.Name("", ast.Load()), every[1].live, ast.Load()), call.node)
            found = self.attributes.get(every[0], attribute)
            return Value() if name == "hasattr" else either([found, *every[2:]]) if len(every) > 2 else found
        if live is builtins.getattr and len(every) > 1:
            return self._method_with_prefix(every[0], _known_prefix(call.node))
        if live is builtins.vars and every:
            return Value(every[0].roots)
        if type(live) is types.FunctionType and is_wrapping_decorator(live) and not is_decorator:
            is_applied = isinstance(call.expression, ast.Call) and len(call.given) == 1
            return Value(call.given[0].roots) if is_applied else Value(live=live)  # such as `option(…)(function)`
        items = items_returned_by(self.found, name, every) if live is builtins.__dict__.get(name) else None
        return Value(kind=live if is_class(live) else None, items=items)

    def _call_namespace_function(self, live: Any, call: AnalyzedCall) -> Value | None:
        """Visit a call to a function such as `globals`, `vars`, `dir` or `import_module`.

        Returns None if the result is not a namespace or module.
        """
        scope, every = call.scope, call.every
        is_module = live is builtins.globals or scope.names is None
        if live in (builtins.globals, builtins.vars, builtins.locals) and not every and is_module:
            self.found.guesses.add((scope.home, "**"))
            return Value(frozenset((id(scope.space),)), scope.space)
        if live is builtins.dir and not every and scope.names is None:
            self.found.guesses.add((scope.home, "**"))
        if live in (builtins.dir, builtins.vars) and every and type(every[0].live) is types.ModuleType:
            space = module_dict(every[0].live)
            if live is builtins.dir and self.workspace.has_function(space.get("__dir__")):
                self.runs.run(space["__dir__"], [], call.node)
            else:
                self.found.guesses.add((str(space.get("__name__")), "**"))
        is_import = getattr(live, "__name__", "") in ("import_module", "__import__")
        if is_import and every and type(every[0].live) is str:
            return _imported_module(every[0].live, every[1].live if len(every) > 1 else None)
        return None

    def _read_arguments(self, live: Any, every: list[Value], *, only_stores: bool) -> None:
        """Record what a function reads from the classes and signatures of its arguments."""
        name = getattr(live, "__name__", "")
        if live is operator.attrgetter or live is operator.methodcaller:
            self._guess_attributes([argument.live for argument in every])
        self._read_getters(every)
        for argument in every:
            if is_class(argument.live) and name in CLASS_READING_FUNCTIONS:
                self.found.read_class(argument.live)
            kind = argument.live if is_class(argument.live) else argument.kind
            if is_class(kind) and kind not in PLAIN_TYPES and not only_stores and live not in vars(builtins).values():
                self.found.guess_code_of_classes(order_of(kind)[:-1])
            if name in SIGNATURE_READING_FUNCTIONS:
                self.library.read_signature(argument.live)

    def _read_getters(self, every: list[Value]) -> None:
        """Record what getters such as `operator.attrgetter` may read if they are passed to a function."""
        for argument in every:
            if type(argument.live) in (operator.attrgetter, operator.methodcaller):
                self._guess_attributes(argument.live.__reduce__()[1])

    def _guess_attributes(self, names: Iterable[object]) -> None:
        """Record that attributes with these dotted names may be read from any object."""
        parts = [part for name in names if type(name) is str for part in name.split(".")]
        self.found.guesses.update(("*", f".{part}") for part in parts)

    def _call_arguments(self, name: str, call: AnalyzedCall, *, only_stores: bool) -> None:
        """Visit the calls of functions and classes that are passed to a function as arguments."""
        every, node = call.every, call.node
        for word in CALLED_ARGUMENTS & call.named.keys():
            if self.workspace.has_function(call.named[word].live):
                self.runs.run(call.named[word].live, [Value()], node)
        for word in CREATING_ARGUMENTS & call.named.keys():
            if self.workspace.has_function(call.named[word].live):
                self.found.reads.add(function_read(call.named[word].live, "()"))
        for argument in call.named.values() if not only_stores else ():
            if is_class(argument.live) and self.workspace.has_class(argument.live):
                self._read_methods(Value(kind=argument.live))  # such as the encoder that `json.dumps` creates
        for argument in every:
            for item in arguments_passed_to(self.found, name, argument, every):
                self._call_argument(argument, item, call, only_stores=only_stores, creates=name in CALLING_BUILTINS)

    def _is_followed(self, function: Value) -> bool:
        """Return whether the body of a function is known."""
        return function.inner is not None or self.workspace.has_function(function.live)

    def _reduce(self, function: Value, items: Value, *initial: Value, node: ast.AST) -> Value:
        """Visit a call of `functools.reduce`, and return the value of its last call of the given function."""
        values = iterated_values(self.found, items)
        result = initial[0] if initial else values.pop(0)
        for value in values:
            if function.inner is not None:
                inner, outer = function.inner
                result = self.runs.run_node(inner, outer, [result, value], {}, node)
            else:
                result = self.runs.run(function.live, [result, value], node)
        return result

    def _call_argument(
        self, argument: Value, item: Value, call: AnalyzedCall, *, only_stores: bool, creates: bool
    ) -> None:
        """Visit the call of an argument with another value, if the argument can be called.

        `creates` says whether an argument that is a class is called.
        """
        node, given = call.node, [item, Value(), Value()]
        caller = UNKNOWN_OBJECT if only_stores else _call_method_of(argument)
        if argument.inner is not None and not only_stores:
            self.runs.run_node(argument.inner[0], argument.inner[1], given, {}, node)
        elif self.workspace.has_function(argument.live) and not only_stores:
            bound = [argument.bound] if argument.bound is not None else []
            self.runs.run(argument.live, [*bound, *given], node)
        elif self.workspace.has_function(caller):
            self.runs.run(caller, [argument, *given], node)
        elif creates and is_class(argument.live) and self.workspace.has_class(argument.live):
            self.construct(argument.live, AnalyzedCall(argument, node, [item], {}, node, call.scope))

    def _method_with_prefix(self, owner: Value, prefix: str) -> Value:
        """Return the value of an attribute of which only the beginning of the name is known, as a method."""
        kind = owner.live if is_class(owner.live) else owner.kind
        found: dict[str, Value] = {}
        for base in order_of(kind)[:-1] if is_class(kind) else ():
            for name, value in list(space_of(base).items()):
                if name.startswith(prefix) and name[:2] != "__" and self.workspace.has_function(value):
                    found.setdefault(name, Value(live=value, bound=None if is_class(owner.live) else owner))
        return either(list(found.values())) if 0 < len(found) <= MAX_NAMED else Value(owner.roots)

    def _super(self, every: list[Value], scope: Scope) -> Value:
        """Return what is known about the value returned by `super()`."""
        owner = (scope.names or {}).get("self")
        for base in order_of(owner.kind) if owner is not None and owner.kind is not None else ():
            self.found.guesses.add((str(defining_module_name(base)), str(qualified_name(base))))
        if not every and scope.names:
            home = scope.names.get("__class__")
            first = scope.names.get("self") or scope.names.get("cls")
            kind = (
                first.live if first is not None and is_class(first.live) else first.kind if first is not None else None
            )
            if home is not None and first is not None and is_class(home.live):
                known = kind if is_class(kind) and home.live in order_of(kind) else home.live
                made = Value(first.roots, first.live, known)
                made.after = home.live
                return made
        return Value(owner.roots if owner is not None else NO_ROOTS, kind=object)

    def call_method(  # noqa: C901, PLR0912  # one branch for each kind of object
        self, name: str, owner: Value, call: AnalyzedCall
    ) -> Value:
        """Visit a call to a method defined outside the workspace, and return the value of its result."""
        every, node = call.every, call.node
        self._read_getters(every)
        for argument in every if name in CALLING_METHODS else ():
            if self.workspace.has_function(argument.live):
                self.runs.run(argument.live, [Value(), Value()], node)
            if argument.inner is not None:
                self.runs.run_node(argument.inner[0], argument.inner[1], [Value(), Value()], {}, node)
        if not is_filling_method(name) and (owner.live is UNKNOWN_OBJECT or not is_class(owner.live)):
            self._read_overrides(owner, name)
        if is_class(owner.live):
            if name == "__subclasses__" and not every:
                return Value(owner.roots, items=tuple(element_values(type.__subclasses__(owner.live), owner.roots)))
            if is_pure_callable(owner.live) and name not in IMPURE_NAMES:
                return Value(kind=owner.live)
            if is_filling_method(name):
                self.found.record_addition(owner.roots)
            elif name not in READING_METHODS:
                self.found.record_effect(node)
            for argument in every:
                if is_class(argument.live) and self.workspace.has_class(argument.live):
                    self.found.read_class(argument.live, "+")  # a class may be created with its methods
            return Value(owner.roots)
        if owner.kind is not None and str(defining_module_name(owner.kind)).partition(".")[0] == "_pytest":
            return Value()  # pytest marks
        if name in ("sort", "format"):
            self.special.record(
                iterated_values(self.found, owner) if name == "sort" else every,
                *METHODS_CALLED_BY.get(name, METHODS_CALLED_ON_ITEMS["sort"]),
            )
        mapping = plain_dict(owner.live)
        if name in ("keys", "values", "items") and mapping is not None and not every:
            return Value(owner.roots, items=dict_view_values(mapping, owner.roots, name))
        if name == "get" and mapping and every:
            values = element_values(list(mapping.values())[:MAX_ITEMS], owner.roots)
            known = mapping.get(every[0].live, UNKNOWN_OBJECT) if type(every[0].live) is str else UNKNOWN_OBJECT
            return either([*values, *every[1:]] if known is UNKNOWN_OBJECT else element_values([known], owner.roots))
        if owner.kind is not None and is_immutable_kind(owner.kind):
            if name in EFFECTFUL_METHODS:
                self.found.record_effect(node)
            return Value()
        if is_column_expression(owner.kind):
            return Value()
        if name in READING_METHODS and (not is_filling_method(name) or has_reading_get(owner.kind)):
            if library_of(owner.kind) == "pydantic":
                self.library.guess_code_of_models(owner.kind)
            return Value(owner.roots)
        if owner.kind is not None and is_collection(owner.kind):
            if name in MUTATING_METHODS or name in CONFIGURATION_READING_METHODS:
                self.found.record_addition(owner.roots)
            return Value(owner.roots)
        if is_filling_method(name):
            for argument in every if name.startswith("register") else ():  # the object inspects the argument's methods
                kind = argument.kind
                if is_class(kind) and not is_class(argument.live) and self.workspace.has_class(kind):
                    self.found.read_class(kind)
            if name == "task":  # Celery calls `gen_task_name`
                self.library.read_callbacks(owner)
            self.found.record_addition(owner.roots)
            return Value(owner.roots)
        self.library.read_callbacks(owner)
        self.found.record_addition(owner.roots)
        self.found.record_effect(node)
        return Value(owner.roots)

    def _read_overrides(self, owner: Value, name: str) -> None:
        """Record the names that methods of a workspace class read if an inherited library method may call them."""
        inherited = unbound_attribute(owner.kind, name)
        if type(inherited) is types.FunctionType and self.workspace.has_class(owner.kind):
            self._read_methods(owner)

    def _read_methods(self, owner: Value) -> None:
        """Record the names that the methods of an object's class read, because a library may call the methods."""
        for kind in order_of(owner.kind)[:-1]:
            for function in map(function_in, list(space_of(kind).values())):
                if self.workspace.has_function(function) and function.__name__ not in CONSTRUCTING_METHODS:
                    self.runs.read_call(function, [owner])


def _known_prefix(node: Any) -> str:
    """Return the known beginning of the name that a call of `getattr` gets, as in `f"visit_{kind}"`."""
    name = node.args[1] if isinstance(node, ast.Call) and len(node.args) > 1 else None
    first = name.values[0] if isinstance(name, ast.JoinedStr) and name.values else getattr(name, "left", None)
    return first.value if isinstance(first, ast.Constant) and isinstance(first.value, str) else ""


def _call_method_of(value: Value) -> Any:
    """Return the method that is run when an object is called, or UNKNOWN_OBJECT for classes and unknown objects."""
    is_object = value.kind is not None and not is_class(value.live)
    return unbound_attribute(value.kind, "__call__") if is_object else UNKNOWN_OBJECT


def _imported_module(name: str, package: object) -> Value:
    """Return the module that `import_module` returns for a name, which may be relative to a package."""
    with contextlib.suppress(ImportError, ValueError):
        name = importlib.util.resolve_name(name, package if type(package) is str else None)
    module = sys.modules.get(name)
    return Value() if module is None else Value(live=module)


def _only_stores(live: Any) -> bool:
    """Return whether a callable only stores a function without calling it."""
    return getattr(live, "__name__", "") in SIGNATURE_READING_FUNCTIONS or getattr(live, "__name__", "") in (
        "partial", "partialmethod", "property", "staticmethod", "classmethod", "wraps", "lru_cache", "cache",
        "cached_property", "list", "tuple", "dict", "set", "isinstance", "callable", "type", "id", "field", "getattr",
        "hasattr", "singledispatch", "singledispatchmethod", "contextmanager", "asynccontextmanager",
        "abstractmethod", "repr", "str", "namedtuple", "total_ordering", "_path", "path", "re_path", "include",
    ) or is_storing_callable(live)  # fmt: skip
