"""Solves rules: by tables of what was asked and what was found, grown until nothing is new.

A table holds one rule as it is called with certain arguments bound. Only what is asked for is computed, a rule may call
itself, and it ends, as there are only so many values; unless a function makes ever new ones: then time ends it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from codriver.datalog import steps
from codriver.datalog.plan import Plan, plan
from codriver.datalog.readiness import bound_after
from codriver.datalog.scope import Context, Scope
from codriver.datalog.where import with_source

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from codriver.datalog.clauses import Branch, RuleCall, Rules, Source
    from codriver.datalog.edn import Text
    from codriver.datalog.steps import Row, Rows

Places = tuple[int, ...]


class Table:
    """One rule, called with the arguments at `places` bound: the inputs asked for, and the answers for each."""

    def __init__(self, branches: tuple[Branch, ...], places: Places) -> None:
        self.branches = branches
        self.places = places
        self.inputs: dict[Row, dict[Row, None]] = {}
        self.plans: list[tuple[Plan, Callable[[Row], Row]]] | None = None

    def ask(self, inputs: Iterable[Row]) -> bool:
        """Whether any input is new."""
        before = len(self.inputs)
        for one in inputs:
            self.inputs.setdefault(one, {})
        return len(self.inputs) > before

    def answers(self, one: Row) -> Iterable[Row]:
        """The rows of all arguments known for an input."""
        return self.inputs.get(one, ())


class RuleSolver:
    """The rules of one query, and the tables of what they have answered so far."""

    def __init__(self, rules: Rules, text: Text) -> None:
        self._rules = rules
        self._text = text
        self._tables: dict[tuple[str, Source, Places], Table] = {}
        self._runnable: dict[tuple[str, frozenset[int]], bool] = {}
        self._context: Context | None = None
        self._is_growing = False
        self._has_changed = False

    def attach(self, context: Context) -> None:
        """The query's context, which in turn holds these rules."""
        self._context = replace(context, text=self._text)

    def apart(self) -> RuleSolver:
        """The same rules with tables of their own, whose answers are complete when they are given."""
        other = RuleSolver(self._rules, self._text)
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
        """What answers inputs: given them all, it gives what has the rows of each.

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
            self._has_changed = True

        def answer(inputs: Rows) -> Callable[[Row], Iterable[Row]]:
            if table.ask(inputs):
                self._has_changed = True
            if not self._is_growing:
                self._grow()
            return lambda one: list(table.answers(one))

        return answer

    def _grow(self) -> None:
        """Run all rules on all their inputs until nothing is new."""
        self._is_growing = True
        try:
            while self._has_changed:
                self._has_changed = False
                for table in list(self._tables.values()):
                    self._run(table)
        finally:
            self._is_growing = False

    def _run(self, table: Table) -> None:
        if self._context is None:
            raise RuntimeError("the rules have no context yet")
        budget = self._context.budget
        input_of = steps.projection(table.places)
        for planned, output in self._plans(table, self._context):
            for batch in steps.run(planned.steps, list(table.inputs), budget):
                for row in map(output, batch):
                    answers = table.inputs[input_of(row)]
                    if row not in answers:
                        answers[row] = None
                        budget.hold(1)
                        self._has_changed = True

    def _plans(self, table: Table, context: Context) -> list[tuple[Plan, Callable[[Row], Row]]]:
        if table.plans is None:
            table.plans = []
            for branch in table.branches:
                scope = Scope(tuple(branch.head[place] for place in table.places), {})
                planned = plan(context, branch.clauses, scope, branch.head)
                table.plans.append((planned, planned.output(branch.head)))
        return table.plans
