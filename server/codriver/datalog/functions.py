"""Function table of queries: a fixed list, so that no query runs code.

They mean what they mean in Clojure. What they are given but cannot work with makes them raise `TypeError`, `ValueError`
or an arithmetic error. The clause that called adds its place and the values, and refuses the query, as Clojure and
DataScript do: a row that silently went missing would be a wrong answer. Clauses that only filter run first, so they can
keep out what a function cannot work with. What functions make is bounded in size, as a recursive rule could otherwise
grow it without end.

Two differ from DataScript's: `<`, `>`, `<=`, `>=` compare numbers with numbers and strings with strings, and refuse the
rest, as a comparison of a line with a text is a mistake; and a keyword equals the string of its text.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from codriver.datalog.arithmetic import ARITHMETIC
from codriver.datalog.sequences import SEQUENCES
from codriver.datalog.signature import Function
from codriver.datalog.strings import STRINGS
from codriver.datalog.value_types import Boolean

if TYPE_CHECKING:
    from collections.abc import Mapping

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


def reason(error: Exception) -> str:
    """Why a function could not work with what it was given, in words."""
    return "division by zero" if isinstance(error, ZeroDivisionError) else str(error)


def is_true(value: object) -> bool:
    """What counts as true: all but false and nil."""
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
