"""Number functions of queries: arithmetic and comparison, bounded in size; and `Function`, the shape of every one."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from codriver.datalog.value_types import MAX_INTEGER, Boolean, compare, kind, quotient

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


@dataclass(frozen=True, slots=True)
class Function:
    """A function and the number of its arguments; `most` None is any number. A timed one is given the clock first."""

    call: Callable[..., Any]
    least: int
    most: int | None
    is_timed: bool = False

    def takes(self, count: int) -> bool:
        """Whether it can be called with so many arguments."""
        return self.least <= count and (self.most is None or count <= self.most)

    def arity_text(self) -> str:
        """The number of arguments that it takes, in words."""
        if self.most is None:
            return f"{self.least} or more arguments"
        return f"{self.least} arguments" if self.least == self.most else f"{self.least} to {self.most} arguments"


def as_number(value: Any) -> Any:
    """The value, which has to be a number."""
    if type(value) not in (int, float):
        raise TypeError(f"a number is needed, not {kind(value)}")
    return value


def _bounded(value: Any) -> Any:
    if type(value) is int and not -MAX_INTEGER < value < MAX_INTEGER:
        raise ValueError("the number gets too large")
    return value


def _fold(combine: Callable[[Any, Any], Any], start: Any) -> Callable[..., Any]:
    def fold(*numbers: Any) -> Any:
        result = start
        for number in numbers:
            result = _bounded(combine(result, as_number(number)))
        return result

    return fold


def _minus(first: Any, *rest: Any) -> Any:
    if not rest:
        return -as_number(first)
    result = as_number(first)
    for number in rest:
        result = _bounded(result - as_number(number))
    return result


def _divide(first: Any, *rest: Any) -> Any:
    numbers = [as_number(number) for number in (first, *rest)]
    result = numbers.pop(0) if rest else 1
    for number in numbers:
        result = quotient(result, number)
    return result


def _quot(dividend: Any, divisor: Any) -> Any:
    whole = abs(as_number(dividend)) // abs(as_number(divisor))
    return whole if (dividend < 0) == (divisor < 0) else -whole


def _rem(dividend: Any, divisor: Any) -> Any:
    return dividend - _quot(dividend, divisor) * divisor


def _extreme(sign: int) -> Callable[..., Any]:
    def extreme(first: Any, *rest: Any) -> Any:
        result = first
        for value in rest:
            if compare(value, result) * sign > 0:
                result = value
        return result

    return extreme


def _ordered(holds: Callable[[Any, Any], bool]) -> Callable[..., bool]:
    def ordered(*values: Any) -> bool:
        for left, right in pairwise(values):
            if (type(left) is not type(right) and kind(left) != kind(right)) or isinstance(left, Boolean):
                raise TypeError(
                    f"numbers compare with numbers and strings with strings, not {kind(left)} with {kind(right)}"
                )
            if not holds(left, right):
                return False
        return True

    return ordered


def _all_equal(*values: Any) -> bool:
    return all(left == right for left, right in pairwise(values))


ARITHMETIC: Mapping[str, Function] = {
    "+": Function(_fold(lambda a, b: a + b, 0), 0, None),
    "-": Function(_minus, 1, None),
    "*": Function(_fold(lambda a, b: a * b, 1), 0, None),
    "/": Function(_divide, 1, None),
    "quot": Function(_quot, 2, 2),
    "rem": Function(_rem, 2, 2),
    "mod": Function(lambda a, b: as_number(a) % as_number(b), 2, 2),
    "inc": Function(lambda a: _bounded(as_number(a) + 1), 1, 1),
    "dec": Function(lambda a: _bounded(as_number(a) - 1), 1, 1),
    "abs": Function(lambda a: abs(as_number(a)), 1, 1),
    "max": Function(_extreme(1), 1, None),
    "min": Function(_extreme(-1), 1, None),
    "zero?": Function(lambda a: as_number(a) == 0, 1, 1),
    "pos?": Function(lambda a: as_number(a) > 0, 1, 1),
    "neg?": Function(lambda a: as_number(a) < 0, 1, 1),
    "even?": Function(lambda a: as_number(a) % 2 == 0, 1, 1),
    "odd?": Function(lambda a: as_number(a) % 2 == 1, 1, 1),
    "=": Function(_all_equal, 1, None),
    "==": Function(_all_equal, 1, None),
    "not=": Function(lambda *values: not _all_equal(*values), 1, None),
    "!=": Function(lambda *values: not _all_equal(*values), 1, None),
    "<": Function(_ordered(lambda a, b: bool(a < b)), 1, None),
    ">": Function(_ordered(lambda a, b: bool(a > b)), 1, None),
    "<=": Function(_ordered(lambda a, b: bool(a <= b)), 1, None),
    ">=": Function(_ordered(lambda a, b: bool(a >= b)), 1, None),
    "compare": Function(compare, 2, 2),
}
"""By the names that queries call them by."""
