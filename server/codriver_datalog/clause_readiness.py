"""Decide which clauses can run when certain variables are bound, and which variables they bind."""

from __future__ import annotations

from typing import TYPE_CHECKING

from codriver_datalog.syntax_tree import (
    Clause,
    Constant,
    FunctionCall,
    Not,
    Or,
    Predicate,
    RuleCall,
    Variable,
    argument_variables,
    shared_variables,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from codriver_datalog.query_context import Context


def provided_variables(clause: Clause) -> frozenset[str]:
    """Return the variables that a clause binds when it runs."""
    return frozenset() if isinstance(clause, Predicate | Not) else shared_variables(clause)


def find_bound_variables(context: Context, clauses: Iterable[Clause], bound: frozenset[str]) -> frozenset[str] | None:
    """Return the variables that are bound after running these clauses in any possible order.

    `bound` contains the variables bound beforehand. Returns None if a clause cannot run because nothing binds its
    variables.
    """
    waiting = list(clauses)
    while waiting:
        context.budget.check()  # nested clauses can make this take long
        ready: list[Clause] = []
        later: list[Clause] = []
        for clause in waiting:
            (ready if _is_ready(context, clause, bound) else later).append(clause)
        if not ready:
            return None
        bound = bound.union(*map(provided_variables, ready))
        waiting = later
    return bound


def _is_ready(context: Context, clause: Clause, bound: frozenset[str]) -> bool:
    """Return whether a clause can run when the variables `bound` are bound."""
    match clause:
        case Predicate(arguments=arguments) | FunctionCall(arguments=arguments):
            return argument_variables(arguments) <= bound
        case Not():
            inner = bound & shared_variables(clause)
            return bool(inner) and find_bound_variables(context, clause.clauses, inner) is not None
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
    """Return whether every branch of an `or` can run and binds the variables that the branches share."""
    if not clause.required <= bound:
        return False
    after = [find_bound_variables(context, branch, bound) for branch in clause.branches]
    return all(names is not None and names.issuperset(clause.variables) for names in after)
