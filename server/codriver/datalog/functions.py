"""Function table of queries: a fixed list, aggregates included, so that no query runs code.

They mean what they mean in Clojure. What they are given but cannot work with makes them raise `TypeError`, `ValueError`
or an arithmetic error. The clause that called adds its place and the values, and refuses the query, as Clojure and
DataScript do: a row that silently went missing would be a wrong answer. Clauses that only filter run first, so they can
keep out what a function cannot work with. What functions make is bounded in size, as a recursive rule could otherwise
grow it without end.

Two differ from DataScript's: `<`, `>`, `<=`, `>=` compare numbers with numbers and strings with strings, and refuse the
rest, as a comparison of a line with a text is a mistake; and a keyword equals the string of its text.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cmp_to_key
from typing import TYPE_CHECKING, Any

from codriver.datalog.number_functions import ARITHMETIC, Function
from codriver.datalog.text_functions import SEQUENCES, STRINGS
from codriver.datalog.value_types import Boolean, compare, in_order, kind, quotient

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

ENTITY_FUNCTIONS: Mapping[str, str] = {
    "missing?": "`(missing? $ ?e :attribute)`",
    "get-else": "`(get-else $ ?e :attribute default)`",
    "get-some": "`(get-some $ ?e :attribute …)`",
}
"""Functions that look into a source, and how they are used. The planner knows them."""

SHARING = frozenset(
    {"identity", "ground", "get", "nth", "first", "second", "last", "and", "or", "max", "min", "not-empty"}
)
"""Functions that give what they were given, or a part of it, and so make no new value."""

BY_VALUE = cmp_to_key(compare)


def reason(error: Exception) -> str:
    """Why a function could not work with what it was given, in words."""
    return "division by zero" if isinstance(error, ZeroDivisionError) else str(error)


def is_true(value: object) -> bool:
    """Whether a value counts as true: all but false and nil do."""
    return value is not None and value is not False and value is not Boolean.FALSE


def _first_true(*values: Any) -> Any:
    return next((value for value in values if is_true(value)), values[-1] if values else None)


def _first_false(*values: Any) -> Any:
    return next((value for value in values if not is_true(value)), values[-1] if values else True)


_LOGIC: Mapping[str, Function] = {
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
FUNCTIONS: Mapping[str, Function] = {**ARITHMETIC, **_LOGIC, **STRINGS, **SEQUENCES}
"""By the names that queries call them by."""


@dataclass(frozen=True, slots=True)
class AggregateFunction:
    """An aggregate. One that takes an amount is given it as a second argument, None when there is none."""

    call: Callable[..., Any]
    takes_amount: bool = False


def _numbers(values: Sequence[Any]) -> Sequence[Any]:
    for value in values:
        if type(value) not in (int, float):
            raise TypeError(f"numbers are needed, not {kind(value)}")
    return values


def _average(values: Sequence[Any]) -> float:
    return quotient(sum(_numbers(values)), len(values))


def _median(values: Sequence[Any]) -> float:
    ordered = sorted(_numbers(values))
    middle = len(ordered) // 2
    if len(ordered) % 2:
        median: float = ordered[middle]
        return median
    return quotient(ordered[middle - 1] + ordered[middle], 2)


def _variance(values: Sequence[Any]) -> float:
    """The variance of the whole, not of a sample."""
    mean = sum(_numbers(values)) / len(values)
    return float(sum((value - mean) ** 2 for value in values) / len(values))


def _one_kind(values: Sequence[Any]) -> bool:
    """Whether Python compares them all with one another, which is much faster than our order."""
    classes = set(map(type, values))
    return classes <= {int, float} or classes == {str}


def _lowest(values: Sequence[Any], amount: int | None) -> Any:
    if amount is not None:
        return tuple(in_order(values)[:amount])
    return min(values) if _one_kind(values) else min(values, key=BY_VALUE)


def _highest(values: Sequence[Any], amount: int | None) -> Any:
    if amount is not None:
        return tuple(in_order(values)[max(0, len(values) - amount) :])
    return max(values) if _one_kind(values) else max(values, key=BY_VALUE)


AGGREGATES: Mapping[str, AggregateFunction] = {
    "count": AggregateFunction(len),
    "count-distinct": AggregateFunction(lambda values: len(set(values))),
    "distinct": AggregateFunction(frozenset),
    "sum": AggregateFunction(lambda values: sum(_numbers(values))),
    "avg": AggregateFunction(_average),
    "median": AggregateFunction(_median),
    "variance": AggregateFunction(_variance),
    "stddev": AggregateFunction(lambda values: math.sqrt(_variance(values))),
    "min": AggregateFunction(_lowest, takes_amount=True),
    "max": AggregateFunction(_highest, takes_amount=True),
}
"""By the names that queries call them by."""
