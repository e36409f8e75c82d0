"""Destructure values into rows, as bindings such as `[[?a ?b]]` specify."""

from __future__ import annotations

import math
from itertools import product
from typing import TYPE_CHECKING, Any

from codriver_datalog.edn import MAX_COLLECTION_ITEMS, kind_name
from codriver_datalog.syntax_tree import Binding, Blank, CollectionBinding, TupleBinding, Variable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from codriver_datalog.rows import Row, Rows


def destructure(binding: Binding, value: Any) -> Sequence[Row]:
    """Split a value as a binding specifies, into rows with one value for each variable of the binding.

    Raises:
        TypeError: the binding requires a collection, but the value is not one.
        ValueError: the value has fewer items than the binding has parts, or yields too many rows.
    """
    match binding:
        case Variable():
            return ((value,),)
        case Blank():
            return ((),)
        case CollectionBinding(element):
            rows: Rows = []
            for item in _require_collection(value):
                rows += destructure(element, item)
                _check_size(len(rows))
            return rows
        case TupleBinding(parts):
            items = _require_collection(value)
            if len(items) < len(parts):
                raise ValueError(
                    f"a binding with {len(parts)} parts needs at least as many items, but there are only {len(items)}"
                )
            expanded = [destructure(part, item) for part, item in zip(parts, items, strict=False)]
            _check_size(math.prod(map(len, expanded)))
            return [tuple(cell for cells in row for cell in cells) for row in product(*expanded)]


def _check_size(rows: int) -> None:
    """Check that destructuring a value yields at most `MAX_COLLECTION_ITEMS` rows.

    Raises:
        ValueError: there are more rows.
    """
    if rows > MAX_COLLECTION_ITEMS:
        raise ValueError(f"a binding can produce at most {MAX_COLLECTION_ITEMS} rows from one value")


def _require_collection(value: Any) -> tuple[Any, ...]:
    """Return the items of a collection, the pairs of a map, or () for nil.

    Raises:
        TypeError: the value is not a collection.
    """
    if value is None:
        return ()
    if isinstance(value, dict):
        return tuple(value.items())
    if isinstance(value, tuple | frozenset):
        return tuple(value)
    raise TypeError(f"a binding can only destructure a collection, not {kind_name(value)}")
