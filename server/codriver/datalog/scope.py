"""Scope of a plan: the variables bound so far, and the sources, rules and budget that it works on."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Protocol

from codriver.datalog.syntax_tree import (
    Clause,
    Constant,
    FunctionCall,
    Not,
    Or,
    Predicate,
    RuleCall,
    Variable,
    argument_variables,
    variables,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from codriver.datalog.edn import Text
    from codriver.datalog.entity_store import Snapshot
    from codriver.datalog.errors import Budget
    from codriver.datalog.operators import Row, Rows
    from codriver.datalog.syntax_tree import Source


@dataclass(frozen=True)
class Scope:
    """The variables bound so far: columns of the rows, and those with one value only."""

    names: tuple[str, ...]
    constants: Mapping[str, object]

    @cached_property
    def columns(self) -> Mapping[str, int]:
        """From a variable's name to its column."""
        return {name: place for place, name in enumerate(self.names)}

    def binds(self, names: Iterable[str]) -> bool:
        """Whether all of them are bound."""
        return all(name in self.columns or name in self.constants for name in names)

    def with_names(self, names: Iterable[str]) -> Scope:
        """The scope with more columns after these."""
        return Scope((*self.names, *names), self.constants)

    def inside(self, shared: Iterable[str] | None) -> Scope:
        """The scope of clauses inside: the columns and constants they share, all of them if None."""
        if shared is None:
            return self
        known = set(shared)
        names = tuple(name for name in self.names if name in known)
        return Scope(names, {name: value for name, value in self.constants.items() if name in known})


class SolvedRules(Protocol):
    """Rules as a plan knows them: their bodies are plans in turn, so it knows them by this alone."""

    def apart(self) -> SolvedRules:
        """These rules with tables of their own, whose answers are complete when they are given."""

    def can_run(self, name: str, places: frozenset[int]) -> bool:
        """Whether the rule can be solved with the arguments at these places bound."""

    def caller(self, call: RuleCall, places: tuple[int, ...]) -> Callable[[Rows], Callable[[Row], Iterable[Row]]]:
        """The evaluator of a rule call: given all rows of inputs, it gives the function with the answers to each."""


@dataclass(frozen=True)
class Context:
    """Context of a query: sources, budget and rules. `text` is for errors; `rules` are solved as they are called."""

    text: Text
    sources: Mapping[str, Snapshot]
    budget: Budget
    rules: SolvedRules

    def snapshot(self, source: Source) -> Snapshot:
        """The entities of a source.

        Raises:
            QueryError: this query has no such source.
        """
        if source.name not in self.sources:
            raise self.text.error_at(f"one of the sources {' '.join(self.sources)}", source.name, 0)
        return self.sources[source.name]


def provided(clause: Clause) -> frozenset[str]:
    """The variables that are bound once it has run."""
    return frozenset() if isinstance(clause, Predicate | Not) else variables(clause)


def bound_after(context: Context, clauses: Iterable[Clause], bound: frozenset[str]) -> frozenset[str] | None:
    """The variables bound when clauses have run that began with these; None if they cannot run."""
    waiting = list(clauses)
    while waiting:
        context.budget.check()  # clauses nested in one another can make this take long
        ready: list[Clause] = []
        later: list[Clause] = []
        for clause in waiting:
            (ready if _is_ready(context, clause, bound) else later).append(clause)
        if not ready:
            return None
        bound = bound.union(*map(provided, ready))
        waiting = later
    return bound


def _is_ready(context: Context, clause: Clause, bound: frozenset[str]) -> bool:
    match clause:
        case Predicate(arguments=arguments) | FunctionCall(arguments=arguments):
            return argument_variables(arguments) <= bound
        case Not():
            inner = bound & variables(clause)
            return bool(inner) and bound_after(context, clause.clauses, inner) is not None
        case Or():
            return is_or_ready(context, clause, bound & frozenset(clause.variables))
        case RuleCall():
            places = frozenset(
                place
                for place, term in enumerate(clause.arguments)
                if isinstance(term, Constant) or (isinstance(term, Variable) and term.name in bound)
            )
            return context.rules.can_run(clause.name, places)
    return True


def is_or_ready(context: Context, clause: Or, bound: frozenset[str]) -> bool:
    """Whether every branch can run and binds what the branches share, when these of its variables are bound."""
    if not clause.required <= bound:
        return False
    after = [bound_after(context, branch, bound) for branch in clause.branches]
    return all(names is not None and names.issuperset(clause.variables) for names in after)
