"""Functions that queries can call. The list is fixed, so queries cannot run any other code.

Functions behave as in Clojure. A function that cannot handle its arguments raises `TypeError`, `ValueError` or an
arithmetic error. The calling clause adds its position and the values, and the query fails, as in Clojure and
DataScript. Dropping the row silently would make the answer wrong. Clauses that only filter run first, so they can
exclude unsuitable values. Results are limited in length, size and depth, because a recursive rule could otherwise make
them grow forever.

There are two differences from DataScript. `<`, `>`, `<=` and `>=` compare numbers with numbers and strings with
strings, and reject everything else, because comparing a line number with text is a mistake. A keyword equals the string
with the same text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from codriver_datalog import regexes
from codriver_datalog.edn import (
    INTEGER_LIMIT,
    MAX_COLLECTION_ITEMS,
    MAX_NESTING_DEPTH,
    MAX_STRING_CHARACTERS,
    Boolean,
    Keyword,
    ValueMap,
    compare_values,
    kind_name,
    nesting_depth,
    print_edn,
    print_str,
    quotient,
)
from codriver_datalog.regexes import Clock, Pattern, compile_pattern


@dataclass(frozen=True, slots=True)
class Function:
    """A query function with its minimum and maximum number of arguments, `least` and `most`.

    `most` is None if there is no maximum. If `is_timed`, the first argument of `call` is the query's clock.
    """

    call: Callable[..., Any]
    least: int
    most: int | None
    is_timed: bool = False

    def accepts(self, count: int) -> bool:
        """Return whether the function can be called with `count` arguments."""
        return self.least <= count and (self.most is None or count <= self.most)

    def arity_text(self) -> str:
        """Return the accepted number of arguments for error messages."""
        if self.most is None:
            return f"{self.least} or more arguments"
        return f"{self.least} arguments" if self.least == self.most else f"{self.least} to {self.most} arguments"


def require_number(value: Any) -> Any:
    """Return the value unchanged, after checking that it is a number.

    Raises:
        TypeError: the value is not a number.
    """
    if type(value) not in (int, float):
        raise TypeError(f"expected a number, not {kind_name(value)}")
    return value


def _check_number_size(value: Any) -> Any:
    """Return a computed number unchanged, after checking its size.

    Raises:
        ValueError: the number is an int that is too large.
    """
    if type(value) is int and not -INTEGER_LIMIT < value < INTEGER_LIMIT:
        raise ValueError("the resulting number is too large")
    return value


def _fold_function(combine: Callable[[Any, Any], Any], start: Any) -> Callable[..., Any]:
    """Return a function that combines all its arguments with `combine`, starting with `start`."""

    def fold(*numbers: Any) -> Any:
        result = start
        for number in numbers:
            result = _check_number_size(combine(result, require_number(number)))
        return result

    return fold


def _subtract(first: Any, *rest: Any) -> Any:
    if not rest:
        return -require_number(first)
    result = require_number(first)
    for number in rest:
        result = _check_number_size(result - require_number(number))
    return result


def _divide(first: Any, *rest: Any) -> Any:
    numbers = [require_number(number) for number in (first, *rest)]
    result = numbers.pop(0) if rest else 1
    for number in numbers:
        result = quotient(result, number)
    return result


def _quot(dividend: Any, divisor: Any) -> Any:
    """Divide and round towards zero."""
    whole = abs(require_number(dividend)) // abs(require_number(divisor))
    return whole if (dividend < 0) == (divisor < 0) else -whole


def _rem(dividend: Any, divisor: Any) -> Any:
    """Return the remainder of a division, which has the sign of the dividend."""
    return dividend - _quot(dividend, divisor) * divisor


def _extreme_function(sign: int) -> Callable[..., Any]:
    """Return a function that returns its largest argument, or its smallest if `sign` is -1."""

    def extreme(first: Any, *rest: Any) -> Any:
        result = first
        for value in rest:
            if compare_values(value, result) * sign > 0:
                result = value
        return result

    return extreme


def _ordering_function(is_ordered: Callable[[Any, Any], bool]) -> Callable[..., bool]:
    """Return a function that returns whether each argument and the next satisfy `is_ordered`.

    It raises a TypeError unless all arguments are numbers or all are strings.
    """

    def ordered(*values: Any) -> bool:
        for left, right in pairwise(values):
            if (type(left) is not type(right) and kind_name(left) != kind_name(right)) or isinstance(left, Boolean):
                raise TypeError(
                    f"only numbers or strings can be compared with each other, not {kind_name(left)} with "
                    f"{kind_name(right)}"
                )
            if not is_ordered(left, right):
                return False
        return True

    return ordered


def _all_equal(*values: Any) -> bool:
    return all(left == right for left, right in pairwise(values))


ARITHMETIC_FUNCTIONS: Mapping[str, Function] = {
    "+": Function(_fold_function(lambda a, b: a + b, 0), 0, None),
    "-": Function(_subtract, 1, None),
    "*": Function(_fold_function(lambda a, b: a * b, 1), 0, None),
    "/": Function(_divide, 1, None),
    "quot": Function(_quot, 2, 2),
    "rem": Function(_rem, 2, 2),
    "mod": Function(lambda a, b: require_number(a) % require_number(b), 2, 2),
    "inc": Function(lambda a: _check_number_size(require_number(a) + 1), 1, 1),
    "dec": Function(lambda a: _check_number_size(require_number(a) - 1), 1, 1),
    "abs": Function(lambda a: abs(require_number(a)), 1, 1),
    "max": Function(_extreme_function(1), 1, None),
    "min": Function(_extreme_function(-1), 1, None),
    "zero?": Function(lambda a: require_number(a) == 0, 1, 1),
    "pos?": Function(lambda a: require_number(a) > 0, 1, 1),
    "neg?": Function(lambda a: require_number(a) < 0, 1, 1),
    "even?": Function(lambda a: require_number(a) % 2 == 0, 1, 1),
    "odd?": Function(lambda a: require_number(a) % 2 == 1, 1, 1),
    "=": Function(_all_equal, 1, None),
    "==": Function(_all_equal, 1, None),
    "not=": Function(lambda *values: not _all_equal(*values), 1, None),
    "!=": Function(lambda *values: not _all_equal(*values), 1, None),
    "<": Function(_ordering_function(lambda a, b: bool(a < b)), 1, None),
    ">": Function(_ordering_function(lambda a, b: bool(a > b)), 1, None),
    "<=": Function(_ordering_function(lambda a, b: bool(a <= b)), 1, None),
    ">=": Function(_ordering_function(lambda a, b: bool(a >= b)), 1, None),
    "compare": Function(compare_values, 2, 2),
}
"""Functions on numbers, by the names used in queries."""


def require_sequence(value: Any) -> tuple[Any, ...]:
    """Return the items of a collection, the pairs of a map, or () for nil.

    Raises:
        TypeError: the value is not a collection.
    """
    if value is None:
        return ()
    if isinstance(value, dict):
        return tuple(value.items())
    if not isinstance(value, Iterable):
        raise TypeError(f"expected a collection, not {kind_name(value)}")
    return tuple(value)


def _collection_function(make: Callable[[Iterator[Any]], Any]) -> Callable[..., Any]:
    """Return a function that makes a collection from its arguments.

    It raises a ValueError if the collection is nested too deeply.
    """

    def collect(*values: Any) -> Any:
        made = make(iter(values))
        if nesting_depth(made) > MAX_NESTING_DEPTH:
            raise ValueError(f"collections cannot be nested deeper than {MAX_NESTING_DEPTH} levels")
        return made

    return collect


def _make_map(values: Iterator[Any]) -> ValueMap:
    """Make a map from alternating keys and values.

    Raises:
        ValueError: the last key has no value.
    """
    items = tuple(values)
    if len(items) % 2:
        raise ValueError(f"a map needs an even number of keys and values, not {len(items)} items")
    return ValueMap(zip(items[::2], items[1::2], strict=True))


def _count(value: Any) -> int:
    return len(value) if isinstance(value, str) else len(require_sequence(value))


def _get(collection: Any, key: Any, default: Any = None) -> Any:
    """Return the value for a key or at a position, or `default` if there is none."""
    if isinstance(collection, dict):
        return collection.get(key, default)
    if isinstance(collection, tuple | str) and type(key) is int:
        return collection[key] if 0 <= key < len(collection) else default
    return key if isinstance(collection, frozenset) and key in collection else default


def _nth(collection: Any, position: Any, *default: Any) -> Any:
    """Return the item at a position. If there is none, return the default, if one is passed.

    Raises:
        ValueError: the position does not exist, and there is no default.
    """
    items = require_sequence(collection)
    if 0 <= require_number(position) < len(items):
        return items[int(position)]
    if default:
        return default[0]
    raise ValueError(f"there is no item at position {position}: the collection has {len(items)} items")


def _contains(collection: Any, key: Any) -> bool:
    """Return whether a map has a key, a vector a position, or a set an item."""
    if isinstance(collection, tuple | str):
        return type(key) is int and 0 <= key < len(collection)
    return collection is not None and key in (
        collection if isinstance(collection, dict) else frozenset(require_sequence(collection))
    )


def _range(*bounds: Any) -> tuple[int, ...]:
    numbers = range(*(int(require_number(bound)) for bound in bounds))
    if len(numbers) > MAX_COLLECTION_ITEMS:
        raise ValueError(f"the range has more than {MAX_COLLECTION_ITEMS} numbers")
    return tuple(numbers)


def _item_function(position: int) -> Callable[[Any], Any]:
    """Return a function that returns the item at `position` of its argument, or nil if there is none."""

    def at(value: Any) -> Any:
        items = require_sequence(value)
        return items[position] if -len(items) <= position < len(items) else None

    return at


_vector = _collection_function(tuple)
COLLECTION_FUNCTIONS: Mapping[str, Function] = {
    "count": Function(_count, 1, 1),
    "empty?": Function(lambda a: _count(a) == 0, 1, 1),
    "not-empty": Function(lambda a: a if _count(a) else None, 1, 1),
    "get": Function(_get, 2, 3),
    "nth": Function(_nth, 2, 3),
    "first": Function(_item_function(0), 1, 1),
    "second": Function(_item_function(1), 1, 1),
    "last": Function(_item_function(-1), 1, 1),
    "rest": Function(lambda a: require_sequence(a)[1:], 1, 1),
    "contains?": Function(_contains, 2, 2),
    "vector": Function(_vector, 0, None),
    "list": Function(_vector, 0, None),
    "tuple": Function(_vector, 0, None),
    "untuple": Function(require_sequence, 1, 1),
    "set": Function(lambda a: frozenset(require_sequence(a)), 1, 1),
    "hash-map": Function(_collection_function(_make_map), 0, None),
    "array-map": Function(_collection_function(_make_map), 0, None),
    "range": Function(_range, 1, 3),
}
"""Functions on collections, by the names used in queries."""


def _require_string(value: Any) -> str:
    """Return the value unchanged, after checking that it is a string.

    Raises:
        TypeError: the value is not a string.
    """
    if not isinstance(value, str):
        raise TypeError(f"expected a string, not {kind_name(value)}")
    return value


def _string_function(function: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a function so that it raises a TypeError unless all its arguments are strings."""

    def checked(*values: Any) -> Any:
        return function(*map(_require_string, values))

    return checked


def _check_text_length(text: str) -> str:
    """Return a created text unchanged, after checking its length.

    Raises:
        ValueError: the text is too long.
    """
    if len(text) > MAX_STRING_CHARACTERS:
        raise ValueError(f"the resulting text is longer than {MAX_STRING_CHARACTERS} characters")
    return text


def _str(*values: Any) -> str:
    return _check_text_length("".join(map(print_str, values)))


def _pr_str(*values: Any) -> str:
    return _check_text_length(" ".join(map(print_edn, values)))


def _subs(text: Any, start: Any, end: Any = None) -> str:
    end = len(_require_string(text)) if end is None else require_number(end)
    if not 0 <= require_number(start) <= end <= len(text):
        raise ValueError(f"the range {start} to {end} exceeds the text, which has {len(text)} characters")
    return str(text)[int(start) : int(end)]


def _index_of(text: Any, part: Any) -> int | None:
    position = _require_string(text).find(_require_string(part))
    return None if position < 0 else position


def _join(*values: Any) -> str:
    return _check_text_length(
        (print_str(values[0]) if len(values) == 2 else "").join(map(print_str, require_sequence(values[-1])))
    )


def _name(value: Any) -> str:
    return _require_string(value).removeprefix(":").rpartition("/")[2]


def _namespace(value: Any) -> str | None:
    return _require_string(value).removeprefix(":").rpartition("/")[0] or None


def _keyword(*parts: Any) -> Keyword:
    return Keyword(":" + "/".join(_require_string(part).removeprefix(":") for part in parts))


def _to_pattern(value: Any) -> Pattern:
    """Return the value as a pattern, compiling it if it is a string."""
    return value if isinstance(value, Pattern) else compile_pattern(_require_string(value))


def _pattern_function(function: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a function so that its first two arguments after the clock are a pattern and a string."""

    def search(clock: Clock, pattern: Any, text: Any) -> Any:
        return function(clock, _to_pattern(pattern), _require_string(text))

    return search


def _split(clock: Clock, text: Any, pattern: Any, limit: Any = 0) -> tuple[str, ...]:
    return regexes.split(clock, _to_pattern(pattern), _require_string(text), int(require_number(limit)))


_CLOJURE_STRING_FUNCTIONS: Mapping[str, Function] = {
    "includes?": Function(_string_function(str.__contains__), 2, 2),
    "starts-with?": Function(_string_function(str.startswith), 2, 2),
    "ends-with?": Function(_string_function(str.endswith), 2, 2),
    "blank?": Function(lambda value: value is None or not _require_string(value).strip(), 1, 1),
    "lower-case": Function(_string_function(str.lower), 1, 1),
    "upper-case": Function(_string_function(str.upper), 1, 1),
    "trim": Function(_string_function(str.strip), 1, 1),
    "index-of": Function(_index_of, 2, 2),
    "join": Function(_join, 1, 2),
    "split": Function(_split, 2, 3, is_timed=True),
    "split-lines": Function(lambda clock, text: _split(clock, text, r"\r?\n"), 1, 1, is_timed=True),
}
"""Functions in the namespace `clojure.string`, by their names in that namespace."""
STRING_FUNCTIONS: Mapping[str, Function] = {
    "str": Function(_str, 0, None),
    "pr-str": Function(_pr_str, 0, None),
    "subs": Function(_subs, 2, 3),
    "name": Function(_name, 1, 1),
    "namespace": Function(_namespace, 1, 1),
    "keyword": Function(_keyword, 1, 2),
    "re-pattern": Function(_to_pattern, 1, 1),
    "re-find": Function(_pattern_function(regexes.find_first), 2, 2, is_timed=True),
    "re-matches": Function(_pattern_function(regexes.match_whole), 2, 2, is_timed=True),
    "re-seq": Function(_pattern_function(regexes.find_all), 2, 2, is_timed=True),
    **{f"clojure.string/{name}": function for name, function in _CLOJURE_STRING_FUNCTIONS.items()},
    **{f"str/{name}": function for name, function in _CLOJURE_STRING_FUNCTIONS.items()},
}
"""Functions on strings, by the names used in queries."""


ENTITY_FUNCTIONS: Mapping[str, str] = {
    "missing?": "`(missing? $ ?e :attribute)`",
    "get-else": "`(get-else $ ?e :attribute default)`",
    "get-some": "`(get-some $ ?e :attribute …)`",
}
"""Functions that read entities from a source, with their usage. The planner handles them specially."""

SHARING_FUNCTIONS = frozenset(
    {"identity", "ground", "get", "nth", "first", "second", "last", "and", "or", "max", "min", "not-empty"}
)
"""Functions that return an argument or a part of one, so their results take no additional memory."""


def explain_failure(error: Exception) -> str:
    """Return the reason why a function failed on its arguments."""
    return "division by zero" if isinstance(error, ZeroDivisionError) else str(error)


def is_true(value: object) -> bool:
    """Return whether a value counts as true in a query. Everything does except false and nil."""
    return value is not None and value is not False and value is not Boolean.FALSE


def _first_true(*values: Any) -> Any:
    """Return the first value that counts as true, or else the last value."""
    return next((value for value in values if is_true(value)), values[-1] if values else None)


def _first_false(*values: Any) -> Any:
    """Return the first value that counts as false, or else the last value."""
    return next((value for value in values if not is_true(value)), values[-1] if values else True)


_LOGICAL_FUNCTIONS: Mapping[str, Function] = {
    "not": Function(lambda a: not is_true(a), 1, 1),
    "and": Function(_first_false, 0, None),
    "or": Function(_first_true, 0, None),
    "true?": Function(lambda a: a is Boolean.TRUE, 1, 1),
    "false?": Function(lambda a: a is Boolean.FALSE, 1, 1),
    "nil?": Function(lambda a: a is None, 1, 1),
    "some?": Function(lambda a: a is not None, 1, 1),
    "string?": Function(lambda a: isinstance(a, str), 1, 1),
    "number?": Function(lambda a: type(a) in (int, float), 1, 1),
    "identity": Function(lambda a: a, 1, 1),
    "ground": Function(lambda a: a, 1, 1),
}
"""Logical functions, by the names used in queries."""
FUNCTIONS: Mapping[str, Function] = {
    **ARITHMETIC_FUNCTIONS,
    **_LOGICAL_FUNCTIONS,
    **STRING_FUNCTIONS,
    **COLLECTION_FUNCTIONS,
}
"""All functions, by the names used in queries."""
