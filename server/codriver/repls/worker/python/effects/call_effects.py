"""Determine what a call reads, calls and changes, and what it returns."""

from __future__ import annotations

import ast
import functools
import itertools
import types

from ...basics.definition_access import defining_module_name, is_class
from ..enum_members import is_enum
from ..stored_attributes import attribute_dict, instance_dict_of, module_dict
from .abstract_values import MAX_NAMED, NO_ROOTS, Value, either, has_roots, roots_of
from .analyzed_call import AnalyzedCall
from .constructors import Constructors
from .effects import function_read
from .iterated_values import iterated_values
from .library_calls import LibraryCalls
from .pure_calls import LIBRARY_DECORATORS, is_pure_callable, is_sorting_function, is_wrapping_decorator
from .special_methods import METHODS_CALLED_ON_ITEMS
from .static_attributes import UNKNOWN_OBJECT, function_in, unbound_attribute

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .abstract_values import Roots
    from .attribute_access import AttributeAccess
    from .effects import Effects
    from .function_runs import FunctionRuns
    from .library_reads import LibraryReads
    from .special_methods import SpecialMethods
    from .workspace_code import WorkspaceCode

ATTRIBUTE_SETTERS = (setattr, delattr, object.__setattr__, object.__delattr__, type.__setattr__, type.__delattr__)
"""Functions that set or delete attributes of their first argument."""
LIBRARY_FUNCTION_TYPES = (types.FunctionType, types.BuiltinFunctionType)
MAX_SEARCHED_PARTS = 300
"""Maximum number of parts of an object that are searched for functions."""
PICKLING_FUNCTIONS = frozenset({("pickle", "dumps"), ("_pickle", "dumps"), ("copy", "copy"), ("copy", "deepcopy")})
"""Functions that copy an object, or serialize it so that it can be copied, by module and name."""
PICKLING_METHODS = (
    "__copy__", "__deepcopy__", "__getnewargs_ex__", "__getnewargs__", "__getstate__", "__setstate__", "__reduce_ex__",
    "__reduce__",
)  # fmt: skip
"""Special methods called by `PICKLING_FUNCTIONS`, or when the copy is created. Source: `pickle` and `copy`."""


class CallEffects:
    """Determines the effects of calls: to workspace code, classes, functions such as `setattr`, and libraries."""

    def __init__(
        self,
        found: Effects,
        workspace: WorkspaceCode,
        runs: FunctionRuns,
        attributes: AttributeAccess,
        special: SpecialMethods,
        library: LibraryReads,
    ) -> None:
        self.found, self.workspace, self.runs = found, workspace, runs
        self.attributes, self.special, self.library = attributes, special, library
        self.constructors = Constructors(found, workspace, runs)
        self.library_calls = LibraryCalls(
            found, workspace, runs, attributes, special, library, self.constructors, self.construct
        )

    def apply(self, call: AnalyzedCall, *, is_decorator: bool = False) -> Value:
        """Visit a call, and return the value of its result."""
        function = call.function
        if function.live is None:
            return Value()  # the call fails, or is never reached
        if function.alternatives:
            return either(
                [
                    self.apply(call.with_function(alternative), is_decorator=is_decorator)
                    for alternative in function.alternatives
                ]
            )
        if function.options:
            return self._apply_each(call)
        call = self._unwrap(call)
        function, live = call.function, call.function.live
        if function.inner is not None:
            inner, outer = function.inner
            return self.runs.run_node(inner, outer, call.given, call.named, call.node)
        if self.workspace.has_function(live):
            return self.runs.run(live, call.given_with_bound, call.node, call.named)
        if live is not UNKNOWN_OBJECT and is_class(live):
            return self.construct(live, call)
        self.library.read_arguments(function, call.expression, call.every)
        if (getattr(live, "__module__", ""), getattr(live, "__name__", "")) in PICKLING_FUNCTIONS:
            self._pickle(call)
        if any(live is setter for setter in ATTRIBUTE_SETTERS):
            return self._set_attribute(call)
        if live is not UNKNOWN_OBJECT:
            made = self._apply_wrapper(call) or self._apply_known_function(call, is_decorator=is_decorator)
            if made is not None:
                return made
        caller = unbound_attribute(function.kind, "__call__") if function.kind is not None else UNKNOWN_OBJECT
        if self.workspace.has_function(caller):
            owner = Value(function.roots | roots_of(live), live, function.kind)
            return self.runs.run(caller, [owner, *call.given], call.node, call.named)
        return self._apply_decorator(call, is_decorator=is_decorator) or self._apply_unknown(
            call, is_decorator=is_decorator
        )

    def construct(self, kind: Any, call: AnalyzedCall) -> Value:
        """Visit the creation of an object, and return what is known about the object."""
        self.library.read_arguments(Value(live=kind), call.node, call.every)
        if kind is type and len(call.given) == 3:
            self._run_class_hooks(call)
        if is_pure_callable(kind) and not self.workspace.has_class(kind):
            return self.library_calls.call_pure(kind, call)
        if is_enum(kind):
            self.found.read_class(kind, "=")  # the call looks up a member by its value
        return self.constructors.create(kind, call)

    def _run_class_hooks(self, call: AnalyzedCall) -> None:
        """Visit the hooks of the bases of a class that is created by calling `type` or `types.new_class`."""
        bases = call.given[1] if len(call.given) > 1 else Value()
        lived = [base.live for base in bases.items] if bases.items is not None else bases.live
        for base in lived if type(lived) in (list, tuple) else ():
            hook = function_in(unbound_attribute(base, "__init_subclass__")) if is_class(base) else None
            if self.workspace.has_function(hook):
                self.runs.run(hook, [Value(kind=type(base))], call.node, call.named)

    def _unwrap(self, call: AnalyzedCall) -> AnalyzedCall:
        """Return the call of the function within a partial object, a partial method or a bound method."""
        live, given, named = call.function.live, call.given, call.named
        while type(live) in (functools.partial, functools.partialmethod):
            given = [*(Value(roots_of(argument), argument) for argument in live.args), *given]
            named = {**{name: Value(roots_of(value), value) for name, value in live.keywords.items()}, **named}
            if type(live) is functools.partialmethod and call.function.bound is not None:
                given = [call.function.bound, *given]
            live = live.func
        if type(live) is types.MethodType and self.workspace.has_function(live.__func__):
            given = [Value(roots_of(live.__self__), live.__self__), *given]
            live = live.__func__
        if live is call.function.live:
            return call
        function = Value(call.function.roots, live)
        return AnalyzedCall(function, call.expression, given, named, call.node, call.scope, call.every)

    def _set_attribute(self, call: AnalyzedCall) -> Value:
        """Visit a call to a function such as `setattr`."""
        given, live = call.given, call.function.live
        owner = given[0] if given else Value()
        self.found.fills |= owner.roots
        known = given[1].live if len(given) > 1 else UNKNOWN_OBJECT
        name = known if type(known) is str else None
        self.found.attributes.update((root, "*" if name is None else name) for root in owner.roots)
        owner.set_attribute(name, given[2] if len(given) > 2 else None)
        if live is setattr:
            self.attributes.run_setters(owner, name)
        if owner.live is not UNKNOWN_OBJECT and type(owner.live) is types.ModuleType:
            if module_dict(owner.live) is not call.scope.space:
                self.found.record_effect(call.node)
            self.found.fills.add(id(call.scope.space))
        return Value()

    def _apply_wrapper(self, call: AnalyzedCall) -> Value | None:
        """Visit a call to a single-dispatch function or to a library's wrapper of a workspace function."""
        live, given, node, named = call.function.live, call.given, call.node, call.named
        wrapped = attribute_dict(live).get("__wrapped__")
        registry = attribute_dict(live).get("registry") if type(live) is types.FunctionType else None
        if type(registry) is types.MappingProxyType and "dispatch" in attribute_dict(live):
            return self.runs.run_each(list(registry.values()), call.given_with_bound, node, named)
        if type(live) is types.FunctionType and self.workspace.has_function(wrapped):
            made = self.runs.run(wrapped, given, node, named)
            home = str(live.__globals__.get("__name__")).partition(".")[0]
            if home in LIBRARY_DECORATORS:
                return Value(made.roots)
        if type(live).__module__ == "functools" and self.workspace.has_function(wrapped):
            return self.runs.run(wrapped, given, node, named)
        return None

    def _apply_known_function(self, call: AnalyzedCall, *, is_decorator: bool) -> Value | None:
        """Visit a call to a method or pure function outside the workspace."""
        function, live, given = call.function, call.function.live, call.given
        if isinstance(call.expression, ast.Attribute) and function.bound is not None:
            return self.library_calls.call_method(call.expression.attr, function.bound, call)
        if given and is_sorting_function(live):
            items = iterated_values(self.found, given[0])
            self.special.record([*items, *given[1:]], *METHODS_CALLED_ON_ITEMS["sort"])
            self.found.record_addition(given[0].roots)
            return Value(given[0].roots)
        if live is types.new_class:
            self._run_class_hooks(call)
        if is_pure_callable(live):
            return self.library_calls.call_pure(live, call, is_decorator=is_decorator)
        return None

    @staticmethod
    def _apply_decorator(call: AnalyzedCall, *, is_decorator: bool) -> Value | None:
        """Return the value of applying a library's decorator that only wraps or marks what it decorates."""
        function, live, given = call.function, call.function.live, call.given
        if live is UNKNOWN_OBJECT:
            if is_decorator and not function.roots and function.bound is None:
                return Value(given[0].roots)  # the decorator was returned by a pure call to a library
            return None
        is_wrapping = is_wrapping_decorator(live)
        is_made = isinstance(call.expression, ast.Call) and len(given) == 1  # a call returned the decorator
        if (is_decorator or is_made) and is_wrapping:
            return Value(given[0].roots if given else NO_ROOTS)
        if len(given) == 1 and str(defining_module_name(type(live))).startswith("_pytest.mark"):
            return Value(given[0].roots, given[0].live)
        if is_wrapping and type(live) is types.FunctionType and not has_roots(call.every):
            # The call returns a decorator, whose effects are determined when it is applied.
            return Value(live=live)
        return None

    def _apply_unknown(self, call: AnalyzedCall, *, is_decorator: bool) -> Value:
        """Visit a call that may have external effects."""
        function, expression, live = call.function, call.expression, call.function.live
        if isinstance(expression, ast.Attribute) and function.bound is not None:
            return self.library_calls.call_method(expression.attr, function.bound, call)
        is_made = isinstance(expression, ast.Call) and self.found.effect is None
        if is_decorator and function.roots and (is_made or isinstance(expression, ast.Attribute)):
            # Whatever a registering method of an object returns also registers things in that object.
            self.found.record_addition(function.roots)
            return Value(call.given[0].roots)
        if live is UNKNOWN_OBJECT and not is_decorator and not isinstance(expression, ast.Call):
            is_part = not function.roots.isdisjoint(self.found.objects)
            reached = self._callables_in(function.roots if is_part else frozenset(self.found.objects))
            if reached and is_part:
                function.options = reached
                return self._apply_each(call)
        for argument in call.every if type(live) in LIBRARY_FUNCTION_TYPES else ():
            if is_class(argument.live) and self.workspace.has_class(argument.live):
                self.found.read_class(argument.live, "=")  # the library may now create an object of the class
        self.found.record_effect(call.node)
        return Value(function.roots)

    def _apply_each(self, call: AnalyzedCall) -> Value:
        """Visit a call once for each object that the called value may be."""
        function = call.function
        return either([self.apply(call.with_function(Value(function.roots, option))) for option in function.options])

    def _pickle(self, call: AnalyzedCall) -> None:
        """Visit the methods that copying an object calls, and the function that creates the copy."""
        for argument, name in itertools.product(call.given[:1], PICKLING_METHODS):
            found = unbound_attribute(argument.kind, name) if argument.kind is not None else UNKNOWN_OBJECT
            if self.workspace.has_function(found):
                made = self.runs.run(found, [argument], call.node)
                if name in ("__reduce_ex__", "__reduce__") and made.items:
                    self.apply(AnalyzedCall(made.items[0], call.node, [], {}, call.node, call.scope))

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
                if self.workspace.has_function(inner):
                    functions.append(candidate)
                    self.found.reads.add(function_read(inner, "()"))
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
