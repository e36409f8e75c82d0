"""Relational operators over batches of rows: joins, filters, projections and bindings.

Rows are tuples. A batch passes through all steps before the next one starts. This way, only a few rows exist at a time,
the time limit is checked between batches, and the rows found so far are always correct.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from codriver_datalog.destructuring import destructure
from codriver_datalog.edn import from_python
from codriver_datalog.errors import InvalidPatternError
from codriver_datalog.functions import is_true
from codriver_datalog.rows import Row, Rows

if TYPE_CHECKING:
    from collections.abc import Collection, Hashable

    from codriver_datalog.budget import Budget
    from codriver_datalog.syntax_tree import Binding


Step = Callable[[Rows], Iterator[Rows]]
"""A step of a query. It transforms a batch of rows into batches of new rows."""
Expression = tuple[int | None, Any]
"""A column of the row and None, or None and a constant value."""

BATCH_ROWS = 8192
"""Number of rows at which a step yields a batch."""
ARGUMENT_ERRORS = (TypeError, ValueError, ArithmeticError, InvalidPatternError)
"""The exceptions that functions raise for unsuitable arguments."""


def run_steps(steps: Sequence[Step], rows: Rows, budget: Budget) -> Iterator[Rows]:
    """Run the steps on the rows, and yield the batches of rows that the last step produces."""
    if not steps:
        yield rows
        return
    first, *rest = steps
    for batch in first(rows):
        budget.check()
        if batch:
            yield from run_steps(rest, batch, budget)


def make_projection(columns: Sequence[int]) -> Callable[[Row], Row]:
    """Return a function that selects columns from a row."""
    if not columns:
        return lambda _: ()
    if len(columns) == 1:
        column = columns[0]
        return lambda row: (row[column],)
    getter: Callable[[Row], Row] = itemgetter(*columns)
    return getter


def project_rows(rows: Collection[Row], columns: Sequence[int]) -> Rows:
    """Select columns from all rows. This is faster than projecting each row."""
    if not columns:
        return [()] * len(rows)
    return list(zip(*[map(itemgetter(column), rows) for column in columns], strict=True))


def cross_join(additions: Rows) -> Step:
    """Return a step that combines each row with each of the `additions`."""
    together = max(1, BATCH_ROWS // max(1, len(additions)))

    def step(rows: Rows) -> Iterator[Rows]:
        if rows == [()]:
            yield additions
            return
        for start in range(0, len(rows), together):
            yield [row + added for row in rows[start : start + together] for added in additions]

    return step


def join_step(key: Callable[[Row], Row], matching: Callable[[Rows], Callable[[Row], Iterable[Row] | None]]) -> Step:
    """Return a step that combines each row with the rows that have the same key.

    `matching` is called with each batch of rows, and returns a function from a key to the columns to add.
    """

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


def group_by_key(rows: Collection[Row], key: Sequence[int], rest: Sequence[int]) -> dict[Row, Rows]:
    """Group rows by their `key` columns. The grouped rows only have the columns `rest`."""
    return group_rows(project_rows(rows, key), project_rows(rows, rest))


def group_rows(keys: Iterable[Hashable], rows: Iterable[Row]) -> dict[Any, Rows]:
    """Group rows by their keys, in order of first occurrence."""
    groups: defaultdict[Hashable, Rows] = defaultdict(list)
    for key, row in zip(keys, rows, strict=True):
        groups[key].append(row)
    return groups


def make_caller(function: Callable[..., Any], arguments: Sequence[Expression]) -> Callable[[Row], Any]:
    """Return a function that calls `function` with arguments from a row.

    The most common combinations of arguments have their own code for speed.
    """
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


def find_failing_arguments(call: Callable[[Row], Any], arguments: Sequence[Expression], rows: Rows) -> Row | None:
    """Return the arguments for the first row on which the call fails, or None if it never fails."""
    for row in rows:
        try:
            call(row)
        except ARGUMENT_ERRORS:
            return tuple(value if column is None else row[column] for column, value in arguments)
    return None


def filter_rows(call: Callable[[Row], Any]) -> Step:
    """Return a step that only passes on the rows for which the call returns a true value."""

    def step(rows: Rows) -> Iterator[Rows]:
        yield [row for row in rows if is_true(call(row))]

    return step


def add_value(call: Callable[[Row], Any]) -> Step:
    """Return a step that adds the result of a call as a column. Rows for which the result is nil are dropped."""

    def step(rows: Rows) -> Iterator[Rows]:
        yield [(*row, from_python(value)) for row in rows if (value := call(row)) is not None]

    return step


def add_binding(call: Callable[[Row], Any], binding: Binding, columns: Sequence[Expression | None]) -> Step:
    """Return a step that destructures the result of a call and adds the values as columns.

    `columns` contains an entry for each variable of the binding: the expression that it must equal if the variable is
    already bound, or None for a new column.
    """
    new = [index for index, expression in enumerate(columns) if expression is None]
    old = [(index, *expression) for index, expression in enumerate(columns) if expression is not None]
    added = make_projection(new)

    def step(rows: Rows) -> Iterator[Rows]:
        out: Rows = []
        for row in rows:
            value = from_python(call(row))
            if value is None:
                continue
            for parts in destructure(binding, value):
                if all(
                    parts[position] == (expression if column is None else row[column])
                    for position, column, expression in old
                ):
                    out.append(row + added(parts))
            if len(out) >= BATCH_ROWS:
                yield out
                out = []
        yield out

    return step
