"""Determine which functions and classes belong to the workspace, and find their source code."""

from __future__ import annotations

import functools
import sys
import types

from ...basics.definition_access import defining_module_name, is_class, space_of
from ..stored_attributes import module_dict

TYPE_CHECKING = False
if TYPE_CHECKING:
    import ast
    from collections.abc import Callable
    from typing import Any


class WorkspaceCode:
    """Determines which functions and classes belong to the workspace.

    `source` returns the syntax node of a workspace function, or the source of a workspace file. It returns None for
    other functions and files.
    """

    def __init__(self, source: Callable[[Any], ast.AST | None]) -> None:
        self.source = source

    def has_function(self, function: Any) -> bool:
        """Return whether a value is a function of the workspace."""
        return type(function) is types.FunctionType and self.source(function) is not None

    def has_class(self, kind: Any) -> bool:
        """Return whether a class or one of its methods is defined in the workspace."""
        values = list(space_of(kind).values())
        found = [value for value in values if type(value) is types.FunctionType]
        if any(self.has_function(function) for function in found):
            return True
        module = sys.modules.get(str(defining_module_name(kind)))
        name = str(module_dict(module).get("__file__")) if module is not None else ""
        return self.source(name) is not None

    def can_follow(self, value: object) -> bool:
        """Return whether the analysis can follow a call to this value into its body."""
        return is_class(value) or self.has_function(value) or type(value) is functools.partial
