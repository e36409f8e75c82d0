"""Collection functions of queries. Collections stay bounded in size and depth."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from codriver.datalog.arithmetic import as_number
from codriver.datalog.signature import Function
from codriver.datalog.value_types import MAX_ITEMS, MAX_NESTING, ValueMap, kind, nested


def as_sequence(value: Any) -> tuple[Any, ...]:
    """The items of a collection; of a map its pairs, of nil none."""
    if value is None:
        return ()
    if isinstance(value, dict):
        return tuple(value.items())
    if not isinstance(value, Iterable):
        raise TypeError(f"a collection is needed, not {kind(value)}")
    return tuple(value)


def _collection(make: Callable[[Iterator[Any]], Any]) -> Callable[..., Any]:
    def collect(*values: Any) -> Any:
        made = make(iter(values))
        if nested(made) > MAX_NESTING:
            raise ValueError(f"collections nest deeper than {MAX_NESTING}")
        return made

    return collect


def _pairs(values: Iterator[Any]) -> ValueMap:
    items = tuple(values)
    if len(items) % 2:
        raise ValueError(f"a map is made of keys and values in turn, not of {len(items)} items")
    return ValueMap(zip(items[::2], items[1::2], strict=True))


def _count(value: Any) -> int:
    return len(value) if isinstance(value, str) else len(as_sequence(value))


def _get(collection: Any, key: Any, default: Any = None) -> Any:
    if isinstance(collection, dict):
        return collection.get(key, default)
    if isinstance(collection, tuple | str) and type(key) is int:
        return collection[key] if 0 <= key < len(collection) else default
    return key if isinstance(collection, frozenset) and key in collection else default


def _nth(collection: Any, place: Any, *default: Any) -> Any:
    items = as_sequence(collection)
    if 0 <= as_number(place) < len(items):
        return items[int(place)]
    if default:
        return default[0]
    raise ValueError(f"there is no item {place} among {len(items)}")


def _contains(collection: Any, key: Any) -> bool:
    if isinstance(collection, tuple | str):
        return type(key) is int and 0 <= key < len(collection)
    return collection is not None and key in (
        collection if isinstance(collection, dict) else frozenset(as_sequence(collection))
    )


def _range(*bounds: Any) -> tuple[int, ...]:
    numbers = range(*(int(as_number(bound)) for bound in bounds))
    if len(numbers) > MAX_ITEMS:
        raise ValueError(f"the range has more than {MAX_ITEMS} numbers")
    return tuple(numbers)


def _at(place: int) -> Callable[[Any], Any]:
    def at(value: Any) -> Any:
        items = as_sequence(value)
        return items[place] if -len(items) <= place < len(items) else None

    return at


_vector = _collection(tuple)
SEQUENCES: Mapping[str, Function] = {
    "count": Function(_count, 1, 1),
    "empty?": Function(lambda a: _count(a) == 0, 1, 1),
    "not-empty": Function(lambda a: a if _count(a) else None, 1, 1),
    "get": Function(_get, 2, 3),
    "nth": Function(_nth, 2, 3),
    "first": Function(_at(0), 1, 1),
    "second": Function(_at(1), 1, 1),
    "last": Function(_at(-1), 1, 1),
    "rest": Function(lambda a: as_sequence(a)[1:], 1, 1),
    "contains?": Function(_contains, 2, 2),
    "vector": Function(_vector, 0, None),
    "list": Function(_vector, 0, None),
    "tuple": Function(_vector, 0, None),
    "untuple": Function(as_sequence, 1, 1),
    "set": Function(lambda a: frozenset(as_sequence(a)), 1, 1),
    "hash-map": Function(_collection(_pairs), 0, None),
    "array-map": Function(_collection(_pairs), 0, None),
    "range": Function(_range, 1, 3),
}
"""By the names that queries call them by."""
