"""Find what import statements import, and where names are bound again."""

from __future__ import annotations

import ast

from ..statements import names_bound_by

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..module_text import Text


def is_star(node: Any) -> bool:
    """Return whether a statement is `from … import *`."""
    return isinstance(node, ast.ImportFrom) and any(alias.name == "*" for alias in node.names)


def source_of_import(node: Any, text: Text) -> str:
    """Return the name of the module from which a statement imports."""
    parts = text.name.split(".")
    owner = parts[: len(parts) - node.level + text.is_package] if node.level else []
    return ".".join([*owner, *([node.module] if node.module else [])])


def is_bound_again(text: Text, node: Any, name: str) -> bool:
    """Return whether another top-level statement binds a name."""
    return any(other is not node and name in names_bound_by(other) for other in text.body)
