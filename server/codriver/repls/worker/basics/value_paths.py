"""Find a part of a value by its path of positions, field names and keys."""

from __future__ import annotations

import itertools

from .previews import select_part
from .printing import INDEXED_TYPES, Shape, standard_shape

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any


class NoSuchPartError(LookupError):
    """Raised when a path does not exist in a value."""


def get_part(value: Any, path: Iterable[object]) -> Any:
    """Return the part of a value at a path of positions, field names and keys. Keys may be in their printed form.

    Raises:
        NoSuchPartError: the path does not exist.
    """
    try:
        for step in path:  # the message below uses it
            value = _part(value, step)
    except (LookupError, TypeError, ValueError, AttributeError, StopIteration):
        raise NoSuchPartError(
            f"the {type(value).__name__} has no {step!r}, which is the next step of the path"
        ) from None
    return value


def _part(value: Any, step: Any) -> Any:
    rows = select_part(value, step)
    if rows is not None:
        return rows[0]
    shape = standard_shape(value)
    if shape is None:
        return vars(value)[step] if isinstance(step, str) else value[step]
    if shape.keys:
        return next(part for key, part in _matching(value, shape, step))
    if isinstance(value, INDEXED_TYPES):
        sequence: Any = value
        return sequence[step]
    if isinstance(step, int) and step >= 0:
        for part in itertools.islice(value, step, step + 1):
            return part
    raise NoSuchPartError


def _matching(value: Any, shape: Shape, step: object) -> Iterator[tuple[object, Any]]:
    """Yield the parts at a step of a path, each with its original key.

    Parts with an equal key come first, followed by those whose printed key equals the step.
    """
    if type(value) is dict and type(step) in (int, str) and step in value:
        yield step, value[step]
    for key, part in shape.parts():
        if type(key) is type(step) and key == step:
            yield key, part
    for key, part in shape.parts():
        if type(key) not in (int, str) and repr(key) == step:
            yield key, part
    raise NoSuchPartError
