"""Data sources of log queries, and the attributes of their entries."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Protocol, cast

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from contextlib import AbstractContextManager

    from codriver.log.event_logs import EventLog
    from codriver_datalog.entity_store import Schema, Snapshot, Value
    from codriver_datalog.syntax_tree import Query, Rules


class Queryable(Protocol):
    """A data source that queries can read, such as the history."""

    def snapshot(self) -> Snapshot:
        """Return an immutable snapshot of the current entities, with the attributes of the log."""


class GrowingSource(Queryable, Protocol):
    """A feature's log, which takes its line numbers from the output log. See `bounded_log.BoundedLog`."""

    @property
    def first_line(self) -> int | None:
        """Return the lowest line number in the log, or None if it is empty."""

    @property
    def last_line(self) -> int | None:
        """Return the highest line number in the log, or None if it is empty."""

    @property
    def last_evicted_line(self) -> int:
        """Return the highest line number that was evicted."""

    def count(self, *, since: int | None = None, who: str | None = None) -> int:
        """Return the number of stored entities, or only of those after the line `since` or of the caller `who`."""

    def usage(self) -> Mapping[str, object]:
        """Return the counts for `server_health`, or {} if no entity was ever stored."""

    def entries(
        self, *, since: int | None = None, until: int | None = None, who: str | None = None, limit: int
    ) -> list[dict[str, Value]]:
        """Return the newest `limit` entities that match all filters, oldest first, as JSON objects."""

    def subscribe(self, follower: Callable[[int], None]) -> AbstractContextManager[None]:
        """Call `follower` with the line number of each entity that is added while the context is active."""


@dataclass(frozen=True, slots=True)
class QuerySource:
    """A data source that a feature adds to log queries."""

    name: str
    """The name of the source in queries, which starts with `$`."""
    schema: Schema
    rules: str = ""
    """Rules in EDN that are available to every query with this source."""
    log: EventLog | None = None
    """The event log of the source, if its store is a `GrowingSource`. Calls read it together with the output log."""


@dataclass(frozen=True)
class QuerySources:
    """The attributes and data sources available to log queries, including those that features add."""

    schema: Schema
    rules: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """The rules of each source, by its name."""
    stores: Mapping[str, Queryable] = field(default_factory=lambda: MappingProxyType({}))
    """The sources that features add, by name. Each source is only read for queries that name it."""
    growing: Mapping[str, tuple[EventLog, GrowingSource]] = field(default_factory=lambda: MappingProxyType({}))
    """The sources that grow with the log, by name, each with its store."""

    def with_sources(self, added: Sequence[tuple[QuerySource, Queryable]]) -> QuerySources:
        """Return a copy with these sources added. Each source comes with the store to read it from."""
        schemas = tuple(source.schema for source, _ in added)
        return QuerySources(
            replace(
                self.schema,
                alongside=(*self.schema.alongside, *schemas),
                sources=(*self.schema.sources, *((source.name, "") for source, _ in added)),
            ),
            {**self.rules, **{source.name: source.rules for source, _ in added if source.rules}},
            {**self.stores, **{source.name: store for source, store in added}},
            {
                **self.growing,
                **{
                    schema.name: (schema.log, cast("GrowingSource", store))
                    for schema, store in added
                    if schema.log is not None
                },
            },
        )

    def parse(self, text: str) -> Query:
        """Parse a query, including the rules of the sources that it names.

        Raises:
            QueryError: the text is not a valid query.
        """
        from codriver_datalog.query_parser import parse_query  # noqa: PLC0415  # delays the start, and is not needed before the first query

        named = tuple(rules for name, rules in self.rules.items() if name in text)
        return parse_query(text, schema=self.schema, rules=_parse_rules(named, self.schema) if named else None)


@lru_cache(maxsize=4)
def _parse_rules(strings: tuple[str, ...], schema: Schema) -> Rules:
    from codriver_datalog.query_parser import parse_rules  # noqa: PLC0415  # as above

    known: Rules = {}
    for text in strings:
        known = parse_rules(text, schema, known)
    return known
