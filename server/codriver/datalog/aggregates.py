"""Aggregate functions: `count`, `max`, `sum` and others over the values of a variable in a group of rows.

Source: DataScript's `built-ins` for aggregates. `min` and `max` with an amount give that many, the lowest first. `rand`
and `sample` are left out: the same question shall have the same answer.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cmp_to_key
from typing import TYPE_CHECKING, Any

from codriver.datalog.value_types import compare, in_order, kind, quotient

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

BY_VALUE = cmp_to_key(compare)


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
    """Of the whole, not of a sample."""
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
