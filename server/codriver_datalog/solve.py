"""Solve queries: plan the clauses, run the plan, and arrange the results as specified by `:find`.

Rows with a line are sorted by line. Other rows keep the order in which they were found, which is always the same.
Limits on rows and size keep the rows with the highest lines, or the first rows. When the time is up, the answer
contains the rows found so far, and aggregates over them.

Answers differ from DataScript's in two respects. A pulled entity has its attributes by name without a namespace, and
always an `id`, which is its line. A scalar or a tuple is the first row in line order, whereas DataScript picks any.

Rules are evaluated with tables, one per rule and set of bound arguments, and only the needed answers are computed.
Rules may be recursive. They terminate because the number of values is finite, unless a function keeps creating values
until the time is up. A request to a rule is a job. If a table that a job has used grows, the job runs again, latest job
first. For example, a rule that follows a chain first requests everything up to the end of the chain, and then runs
again once for each link on the way back.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from heapq import heappop, heappush
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Literal

from codriver_datalog import operators
from codriver_datalog.aggregates import AGGREGATE_FUNCTIONS
from codriver_datalog.clause_parser import check_rule_calls
from codriver_datalog.clause_readiness import find_bound_variables
from codriver_datalog.edn import Text, print_edn, read_form, text_length, to_json
from codriver_datalog.errors import OutOfRowsError, OutOfTimeError
from codriver_datalog.functions import explain_failure
from codriver_datalog.query_context import Context, Scope
from codriver_datalog.query_inputs import Inputs, read_inputs
from codriver_datalog.query_parser import parse_pull
from codriver_datalog.query_plan import Plan, plan_clauses
from codriver_datalog.syntax_tree import (
    Aggregate,
    Branch,
    Clause,
    Constant,
    Element,
    Or,
    Pattern,
    Pull,
    PullPattern,
    Query,
    RuleCall,
    Rules,
    Source,
    Variable,
    replace_source,
    rule_calls,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from codriver_datalog.budget import Budget
    from codriver_datalog.entity_store import Snapshot
    from codriver_datalog.rows import Row, Rows


Cut = Literal["rows", "time"]
"""The limit that made an answer incomplete."""

MAX_ANSWER_CHARACTERS = 16 * 2**20
"""Maximum total number of characters of text in an answer, as much as the log itself may have by default."""
PLAIN_TYPES = frozenset({str, int, type(None)})
"""Types whose values need no conversion to JSON."""
NUMBER_TYPES = frozenset({int, float})
"""Types of numbers, which compare with each other and contain no text."""


@dataclass(frozen=True, slots=True)
class QueryAnswer:
    """The answer to a query as JSON values.

    `result` has the shape that `:find` requests, and `count` is its number of rows. `cut` is the reason why rows are
    missing, or None if the answer is complete.
    """

    result: object
    count: int
    cut: Cut | None = None

    @property
    def rows(self) -> list[Any]:
        """Return the rows of the answer. Returns [] if `:find` requests a single value or row."""
        return self.result if isinstance(self.result, list) else []


def pull_entity(snapshot: Snapshot, entity: object, pattern: PullPattern) -> dict[str, object] | None:
    """Return an entity as a dict of its `id` and the attributes in the pull pattern, or None if it does not exist."""
    record = snapshot.entity(entity)
    if record is None:
        return None
    pulled: dict[str, object] = {"id": record[0]}
    if pattern.wildcard:
        pulled |= snapshot.schema.document(record)
    for attribute in pattern.attributes:
        position = snapshot.schema.positions.get(attribute.keyword)
        value = None if position is None else record[position]
        if value is not None:
            pulled[attribute.key] = value
        elif attribute.default is not None:
            pulled[attribute.key] = attribute.default
    return pulled


class LineVariableFinder:
    """Finds the variables in a query that hold line numbers of entities."""

    def __init__(self, line: str, rules: Rules) -> None:
        self._line = Constant(line)
        self._rules = rules
        self._of_rules: dict[str, list[set[str]]] = {}

    def find(self, clauses: Iterable[Clause]) -> set[str]:
        """Return the variables in the clauses whose values are lines."""
        found: set[str] = set()
        for clause in clauses:
            match clause:
                case Pattern(entity=entity, attribute=attribute, value=value):
                    if isinstance(entity, Variable):
                        found.add(entity.name)
                    if isinstance(value, Variable) and attribute == self._line:
                        found.add(value.name)
                case Or(variables=names, branches=branches):
                    for branch in branches:
                        found |= self.find(branch) & set(names)
                case RuleCall(name=name, arguments=arguments):
                    for rule, inner in zip(self._rules[name], self._line_variables_by_branch(name), strict=False):
                        pairs = zip(rule.head, arguments, strict=True)
                        found |= {a.name for head, a in pairs if head in inner and isinstance(a, Variable)}
        return found

    def _line_variables_by_branch(self, name: str) -> list[set[str]]:
        """Return the line variables of each branch of a rule. Recursive calls are ignored."""
        if name not in self._of_rules:
            self._of_rules[name] = []
            self._of_rules[name] = [self.find(branch.clauses) for branch in self._rules[name]]
        return self._of_rules[name]


def solve(
    query: Query, sources: Mapping[str, Snapshot], inputs: Sequence[object], *, limit: int, budget: Budget
) -> QueryAnswer:
    """Run a query on its sources, which are snapshots by name.

    `inputs` are JSON values in the order of `:in`, excluding the sources. `limit` is the maximum number of rows.

    Raises:
        QueryError: the inputs do not match the query, or a clause cannot be run.
    """
    schema = query.schema
    given = read_inputs(query, inputs, schema)
    check_rule_calls(query.text, (call for call, _ in rule_calls(query.where)), given.rules)
    solver = RuleSolver(given.rules)
    context = Context(query.text, sources, budget, solver)
    solver.set_context(context)
    for source in query.inputs:
        if isinstance(source, Source):
            context.snapshot(source)
    names = _row_variables(query)
    found, cut = _find_rows(context, query, given, names)
    lines = LineVariableFinder(schema.keywords[0], given.rules).find(query.where)
    shaped = _AnswerShaper(context, query, names, lines, given)
    rows = shaped.rows(found)
    if len(rows) > limit and query.shape in ("relation", "collection"):
        cut = cut or "rows"
        rows = rows[-limit:] if shaped.line_column is not None else rows[:limit]
    return shaped.answer(rows, cut)


def _row_variables(query: Query) -> list[str]:
    """Return the variables of `:find`, followed by those of `:with`, without duplicates."""
    found = [element.name if isinstance(element, Variable) else element.variable.name for element in query.elements]
    return list(dict.fromkeys([*found, *query.with_variables]))


def _find_rows(context: Context, query: Query, given: Inputs, names: Sequence[str]) -> tuple[Rows, Cut | None]:
    """Return the distinct rows with the values of these variables, and why rows are missing, or None."""
    scope = Scope(given.names, given.constants)
    found: dict[Row, None] = {}
    distinct: Rows = []
    cut: Cut | None = None
    try:
        planned = plan_clauses(context, query.where, scope, names)
        output = planned.projection(names)
        is_whole = planned.scope.names == tuple(names)
        for batch in operators.run_steps(planned.steps, given.rows, context.budget):
            before = len(found) + len(distinct)
            if is_whole and planned.is_distinct:
                distinct += batch
            else:
                found.update(dict.fromkeys(batch if is_whole else map(output, batch)))
            context.budget.charge_rows(len(found) + len(distinct) - before)
    except OutOfTimeError:
        cut = "time"
    except OutOfRowsError:
        cut = "rows"
    return distinct or list(found), cut


class _AnswerShaper:
    """Converts rows to the shape that `:find` requests.

    Rows are sorted by the element at `line_column`, unless it is None.
    """

    def __init__(
        self, context: Context, query: Query, names: Sequence[str], lines: Iterable[str], given: Inputs
    ) -> None:
        self._context = context
        self._query = query
        self._columns = [
            names.index(element.name if isinstance(element, Variable) else element.variable.name)
            for element in query.elements
        ]
        self._given = given
        known = set(lines)
        self.line_column = next(
            (position for position, element in enumerate(query.elements) if _line_name(element) in known), None
        )

    def rows(self, found: Rows) -> Rows:
        """Aggregate and sort the rows. Entities are not pulled yet."""
        if any(isinstance(element, Aggregate) for element in self._query.elements):
            rows = self._aggregate_rows(found)
        elif self._columns == list(range(len(found[0]) if found else 0)):
            rows = found
        else:
            rows = operators.project_rows(found, self._columns)
        if self.line_column is not None:
            line = itemgetter(self.line_column)
            is_number = NUMBER_TYPES.issuperset(map(type, map(line, rows)))
            rows.sort(key=line if is_number else lambda row: line(row) if isinstance(line(row), int | float) else -1)
        return rows

    def answer(self, rows: Rows, cut: Cut | None) -> QueryAnswer:
        """Convert sorted rows to the answer, pulling entities if requested."""
        query = self._query
        is_one = query.shape in ("scalar", "tuple")
        if is_one:
            rows = rows[:1]
        if any(isinstance(element, Pull) for element in query.elements):
            pulled = [self._cell_converter(element) for element in query.elements]
            rows = [tuple(show(cell) for show, cell in zip(pulled, row, strict=True)) for row in rows]
        if not is_one:
            rows, cut = self._limit_size(rows, cut)
        rendered: list[Any] = _rows_to_json(rows)
        if query.keys:
            rendered = [dict(zip(query.keys, row, strict=True)) for row in rendered]
        if query.shape in ("scalar", "collection"):
            rendered = [row[0] for row in rendered]
        if is_one:
            return QueryAnswer(rendered[0] if rendered else None, len(rendered), cut)
        return QueryAnswer(rendered, len(rendered), cut)

    def _limit_size(self, rows: Rows, cut: Cut | None) -> tuple[Rows, Cut | None]:
        """Return as many rows as fit into an answer.

        These are the rows with the highest line numbers, or the first rows if the rows have no line numbers.
        """
        left = MAX_ANSWER_CHARACTERS
        if sum(map(_characters, zip(*rows, strict=True))) <= left:
            return rows, cut
        backwards = self.line_column is not None
        for number, row in enumerate(reversed(rows) if backwards else rows):
            left -= sum(map(text_length, row))
            if left < 0:
                return (rows[len(rows) - number :] if backwards else rows[:number]), cut or "rows"
        return rows, cut

    def _aggregate_rows(self, found: Rows) -> Rows:
        """Return one row for each group of rows that are equal in the columns without an aggregate."""
        elements = self._query.elements
        plain = [column for element, column in zip(elements, self._columns, strict=True) if not _is_aggregate(element)]
        by_key = operators.group_rows(map(itemgetter(*plain), found), found) if plain else {(): found} if found else {}
        return [
            tuple(
                self._aggregate(element, [row[column] for row in rows])
                if isinstance(element, Aggregate)
                else rows[0][column]
                for element, column in zip(elements, self._columns, strict=True)
            )
            for rows in by_key.values()
        ]

    def _aggregate(self, element: Aggregate, values: list[Any]) -> object:
        function = AGGREGATE_FUNCTIONS[element.function]
        try:
            return function.call(values, element.amount) if function.accepts_amount else function.call(values)
        except (TypeError, ValueError, ArithmeticError) as error:
            reason = f"expected values that `{element.function}` can work with ({explain_failure(error)})"
            raise self._query.text.error(reason, element.form) from error

    def _cell_converter(self, element: Element) -> Callable[[Any], object]:
        """Return a function that converts a value of this element for the answer."""
        if not isinstance(element, Pull):
            return lambda cell: cell
        snapshot = self._context.snapshot(element.source)
        pattern = element.pattern if not isinstance(element.pattern, Variable) else self._input_pattern(element.pattern)
        return lambda cell: pull_entity(snapshot, cell, pattern)

    def _input_pattern(self, variable: Variable) -> PullPattern:
        """Parse a pull pattern that was passed as an input, an EDN string or a list of attributes."""
        given = self._given.constants.get(variable.name)
        text = Text(given if isinstance(given, str) else print_edn(given), "pull pattern")
        return parse_pull(text, read_form(text), self._query.schema)


def _characters(column: Row) -> int:
    """Return the total length of the strings in a column. This is fast if all values have the same type."""
    types = set(map(type, column))
    return 0 if types <= NUMBER_TYPES else sum(map(len if types == {str} else text_length, column))


def _rows_to_json(rows: Rows) -> list[list[Any]]:
    if all(PLAIN_TYPES.issuperset(map(type, column)) for column in zip(*rows, strict=True)):
        return list(map(list, rows))
    return [[to_json(cell) for cell in row] for row in rows]


def _is_aggregate(element: Element) -> bool:
    return isinstance(element, Aggregate)


def _line_name(element: Element) -> str | None:
    """Return the variable whose value this element has for one entity, or None for other aggregates."""
    if isinstance(element, Variable):
        return element.name
    if isinstance(element, Pull):
        return element.variable.name
    is_one = element.function in ("min", "max") and element.amount is None
    return element.variable.name if is_one else None


Positions = tuple[int, ...]


class Table:
    """The answers of one rule for each input, which consists of values for the arguments at `positions`.

    `readers` contains the jobs that run again when an input has new answers.
    """

    def __init__(self, branches: tuple[Branch, ...], positions: Positions) -> None:
        self.branches = branches
        self.positions = positions
        self.answers: dict[Row, dict[Row, None]] = {}
        self.readers: dict[Row, set[Job]] = {}
        self.plans: list[tuple[Plan, Callable[[Row], Row]]] | None = None

    def request(self, inputs: Iterable[Row]) -> list[Row]:
        """Add inputs to evaluate, and return those that were not added before."""
        new = [key for key in inputs if key not in self.answers]
        for key in new:
            self.answers[key] = {}
            self.readers[key] = set()
        return new


@dataclass(frozen=True, eq=False, slots=True)
class Job:
    """Inputs of a rule that were requested together. Jobs with higher numbers were created later."""

    number: int
    table: Table
    inputs: Rows


class RuleSolver:
    """Evaluates the rules of a query, and stores their answers in tables."""

    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        self._tables: dict[tuple[str, Source, Positions], Table] = {}
        self._runnable: dict[tuple[str, frozenset[int]], bool] = {}
        self._context: Context | None = None
        self._jobs = 0
        self._waiting: list[tuple[int, Job]] = []
        self._queued: set[Job] = set()
        self._current: Job | None = None

    def set_context(self, context: Context) -> None:
        """Set the context of the query, which cannot be a constructor argument because it refers to the solver."""
        self._context = context

    def with_separate_tables(self) -> RuleSolver:
        """Return a solver for the same rules with separate tables of answers.

        A `not` needs it, because its nested clauses must see complete answers.
        """
        other = RuleSolver(self._rules)
        if self._context is not None:
            other.set_context(replace(self._context, rules=other))
        return other

    def can_run(self, name: str, positions: frozenset[int]) -> bool:
        """Return whether a rule can be evaluated if the arguments at these positions are bound."""
        known = self._runnable.get((name, positions))
        if known is None:
            # A recursive rule can run if its other clauses can.
            self._runnable[name, positions] = True
            known = self._runnable[name, positions] = all(
                self._can_run(branch, positions) for branch in self._rules[name]
            )
        return known

    def _can_run(self, branch: Branch, positions: frozenset[int]) -> bool:
        """Return whether a branch of a rule can be evaluated if the arguments at these positions are bound."""
        bound = frozenset(branch.head[position] for position in positions)
        if self._context is None:
            raise RuntimeError("set_context must be called before the rules are used")
        after = find_bound_variables(self._context, branch.clauses, bound)
        return branch.required <= bound and after is not None and after.issuperset(branch.head)

    def make_rule_caller(
        self, call: RuleCall, positions: Positions
    ) -> Callable[[Rows], Callable[[Row], Iterable[Row]]]:
        """Return a function that evaluates a rule for a batch of inputs.

        An input consists of values for the arguments at `positions`. The function returns another function, which maps
        each of these inputs to its answers. If it is called while another rule is being evaluated, answers may be
        incomplete, and the other rule is evaluated again when there are more.
        """
        key = (call.name, call.source, positions)
        table = self._tables.get(key)
        if table is None:
            branches = self._rules[call.name]
            if call.source.name != "$":
                moved = [tuple(replace_source(clause, call.source) for clause in branch.clauses) for branch in branches]
                branches = tuple(replace(b, clauses=clauses) for b, clauses in zip(branches, moved, strict=True))
            table = self._tables[key] = Table(branches, positions)

        def answer(inputs: Rows) -> Callable[[Row], Iterable[Row]]:
            new = table.request(inputs)
            if new:
                self._jobs += 1
                self._enqueue(Job(self._jobs, table, new))
            if self._current is None:
                self._grow_tables()
            else:
                for row in inputs:
                    table.readers[row].add(self._current)
            return lambda row: list(table.answers[row])

        return answer

    def _enqueue(self, job: Job) -> None:
        """Queue a job unless it is already queued."""
        if job not in self._queued:
            self._queued.add(job)
            heappush(self._waiting, (-job.number, job))

    def _grow_tables(self) -> None:
        """Run jobs until there are no new answers."""
        while self._waiting:
            job = heappop(self._waiting)[1]
            self._queued.remove(job)
            self._current = job
            grown = self._process_job(job)
            self._current = None
            for key in grown:
                for reader in job.table.readers[key]:
                    self._enqueue(reader)

    def _process_job(self, job: Job) -> set[Row]:
        """Run a job, and return the inputs that have new answers."""
        if self._context is None:
            raise RuntimeError("set_context must be called before the rules are used")
        budget = self._context.budget
        input_of = operators.make_projection(job.table.positions)
        grown: set[Row] = set()
        for planned, output in self._get_plans(job.table, self._context):
            for batch in operators.run_steps(planned.steps, job.inputs, budget):
                for row in map(output, batch):
                    key = input_of(row)
                    answers = job.table.answers[key]
                    if row not in answers:
                        answers[row] = None
                        budget.charge_rows(1)
                        grown.add(key)
        return grown

    def _get_plans(self, table: Table, context: Context) -> list[tuple[Plan, Callable[[Row], Row]]]:
        """Return a plan for each branch of a table's rule, with a function that selects the rule's arguments."""
        if table.plans is None:
            table.plans = []
            for branch in table.branches:
                scope = Scope(tuple(branch.head[position] for position in table.positions), {})
                planned = plan_clauses(context, branch.clauses, scope, branch.head)
                table.plans.append((planned, planned.projection(branch.head)))
        return table.plans
