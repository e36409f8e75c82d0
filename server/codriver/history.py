"""The history: the code evaluated in this workspace, over all runs of its servers.

It is kept in a transit file, `{:format-version 1 :entities [...]}`, that is only ever replaced as a whole. Replacing it
for every entry gets expensive as it grows, so a file that is no longer small has a journal beside it: new entries are
appended there, one line of JSON each, and move into the file when the journal has grown as long, when things are quiet,
and at the end. A third small file holds the line up to which the log may count, ahead of what it has given.

The promise: `kill -9` at any moment loses at most what was added in the last 500 ms, and never a line number's being
unique. This is the only door to transit.
"""

from __future__ import annotations

import io
import json
import logging
import os
import re
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import anyio
from transit.reader import Reader
from transit.transit_types import Keyword
from transit.writer import Writer

from codriver.outputlog import SCHEMA, EntityStore, Entry

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from codriver.outputlog import Snapshot, Value

logger = logging.getLogger(__name__)

FORMAT_VERSION = 1
MAX_ENTITIES = 10_000
FLUSH_EVERY_S = 0.2  # leaves 300 ms of the promised 500 for the disk
QUIET_S = 2.0  # without a new entry, until the journal moves into the file
SMALL_BYTES = 32 * 2**10  # up to here the file is replaced at every flush: within a millisecond or two
# At most that many line numbers are skipped by a crash. They are renewed when half are used; a log that is faster than
# that renews them itself, which takes 0.2 ms, so 0.1 µs a line.
RESERVED_LINES = 2_000
LOST_LINES = 200_000  # skipped when nobody knows any more which were given: more than a run of days is likely to give
LINE_NUMBER = re.compile(rb"[0-9]{1,18}\n")
KEYWORDS = {name: Keyword(f"{SCHEMA.namespace}/{name}") for name in SCHEMA.attributes}
EVALUATED_CODE = "evaluatedCode"
HALF_CHARACTER = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class Loaded:
    """What a history held at the start. `report` says in words what was wrong with it, None if nothing was."""

    entities: tuple[Entry, ...]
    next_line: int
    report: str | None


class UnreadableError(ValueError):
    """A file that holds no history: says why."""


class NewerFormatError(ValueError):
    """A file that a newer version wrote."""


class History:
    """The history of one workspace, for the life of one server, which holds the workspace's lock.

    `load` comes first. `add` and `saw_line` may come from any thread and never wait for the disk; `run` writes what
    they were given. `close` ends it.
    """

    def __init__(self, path: Path, *, max_entities: int = MAX_ENTITIES) -> None:
        self._file = path
        self._journal = path.with_name(f"{path.name}.journal")
        self._counter = path.with_name(f"{path.name}.lines")
        self._max_entities = max(1, max_entities)
        self._store = EntityStore(SCHEMA)
        self._lock = threading.Lock()
        self._disk = threading.Lock()
        self._counting = threading.Lock()
        self._pending: list[Entry] = []
        self._next_line = 1
        self._reserved = 0
        self._renew_at = 0
        """The line that is not given before more are reserved, or before that was tried."""
        self._file_bytes = 0
        self._journal_bytes = 0
        self._added_at_s = 0.0
        self._is_writable = False
        self._is_closed = False

    def load(self) -> Loaded:
        """Read what there is, and reserve lines for the log. Blocks; comes before everything else.

        A file that cannot be read is set aside under a dated name. One of a newer format stays untouched, and then
        nothing is written: this run's history is only in memory. Both are said in the report.
        """
        problems: list[str] = []
        self._is_writable = True
        try:
            self._file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            entities = self._read_file(problems) | self._read_journal(problems)
        except OSError as error:
            self._is_writable = False
            problems.append(f"the history {self._file} cannot be used, so this run's is kept in memory only: {error}")
            entities = {}
        kept = [entities[line] for line in sorted(entities)[-self._max_entities :]]
        for entry in kept:
            self._store.add(entry.to_record())
        self._next_line = max(self._read_counter(problems), max(entities, default=0) + 1)
        if not self._reserve(self._next_line + RESERVED_LINES):
            problems.append(f"line numbers cannot be reserved in {self._counter}: they may repeat after a crash")
        if self._journal_bytes:
            self._compact_or_warn()
        return Loaded(tuple(kept), self._next_line, "; ".join(problems) or None)

    def snapshot(self) -> Snapshot:
        """The entities as they are now, for a query: those restored, and those of this run."""
        with self._lock:
            return self._store.snapshot()

    def add(self, entry: Entry) -> None:
        """Keep an entry: in memory now, on disk within 500 ms. Only evaluated code is kept; the rest is left out."""
        self.saw_line(entry.line)
        if entry.category != EVALUATED_CODE:
            return
        with self._lock:
            self._store.add(entry.to_record())
            if len(self._store) > self._max_entities:
                self._store.remove(cast("int", self._store.first_line))
            if self._is_writable and not self._is_closed:
                self._pending.append(entry)
                self._added_at_s = time.monotonic()

    def saw_line(self, line: int) -> None:
        """The log has given this line: no later run gives it again."""
        if line >= self._next_line:
            self._next_line = line + 1
            if line >= self._renew_at and not self._is_closed:
                self._reserve(line + RESERVED_LINES, is_durable=False)

    async def run(self) -> None:
        """Make durable what is added, until cancelled. Disk errors are logged, and tried again."""
        is_failing = False
        while True:
            await anyio.sleep(FLUSH_EVERY_S)
            try:
                if self._pending or self._next_line > self._reserved - RESERVED_LINES // 2:
                    await anyio.to_thread.run_sync(self.flush)
                elif self._journal_bytes and time.monotonic() - self._added_at_s >= QUIET_S:
                    await anyio.to_thread.run_sync(self._compact)
                is_failing = False
            except OSError as error:
                if not is_failing:
                    logger.warning("the history cannot be written, and is kept in memory until it can: %s", error)
                is_failing = True

    def flush(self) -> None:
        """Write what is not yet on disk, and wait until it is. Blocks.

        Raises:
            OSError: it cannot be written; nothing is lost, and the next flush tries again.
        """
        with self._disk:
            if self._next_line > self._reserved - RESERVED_LINES // 2 and not self._is_closed:
                self._reserve(self._next_line + RESERVED_LINES)
            if not self._pending:
                return
            with self._lock:
                pending = list(self._pending)
            lines = b"".join(_journal_line(entry) for entry in pending)
            if self._file_bytes + self._journal_bytes + len(lines) <= SMALL_BYTES:
                self._replace_file()
            else:
                _append(self._journal, lines)
                self._journal_bytes += len(lines)
                if self._journal_bytes > self._file_bytes + SMALL_BYTES:
                    self._replace_file()
            with self._lock:
                del self._pending[: len(pending)]

    def close(self) -> None:
        """Write everything, into the file alone, and the exact line to go on with. Blocks; twice is harmless."""
        if self._is_closed:
            return
        try:
            self.flush()
            self._compact()
        except OSError as error:
            logger.warning("the history could not be written at the end: %s", error)
        self._is_closed = True
        self._reserve(self._next_line)

    # Reading

    def _read_file(self, problems: list[str]) -> dict[int, Entry]:
        self._file.with_name(f"{self._file.name}.tmp").unlink(missing_ok=True)
        try:
            content = self._file.read_bytes()
        except FileNotFoundError:
            return {}
        try:
            entities = read_transit(content)
        except NewerFormatError as error:
            self._is_writable = False
            problems.append(f"{self._file} {error}: it stays untouched, and this run's history is kept in memory only")
            return {}
        except UnreadableError as error:
            problems.append(f"{self._file} could not be read ({error}) and is now {_set_aside(self._file)}")
            return {}
        self._file_bytes = len(content)
        return {entry.line: entry for entry in entities}

    def _read_journal(self, problems: list[str]) -> dict[int, Entry]:
        try:
            content = self._journal.read_bytes()
        except FileNotFoundError:
            return {}
        entities: dict[int, Entry] = {}
        *lines, torn = content.split(b"\n")
        broken = 0
        for line in lines:
            try:
                entry = _entry(json.loads(line))
            except ValueError:
                broken += 1
            else:
                entities[entry.line] = entry
        if broken and self._is_writable:
            problems.append(
                f"{broken} entries of {self._journal} could not be read; it is now {_set_aside(self._journal)}"
            )
        self._journal_bytes = len(content)
        logger.debug("the journal held %d entries and %d torn bytes", len(entities), len(torn))
        return entities

    def _read_counter(self, problems: list[str]) -> int:
        try:
            content = self._counter.read_bytes()
        except FileNotFoundError:
            return 1
        except OSError:
            content = b""
        if LINE_NUMBER.fullmatch(content):
            return int(content)
        problems.append(f"{self._counter} held no line number; {LOST_LINES} lines after the last known are skipped")
        last = self._store.last_line or 0
        return last + LOST_LINES + 1

    # Writing

    def _reserve(self, line: int, *, is_durable: bool = True) -> bool:
        """Keep in a file that lines below this one may have been given. Whether that worked.

        What is not durable outlives the process, and the machine only when the system has written it meanwhile.
        """
        with self._counting:
            if not self._is_closed:  # two threads may reserve, and the one that is behind takes nothing back
                line = max(line, self._renew_at)
            # Where the disk cannot be written, the next lines are not held up by trying again for each.
            self._renew_at = line
            try:
                _replace(self._counter, f"{line}\n".encode(), is_durable=is_durable)
            except OSError as error:
                logger.debug("lines up to %d could not be reserved: %s", line, error)
                return False
            self._reserved = line if is_durable else self._reserved
            return True

    def _compact(self) -> None:
        """Move the journal into the file."""
        with self._disk:
            if self._journal_bytes and self._is_writable:
                self._replace_file()

    def _compact_or_warn(self) -> None:
        try:
            self._compact()
        except OSError as error:
            logger.warning("the history's journal could not be moved into its file: %s", error)

    def _replace_file(self) -> None:
        """Write all entities as the file; what the journal holds is then in it."""
        snapshot = self.snapshot()
        content = to_transit(Entry.from_record(record) for record in snapshot.records)
        _replace(self._file, content)
        self._file_bytes = len(content)
        self._journal.unlink(missing_ok=True)
        self._journal_bytes = 0


def to_transit(entities: Iterable[Entry]) -> bytes:
    """The file that holds these entities."""
    stored = [{KEYWORDS[name]: _storable(value) for name, value in entry.to_json().items()} for entry in entities]
    stream = io.StringIO()
    Writer(stream, "json").write({Keyword("format-version"): FORMAT_VERSION, Keyword("entities"): stored})
    return stream.getvalue().encode()


def _storable(value: Value) -> Value:
    """The value, with a mark in place of what is half of a character: no UTF-8 file can hold that."""
    return value if isinstance(value, int) or value.isascii() else HALF_CHARACTER.sub("\ufffd", value)


def read_transit(content: bytes) -> tuple[Entry, ...]:
    """The entities that a file holds.

    Raises:
        UnreadableError: it holds no history.
        NewerFormatError: a newer version wrote it.
    """
    try:
        stored = Reader("json").read(io.StringIO(content.decode()))
    except Exception as error:  # whatever a broken file does to the reader, the file is broken
        raise UnreadableError(f"no transit JSON: {error}") from error
    version = stored.get(Keyword("format-version")) if hasattr(stored, "get") else None
    if not isinstance(version, int) or version < 1:
        raise UnreadableError("it says no :format-version")
    if version > FORMAT_VERSION:
        raise NewerFormatError(f"has the format {version}, and this version knows {FORMAT_VERSION}")
    entities = stored.get(Keyword("entities"))
    if not isinstance(entities, tuple | list):
        raise UnreadableError("it says no :entities")
    return tuple(_entry(_plain(entity)) for entity in entities)


def _plain(entity: Any) -> dict[str, Any]:
    """An entity of the file by names without namespace. What this version does not know is left out."""
    if not hasattr(entity, "get"):
        raise UnreadableError("one of the entities is no map")
    return {name: entity[keyword] for name, keyword in KEYWORDS.items() if keyword in entity}


def _entry(entity: Mapping[str, Any]) -> Entry:
    try:
        record = SCHEMA.record(entity)
    except (KeyError, AttributeError, TypeError) as error:
        raise UnreadableError(f"an entity lacks an attribute: {error}") from None
    numbers = (record[0], record[3])
    texts = [value for value in (record[1], record[2], *record[4:]) if value is not None]
    if not all(type(n) is int for n in numbers) or not all(isinstance(text, str) for text in texts):
        raise UnreadableError("an attribute of an entity has a wrong type")
    return Entry.from_record(record)


def _journal_line(entry: Entry) -> bytes:
    return json.dumps(entry.to_json(), separators=(",", ":")).encode() + b"\n"


def _append(path: Path, content: bytes) -> None:
    """Append to a file that only its owner can read, and wait until it is on disk.

    A line that an earlier failure tore is ended first, so that it takes no other with it.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        size = os.fstat(descriptor).st_size
        if size and os.pread(descriptor, 1, size - 1) != b"\n":
            content = b"\n" + content
        _write(descriptor, content)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    if not size:
        _sync_folder(path.parent)


def _replace(path: Path, content: bytes, *, is_durable: bool = True) -> None:
    """Replace a file, as a whole or not at all, and wait until it is on disk if it is to be durable."""
    temporary = path.with_name(f"{path.name}.tmp")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        _write(descriptor, content)
        if is_durable:
            os.fsync(descriptor)
    finally:
        os.close(descriptor)
    temporary.replace(path)
    if is_durable:
        _sync_folder(path.parent)


def _write(descriptor: int, content: bytes) -> None:
    view = memoryview(content)
    while view:
        view = view[os.write(descriptor, view) :]


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _set_aside(path: Path) -> Path:
    """Rename a file to one that says when; the new path."""
    stamp = time.strftime("%Y-%m-%dT%H-%M-%S")
    number = 0
    while True:
        aside = path.with_name(f"{path.name}.unreadable-{stamp}" + (f"-{number}" if number else ""))
        if not aside.exists():
            path.rename(aside)
            return aside
        number += 1
