"""Find the objects that a decorated function, property or method wraps."""

from __future__ import annotations

from ..stored_attributes import attribute_dict

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

MAX_UPDATED_WRAPPERS = 20
"""Maximum number of nested wrappers whose docstrings are updated."""


def wrappers_in(value: Any) -> Iterator[Any]:
    """Yield a decorated function, property or method, and everything that it wraps."""
    value = value.__func__ if type(value) in (staticmethod, classmethod) else value
    for _ in range(MAX_UPDATED_WRAPPERS):
        if type(value) is property or hasattr(type(value), "__wrapped__") or "__wrapped__" in attribute_dict(value):
            yield value
        value = value.fget if type(value) is property else attribute_dict(value).get("__wrapped__")
        if value is None:
            return
