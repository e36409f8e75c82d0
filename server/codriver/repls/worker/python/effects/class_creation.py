"""Determine what is read, called and changed when classes and functions are created and decorated."""

from __future__ import annotations

import ast
import contextlib

from ...basics.definition_access import defining_module_name, is_class, order_of, qualified_name, space_of
from ..stored_attributes import attribute_dict
from .abstract_values import Value, class_value, roots_of
from .analyzed_call import AnalyzedCall
from .effects import function_read
from .pure_calls import SIGNATURE_READING_LIBRARIES
from .static_attributes import UNKNOWN_OBJECT, function_in, library_of, unbound_attribute

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .call_effects import CallEffects
    from .effects import Effects
    from .expressions import Expressions
    from .function_runs import FunctionRuns
    from .library_reads import LibraryReads
    from .scopes import Scope
    from .workspace_code import WorkspaceCode

SUBCLASS_HOOKS = ("__init_subclass__", "__pydantic_init_subclass__")
"""Methods of a base class that are called when a subclass is created. Source: the data model and pydantic."""
CONFIGURATION_ATTRIBUTES = ("model_config", "__mapper_args__", "__pydantic_config__")
"""Attributes in a class body that configure the library that creates the class."""


class ClassCreation:
    """Visits the calls that create a class or function: decorators, descriptors, and hooks of bases and metaclasses."""

    def __init__(
        self,
        found: Effects,
        workspace: WorkspaceCode,
        runs: FunctionRuns,
        library: LibraryReads,
        calls: CallEffects,
        expressions: Expressions,
    ) -> None:
        self.found, self.workspace, self.runs, self.library = found, workspace, runs, library
        self.calls, self.expressions = calls, expressions

    def create(self, node: ast.ClassDef, scope: Scope, *, reads_bases: bool, hooks: str = "") -> None:
        """Visit the bases and keywords of a class, and the hooks that are called when it is created.

        `hooks` is `metaclass` or `bases` if only the hooks of the metaclass or of the bases count.
        """
        bases = [self.expressions.value(base, scope) for base in (*node.bases, *[word.value for word in node.keywords])]
        if not reads_bases:
            self.found.reads.clear()
        value = class_value(node, scope.space)
        self.run_hooks(node, value.live if is_class(value.live) else None, bases, value, hooks)

    def run_hooks(self, node: ast.ClassDef, kind: Any, bases: list[Value], value: Value, hooks: str = "") -> None:
        """Visit what is called when a class is created: its metaclass's methods and its bases' hooks."""
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
        for meta in dict.fromkeys(metas) if hooks != "bases" else ():
            for name in ("__prepare__", "__new__", "__init__"):
                found = function_in(unbound_attribute(meta, name))
                if self.workspace.has_function(found):
                    self.runs.run(
                        found, [value if name == "__init__" else Value(roots_of(meta), meta), *given], node, words
                    )
        for base in lived if hooks != "metaclass" else ():
            self._read_declared_attributes(base)
        before, self.found.created = self.found.created, kind
        for base in lived if hooks != "metaclass" else ():
            for name in SUBCLASS_HOOKS:
                hook = function_in(unbound_attribute(base, name))
                if self.workspace.has_function(hook):
                    self.runs.run(hook, [value], node, words)
        self.found.created = before

    def _read_declared_attributes(self, base: Any) -> None:
        """Record the functions in a base class that SQLAlchemy calls when it creates a class.

        Source: `declared_attr` in its documentation.
        """
        for kind in order_of(base)[:-1]:
            for value in list(space_of(kind).values()):
                kind_name = str(qualified_name(type(value)))
                is_declared = "declared" in kind_name and str(defining_module_name(type(value))).startswith(
                    "sqlalchemy."
                )
                function = attribute_dict(value).get("fget") if is_declared else None
                if self.workspace.has_function(function):
                    self.found.reads.add(function_read(function, "()"))

    def decorate(self, node: Any, value: Value, scope: Scope) -> Value:
        """Visit the calls of decorators, and return the value of the decorated definition."""
        made = [(self.expressions.value(decorator, scope), decorator) for decorator in node.decorator_list]
        for decorator, argument in reversed(made):
            value = self.calls.apply(AnalyzedCall(decorator, argument, [value], {}, argument, scope), is_decorator=True)
        return value

    def name_descriptor(self, value: Value, kind: Any, node: ast.AST) -> None:
        """Visit the `__set_name__` method of a descriptor, which is called when its class is created."""
        named = unbound_attribute(value.kind, "__set_name__") if value.kind is not None else UNKNOWN_OBJECT
        if self.workspace.has_function(named):
            owner = Value(roots_of(kind), kind) if kind is not None else Value()
            before, self.found.created = self.found.created, kind
            self.runs.run(named, [value, owner, Value(kind=str)], node)
            self.found.created = before

    def run_configuration(self, node: Any, targets: list[ast.expr], scope: Scope) -> None:
        """Visit the functions in an attribute that configures the library that creates the class."""
        if not any(isinstance(target, ast.Name) and target.id in CONFIGURATION_ATTRIBUTES for target in targets):
            return
        for child in ast.walk(node.value):
            live = scope.space.get(child.id) if isinstance(child, ast.Name) else None
            if self.workspace.has_function(live):  # the library calls it when it creates the class
                self.runs.run(live, [Value()], node)

    def visit_annotation(self, node: ast.expr, scope: Scope, *, with_signatures: bool = False) -> None:
        """Visit the names in an annotation, which may be a string."""
        is_schema = scope.kind is not None and library_of(scope.kind) in SIGNATURE_READING_LIBRARIES
        for part in ast.walk(node):
            found = None
            if isinstance(part, ast.Constant) and type(part.value) is str:
                with contextlib.suppress(SyntaxError, ValueError):
                    found = self.expressions.value(ast.parse(part.value, mode="eval").body, scope)
            elif isinstance(part, ast.Name):
                found = self.expressions.name_value(part.id, scope)
            elif isinstance(part, ast.Attribute):
                found = self.expressions.value(part, scope)
            if found is not None and with_signatures:
                self.library.read_signature(found.live)
            if found is not None and is_schema and is_class(found.live) and "_member_map_" in space_of(found.live):
                self.found.read_class(found.live)
