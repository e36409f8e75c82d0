"""Finds the variables of a query that stand for a line, as rows are sorted by them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from codriver.datalog.clauses import Clause, Constant, Or, Pattern, RuleCall, Rules, Variable

if TYPE_CHECKING:
    from collections.abc import Iterable


def line_variables(clauses: Iterable[Clause], line: str, rules: Rules, seen: frozenset[str] = frozenset()) -> set[str]:
    """The variables that are an entity, or the value of the attribute `line`.

    `seen` are the rules being looked into, for those that call themselves.
    """
    found: set[str] = set()
    for clause in clauses:
        match clause:
            case Pattern(entity=entity, attribute=attribute, value=value):
                if isinstance(entity, Variable):
                    found.add(entity.name)
                if isinstance(value, Variable) and attribute == Constant(line):
                    found.add(value.name)
            case Or(variables=names, branches=branches):
                for branch in branches:
                    found |= line_variables(branch, line, rules, seen) & set(names)
            case RuleCall(name=name, arguments=arguments) if name not in seen:
                for rule in rules[name]:
                    inner = line_variables(rule.clauses, line, rules, seen | {name})
                    pairs = zip(rule.head, arguments, strict=True)
                    found |= {a.name for head, a in pairs if head in inner and isinstance(a, Variable)}
    return found
