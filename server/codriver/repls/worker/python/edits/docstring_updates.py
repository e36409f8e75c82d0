"""Set the docstrings of modules, classes, functions, and wrappers that have copied them."""

from __future__ import annotations

import ast
import types

from ...basics.definition_access import is_class, space_of
from ..stored_attributes import attribute_dict
from .function_wrappers import wrappers_in

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..statements import Change
    from .edited_module import EditedModule


class DocstringUpdates:
    """Updates docstrings in an edited module."""

    def __init__(self, edited: EditedModule) -> None:
        self.edited = edited

    def set_docstring(self, kind: Any, node: Any) -> None:
        """Set the docstring of the module, or of the class `kind`, to the one in a syntax node."""
        text = node.value.value if node is not None else None
        if kind is None:
            space = self.edited.space
            self.edited.undo.record_key("", space, "__doc__", space.get("__doc__"))
            space["__doc__"] = text
        elif is_class(kind):
            before = space_of(kind).get("__doc__")
            type.__setattr__(kind, "__doc__", text)
            self.edited.undo.record_attribute("", kind, "__doc__", before)

    def update_wrappers(self, change: Change) -> None:
        """Update the docstrings that wrappers and properties have copied from a function."""
        old, new = change.old, change.new
        if old is None or new is None:
            return
        before, now = ast.get_docstring(old.node, clean=False), ast.get_docstring(new.node, clean=False)
        for value in wrappers_in(self.edited.value(new.name)):
            self._set_doc_if_copied(value, before, now)

    def _set_doc_if_copied(self, value: Any, before: str | None, now: str | None) -> None:
        """Set the docstring of an object to `now` if it equals `before` and was therefore probably copied."""
        found = value.__doc__ if type(value) is property else attribute_dict(value).get("__doc__", value.__doc__)
        if type(found) in (str, type(None)) and _normalize_docstring(found) == _normalize_docstring(before):
            try:
                value.__doc__ = now
            except (AttributeError, TypeError):  # its docstring cannot be set
                return
            self.edited.undo.record_undo(setattr, value, "__doc__", found)


def is_documented(value: Any) -> bool:
    """Return whether a value has its own docstring: a function, a class, or a wrapper with a copied one."""
    return type(value) is types.FunctionType or "__wrapped__" in attribute_dict(value) or is_class(value)


def _normalize_docstring(text: str | None) -> str | None:
    """Normalize the whitespace in a docstring, because Python 3.13 removes indentation."""
    return None if text is None else " ".join(text.split())
