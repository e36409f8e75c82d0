"""Binding analysis: whether clauses can run, as variables are bound by inputs or by one another."""

from __future__ import annotations

from typing import TYPE_CHECKING

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
    from collections.abc import Iterable

    from codriver.datalog.scope import Context


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
