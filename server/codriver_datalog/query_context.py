"""The context in which a query runs: its sources and rules, and the variables that are bound."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from codriver_datalog.budget import Budget
    from codriver_datalog.edn import Text
    from codriver_datalog.entity_store import Snapshot
    from codriver_datalog.rows import Row, Rows
    from codriver_datalog.syntax_tree import RuleCall, Source


@dataclass(frozen=True)
class Scope:
    """The variables that are bound so far. Each is a column of the rows or has a constant value."""

    names: tuple[str, ...]
    constants: Mapping[str, object]

    @cached_property
    def columns(self) -> Mapping[str, int]:
        """Return the column of each variable that has one."""
        return {name: position for position, name in enumerate(self.names)}

    def binds(self, names: Iterable[str]) -> bool:
        """Return whether all of these variables are bound."""
        return all(name in self.columns or name in self.constants for name in names)

    def with_names(self, names: Iterable[str]) -> Scope:
        """Return a scope with these variables added as columns."""
        return Scope((*self.names, *names), self.constants)

    def nested_scope(self, shared: Iterable[str] | None) -> Scope:
        """Return the scope for nested clauses, which only has the `shared` variables, or all if `shared` is None."""
        if shared is None:
            return self
        known = set(shared)
        names = tuple(name for name in self.names if name in known)
        return Scope(names, {name: value for name, value in self.constants.items() if name in known})


class SolvedRules(Protocol):
    """The rules of a query, as plans call them. `RuleSolver` implements this."""

    def with_separate_tables(self) -> SolvedRules:
        """Return the same rules with separate tables of answers.

        A `not` needs them, because its nested clauses must see complete answers.
        """

    def can_run(self, name: str, positions: frozenset[int]) -> bool:
        """Return whether a rule can be evaluated if the arguments at these positions are bound."""

    def make_rule_caller(
        self, call: RuleCall, positions: tuple[int, ...]
    ) -> Callable[[Rows], Callable[[Row], Iterable[Row]]]:
        """Return a function that evaluates a rule for a batch of inputs.

        An input consists of values for the arguments at `positions`. The function returns another function, which maps
        each of these inputs to its answers. An answer consists of values for all arguments.
        """


@dataclass(frozen=True)
class Context:
    """The context of a query: its text for errors, its sources, its budget and its rules."""

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
            raise self.text.error_at(f"expected one of the sources {' '.join(self.sources)}", source.name, 0)
        return self.sources[source.name]
