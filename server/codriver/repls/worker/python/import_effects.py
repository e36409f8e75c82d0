"""Predict the effects of running a statement, from its syntax and the objects that it names.

Calls to the workspace's functions are followed into their bodies. No user code is run: names, module attributes and
methods are looked up in dictionaries.
"""

from __future__ import annotations

import abc
import ast
import builtins
import contextlib
import functools
import importlib.util
import itertools
import sys
import types

from ..basics.held_definitions import defining_module_name, is_class, order_of, qualified_name, space_of
from .class_renewal import is_plain_class
from .pure_calls import (
    CLASS_READING_FUNCTIONS,
    CONFIGURATION_READING_METHODS,
    IMPURE_NAMES,
    LIBRARY_DECORATORS,
    MUTATING_METHODS,
    READING_METHODS,
    SIGNATURE_READING_FUNCTIONS,
    SIGNATURE_READING_LIBRARIES,
    is_collection,
    is_filling_method,
    is_immutable_kind,
    is_pure_callable,
    is_sorting_function,
    is_standard_mapping,
    is_wrapping_decorator,
)
from .python_names import attribute_dict, instance_dict_of, module_dict
from .statements import FUNCTION_NODES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any, FrozenSet, Tuple

    Read = Tuple[str, str]

    """A module and a dotted name in it."""

    Roots = FrozenSet[int]

UNKNOWN_OBJECT = object()
"""Represents an unknown object."""
ABC_REGISTER: Any = vars(abc.ABCMeta)["register"]
"""The method that registers a virtual subclass. It does not read the attributes of the abstract class."""
ATTRIBUTE_SETTERS = (setattr, delattr, object.__setattr__, object.__delattr__, type.__setattr__, type.__delattr__)
"""Functions that set or delete attributes of their first argument."""
NO_ROOTS: Roots = frozenset()
"""The roots of values that are not part of an existing object."""
UNKNOWN_ROOTS: Roots = frozenset((0,))
"""The roots of values that may be part of an unknown object."""
MAX_CALL_DEPTH = 12
"""Maximum number of nested calls that are followed."""
MAX_VISITED_NODES = 20_000
"""Maximum number of syntax nodes visited for a statement. A larger statement is assumed to have effects."""
MAX_SEARCHED_PARTS = 300
"""Maximum number of parts of an object that are searched for functions."""
MAX_ITEMS, MAX_KINDS, MAX_NAMED = 200, 4, 12
"""Maximum numbers of checked items in a live collection, of followed types, and of followed classes and functions."""
PLAIN_TYPES = frozenset(
    {int, float, complex, bool, str, bytes, list, tuple, dict, set, frozenset, type(None), type, types.ModuleType}
)
"""Types whose special methods are implemented by the interpreter."""
COMPARISON_METHODS = ("__eq__", "__ne__", "__lt__", "__gt__", "__le__", "__ge__", "__contains__", "__bool__", "__len__")
FOLLOWED_ELEMENT_TYPES = (types.FunctionType, types.MethodType, functools.partial, tuple)
"""Types of collection elements that are followed one by one."""
FUNCTION_TYPES = (types.FunctionType, types.MethodType)
"""Function types. Functions are followed one by one."""
UNARY_OPERATOR_METHODS: dict[type, tuple[str, ...]] = {
    ast.Not: ("__bool__", "__len__"), ast.And: ("__bool__", "__len__"), ast.Or: ("__bool__", "__len__"),
    ast.USub: ("__neg__",), ast.UAdd: ("__pos__",), ast.Invert: ("__invert__",),
}  # fmt: skip
METHODS_CALLED_BY: dict[str, tuple[str, ...]] = {
    "str": ("__str__", "__repr__"), "repr": ("__repr__",), "format": ("__format__", "__str__", "__repr__"),
    "ascii": ("__repr__",), "len": ("__len__",), "bool": ("__bool__", "__len__"), "hash": ("__hash__",),
    "int": ("__int__", "__index__"), "float": ("__float__",), "abs": ("__abs__",), "round": ("__round__",),
    "next": ("__next__",), "dir": ("__dir__",), "bytes": ("__bytes__",),
    "reversed": ("__reversed__", "__iter__", "__getitem__"), "fspath": ("__fspath__",),
}  # fmt: skip
"""Special methods that a built-in function calls on its arguments. Source: the Python data model."""
PICKLING_FUNCTIONS = frozenset({("pickle", "dumps"), ("_pickle", "dumps"), ("copy", "copy"), ("copy", "deepcopy")})
"""Functions that copy an object, or serialize it so that it can be copied, by module and name."""
PICKLING_METHODS = (
    "__copy__", "__deepcopy__", "__getnewargs_ex__", "__getnewargs__", "__getstate__", "__setstate__", "__reduce_ex__",
    "__reduce__",
)  # fmt: skip
"""Special methods called by these functions, or by those that create the copy. Source: `pickle` and `copy`."""
METHODS_CALLED_ON_ITEMS: dict[str, tuple[str, ...]] = {
    "sorted": ("__lt__", "__gt__"), "max": ("__gt__", "__lt__"), "min": ("__lt__", "__gt__"),
    "sum": ("__add__", "__radd__"), "set": ("__hash__", "__eq__"), "frozenset": ("__hash__", "__eq__"),
    "dict": ("__hash__", "__eq__"), "Counter": ("__hash__", "__eq__"), "any": ("__bool__", "__len__"),
    "all": ("__bool__", "__len__"), "sort": ("__lt__", "__gt__"), "nlargest": ("__lt__", "__gt__"),
    "nsmallest": ("__lt__", "__gt__"), "merge": ("__lt__", "__gt__"), "bisect": ("__lt__", "__gt__"),
    "bisect_left": ("__lt__", "__gt__"), "bisect_right": ("__lt__", "__gt__"),
}  # fmt: skip
"""Special methods that a built-in function calls on the items in its arguments."""
ITERATING_FUNCTIONS = frozenset({
    "all", "any", "dict", "enumerate", "filter", "frozenset", "iter", "list", "map", "max", "min", "reversed", "set",
    "sorted", "sum", "tuple", "zip",
})  # fmt: skip
CALLING_BUILTINS = frozenset({"filter", "map", "max", "min", "sorted"})
"""Built-in functions that call a function or class among their arguments with each element in the others."""
CALLING_METHODS = frozenset({"sort", "map", "sub", "subn", "run", "starmap", "submit"})
"""Methods that call a function they receive. Source: `list`, `re.Pattern`, `contextvars.Context` and executors."""
OPERATOR_METHOD_NAMES = {
    ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "truediv", ast.Mod: "mod", ast.BitOr: "or",
    ast.BitAnd: "and", ast.FloorDiv: "floordiv", ast.Pow: "pow", ast.MatMult: "matmul", ast.LShift: "lshift",
    ast.RShift: "rshift", ast.BitXor: "xor",
}  # fmt: skip
"""The name of the special method for an operator, without underscores."""
CONFIGURATION_ATTRIBUTES = ("model_config", "__mapper_args__", "__pydantic_config__")
"""Attributes in a class body that configure the library that creates the class."""
CONSTRUCTING_METHODS = (
    "__new__", "__attrs_pre_init__", "__init__", "__post_init__", "__attrs_post_init__", "model_post_init",
)  # fmt: skip
"""Methods that create an object or complete it. Source: the data model, dataclasses, msgspec, attrs and pydantic."""
COPYING_FUNCTIONS, COPYING_LIBRARIES = frozenset({"replace", "evolve"}), frozenset({"attr", "copy", "dataclasses"})
"""Functions that create an object with the attributes of another, and their libraries."""
DEFERRED_ATTRIBUTE = "deferred_functions"
"""The attribute with the functions that a Flask blueprint calls when it is registered. Source: `Blueprint.record`."""
CLASS_HOOKS = ("__init_subclass__", "__set_name__", "__class_getitem__")


class Value:
    """What is known about the value of an expression.

    - `live` is the existing object itself, `kind` its class, and `inner` its function's node, where known.
    - `roots` are the ids of the existing objects that the value may be part of.
    - `items` are the values that an iteration yields. `options` are the objects of which the value is one, and
      `alternatives` are the same for values of several types.
    - `attributes` are those set by the constructor of a new object, by name.
    - `after` is the class after which `super()` starts to look up attributes.
    """

    __slots__ = (
        "after", "alternatives", "attributes", "bound", "inner", "is_recursive", "items", "kind", "live", "options",
        "read", "roots",
    )  # fmt: skip

    def __init__(
        self,
        roots: Roots = NO_ROOTS,
        live: Any = UNKNOWN_OBJECT,
        kind: Any = None,
        inner: Any = None,
        bound: Any = None,
        items: Any = None,
    ) -> None:
        self.roots, self.live, self.inner, self.bound, self.items = roots, live, inner, bound, items
        self.kind = type(live) if live is not UNKNOWN_OBJECT and kind is None else kind
        self.read: Read | None = None
        self.options: tuple[Any, ...] = ()
        self.after: Any = None
        self.attributes: dict[str, Value] | None = None
        self.alternatives: tuple[Value, ...] = ()
        self.is_recursive = False


class Effects:
    """The effects of running a statement.

    - `reads` are the names that it reads, including those in functions that it calls.
    - `calls` are the ids of these functions, and `defaults` the ids of default values that the calls receive.
    - `fills` are the ids of existing objects that it changes.
    - `attributes` are the attributes that it sets on existing objects, by id and name. `*` is an unknown name.
    - `effect` is a description of the first call that may have other effects, or None.
    - `guesses` are names that may be read, because an object or function is unknown.
    - `created` is the class that is being created, and `objects` are the named objects by id.

    In `reads`, `C.*` means all attributes of the class `C`, `C.+` their names, `C.=` all but its methods, and `f(...)`
    the signature of `f`. In `guesses`, `**` means all names in a module, and `C.%` any code in a class. The module `*`
    with `.name` means an attribute of any class.
    """

    def __init__(self) -> None:
        self.reads: set[Read] = set()
        self.guesses: set[Read] = set()
        self.calls: set[int] = set()
        self.fills: set[int] = set()
        self.attributes: set[tuple[int, str]] = set()
        self.defaults: set[int] = set()
        self.created: Any = None
        self.objects: dict[int, Any] = {}
        self.effect: str | None = None
        self.nodes = 0


class Analysis:
    """Analyzes which effects a module's statements would have.

    `source_of` returns the syntax node of a workspace function, or None for other functions.
    """

    def __init__(self, source_of: Callable[[types.FunctionType], ast.AST | None]) -> None:
        self._source_of = source_of

    def source(self, function: Any) -> ast.AST | None:
        """Return the syntax node of a workspace function or the source of a workspace file. Return None if unknown."""
        return self._source_of(function)

    def statement_effects(self, node: ast.AST, space: dict[str, Any]) -> Effects:
        """Return the effects of running a statement or evaluating an expression in a module."""
        found = Effects()
        _Walk(self, space, None, found, ()).statement(node)
        return found

    def decorator_effects(self, node: Any, space: dict[str, Any], kind: Any = None) -> Effects:
        """Return the effects of applying the decorators of a definition."""
        found = Effects()
        walk = _Walk(self, space, None if kind is None else _class_names(kind), found, ())
        if isinstance(node, ast.ClassDef):
            walk.decorated(node, _class_value(node, space))
        elif isinstance(node, FUNCTION_NODES):
            made = walk.decorated(node, Value(inner=(node, walk)))
            if kind is not None:
                walk.name_descriptor(made, kind, ast.Pass())
        return found

    def body_effects(self, nodes: Iterable[ast.AST], space: dict[str, Any], kind: Any) -> Effects:
        """Return the effects of statements or expressions in the body of the class `kind`."""
        found = Effects()
        walk = _Walk(self, space, _class_names(kind), found, ())
        walk.is_class = kind is not None
        walk.kind = kind
        for node in nodes:
            walk.statement(node)
        return found

    def reads_signatures(self, node: Any, space: dict[str, Any]) -> bool:
        """Return whether a decorator of a function comes from a library that reads signatures and annotations."""
        walk = _Walk(self, space, None, Effects(), ())
        for decorator in node.decorator_list:
            called = decorator.func if isinstance(decorator, ast.Call) else decorator
            value = walk.value(called.value if isinstance(called, ast.Attribute) else called)
            if value.live is not UNKNOWN_OBJECT and _library_of(value.live) in SIGNATURE_READING_LIBRARIES:
                return True
        return False

    def library_name(self, node: ast.expr, space: dict[str, Any]) -> str:
        """Return the top-level package of the object that an expression names, or "" if it is unknown.

        For an attribute, this is the package of the object that has the attribute.
        """
        walk = _Walk(self, space, None, Effects(), ())
        value = walk.value(node.value if isinstance(node, ast.Attribute) else node)
        if value.live is UNKNOWN_OBJECT:
            return ""
        if type(value.live) is types.ModuleType:
            return str(module_dict(value.live).get("__name__")).partition(".")[0]
        kind = value.live if is_class(value.live) else type(value.live)
        home = value.live.__module__ if type(value.live) is types.FunctionType else defining_module_name(kind)
        return str(home).partition(".")[0]

    def annotation_reads(self, node: Any, space: dict[str, Any], *, with_signatures: bool = False) -> Effects:
        """Return what a function's annotations read. With `with_signatures`, include the signatures of classes."""
        found = Effects()
        walk = _Walk(self, space, None, found, ())
        walk.with_signatures = with_signatures
        arguments = node.args
        every = [
            *getattr(arguments, "posonlyargs", []),
            *arguments.args,
            *arguments.kwonlyargs,
            arguments.vararg,
            arguments.kwarg,
        ]
        for annotation in [*(argument.annotation for argument in every if argument is not None), node.returns]:
            if annotation is not None:
                walk.annotation(annotation)
        return found

    def call(self, function: types.FunctionType, kind: Any = None) -> Effects:
        """Return the effects of calling a workspace function. `kind` is the class of its first argument, if known."""
        found = Effects()
        _Walk(self, function.__globals__, None, found, ()).run_with(function, [Value(kind=kind)] if kind else [])
        return found

    def bases(self, kind: Any) -> Effects:
        """Return the attributes that a library reads from the bases of a class when creating the class."""
        found = Effects()
        for base in order_of(kind)[1:-1]:
            found.reads.add((str(defining_module_name(base)), f"{qualified_name(base)}.="))
        return found

    def class_creation_effects(self, node: ast.ClassDef, space: dict[str, Any], *, reads_bases: bool = True) -> Effects:
        """Return the effects of creating a class, without those of its body and decorators.

        Without `reads_bases`, reads by the expressions for its bases and keywords are left out.
        """
        found = Effects()
        _Walk(self, space, None, found, ()).creation(node, reads_bases=reads_bases)
        return found


def _class_value(node: ast.ClassDef, space: dict[str, Any]) -> Value:
    """Return what is known about the class that a statement has created."""
    live = space.get(node.name)
    return Value(_roots(live), live) if is_class(live) else Value()


def _class_names(kind: Any) -> dict[str, Value]:
    """Return the names that are visible in the body of a class, with their values."""
    found: dict[str, Value] = {}
    for name, value in space_of(kind).items() if kind is not None else ():
        found[name] = Value(live=value, roots=_roots(value))
        found[name].read = str(defining_module_name(kind)), f"{qualified_name(kind)}.{name}"
    return found


def _roots(value: object) -> Roots:
    """Return the roots of an object: its id, or none if the object is immutable."""
    if type(value) in (int, float, complex, bool, str, bytes, type(None), types.ModuleType, tuple, frozenset):
        return NO_ROOTS
    return frozenset((id(value),))


class _Walk:
    """A visitor of the syntax nodes in a function, class body or module.

    `names` are the local names with their values, or None in a module.
    """

    def __init__(
        self, analysis: Analysis, space: dict[str, Any], names: Any, found: Effects, stack: tuple[Any, ...]
    ) -> None:
        self.analysis, self.space, self.names, self.found, self.stack = analysis, space, names, found, stack
        self.home = str(space.get("__name__"))
        self.is_class = False
        self.kind: Any = None
        self.with_signatures = False
        self.returned: list[Value] = []
        self.yielded: list[Value] = []
        self.is_generator = False
        self.is_block_target = False
        self.of_block: dict[str, Value] = {}
        self.globals: set[str] = set()

    # Statements

    def statement(self, node: Any) -> None:  # noqa: C901, PLR0912, PLR0915  # one branch per case
        self.found.nodes += 1
        if self.found.nodes > MAX_VISITED_NODES:
            self._record_effect(node)
            return
        if isinstance(node, FUNCTION_NODES):
            self._defaults(node)
            self._bind(node.name, self.decorated(node, Value(inner=(node, self))))
        elif isinstance(node, ast.ClassDef):
            self._class(node)
        elif isinstance(node, ast.Return):
            self.returned.append(self.value(node.value) if node.value is not None else Value())
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            self._assign(node)
        elif isinstance(node, ast.AugAssign):
            self._augment(node)
        elif isinstance(node, (ast.For, ast.AsyncFor)):
            iterated = self.value(node.iter)
            is_async = isinstance(node, ast.AsyncFor)
            self._record_special_methods(
                [iterated], *(("__aiter__", "__anext__") if is_async else ("__iter__", "__next__"))
            )
            for each in self._items_of(iterated):
                self._bind_in_block(node.target, each)
                self._all(node.body)
            self._all(node.orelse)
        elif isinstance(node, (ast.If, ast.While, ast.Assert)):
            self._visit_condition(node.test)
            self._all(child for child in ast.iter_child_nodes(node) if child is not node.test)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            self._import(node)
        elif isinstance(node, ast.Delete):
            for target in node.targets:
                if not isinstance(target, ast.Name):
                    self._store(target)
        elif isinstance(node, (ast.With, ast.AsyncWith)):
            for item in node.items:
                value = self.value(item.context_expr)
                is_async = isinstance(node, ast.AsyncWith)
                self._record_special_methods(
                    [value], *(("__aenter__", "__aexit__") if is_async else ("__enter__", "__exit__"))
                )
                if item.optional_vars is not None:
                    self._bind_in_block(item.optional_vars, self._entered(value, node))
            self._all(node.body)
        elif isinstance(node, (ast.Global, ast.Nonlocal)):
            self.globals.update(node.names)
        elif isinstance(node, ast.expr):
            self.value(node)
        elif isinstance(node, ast.ExceptHandler):
            caught = self.value(node.type) if node.type is not None else Value()
            if node.name:
                error = Value(kind=caught.live if is_class(caught.live) else None)
                self._guess_subclasses(caught.live)
                self._bind_in_block(ast.Name(node.name, ast.Store()), error)
            self._all(node.body)
        elif type(node).__name__ == "Match":
            self.value(node.subject)
            for case in node.cases:
                for part in ast.walk(case.pattern):
                    name = getattr(part, "name", None) or getattr(part, "rest", None)
                    if isinstance(name, str):
                        self._bind(name, Value())
                if case.guard is not None:
                    self.value(case.guard)
                self._all(case.body)
        else:
            if isinstance(node, ast.Try) and self.names is None:
                self._note_tried_imports(node)
            self._all(ast.iter_child_nodes(node))

    def _note_tried_imports(self, node: ast.Try) -> None:
        """Record the names that a `try` statement imports, because it may handle their absence."""
        package = self.space.get("__package__")
        for statement in node.body:
            if isinstance(statement, ast.ImportFrom):
                source = "." * statement.level + (statement.module or "")
                with contextlib.suppress(ImportError, ValueError):
                    source = importlib.util.resolve_name(source, package if type(package) is str else None)
                self.found.reads.update((source, alias.name) for alias in statement.names)

    def _all(self, nodes: Iterable[Any]) -> None:
        """Visit several statements."""
        for node in nodes:
            self.statement(node)

    def creation(self, node: ast.ClassDef, *, reads_bases: bool) -> None:
        """Visit the bases and keywords of a class, and the hooks that are called when it is created."""
        bases = [self.value(base) for base in (*node.bases, *[word.value for word in node.keywords])]
        if not reads_bases:
            self.found.reads.clear()
        value = _class_value(node, self.space)
        self._class_hooks(node, value.live if is_class(value.live) else None, bases, value)

    def _class(self, node: ast.ClassDef) -> None:
        bases = [self.value(base) for base in node.bases]
        words = [self.value(keyword.value) for keyword in node.keywords]
        live = self.space.get(node.name) if self.names is None else None
        kind = live if is_class(live) else None
        inner = _Walk(self.analysis, self.space, dict(self.names or {}), self.found, self.stack)
        inner.is_class = True
        for statement in node.body:
            inner.statement(statement)
        value = Value(live=kind if kind is not None else UNKNOWN_OBJECT, roots=NO_ROOTS)
        self._class_hooks(node, kind, [*bases, *words], value)
        made = self.decorated(node, value)
        self._bind(node.name, made)

    def _class_hooks(self, node: ast.ClassDef, kind: Any, bases: list[Value], value: Value) -> None:
        """Visit what is called when a class is created: its bases' hooks and its metaclass's methods."""
        lived = [base.live for base in bases if is_class(base.live)]
        metas = (
            [base for base in lived if issubclass(base, type)]
            + [type(base) for base in lived]
            + ([type(kind)] if kind else [])
        )
        count = len(node.bases)
        words: dict[str | None, Value] = {keyword.arg: value for keyword, value in zip(node.keywords, bases[count:])}
        words.pop("metaclass", None)
        given = [Value(live=node.name), Value(kind=tuple, items=tuple(bases[:count])), Value(kind=dict)]
        for meta in dict.fromkeys(metas):
            for name in ("__prepare__", "__new__", "__init__"):
                found = _function_of(_unbound_attribute(meta, name))
                if type(found) is types.FunctionType and self.analysis.source(found) is not None:
                    self._run(found, [value if name == "__init__" else Value(_roots(meta), meta), *given], node, words)
        before, self.found.created = self.found.created, kind
        for base in lived:
            hook = _function_of(_unbound_attribute(base, "__init_subclass__"))
            if type(hook) is types.FunctionType and self.analysis.source(hook) is not None:
                self._run(hook, [value], node, words)
        self.found.created = before

    def decorated(self, node: Any, value: Value) -> Value:
        """Visit the calls of decorators, and return the value of the decorated definition."""
        made = [(self.value(decorator), decorator) for decorator in node.decorator_list]
        for decorator, argument in reversed(made):
            value = self._apply(decorator, argument, [value], argument, is_decorator=True)
        return value

    def annotation(self, node: ast.expr) -> None:
        """Visit the names in an annotation, which may be a string."""
        is_schema = self.kind is not None and _library_of(self.kind) in SIGNATURE_READING_LIBRARIES
        for part in ast.walk(node):
            found = None
            if isinstance(part, ast.Constant) and type(part.value) is str:
                with contextlib.suppress(SyntaxError, ValueError):
                    found = self.value(ast.parse(part.value, mode="eval").body)
            elif isinstance(part, ast.Name):
                found = self._name(part.id)
            elif isinstance(part, ast.Attribute):
                found = self.value(part)
            if found is not None and self.with_signatures:
                self._read_signature(found.live)
            if found is not None and is_schema and is_class(found.live) and "_member_map_" in space_of(found.live):
                self._read_whole(found.live)

    def _defaults(self, node: Any) -> None:
        """Visit the default values of parameters."""
        for default in (*node.args.defaults, *node.args.kw_defaults):
            if default is not None:
                self.value(default)

    def _assign(self, node: Any) -> None:
        if isinstance(node, ast.AnnAssign) and self.is_class:
            self.annotation(node.annotation)
        if node.value is None:
            return
        value = self.value(node.value)
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        if self.is_class and any(
            isinstance(target, ast.Name) and target.id in CONFIGURATION_ATTRIBUTES for target in targets
        ):
            for child in ast.walk(node.value):
                live = self.space.get(child.id) if isinstance(child, ast.Name) else None
                if self._is_of_project(live):  # the library calls it when it creates the class
                    self._run(live, [Value()], node)
        if self.is_class:
            self.name_descriptor(value, self.kind, node)
        for target in targets:
            self._targets(target, value)

    def name_descriptor(self, value: Value, kind: Any, node: ast.AST) -> None:
        """Visit the `__set_name__` method of a descriptor, which is called when its class is created."""
        named = _unbound_attribute(value.kind, "__set_name__") if value.kind is not None else UNKNOWN_OBJECT
        if self._is_of_project(named):
            owner = Value(_roots(kind), kind) if kind is not None else Value()
            before, self.found.created = self.found.created, kind
            self._run(named, [value, owner, Value(kind=str)], node)
            self.found.created = before

    def _augment(self, node: ast.AugAssign) -> None:
        given = self.value(node.value)
        if isinstance(node.target, ast.Name):
            before = self._name(node.target.id)
            word = OPERATOR_METHOD_NAMES.get(type(node.op), "")
            for name in (f"__i{word}__", f"__{word}__"):
                found = _unbound_attribute(before.kind, name) if before.kind is not None else UNKNOWN_OBJECT
                if self._is_of_project(found):
                    self._run(found, [before, given], node)
                    break
            if is_collection(before.kind) or before.live is UNKNOWN_OBJECT:
                self.found.fills |= before.roots
            if self.names is not None and node.target.id in self.globals:
                self._record_effect(node)
        elif isinstance(node.target, ast.Attribute):
            before = self.value(node.target)
            if is_collection(before.kind):
                self.found.fills |= before.roots
            else:
                self._store(node.target)
        else:
            self._store(node.target)

    def _targets(self, target: ast.AST, value: Value) -> None:
        """Visit the targets of an assignment, and bind names to the assigned values."""
        if isinstance(target, ast.Name):
            self._bind(target.id, value)
        elif isinstance(target, (ast.Tuple, ast.List)):
            items = value.items
            if items is None and type(value.live) in (tuple, list):
                items = tuple(Value(value.roots | _roots(item), item) for item in value.live)
            if (
                items is None
                or len(items) != len(target.elts)
                or any(isinstance(elt, ast.Starred) for elt in target.elts)
            ):
                items = [Value(value.roots) for _ in target.elts]
            for element, item in zip(target.elts, items):
                self._targets(element, item)
        elif isinstance(target, ast.Starred):
            self._targets(target.value, Value(value.roots))
        else:
            self._store(target, value)

    def _guess_subclasses(self, kind: Any) -> None:
        """Record that an object of this class may be an instance of any subclass."""
        waiting = type.__subclasses__(kind) if is_class(kind) and self._is_workspace_class(kind) else []
        for subclass in waiting:
            self.found.guesses.update(
                (str(defining_module_name(subclass)), f"{qualified_name(subclass)}.{word}") for word in ("=", "%")
            )
            waiting += [inner for inner in type.__subclasses__(subclass) if inner not in waiting]

    def _bind_in_block(self, target: ast.AST, value: Value) -> None:
        """Bind the target of a loop, a `with` or an `except` for the statements in the block."""
        self.is_block_target = True
        self._targets(target, value)
        self.is_block_target = False

    def _entered(self, manager: Value, node: ast.AST) -> Value:
        """Return the value that a context manager's `__enter__` method returns."""
        for name in ("__enter__", "__aenter__"):
            found = _unbound_attribute(manager.kind, name) if manager.kind is not None else UNKNOWN_OBJECT
            if self._is_of_project(found):
                return self._run(found, [manager], node)
        return manager

    def _bind(self, name: str, value: Value) -> None:
        """Bind a name of the current scope or block to a value."""
        if self.names is None:
            if self.is_block_target:
                self.of_block[name] = value
            return
        if name in self.globals:
            self.found.effect = self.found.effect or f"global {name}"
        self.names[name] = value

    def _store(self, target: Any, value: Value | None = None) -> None:
        """Record an assignment to an attribute or item."""
        owner = self.value(target.value)
        if isinstance(target, ast.Subscript):
            self.value(target.slice)
        self.found.fills |= owner.roots
        if isinstance(target, ast.Attribute):
            self.found.attributes.update((root, target.attr) for root in owner.roots)
            self._set_attribute(owner, target.attr, value)
            self._run_setters(owner, target.attr)
        if owner.live is not UNKNOWN_OBJECT and type(owner.live) is types.ModuleType:
            self._record_effect(target)

    @staticmethod
    def _set_attribute(owner: Value, name: str | None, value: Value | None) -> None:
        """Set an attribute on a new object.

        If an attribute is set more than once, its value is unknown. If `name` is None, all attributes are unknown.
        """
        if owner.attributes is None:
            return
        if name is None:
            owner.attributes = None
        elif value is None or name in owner.attributes or _unbound_attribute(owner.kind, name) is not UNKNOWN_OBJECT:
            owner.attributes[name] = Value(UNKNOWN_ROOTS)
        else:
            owner.attributes[name] = value

    def _run_setters(self, owner: Value, name: str | None) -> None:
        """Visit a descriptor's `__set__` method that an assignment calls.

        If `name` is None, visit the methods of all descriptors in the class.
        """
        for kind in order_of(owner.kind) if is_class(owner.kind) else ():
            for attribute, found in list(space_of(kind).items()):
                setter = _unbound_attribute(type(found), "__set__") if name in (None, attribute) else UNKNOWN_OBJECT
                if self._is_of_project(setter):
                    self._run(setter, [Value(_roots(found), found), owner, Value()], ast.Pass())

    def _import(self, node: Any) -> None:
        for alias in node.names:
            source = alias.name if isinstance(node, ast.Import) else node.module
            if self.names is not None:
                module = sys.modules.get(str(source))
                if module is None:
                    self._record_effect(node)
                elif isinstance(node, ast.ImportFrom):
                    live = module_dict(module).get(alias.name, UNKNOWN_OBJECT)
                    self.found.reads.add((str(source), alias.name))
                    self.names[alias.asname or alias.name] = Value(_roots(live), live)
                else:
                    name = alias.asname or alias.name.partition(".")[0]
                    self.names[name] = Value(live=module if alias.asname else sys.modules.get(name, UNKNOWN_OBJECT))

    # Expressions

    def value(self, node: Any) -> Value:  # noqa: C901, PLR0912  # one branch for each kind of expression
        """Visit an expression, and return what is known about its value."""
        self.found.nodes += 1
        if self.found.nodes > MAX_VISITED_NODES:
            self._record_effect(node)
            return Value()
        if isinstance(node, ast.Constant):
            return Value(live=node.value)
        if isinstance(node, ast.Name):
            return self._name(node.id)
        if isinstance(node, ast.Attribute):
            inner = node.value
            owner = self._name(inner.id, node.attr) if isinstance(inner, ast.Name) else self.value(inner)
            return self._attribute(owner, node) if owner.after is None else self._attribute_of_super(owner, node.attr)
        if isinstance(node, ast.Call):
            return self._call(node)
        if isinstance(node, ast.Lambda):
            self._defaults(node)
            return Value(inner=(node, self))
        if isinstance(node, (ast.ListComp, ast.SetComp, ast.GeneratorExp, ast.DictComp)):
            return self._comprehension(node)
        if isinstance(node, ast.BinOp):
            return self._operator(node)
        if isinstance(node, ast.Subscript):
            return self._subscript(node)
        if isinstance(node, (ast.Yield, ast.YieldFrom)):
            return self._yield(node)
        if isinstance(node, ast.Await):
            return self.value(node.value)
        if isinstance(node, ast.IfExp):
            self._visit_condition(node.test)
            return _either([self.value(node.body), self.value(node.orelse)])
        if isinstance(node, ast.NamedExpr):
            value = self.value(node.value)
            self._bind(node.target.id, value)
            return value
        if isinstance(node, (ast.List, ast.Tuple, ast.Set, ast.Dict)):
            return self._display(node)
        if isinstance(node, ast.JoinedStr):
            parts = [self.value(part).live for part in ast.iter_child_nodes(node)]
            return Value(live="".join(parts)) if all(type(part) is str for part in parts) else Value(kind=str)
        if isinstance(node, ast.FormattedValue):
            formatted = self.value(node.value)
            self._record_special_methods([formatted], "__format__", "__str__", "__repr__")
            if node.format_spec is not None:
                self.value(node.format_spec)
            is_text = type(formatted.live) is str and node.format_spec is None and node.conversion == -1
            return Value(live=formatted.live) if is_text else Value(kind=str)
        if isinstance(node, ast.Compare):
            self._record_special_methods(
                [self.value(operand) for operand in (node.left, *node.comparators)], *COMPARISON_METHODS
            )
            return Value()
        roots: Roots = NO_ROOTS
        for part in ast.iter_child_nodes(node):
            if isinstance(part, ast.expr):
                value = self.value(part)
                roots |= value.roots
                self._record_special_methods(
                    [value], *(UNARY_OPERATOR_METHODS.get(type(getattr(node, "op", None)), ()))
                )
        return Value(roots if isinstance(node, (ast.BoolOp, ast.Starred, ast.Await)) else NO_ROOTS)

    def _subscript(self, node: ast.Subscript) -> Value:
        """Visit a subscript. Its value is known if both the collection and the key are known."""
        owner, key = self.value(node.value), self.value(node.slice)
        self._record_special_methods([owner], "__getitem__")
        live = owner.live
        subscripted = _function_of(_unbound_attribute(live, "__class_getitem__"))
        if self._is_of_project(subscripted):
            return self._run(subscripted, [owner, key], node)
        if is_generic_class(live):
            return Value(owner.roots, live)
        if type(live) not in (dict, list, tuple) or not live:
            return Value(owner.roots)
        if isinstance(node.slice, ast.Slice):
            return Value(owner.roots, kind=type(live), items=tuple(self._items_of(owner)))
        if type(key.live) in (str, int):
            try:
                item = live[key.live]
            except LookupError:
                return Value(owner.roots)
            return Value(owner.roots | _roots(item), item)
        items = list(live.values() if type(live) is dict else live)[:MAX_ITEMS]
        made = Value(owner.roots)
        if items and len(items) <= MAX_NAMED and all(map(self._is_followed, items)):
            made.options = tuple(items)
        kinds = {type(item) for item in items}
        if len(kinds) == 1 and not made.options:
            made.kind = kinds.pop()
        return made

    def _is_followed(self, value: object) -> bool:
        """Return whether the analysis can follow a call to this value into its body."""
        return is_class(value) or self._is_of_project(value) or type(value) is functools.partial

    def _yield(self, node: Any) -> Value:
        self.is_generator = True
        value = self.value(node.value) if node.value is not None else Value()
        if isinstance(node, ast.YieldFrom):
            self.yielded += self._items_of(value) if not value.is_recursive else []
        else:
            self.yielded.append(value)
        return Value()

    def _visit_condition(self, node: ast.expr) -> None:
        """Visit a condition, including the special methods that determine its truth value."""
        self._record_special_methods([self.value(node)], "__bool__", "__len__")

    def _display(self, node: Any) -> Value:
        """Visit a list, tuple, set or dictionary display."""
        kinds: dict[type, type] = {ast.List: list, ast.Tuple: tuple, ast.Set: set, ast.Dict: dict}
        if isinstance(node, ast.Dict):
            keys = [self.value(key) for key in node.keys if key is not None]
            for expression in node.values:
                self.value(expression)
            self._record_special_methods(keys, "__hash__", "__eq__")
            return Value(kind=dict, items=tuple(keys) if all(node.keys) else None)
        items: list[Value] = []
        for elt in node.elts:
            value = self.value(elt.value if isinstance(elt, ast.Starred) else elt)
            items += self._items_of(value) if isinstance(elt, ast.Starred) else [value]
        if isinstance(node, ast.Set):
            self._record_special_methods(items, "__hash__", "__eq__")
        return Value(kind=kinds[type(node)], items=tuple(items))

    def _record_special_methods(self, values: Iterable[Value], *names: str) -> None:
        """Record the special methods that an operation calls on values. An unknown value may be of any class.

        Only reads are recorded, because operations are assumed to have no external effects.
        """
        for value in [
            alternative for value_given in values for alternative in (value_given.alternatives or (value_given,))
        ]:
            if value.kind is None and value.inner is None and value.live is UNKNOWN_OBJECT:
                self.found.guesses.update(("*", f".{name}") for name in names)
                continue
            is_followed = value.kind is not None and value.kind not in PLAIN_TYPES
            is_of_workspace = is_followed and is_class(value.kind) and self._is_workspace_class(value.kind)
            for name in names if is_followed else ():
                found = _unbound_attribute(value.kind, name)
                if is_of_workspace:
                    self._read_attribute(value.kind, name)
                if self._is_of_project(found):
                    self._read_call(found, [value])

    def _name(self, name: str, attribute: str = "") -> Value:
        """Return the value of a name, and record that it is read.

        With `attribute`, only that attribute of the object is recorded as read.
        """
        if self.names is not None and name in self.names and name not in self.globals:
            known: Value = self.names[name]
            if known.read is not None:
                self.found.reads.add(known.read)
            return known
        if self.names is None and name in self.of_block:
            return self.of_block[name]
        live = self.space.get(name, UNKNOWN_OBJECT)
        if name in self.space or not hasattr(builtins, name):
            is_only_part = bool(attribute) and self._has_direct_attribute(live, attribute)
            self.found.reads.add((self.home, f"{name}.{attribute}" if is_only_part else name))
        if live is UNKNOWN_OBJECT:
            live = builtins.__dict__.get(name, UNKNOWN_OBJECT)
            return Value(UNKNOWN_ROOTS if live is UNKNOWN_OBJECT else NO_ROOTS, live)
        self.found.objects[id(live)] = live
        return Value(_roots(live), live)

    def _has_direct_attribute(self, live: Any, name: str) -> bool:
        """Return whether an attribute of a workspace object is stored in the instance itself."""
        if live is UNKNOWN_OBJECT or is_class(live) or not self._is_workspace_class(type(live)):
            return False
        of_class = _unbound_attribute(type(live), name)
        is_data_descriptor = (
            of_class is not UNKNOWN_OBJECT and _unbound_attribute(type(of_class), "__set__") is not UNKNOWN_OBJECT
        )
        return name in attribute_dict(live) and not is_data_descriptor

    def _attribute_of_super(self, owner: Value, name: str) -> Value:
        """Return an attribute that `super()` finds in the bases of the current method's class."""
        kinds = order_of(owner.kind)
        for kind in kinds[kinds.index(owner.after) + 1 :]:
            found = _function_of(space_of(kind).get(name))
            if self._is_of_project(found):
                return Value(live=found, bound=Value(owner.roots, owner.live, owner.kind))
            if found is not None:
                break
        return Value(owner.roots, bound=Value(owner.roots, kind=object))

    def _attribute(self, owner: Value, node: ast.Attribute) -> Value:  # noqa: C901, PLR0912  # one branch per kind
        """Return the value of an attribute, and record that it is read."""
        name, live = node.attr, owner.live
        if owner.alternatives:
            return _either([self._attribute(alternative, node) for alternative in owner.alternatives])
        if live is not UNKNOWN_OBJECT and issubclass(type(live), types.ModuleType):
            home = str(module_dict(live).get("__name__"))
            self.found.reads.add((home, name))
            found = module_dict(live) if name == "__dict__" else module_dict(live).get(name, UNKNOWN_OBJECT)
            getter = module_dict(live).get("__getattr__") if found is UNKNOWN_OBJECT else None
            if self._is_of_project(getter):
                return self._run(getter, [Value(live=name)], node)
            return Value(_roots(found) if found is not UNKNOWN_OBJECT else UNKNOWN_ROOTS, found)
        if is_class(live):
            return self._attribute_of_class(live, owner, name)
        if type(live) is types.FunctionType:
            self.found.reads.add((str(live.__module__), f"{live.__qualname__}.{name}"))
            attributes = attribute_dict(live).get(name, UNKNOWN_OBJECT)
            return Value(owner.roots, attributes, bound=None if self._is_of_project(attributes) else owner)
        if owner.inner is not None:
            return Value()
        attributes = attribute_dict(live).get(name, UNKNOWN_OBJECT) if live is not UNKNOWN_OBJECT else UNKNOWN_OBJECT
        found = _unbound_attribute(owner.kind, name) if owner.kind is not None else UNKNOWN_OBJECT
        is_data_descriptor = self._is_of_project(_unbound_attribute(type(found), "__set__"))
        if attributes is not UNKNOWN_OBJECT and not is_data_descriptor:
            return Value(
                _roots(attributes) | owner.roots, attributes, bound=None if self._is_of_project(attributes) else owner
            )
        field = self._field(owner, name, found)
        if field is not None:
            return field
        if type(found) is property and type(found.fget) is types.FunctionType and self._is_of_project(found.fget):
            self._read_attribute(owner.kind, name)
            return self._run(found.fget, [owner], node)
        if type(found) in (staticmethod, classmethod):
            wrapped: Any = found
            return Value(live=wrapped.__func__, bound=owner if type(found) is classmethod else None)
        if type(found) is types.FunctionType:
            definer = next((base for base in order_of(owner.kind) if name in space_of(base)), owner.kind)
            self.found.guesses.add((str(defining_module_name(definer)), f"{qualified_name(definer)}.{name}"))
            return Value(live=found, bound=owner)
        if type(found) is functools.singledispatchmethod:
            self._read_attribute(owner.kind, name)
            return Value(live=found.dispatcher, bound=owner)
        if found is not UNKNOWN_OBJECT and is_class(owner.kind):
            self._read_attribute(owner.kind, name)
            getter = _unbound_attribute(type(found), "__get__")
            if self._is_of_project(getter):
                return self._run(getter, [Value(_roots(found), found), owner, Value(live=owner.kind)], node)
        if owner.kind is None:
            self.found.guesses.add(("*", f".{name}"))
        return Value(owner.roots, bound=owner)

    def _field(self, owner: Value, name: str, found: Any) -> Value | None:
        """Return the value of an object's attribute, or None if its type is unknown.

        `found` is the attribute in its class. The annotation of a dataclass field is trusted if the annotated class has
        no subclass.
        """
        if type(found) is types.MemberDescriptorType and owner.live is not UNKNOWN_OBJECT:
            with contextlib.suppress(AttributeError):  # the slot is empty
                live = found.__get__(owner.live)
                return Value(_roots(live) | owner.roots, live, bound=None if self._is_of_project(live) else owner)
        if owner.live is not UNKNOWN_OBJECT:
            return None
        known = (owner.attributes or {}).get(name)
        if known is not None:
            bound = known.bound or (None if known.inner is not None or self._is_of_project(known.live) else owner)
            made = Value(known.roots | owner.roots, known.live, known.kind, known.inner, bound, known.items)
            made.options, made.attributes = known.options, known.attributes
            return made
        fields = _unbound_attribute(owner.kind, "__dataclass_fields__")
        kind: Any = _slot(fields[name], "type") if type(fields) is dict and name in fields else None
        if type(kind) is str and kind.isidentifier():
            module = sys.modules.get(str(defining_module_name(owner.kind)))
            kind = module_dict(module).get(kind) if module is not None else None
        if not is_class(kind) or not self._is_workspace_class(kind) or type.__subclasses__(kind):
            return None
        return Value(owner.roots, kind=kind, bound=owner)

    def _attribute_of_class(self, live: Any, owner: Value, name: str) -> Value:
        found: Any = _unbound_attribute(live, name)
        self._read_attribute(live, name)
        for base in order_of(live)[1:] if live is self.found.created else ():
            if name in space_of(base):  # the hook that sets the attribute has read the attribute of a base
                self.found.reads.add((str(defining_module_name(base)), f"{qualified_name(base)}.{name}"))
        if found is UNKNOWN_OBJECT and name == "__subclasses__":
            self.found.reads.add((str(defining_module_name(live)), f"{qualified_name(live)}.__subclasses__()"))
            return Value(owner.roots, bound=owner)
        of_meta = _unbound_attribute(type(live), name) if found is UNKNOWN_OBJECT else UNKNOWN_OBJECT
        if of_meta is not UNKNOWN_OBJECT and name not in space_of(type) and of_meta is not ABC_REGISTER:
            self._read_whole(live)
            self._read_attribute(type(live), name)
            if type(of_meta) is property and self._is_of_project(of_meta.fget):
                return self._run(of_meta.fget, [Value(_roots(live), live)], ast.Pass())
            if self._is_of_project(of_meta):
                return Value(live=of_meta, bound=Value(_roots(live), live))
        if type(found) in (staticmethod, classmethod):
            bound = Value(_roots(live), live) if type(found) is classmethod else None
            return Value(live=found.__func__, bound=bound)
        return Value(_roots(found) | owner.roots if found is not UNKNOWN_OBJECT else owner.roots, found)

    def _read_attribute(self, kind: Any, name: str) -> None:
        """Record that an attribute is read from the class that defines it or has defined it until now.

        If it is a descriptor from a library, the library may call functions that the descriptor contains.
        """
        owner = next((base for base in order_of(kind) if name in space_of(base)), kind)
        for each in (owner, kind):
            self.found.reads.add((str(defining_module_name(each)), f"{qualified_name(each)}.{name}"))
        found = space_of(owner).get(name, UNKNOWN_OBJECT)
        getter = _unbound_attribute(type(found), "__get__") if not is_class(found) else UNKNOWN_OBJECT
        if type(getter) is types.FunctionType and not self._is_of_project(getter):
            self._read_code_in(found, kind)

    def _read_code_in(self, found: Any, kind: Any) -> None:
        """Record what the functions in a descriptor read when they are called with the class `kind`."""
        for function in attribute_dict(found).values():
            if self._is_of_project(function):
                self._read_call(function, [Value(_roots(kind), kind)])

    def _comprehension(self, node: Any) -> Value:
        before = None if self.names is None else dict(self.names)
        shadow = self.names
        self.names = dict(self.of_block if shadow is None else shadow)
        items: list[Value] = []
        self._generators(node, list(node.generators), items)
        self.names = before if shadow is not None else None
        kinds: dict[type, Any] = {ast.ListComp: list, ast.SetComp: set, ast.DictComp: dict}
        return Value(kind=kinds.get(type(node)), items=tuple(_distinct(items)) or None)

    def _generators(self, node: Any, left: list[ast.comprehension], items: list[Value]) -> None:
        """Visit the `for` clauses of a comprehension, and then its element once per type of item.

        The values of the elements are added to `items`.
        """
        if not left:
            items.append(self.value(node.key if isinstance(node, ast.DictComp) else node.elt))
            if isinstance(node, ast.DictComp):
                self.value(node.value)
            return
        iterated = self.value(left[0].iter)
        if left[0].is_async:
            self._record_special_methods([iterated], "__aiter__", "__anext__")
        for item in self._items_of(iterated):
            self._targets(left[0].target, item)
            for test in left[0].ifs:
                self.value(test)
            self._generators(node, left[1:], items)

    def _items_of(self, iterated: Value) -> list[Value]:
        """Return the values that iterating over a value yields, one for each type of existing element."""
        if iterated.alternatives:
            filled = [alternative for alternative in iterated.alternatives if alternative.items != ()]
            return [item for alternative in filled for item in self._items_of(alternative)] or [Value(iterated.roots)]
        live, kind = iterated.live, type(iterated.live)
        if iterated.items is not None:
            return list(iterated.items)[:MAX_ITEMS] or [Value(iterated.roots)]
        if is_class(live):
            self._read_whole(live)
            return [Value(iterated.roots, kind=live)]
        if kind not in (list, tuple, set, frozenset, dict) or not live:
            return [Value(iterated.roots)]
        return self._kinds_in(list(live)[:MAX_ITEMS], iterated.roots)

    @staticmethod
    def _kinds_in(items: list[Any], roots: Roots) -> list[Value]:
        """Return a value for each type of existing element, and one for each class and function among them."""
        kinds: dict[type, Value] = {}
        named = [item for item in items if is_class(item) or type(item) in FOLLOWED_ELEMENT_TYPES]
        for item in items:
            if not (is_class(item) or type(item) in FOLLOWED_ELEMENT_TYPES):
                kinds.setdefault(type(item), Value(roots, kind=type(item)))
        return [*[Value(roots, item) for item in named[:MAX_NAMED]], *list(kinds.values())[:MAX_KINDS]]

    def _read_whole(self, kind: Any, word: str = "*") -> None:
        """Record that all attributes of a class are read. With the word `+`, only their names are read."""
        for base in order_of(kind):
            if base is not object:
                self.found.reads.add((str(defining_module_name(base)), f"{qualified_name(base)}.{word}"))

    def _read_overridden(self, kind: Any) -> None:
        """Record that a library reads the class attributes that override its own, except for methods."""
        bases = order_of(kind)[:-1]
        of_library = [base for base in bases if not self._is_workspace_class(base)]
        names = {name for base in of_library for name in space_of(base) if name[:2] != "__"}
        for base in bases:
            if base not in of_library:
                found = [name for name, value in list(space_of(base).items()) if not callable(value) and name in names]
                self.found.reads.update(
                    (str(defining_module_name(base)), f"{qualified_name(base)}.{name}") for name in found
                )

    def _read_signature(self, live: Any) -> None:
        """Record that the signature of a function or of a class's constructor is read."""
        if type(live) is types.FunctionType and self._is_of_project(live):
            self.found.reads.add((str(live.__module__), f"{live.__qualname__}(...)"))
        elif is_class(live):
            for base in order_of(live):
                self.found.reads.add((str(defining_module_name(base)), f"{qualified_name(base)}.__init__(...)"))
        elif live is not UNKNOWN_OBJECT:
            called = _unbound_attribute(type(live), "__call__")
            if self._is_of_project(called):
                self._read_signature(called)

    def _operator(self, node: ast.BinOp) -> Value:
        left, right = self.value(node.left), self.value(node.right)
        word = OPERATOR_METHOD_NAMES.get(type(node.op), "")
        for owner, given, name in ((left, right, f"__{word}__"), (right, left, f"__r{word}__")):
            found = _unbound_attribute(owner.kind, name) if owner.kind is not None else UNKNOWN_OBJECT
            if type(found) is types.FunctionType and self._is_of_project(found):
                return self._run(found, [owner, given], node)
        self._record_special_methods([left, right], f"__{word}__", f"__r{word}__")
        for kind in (left.kind, right.kind):
            if is_class(kind) and "_flag_mask_" in space_of(kind):
                self._read_whole(kind)  # the result is a member, or a combination with the names of members
        if isinstance(node.op, ast.Mod):
            self._record_special_methods(
                [*self._items_of(right)] if right.items is not None else [right], "__str__", "__repr__"
            )
        if isinstance(node.op, ast.Add) and type(left.live) is str and type(right.live) is str:
            return Value(live=left.live + right.live)
        kind = left.kind if left.kind is not None and is_immutable_kind(left.kind) else right.kind
        return Value(kind=kind if left.kind is right.kind or left.kind is None else left.kind)

    # Calls

    def _call(self, node: ast.Call) -> Value:
        function = self.value(node.func)
        given = [self.value(argument) for argument in node.args]
        named = {keyword.arg: self.value(keyword.value) for keyword in node.keywords}
        return self._apply(function, node.func, given, node, named)

    def _apply(  # noqa: C901, PLR0912, PLR0915  # one branch for each kind of callable
        self,
        function: Value,
        call: ast.AST,
        given: list[Value],
        node: ast.AST,
        named: dict[str | None, Value] | None = None,
        *,
        is_decorator: bool = False,
    ) -> Value:
        """Visit a call, and return the value of its result. `given` and `named` are the arguments."""
        named = named or {}
        every = [*given, *named.values()]
        live = function.live
        if live is None:
            return Value()  # the call fails, or is never reached
        if function.alternatives:
            return _either(
                [
                    self._apply(alternative, call, given, node, named, is_decorator=is_decorator)
                    for alternative in function.alternatives
                ]
            )
        if function.options:
            return self._apply_each(function, call, given, node, named)
        while type(live) is functools.partial:
            given = [*(Value(_roots(argument), argument) for argument in live.args), *given]
            named = {**{name: Value(_roots(value), value) for name, value in live.keywords.items()}, **named}
            live = live.func
        if type(live) is types.MethodType and self._is_of_project(live.__func__):
            given = [Value(_roots(live.__self__), live.__self__), *given]
            live = live.__func__
        function = function if live is function.live else Value(function.roots, live)
        if function.inner is not None:
            inner, outer = function.inner
            return self._run_node(inner, outer, given, named, node)
        if type(live) is types.FunctionType:
            attributes = self._is_of_project(live)
            if attributes:
                bound = [function.bound] if function.bound is not None else []
                return self._run(live, [*bound, *given], node, named)
        if live is not UNKNOWN_OBJECT and is_class(live):
            return self._construct(live, every, given, named, node)
        self._note_arguments(function, call, every)
        if (getattr(live, "__module__", ""), getattr(live, "__name__", "")) in PICKLING_FUNCTIONS:
            self._note_pickling(given, node)
        if any(live is setter for setter in ATTRIBUTE_SETTERS):
            owner = given[0] if given else Value()
            self.found.fills |= owner.roots
            name = given[1].live if len(given) > 1 else UNKNOWN_OBJECT
            self.found.attributes.update((root, name if type(name) is str else "*") for root in owner.roots)
            self._set_attribute(owner, name if type(name) is str else None, given[2] if len(given) > 2 else None)
            if live is setattr:
                self._run_setters(owner, name if type(name) is str else None)
            if owner.live is not UNKNOWN_OBJECT and type(owner.live) is types.ModuleType:
                if module_dict(owner.live) is not self.space:
                    self._record_effect(node)
                self.found.fills.add(id(self.space))
            return Value()
        wrapped = attribute_dict(live).get("__wrapped__") if live is not UNKNOWN_OBJECT else None
        registry = attribute_dict(live).get("registry") if type(live) is types.FunctionType else None
        if type(registry) is types.MappingProxyType and "dispatch" in attribute_dict(live):
            bound = [function.bound] if function.bound is not None else []
            return self._run_each(list(registry.values()), [*bound, *given], node, named)
        if type(live) is types.FunctionType and self._is_of_project(wrapped):
            made = self._run(wrapped, given, node, named)
            home = str(live.__globals__.get("__name__")).partition(".")[0]
            if home in LIBRARY_DECORATORS:
                return Value(made.roots)
        if (
            type(live).__module__ == "functools"
            and type(wrapped) is types.FunctionType
            and self._is_of_project(wrapped)
        ):
            return self._run(wrapped, given, node, named)
        if isinstance(call, ast.Attribute) and function.bound is not None and live is not UNKNOWN_OBJECT:
            return self._method_call(call.attr, function.bound, every, node)
        if live is not UNKNOWN_OBJECT and given and is_sorting_function(live):
            self._record_special_methods([*self._items_of(given[0]), *given[1:]], *METHODS_CALLED_ON_ITEMS["sort"])
            self.found.fills |= given[0].roots
            return Value(given[0].roots)
        if live is not UNKNOWN_OBJECT and is_pure_callable(live):
            return self._pure_call(live, every, node, is_decorator=is_decorator)
        caller = _unbound_attribute(function.kind, "__call__") if function.kind is not None else UNKNOWN_OBJECT
        if type(caller) is types.FunctionType and self._is_of_project(caller):
            return self._run(caller, [Value(function.roots | _roots(live), live, function.kind), *given], node, named)
        if is_decorator and live is UNKNOWN_OBJECT and not function.roots and function.bound is None:
            return Value(given[0].roots)  # the decorator was returned by a pure call to a library
        is_made = isinstance(call, ast.Call) and len(given) == 1  # a call to a decorator returned by another call
        if live is not UNKNOWN_OBJECT and (is_decorator or is_made) and is_wrapping_decorator(live):
            return Value(given[0].roots if given else NO_ROOTS)
        if (
            live is not UNKNOWN_OBJECT
            and len(given) == 1
            and str(defining_module_name(type(live))).startswith("_pytest.mark")
        ):
            return Value(given[0].roots, given[0].live)
        if (
            live is not UNKNOWN_OBJECT
            and is_wrapping_decorator(live)
            and type(live) is types.FunctionType
            and not _has_roots(every)
        ):
            # The call returns a decorator, whose effects are determined when it is applied.
            return Value(live=live)
        if isinstance(call, ast.Attribute) and function.bound is not None:
            return self._method_call(call.attr, function.bound, every, node)
        if is_decorator and isinstance(call, ast.Call) and function.roots and self.found.effect is None:
            # Whatever a registering method of an object returns also registers things in that object.
            self.found.fills |= function.roots
            return Value(given[0].roots)
        if is_decorator and function.roots and isinstance(call, ast.Attribute):
            self.found.fills |= function.roots
            return Value(given[0].roots)
        if live is UNKNOWN_OBJECT and not is_decorator and not isinstance(call, ast.Call):
            is_part = not function.roots.isdisjoint(self.found.objects)
            reached = self._callables_in(function.roots if is_part else frozenset(self.found.objects))
            if reached and is_part:
                function.options = reached
                return self._apply_each(function, call, given, node, named)
        for argument in every if type(live) is types.FunctionType and self.names is None else ():
            if is_class(argument.live) and self._is_workspace_class(argument.live):
                self._read_whole(argument.live, "=")  # the library may now create an object of the class
        self._record_effect(node)
        return Value(function.roots)

    def _note_pickling(self, given: list[Value], node: ast.AST) -> None:
        """Visit the methods that copying an object calls, and the function that creates the copy."""
        for argument, name in itertools.product(given[:1], PICKLING_METHODS):
            found = _unbound_attribute(argument.kind, name) if argument.kind is not None else UNKNOWN_OBJECT
            if self._is_of_project(found):
                made = self._run(found, [argument], node)
                if name in ("__reduce_ex__", "__reduce__") and made.items:
                    self._apply(made.items[0], node, [], node)

    def _callables_in(self, roots: Roots) -> tuple[Any, ...]:
        """Return the functions that a call may reach if the called object is an unknown part of these objects.

        Returns () if it may reach other functions too.
        """
        named = [self.found.objects[key] for key in roots if key in self.found.objects]
        level = [value for value in named if type(value) is not types.FunctionType]
        seen: set[int] = set()
        functions: list[Any] = []
        is_known = True
        while level and len(seen) < MAX_SEARCHED_PARTS:
            candidate = level.pop()
            kind = type(candidate)
            if id(candidate) in seen or is_class(candidate) or issubclass(kind, (types.ModuleType, str, bytes, int)):
                continue
            seen.add(id(candidate))
            inner = candidate.__func__ if type(candidate) is types.MethodType else candidate
            if type(inner) is types.FunctionType:
                if self._is_of_project(inner):
                    functions.append(candidate)
                    self.found.reads.add((str(inner.__module__), f"{inner.__qualname__}()"))
                else:
                    is_known = False
            elif issubclass(kind, dict):
                level += dict.values(candidate)
            elif issubclass(kind, (list, tuple, set)):
                level += next(base for base in (list, tuple, set) if issubclass(kind, base)).__iter__(candidate)
            elif instance_dict_of(candidate) is not None:
                level += attribute_dict(candidate).values()
            elif callable(candidate):
                is_known = False
        return tuple(functions) if is_known and len(functions) <= MAX_NAMED else ()

    def _apply_each(
        self, function: Value, call: ast.AST, given: list[Value], node: ast.AST, named: dict[str | None, Value]
    ) -> Value:
        """Visit a call once for each object that the called value may be."""
        return _either(
            [self._apply(Value(function.roots, option), call, given, node, named) for option in function.options]
        )

    def _run_each(
        self, functions: list[Any], given: list[Value], node: ast.AST, named: dict[str | None, Value]
    ) -> Value:
        """Visit the bodies of all functions that a call may reach."""
        roots: Roots = NO_ROOTS
        for function in functions:
            while not self._is_of_project(function) and attribute_dict(function).get("__wrapped__") is not None:
                function = attribute_dict(function)["__wrapped__"]  # noqa: PLW2901  # the function within
            if self._is_of_project(function):
                roots |= self._run(function, given, node, named).roots
            else:
                self._record_effect(node)
        return Value(roots)

    def _note_arguments(self, function: Value, call: ast.AST, every: list[Value]) -> None:
        """Record what a library reads from functions and classes that are passed to it."""
        owner = function.bound
        called = function.live if function.live is not UNKNOWN_OBJECT else None if owner is None else owner.kind
        library = _library_of(called)
        method = call.attr if isinstance(call, ast.Attribute) else ""
        for argument in every if library in SIGNATURE_READING_LIBRARIES else ():
            self._read_signature(argument.live)
        for argument in every if library == "flask" or method.startswith("register") else ():
            deferred = attribute_dict(argument.live).get(DEFERRED_ATTRIBUTE) if argument.live is not None else None
            for recorded in deferred if type(deferred) is list else ():
                if self._is_of_project(recorded):
                    self.found.reads.add((str(recorded.__module__), f"{recorded.__qualname__}()"))
        for argument in every if method in CONFIGURATION_READING_METHODS else ():
            if is_class(argument.live):
                self._read_whole(argument.live)
        if owner is not None and is_class(owner.live) and self._is_workspace_class(owner.live):
            found = _function_of(_unbound_attribute(owner.live, method))
            if type(found) is types.FunctionType and not self._is_of_project(found):
                self._read_whole(owner.live, "+")
                self._read_overridden(owner.live)

    def _pure_call(  # noqa: C901, PLR0912  # one branch per case
        self, live: Any, every: list[Value], node: ast.AST, *, is_decorator: bool = False
    ) -> Value:
        """Visit a call to a function that has no effects itself, and return the value of its result.

        The function may call functions passed as arguments.
        """
        name = getattr(live, "__name__", "")
        only_stores = is_decorator or _only_stores(live)
        is_module = live is builtins.globals or self.names is None
        if live in (builtins.globals, builtins.vars, builtins.locals) and not every and is_module:
            self.found.guesses.add((self.home, "**"))
            return Value(frozenset((id(self.space),)), self.space)
        if live is builtins.dir and not every and self.names is None:
            self.found.guesses.add((self.home, "**"))
        if live in (builtins.dir, builtins.vars) and every and type(every[0].live) is types.ModuleType:
            space = module_dict(every[0].live)
            if live is builtins.dir and self._is_of_project(space.get("__dir__")):
                self._run(space["__dir__"], [], node)
            else:
                self.found.guesses.add((str(space.get("__name__")), "**"))
        if name in ("import_module", "__import__") and every and type(every[0].live) is str:
            return _imported_module(every[0].live, every[1].live if len(every) > 1 else None)
        for argument in every:
            if is_class(argument.live) and name in CLASS_READING_FUNCTIONS:
                self._read_whole(argument.live)
            kind = argument.live if is_class(argument.live) else argument.kind
            if is_class(kind) and kind not in PLAIN_TYPES and not only_stores and live not in vars(builtins).values():
                for each in order_of(kind)[:-1]:
                    self.found.guesses.add((str(defining_module_name(each)), f"{qualified_name(each)}.%"))
            if name in SIGNATURE_READING_FUNCTIONS:
                self._read_signature(argument.live)
        for argument in every:
            if argument.inner is not None and not only_stores:
                for item in self._arguments_passed_to(name, argument, every):
                    self._run_node(argument.inner[0], argument.inner[1], [item, Value(), Value()], {}, node)
            elif type(argument.live) is types.FunctionType and self._is_of_project(argument.live) and not only_stores:
                bound = [argument.bound] if argument.bound is not None else []
                for item in self._arguments_passed_to(name, argument, every):
                    self._run(argument.live, [*bound, item, Value(), Value()], node)
            elif name in CALLING_BUILTINS and is_class(argument.live) and self._is_workspace_class(argument.live):
                for item in self._arguments_passed_to(name, argument, every):
                    self._construct(argument.live, [item], [item], {}, node)
        self._note_special_methods(name, every)
        if name in COPYING_FUNCTIONS and every and str(live.__module__).partition(".")[0] in COPYING_LIBRARIES:
            self._note_copying(every[0], node)
        if live is builtins.super:
            return self._super(every)
        if live is type and len(every) == 1 and is_class(every[0].kind):
            return Value(_roots(every[0].kind), every[0].kind)
        if name == "next" and every:
            self.found.fills |= every[0].roots
        if name in ("getattr", "hasattr") and len(every) > 1 and type(every[1].live) is str:
            attribute = ast.copy_location(ast.Attribute(ast.Name("", ast.Load()), every[1].live, ast.Load()), node)
            found = self._attribute(every[0], attribute)
            return Value() if name == "hasattr" else _either([found, *every[2:]]) if len(every) > 2 else found
        if name in ("getattr", "vars") and every:
            return Value(every[0].roots)
        items = self._items_returned_by(name, every) if live is builtins.__dict__.get(name) else None
        return Value(kind=live if is_class(live) else None, items=items)

    def _arguments_passed_to(self, name: str, function: Value, every: list[Value]) -> list[Value]:
        """Return the values that a built-in function passes to a function that it gets as an argument.

        These are elements of the other arguments.
        """
        if name not in CALLING_BUILTINS:
            return [Value()]
        others = [argument for argument in every if argument is not function]
        return [item for argument in others[:1] for item in self._items_of(argument)] or [Value()]

    def _super(self, every: list[Value]) -> Value:
        """Return what is known about the value returned by `super()`."""
        owner = (self.names or {}).get("self")
        for base in order_of(owner.kind) if owner is not None and owner.kind is not None else ():
            self.found.guesses.add((str(defining_module_name(base)), str(qualified_name(base))))
        if not every and self.names:
            home = self.names.get("__class__")
            first = self.names.get("self") or self.names.get("cls")
            kind = (
                first.live if first is not None and is_class(first.live) else first.kind if first is not None else None
            )
            if home is not None and first is not None and is_class(home.live):
                known = kind if is_class(kind) and home.live in order_of(kind) else home.live
                made = Value(first.roots, first.live, known)
                made.after = home.live
                return made
        return Value(owner.roots if owner is not None else NO_ROOTS, kind=object)

    def _note_copying(self, original: Value, node: ast.AST) -> None:
        """Visit the methods that complete a copy of an object.

        The attributes of the copy are those of the original, which the methods may change.
        """
        copied = Value(original.roots, kind=original.kind)
        for name in CONSTRUCTING_METHODS[1:]:
            function = _unbound_attribute(copied.kind, name) if copied.kind is not None else None
            if self._is_of_project(function):
                self._run(function, [copied], node)

    def _note_special_methods(self, name: str, every: list[Value]) -> None:
        """Record the special methods that a built-in function calls on its arguments and their elements."""
        self._record_special_methods(every, *METHODS_CALLED_BY.get(name, ()))
        if name in ITERATING_FUNCTIONS:
            iterated = every if name not in ("map", "filter") else every[1:]
            self._record_special_methods(iterated, "__iter__", "__next__")
            if name in METHODS_CALLED_ON_ITEMS:
                self._record_special_methods(
                    [item for collection in iterated for item in self._items_of(collection)],
                    *METHODS_CALLED_ON_ITEMS[name],
                )
                self._record_special_methods(iterated if len(iterated) > 1 else (), *METHODS_CALLED_ON_ITEMS[name])
        if name in ("isinstance", "issubclass") and len(every) == 2 and is_class(every[1].live):
            space = space_of(every[1].live)
            if space.get("_is_protocol"):
                self.found.guesses.update(("*", f".{attribute}") for attribute in space if attribute[:2] != "__")
            self._read_attribute(every[1].live, "__subclasshook__")
            hook = _function_of(_unbound_attribute(every[1].live, "__subclasshook__"))
            if self._is_of_project(hook):
                self._run(hook, [every[1], every[0]], ast.Pass())
                checked = every[0].live if is_class(every[0].live) else every[0].kind
                if is_class(checked):
                    self._read_whole(checked, "+")

    def _items_returned_by(self, name: str, every: list[Value]) -> tuple[Value, ...] | None:
        """Return the values that iterating over a built-in function's result yields, or None if unknown."""
        is_sorted = name == "sorted" and bool(every)
        if is_sorted or (name in ("list", "tuple", "set", "frozenset", "reversed", "iter") and len(every) == 1):
            return tuple(self._items_of(every[0]))
        if name == "filter" and len(every) == 2:
            return tuple(self._items_of(every[1]))
        if name == "enumerate" and every:
            return tuple(Value(kind=tuple, items=(Value(kind=int), item)) for item in self._items_of(every[0]))
        if name == "zip" and every:
            columns = [self._items_of(argument) for argument in every]
            count = max(map(len, columns))
            return tuple(
                Value(kind=tuple, items=tuple(column[min(number, len(column) - 1)] for column in columns))
                for number in range(count)
            )
        return None

    def _construct(
        self, kind: Any, every: list[Value], given: list[Value], named: dict[str | None, Value], node: ast.AST
    ) -> Value:
        """Visit the creation of an object, and return what is known about the object."""
        made = Value(kind=kind)
        is_partly_known = None in named or any(
            isinstance(argument, ast.Starred) for argument in getattr(node, "args", ())
        )
        made.attributes = None if is_partly_known else _fields_given(kind, given, named)
        self._note_arguments(Value(live=kind), node, every)
        if is_pure_callable(kind):
            return self._pure_call(kind, every, node)
        is_known = True
        init = _unbound_attribute(kind, "__init__")
        # The constructor that a dataclass generates only calls `__post_init__` and default factories.
        is_dataclass = (
            type(kind) is type
            and "__dataclass_fields__" in space_of(kind)
            and _unbound_attribute(kind, "__setattr__") is object.__setattr__
        )
        is_inherited = type(init) is types.FunctionType and init.__code__.co_filename[:1] != "<"
        if not self._is_of_project(init) and (is_inherited or not is_plain_class(kind)) and not is_dataclass:
            for base in order_of(kind):
                self.found.guesses.add((str(defining_module_name(base)), f"{qualified_name(base)}.%"))
        for factory in _default_factories_of(kind):
            if self._is_of_project(factory):
                self._run(factory, [], node)
        for name in CONSTRUCTING_METHODS:
            found = _unbound_attribute(kind, name)
            found = found.__func__ if type(found) is staticmethod else found
            if type(found) is not types.FunctionType:
                continue
            if self._is_of_project(found):
                first = Value(_roots(kind), kind) if name == "__new__" else made
                result = self._run(found, [first, *(given if name in ("__new__", "__init__") else [])], node, named)
                made.roots |= result.roots if name == "__new__" else NO_ROOTS
            elif found.__code__.co_filename[:1] != "<" and not is_pure_callable(found):
                is_known = False
        if (type(kind) is not type and not is_known) or not is_known or not self._is_workspace_class(kind):
            self._record_effect(node)
        call = _unbound_attribute(type(kind), "__call__")
        if type(call) is types.FunctionType and self._is_of_project(call):
            self._run(call, [Value(live=kind), *given], node, named)
        return made

    def _is_workspace_class(self, kind: Any) -> bool:
        values = list(space_of(kind).values())
        found = [value for value in values if type(value) is types.FunctionType]
        if any(self._is_of_project(function) for function in found):
            return True
        module = sys.modules.get(str(defining_module_name(kind)))
        name = str(module_dict(module).get("__file__")) if module is not None else ""
        return self.analysis.source(name) is not None

    def _method_call(  # noqa: C901, PLR0912  # one branch for each kind of object
        self, name: str, owner: Value, every: list[Value], node: ast.AST
    ) -> Value:
        """Visit a call to a method defined outside the workspace, and return the value of its result."""
        for argument in every if name in CALLING_METHODS else ():
            if self._is_of_project(argument.live):
                self._run(argument.live, [Value(), Value()], node)
            if argument.inner is not None:
                self._run_node(argument.inner[0], argument.inner[1], [Value(), Value()], {}, node)
        if not is_filling_method(name) and (owner.live is UNKNOWN_OBJECT or not is_class(owner.live)):
            self._read_overrides(owner, name)
        if is_class(owner.live):
            if is_pure_callable(owner.live) and name not in IMPURE_NAMES:
                return Value(kind=owner.live)
            if is_filling_method(name):
                self.found.fills |= owner.roots
            elif name not in READING_METHODS:
                self._record_effect(node)
            return Value(owner.roots)
        if owner.kind is not None and str(defining_module_name(owner.kind)).partition(".")[0] == "_pytest":
            return Value()  # pytest marks
        if name in ("sort", "format"):
            self._record_special_methods(
                self._items_of(owner) if name == "sort" else every,
                *METHODS_CALLED_BY.get(name, METHODS_CALLED_ON_ITEMS["sort"]),
            )
        if owner.kind is not None and is_immutable_kind(owner.kind):
            if name in (
                "write_text",
                "write_bytes",
                "mkdir",
                "unlink",
                "touch",
                "rename",
                "rmdir",
                "open",
                "now",
                "today",
            ):
                self._record_effect(node)
            return Value()
        if name in ("keys", "values", "items") and type(owner.live) is dict and not every:
            return Value(owner.roots, items=self._parts_of(owner, name))
        if name == "get" and type(owner.live) is dict and owner.live and every:
            values = self._kinds_in(list(owner.live.values())[:MAX_ITEMS], owner.roots)
            known = owner.live.get(every[0].live, UNKNOWN_OBJECT) if type(every[0].live) is str else UNKNOWN_OBJECT
            return _either([*values, *every[1:]] if known is UNKNOWN_OBJECT else self._kinds_in([known], owner.roots))
        if name in READING_METHODS and (not is_filling_method(name) or is_standard_mapping(owner.kind)):
            if _library_of(owner.kind) == "pydantic":
                self._guess_code_of_models(owner.kind)
            return Value(owner.roots)
        if owner.kind is not None and is_collection(owner.kind):
            if name in MUTATING_METHODS or name in CONFIGURATION_READING_METHODS:
                self.found.fills |= owner.roots
            return Value(owner.roots)
        if is_filling_method(name):
            self.found.fills |= owner.roots
            return Value(owner.roots)
        self._note_callbacks(owner)
        self.found.fills |= owner.roots
        self._record_effect(node)
        return Value(owner.roots)

    def _guess_code_of_models(self, kind: Any, seen: frozenset[int] = frozenset()) -> None:
        """Record that a library may call any function in a model and in the models that its fields contain."""
        if id(kind) in seen:
            return
        for base in order_of(kind):
            self.found.guesses.add((str(defining_module_name(base)), f"{qualified_name(base)}.%"))
        fields = _unbound_attribute(kind, "__pydantic_fields__")
        for field in fields.values() if type(fields) is dict else ():
            waiting = [_slot(field, "annotation")]
            while waiting:
                annotation = waiting.pop()
                waiting += (
                    getattr(annotation, "__args__", ()) if type(annotation).__module__ in ("typing", "types") else ()
                )
                if is_class(annotation) and _library_of(annotation) == "pydantic":
                    self._guess_code_of_models(annotation, seen | {id(kind)})

    def _read_overrides(self, owner: Value, name: str) -> None:
        """Record what is read by those methods of a workspace class that an inherited library method may call."""
        inherited = _unbound_attribute(owner.kind, name)
        if type(inherited) is not types.FunctionType or not self._is_workspace_class(owner.kind):
            return
        for kind in order_of(owner.kind)[:-1]:
            for function in map(_function_of, list(space_of(kind).values())):
                if self._is_of_project(function) and function.__name__ not in CONSTRUCTING_METHODS:
                    self._read_call(function, [owner])

    def _read_call(self, function: Any, given: list[Value]) -> None:
        """Record what a call to a workspace function would read, without its effects."""
        inside = Effects()
        inside.nodes = self.found.nodes
        _Walk(self.analysis, self.space, None, inside, self.stack).run_with(function, given)
        self.found.reads |= inside.reads
        self.found.guesses |= inside.guesses
        self.found.nodes = inside.nodes

    def _note_callbacks(self, owner: Value) -> None:
        """Record the methods of a workspace class that an inherited library method may call."""
        for kind in order_of(owner.kind)[:-1] if is_class(owner.kind) else ():
            for name, value in list(space_of(kind).items()):
                if self._is_of_project(_function_of(value)):
                    self.found.reads.add((str(defining_module_name(kind)), f"{qualified_name(kind)}.{name}()"))
                    self.found.reads.add((str(defining_module_name(kind)), f"{qualified_name(kind)}.+"))

    def _parts_of(self, owner: Value, name: str) -> tuple[Value, ...]:
        """Return the values that iterating over the keys, values or items of an existing dictionary yields."""
        live: dict[Any, Any] = owner.live
        keys = self._kinds_in(list(live)[:MAX_ITEMS], owner.roots)
        if name == "keys":
            return tuple(keys)
        values = self._kinds_in(list(live.values())[:MAX_ITEMS], owner.roots)
        if name == "values":
            return tuple(values)
        return tuple(Value(owner.roots, kind=tuple, items=(key, value)) for value in values for key in keys[:1])

    def _is_of_project(self, function: Any) -> bool:
        return type(function) is types.FunctionType and self.analysis.source(function) is not None

    def run(self, function: Any) -> None:
        """Visit the body of a workspace function that is called with unknown arguments."""
        self._run(function, [], ast.Pass())

    def run_with(self, function: Any, given: list[Value]) -> None:
        """Visit the body of a workspace function that is called with these positional arguments."""
        self._run(function, given, ast.Pass())

    def _run(
        self, function: Any, given: list[Value], node: ast.AST, named: dict[str | None, Value] | None = None
    ) -> Value:
        """Visit the body of a workspace function, and return the value of the call."""
        self.found.calls.add(id(function))
        self.found.reads.add((str(function.__module__), f"{function.__qualname__}()"))
        source = self.analysis.source(function)
        if source is None:
            self._record_effect(node)
            return Value()
        closure = {
            name: _cell_value(cell) for name, cell in zip(function.__code__.co_freevars, function.__closure__ or ())
        }
        outer = _Walk(self.analysis, function.__globals__, closure, self.found, self.stack)
        return self._run_node(source, outer, given, named or {}, node, _defaults_of(function))

    def _run_node(
        self,
        inner: Any,
        outer: Any,
        given: list[Value],
        named: dict[Any, Value],
        node: ast.AST,
        defaults: dict[str, Any] | None = None,
    ) -> Value:
        """Visit the body of a function given by its syntax node `inner`, and return the value of the call.

        `outer` is the visitor of the scope that contains the function.
        """
        if id(inner) in self.stack:
            made = Value()
            made.is_recursive = True
            return made
        self.found.reads.add((outer.home, code_position_name(inner)))
        if len(self.stack) >= MAX_CALL_DEPTH:
            self._record_effect(node)
            return Value()
        names = dict(outer.names or {})
        arguments = inner.args
        plain = [parameter.arg for parameter in (*getattr(arguments, "posonlyargs", []), *arguments.args)]
        names.update({name: Value() for name in plain})
        names.update(zip(plain, given))
        names.update({kwonlyarg.arg: Value() for kwonlyarg in arguments.kwonlyargs})
        names.update({name: value for name, value in named.items() if name in names})
        is_partly_known = None in named or any(
            isinstance(argument, ast.Starred) for argument in getattr(node, "args", ())
        )
        for name, live in (defaults or {}).items():
            if name not in plain[: len(given)] and name not in named and name in names:
                self.found.defaults.add(id(live))
                if not is_partly_known:
                    names[name] = Value(_roots(live), live)
        for rest in (arguments.vararg, arguments.kwarg):
            if rest is not None:
                names[rest.arg] = Value()
        walk = _Walk(self.analysis, outer.space, names, self.found, (*self.stack, id(inner)))
        if isinstance(inner, ast.Lambda):
            return walk.value(inner.body)
        for statement in inner.body:
            walk.statement(statement)
        if walk.is_generator:
            return Value(kind=types.GeneratorType, items=tuple(_distinct(walk.yielded)))
        if not walk.returned:
            return Value()
        return _either(walk.returned)

    def _record_effect(self, node: ast.AST) -> None:
        """Record that a statement may have external effects, unless an earlier statement was recorded."""
        if self.found.effect is None:
            self.found.effect = f"line {getattr(node, 'lineno', 0)}"


def _either(values: list[Value]) -> Value:
    """Combine several values into one that may be any of them."""
    roots: Roots = frozenset().union(*(value.roots for value in values))
    flat = [alternative for value in values for alternative in (value.alternatives or (value,))]
    options = _distinct(flat)
    if len(options) == 1:
        only = options[0]
        made = Value(roots, only.live, only.kind, only.inner, only.bound, only.items)
        made.options, made.is_recursive = only.options, only.is_recursive
        made.attributes = only.attributes if len(flat) == 1 else None
        return made
    kinds = {option.kind for option in options}
    kind = kinds.pop() if len(kinds) == 1 else None
    made = Value(roots, kind=kind)
    if kind is None or kind in FUNCTION_TYPES:
        made.alternatives = tuple(options)
    return made


def _distinct(values: list[Value]) -> list[Value]:
    """Return the values without duplicates, one for each known type, object and function."""
    found: dict[Any, Value] = {}
    for value in values:
        bound = None if value.bound is None else (value.bound.kind, id(value.bound.live))
        function = value.inner and id(value.inner[0])
        found.setdefault((value.kind, id(value.live), function, bound, value.items), value)
    return list(found.values())[:MAX_NAMED]


def code_position_name(node: Any) -> str:
    """Return a name for the code of a function or lambda, based on its position in the source."""
    return f"<{node.lineno}:{node.col_offset}>()"


def _library_of(value: object) -> str:
    """Return the top-level package of a function, of a class, or of an object's class."""
    kind: Any = value if is_class(value) else type(value)
    if type(value) is types.FunctionType:
        return str(value.__globals__.get("__name__")).partition(".")[0]
    return next(
        (
            top
            for base in order_of(kind)
            if (top := str(defining_module_name(base)).partition(".")[0]) in SIGNATURE_READING_LIBRARIES
        ),
        "",
    )


def _defaults_of(function: types.FunctionType) -> dict[str, Any]:
    """Return the default values of a function's parameters, by name."""
    code, given = function.__code__, function.__defaults__ or ()
    plain = code.co_varnames[: code.co_argcount]
    return {**dict(zip(plain[len(plain) - len(given) :], given)), **(function.__kwdefaults__ or {})}


def _cell_value(cell: types.CellType) -> Value:
    """Return what is known about a variable in a closure."""
    try:
        live = cell.cell_contents
    except ValueError:
        return Value()
    return Value(_roots(live), live)


def _default_factories_of(kind: Any) -> list[Any]:
    """Return the functions that create default values for a dataclass, an attrs class or a pydantic model."""
    found = []
    fields = _unbound_attribute(kind, "__dataclass_fields__")
    if type(fields) is dict:
        found += [
            attribute_dict(field).get("default_factory") or _slot(field, "default_factory") for field in fields.values()
        ]
    attributes = _unbound_attribute(kind, "__attrs_attrs__")
    if isinstance(attributes, tuple):
        for attribute in attributes:
            default = _slot(attribute, "default")
            found += [_slot(default, "factory"), _slot(attribute, "converter")]
    fields = _unbound_attribute(kind, "__pydantic_fields__")
    if type(fields) is dict:
        found += [_slot(field, "default_factory") for field in fields.values()]
    return found


def _fields_given(kind: Any, given: list[Value], named: dict[str | None, Value]) -> dict[str, Value]:
    """Return the fields set by the arguments of a dataclass's generated constructor, by name."""
    fields = _unbound_attribute(kind, "__dataclass_fields__")
    init = _unbound_attribute(kind, "__init__")
    if type(fields) is not dict or type(init) is not types.FunctionType or init.__code__.co_filename[:1] != "<":
        return {}
    code = init.__code__
    plain = code.co_varnames[1 : code.co_argcount]
    found = {**dict(zip(plain, given)), **{name: value for name, value in named.items() if name is not None}}
    values = {name: value for name, value in found.items() if name in fields}
    for name, live in _defaults_of(init).items():
        if name in fields and name not in found and type(live).__name__ != "_HAS_DEFAULT_FACTORY_CLASS":
            values[name] = Value(_roots(live), live)
    return values


def _slot(value: Any, name: str) -> Any:
    """Return an attribute that is stored in a slot of an object, or None."""
    slot = _unbound_attribute(type(value), name)
    if type(slot) is not types.MemberDescriptorType:
        return None
    try:
        return slot.__get__(value)
    except AttributeError:  # the slot is empty
        return None


def _imported_module(name: str, package: object) -> Value:
    """Return the module that `import_module` returns for a name, which may be relative to a package."""
    with contextlib.suppress(ImportError, ValueError):
        name = importlib.util.resolve_name(name, package if type(package) is str else None)
    module = sys.modules.get(name)
    return Value() if module is None else Value(live=module)


def _has_roots(values: Iterable[Value]) -> bool:
    return any(value.roots for value in values)


def _only_stores(live: Any) -> bool:
    """Return whether a callable only stores a function without calling it."""
    return getattr(live, "__name__", "") in (
        "partial", "partialmethod", "property", "staticmethod", "classmethod", "wraps", "lru_cache", "cache",
        "cached_property", "list", "tuple", "dict", "set", "isinstance", "callable", "type", "id", "field", "getattr",
        "hasattr", "singledispatch", "singledispatchmethod", "contextmanager", "asynccontextmanager",
        "abstractmethod", "repr", "str", "namedtuple", "total_ordering", "_path", "path", "re_path", "include",
    )  # fmt: skip


def is_generic_class(value: Any) -> bool:
    """Return whether a class is subscripted as with `typing.Generic`, which returns an alias of the class."""
    if not is_class(value) or _unbound_attribute(type(value), "__getitem__") is not UNKNOWN_OBJECT:
        return False
    definer = next((base for base in order_of(value) if "__class_getitem__" in space_of(base)), None)
    return definer is not None and (defining_module_name(definer), qualified_name(definer)) == ("typing", "Generic")


def _function_of(value: Any) -> Any:
    """Return the function in a static method or class method. Return other values unchanged."""
    return value.__func__ if type(value) in (staticmethod, classmethod) else value


def _unbound_attribute(kind: Any, name: str) -> Any:
    """Return an attribute of a class or its bases without binding it, or UNKNOWN_OBJECT."""
    if not is_class(kind):
        return UNKNOWN_OBJECT
    for base in order_of(kind):
        found = space_of(base).get(name, UNKNOWN_OBJECT)
        if found is not UNKNOWN_OBJECT:
            return found
    return UNKNOWN_OBJECT
