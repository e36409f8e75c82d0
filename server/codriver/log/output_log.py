"""The output log: all text from the REPLs, as entities that Datalog queries can find.

It is a bounded in-memory store, in which adding and evicting entries takes constant time.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, cast

from codriver.core.records import dataclass
from codriver.errors import refused
from codriver.log.bounded_log import BoundedLog
from codriver.log.log_entries import ENTRY_SCHEMA, Entry
from codriver.log.query_sources import Queryable, QuerySources
from codriver_datalog.entity_store import Record, Snapshot, utf8_bytes

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from codriver_datalog.bounded_store import BoundedStore
    from codriver_datalog.solve import QueryAnswer

logger = logging.getLogger(__name__)


BASE_QUERY_SOURCES = QuerySources(replace(ENTRY_SCHEMA, sources=(("$", "the log"), ("$history", ""), ("$memory", ""))))
"""The attributes and sources available to queries if no feature adds any."""

CATEGORY, TEXT, WHO, SESSION_KEY, EVALUATION = (
    ENTRY_SCHEMA.attributes.index(n) for n in ("category", "text", "who", "repl-session-key", "evaluation")
)
"""Positions of attributes in the record of an entry."""

DEFAULT_MAX_ENTRIES = 1000
"""Default maximum number of entries in the log."""
DEFAULT_MAX_TEXT_BYTES = 16 * 2**20
"""Default maximum total size of the entries' texts."""
DEFAULT_MAX_ROWS = 10_000
"""Default maximum number of rows in the answer to a query."""
DEFAULT_QUERY_TIMEOUT_S = 2.0
"""Default maximum duration of a query."""
MAX_DEFERRED_CHARACTERS = 2**12
"""Maximum length of the text of an entry that may be added to the log with a delay."""
MAX_WAITING_ENTRIES = 32
"""Maximum number of entries waiting to be added. Adding them all takes one or two milliseconds."""
MAX_CACHED_QUERIES = 64
"""Maximum number of parsed queries that are cached, because most queries are repeated."""


@dataclass(frozen=True, slots=True)
class LogChange:
    """A change to the log: the entries that were added, the lines that were evicted, and the current range of lines."""

    added: tuple[Entry, ...]
    retracted: tuple[int, ...]
    first_line: int
    last_line: int


@dataclass(frozen=True, slots=True)
class LogQuery:
    """A Datalog query about the log (`$`), the history, the memory and features' logs."""

    text: str
    inputs: Sequence[object]
    """JSON values for the variables of `:in`, without the sources."""
    limit: int
    """Maximum number of rows."""
    until: int | None = None
    """Entries after this line are ignored."""
    every_row: bool = False
    """Whether the answer is a list of all rows even if `:find` specifies a single one."""


Listener = Callable[[LogChange], None]


class OutputLog(BoundedLog):
    """The log of one server run. The number and the total size of its entries are limited.

    The entry with the lowest line number is evicted first. The newest entry is always retained, no matter how long it
    is. All methods are thread-safe. `redact` is applied to the text, caller, namespace and data of each entry.
    `listener` is called with each change in order, in the thread that added the entries. Exceptions that it raises are
    logged.
    """

    def __init__(
        self,
        *,
        max_entities: int = DEFAULT_MAX_ENTRIES,
        max_bytes: int = DEFAULT_MAX_TEXT_BYTES,
        next_line: int = 1,
        redact: Callable[[str], str] = str,
        listener: Listener = lambda _report: None,
    ) -> None:
        super().__init__(ENTRY_SCHEMA, max_entities, max_bytes)
        self._listener = listener
        self._redact = redact
        self._use_sources(BASE_QUERY_SOURCES)
        self._next_line = next_line
        self._last_evicted_line = next_line - 1
        self._evicted = 0
        self._waiting: list[Entry] = []
        """Entries that have a line number but are not in the store yet."""
        self._adding = threading.RLock()
        """Held by the thread that adds waiting entries and calls the listener, which may itself append and read."""

    @property
    def next_line(self) -> int:
        """Return the line number of the next entry."""
        return self._next_line

    @property
    def last_line(self) -> int | None:
        """Return the highest line number in the log, or None if it is empty."""
        # Called after every evaluation, so waiting entries are not added just for this.
        waiting = self._waiting
        return waiting[-1].line if waiting else super().last_line

    @property
    def last_evicted_line(self) -> int:
        """Return the highest line number that was evicted. At first, this is the last line of the previous run."""
        self.add_waiting()
        return self._last_evicted_line

    @contextmanager
    def allocate_line(self) -> Iterator[int]:
        """Yield the next line number for an entry in another log. The counter is locked until the context exits."""
        with self._lock:
            yield self._next_line
            self._next_line += 1

    @property
    def evicted_count(self) -> int:
        """Return the number of entries evicted since the start."""
        self.add_waiting()
        return self._evicted

    def redact(self, text: str) -> str:
        """Redact secrets in a string. Call this before truncating, because half of a secret is not recognized."""
        return self._redact(text)

    def redact_entry(self, entry: Entry) -> Entry:
        """Return the entry with secrets redacted, as the log stores it."""
        return self._redacted_entry(entry, {None: None})

    def append(self, entry: Entry, *, may_wait: bool = False) -> int:
        """Add an entry, evict old entries beyond the limits, and return the line number of the new entry.

        With `may_wait`, the entry gets its line number immediately but is added together with later ones, by
        `add_waiting` or at the next read. This takes half the time, and the caller does not wait for it.
        """
        with self._lock:
            line = self._next_line
            self._next_line = line + 1
            self._waiting.append(Entry(line, *entry[1:]))
        if (
            not may_wait
            or self._followers
            or len(entry.text) > MAX_DEFERRED_CHARACTERS
            or len(self._waiting) >= MAX_WAITING_ENTRIES
        ):
            self.add_waiting()
            self._notify(line)
        return line

    @property
    def sources(self) -> QuerySources:
        """Return the attributes and sources available to queries. Assign them once, before the server listens."""
        return self._sources

    @sources.setter
    def sources(self, sources: QuerySources) -> None:
        self._use_sources(sources)

    def _use_sources(self, sources: QuerySources) -> None:
        self._sources = sources
        self._parse = lru_cache(maxsize=MAX_CACHED_QUERIES)(sources.parse)

    def add_waiting(self) -> None:
        """Add the entries that `append` deferred, and report them to the listener."""
        with self._adding:
            with self._lock:
                waiting, self._waiting = self._waiting, []
            if not waiting:
                return
            names: dict[str | None, str | None] = {None: None}
            added = tuple([self._redacted_entry(entry, names) for entry in waiting])
            with self._lock:
                retracted: list[int] = []
                for entry in added:
                    retracted += self._store.insert(tuple(entry), utf8_bytes(entry.text) + utf8_bytes(entry.data or ""))
                self._last_evicted_line = retracted[-1] if retracted else self._last_evicted_line
                self._evicted += len(retracted)
                last = added[-1].line
                report = LogChange(added, tuple(retracted), self._store.first_line or last, last)
            try:
                self._listener(report)
            except Exception:  # the entries have been added, so only log the exception
                logger.exception("a listener for the output log failed at log line %d", last)

    def _redacted_entry(self, entry: Entry, names: dict[str | None, str | None]) -> Entry:
        """Return an entry with its secrets redacted. `names` caches redacted callers and namespaces."""
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
        """Return the entries that match all filters, in order of their line numbers.

        `since` is exclusive, and `until` is inclusive. With `limit`, only the newest matching entries are returned.
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

    def query(  # one argument per source and limit
        self,
        text: str,
        *,
        inputs: Sequence[object] = (),
        history: Queryable | None = None,
        memory: Queryable | None = None,
        limit: int = DEFAULT_MAX_ROWS,
        time_limit_s: float = DEFAULT_QUERY_TIMEOUT_S,
        until: int | None = None,
        every_row: bool = False,
    ) -> QueryAnswer:
        """Answer a Datalog query about the log (`$`) and the other sources.

        The memory and features' logs are only loaded if the query names them. `inputs` are JSON values for the
        variables of `:in`, without the sources. Rules are passed as an EDN string. Entries after the line `until` are
        ignored. With `every_row`, the answer is a list of rows even if `:find` specifies a single one. A query takes up
        to `time_limit_s`, so call this in a thread.

        Raises:
            RefusedError: the query is invalid, the inputs do not match it, or a limit is exceeded.
        """
        from codriver_datalog.budget import Budget  # noqa: PLC0415  # delays the start, and is not needed before the first query
        from codriver_datalog.errors import QueryError  # noqa: PLC0415  # as above
        from codriver_datalog.solve import solve  # noqa: PLC0415  # as above

        named: dict[str, Queryable | None] = {"$": self, "$history": history}
        loaded = {name: source.snapshot() for name, source in named.items() if source is not None}
        loaded = {n: known if until is None else known.until(until) for n, known in loaded.items()}
        to_load = {**({} if memory is None else {"$memory": memory}), **self.sources.stores}
        sources = _Sources(loaded, to_load, {} if until is None else dict.fromkeys(self.sources.growing, until))
        try:
            query = self._parse(text)
            if every_row and query.shape in ("scalar", "tuple"):
                query = replace(query, shape="collection" if query.shape == "scalar" else "relation")
            return solve(query, sources, inputs, limit=limit, budget=Budget(time.monotonic, time_limit_s))
        except QueryError as error:
            raise refused(
                "bad-query",
                str(error),
                hint=f"Correct the {error.part}, and send the query again.",
                details={"found": error.found, "line": error.line, "column": error.column},
            ) from error


class _Sources(Mapping[str, Snapshot]):
    """The sources of one query by name. Some are only loaded when the query first reads them."""

    def __init__(self, loaded: dict[str, Snapshot], to_load: Mapping[str, Queryable], ends: Mapping[str, int]) -> None:
        """Create the sources of a query.

        `ends` contains the last line that the query sees of each source, by the source's name.
        """
        self._loaded = loaded
        self._to_load = to_load
        self._ends = ends

    def __getitem__(self, name: str) -> Snapshot:
        if name not in self._loaded:
            snapshot = self._to_load[name].snapshot()
            self._loaded[name] = snapshot.until(self._ends[name]) if name in self._ends else snapshot
        return self._loaded[name]

    def __contains__(self, name: object) -> bool:
        return name in self._loaded or name in self._to_load

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys((*self._loaded, *self._to_load)))

    def __len__(self) -> int:
        return len(self._loaded.keys() | self._to_load)


def merge_earlier_runs(remembered: Iterable[Entry], code: Iterable[Entry]) -> tuple[Entry, ...]:
    """Return the entries from earlier runs in order of their line numbers, followed by the documents in the memory.

    `remembered` contains the entries from the memory, and `code` those from the history. The entries in `code` are used
    for runs whose log is not remembered.
    """
    known = tuple(remembered)
    logged = [entry for entry in known if entry.run]
    lines = {entry.line for entry in logged}
    found = [*logged, *(entry for entry in code if entry.line not in lines)]
    return (*sorted(found, key=lambda entry: entry.line), *(entry for entry in known if not entry.run))
