"""Functions of queries over texts, regular expressions and collections, all bounded in length, size and depth."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from codriver.datalog import regexes
from codriver.datalog.edn import Keyword
from codriver.datalog.number_functions import Function, as_number
from codriver.datalog.regexes import Clock, Pattern, compile_pattern
from codriver.datalog.value_types import (
    MAX_CHARACTERS,
    MAX_ITEMS,
    MAX_NESTING,
    ValueMap,
    kind,
    nested,
    printed,
    text_of,
)


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


def _string(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"a string is needed, not {kind(value)}")
    return value


def _on_string(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, for one or two strings."""

    def checked(*values: Any) -> Any:
        return function(*map(_string, values))

    return checked


def _bounded_text(text: str) -> str:
    if len(text) > MAX_CHARACTERS:
        raise ValueError(f"the text gets longer than {MAX_CHARACTERS} characters")
    return text


def _str(*values: Any) -> str:
    return _bounded_text("".join(map(text_of, values)))


def _pr_str(*values: Any) -> str:
    return _bounded_text(" ".join(map(printed, values)))


def _subs(text: Any, start: Any, end: Any = None) -> str:
    end = len(_string(text)) if end is None else as_number(end)
    if not 0 <= as_number(start) <= end <= len(text):
        raise ValueError(f"the range {start} to {end} is not inside a text of {len(text)} characters")
    return str(text)[int(start) : int(end)]


def _index_of(text: Any, part: Any) -> int | None:
    place = _string(text).find(_string(part))
    return None if place < 0 else place


def _join(*values: Any) -> str:
    return _bounded_text((text_of(values[0]) if len(values) == 2 else "").join(map(text_of, as_sequence(values[-1]))))


def _name(value: Any) -> str:
    return _string(value).removeprefix(":").rpartition("/")[2]


def _namespace(value: Any) -> str | None:
    return _string(value).removeprefix(":").rpartition("/")[0] or None


def _keyword(*parts: Any) -> Keyword:
    return Keyword(":" + "/".join(_string(part).removeprefix(":") for part in parts))


def _pattern(value: Any) -> Pattern:
    return value if isinstance(value, Pattern) else compile_pattern(_string(value))


def _searched(function: Callable[..., Any]) -> Callable[..., Any]:
    def search(clock: Clock, pattern: Any, text: Any) -> Any:
        return function(clock, _pattern(pattern), _string(text))

    return search


def _split(clock: Clock, text: Any, pattern: Any, limit: Any = 0) -> tuple[str, ...]:
    return regexes.split(clock, _pattern(pattern), _string(text), int(as_number(limit)))


_CLOJURE_STRING: Mapping[str, Function] = {
    "includes?": Function(_on_string(str.__contains__), 2, 2),
    "starts-with?": Function(_on_string(str.startswith), 2, 2),
    "ends-with?": Function(_on_string(str.endswith), 2, 2),
    "blank?": Function(lambda value: value is None or not _string(value).strip(), 1, 1),
    "lower-case": Function(_on_string(str.lower), 1, 1),
    "upper-case": Function(_on_string(str.upper), 1, 1),
    "trim": Function(_on_string(str.strip), 1, 1),
    "index-of": Function(_index_of, 2, 2),
    "join": Function(_join, 1, 2),
    "split": Function(_split, 2, 3, is_timed=True),
    "split-lines": Function(lambda clock, text: _split(clock, text, r"\r?\n"), 1, 1, is_timed=True),
}
STRINGS: Mapping[str, Function] = {
    "str": Function(_str, 0, None),
    "pr-str": Function(_pr_str, 0, None),
    "subs": Function(_subs, 2, 3),
    "name": Function(_name, 1, 1),
    "namespace": Function(_namespace, 1, 1),
    "keyword": Function(_keyword, 1, 2),
    "re-pattern": Function(_pattern, 1, 1),
    "re-find": Function(_searched(regexes.find), 2, 2, is_timed=True),
    "re-matches": Function(_searched(regexes.matches), 2, 2, is_timed=True),
    "re-seq": Function(_searched(regexes.find_all), 2, 2, is_timed=True),
    **{f"clojure.string/{name}": function for name, function in _CLOJURE_STRING.items()},
    **{f"str/{name}": function for name, function in _CLOJURE_STRING.items()},
}
"""By the names that queries call them by."""
