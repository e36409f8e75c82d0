"""The output log: all text of the REPLs, as entities that queries can find.

A bounded store in memory: an insert and an eviction cost the same at ten entities and at ten thousand.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, cast

from codriver.core.records import dataclass
from codriver.errors import refused
from codriver.log.query_sources import Queryable, QuerySources
from codriver_datalog.entity_store import BoundedStore, EntityStore, Record, Schema, Snapshot, Value, utf8_bytes

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from codriver_datalog.solve import QueryAnswer

__all__ = [
    "APP_SCHEMA",
    "NO_LINE",
    "SCHEMA",
    "Category",
    "EntityStore",
    "Entry",
    "LogQuery",
    "OutputLog",
    "Queryable",
    "Report",
    "Snapshot",
    "Value",
    "earlier_runs",
]

logger = logging.getLogger(__name__)

Category = Literal[
    "evaluatedCode",
    "evaluationResults",
    "evaluationOutput",
    "evaluationErrorOutput",
    "otherOutput",
    "otherErrorOutput",
]

SCHEMA = Schema(
    namespace="output",
    attributes=(
        "line",
        "category",
        "text",
        "timestamp",
        "who",
        "ns",
        "repl-session-key",
        "evaluation",
        "run",
        "notebook",
        "file",
        "kind",
        "data",
    ),
    required=frozenset({"line", "category", "text", "timestamp"}),
    indexed=frozenset({"category", "who", "ns", "repl-session-key", "evaluation", "run", "kind"}),
)
"""The attributes of an entity, in the log, the history and the memory alike; the memory alone has a `run`."""

APP_SCHEMA = replace(
    SCHEMA,
    attributes=(*SCHEMA.attributes, "op", "name", "frame", "cause", "ms", "app-id"),
    indexed=SCHEMA.indexed | {"op", "name", "frame", "cause"},
    only_in=("$app", len(SCHEMA.attributes)),
)
"""The attributes of an event of an application: see `codriver.log.logbook`."""

LOG_SOURCES = QuerySources(
    replace(APP_SCHEMA, sources=(("$", "the log"), ("$app", ""), ("$history", ""), ("$memory", "")))
)
"""The attributes and sources of queries without any feature."""

CATEGORY, TEXT, WHO, SESSION_KEY, EVALUATION = (
    SCHEMA.attributes.index(n) for n in ("category", "text", "who", "repl-session-key", "evaluation")
)

MAX_ENTITIES = 1000
MAX_BYTES = 16 * 2**20
MAX_ROWS = 10_000
TIME_LIMIT_S = 2.0
LIGHT_CHARACTERS = 2**12
"""The characters of a string that may wait to be added."""
MOST_WAITING = 32
"""The entities that may wait: so many are added within a millisecond or two."""
PARSED_QUERIES = 64  # kept for the next time, as most queries are asked again


NO_LINE = 0


class Entry(NamedTuple):
    """One entity of the log. `timestamp` is epoch milliseconds; unknown fields are None.

    Its fields are in the order of `SCHEMA`: as a plain tuple the entity is the record in a store.
    """

    line: int
    """`NO_LINE` before the log has given it one."""
    category: Category
    text: str
    timestamp: int
    who: str | None = None
    namespace: str | None = None
    session_key: str | None = None
    evaluation: str | None = None
    run: str | None = None
    notebook: str | None = None
    """The path of the notebook that code was evaluated from, past this server."""
    file: str | None = None
    """The path of the file whose text this is, as loaded."""
    kind: str | None = None
    """What the server reports in this entity, such as `edit`; None for text of the REPLs."""
    data: str | None = None
    """The facts that an entity with a `kind` reports, as a JSON object."""

    @classmethod
    def from_record(cls, record: Record) -> Entry:
        """Return the entity that a record of the store holds."""
        return cls._make(cast("tuple[Any, ...]", record))

    def to_json(self) -> dict[str, Value]:
        """Return the entity by its attributes' names without namespace; unknown ones have no key."""
        return SCHEMA.document(self)


@dataclass(frozen=True, slots=True)
class Report:
    """The report of one transaction: the entities added, the lines dropped, and the range of lines in the log."""

    added: tuple[Entry, ...]
    retracted: tuple[int, ...]
    first_line: int
    last_line: int


@dataclass(frozen=True, slots=True)
class LogQuery:
    """A Datalog query over the log (`$`), applications, the history, the memory and recorded runs (`$app` …).

    `inputs`: JSON values in the order of `:in`, without the sources. `limit`: rows. `until`: the last line that the
    query sees. `every_row`: all rows, also if `:find` asks for only one.
    """

    text: str
    inputs: Sequence[object]
    limit: int
    until: int | None = None
    every_row: bool = False


Listener = Callable[[Report], None]


Follower = Callable[[int], None]
"""A function that is given the line of each new entity."""


class BoundedLog:
    """The common part of the output log and the app log: a bounded store, its lock, and the followers of new entities.

    Followers are called in the thread that brought the entity, with no lock held. An exception in one is logged, and
    the entity stays.
    """

    def __init__(self, schema: Schema, max_entities: int, max_bytes: int) -> None:
        self._store = BoundedStore(schema, max_entities, max_bytes)
        self._lock = threading.Lock()
        self._followers: tuple[Follower, ...] = ()

    @property
    def first_line(self) -> int | None:
        """Return the lowest line in the log."""
        return self._current_store().first_line

    @property
    def last_line(self) -> int | None:
        """Return the highest line in the log."""
        return self._current_store().last_line

    @property
    def entity_count(self) -> int:
        """Return the number of entities."""
        return len(self._current_store())

    @property
    def text_bytes(self) -> int:
        """Return the size of all entities, in bytes."""
        return self._current_store().bytes

    @contextmanager
    def followed_by(self, follower: Follower) -> Iterator[None]:
        """Call `follower` with all new entities, for the duration of the context."""
        with self._lock:
            self._followers = (*self._followers, follower)
        try:
            yield
        finally:
            with self._lock:
                self._followers = tuple([known for known in self._followers if known is not follower])

    def snapshot(self) -> Snapshot:
        """Return the entities now."""
        store = self._current_store()
        with self._lock:
            return store.snapshot()

    def _current_store(self) -> BoundedStore:
        """Return the store, with all entities that came."""
        return self._store

    def _notify(self, line: int) -> None:
        for follower in self._followers:
            try:
                follower(line)
            except Exception:  # an exception is the follower's trouble, and the entity is there
                logger.exception("a follower of the log failed at line %d", line)


class OutputLog(BoundedLog):
    """The log of one server run, limited by count and by bytes of text: the lowest line is dropped first.

    The newest entity always stays, however long its text. Any thread may call. `redact` is applied to every text on its
    way in, and to its caller and namespace. `listener` receives the report of every transaction in order, in the thread
    that made it; an exception in it is logged, and the entities stay.
    """

    def __init__(
        self,
        *,
        max_entities: int = MAX_ENTITIES,
        max_bytes: int = MAX_BYTES,
        next_line: int = 1,
        redact: Callable[[str], str] = str,
        listener: Listener = lambda _report: None,
    ) -> None:
        super().__init__(SCHEMA, max_entities, max_bytes)
        self._listener = listener
        self._redact = redact
        self.sources = LOG_SOURCES
        self._next_line = next_line
        self._last_evicted_line = next_line - 1
        self._evicted = 0
        self._waiting: list[Entry] = []
        """Entities that have their lines, and are not in the store yet."""
        self._adding = threading.RLock()
        """The lock of the thread that moves them there and tells the listener, which may append and read."""

    @property
    def next_line(self) -> int:
        """Return the line that the next entity gets."""
        return self._next_line

    @property
    def last_line(self) -> int | None:
        """Return the highest line in the log."""
        # Asked after each evaluation, so waiting entities are not hurried for the answer.
        waiting = self._waiting
        return waiting[-1].line if waiting else super().last_line

    @property
    def last_evicted_line(self) -> int:
        """Return the highest line that has left, those of previous runs among them."""
        self.add_waiting()
        return self._last_evicted_line

    @contextmanager
    def line_for_another(self) -> Iterator[int]:
        """Give the next line to an entity of another store, which takes it before the line after it is given."""
        with self._lock:
            yield self._next_line
            self._next_line += 1

    @property
    def evicted(self) -> int:
        """Return the number of entities that have left since the start."""
        self.add_waiting()
        return self._evicted

    def without_secrets(self, text: str) -> str:
        """Return a string as the log would store it, redacted before it is truncated."""
        return self._redact(text)

    def cleared(self, entry: Entry) -> Entry:
        """Return the entry as the log has it, without secrets."""
        return self._without_secrets(entry, {None: None})

    def append(self, entry: Entry, *, may_wait: bool = False) -> int:
        """Add an entity without a line, and return the line that it gets; entities beyond the limits are dropped.

        An entity that `may_wait` gets its line immediately, and is added together with later ones, by `add_waiting` or
        at the next read. That takes half of the time, and none of it while the caller waits.
        """
        with self._lock:
            line = self._next_line
            self._next_line = line + 1
            self._waiting.append(Entry(line, *entry[1:]))
        if not may_wait or self._followers or len(entry.text) > LIGHT_CHARACTERS or len(self._waiting) >= MOST_WAITING:
            self.add_waiting()
            self._notify(line)
        return line

    @property
    def sources(self) -> QuerySources:
        """Return the attributes and sources that queries may name. Set once, before the server listens."""
        return self._sources

    @sources.setter
    def sources(self, sources: QuerySources) -> None:
        self._sources = sources
        self._parse = lru_cache(maxsize=PARSED_QUERIES)(sources.parse)

    def add_waiting(self) -> None:
        """Add the waiting entities in the order of their lines, and report them to the listener."""
        with self._adding:
            with self._lock:
                waiting, self._waiting = self._waiting, []
            if not waiting:
                return
            names: dict[str | None, str | None] = {None: None}
            added = tuple([self._without_secrets(entry, names) for entry in waiting])
            with self._lock:
                retracted: list[int] = []
                for entry in added:
                    retracted += self._store.insert(tuple(entry), utf8_bytes(entry.text) + utf8_bytes(entry.data or ""))
                self._last_evicted_line = retracted[-1] if retracted else self._last_evicted_line
                self._evicted += len(retracted)
                last = added[-1].line
                report = Report(added, tuple(retracted), self._store.first_line or last, last)
            try:
                self._listener(report)
            except Exception:  # an exception is the listener's trouble, and the entities are in the log
                logger.exception("the listener of the output log failed at line %d", last)

    def _without_secrets(self, entry: Entry, names: dict[str | None, str | None]) -> Entry:
        """Return the entity without secrets.

        `names`: callers and namespaces by their redacted strings; new ones are added.
        """
        line, category, text, timestamp, who, namespace, *others, data = entry
        for name in (who, namespace):
            if name not in names:
                names[name] = name and self._redact(name)
        clean = data and self._redact(data)
        return Entry._make(
            (line, category, self._redact(text), timestamp, names[who], names[namespace], *others, clean)
        )

    def _current_store(self) -> BoundedStore:
        self.add_waiting()
        return self._store

    def entries(
        self,
        *,
        since: int | None = None,
        until: int | None = None,
        category: Collection[str] | None = None,
        who: str | None = None,
        evaluation: str | None = None,
        session_key: str | None = None,
        limit: int | None = None,
    ) -> tuple[Entry, ...]:
        """Return the entities that pass every filter given, in line order.

        `since`: lines after it. `until`: lines up to and with it. `limit`: the newest so many.
        """
        snapshot = self.snapshot()
        equal = [(p, v) for p, v in ((WHO, who), (EVALUATION, evaluation), (SESSION_KEY, session_key)) if v is not None]
        low = 0 if since is None else since + 1
        high = self._next_line if until is None else until
        records: Sequence[Record] = min(
            (snapshot.with_value(p, v) for p, v in equal), key=len, default=snapshot.records
        )
        found: list[Record] = []
        for record in reversed(records):
            line = cast("int", record[0])
            if line < low or (limit is not None and len(found) >= limit):
                break
            matches = category is None or record[CATEGORY] in category
            if matches and line <= high and all(record[position] == value for position, value in equal):
                found.append(record)
        return tuple(Entry.from_record(record) for record in reversed(found))

    def query(  # noqa: PLR0913  # one argument a source and a limit
        self,
        text: str,
        *,
        inputs: Sequence[object] = (),
        app: Queryable | None = None,
        history: Queryable | None = None,
        memory: Queryable | None = None,
        limit: int = MAX_ROWS,
        time_limit_s: float = TIME_LIMIT_S,
        until: int | None = None,
        every_row: bool = False,
    ) -> QueryAnswer:
        """Return the answer of a Datalog query over `$`, the log, and the other sources, as they are now.

        The memory and the sources of features are loaded only if the query names them. `inputs`: JSON values in the
        order of `:in`, without the sources; rules as an EDN string. `until`: the last line that the query sees.
        `every_row`: a list of rows, also if `:find` asks for only one. Meant for a thread of its own: a query takes up
        to `time_limit_s`.

        Raises:
            RefusedError: the text is not a query, the inputs do not fit, or a clause cannot be run.
        """
        from codriver_datalog.budget import Budget  # noqa: PLC0415  # the start is quicker without queries
        from codriver_datalog.errors import QueryError  # noqa: PLC0415  # as above
        from codriver_datalog.solve import solve  # noqa: PLC0415  # as above

        named: dict[str, Queryable | None] = {"$": self, "$app": app, "$history": history}
        loaded = {name: source.snapshot() for name, source in named.items() if source is not None}
        loaded = {n: known if until is None else known.until(until) for n, known in loaded.items()}
        to_load = {**({} if memory is None else {"$memory": memory}), **self.sources.stores}
        sources = _Sources(loaded, to_load)
        try:
            query = self._parse(text)
            if every_row and query.shape in ("scalar", "tuple"):
                query = replace(query, shape="collection" if query.shape == "scalar" else "relation")
            return solve(query, sources, inputs, limit=limit, budget=Budget(time.monotonic, time_limit_s))
        except QueryError as error:
            raise refused(
                "bad-query",
                str(error),
                hint=f"Correct the {error.part} there and ask again.",
                details={"expected": error.expected, "found": error.found, "line": error.line, "column": error.column},
            ) from error


class _Sources(Mapping[str, Snapshot]):
    """Sources of one query, some of which are loaded once, when the query first reads them."""

    def __init__(self, loaded: dict[str, Snapshot], to_load: Mapping[str, Queryable]) -> None:
        self._loaded = loaded
        self._to_load = to_load

    def __getitem__(self, name: str) -> Snapshot:
        if name not in self._loaded:
            self._loaded[name] = self._to_load[name].snapshot()
        return self._loaded[name]

    def __contains__(self, name: object) -> bool:
        return name in self._loaded or name in self._to_load

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys((*self._loaded, *self._to_load)))

    def __len__(self) -> int:
        return len(self._loaded.keys() | self._to_load)


def earlier_runs(remembered: Iterable[Entry], code: Iterable[Entry]) -> tuple[Entry, ...]:
    """Return the entities of earlier runs: logs, and code alone of runs without a log, in line order; then documents.

    `remembered` comes from the memory, `code` from the history.
    """
    known = tuple(remembered)
    logged = [entry for entry in known if entry.run]
    lines = {entry.line for entry in logged}
    found = [*logged, *(entry for entry in code if entry.line not in lines)]
    return (*sorted(found, key=lambda entry: entry.line), *(entry for entry in known if not entry.run))
