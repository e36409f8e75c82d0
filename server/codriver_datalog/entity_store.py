"""A store of entities that are identified by increasing line numbers, with indexes by attribute and value.

Entities are added at the end and usually removed at the front, so a snapshot is just a range of lines. Lists that a
snapshot may be reading are only appended to or replaced as a whole, so a query can run in another thread while entities
are added and removed. The owner of the store ensures that there is a single writer.

The indexes are updated when a snapshot is created, because most entities are removed without being queried.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

Value = str | int | float
Record = tuple[Value | None, ...]
"""An immutable entity: its values in the order of the schema's attributes, with None for missing ones."""

MIN_TRIM_RECORDS = 64
"""Minimum number of removed records before a list is trimmed.

A list is trimmed when removed records make up at least half of it, so an eviction takes constant time on average.
"""
MAX_UNINDEXED_ENTITIES = 1024
"""Maximum number of entities that are not indexed yet. Creating a snapshot indexes them, which takes at most 2 ms."""
MIN_LONG_STRING_CHARACTERS = 64 * 2**10
"""Minimum length of a long string. A removed record that contains one is freed immediately.

Other removed records stay in memory until their list is trimmed.
"""


@dataclass(frozen=True)
class Schema:
    """The attributes that entities may have.

    `attributes` are names without a namespace. The first one is the line, an int that identifies an entity and
    increases from entity to entity. All entities have the `required` attributes, and the `indexed` attributes can be
    looked up by value. If `only_in` is a source and a position, the attributes from that position on exist only in that
    source.
    """

    namespace: str
    attributes: tuple[str, ...]
    required: frozenset[str]
    indexed: frozenset[str]
    only_in: tuple[str, int] | None = None
    sources: tuple[tuple[str, str], ...] = (("$", ""),)
    """The names of the sources that queries may use, each with a possibly empty description for errors."""
    alongside: tuple[Schema, ...] = ()
    """The schemas of other sources, whose attributes queries may use as well."""

    @cached_property
    def positions(self) -> Mapping[str, int]:
        """Return the position of each attribute in a record, by keyword such as `:output/line`."""
        return {f":{self.namespace}/{name}": position for position, name in enumerate(self.attributes)}

    @cached_property
    def keywords(self) -> tuple[str, ...]:
        """Return the keywords of the attributes, such as `:output/line`, in the order of the record."""
        return tuple(self.positions)

    @cached_property
    def usable_keywords(self) -> frozenset[str]:
        """Return the keywords of all attributes that queries may use, including those of other sources."""
        return frozenset(self.positions).union(*(schema.usable_keywords for schema in self.alongside))

    def select_usable_keywords(self, query: str) -> tuple[str, ...]:
        """Return the keywords that are useful in a query with this text, depending on the sources that it names."""
        names_source = self.only_in is None or self.only_in[0] in query
        named_keywords = self.keywords if names_source or self.only_in is None else self.keywords[: self.only_in[1]]
        alongside = (keyword for schema in self.alongside for keyword in schema.select_usable_keywords(query))
        return tuple(dict.fromkeys((*named_keywords, *alongside)))

    @cached_property
    def source_names(self) -> frozenset[str]:
        """Return the names of the sources that queries may use."""
        return frozenset(name for name, _ in self.sources)

    @cached_property
    def sources_text(self) -> str:
        """Return a list of all sources for error messages, such as "`$`, the log, or `$history`"."""
        *names, last = [f"`{name}`, {about}" if about else f"`{name}`" for name, about in self.sources]
        return f"{', '.join(names)} or {last}" if names else last

    @cached_property
    def required_positions(self) -> frozenset[int]:
        """Return the positions of the required attributes, which are never None in a record."""
        return frozenset(position for position, name in enumerate(self.attributes) if name in self.required)

    def record(self, document: Mapping[str, Value]) -> Record:
        """Convert a document, a mapping from attribute names to values, to a record.

        Raises:
            KeyError: a required attribute is missing, or an attribute is unknown.
        """
        get = document.get
        record = tuple([get(name) for name in self.attributes])
        if len(document) != len(record) - record.count(None) or None in [record[p] for p in self.required_positions]:
            raise KeyError(
                f"an entity may only have the attributes {self.attributes} and must have {sorted(self.required)}, "
                f"but this one has {sorted(document)}"
            )
        return record

    def document(self, record: Record) -> dict[str, Value]:
        """Convert a record to a document, a dict from attribute names to values. Missing values are omitted."""
        return {name: value for name, value in zip(self.attributes, record, strict=True) if value is not None}


class Postings:
    """The records with the same value for an attribute, in line order. Those before index `start` were removed.

    Readers in other threads read `records` first, and then `gone`, the highest line that may be missing from `records`.
    Because `gone` is updated before a record is dropped, all lines above it are complete.
    """

    __slots__ = ("gone", "records", "start")

    def __init__(self, gone: int = -1) -> None:
        self.records: list[Record] = []
        self.start = 0
        self.gone = gone

    def __len__(self) -> int:
        return len(self.records) - self.start

    def remove(self, record: Record, *, is_long: bool) -> None:
        """Remove a record. This takes constant time on average for the first record, unless it `is_long`."""
        if self.records[self.start] is record:
            self.start += 1
            if is_long or (self.start >= MIN_TRIM_RECORDS and self.start * 2 >= len(self.records)):
                self.gone = max(self.gone, _line(record))
                self.records, self.start = self.records[self.start :], 0
        else:
            self.gone = max(self.gone, _line(record))
            self.records, self.start = [r for r in self.records[self.start :] if r is not record], 0


class EntityStore:
    """A store of entities, which are added in line order and indexed by line and by the values of some attributes."""

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        self._by_line: dict[int, Record] = {}
        self._last_line = 0
        """The highest line that was ever added."""
        self._all = Postings()
        self._left = HighestRemovedLine()
        positions = [position for position, name in enumerate(schema.attributes) if name in schema.indexed]
        self._by_value: dict[int, dict[Value, Postings]] = {position: {} for position in positions}
        self._unindexed: deque[Record] = deque()
        """The newest entities, which are not indexed yet."""
        self._free_positions = tuple(
            position for position in range(len(schema.attributes)) if position not in self._by_value
        )
        """The positions of attributes without an index, whose strings may be long."""

    def __len__(self) -> int:
        return len(self._by_line)

    def __iter__(self) -> Iterator[int]:
        """Yield the lines in ascending order."""
        return iter(map(_line, self.records))

    @property
    def first_line(self) -> int | None:
        """Return the lowest line, or None if the store is empty."""
        return _line(self._all.records[self._all.start]) if self._by_line else None

    @property
    def last_line(self) -> int | None:
        """Return the highest line, or None if the store is empty."""
        return self._last_line if self._by_line else None

    def get(self, line: int) -> Record | None:
        """Return the entity with this line, or None if there is none."""
        return self._by_line.get(line)

    def add(self, record: Record) -> None:
        """Add an entity whose line is higher than all lines in the store.

        Raises:
            ValueError: the line is not higher.
        """
        line = _line(record)
        if self._by_line and line <= self._last_line:
            raise ValueError(f"line {line} cannot follow line {self._last_line}: line numbers must increase")
        self._last_line = line
        self._by_line[line] = record
        self._all.records.append(record)
        self._unindexed.append(record)
        if len(self._unindexed) > MAX_UNINDEXED_ENTITIES:
            self._index()

    def remove(self, line: int) -> Record:
        """Remove and return an entity. This takes constant time for the lowest line, unless it has a long text.

        Raises:
            KeyError: there is no entity with this line.
        """
        record = self._by_line.pop(line)
        self._left.line = max(self._left.line, line)
        is_long = False
        for position in self._free_positions:
            value = record[position]
            is_long |= isinstance(value, str) and len(value) >= MIN_LONG_STRING_CHARACTERS
        self._all.remove(record, is_long=is_long)
        if line == self._last_line and self._by_line:
            self._last_line = _line(self._all.records[-1])
        if self._unindexed and line >= _line(self._unindexed[0]):
            self._unindexed.remove(record)
            return record
        for position, by_value in self._by_value.items():
            value = record[position]
            if value is not None:
                postings = by_value[value]
                postings.remove(record, is_long=is_long)
                if not postings:
                    del by_value[value]
        return record

    def snapshot(self) -> Snapshot:
        """Return an immutable snapshot of the current entities."""
        self._index()
        return Snapshot(self.schema, self._all.records, self._all.start, self._by_value, self._left)

    @property
    def records(self) -> Sequence[Record]:
        """Return all entities in line order. The list is a copy."""
        return self._all.records[self._all.start :]

    def _index(self) -> None:
        while self._unindexed:
            record = self._unindexed.popleft()
            for position, by_value in self._by_value.items():
                value = record[position]
                if value is not None:
                    if value not in by_value:
                        by_value[value] = Postings(self._left.line)
                    by_value[value].records.append(record)


@dataclass
class HighestRemovedLine:
    """The highest line that was ever removed from a store, or -1. Shared by the store and its snapshots."""

    line: int = -1


class Snapshot:
    """The entities of a store at one moment. Later changes to the store do not affect it."""

    def __init__(
        self,
        schema: Schema,
        records: list[Record],
        start: int,
        by_value: Mapping[int, Mapping[Value, Postings]],
        left: HighestRemovedLine,
        end: int | None = None,
    ) -> None:
        self.schema = schema
        self._shared = records
        self._start = start
        self._end = len(records) if end is None else end
        self._first = _line(records[start]) if start < self._end else 0
        self._last = _line(records[self._end - 1]) if start < self._end else -1
        self._by_value = by_value
        self._left = left
        self._built: dict[int, Mapping[Value, Sequence[Record]]] = {}

    def __len__(self) -> int:
        return self._end - self._start

    @property
    def last_line(self) -> int:
        """Return the highest line, or -1 if there are no entities."""
        return self._last

    def until(self, line: int) -> Snapshot:
        """Return a snapshot with only the entities up to and including `line`."""
        if line >= self._last:
            return self
        end = bisect_left(self._shared, (line + 1,), self._start, self._end)
        return Snapshot(self.schema, self._shared, self._start, self._by_value, self._left, end)

    @cached_property
    def records(self) -> Sequence[Record]:
        """Return all entities in line order."""
        return self._shared[self._start : self._end]

    def entity(self, line: object) -> Record | None:
        """Return the entity with this line, or None if there is none. `line` may be any value."""
        if not isinstance(line, int) or not self._first <= line <= self._last:
            return None
        position = self._start + line - self._first
        if position >= self._end or self._shared[position][0] != line:
            position = bisect_left(self._shared, (line,), self._start, self._end)
        record = self._shared[position]
        return record if record[0] == line else None

    def between(self, first: int, last: int) -> Sequence[Record]:
        """Return the entities with lines from `first` to `last`, inclusive."""
        return between(self._shared, max(first, self._first), min(last, self._last))

    def is_indexed(self, position: int) -> bool:
        """Return whether `with_value` is fast for the attribute at this position of the record."""
        return position in self._by_value or position in self._built or position == 0

    def with_value(self, position: int, value: object) -> Sequence[Record]:
        """Return the entities whose attribute at this position has this value, in line order."""
        if position == 0:
            record = self.entity(value)
            return () if record is None else (record,)
        if position in self._by_value:
            postings = self._by_value[position].get(value)  # type: ignore[call-overload]  # any value may be looked up
            records = [] if postings is None else postings.records
            gone = self._left.line if postings is None else postings.gone
            if gone < self._first:
                return between(records, self._first, self._last)
        # There is no index, or it has already dropped records in this snapshot.
        return self._index(position).get(value, ())  # type: ignore[call-overload, no-any-return]  # as above

    def count_with_value(self, position: int, value: object) -> int:
        """Return the number of results of `with_value`, or an estimate if the store has changed since."""
        if position in self._by_value:
            postings = self._by_value[position].get(value)  # type: ignore[call-overload]  # as above
            return 0 if postings is None else len(postings)
        return len(self.with_value(position, value))

    def distinct_values(self, position: int) -> int:
        """Estimate the number of distinct values of the attribute at this position."""
        known = self._by_value.get(position)
        return len(self) if known is None else len(known)

    def _index(self, position: int) -> Mapping[Value, Sequence[Record]]:
        """Return an index by the attribute at this position, building it on first use."""
        if position not in self._built:
            built: dict[Value, list[Record]] = {}
            for record in self.records:
                value = record[position]
                if value is not None:
                    built.setdefault(value, []).append(record)
            self._built[position] = built
        return self._built[position]


def between(records: Sequence[Record], first: int, last: int) -> Sequence[Record]:
    """Return the records with lines from `first` to `last`, inclusive. `records` must be in line order."""
    return records[bisect_left(records, (first,)) : bisect_left(records, (last + 1,))]


def utf8_bytes(text: str) -> int:
    """Return the length of a string in UTF-8. This is fast for ASCII."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def _line(record: Record) -> int:
    """Return the line of a record.

    Raises:
        TypeError: the line is not an int.
    """
    line = record[0]
    if type(line) is not int:
        raise TypeError(f"an entity's line must be an int: {line!r}")
    return line
