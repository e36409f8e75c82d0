"""The planner, which decides the order in which clauses run and the operator for each.

The order of clauses in the query does not affect the answer. At each step, clauses that only filter are chosen first,
then those that share a bound variable, then those that contain a constant, and then the first remaining one. Joins use
hashes and indexes, so their sizes need not be estimated. A `not` waits until all variables that it shares with other
clauses are bound. This may lead to different answers from DataScript's, which runs a `not` where it is written, and
treats variables that are bound later as not shared.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from codriver_datalog import attribute_functions, operators
from codriver_datalog.clause_readiness import is_or_ready, provided_variables
from codriver_datalog.edn import Form, print_edn
from codriver_datalog.errors import truncate
from codriver_datalog.functions import ENTITY_FUNCTIONS, FUNCTIONS, SHARING_FUNCTIONS, explain_failure
from codriver_datalog.pattern_joins import Group, make_datom_step, make_group_step, match_group
from codriver_datalog.syntax_tree import (
    Argument,
    Blank,
    Clause,
    Constant,
    FunctionCall,
    Not,
    Or,
    Pattern,
    Predicate,
    RuleCall,
    Source,
    Term,
    Variable,
    argument_variables,
    binding_variables,
    shared_variables,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from codriver_datalog.operators import Expression, Step
    from codriver_datalog.query_context import Context, Scope
    from codriver_datalog.rows import Row, Rows

Unit = Group | Clause

SWAPPED_COMPARISONS: Mapping[str, str] = {"<": ">", ">": "<", "<=": ">=", ">=": "<="}
"""Comparisons that are equivalent after their arguments are swapped."""

CALLS_PER_CHECK = 512
"""Number of calls to a function between two checks of the time limit. A single call may take a few milliseconds."""
MAX_VALUE_CHARACTERS = 60
"""Maximum length of a value in an error message."""


@dataclass(frozen=True)
class Plan:
    """A sequence of steps, and the variables in the columns of the rows that they produce.

    `is_distinct` means that no row is produced twice.
    """

    steps: tuple[Step, ...]
    scope: Scope
    is_distinct: bool

    def projection(self, names: Sequence[str]) -> Callable[[Row], Row]:
        """Return a function that selects the values of these variables from a row that the plan produces."""
        columns, constants = self.scope.columns, self.scope.constants
        if all(name in columns for name in names):
            return operators.make_projection([columns[name] for name in names])
        known = [(columns.get(name), constants.get(name)) for name in names]
        return lambda row: tuple([value if column is None else row[column] for column, value in known])


def plan_clauses(context: Context, clauses: Iterable[Clause], scope: Scope, requested: Iterable[str]) -> Plan:
    """Plan the order and the steps of clauses, so that the result has the `requested` variables.

    `scope` contains the variables of the rows that the plan starts with.

    Raises:
        QueryError: a clause needs variables that no other clause binds.
    """
    planner = _Planner(context, clauses, scope, frozenset(requested))
    while planner.pending:
        planner.add(planner.select_next())
    return Plan(tuple(planner.steps), planner.scope, planner.is_distinct)


class _Planner:
    """Plans a step for each clause, always continuing with the clause that is cheapest to run."""

    def __init__(self, context: Context, clauses: Iterable[Clause], scope: Scope, requested: frozenset[str]) -> None:
        self.context = context
        self.scope = scope
        self.steps: list[Step] = []
        self.is_distinct = True
        self.pending: list[Unit] = _group_patterns(clauses)
        self._requested = requested

    def select_next(self) -> Unit:
        """Return the next clause to run: a filter if possible, or else the one with the fewest expected results."""
        self.context.budget.check()
        ready = [unit for unit in self.pending if self._is_ready(unit)]
        if not ready:
            raise self._unbound_error(self.pending[0])
        return ready[0] if len(ready) == 1 else min(ready, key=self._cost_rank)

    def add(self, unit: Unit) -> None:
        """Add the steps for a clause or group."""
        self.pending.remove(unit)
        match unit:
            case Group():
                self._add_group(unit)
            case Pattern():
                snapshot = self.context.snapshot(unit.source)
                self._add_step(*make_datom_step(unit, self.scope, snapshot, self._needed_variables()))
            case Predicate():
                call = self._make_caller(unit.function, unit.arguments, unit.form)
                self._add_step(self._explain_errors(unit, operators.filter_rows(call), call), (), is_distinct=True)
            case FunctionCall():
                self._add_function(unit)
            case Not():
                self._add_not(unit)
            case Or():
                self._add_or(unit)
            case RuleCall():
                self._add_rule(unit)

    def _add_step(self, step: Step, names: Iterable[str], *, is_distinct: bool = False) -> None:
        """Add a step and its columns. `is_distinct` means that it never turns distinct rows into equal ones."""
        self.steps.append(step)
        self.scope = self.scope.with_names(names)
        self.is_distinct &= is_distinct

    def _needed_variables(self) -> frozenset[str]:
        """Return the variables that the result or pending clauses use."""
        return self._requested.union(*map(_variables, self.pending))

    def _is_ready(self, unit: Unit) -> bool:
        """Return whether all variables that a clause needs are bound."""
        match unit:
            case Predicate() | FunctionCall():
                return self.scope.binds(argument_variables(unit.arguments))
            case Not():
                return all(
                    isinstance(other, Not) or self.scope.binds(_provided_variables(other) & _variables(unit))
                    for other in self.pending
                )
            case Or():
                inner = self.scope.nested_scope(unit.variables)
                return is_or_ready(self.context, unit, frozenset((*inner.names, *inner.constants)))
            case RuleCall():
                positions = frozenset(position for position, _ in self._bound_arguments(unit))
                return self.context.rules.can_run(unit.name, positions)
        return True

    def _cost_rank(self, unit: Unit) -> int:
        """Return a rank for how many rows a clause may produce, from 0 for a filter to 4 for all entities."""
        if isinstance(unit, Predicate | FunctionCall | Not):
            return 0
        if any(self.scope.binds((name,)) for name in _variables(unit)):
            # A recursive rule receives inputs only from the store.
            return 2 if isinstance(unit, Or | RuleCall) else 1
        return 3 if isinstance(unit, Group) and _has_known_value(unit) else 4

    def _add_group(self, group: Group) -> None:
        lines, absorbed = self._line_range(group)
        for predicate in absorbed:
            self.pending.remove(predicate)
        snapshot = self.context.snapshot(group.source)
        match = match_group(group, self.scope, snapshot.schema.positions)
        step, names = make_group_step(match, snapshot, lines, self._needed_variables())
        self._add_step(step, names, is_distinct=not match.joined)

    def _line_range(self, group: Group) -> tuple[range | None, list[Predicate]]:
        """Return the range of lines to which comparisons limit a group, and the comparisons that the range replaces."""
        names = group.line_variables(self.context.snapshot(group.source).schema.positions)
        low, high = 0, None
        absorbed: list[Predicate] = []
        for unit in self.pending:
            if not isinstance(unit, Predicate) or unit.function not in SWAPPED_COMPARISONS or len(unit.arguments) != 2:
                continue
            left, right = unit.arguments
            function = unit.function
            if isinstance(right, Variable) and right.name in names:
                left, right, function = right, left, SWAPPED_COMPARISONS[function]
            if not isinstance(left, Variable) or left.name not in names or self.scope.binds((left.name,)):
                continue
            bound = self._constant_value(right)
            if type(bound) is not int:
                continue
            absorbed.append(unit)
            if function.startswith(">"):
                low = max(low, bound + (function == ">"))
            else:
                stop = bound + (function == "<=")
                high = stop if high is None else min(high, stop)
        if not absorbed:
            return None, absorbed
        last = self.context.snapshot(group.source).last_line
        return range(low, last + 1 if high is None else max(low, high)), absorbed

    def _constant_value(self, argument: Argument) -> object:
        """Return the constant value of an argument, or None if it depends on the row."""
        if isinstance(argument, Constant):
            return argument.value
        return self.scope.constants.get(argument.name) if isinstance(argument, Variable) else None

    def _make_caller(self, name: str, arguments: Sequence[Argument], form: Form) -> Callable[[Row], Any]:
        """Return a function that calls the query function `name` with arguments from a row."""
        function: Callable[..., Any]
        if name in ENTITY_FUNCTIONS:
            source, *arguments = arguments
            if not isinstance(source, Source):
                raise self.context.text.error(f"expected {ENTITY_FUNCTIONS[name]}", form)
            function = partial(_entity_functions()[name], self.context.snapshot(source))
        else:
            known = FUNCTIONS[name]
            function = partial(known.call, self.context.budget) if known.is_timed else known.call
        return operators.make_caller(function, [self._to_expression(argument) for argument in arguments])

    def _to_expression(self, argument: Argument) -> Expression:
        """Return an argument as an expression: a column of the row or a constant value."""
        if isinstance(argument, Variable) and argument.name in self.scope.columns:
            return self.scope.columns[argument.name], None
        return None, self._constant_value(argument)

    def _add_function(self, unit: FunctionCall) -> None:
        plain = call = self._make_caller(unit.function, unit.arguments, unit.form)
        if unit.function not in SHARING_FUNCTIONS and unit.function not in ENTITY_FUNCTIONS:
            call = _charge_results(call, self.context.budget.charge_value)
        names = binding_variables(unit.binding)
        if isinstance(unit.binding, Variable) and not self.scope.binds(names):
            self._add_step(self._explain_errors(unit, operators.add_value(call), plain), names)
            return
        known = [self._to_expression(Variable(name)) if self.scope.binds((name,)) else None for name in names]
        new = [name for name, old in zip(names, known, strict=True) if old is None]
        if len(set(new)) < len(new):
            raise self.context.text.error("a binding may contain each variable only once", unit.form)
        self._add_step(self._explain_errors(unit, operators.add_binding(call, unit.binding, known), plain), new)

    def _explain_errors(self, unit: Predicate | FunctionCall, step: Step, call: Callable[[Row], Any]) -> Step:
        """Wrap a step that calls a function, to check the time limit and explain the function's errors."""
        context = self.context
        arguments = [self._to_expression(argument) for argument in unit.arguments if not isinstance(argument, Source)]

        def explained(rows: Rows) -> Iterator[Rows]:
            for start in range(0, len(rows), CALLS_PER_CHECK):
                context.budget.check()
                some = rows[start : start + CALLS_PER_CHECK]
                try:
                    yield from step(some)
                except operators.ARGUMENT_ERRORS as error:
                    values = operators.find_failing_arguments(call, arguments, some)
                    why = explain_failure(error) + _failed_call_text(unit.function, arguments, values)
                    raise context.text.error(
                        f"expected arguments that `{unit.function}` accepts ({why})", unit.form
                    ) from error

        return explained

    def _add_not(self, unit: Not) -> None:
        inner = self.scope.nested_scope(shared_variables(unit))
        if not inner.names and not inner.constants:
            raise self.context.text.error(
                "a variable that is used in `not` needs another clause that binds it", unit.form
            )
        # The answers of rules must be complete here, because their absence has a meaning.
        context = replace(self.context, rules=self.context.rules.with_separate_tables())
        planned = plan_clauses(context, unit.clauses, inner, inner.names)
        key = operators.make_projection([self.scope.columns[name] for name in inner.names])
        found = planned.projection(inner.names)

        def step(rows: Rows) -> Iterator[Rows]:
            keys = list(dict.fromkeys(map(key, rows)))
            failing = {
                found(row) for batch in operators.run_steps(planned.steps, keys, context.budget) for row in batch
            }
            yield [row for row in rows if key(row) not in failing]

        self._add_step(step, ())

    def _add_or(self, unit: Or) -> None:
        inner = self.scope.nested_scope(unit.variables)
        new = [name for name in unit.variables if not inner.binds((name,))]
        plans = [plan_clauses(self.context, branch, inner, (*inner.names, *new)) for branch in unit.branches]
        outputs = [planned.projection((*inner.names, *new)) for planned in plans]
        bound, charged = len(inner.names), 0

        def matching(rows: Rows) -> Callable[[Row], Iterable[Row] | None]:
            nonlocal charged
            self.context.budget.charge_rows(-charged)  # rows held by the previous batch
            charged = 0
            keys = list(dict.fromkeys(map(key, rows)))
            found: dict[Row, None] = {}
            for planned, output in zip(plans, outputs, strict=True):
                for batch in operators.run_steps(planned.steps, keys, self.context.budget):
                    before = len(found)
                    found.update(dict.fromkeys(map(output, batch)))
                    charged += len(found) - before
                    self.context.budget.charge_rows(len(found) - before)
            return operators.group_by_key(found, range(bound), range(bound, bound + len(new))).get

        key = operators.make_projection([self.scope.columns[name] for name in inner.names])
        self._add_step(operators.join_step(key, matching), new)

    def _bound_arguments(self, call: RuleCall) -> list[tuple[int, Expression]]:
        """Return the position and expression of each bound argument of a rule call."""
        return [
            (position, self._to_expression(term))
            for position, term in enumerate(call.arguments)
            if isinstance(term, Constant) or (isinstance(term, Variable) and self.scope.binds((term.name,)))
        ]

    def _add_rule(self, call: RuleCall) -> None:
        bound = self._bound_arguments(call)
        free = [position for position in range(len(call.arguments)) if position not in dict(bound)]
        first: dict[str, int] = {}
        repeated: list[tuple[int, int]] = []
        for position in free:
            term = call.arguments[position]
            if isinstance(term, Variable) and first.setdefault(term.name, position) != position:
                repeated.append((position, first[term.name]))
        answers = self.context.rules.make_rule_caller(call, tuple(position for position, _ in bound))
        expressions = [expression for _, expression in bound]
        output = operators.make_projection(list(first.values()))

        def key(row: Row) -> Row:
            return tuple([value if column is None else row[column] for column, value in expressions])

        def matching(rows: Rows) -> Callable[[Row], Iterable[Row]]:
            table = answers(list(dict.fromkeys(map(key, rows))))
            return lambda values: dict.fromkeys(
                output(found) for found in table(values) if all(found[a] == found[b] for a, b in repeated)
            )

        self._add_step(operators.join_step(key, matching), first)

    def _unbound_error(self, unit: Unit) -> Exception:
        """Return an error about a clause whose variables no other clause binds."""
        free = sorted(name for name in _variables(unit) if not self.scope.binds((name,)))
        form = unit.patterns[0].form if isinstance(unit, Group) else unit.form
        return self.context.text.error(f"this clause needs another clause that binds {' '.join(free)}", form)


def _group_patterns(clauses: Iterable[Clause]) -> list[Unit]:
    """Combine patterns about the same entity into groups, and return them with the other clauses."""
    units: list[Unit] = []
    groups: dict[tuple[Source, Term], list[Pattern]] = {}
    for clause in clauses:
        if not isinstance(clause, Pattern) or not _has_known_attribute(clause):
            units.append(clause)
        elif isinstance(clause.entity, Blank):
            units.append(Group(clause.source, clause.entity, _with_constant_attributes((clause,))))
        else:
            groups.setdefault((clause.source, clause.entity), []).append(clause)
    units += [
        Group(source, entity, _with_constant_attributes(patterns)) for (source, entity), patterns in groups.items()
    ]
    return units


def _has_known_value(group: Group) -> bool:
    """Return whether the entity or one of its values is a constant."""
    return any(isinstance(term, Constant) for term in (group.entity, *(pattern.value for pattern in group.patterns)))


def _has_known_attribute(pattern: Pattern) -> bool:
    """Return whether the attribute is a constant, or is omitted together with the value."""
    return isinstance(pattern.attribute, Constant) or (
        isinstance(pattern.attribute, Blank) and isinstance(pattern.value, Blank)
    )


def _with_constant_attributes(patterns: Iterable[Pattern]) -> tuple[Pattern, ...]:
    """Return the patterns with a constant attribute. The others only require that the entity exists."""
    return tuple(pattern for pattern in patterns if isinstance(pattern.attribute, Constant))


def _variables(unit: Unit) -> frozenset[str]:
    return unit.variables if isinstance(unit, Group) else shared_variables(unit)


def _provided_variables(unit: Unit) -> frozenset[str]:
    return unit.variables if isinstance(unit, Group) else provided_variables(unit)


def _charge_results(call: Callable[[Row], Any], charge: Callable[[object], None]) -> Callable[[Row], Any]:
    """Wrap a call so that its results are charged to the budget by `charge`."""

    def counted(row: Row) -> Any:
        value = call(row)
        charge(value)
        return value

    return counted


def _failed_call_text(function: str, arguments: Sequence[Expression], values: Row | None) -> str:
    """Describe the failed call with its arguments for an error, or return "" if all arguments are constants."""
    if values is None or all(column is None for column, _ in arguments):
        return ""
    printed = [truncate(print_edn(value), MAX_VALUE_CHARACTERS) for value in values]
    return f" in ({' '.join([function, *printed])}). Add a clause that filters out such values"


def _entity_functions() -> Mapping[str, Callable[..., Any]]:
    """Return the query functions that read entities, by name."""
    return {
        "missing?": attribute_functions.is_missing,
        "get-else": attribute_functions.get_else,
        "get-some": attribute_functions.get_some,
    }
