"""Rule solver: tables of what was asked and what was found, grown until nothing is new.

A table holds one rule as it is called with certain arguments bound. Only what is asked for is computed, a rule may call
itself, and it ends, as there are only so many values; unless a function makes ever new ones: then time ends it.

What is asked for at once is a job. A job whose answers came from a table that has grown since is done again, the latest
asked first: a rule that follows a chain asks its way to the end, and then every link is done once more on the way back.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from heapq import heappop, heappush
from typing import TYPE_CHECKING

from codriver.datalog import operators
from codriver.datalog.query_plan import Plan, plan
from codriver.datalog.scope import Context, Scope, bound_after
from codriver.datalog.where import with_source

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from codriver.datalog.operators import Row, Rows
    from codriver.datalog.syntax_tree import Branch, RuleCall, Rules, Source

Places = tuple[int, ...]


class Table:
    """One rule, called with the arguments at `places` bound: the answers for each input asked for."""

    def __init__(self, branches: tuple[Branch, ...], places: Places) -> None:
        self.branches = branches
        self.places = places
        self.answers: dict[Row, dict[Row, None]] = {}
        self.readers: dict[Row, set[Job]] = {}
        self.plans: list[tuple[Plan, Callable[[Row], Row]]] | None = None

    def ask(self, inputs: Iterable[Row]) -> list[Row]:
        """The inputs that are new."""
        new = [one for one in inputs if one not in self.answers]
        for one in new:
            self.answers[one] = {}
            self.readers[one] = set()
        return new


@dataclass(frozen=True, eq=False, slots=True)
class Job:
    """Inputs of a table that were asked for at once; a higher number is a later one."""

    number: int
    table: Table
    inputs: Rows


class RuleSolver:
    """The rules of one query, and the tables of what they have answered so far."""

    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        self._tables: dict[tuple[str, Source, Places], Table] = {}
        self._runnable: dict[tuple[str, frozenset[int]], bool] = {}
        self._context: Context | None = None
        self._jobs = 0
        self._waiting: list[tuple[int, Job]] = []
        self._queued: set[Job] = set()
        self._current: Job | None = None

    def attach(self, context: Context) -> None:
        """The query's context, which in turn holds these rules."""
        self._context = context

    def apart(self) -> RuleSolver:
        """These rules with tables of their own, whose answers are complete when they are given."""
        other = RuleSolver(self._rules)
        if self._context is not None:
            other.attach(replace(self._context, rules=other))
        return other

    def can_run(self, name: str, places: frozenset[int]) -> bool:
        """Whether the rule can be solved with the arguments at these places bound."""
        known = self._runnable.get((name, places))
        if known is None:
            # A rule that calls itself can run if the rest of it can.
            self._runnable[name, places] = True
            known = self._runnable[name, places] = all(self._can_run(branch, places) for branch in self._rules[name])
        return known

    def _can_run(self, branch: Branch, places: frozenset[int]) -> bool:
        bound = frozenset(branch.head[place] for place in places)
        if self._context is None:
            raise RuntimeError("the rules have no context yet")
        after = bound_after(self._context, branch.clauses, bound)
        return branch.required <= bound and after is not None and after.issuperset(branch.head)

    def caller(self, call: RuleCall, places: Places) -> Callable[[Rows], Callable[[Row], Iterable[Row]]]:
        """The evaluator of a rule call: given all rows of inputs, it gives the function with the answers to each.

        While the tables are being grown these are the rows known so far, else all there are.
        """
        key = (call.name, call.source, places)
        table = self._tables.get(key)
        if table is None:
            branches = self._rules[call.name]
            if call.source.name != "$":
                moved = [tuple(with_source(clause, call.source) for clause in branch.clauses) for branch in branches]
                branches = tuple(replace(b, clauses=clauses) for b, clauses in zip(branches, moved, strict=True))
            table = self._tables[key] = Table(branches, places)

        def answer(inputs: Rows) -> Callable[[Row], Iterable[Row]]:
            new = table.ask(inputs)
            if new:
                self._jobs += 1
                self._put(Job(self._jobs, table, new))
            if self._current is None:
                self._grow()
            else:
                for one in inputs:
                    table.readers[one].add(self._current)
            return lambda one: list(table.answers[one])

        return answer

    def _put(self, job: Job) -> None:
        if job not in self._queued:
            self._queued.add(job)
            heappush(self._waiting, (-job.number, job))

    def _grow(self) -> None:
        """Do all jobs until nothing is new."""
        while self._waiting:
            job = heappop(self._waiting)[1]
            self._queued.remove(job)
            self._current = job
            grown = self._do(job)
            self._current = None
            for one in grown:
                for reader in job.table.readers[one]:
                    self._put(reader)

    def _do(self, job: Job) -> set[Row]:
        """Run the rule on the job's inputs; the inputs that have more answers now."""
        if self._context is None:
            raise RuntimeError("the rules have no context yet")
        budget = self._context.budget
        input_of = operators.projection(job.table.places)
        grown: set[Row] = set()
        for planned, output in self._plans(job.table, self._context):
            for batch in operators.run(planned.steps, job.inputs, budget):
                for row in map(output, batch):
                    one = input_of(row)
                    answers = job.table.answers[one]
                    if row not in answers:
                        answers[row] = None
                        budget.hold(1)
                        grown.add(one)
        return grown

    def _plans(self, table: Table, context: Context) -> list[tuple[Plan, Callable[[Row], Row]]]:
        if table.plans is None:
            table.plans = []
            for branch in table.branches:
                scope = Scope(tuple(branch.head[place] for place in table.places), {})
                planned = plan(context, branch.clauses, scope, branch.head)
                table.plans.append((planned, planned.output(branch.head)))
        return table.plans
