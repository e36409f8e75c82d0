"""What was evaluated, kept across restarts.

Two files. `eval-history.transit.json` is whole at all times: it is written beside itself and renamed. Between two such
writes, what is new is appended to a journal beside it, one JSON line an entity, and synced within half a second;
reading replays it. So a kill loses at most what half a second brought, and never breaks a file.

The line counter never repeats: the journal also notes a line that no entity has reached yet, some thousands ahead, and
the next run goes on after it.
"""

from __future__ import annotations

import io
import json
import os
import tempfile
import threading
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
from transit.reader import Reader
from transit.transit_types import Keyword
from transit.writer import Writer

from codriver.datalog.store import EntityStore
from codriver.outputlog import SCHEMA, Entry

if TYPE_CHECKING:
    from collections.abc import Mapping

    from codriver.datalog.store import Snapshot

FORMAT_VERSION = 1
SYNC_S = 0.25
"""Half of what the promise allows, so that a slow disk still keeps it."""
RESERVED_LINES = 5000
PRIVATE = 0o600


@dataclass(frozen=True, slots=True)
class Loaded:
    """What was kept: the entities in line order, the next line to give, and what was wrong in words, if anything."""

    entities: tuple[Entry, ...]
    next_line: int
    report: str | None = None


class History:
    """The history of one workspace. `path` is the transit file; nothing is opened before `load`.

    Any thread may call `add` and `note_line`. A file of a newer format is left as it is, and then nothing is written.
    """

    def __init__(self, path: Path, *, max_entities: int = 10_000) -> None:
        self._path = path
        self._journal = path.with_suffix(".journal")
        self._max_entities = max_entities
        self._store = EntityStore(SCHEMA)
        self._waiting: list[str] = []
        self._journaled = 0
        self._highest = 0
        self._reserved = 0
        self._writable = True
        self._lock = threading.Lock()
        self._writing = threading.Lock()
        self.problem: str | None = None
        """Why the last write failed, if it did."""

    @property
    def entities(self) -> tuple[Entry, ...]:
        """All that is held now, in line order."""
        with self._lock:
            return tuple(Entry.from_record(record) for record in self._store.snapshot().records)

    def snapshot(self) -> Snapshot:
        """The entities as they are now, for queries."""
        with self._lock:
            return self._store.snapshot()

    def load(self) -> Loaded:
        """Read what was kept. Files that cannot be read are set aside under a dated name, and said."""
        reports = [self._load_file(), self._load_journal()]
        self._highest = max(self._reserved, self._store.last_line or 0)
        return Loaded(self.entities, self._highest + 1, "; ".join(filter(None, reports)) or None)

    def peek(self) -> tuple[Entry, ...]:
        """What is on disk, in line order, for someone who only looks: nothing is set aside or written."""
        self._writable = False
        self._load_file()
        self._load_journal()
        return self.entities

    def add(self, entry: Entry) -> None:
        """Keep an entity; it is on disk within half a second while `run` runs."""
        with self._lock:
            self._hold(entry)
            self._waiting.append(json.dumps(entry.to_json(), ensure_ascii=False))
            self._note(entry.line)

    def note_line(self, line: int) -> None:
        """A line of the log was given to something that is not kept."""
        if line > self._reserved:
            with self._lock:
                self._note(line)

    def flush(self) -> None:
        """Put on disk what is not there yet. Blocks.

        Raises:
            OSError: it cannot be written; it stays waiting.
        """
        with self._writing:
            with self._lock:
                waiting, self._waiting = self._waiting, []
            if not waiting or not self._writable:
                return
            try:
                self._append("".join(line + "\n" for line in waiting))
            except OSError:
                with self._lock:
                    self._waiting[:0] = waiting
                raise
            self._journaled += len(waiting)
            if self._journaled > self._max_entities:
                self._compact()

    def close(self) -> None:
        """Put all on disk as one file. Blocks."""
        try:
            self.flush()
            if self._writable and (self._journaled or self._journal.exists()):
                with self._writing:
                    self._compact()
        except OSError as error:
            self.problem = f"the history could not be written: {error.strerror or error}"

    async def run(self) -> None:
        """Write what is new, again and again, until cancelled."""
        while True:
            await anyio.sleep(SYNC_S)
            if not self._waiting:
                continue
            try:
                await anyio.to_thread.run_sync(self.flush)
                self.problem = None
            except OSError as error:
                self.problem = f"the history could not be written: {error.strerror or error}"

    def _hold(self, entry: Entry) -> None:
        """Keep an entity in memory; the oldest makes room."""
        self._store.add(entry.to_record())
        if len(self._store) > self._max_entities and self._store.first_line is not None:
            self._store.remove(self._store.first_line)

    def _note(self, line: int) -> None:
        self._highest = max(self._highest, line)
        if self._highest > self._reserved:
            self._reserved = self._highest + RESERVED_LINES
            self._waiting.append(json.dumps({"reserved": self._reserved}))

    # Files

    def _append(self, text: str) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(self._journal, os.O_WRONLY | os.O_APPEND | os.O_CREAT, PRIVATE)
        with os.fdopen(handle, "ab") as file:
            # A journal torn by a kill ends within a line: the next line must not be glued to it.
            file.write(("\n" if file.tell() else "").encode() + text.encode("utf-8", "replace"))
            file.flush()
            os.fsync(file.fileno())

    def _compact(self) -> None:
        """Write the one whole file, then drop the journal: a kill between the two replays what is there already."""
        with self._lock:
            entities = [Entry.from_record(record) for record in self._store.snapshot().records]
            highest = self._highest
        written = io.StringIO()
        Writer(written, "json").write(
            {
                Keyword("format-version"): FORMAT_VERSION,
                Keyword("highest-line"): highest,
                Keyword("entities"): [_to_transit(entry) for entry in entities],
            }
        )
        handle, temporary = tempfile.mkstemp(dir=self._path.parent, prefix=f".{self._path.name}-")
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(written.getvalue())
                file.flush()
                os.fsync(file.fileno())
            Path(temporary).replace(self._path)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise
        self._journal.unlink(missing_ok=True)
        self._journaled = 0
        with self._lock:
            self._reserved = highest

    def _load_file(self) -> str | None:
        try:
            text = self._path.read_text(encoding="utf-8")
        except FileNotFoundError:
            return None
        except (OSError, UnicodeDecodeError) as error:
            return self._set_aside(self._path, str(error))
        try:
            document = Reader("json").read(io.StringIO(text))
            version = document[Keyword("format-version")]
            if version > FORMAT_VERSION:
                self._writable = False
                return (
                    f"the history {self._path} has format {version}, and this version writes {FORMAT_VERSION}: it is "
                    "left as it is, and this run keeps nothing; update codriver to use it"
                )
            entries = [_from_transit(found) for found in document[Keyword("entities")]]
            self._reserved = int(document.get(Keyword("highest-line"), 0))
        except Exception as error:  # noqa: BLE001  # the reader raises whatever the broken text leads it to
            return self._set_aside(self._path, f"{type(error).__name__}: {error}")
        for entry in entries:
            self._hold(entry)
        return None

    def _load_journal(self) -> str | None:
        try:
            lines = self._journal.read_bytes().splitlines()
        except FileNotFoundError:
            return None
        except OSError as error:
            return self._set_aside(self._journal, str(error))
        newest = self._store.last_line or 0
        broken = 0
        for line in lines:
            if not line.strip():
                continue
            try:
                found = json.loads(line)
                if "reserved" in found:
                    self._reserved = max(self._reserved, int(found["reserved"]))
                    continue
                entry = _from_json(found)
            except (ValueError, KeyError, TypeError):
                broken += 1
                continue
            if entry.line > newest:
                newest = entry.line
                self._hold(entry)
        self._journaled = len(lines)
        # One torn line is what a kill leaves; more is damage.
        return f"{broken} lines of {self._journal} could not be read and are left out" if broken > 1 else None

    def _set_aside(self, path: Path, why: str) -> str:
        if not self._writable:
            return f"{path} cannot be read ({why})"
        stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%S%f")
        aside = path.with_name(f"{path.name}.unreadable-{stamp}")
        try:
            path.rename(aside)
        except OSError as error:
            self._writable = False
            return f"the history {path} cannot be read ({why}) nor set aside ({error}): this run keeps nothing"
        return f"the history {path.name} could not be read ({why}) and was set aside as {aside.name}"


def _to_transit(entry: Entry) -> dict[Keyword, object]:
    return {Keyword(f"{SCHEMA.namespace}/{name}"): value for name, value in entry.to_json().items()}


def _from_transit(found: Mapping[Keyword, Any]) -> Entry:
    return _from_json({key.str.rpartition("/")[2]: value for key, value in found.items()})


def _from_json(found: Mapping[str, Any]) -> Entry:
    return Entry.from_record(SCHEMA.record(found))
