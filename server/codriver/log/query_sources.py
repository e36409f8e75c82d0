"""The attributes and sources that log queries can use."""

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
    """A database that queries can read, such as the history."""

    def snapshot(self) -> Snapshot:
        """Return a snapshot of the current entities, with the attributes of the log."""


class GrowingSource(Queryable, Protocol):
    """A log next to the output log, which shares the output log's counter of lines. See `bounded_log.BoundedLog`."""

    @property
    def first_line(self) -> int | None:
        """Return the lowest line in the log."""

    @property
    def last_line(self) -> int | None:
        """Return the highest line in the log."""

    @property
    def last_evicted_line(self) -> int:
        """Return the highest line that was evicted."""

    def count(self, *, since: int | None = None, who: str | None = None) -> int:
        """Return the number of retained entities, optionally after a line or of one caller."""

    def usage(self) -> Mapping[str, object]:
        """Return the counts for `server_health`, or {} if there have been no entities."""

    def entries(
        self, *, since: int | None = None, until: int | None = None, who: str | None = None, limit: int
    ) -> list[dict[str, Value]]:
        """Return the newest entities that pass all given filters, in order of their lines, as JSON objects."""

    def followed_by(self, follower: Callable[[int], None]) -> AbstractContextManager[None]:
        """Call `follower` with the line of each new entity, for the duration of the context."""


@dataclass(frozen=True, slots=True)
class QuerySource:
    """A source for queries in addition to those of the log."""

    name: str
    """The name of the source in queries, which starts with `$`."""
    schema: Schema
    rules: str = ""
    """Rules in EDN that are available to every query with this source."""
    log: EventLog | None = None
    """The log that it is, if its store is a `GrowingSource`. Calls read it together with the output log."""


@dataclass(frozen=True)
class QuerySources:
    """What queries can use: the attributes in `schema`, and the sources that features add to those of the log."""

    schema: Schema
    rules: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """The rules of each source, by its name."""
    stores: Mapping[str, Queryable] = field(default_factory=lambda: MappingProxyType({}))
    """The added sources by name. Each is only read for queries that name it."""
    growing: Mapping[str, tuple[EventLog, GrowingSource]] = field(default_factory=lambda: MappingProxyType({}))
    """The sources that grow with the log, by name, each with its store."""

    def with_sources(self, added: Sequence[tuple[QuerySource, Queryable]]) -> QuerySources:
        """Return a copy extended by these sources and their stores."""
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
        """Parse a query.

        Raises:
            QueryError: the text is not a valid query.
        """
        from codriver_datalog.query import parse_query  # noqa: PLC0415  # delays the start, and is not needed before the first query

        named = tuple(rules for name, rules in self.rules.items() if name in text)
        return parse_query(text, schema=self.schema, rules=_rules(named, self.schema) if named else None)


@lru_cache(maxsize=4)
def _rules(strings: tuple[str, ...], schema: Schema) -> Rules:
    from codriver_datalog.query import parse_rules  # noqa: PLC0415  # as above

    known: Rules = {}
    for text in strings:
        known = parse_rules(text, schema, known)
    return known
