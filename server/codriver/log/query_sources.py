"""The attributes and sources that queries may name."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from codriver_datalog.entity_store import Schema, Snapshot
    from codriver_datalog.syntax_tree import Query, Rules


class Queryable(Protocol):
    """Another database that a query may look into, such as the history."""

    def snapshot(self) -> Snapshot:
        """Return the database's entities now, with the log's attributes."""


@dataclass(frozen=True, slots=True)
class QuerySource:
    """A source that queries can name, besides the log itself."""

    name: str
    """Its name in queries, which begins with `$`."""
    schema: Schema
    rules: str = ""
    """Rules in EDN that every query with this source may call."""


@dataclass(frozen=True)
class QuerySources:
    """What queries can name: the attributes of `schema`, and the sources that features add to those of the log."""

    schema: Schema
    rules: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """The rules of a source, by its name."""
    stores: Mapping[str, Queryable] = field(default_factory=lambda: MappingProxyType({}))
    """The sources, each read only for a query that names it."""

    def with_sources(self, added: Sequence[tuple[QuerySource, Queryable]]) -> QuerySources:
        """Return these sources and more, each with its store."""
        schemas = tuple(source.schema for source, _ in added)
        return QuerySources(
            replace(
                self.schema,
                alongside=(*self.schema.alongside, *schemas),
                sources=(*self.schema.sources, *((source.name, "") for source, _ in added)),
            ),
            {**self.rules, **{source.name: source.rules for source, _ in added if source.rules}},
            {**self.stores, **{source.name: store for source, store in added}},
        )

    def parse(self, text: str) -> Query:
        """Return the query in a string.

        Raises:
            QueryError: the text is no query.
        """
        from codriver_datalog.query import parse  # noqa: PLC0415  # the start is quicker without queries

        named = tuple(rules for name, rules in self.rules.items() if name in text)
        return parse(text, schema=self.schema, rules=_rules(named, self.schema) if named else None)


@lru_cache(maxsize=4)
def _rules(strings: tuple[str, ...], schema: Schema) -> Rules:
    from codriver_datalog.query import parse_rules  # noqa: PLC0415  # as above

    known: Rules = {}
    for text in strings:
        known = parse_rules(text, schema, known)
    return known
