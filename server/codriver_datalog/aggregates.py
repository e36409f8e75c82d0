"""The aggregate functions of queries, such as `sum` and `max`."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cmp_to_key
from typing import TYPE_CHECKING, Any

from codriver_datalog.edn import (
    compare_values,
    kind_name,
    quotient,
    sort_values,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
BY_VALUE = cmp_to_key(compare_values)
"""Sort key for values of any kind."""


@dataclass(frozen=True, slots=True)
class AggregateFunction:
    """An aggregate function of queries, such as `max`.

    `call` takes the values of a group. If `accepts_amount` is true, it also takes the number of values to return, or
    None.
    """

    call: Callable[..., Any]
    accepts_amount: bool = False


def _require_numbers(values: Sequence[Any]) -> Sequence[Any]:
    """Return the values unchanged, after checking that all of them are numbers.

    Raises:
        TypeError: a value is not a number.
    """
    for value in values:
        if type(value) not in (int, float):
            raise TypeError(f"expected numbers, not {kind_name(value)}")
    return values


def _average(values: Sequence[Any]) -> float:
    return quotient(sum(_require_numbers(values)), len(values))


def _median(values: Sequence[Any]) -> float:
    ordered = sorted(_require_numbers(values))
    middle = len(ordered) // 2
    if len(ordered) % 2:
        median: float = ordered[middle]
        return median
    return quotient(ordered[middle - 1] + ordered[middle], 2)


def _variance(values: Sequence[Any]) -> float:
    mean = sum(_require_numbers(values)) / len(values)
    return float(sum((value - mean) ** 2 for value in values) / len(values))


def _are_comparable(values: Sequence[Any]) -> bool:
    """Return whether Python's operators order the values like `compare_values`, but much faster."""
    classes = set(map(type, values))
    return classes <= {int, float} or classes == {str}


def _lowest(values: Sequence[Any], amount: int | None) -> Any:
    """Return the lowest value, or the `amount` lowest values in ascending order."""
    if amount is not None:
        return tuple(sort_values(values)[:amount])
    return min(values) if _are_comparable(values) else min(values, key=BY_VALUE)


def _highest(values: Sequence[Any], amount: int | None) -> Any:
    """Return the highest value, or the `amount` highest values in ascending order."""
    if amount is not None:
        return tuple(sort_values(values)[max(0, len(values) - amount) :])
    return max(values) if _are_comparable(values) else max(values, key=BY_VALUE)


AGGREGATE_FUNCTIONS: Mapping[str, AggregateFunction] = {
    "count": AggregateFunction(len),
    "count-distinct": AggregateFunction(lambda values: len(set(values))),
    "distinct": AggregateFunction(frozenset),
    "sum": AggregateFunction(lambda values: sum(_require_numbers(values))),
    "avg": AggregateFunction(_average),
    "median": AggregateFunction(_median),
    "variance": AggregateFunction(_variance),
    "stddev": AggregateFunction(lambda values: math.sqrt(_variance(values))),
    "min": AggregateFunction(_lowest, accepts_amount=True),
    "max": AggregateFunction(_highest, accepts_amount=True),
}
"""Aggregate functions, by the names used in queries."""
