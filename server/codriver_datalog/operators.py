"""Relational operators over batches of rows: joins, filters, projections and bindings.

Rows are tuples. A batch passes through all steps before the next one starts. That way few rows exist at once, the time
limit is checked between batches, and the rows found so far are correct. All patterns about one entity form a single
join, which uses the best index of the store. The scope of a plan has the variables that are bound so far.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import product
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Protocol

from codriver_datalog.edn import MAX_COLLECTION_ITEMS, Text, from_python, kind_name
from codriver_datalog.entity_store import between
from codriver_datalog.errors import InvalidPatternError
from codriver_datalog.functions import is_true
from codriver_datalog.syntax_tree import (
    Binding,
    Blank,
    Clause,
    CollectionBinding,
    Constant,
    FunctionCall,
    Not,
    Or,
    Pattern,
    Predicate,
    RuleCall,
    Source,
    Term,
    TupleBinding,
    Variable,
    argument_variables,
    variables,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Hashable, Mapping

    from codriver_datalog.budget import Budget
    from codriver_datalog.entity_store import Record, Snapshot


Row = tuple[Any, ...]
Rows = list[Row]
Step = Callable[[Rows], Iterator[Rows]]
Expression = tuple[int | None, Any]
"""A column of the row and None, or None and a constant value."""

BATCH_ROWS = 8192
"""Number of rows after which a step yields a batch."""
FAILURES = (TypeError, ValueError, ArithmeticError, InvalidPatternError)
"""The exceptions that functions raise for unsuitable arguments."""


def run_steps(steps: Sequence[Step], rows: Rows, budget: Budget) -> Iterator[Rows]:
    """Run the steps, and yield the batches of the last one."""
    if not steps:
        yield rows
        return
    first, *rest = steps
    for batch in first(rows):
        budget.check()
        if batch:
            yield from run_steps(rest, batch, budget)


def make_projection(columns: Sequence[int]) -> Callable[[Row], Row]:
    """Return a function that selects columns of a row."""
    if not columns:
        return lambda _: ()
    if len(columns) == 1:
        column = columns[0]
        return lambda row: (row[column],)
    getter: Callable[[Row], Row] = itemgetter(*columns)
    return getter


def project_rows(rows: Collection[Row], columns: Sequence[int]) -> Rows:
    """Select columns of all rows. Working one column at a time is faster."""
    if not columns:
        return [()] * len(rows)
    return list(zip(*[map(itemgetter(column), rows) for column in columns], strict=True))


def cross_join(additions: Rows) -> Step:
    """Return a step that combines each row with each addition."""
    together = max(1, BATCH_ROWS // max(1, len(additions)))

    def step(rows: Rows) -> Iterator[Rows]:
        if rows == [()]:
            yield additions
            return
        for start in range(0, len(rows), together):
            yield [row + added for row in rows[start : start + together] for added in additions]

    return step


def join_step(key: Callable[[Row], Row], matching: Callable[[Rows], Callable[[Row], Iterable[Row] | None]]) -> Step:
    """Return a step that combines each row with the additions for its key, which `matching` returns."""

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


def hash_rows(rows: Collection[Row], key: Sequence[int], rest: Sequence[int]) -> dict[Row, Rows]:
    """Group rows by their key columns, and keep only the other columns of each."""
    return group_rows(project_rows(rows, key), project_rows(rows, rest))


def group_rows(keys: Iterable[Hashable], rows: Iterable[Row]) -> dict[Any, Rows]:
    """Group rows by their keys, in the order of first occurrence."""
    groups: defaultdict[Hashable, Rows] = defaultdict(list)
    for key, row in zip(keys, rows, strict=True):
        groups[key].append(row)
    return groups


def make_caller(function: Callable[..., Any], arguments: Sequence[Expression]) -> Callable[[Row], Any]:
    """Return a function that calls `function` with arguments from a row.

    Common numbers of arguments have separate code for speed.
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
    """Return the arguments of the first row on which the call fails, or None."""
    for row in rows:
        try:
            call(row)
        except FAILURES:
            return tuple(value if column is None else row[column] for column, value in arguments)
    return None


def filter_rows(call: Callable[[Row], Any]) -> Step:
    """Return a step that keeps the rows for which the call returns a true value."""

    def step(rows: Rows) -> Iterator[Rows]:
        yield [row for row in rows if is_true(call(row))]

    return step


def add_value(call: Callable[[Row], Any]) -> Step:
    """Return a step that adds the result of the call as a column, and drops rows for which it is nil."""

    def step(rows: Rows) -> Iterator[Rows]:
        yield [(*row, from_python(value)) for row in rows if (value := call(row)) is not None]

    return step


def add_binding(call: Callable[[Row], Any], binding: Binding, columns: Sequence[Expression | None]) -> Step:
    """Return a step that destructures the results of the call, and adds them as columns.

    `columns` has an entry for each variable of the binding: the expression that it must equal, or None for a new
    column.
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


def destructure(binding: Binding, value: Any) -> Sequence[Row]:
    """Destructure a value into rows with one value per variable of the binding.

    Raises:
        TypeError: the binding requires a collection, but the value is not a collection.
        ValueError: the value has fewer parts than the binding, or yields too many rows.
    """
    match binding:
        case Variable():
            return ((value,),)
        case Blank():
            return ((),)
        case CollectionBinding(element):
            rows: Rows = []
            for item in _collection(value):
                rows += destructure(element, item)
                _check_size(len(rows))
            return rows
        case TupleBinding(parts):
            items = _collection(value)
            if len(items) < len(parts):
                raise ValueError(f"a binding of {len(parts)} parts needs at least as many items, not {len(items)}")
            expanded = [destructure(part, item) for part, item in zip(parts, items, strict=False)]
            _check_size(math.prod(map(len, expanded)))
            return [tuple(cell for cells in row for cell in cells) for row in product(*expanded)]


def _check_size(rows: int) -> None:
    """Check that destructuring one value yields at most `MAX_COLLECTION_ITEMS` rows.

    Raises:
        ValueError: there are more.
    """
    if rows > MAX_COLLECTION_ITEMS:
        raise ValueError(f"a binding can make at most {MAX_COLLECTION_ITEMS} rows of one value")


def _collection(value: Any) -> tuple[Any, ...]:
    """Return the items of a value that a binding destructures.

    Raises:
        TypeError: the value is not a collection.
    """
    if value is None:
        return ()
    if isinstance(value, dict):
        return tuple(value.items())
    if isinstance(value, tuple | frozenset):
        return tuple(value)
    raise TypeError(f"a binding can only destructure a collection, not {kind_name(value)}")


@dataclass(frozen=True)
class Scope:
    """The variables that are bound so far, as columns of the rows or with constant values."""

    names: tuple[str, ...]
    constants: Mapping[str, object]

    @cached_property
    def columns(self) -> Mapping[str, int]:
        """Return the column of each variable by name."""
        return {name: position for position, name in enumerate(self.names)}

    def binds(self, names: Iterable[str]) -> bool:
        """Return whether all of these variables are bound."""
        return all(name in self.columns or name in self.constants for name in names)

    def with_names(self, names: Iterable[str]) -> Scope:
        """Return the scope with these variables added as columns."""
        return Scope((*self.names, *names), self.constants)

    def inside(self, shared: Iterable[str] | None) -> Scope:
        """Return the scope of nested clauses, limited to the shared variables unless `shared` is None."""
        if shared is None:
            return self
        known = set(shared)
        names = tuple(name for name in self.names if name in known)
        return Scope(names, {name: value for name, value in self.constants.items() if name in known})


class SolvedRules(Protocol):
    """The interface through which plans use rules, whose bodies are plans themselves."""

    def apart(self) -> SolvedRules:
        """Return the same rules with separate tables of answers, so that answers are always complete."""

    def can_run(self, name: str, positions: frozenset[int]) -> bool:
        """Return whether the rule can be evaluated if the arguments at these positions are bound."""

    def caller(self, call: RuleCall, positions: tuple[int, ...]) -> Callable[[Rows], Callable[[Row], Iterable[Row]]]:
        """Return a function that takes all input rows and returns a function from a row to its answers."""


@dataclass(frozen=True)
class Context:
    """The context of a query: its text for errors, sources, budget, and rules."""

    text: Text
    sources: Mapping[str, Snapshot]
    budget: Budget
    rules: SolvedRules

    def snapshot(self, source: Source) -> Snapshot:
        """Return the entities of a source.

        Raises:
            QueryError: the query has no such source.
        """
        if source.name not in self.sources:
            raise self.text.error_at(f"one of the sources {' '.join(self.sources)}", source.name, 0)
        return self.sources[source.name]


def variables_bound_by(clause: Clause) -> frozenset[str]:
    """Return the variables that are bound after the clause has run."""
    return frozenset() if isinstance(clause, Predicate | Not) else variables(clause)


def bound_after(context: Context, clauses: Iterable[Clause], bound: frozenset[str]) -> frozenset[str] | None:
    """Return the variables that are bound after these clauses have run, or None if the clauses cannot run."""
    waiting = list(clauses)
    while waiting:
        context.budget.check()  # nested clauses can make this take long
        ready: list[Clause] = []
        later: list[Clause] = []
        for clause in waiting:
            (ready if _is_ready(context, clause, bound) else later).append(clause)
        if not ready:
            return None
        bound = bound.union(*map(variables_bound_by, ready))
        waiting = later
    return bound


def _is_ready(context: Context, clause: Clause, bound: frozenset[str]) -> bool:
    """Return whether a clause can run when these variables are bound."""
    match clause:
        case Predicate(arguments=arguments) | FunctionCall(arguments=arguments):
            return argument_variables(arguments) <= bound
        case Not():
            inner = bound & variables(clause)
            return bool(inner) and bound_after(context, clause.clauses, inner) is not None
        case Or():
            return is_or_ready(context, clause, bound & frozenset(clause.variables))
        case RuleCall():
            positions = frozenset(
                position
                for position, term in enumerate(clause.arguments)
                if isinstance(term, Constant) or (isinstance(term, Variable) and term.name in bound)
            )
            return context.rules.can_run(clause.name, positions)
    return True


def is_or_ready(context: Context, clause: Or, bound: frozenset[str]) -> bool:
    """Return whether every branch can run and bind the shared variables, given the variables that are bound."""
    if not clause.required <= bound:
        return False
    after = [bound_after(context, branch, bound) for branch in clause.branches]
    return all(names is not None and names.issuperset(clause.variables) for names in after)


LINE = 0  # the place of the line in a record; a line is an entity's id
"""The position of an entity's line in its record."""


@dataclass(frozen=True, slots=True)
class Group:
    """Patterns with known attributes about the same entity in the same source."""

    source: Source
    entity: Term
    patterns: tuple[Pattern, ...]

    @property
    def variables(self) -> frozenset[str]:
        """Return all variables in the group."""
        terms = (self.entity, *(pattern.value for pattern in self.patterns))
        return frozenset(term.name for term in terms if isinstance(term, Variable))

    def line_variables(self, positions: Mapping[str, int]) -> frozenset[str]:
        """Return the variables that represent the line of the entity."""
        terms = [self.entity] + [p.value for p in self.patterns if positions.get(_attribute(p)) == LINE]
        return frozenset(term.name for term in terms if isinstance(term, Variable))


@dataclass
class Match:
    """Conditions on a record, by position, and the columns that a matching record adds to a row."""

    fixed: list[tuple[int, object]] = field(default_factory=list)
    """Positions that must equal a constant."""
    joined: list[tuple[int, int]] = field(default_factory=list)
    """Positions that must equal a column of the row."""
    same: list[tuple[int, int]] = field(default_factory=list)
    """Positions that must equal each other."""
    present: set[int] = field(default_factory=set)
    """Positions that must not be None."""
    outputs: dict[str, int] = field(default_factory=dict)
    """The positions of new columns, by variable."""

    def add(self, position: int, term: Term, scope: Scope) -> None:
        """Add the condition that the value at a position equals the term."""
        self.present.add(position)
        if isinstance(term, Constant):
            self.fixed.append((position, term.value))
        elif isinstance(term, Variable):
            if term.name in scope.constants:
                self.fixed.append((position, scope.constants[term.name]))
            elif term.name in scope.columns:
                self.joined.append((position, scope.columns[term.name]))
            elif term.name in self.outputs:
                self.same.append((position, self.outputs[term.name]))
            else:
                self.outputs[term.name] = position

    def passing(self, records: Sequence[Row], required: frozenset[int]) -> Sequence[Row]:
        """Return the records that satisfy all conditions that are the same for all rows."""
        for position, value in self.fixed:
            # A missing value is None in a record, so nil must not match it.
            records = [record for record in records if record[position] == value] if value is not None else []
        for position in self.present - required:
            records = [record for record in records if record[position] is not None]
        for position, other in self.same:
            records = [record for record in records if record[position] == record[other]]
        return records


def match_group(group: Group, scope: Scope, positions: Mapping[str, int]) -> Match:
    """Return the conditions of all patterns in a group on a record."""
    match = Match()
    match.add(LINE, group.entity, scope)
    for pattern in group.patterns:
        position = positions.get(_attribute(pattern))
        if position is None:  # only other sources have this attribute
            match.fixed.append((LINE, None))
        match.add(LINE if position is None else position, pattern.value, scope)
    return match


def group_step(match: Match, snapshot: Snapshot, lines: range | None, needed: Iterable[str]) -> tuple[Step, list[str]]:
    """Return a step that adds matching records to rows, and the names of the added columns.

    `lines` limits the lines of the records if it is not None.
    """
    names = [name for name in match.outputs if name in needed]
    columns = [match.outputs[name] for name in names]
    required = snapshot.schema.required_positions
    is_unique = any(match.outputs[name] == LINE for name in names)

    def additions(records: Sequence[Row]) -> list[Row]:
        rows = project_rows(records, columns)
        return rows if is_unique else list(dict.fromkeys(rows))

    if not match.joined:
        return cross_join(additions(match.passing(_candidates(match, snapshot, lines), required))), names

    key = make_projection([column for _, column in match.joined])
    positions = [position for position, _ in match.joined]
    record_key = make_projection(positions)
    best = min(range(len(match.joined)), key=lambda n: _spread(snapshot, match.joined[n][0]))
    best_position = match.joined[best][0]
    built: dict[Row, list[Row]] | None = None

    def matching(rows: list[Row]) -> Any:
        nonlocal built
        if built is None and snapshot.is_indexed(best_position) and len(rows) * FEW < len(snapshot):
            return look_up
        if built is None:
            records = match.passing(_candidates(match, snapshot, lines), required)
            built = hash_rows(records, positions, columns)
        return built.get

    def look_up(values: Row) -> list[Row]:
        records: Sequence[Row] = _records_in_lines(snapshot.with_value(best_position, values[best]), lines)
        if len(values) > 1:
            records = [record for record in records if record_key(record) == values]
        return additions(match.passing(records, required))

    return join_step(key, matching), names


FEW = 8  # with fewer rows than an eighth of the entities, asking the index for each beats reading all entities once
"""How many times more entities than rows there must be to look up each row in the index.

Otherwise, reading all entities once is faster.
"""


def datom_step(pattern: Pattern, scope: Scope, snapshot: Snapshot, needed: Iterable[str]) -> tuple[Step, list[str]]:
    """Return a step for a pattern with an unknown attribute, and the names of its columns.

    It splits all entities into triples.
    """
    match = Match()
    for position, term in enumerate((pattern.entity, pattern.attribute, pattern.value)):
        match.add(position, term, scope)
    keywords = snapshot.schema.keywords
    triples: list[Row] = [
        (record[LINE], keyword, value)
        for record in snapshot.records
        for keyword, value in zip(keywords, record, strict=True)
        if value is not None
    ]
    found = match.passing(triples, frozenset(range(3)))
    names = [name for name in match.outputs if name in needed]
    columns = [match.outputs[name] for name in names]
    if not match.joined:
        return cross_join(list(dict.fromkeys(project_rows(found, columns)))), names
    table = hash_rows(found, [position for position, _ in match.joined], columns)
    key = make_projection([column for _, column in match.joined])
    return join_step(key, lambda _: table.get), names


def _candidates(match: Match, snapshot: Snapshot, lines: range | None) -> Sequence[Row]:
    """Return the records to check, narrowed down with an index if possible."""
    indexed = [(position, value) for position, value in match.fixed if snapshot.is_indexed(position)]
    if indexed:
        position, value = min(indexed, key=lambda candidate: snapshot.count_with_value(*candidate))
        return _records_in_lines(snapshot.with_value(position, value), lines)
    return snapshot.records if lines is None else snapshot.between(lines.start, lines.stop - 1)


def _records_in_lines(records: Sequence[Record], lines: range | None) -> Sequence[Record]:
    """Return the records whose lines are in the range. `records` must be in line order."""
    return records if lines is None else between(records, lines.start, lines.stop - 1)


def _spread(snapshot: Snapshot, position: int) -> float:
    """Return how many records have the same value of an attribute, on average."""
    if position == LINE:
        return 0
    return (
        len(snapshot) / max(1, snapshot.distinct_values(position)) if snapshot.is_indexed(position) else len(snapshot)
    )


def _attribute(pattern: Pattern) -> str:
    """Return the attribute of a pattern, which must be known."""
    if not isinstance(pattern.attribute, Constant):
        raise TypeError("the patterns of a group must have known attributes")
    return str(pattern.attribute.value)


def is_missing(snapshot: Snapshot, entity: object, attribute: object) -> bool:
    """Implement `missing?`: return whether the entity lacks an attribute."""
    return _value(snapshot, entity, attribute) is None


def get_else(snapshot: Snapshot, entity: object, attribute: object, default: object) -> object:
    """Implement `get-else`: return the entity's value of an attribute, or the default."""
    value = _value(snapshot, entity, attribute)
    return default if value is None else value


def get_some(snapshot: Snapshot, entity: object, *attributes: object) -> tuple[object, object] | None:
    """Implement `get-some`: return the first of the attributes that the entity has and its value, or None."""
    for attribute in attributes:
        value = _value(snapshot, entity, attribute)
        if value is not None:
            return attribute, value
    return None


def _value(snapshot: Snapshot, entity: object, attribute: object) -> object:
    """Return the value of an entity's attribute, or None."""
    record = snapshot.entity(entity)
    position = snapshot.schema.positions.get(attribute) if isinstance(attribute, str) else None
    return None if record is None or position is None else record[position]
