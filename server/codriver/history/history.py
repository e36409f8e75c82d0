"""The history at work: what it holds in memory, and when that goes to which of its files."""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import anyio

from codriver.history.files import append, replace, set_aside
from codriver.history.format import (
    NewerFormatError,
    UnreadableError,
    journal_line,
    read_journal,
    read_transit,
    to_transit,
)
from codriver.history.numbering import Numbering
from codriver.outputlog import SCHEMA, EntityStore, Entry

if TYPE_CHECKING:
    from pathlib import Path

    from codriver.outputlog import Snapshot

logger = logging.getLogger(__name__)

MAX_ENTITIES = 10_000
FLUSH_EVERY_S = 0.2  # leaves 300 ms of the promised 500 for the disk
QUIET_S = 2.0  # without a new entry, until the journal moves into the file
SMALL_BYTES = 32 * 2**10  # up to here the file is replaced at every flush: within a millisecond or two
EVALUATED_CODE = "evaluatedCode"


@dataclass(frozen=True, slots=True)
class Loaded:
    """What a history held at the start. `report` says in words what was wrong with it, None if nothing was."""

    entities: tuple[Entry, ...]
    next_line: int
    report: str | None


class History:
    """The history of one workspace, for the life of one server, which holds the workspace's lock.

    `load` comes first. `add` and `saw_line` may come from any thread and never wait for the disk; `run` writes what
    they were given. `close` ends it.
    """

    def __init__(self, path: Path, *, max_entities: int = MAX_ENTITIES) -> None:
        self._file = path
        self._journal = path.with_name(f"{path.name}.journal")
        self._numbering = Numbering(path.with_name(f"{path.name}.lines"))
        self._max_entities = max(1, max_entities)
        self._store = EntityStore(SCHEMA)
        self._lock = threading.Lock()
        self._disk = threading.Lock()
        self._pending: list[Entry] = []
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
        self._numbering.load(max(entities, default=0), problems)
        if self._journal_bytes:
            self._compact_or_warn()
        return Loaded(tuple(kept), self._numbering.next_line, "; ".join(problems) or None)

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
        self._numbering.saw(line)

    async def run(self) -> None:
        """Make durable what is added, until cancelled. Disk errors are logged, and tried again."""
        is_failing = False
        while True:
            await anyio.sleep(FLUSH_EVERY_S)
            try:
                if self._pending or self._numbering.is_low:
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
            self._numbering.renew()
            if not self._pending:
                return
            with self._lock:
                pending = list(self._pending)
            lines = b"".join(journal_line(entry) for entry in pending)
            if self._file_bytes + self._journal_bytes + len(lines) <= SMALL_BYTES:
                self._replace_file()
            else:
                append(self._journal, lines)
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
        self._numbering.close()

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
            problems.append(f"{self._file} could not be read ({error}) and is now {set_aside(self._file)}")
            return {}
        self._file_bytes = len(content)
        return {entry.line: entry for entry in entities}

    def _read_journal(self, problems: list[str]) -> dict[int, Entry]:
        try:
            content = self._journal.read_bytes()
        except FileNotFoundError:
            return {}
        entities, broken = read_journal(content)
        if broken and self._is_writable:
            problems.append(
                f"{broken} entries of {self._journal} could not be read; it is now {set_aside(self._journal)}"
            )
        self._journal_bytes = len(content)
        return entities

    # Writing

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
        replace(self._file, content)
        self._file_bytes = len(content)
        self._journal.unlink(missing_ok=True)
        self._journal_bytes = 0
