"""Line variables: those of a query that stand for a line, by which its rows are sorted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from codriver.datalog.syntax_tree import Clause, Constant, Or, Pattern, RuleCall, Rules, Variable

if TYPE_CHECKING:
    from collections.abc import Iterable


class LineVariables:
    """Finds the variables that are an entity, or the value of the attribute `line`. Lives for one query."""

    def __init__(self, line: str, rules: Rules) -> None:
        self._line = Constant(line)
        self._rules = rules
        self._of_rules: dict[str, list[set[str]]] = {}

    def of(self, clauses: Iterable[Clause]) -> set[str]:
        """Those among the variables of clauses."""
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
                        found |= self.of(branch) & set(names)
                case RuleCall(name=name, arguments=arguments):
                    for rule, inner in zip(self._rules[name], self._of_rule(name), strict=False):
                        pairs = zip(rule.head, arguments, strict=True)
                        found |= {a.name for head, a in pairs if head in inner and isinstance(a, Variable)}
        return found

    def _of_rule(self, name: str) -> list[set[str]]:
        """Those of each of a rule's branches; a rule that calls itself adds nothing by that."""
        if name not in self._of_rules:
            self._of_rules[name] = []
            self._of_rules[name] = [self.of(branch.clauses) for branch in self._rules[name]]
        return self._of_rules[name]
