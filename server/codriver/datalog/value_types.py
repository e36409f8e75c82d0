"""Value types of queries: their limits, their order, and their conversion from EDN and JSON and back.

A value is None, a bool, a number, a string (a keyword is one), or an immutable collection: a tuple for vectors and
lists, a frozenset, or a `ValueMap`. All can be hashed, as rows are told apart by their values.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from enum import Enum
from functools import cmp_to_key
from typing import TYPE_CHECKING, Any

from codriver.datalog.edn import Keyword
from codriver.datalog.regexes import InvalidPatternError, Pattern, compile_pattern

if TYPE_CHECKING:
    from codriver.datalog.edn import Form, Text

MAX_ITEMS = 100_000  # of a collection that a function makes
MAX_CHARACTERS = 2**20  # of a string that a function makes
MAX_NESTING = 32
MAX_INTEGER = 2**1024  # about where floats end, too

RANKS = {"nil": 0, "a boolean": 1, "a number": 2, "a string": 3, "a collection": 4, "a regex": 5}


class Boolean(Enum):
    """A boolean as a value: Python's own are the numbers 0 and 1 wherever values are joined or told apart."""

    FALSE = "false"
    TRUE = "true"

    def __str__(self) -> str:
        return self.value


class ValueMap(dict[Any, Any]):
    """A map as a value. Never changed, so it can be hashed."""

    __slots__ = ()

    def __hash__(self) -> int:  # type: ignore[override]  # dict says None: it does not know that nobody changes us
        return hash(frozenset(self.items()))


def constant(text: Text, form: Form) -> object:
    """The value of a form that stands for itself.

    Raises:
        QueryError: a regex is invalid, or a variable stands where only values can.
    """
    match form.tag:
        case "vector" | "list":
            return tuple(constant(text, item) for item in form.items)
        case "set":
            return frozenset(constant(text, item) for item in form.items)
        case "map":
            values = [constant(text, item) for item in form.items]
            return ValueMap(zip(values[::2], values[1::2], strict=True))
        case "symbol":
            raise text.error("a value", form)
        case "regex":
            try:
                return compile_pattern(form.value)
            except InvalidPatternError as error:
                raise text.error(f"a regex that is valid ({error})", form) from None
    return own(form.value)


def own(value: object) -> object:
    """The value of ours that a function of Python gave."""
    return (Boolean.TRUE if value else Boolean.FALSE) if isinstance(value, bool) else value


def from_json(value: object) -> object:
    """A JSON value as a value of ours."""
    if isinstance(value, list | tuple):
        return tuple(from_json(item) for item in value)
    if isinstance(value, Mapping):
        return ValueMap((key, from_json(item)) for key, item in value.items())
    return own(value)


def to_json(value: object) -> object:
    """A value as JSON: every collection but a map becomes a list, what JSON has no number for becomes a string."""
    if isinstance(value, str):
        return str(value)
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, tuple):
        return [to_json(item) for item in value]
    if isinstance(value, frozenset):
        return [to_json(item) for item in in_order(value)]
    if isinstance(value, dict):
        return {key if isinstance(key, str) else str(key): to_json(item) for key, item in value.items()}
    if isinstance(value, Pattern):
        return value.text
    return value is Boolean.TRUE if isinstance(value, Boolean) else value


def kind(value: object) -> str:
    """The kind of a value, in a word for errors."""
    if isinstance(value, Boolean):
        return "a boolean"
    if isinstance(value, int | float):
        return "a number"
    if isinstance(value, str):
        return "a string"
    return "nil" if value is None else "a regex" if isinstance(value, Pattern) else "a collection"


def compare(left: Any, right: Any) -> int:
    """Below 0, 0 or above 0 as `left` comes before, with or after `right`. Values of different kinds have an order too.

    Collections go by their length, then by their items, as in Clojure.
    """
    left_kind, right_kind = kind(left), kind(right)
    if left_kind != right_kind:
        return RANKS[left_kind] - RANKS[right_kind]
    if left_kind == "a collection":
        if len(left) != len(right):
            return len(left) - len(right)
        pairs = zip(_items(left), _items(right), strict=True)
        return next((order for order in (compare(a, b) for a, b in pairs) if order), 0)
    if left_kind in ("nil", "a regex"):
        return 0
    if left_kind == "a boolean":
        return (left is Boolean.TRUE) - (right is Boolean.TRUE)
    return int(left > right) - int(left < right)


def in_order(values: Iterable[object]) -> list[Any]:
    """The values, sorted."""
    return sorted(values, key=cmp_to_key(compare))


def nested(value: object, levels: int = 0) -> int:
    """The levels of collections in a value; stops counting where there are too many."""
    if isinstance(value, str) or not isinstance(value, Iterable) or levels > MAX_NESTING:
        return levels
    return max((nested(item, levels + 1) for item in _items(value)), default=levels + 1)


def characters(value: object) -> int:
    """The length of all text in a value."""
    if isinstance(value, str):
        return len(value)
    if isinstance(value, dict):
        return sum(characters(key) + characters(item) for key, item in value.items())
    return sum(map(characters, value)) if isinstance(value, Iterable) else 0


def quotient(dividend: float, divisor: float) -> float:
    """The quotient; a whole one as an int."""
    if isinstance(dividend, int) and isinstance(divisor, int) and dividend % divisor == 0:
        return dividend // divisor
    return dividend / divisor


def _items(value: Iterable[object]) -> Iterable[object]:
    if isinstance(value, frozenset):
        return in_order(value)
    return value.items() if isinstance(value, dict) else value


def text_of(value: Any) -> str:
    """The value as `str` prints it."""
    if value is None:
        return ""
    return str(value) if isinstance(value, str) else printed(value)


def printed(value: Any) -> str:
    """The value as `pr-str` prints it."""
    match value:
        case None:
            return "nil"
        case Keyword():
            return str(value)
        case str():
            return '"' + value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'
        case Pattern():
            return f'#"{value.text}"'
        case tuple():
            return "[" + " ".join(map(printed, value)) + "]"
        case frozenset():
            return "#{" + " ".join(sorted(map(printed, value))) + "}"
        case dict():
            return "{" + ", ".join(f"{printed(k)} {printed(v)}" for k, v in value.items()) + "}"
    return str(value)
