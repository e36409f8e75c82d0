"""Relational operators: join, filter, projection and binding over batches of rows.

Rows are tuples. Batches go through all steps before the next batch is begun, so what is held at once stays small, the
time limit is heeded between batches, and rows that are found when time is over are right.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import product
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from codriver.datalog.functions import is_true
from codriver.datalog.regexes import InvalidPatternError
from codriver.datalog.syntax_tree import Binding, Blank, CollectionBinding, TupleBinding, Variable
from codriver.datalog.value_types import MAX_ITEMS, kind, own

if TYPE_CHECKING:
    from collections.abc import Collection, Hashable

    from codriver.datalog.errors import Budget

Row = tuple[Any, ...]
Rows = list[Row]
Step = Callable[[Rows], Iterator[Rows]]
Expression = tuple[int | None, Any]
"""A column of the row, or None and a value."""

BATCH_ROWS = 8192
FAILURES = (TypeError, ValueError, ArithmeticError, InvalidPatternError)
"""The exceptions of functions that cannot work with their arguments."""


def run(steps: Sequence[Step], rows: Rows, budget: Budget) -> Iterator[Rows]:
    """The batches that come out of the last step."""
    if not steps:
        yield rows
        return
    first, *rest = steps
    for batch in first(rows):
        budget.check()
        if batch:
            yield from run(rest, batch, budget)


def projection(columns: Sequence[int]) -> Callable[[Row], Row]:
    """A function that takes these columns out of a row, as a row."""
    if not columns:
        return lambda _: ()
    if len(columns) == 1:
        column = columns[0]
        return lambda row: (row[column],)
    getter: Callable[[Row], Row] = itemgetter(*columns)
    return getter


def projected(rows: Collection[Row], columns: Sequence[int]) -> Rows:
    """These columns of every row, as rows: column by column, which is faster than row by row."""
    if not columns:
        return [()] * len(rows)
    return list(zip(*[map(itemgetter(column), rows) for column in columns], strict=True))


def cross(additions: Rows) -> Step:
    """Every row with every addition."""
    together = max(1, BATCH_ROWS // max(1, len(additions)))

    def step(rows: Rows) -> Iterator[Rows]:
        if rows == [()]:
            yield additions
            return
        for start in range(0, len(rows), together):
            yield [row + added for row in rows[start : start + together] for added in additions]

    return step


def join(key: Callable[[Row], Row], matching: Callable[[Rows], Callable[[Row], Iterable[Row] | None]]) -> Step:
    """Every row with each addition for its key. `matching` is told the rows first, and gives the additions of a key."""

    def step(rows: Rows) -> Iterator[Rows]:
        additions = matching(rows)
        joined: Rows = []
        for row, found in zip(rows, map(additions, map(key, rows)), strict=True):
            for added in found or ():
                joined.append(row + added)
            if len(joined) >= BATCH_ROWS:
                yield joined
                joined = []
        yield joined

    return step


def hashed(rows: Collection[Row], key: Sequence[int], rest: Sequence[int]) -> dict[Row, Rows]:
    """The rows by the columns of their key: for each, the other columns."""
    return grouped(projected(rows, key), projected(rows, rest))


def grouped(keys: Iterable[Hashable], rows: Iterable[Row]) -> dict[Any, Rows]:
    """The rows by their keys, of which there is one a row. Keys come in the order of their first rows."""
    groups: defaultdict[Hashable, Rows] = defaultdict(list)
    for key, row in zip(keys, rows, strict=True):
        groups[key].append(row)
    return groups


def caller(function: Callable[..., Any], arguments: Sequence[Expression]) -> Callable[[Row], Any]:
    """A function that calls another with a row's arguments. Common shapes are spelled out: they run for every row."""
    match arguments:
        case [(int(column), _)]:
            return lambda row: function(row[column])
        case [(int(column), _), (None, value)]:
            return lambda row: function(row[column], value)
        case [(None, value), (int(column), _)]:
            return lambda row: function(value, row[column])
        case [(int(column), _), (int(other), _)]:
            return lambda row: function(row[column], row[other])
    return lambda row: function(*[value if column is None else row[column] for column, value in arguments])


def failing_call(call: Callable[[Row], Any], arguments: Sequence[Expression], rows: Rows) -> Row | None:
    """The arguments of the first row that the call cannot work with; None when it can with all."""
    for row in rows:
        try:
            call(row)
        except FAILURES:
            return tuple(value if column is None else row[column] for column, value in arguments)
    return None


def keep(call: Callable[[Row], Any]) -> Step:
    """The rows for which the call gives something true."""

    def step(rows: Rows) -> Iterator[Rows]:
        yield [row for row in rows if is_true(call(row))]

    return step


def add_value(call: Callable[[Row], Any]) -> Step:
    """The rows with the result of the call as a new column, without the rows whose result is nil."""

    def step(rows: Rows) -> Iterator[Rows]:
        yield [(*row, own(value)) for row in rows if (value := call(row)) is not None]

    return step


def add_bound(call: Callable[[Row], Any], binding: Binding, columns: Sequence[Expression | None]) -> Step:
    """The rows with what the call gives, taken apart.

    `columns`: for each variable of the binding what it must equal, or None where it becomes a new column.
    """
    new = [place for place, known in enumerate(columns) if known is None]
    old = [(place, *known) for place, known in enumerate(columns) if known is not None]
    added = projection(new)

    def step(rows: Rows) -> Iterator[Rows]:
        out: Rows = []
        for row in rows:
            value = own(call(row))
            if value is None:
                continue
            for parts in expand(binding, value):
                if all(parts[place] == (known if column is None else row[column]) for place, column, known in old):
                    out.append(row + added(parts))
            if len(out) >= BATCH_ROWS:
                yield out
                out = []
        yield out

    return step


def expand(binding: Binding, value: Any) -> Sequence[Row]:
    """The rows, one value a variable, that a binding makes of a value.

    Raises:
        TypeError: the value is no collection where the binding takes one apart.
        ValueError: it has fewer parts than the binding, or there would be too many rows.
    """
    match binding:
        case Variable():
            return ((value,),)
        case Blank():
            return ((),)
        case CollectionBinding(element):
            rows: Rows = []
            for item in _collection(value):
                rows += expand(element, item)
                _check_size(len(rows))
            return rows
        case TupleBinding(parts):
            items = _collection(value)
            if len(items) < len(parts):
                raise ValueError(f"a binding of {len(parts)} parts needs as many, not {len(items)}")
            expanded = [expand(part, item) for part, item in zip(parts, items, strict=False)]
            _check_size(math.prod(map(len, expanded)))
            return [tuple(cell for cells in row for cell in cells) for row in product(*expanded)]


def _check_size(rows: int) -> None:
    if rows > MAX_ITEMS:
        raise ValueError(f"a binding makes at most {MAX_ITEMS} rows of one value")


def _collection(value: Any) -> tuple[Any, ...]:
    if value is None:
        return ()
    if isinstance(value, dict):
        return tuple(value.items())
    if isinstance(value, tuple | frozenset):
        return tuple(value)
    raise TypeError(f"a binding takes a collection apart, not {kind(value)}")
