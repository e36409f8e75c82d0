"""Entity lookup: all patterns about one entity as one join, which reads the store by its best index."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from codriver.datalog import operators
from codriver.datalog.entity_store import between
from codriver.datalog.syntax_tree import Constant, Pattern, Source, Term, Variable

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from codriver.datalog.entity_store import Record, Snapshot
    from codriver.datalog.operators import Row, Step
    from codriver.datalog.scope import Scope

LINE = 0  # its place in a record; a line is an entity's id


@dataclass(frozen=True, slots=True)
class Group:
    """Patterns about one entity: with known attributes, in the same source."""

    source: Source
    entity: Term
    patterns: tuple[Pattern, ...]

    @property
    def variables(self) -> frozenset[str]:
        """All variables in it."""
        terms = (self.entity, *(pattern.value for pattern in self.patterns))
        return frozenset(term.name for term in terms if isinstance(term, Variable))

    def line_variables(self, places: Mapping[str, int]) -> frozenset[str]:
        """The variables that are the entity's line."""
        terms = [self.entity] + [p.value for p in self.patterns if places.get(_attribute(p)) == LINE]
        return frozenset(term.name for term in terms if isinstance(term, Variable))


@dataclass
class Match:
    """Match conditions on a record, by places in it: those of a row, and the columns that it adds to the row."""

    fixed: list[tuple[int, object]] = field(default_factory=list)
    """Equal to a value."""
    joined: list[tuple[int, int]] = field(default_factory=list)
    """Equal to a column of the row."""
    same: list[tuple[int, int]] = field(default_factory=list)
    """Equal to one another."""
    present: set[int] = field(default_factory=set)
    """Not absent."""
    outputs: dict[str, int] = field(default_factory=dict)
    """New columns."""

    def add(self, place: int, term: Term, scope: Scope) -> None:
        """The value at `place` is what the term says."""
        self.present.add(place)
        if isinstance(term, Constant):
            self.fixed.append((place, term.value))
        elif isinstance(term, Variable):
            if term.name in scope.constants:
                self.fixed.append((place, scope.constants[term.name]))
            elif term.name in scope.columns:
                self.joined.append((place, scope.columns[term.name]))
            elif term.name in self.outputs:
                self.same.append((place, self.outputs[term.name]))
            else:
                self.outputs[term.name] = place

    def passing(self, records: Sequence[Row], required: frozenset[int]) -> Sequence[Row]:
        """The records that match, whatever the row."""
        for place, value in self.fixed:
            # No value in a record is nil, which stands for none there.
            records = [record for record in records if record[place] == value] if value is not None else []
        for place in self.present - required:
            records = [record for record in records if record[place] is not None]
        for place, other in self.same:
            records = [record for record in records if record[place] == record[other]]
        return records


def match_group(group: Group, scope: Scope, places: Mapping[str, int]) -> Match:
    """The conditions on a record that all patterns of the group make together."""
    match = Match()
    match.add(LINE, group.entity, scope)
    for pattern in group.patterns:
        place = places.get(_attribute(pattern))
        if place is None:  # an attribute of other sources
            match.fixed.append((LINE, None))
        match.add(LINE if place is None else place, pattern.value, scope)
    return match


def group_step(match: Match, snapshot: Snapshot, lines: range | None, wanted: Iterable[str]) -> tuple[Step, list[str]]:
    """The step that adds what matches, and the names of the columns it adds. `lines`: where they can only be."""
    names = [name for name in match.outputs if name in wanted]
    columns = [match.outputs[name] for name in names]
    required = snapshot.schema.required_places
    is_unique = any(match.outputs[name] == LINE for name in names)

    def additions(records: Sequence[Row]) -> list[Row]:
        rows = operators.projected(records, columns)
        return rows if is_unique else list(dict.fromkeys(rows))

    if not match.joined:
        return operators.cross(additions(match.passing(_candidates(match, snapshot, lines), required))), names

    key = operators.projection([column for _, column in match.joined])
    places = [place for place, _ in match.joined]
    record_key = operators.projection(places)
    best = min(range(len(match.joined)), key=lambda n: _spread(snapshot, match.joined[n][0]))
    best_place = match.joined[best][0]
    built: dict[Row, list[Row]] | None = None

    def matching(rows: list[Row]) -> Any:
        nonlocal built
        if built is None and snapshot.is_indexed(best_place) and len(rows) * FEW < len(snapshot):
            return look_up
        if built is None:
            records = match.passing(_candidates(match, snapshot, lines), required)
            built = operators.hashed(records, places, columns)
        return built.get

    def look_up(values: Row) -> list[Row]:
        records: Sequence[Row] = _in_lines(snapshot.with_value(best_place, values[best]), lines)
        if len(values) > 1:
            records = [record for record in records if record_key(record) == values]
        return additions(match.passing(records, required))

    return operators.join(key, matching), names


FEW = 8  # with fewer rows than an eighth of the entities, asking the index for each beats reading all entities once


def datom_step(pattern: Pattern, scope: Scope, snapshot: Snapshot, wanted: Iterable[str]) -> tuple[Step, list[str]]:
    """The step of a pattern whose attribute is not known: every entity is taken as triples with its attributes."""
    match = Match()
    for place, term in enumerate((pattern.entity, pattern.attribute, pattern.value)):
        match.add(place, term, scope)
    keywords = snapshot.schema.keywords
    triples: list[Row] = [
        (record[LINE], keyword, value)
        for record in snapshot.records
        for keyword, value in zip(keywords, record, strict=True)
        if value is not None
    ]
    found = match.passing(triples, frozenset(range(3)))
    names = [name for name in match.outputs if name in wanted]
    columns = [match.outputs[name] for name in names]
    if not match.joined:
        return operators.cross(list(dict.fromkeys(operators.projected(found, columns)))), names
    table = operators.hashed(found, [place for place, _ in match.joined], columns)
    key = operators.projection([column for _, column in match.joined])
    return operators.join(key, lambda _: table.get), names


def _candidates(match: Match, snapshot: Snapshot, lines: range | None) -> Sequence[Row]:
    """The records to look at, as few as an index can narrow them down to."""
    indexed = [(place, value) for place, value in match.fixed if snapshot.is_indexed(place)]
    if indexed:
        place, value = min(indexed, key=lambda one: snapshot.count_with_value(*one))
        return _in_lines(snapshot.with_value(place, value), lines)
    return snapshot.records if lines is None else snapshot.between(lines.start, lines.stop - 1)


def _in_lines(records: Sequence[Record], lines: range | None) -> Sequence[Record]:
    """The records whose lines are among these, of records in line order."""
    return records if lines is None else between(records, lines.start, lines.stop - 1)


def _spread(snapshot: Snapshot, place: int) -> float:
    """The number of records that share a value of the attribute, on average."""
    if place == LINE:
        return 0
    return len(snapshot) / max(1, snapshot.distinct_values(place)) if snapshot.is_indexed(place) else len(snapshot)


def _attribute(pattern: Pattern) -> str:
    if not isinstance(pattern.attribute, Constant):
        raise TypeError("a group's patterns have known attributes")
    return str(pattern.attribute.value)


def is_missing(snapshot: Snapshot, entity: object, attribute: object) -> bool:
    """`missing?`: whether the entity has no such attribute."""
    return _value(snapshot, entity, attribute) is None


def get_else(snapshot: Snapshot, entity: object, attribute: object, default: object) -> object:
    """`get-else`: the entity's value, or the default."""
    value = _value(snapshot, entity, attribute)
    return default if value is None else value


def get_some(snapshot: Snapshot, entity: object, *attributes: object) -> tuple[object, object] | None:
    """`get-some`: the first of the attributes that the entity has, with its value."""
    for attribute in attributes:
        value = _value(snapshot, entity, attribute)
        if value is not None:
            return attribute, value
    return None


def _value(snapshot: Snapshot, entity: object, attribute: object) -> object:
    record = snapshot.entity(entity)
    place = snapshot.schema.positions.get(attribute) if isinstance(attribute, str) else None
    return None if record is None or place is None else record[place]
