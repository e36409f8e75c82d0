"""Update the default values, annotations and caches of functions that depend on a change."""

from __future__ import annotations

import ast
import functools
import types

from ...basics.definition_access import space_of
from ..edits.signature_updates import without_body
from ..edits.statement_syntax import dotted_name
from ..effects.effects import is_repeatable_call
from ..equal_values import is_alike
from ..live_functions import CACHED_VALUES_REASON, LRU_CACHE_TYPE, annotation_attribute, clear_cached_values
from ..stored_attributes import attribute_dict

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ...basics.undo_records import UndoRecord
    from ..edits.signature_updates import SignatureUpdates
    from ..effects.analysis import Analysis
    from ..module_text import Text
    from ..name_changes import NameChanges
    from .existing_functions import ExistingFunctions
    from .module_code import ModuleCode
    from .reports import Reports


class FunctionFollowUp:
    """Updates functions whose default values, annotations or cached results depend on a change.

    `cleared_caches` contains the module and name of each function or property whose cache was cleared, and the number
    of entries.
    """

    def __init__(
        self,
        analysis: Analysis,
        changes: NameChanges,
        code: ModuleCode,
        reports: Reports,
        existing: ExistingFunctions,
        signatures: SignatureUpdates,
        undo: UndoRecord,
    ) -> None:
        self.analysis, self.changes, self.code, self.reports = analysis, changes, code, reports
        self.existing, self.signatures, self.undo = existing, signatures, undo
        self.cleared_caches: list[tuple[str, str, int]] = []

    def follow_annotations(self, text: Text, node: Any) -> bool:
        """Update the annotations of a function. Return whether they depend on a change."""
        effects = self.analysis.annotation_reads(node, text.space)
        if not self.changes.is_affected(effects):
            return False
        stub = without_body(node)
        space: dict[str, Any] = {}
        try:
            exec(self.code.compile(text, ast.Module([stub], []), "exec"), text.space, space)
            made = annotation_attribute(space[node.name])
        except Exception:  # an error in user code
            return True
        for function in self.existing.find(text.file, node):
            before = annotation_attribute(function)
            self.signatures.annotate(function, made, text.space.get(node.name))
            self.undo.record_undo(setattr, function, *before)
            self.changes.codes.add((text.name, function.__qualname__ + "(...)"))
        return True

    def follow_defaults(self, text: Text, node: Any, kind: Any) -> bool:
        """Update the default values of a function, and return whether any have changed."""
        has_changed = False
        assigned = [default for default in (*node.args.defaults, *node.args.kw_defaults) if default is not None]
        for position in assigned:
            effects = self.analysis.body_effects([position], text.space, kind)
            if not self.changes.is_affected(effects):
                continue
            if effects.effect is not None or effects.fills:
                self.reports.report(
                    text, node, f"a default value was computed from {self.changes.cause(effects)}, which has changed"
                )
                continue
            try:
                code = self.code.compile(text, ast.Expression(position), "eval")
                value = eval(code, text.space, dict(space_of(kind)) if kind is not None else {})
            except Exception as error:  # an error in user code
                self.reports.report(text, node, f"computing a default value again raised {type(error).__name__}")
                continue
            has_changed = has_changed or self.changes.has_stored_signature(effects)
            for function in self.existing.find(text.file, node):
                if self._set_default(function, node, position, value):
                    has_changed = True
                    self.changes.codes.update((text.name, function.__qualname__ + part) for part in ("()", "(...)"))
        return has_changed

    def _set_default(self, function: Any, node: Any, position: Any, value: Any) -> bool:
        """Set the default value of a parameter, and return whether it has changed.

        `node` is the definition of the function, and `position` is the expression for the default value.
        """
        before = function.__defaults__, function.__kwdefaults__

        def undo() -> None:
            function.__defaults__, function.__kwdefaults__ = before

        if position in node.args.defaults:
            number = node.args.defaults.index(position)
            given = list(function.__defaults__ or ())
            if number >= len(given) or is_alike(given[number], value):
                return False
            given[number] = value
            function.__defaults__ = tuple(given)
        else:
            name = node.args.kwonlyargs[node.args.kw_defaults.index(position)].arg
            words = dict(function.__kwdefaults__ or {})
            if name in words and is_alike(words[name], value):
                return False
            function.__kwdefaults__ = {**words, name: value}
        self.undo.record_undo(undo)
        return True

    def clear_cache(self, text: Text, value: Any, name: str, kind: Any = None) -> None:
        """Clear the cache of a function if its results would now be different. `kind` is the class of a method."""
        information = getattr(value, "cache_info", None) if type(value) is LRU_CACHE_TYPE else None
        wrapped = attribute_dict(value).get("__wrapped__") if information is not None else None
        if information is None or type(wrapped) is not types.FunctionType or not information().currsize:
            return
        if self.changes.is_affected(self.analysis.call(wrapped, kind)):
            self.cleared_caches.append((text.name, name, information().currsize))
            value.cache_clear()

    def clear_cached_property(self, text: Text, statement: Any, owner: Any) -> None:
        """Clear the values that instances have cached and that would now be different. Report those that remain."""
        value = space_of(owner).get(statement.node.name)
        function = getattr(value, "func", None) if type(value) is functools.cached_property else None
        name = dotted_name(statement)
        if type(function) is not types.FunctionType or (text.name, name + "()") in self.changes.codes:
            return
        if not self.changes.is_affected(self.analysis.call(function, owner)):
            return

        def is_repeatable(kind: type) -> bool | None:
            effects = self.analysis.call(function, kind)
            return is_repeatable_call(effects) if self.changes.is_affected(effects) else None

        cleared, left = clear_cached_values(
            owner, statement.node.name, functools.lru_cache(maxsize=None)(is_repeatable), self.undo
        )
        if cleared:
            self.cleared_caches.append((text.name, name, cleared))
        if left:
            self.reports.report(text, statement.node, CACHED_VALUES_REASON.format(left), name)
