"""Join rows with the entities that match patterns such as `[?e :output/who ?who]`.

All patterns about one entity form a single join, which uses the best index of the store.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from codriver_datalog.entity_store import between
from codriver_datalog.operators import Step, cross_join, group_by_key, join_step, make_projection, project_rows
from codriver_datalog.syntax_tree import Constant, Pattern, Source, Term, Variable

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from codriver_datalog.entity_store import Record, Snapshot
    from codriver_datalog.query_context import Scope
    from codriver_datalog.rows import Row


LINE_INDEX = 0
"""The position of an entity's line in its record. The line is also the entity's id."""


@dataclass(frozen=True, slots=True)
class Group:
    """Patterns about the same entity in the same source. Their attributes are constants."""

    source: Source
    entity: Term
    patterns: tuple[Pattern, ...]

    @property
    def variables(self) -> frozenset[str]:
        """Return all variables in the patterns."""
        terms = (self.entity, *(pattern.value for pattern in self.patterns))
        return frozenset(term.name for term in terms if isinstance(term, Variable))

    def line_variables(self, positions: Mapping[str, int]) -> frozenset[str]:
        """Return the variables whose value is the line of the entity."""
        terms = [self.entity] + [p.value for p in self.patterns if positions.get(_attribute_keyword(p)) == LINE_INDEX]
        return frozenset(term.name for term in terms if isinstance(term, Variable))


@dataclass
class Match:
    """The conditions that a record must satisfy to match a row, and the columns that it adds to the row."""

    fixed: list[tuple[int, object]] = field(default_factory=list)
    """Pairs of a position in the record and the constant that its value must equal."""
    joined: list[tuple[int, int]] = field(default_factory=list)
    """Pairs of a position in the record and the column of the row that its value must equal."""
    same: list[tuple[int, int]] = field(default_factory=list)
    """Pairs of positions in the record whose values must be equal."""
    present: set[int] = field(default_factory=set)
    """Positions in the record whose values must not be None."""
    outputs: dict[str, int] = field(default_factory=dict)
    """The position in the record from which each new column is taken, by variable."""

    def add(self, position: int, term: Term, scope: Scope) -> None:
        """Add the condition that the attribute at this position of the record equals `term`."""
        self.present.add(position)
        if isinstance(term, Constant):
            self.fixed.append((position, term.value))
        elif isinstance(term, Variable):
            if term.name in scope.constants:
                self.fixed.append((position, scope.constants[term.name]))
            elif term.name in scope.columns:
                self.joined.append((position, scope.columns[term.name]))
            elif term.name in self.outputs:
                self.same.append((position, self.outputs[term.name]))
            else:
                self.outputs[term.name] = position

    def matching_records(self, records: Sequence[Row], required: frozenset[int]) -> Sequence[Row]:
        """Return the records that satisfy all row-independent conditions.

        `required` contains the positions that are never None.
        """
        for position, value in self.fixed:
            # A missing value is None in a record, so nil must not match it.
            records = [record for record in records if record[position] == value] if value is not None else []
        for position in self.present - required:
            records = [record for record in records if record[position] is not None]
        for position, other in self.same:
            records = [record for record in records if record[position] == record[other]]
        return records


def match_group(group: Group, scope: Scope, positions: Mapping[str, int]) -> Match:
    """Return the conditions that all patterns in a group place on a record."""
    match = Match()
    match.add(LINE_INDEX, group.entity, scope)
    for pattern in group.patterns:
        position = positions.get(_attribute_keyword(pattern))
        if position is None:  # only other sources have this attribute
            match.fixed.append((LINE_INDEX, None))
        match.add(LINE_INDEX if position is None else position, pattern.value, scope)
    return match


def make_group_step(
    match: Match, snapshot: Snapshot, lines: range | None, needed: Iterable[str]
) -> tuple[Step, list[str]]:
    """Return a step that joins rows with the records that match a group, and the names of the added columns.

    Columns that are not `needed` are not added. If `lines` is not None, only records with these lines match.
    """
    names = [name for name in match.outputs if name in needed]
    columns = [match.outputs[name] for name in names]
    required = snapshot.schema.required_positions
    is_unique = any(match.outputs[name] == LINE_INDEX for name in names)

    def additions(records: Sequence[Row]) -> list[Row]:
        rows = project_rows(records, columns)
        return rows if is_unique else list(dict.fromkeys(rows))

    if not match.joined:
        return cross_join(additions(match.matching_records(_candidates(match, snapshot, lines), required))), names

    key = make_projection([column for _, column in match.joined])
    positions = [position for position, _ in match.joined]
    record_key = make_projection(positions)
    best = min(range(len(match.joined)), key=lambda n: _average_matches(snapshot, match.joined[n][0]))
    best_position = match.joined[best][0]
    built: dict[Row, list[Row]] | None = None

    def matching(rows: list[Row]) -> Any:
        nonlocal built
        if built is None and snapshot.is_indexed(best_position) and len(rows) * MIN_ENTITIES_PER_ROW < len(snapshot):
            return look_up
        if built is None:
            records = match.matching_records(_candidates(match, snapshot, lines), required)
            built = group_by_key(records, positions, columns)
        return built.get

    def look_up(values: Row) -> list[Row]:
        records: Sequence[Row] = _records_in_lines(snapshot.with_value(best_position, values[best]), lines)
        if len(values) > 1:
            records = [record for record in records if record_key(record) == values]
        return additions(match.matching_records(records, required))

    return join_step(key, matching), names


MIN_ENTITIES_PER_ROW = 8
"""Minimum number of entities per row for which each row is looked up in the index.

With fewer entities per row, reading all entities once is faster.
"""


def make_datom_step(
    pattern: Pattern, scope: Scope, snapshot: Snapshot, needed: Iterable[str]
) -> tuple[Step, list[str]]:
    """Return a step for a pattern whose attribute is a variable, and the names of the added columns.

    The step joins rows with triples of entity, attribute and value, so it reads the whole source.
    """
    match = Match()
    for position, term in enumerate((pattern.entity, pattern.attribute, pattern.value)):
        match.add(position, term, scope)
    keywords = snapshot.schema.keywords
    triples: list[Row] = [
        (record[LINE_INDEX], keyword, value)
        for record in snapshot.records
        for keyword, value in zip(keywords, record, strict=True)
        if value is not None
    ]
    found = match.matching_records(triples, frozenset(range(3)))
    names = [name for name in match.outputs if name in needed]
    columns = [match.outputs[name] for name in names]
    if not match.joined:
        return cross_join(list(dict.fromkeys(project_rows(found, columns)))), names
    table = group_by_key(found, [position for position, _ in match.joined], columns)
    key = make_projection([column for _, column in match.joined])
    return join_step(key, lambda _: table.get), names


def _candidates(match: Match, snapshot: Snapshot, lines: range | None) -> Sequence[Row]:
    """Return the records that may match, using an index if possible."""
    indexed = [(position, value) for position, value in match.fixed if snapshot.is_indexed(position)]
    if indexed:
        position, value = min(indexed, key=lambda candidate: snapshot.count_with_value(*candidate))
        return _records_in_lines(snapshot.with_value(position, value), lines)
    return snapshot.records if lines is None else snapshot.between(lines.start, lines.stop - 1)


def _records_in_lines(records: Sequence[Record], lines: range | None) -> Sequence[Record]:
    """Return the records whose lines are in the range. `records` must be in line order."""
    return records if lines is None else between(records, lines.start, lines.stop - 1)


def _average_matches(snapshot: Snapshot, position: int) -> float:
    """Return the average number of records that have the same value for the attribute at this position."""
    if position == LINE_INDEX:
        return 0
    return (
        len(snapshot) / max(1, snapshot.distinct_values(position)) if snapshot.is_indexed(position) else len(snapshot)
    )


def _attribute_keyword(pattern: Pattern) -> str:
    """Return the keyword of a pattern's attribute, which must be a constant."""
    if not isinstance(pattern.attribute, Constant):
        raise TypeError("the attribute of each pattern in a group must be a constant")
    return str(pattern.attribute.value)
