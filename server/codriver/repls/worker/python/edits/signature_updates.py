"""Set the default values and annotations of existing functions."""

from __future__ import annotations

import ast
import types

from ...basics.definition_access import ABSENT
from ..live_functions import annotation_attribute
from ..statements import comparable_dump
from .function_wrappers import wrappers_in
from .open_classes import TRANSPARENT_DECORATORS
from .statement_syntax import called_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..statements import Change
    from .edited_module import EditedModule
    from .load_plan import LoadPlan

SIGNATURE_USED_REASON = "the decorators have already used the previous signature"


class SignatureUpdates:
    """Updates the signatures of functions in an edited module."""

    def __init__(self, edited: EditedModule, plan: LoadPlan) -> None:
        self.edited, self.plan = edited, plan

    def update(
        self, functions: list[types.FunctionType], node: Any, space: dict[str, Any], value: Any = ABSENT
    ) -> None:
        """Update the default values and annotations of functions. Defaults with unchanged source keep their value."""
        stub = without_body(node)
        locals_ = dict(space)
        exec(self.edited.compile(ast.Module([stub], []), "exec"), self.edited.space, locals_)
        made = locals_[node.name]
        old = self.plan.previous.get(id(node))
        for function in functions:
            self._record_undo(function)
            written = _default_values(old.node.args, function) if old is not None else {}
            fresh = _default_values(node.args, made)
            values = {
                name: written[name][1] if name in written and written[name][0] == text else value
                for name, (text, value) in fresh.items()
            }
            plain = [parameter.arg for parameter in (*getattr(node.args, "posonlyargs", []), *node.args.args)]
            function.__defaults__ = tuple(values[name] for name in plain if name in values) or None
            function.__kwdefaults__ = {
                kwonlyarg.arg: values[kwonlyarg.arg] for kwonlyarg in node.args.kwonlyargs if kwonlyarg.arg in values
            } or None
            self.annotate(function, annotation_attribute(made), value)

    def annotate(self, function: Any, now: tuple[str, Any], value: Any) -> None:
        """Update the annotations of a function, and of the wrappers in `value` that have copied them."""
        before = annotation_attribute(function)
        for wrapper in wrappers_in(value):
            found = annotation_attribute(wrapper) if type(wrapper) is types.FunctionType else None
            if found is not None and (found[1] is before[1] or not (found[1] or before[1])):
                setattr(wrapper, *now)
                self.edited.undo.record_undo(setattr, wrapper, *found)
        setattr(function, *now)

    def _record_undo(self, function: types.FunctionType) -> None:
        """Record how to restore the default values and annotations of a function."""
        before, annotations = (function.__defaults__, function.__kwdefaults__), annotation_attribute(function)

        def undo() -> None:
            function.__defaults__, function.__kwdefaults__ = before
            setattr(function, *annotations)

        self.edited.undo.record_undo(undo)


def without_body(node: Any) -> Any:
    """Return a copy of a function's syntax node without its decorators and body."""
    stub = type(node)(**{name: getattr(node, name, None) for name in node._fields})
    stub.decorator_list, stub.body = [], [ast.Pass()]
    ast.copy_location(stub, node)
    stub.lineno, stub.end_lineno = node.lineno, node.end_lineno
    ast.copy_location(stub.body[0], node)
    return stub


def has_read_signature(edited: EditedModule, change: Change) -> bool:
    """Return whether the decorators of a function may have read the changed part of its signature."""
    old, new, followers = change.old, change.new, edited.followers
    opaque = (
        [decorator for decorator in new.node.decorator_list if called_name(decorator) not in TRANSPARENT_DECORATORS]
        if new
        else []
    )
    if old is None or new is None or followers is None:
        return bool(opaque)
    arguments = [
        [argument.arg for argument in (*each.args.args, *each.args.kwonlyargs, *getattr(each.args, "posonlyargs", []))]
        + [len(each.args.defaults), sum(default is not None for default in each.args.kw_defaults)]
        + [comparable_dump([each.returns, *_annotations_of(each.args)])]
        for each in (old.node, new.node)
    ]
    only_defaults = arguments[0] == arguments[1]
    return any(followers.signatures.reads_signature(decorator, only_defaults=only_defaults) for decorator in opaque)


def _annotations_of(arguments: Any) -> list[Any]:
    """Return the annotation of each parameter, or None for a parameter without one."""
    every = [*getattr(arguments, "posonlyargs", []), *arguments.args, *arguments.kwonlyargs]
    return [each.annotation for each in (*every, arguments.vararg, arguments.kwarg) if each is not None]


def _default_values(arguments: Any, function: types.FunctionType) -> dict[str, tuple[str, Any]]:
    """Return the source and value of each parameter's default value, by the name of the parameter."""
    plain = [parameter.arg for parameter in (*getattr(arguments, "posonlyargs", []), *arguments.args)]
    given = function.__defaults__ or ()
    sources = [comparable_dump(default) for default in arguments.defaults]
    found: dict[str, tuple[str, Any]] = {}
    if len(given) == len(sources):
        found.update(zip(plain[len(plain) - len(sources) :], zip(sources, given)))
    for parameter, default in zip(arguments.kwonlyargs, arguments.kw_defaults):
        if default is not None and parameter.arg in (function.__kwdefaults__ or {}):
            found[parameter.arg] = comparable_dump(default), (function.__kwdefaults__ or {})[parameter.arg]
    return found
