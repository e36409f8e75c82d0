"""The memory of a workspace: the output logs of its latest runs, and documents that outlive a server.

It consists of TinyDB databases in the workspace's state directory, next to the history: `runs/RUN.json` for each run
and `memory.json` for the documents. Each file is private to the user, limited in size, and always replaced atomically.
Nothing is read until it is needed. `run_recorder` writes the log of a run from time to time. No other module imports
tinydb.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import threading
import time
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, TypeVar, cast

from tinydb import TinyDB, where
from tinydb.storages import Storage

from codriver import files
from codriver.files import MEBIBYTE, PRIVATE_DIRECTORY_MODE, FileRules, Links
from codriver.files.file_locks import try_lock
from codriver.files.private_directories import make_private_directory
from codriver.log.durable_files import rename_broken_file
from codriver.log.entry_sizes import truncate_entry
from codriver.log.log_entries import ENTRY_SCHEMA, Entry
from codriver_datalog.entity_store import EntityStore, Snapshot, Value

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from pathlib import Path

    from codriver_datalog.entity_store import Record


logger = logging.getLogger(__name__)

MAX_RUN_BYTES = 2 * MEBIBYTE
"""Maximum size of a run's file."""
MAX_DOCUMENTS_BYTES = 8 * MEBIBYTE
"""Maximum size of the documents' file, enough for `MAX_DOCUMENTS` documents with texts of maximum length."""
MAX_DOCUMENTS = 500
"""Maximum number of documents. The oldest are dropped first."""
MAX_NAME_CHARACTERS = 200
"""Maximum length of a document's name."""
MAX_TEXT_CHARACTERS = 2000
"""Maximum length of a document's text, and of its data."""
LOCK_TIMEOUT_S = 5.0
"""Maximum time, in seconds, to wait for another process to release the lock."""
LOCK_POLL_INTERVAL_S = 0.01
"""Pause between two attempts to acquire the lock."""
RUNS, RUN, OUTPUT = "runs", "run", "output"
"""Names of the directory of run files, and of the two tables in such a file, for the run and for its entries."""
NUMBER_FIELDS = frozenset({"line", "timestamp"})
"""Numeric fields of log entries."""

T = TypeVar("T")
Tables = dict[str, dict[str, Any]]


class BrokenMemoryError(OSError):
    """Raised when one of the memory's files is broken. `path` is the path of the file."""

    def __init__(self, path: Path, why: object) -> None:
        super().__init__(f"{path} cannot be read: {why}")
        self.path = path


@dataclass(frozen=True, slots=True)
class Document:
    """A short text that outlives the server, such as a checkpoint. Its name is unique within its kind.

    `time` is in epoch milliseconds.
    """

    kind: str
    name: str
    time: int
    text: str = ""
    data: str = ""
    """The data that the text describes, as a JSON object."""


@dataclass(frozen=True, slots=True)
class Run:
    """A run of a server whose log is remembered. Times are in epoch milliseconds."""

    id: str
    """An id that is derived from the time of the start and names the file."""
    session: str
    """The server's session id."""
    started: int
    finished: int | None
    """The time at which the server was stopped, or None if it is running or was killed."""
    entries: int
    """The number of remembered entries."""


def run_id(started_ms: int) -> str:
    """Return the id of a run that started at this time, such as `2026-01-31T12-00-00-123`. Ids sort chronologically."""
    seconds, milliseconds = divmod(started_ms, 1000)
    return f"{time.strftime('%Y-%m-%dT%H-%M-%S', time.gmtime(seconds))}-{milliseconds:03}"


class ReplacedFile(Storage):
    """TinyDB storage in a private file of limited size that is replaced atomically on each write."""

    def __init__(self, path: Path, root: Path, max_bytes: int) -> None:
        self._path = path
        self._root = root
        self._max_bytes = max_bytes

    def read(self) -> Tables | None:
        """Return all tables, or None if the file does not exist.

        Raises:
            BrokenMemoryError: the path is not a regular file, or the file is too large or not a TinyDB database.
        """
        rules = FileRules(Links.NEVER, self._max_bytes, is_granting=True)
        try:
            tables = json.loads(files.read(self._path, rules, root=self._root))
        except FileNotFoundError:
            return None
        except (OSError, ValueError, RecursionError) as error:
            raise BrokenMemoryError(self._path, getattr(error, "strerror", None) or error) from None
        if not _is_database(tables):
            raise BrokenMemoryError(self._path, "the file is not a TinyDB database")
        return cast("Tables", tables)

    def write(self, data: Mapping[str, Mapping[Any, Any]]) -> None:
        """Replace all tables.

        Raises:
            OSError: the file cannot be written, or would be too large.
        """
        content = _encode_json(data)
        if len(content) > self._max_bytes:
            raise files.TooLargeError(self._path, self._max_bytes, len(content))
        files.replace(self._path, content, links=Links.NEVER, root=self._root, make_mode=PRIVATE_DIRECTORY_MODE)


def _is_database(tables: object) -> bool:
    return isinstance(tables, dict) and all(
        isinstance(table, dict)
        and all(number.isdecimal() and isinstance(document, dict) for number, document in table.items())
        for table in tables.values()
    )


def _encode_json(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")


class Memory:
    """The logs of a workspace's latest server runs, and short documents that outlive a server. Thread-safe.

    All methods may block on the disk. `redact` is applied to documents. The entries of a run must already be redacted.
    If `is_repairing`, a broken file is renamed. `report` is called for each broken file; the others are still read.
    """

    def __init__(
        self,
        directory: Path,
        *,
        redact: Callable[[str], str] = str,
        is_repairing: bool = True,
        report: Callable[[str], None] = logger.warning,
    ) -> None:
        self.directory = directory
        self._redact = redact
        self._is_repairing = is_repairing
        self._report = report
        self._lock = threading.Lock()
        self._loaded: tuple[object, EntityStore] | None = None

    def remember(self, document: Document) -> None:
        """Store a document in place of any with the same kind and name. Beyond the limit, the oldest are dropped.

        Raises:
            OSError: the document cannot be written.
        """
        name = self._redact(document.name)[:MAX_NAME_CHARACTERS]
        text = self._redact(document.text)[:MAX_TEXT_CHARACTERS]
        data = self._redact(document.data)
        facts = {"data": data} if data and len(data) <= MAX_TEXT_CHARACTERS else {}
        with self._open_documents() as database:
            database.table(document.kind).upsert(
                {"name": name, "time": document.time, "text": text, **facts}, where("name") == name
            )
            for old in _sort_by_time(_parse_documents(database))[:-MAX_DOCUMENTS]:
                database.table(old.kind).remove(where("name") == old.name)

    def documents(self, kind: str | None = None) -> tuple[Document, ...]:
        """Return all documents, or only those of `kind`, oldest first."""
        read = self._read(
            self._documents_file, MAX_DOCUMENTS_BYTES, lambda database: _sort_by_time(_parse_documents(database))
        )
        return tuple([document for document in read or () if kind in (None, document.kind)])

    def delete_documents(self, kind: str) -> None:
        """Delete all documents of a kind.

        Raises:
            OSError: the file cannot be written.
        """
        with self._open_documents() as database:
            database.drop_table(kind)

    def run_ids(self) -> tuple[str, ...]:
        """Return the ids of the remembered runs, oldest first, without reading their files."""
        return tuple(sorted([path.stem for path in self._runs_directory.glob("*.json")]))

    def runs(self) -> tuple[Run, ...]:
        """Return the remembered runs, oldest first, except those whose files are broken."""
        found = (self._read_run(run) for run in self.run_ids())
        return tuple([read[0] for read in found if read is not None])

    def entries(self, run: str) -> tuple[Entry, ...]:
        """Return a run's remembered log entries in order, or none if its file does not exist or is broken."""
        read = self._read_run(run)
        return () if read is None else tuple(map(Entry.from_record, read[1]))

    def write_run(self, run: Run, records: Iterable[Record]) -> None:
        """Store a run with as many of its records as fit. `records` must be ordered from newest to oldest.

        Raises:
            OSError: the file cannot be written.
        """
        output: dict[str, Any] = {}
        left = MAX_RUN_BYTES - 1024  # reserved for the fields around the records
        for record in records:
            document = truncate_entry(Entry.from_record(record)).to_json()
            left -= len(_encode_json(document)) + len(str(record[0])) + 4
            if left < 0:
                break
            output[str(record[0])] = document
        make_private_directory(self.directory)
        head = {**asdict(run), "entries": len(output)}
        self._run_storage(run.id).write({RUN: {"1": head}, OUTPUT: output})

    def delete_runs(self, runs: Iterable[str]) -> None:
        """Delete the files of these runs. Missing files are ignored.

        Raises:
            OSError: a file cannot be deleted.
        """
        for run in runs:
            with contextlib.suppress(FileNotFoundError):
                files.remove(self._runs_directory / f"{run}.json")

    def remove_temporary_files(self) -> None:
        """Remove temporary files left by interrupted writes."""
        for directory, pattern in ((self._runs_directory, ".*.tmp"), (self.directory, ".memory.json*.tmp")):
            for leftover in directory.glob(pattern):
                with contextlib.suppress(OSError):
                    files.remove(leftover)

    def snapshot(self, *, without: str | None = None) -> Snapshot:
        """Return the entries of all runs except `without`, followed by an entry for each document.

        Entries of runs have the attribute `run`. The entry for a document has the document's kind as its category. Its
        text is the document's name and text.
        """
        with self._lock:
            runs = [run for run in self.run_ids() if run != without]
            paths = (*(self._runs_directory / f"{run}.json" for run in runs), self._documents_file)
            stamp = tuple([_stamp(path) for path in paths])
            if self._loaded is None or self._loaded[0] != stamp:
                self._loaded = stamp, self._load(runs)
            return self._loaded[1].snapshot()

    def _load(self, runs: Iterable[str]) -> EntityStore:
        records: dict[int, Record] = {}
        for run in runs:
            read = self._read_run(run)
            records |= {} if read is None else {cast("int", record[0]): record for record in read[1]}
        store = EntityStore(ENTRY_SCHEMA)
        for line in sorted(records):
            store.add(records[line])
        for document in self.documents():
            text = f"{document.name}: {document.text}" if document.text else document.name
            line = (store.last_line or 0) + 1
            known: dict[str, Value] = {
                "line": line,
                "category": document.kind,
                "text": text,
                "timestamp": document.time,
            }
            if document.data:
                known |= {"kind": document.kind, "data": document.data}
            store.add(ENTRY_SCHEMA.record(known))
        return store

    @property
    def _runs_directory(self) -> Path:
        return self.directory / RUNS

    @property
    def _documents_file(self) -> Path:
        return self.directory / "memory.json"

    def _run_storage(self, run: str) -> ReplacedFile:
        return ReplacedFile(self._runs_directory / f"{run}.json", self.directory, MAX_RUN_BYTES)

    def _read_run(self, run: str) -> tuple[Run, list[Record]] | None:
        """Return a run and its records in order, or None if its file does not exist or is broken."""
        path = self._runs_directory / f"{run}.json"

        def read(database: TinyDB) -> tuple[Run, list[Record]]:
            try:
                return _parse_run(database, run), sorted(
                    [_parse_record(found, run) for found in database.table(OUTPUT)], key=_line
                )
            except (TypeError, KeyError, ValueError) as error:
                raise BrokenMemoryError(path, f"the file does not contain a run: {error}") from None

        return self._read(path, MAX_RUN_BYTES, read)

    def _read(self, path: Path, max_bytes: int, read: Callable[[TinyDB], T]) -> T | None:
        """Open the database in a file and return the result of `read`, or None if the file is broken."""
        try:
            with TinyDB(path, self.directory, max_bytes, storage=ReplacedFile) as database:
                return read(database)
        except BrokenMemoryError as error:
            self._repair(error)
            return None

    @contextlib.contextmanager
    def _open_documents(self) -> Iterator[TinyDB]:
        """Open the database of documents for changes, locking out other threads and processes."""
        make_private_directory(self.directory)
        with self._lock, _file_lock(self.directory / "memory.lock"):
            storage = ReplacedFile(self._documents_file, self.directory, MAX_DOCUMENTS_BYTES)
            try:
                storage.read()
            except BrokenMemoryError as error:
                if not self._is_repairing:
                    raise
                self._repair(error)
            with TinyDB(self._documents_file, self.directory, MAX_DOCUMENTS_BYTES, storage=ReplacedFile) as database:
                yield database

    def _repair(self, error: BrokenMemoryError) -> None:
        reason = str(error)
        if self._is_repairing:
            with contextlib.suppress(OSError):
                reason += f"; the file was renamed to {rename_broken_file(error.path)}"
        self._report(reason)


@contextlib.contextmanager
def _file_lock(path: Path) -> Iterator[None]:
    """Lock a file for the duration of the context.

    Raises:
        TimeoutError: another process did not release the lock within `LOCK_TIMEOUT_S`.
    """
    descriptor = files.open_for_writing(path, links=Links.NEVER, root=path.parent)
    with os.fdopen(descriptor, "wb"):  # the file object closes the descriptor
        deadline = time.monotonic() + LOCK_TIMEOUT_S
        while not try_lock(descriptor):
            if time.monotonic() > deadline:
                raise TimeoutError(
                    f"another process has held the lock on {path} for {LOCK_TIMEOUT_S:g} s. End that process, or try "
                    "again"
                )
            time.sleep(LOCK_POLL_INTERVAL_S)
        yield


def _stamp(path: Path) -> tuple[str, files.Stamp] | None:
    """Return a value that changes with each replacement of the file, or None if the file does not exist."""
    try:
        status = path.stat()
    except OSError:
        return None
    return path.name, files.stamp_from_status(status)


def _parse_documents(database: TinyDB) -> Iterator[Document]:
    for kind in database.tables():
        for found in database.table(kind):
            with contextlib.suppress(KeyError, TypeError, ValueError):
                data = str(found.get("data", ""))
                yield Document(kind, str(found["name"]), int(found["time"]), str(found["text"]), data)


def _sort_by_time(documents: Iterable[Document]) -> list[Document]:
    return sorted(documents, key=lambda document: document.time)


def _parse_run(database: TinyDB, run: str) -> Run:
    """Return the run stored in a database.

    Raises:
        TypeError: the database does not contain a run.
        ValueError: the database contains a different run.
    """
    found = Run(**cast("dict[str, Any]", database.table(RUN).get(doc_id=1)))
    if found.id != run or type(found.started) is not int:
        raise ValueError(f"the database belongs to a different run, {found.id!r}")
    return found


def _parse_record(document: Mapping[str, Any], run: str) -> Record:
    """Convert the JSON object of an entry to a record.

    Raises:
        KeyError: an attribute is missing or unknown.
        TypeError: an attribute has the wrong type.
    """
    for name, value in document.items():
        if type(value) is not (int if name in NUMBER_FIELDS else str):
            raise TypeError(f"{name} is {value!r}")
    return ENTRY_SCHEMA.record({**document, "run": run})


def _line(record: Record) -> int:
    return cast("int", record[0])
