"""Decide whether an edited function only needs new code, or has to be defined again."""

from __future__ import annotations

import functools
import types

from ...basics.definition_access import space_of
from ..effects.effects import is_repeatable_call
from ..live_functions import CACHED_VALUES_REASON, clear_cached_values
from ..statements import DECORATORS, DOCSTRING, FUNCTION, SIGNATURE
from ..stored_attributes import attribute_dict
from .docstring_updates import DocstringUpdates, is_documented
from .open_classes import TRANSPARENT_DECORATORS
from .signature_updates import SIGNATURE_USED_REASON, has_read_signature
from .statement_syntax import called_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..statements import Change, Statement
    from .edited_module import EditedModule
    from .load_plan import LoadPlan


class FunctionPlanner:
    """Plans updates of edited functions and methods."""

    def __init__(self, edited: EditedModule, plan: LoadPlan, docstrings: DocstringUpdates) -> None:
        self.edited, self.plan, self.docstrings = edited, plan, docstrings

    def needs_only_update(self, change: Change) -> bool:
        """Return whether a function only needs new code, a new docstring and new default values.

        If so, plan to update the docstring and the default values, which are evaluated in a later step.
        """
        new = change.new
        if new is None or DECORATORS in change.parts or is_decorated_otherwise(self.edited, change):
            return False
        if (
            DOCSTRING in change.parts
            and new.node.decorator_list
            and not new.owner
            and not is_documented(self.edited.value(new.name))
        ):
            return False  # its decorators may have read the docstring
        if SIGNATURE in change.parts:
            has_read = has_read_signature(self.edited, change)
            if has_read and not new.owner:
                return False  # its decorators run again
            self.plan.attributes[id(new.node)] = new.owner, new
            if has_read:
                self.plan.stays.append((new.name, SIGNATURE_USED_REASON))
        self._clear_cached(new)
        if DOCSTRING in change.parts:
            self.docstrings.update_wrappers(change)
        return True

    def _clear_cached(self, new: Statement) -> None:
        """Clear the values that a changed cached property has stored in instances. Report those that remain."""
        kind = self.edited.class_of(new.owner) if new.owner else None
        bindings = new.name.rpartition(".")[2]
        value = space_of(kind).get(bindings) if kind is not None else None
        if kind is None or type(value).__name__ != "cached_property":
            return
        function = attribute_dict(value).get("func")
        analysis = None if self.edited.followers is None else self.edited.followers.analysis

        def is_repeatable(kind: type) -> bool:
            if analysis is None or type(function) is not types.FunctionType:
                return False
            return is_repeatable_call(analysis.call(function, kind))

        cleared, left = clear_cached_values(
            kind, bindings, functools.lru_cache(maxsize=None)(is_repeatable), self.edited.undo
        )
        if cleared:
            self.plan.cleared_caches.append((new.name, cleared))
        if left:
            self.plan.stays.append((new.name, CACHED_VALUES_REASON.format(left)))


def is_decorated_otherwise(edited: EditedModule, change: Change) -> bool:
    """Return whether decorators may treat a function differently because its kind has changed."""
    old, new = change.old, change.new
    if old is None or new is None or not old.kind == new.kind == FUNCTION:
        return False
    is_opaque = any(called_name(decorator) not in TRANSPARENT_DECORATORS for decorator in new.node.decorator_list)
    return is_opaque and edited.changes_kind(old, new)
