"""The history: the code evaluated in this workspace, over all runs of its servers.

The history is kept in a file of lines, each a value of transit, to which new entries are appended. When the file is
twice as long as its newest entries need, it is replaced as a whole. A small file beside it holds the line up to which
the log may count, ahead of the lines that it has given.

The promise: `kill -9` at any moment loses at most the entries of the last 500 ms, and no line number is ever given
twice. The entities held are bounded in number and in bytes, in memory, on disk, and while a larger file is read.
"""

from __future__ import annotations

import asyncio
import contextlib
import heapq
import logging
import os
import re
import sys
import threading
from contextlib import closing, suppress
from dataclasses import dataclass
from functools import partial
from itertools import chain
from json.encoder import encode_basestring
from typing import TYPE_CHECKING

import anyio

from codriver import files
from codriver.datalog.entity_store import BoundedStore, utf8_bytes
from codriver.files import UnsafeFileError
from codriver.files.own_folders import make_private_folder
from codriver.log import durable_files
from codriver.log.durable_files import DiskTrouble, set_aside
from codriver.log.output_log import SCHEMA, Entry
from codriver.log.transit_format import (
    FORMAT_VERSION,
    EntityLines,
    NewerFormatError,
    UnreadableError,
    file_pieces,
    former_entities,
    former_journal,
    line_of,
    version_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator
    from pathlib import Path

    from codriver.log.output_log import Snapshot

__all__ = ["History", "Loaded", "NewerFormatError", "UnreadableError", "read_history"]

logger = logging.getLogger(__name__)

MAX_ENTITIES = 10_000
MAX_BYTES = 16 * 2**20
MAX_READ_BYTES = 256 * 2**20
"""The longest file that is read at all, in some 5 s; or four times the most bytes held, if more."""
FLUSH_EVERY_S = 0.2  # leaves 250 ms of the promised 500 for the disk, as an entry may wait for 50 in the log
LINE_BYTES = 200
"""The bytes of a line beside its entity's texts, at most in nearly all."""
SMALL_BYTES = 64 * 2**10
"""The bytes by which a file may always be longer than needed."""
FORMER_JOURNAL = ".journal"
EVALUATED_CODE = "evaluatedCode"


@dataclass(frozen=True, slots=True)
class Loaded:
    """Entries restored at the start, and the line to go on with.

    `report` names the faults of the files in words, None for none.
    """

    entities: tuple[Entry, ...]
    next_line: int
    report: str | None


class History:
    """The history of one workspace, for the life of one server, which holds the workspace's lock.

    `load` comes first. `add` and `saw_line` may come from any thread and never wait for the disk; `run` writes their
    entries. `close` ends the history.
    """

    def __init__(self, path: Path, *, max_entities: int = MAX_ENTITIES, max_bytes: int = MAX_BYTES) -> None:
        self._file = path
        self._former_journal = path.with_name(f"{path.name}{FORMER_JOURNAL}")
        self._line_numbers = LineNumbers(path.with_name(f"{path.name}.lines"))
        self._max_entities = max_entities
        self._max_bytes = max_bytes
        self._held = BoundedStore(SCHEMA, max_entities, max_bytes)
        self._lock = threading.Lock()
        self._disk = threading.Lock()
        self._pending: list[Entry] = []
        lost = "what was evaluated since is in memory only, and lost if the server ends before it can"
        self._trouble = DiskTrouble("the history", path, lost)
        self._file_bytes = 0
        """The length of the file that the next entries are appended to; 0 for a file to be written anew."""
        self._is_writable = False
        self._is_closed = False
        self._sleeper: Callable[[], object] | None = None
        """Wakes the task that waits for work; None while none waits."""

    def load(self) -> Loaded:
        """Read the files, and reserve lines for the log. Blocks; comes before everything else.

        A file that cannot be read is set aside under a dated name. A file of a newer format stays untouched, and then
        nothing is written: this run's history is only in memory. The report tells both. Of a file with too many
        entities, only as many as may be held are in memory at any time, and on disk afterwards.
        """
        problems: list[str] = []
        self._is_writable = True
        newest = Newest(self._max_entities, self._max_bytes)
        try:
            make_private_folder(self._file.parent)
            durable_files.sweep(self._file)
            newest = self._read(problems)
        except OSError as error:
            self._is_writable = False
            why = f"the history {self._file} cannot be used ({error.strerror or error}); this run's is in memory only"
            problems.append(f"{why}: make its folder one of yours that can be written, or set XDG_STATE_HOME")
        kept = newest.with_sizes()
        for entry, size in kept:
            self._held.insert(tuple(entry), size)
        self._line_numbers.load(newest.last_line, problems if self._is_writable else [])
        if self._is_writable and kept and (not newest.is_complete or self._is_too_long(0)) and not self._rewrite():
            self._file_bytes = 0  # the next flush tries again
        return Loaded(tuple([entry for entry, _ in kept]), self._line_numbers.next_line, "; ".join(problems) or None)

    def snapshot(self) -> Snapshot:
        """The entities now, for a query: the restored ones, and those of this run."""
        with self._lock:
            return self._held.snapshot()

    def usage(self) -> dict[str, int]:
        """The size of the history: entities, bytes in memory and on disk, and the most that it may hold."""
        with self._lock:
            return {
                "entities": len(self._held),
                "bytes": self._held.bytes,
                "maxBytes": self._max_bytes,
                "diskBytes": self._file_bytes,
            }

    def add(self, *entries: Entry) -> None:
        """Keep entries of the log, their lines rising: in memory now, on disk within 500 ms; evaluated code alone.

        A text of more than 64 KiB keeps its head and its tail. Entries beyond the bounds leave, the oldest first.
        """
        self.saw_line(entries[-1].line)
        for entry in entries:
            if entry.category == EVALUATED_CODE:
                self._keep(cut(entry))

    def _keep(self, entry: Entry) -> None:
        with self._lock:
            evicted = self._held.insert(tuple(entry), size_of(entry))
            if self._is_writable and not self._is_closed:
                self._pending.append(entry)
                # While the disk is behind, the entries waiting for it must not hold them either.
                if evicted and self._pending[0].line <= evicted[-1]:
                    self._pending = [e for e in self._pending if e.line > evicted[-1]]
                self._wake()

    def saw_line(self, line: int) -> None:
        """Note a line that the log has given: no later run gives it again."""
        if self._line_numbers.saw(line):
            self._wake()

    def _wake(self) -> None:
        if (wake := self._sleeper) is not None:
            self._sleeper = None
            wake()

    async def run(self, tell: Callable[[str | None], None] | None = None) -> None:
        """Make added entries durable, until cancelled; if the disk fails, try again.

        `tell` learns that entries cannot be written, in words, and by None that they can be again.
        """
        self._trouble.tell = tell
        while True:
            await self._await_work()
            await anyio.sleep(FLUSH_EVERY_S)
            try:
                await anyio.to_thread.run_sync(self.flush)
            except OSError as error:
                self._trouble.met(error)
            else:
                self._trouble.over()

    async def _await_work(self) -> None:
        """Return when there is something to write."""
        woken, loop = asyncio.Event(), asyncio.get_running_loop()
        # Made before the check for work, so that no work between the two is overlooked.
        self._sleeper = partial(loop.call_soon_threadsafe, woken.set)
        try:
            if not (self._pending or self._line_numbers.is_low):
                await woken.wait()
        finally:
            self._sleeper = None

    def flush(self) -> None:
        """Write all entries that are not on disk yet, and wait for the disk. Blocks.

        Raises:
            OSError: the entries cannot be written; nothing is lost, and the next flush tries again.
        """
        with self._disk:
            self._line_numbers.renew()
            if not self._pending:
                return
            with self._lock:
                pending = list(self._pending)
            lines = b"".join(map(line_of, pending))
            if not self._file_bytes:
                self._replace_file()
            elif not (self._is_too_long(len(lines)) and self._rewrite()):  # appending needs less room on the disk
                durable_files.append(self._file, lines)
                self._file_bytes += len(lines)
            self._drop_pending(pending[-1].line)

    def _is_too_long(self, more_bytes: int) -> bool:
        """Whether the file, with so many bytes more, is twice as long as its entities need."""
        with self._lock:
            needed = self._held.bytes + LINE_BYTES * len(self._held)
        return self._file_bytes + more_bytes > 2 * needed + SMALL_BYTES

    def _drop_pending(self, line: int) -> None:
        """Forget the entries up to this line that wait for the disk."""
        with self._lock:
            self._pending = [entry for entry in self._pending if entry.line > line]

    def close(self) -> None:
        """Write everything, and the exact line to go on with. Blocks; a second call is harmless."""
        if self._is_closed:
            return
        try:
            self.flush()
        except OSError as error:
            logger.warning("the history could not be written at the end: %s", error)
        self._is_closed = True
        self._line_numbers.close()

    def _read(self, problems: list[str]) -> Newest:
        """Read the files, and note the length of a file that can be appended to."""
        sizes: list[int] = []
        try:
            newest, lines = _newest(self._file, self._max_entities, self._max_bytes, sizes)
        except NewerFormatError as error:
            self._is_writable = False
            problems.append(f"{self._file} {error}: it stays untouched, and this run's history is kept in memory only")
            return Newest(self._max_entities, self._max_bytes)
        except UnreadableError as error:
            if os.path.lexists(self._file):
                problems.append(f"{self._file} could not be read ({error}) and is now {set_aside(self._file)}")
            return Newest(self._max_entities, self._max_bytes)
        if lines is not None and lines.broken:
            aside = set_aside(self._file)
            problems.append(f"{lines.broken} lines of {self._file} could not be read; it is now {aside}")
        if lines is None or lines.broken or lines.is_torn:
            newest.is_complete = False
        else:
            self._file_bytes = sum(sizes)
        return newest

    def _rewrite(self) -> bool:
        """Replace the file; false for a failure."""
        try:
            self._replace_file()
        except OSError as error:
            logger.warning("the history's file could not be written anew: %s", error)
            return False
        return True

    def _replace_file(self) -> None:
        """Write all entities as the file."""
        with self._lock:
            records = self._held.records
        sizes: list[int] = []
        durable_files.replace(self._file, _noting(sizes, file_pieces(map(Entry.from_record, records))))
        self._file_bytes = sum(sizes)
        with suppress(OSError):
            files.remove(self._former_journal)


def _newest(
    path: Path, max_entities: int, max_bytes: int, sizes: list[int] | None = None
) -> tuple[Newest, EntityLines | None]:
    """The newest entities of the file, and how its lines were read; a former version's file has no lines.

    Raises:
        UnreadableError: the file holds no history, or there is none.
        NewerFormatError: a newer version wrote it.
        OSError: the file cannot be read.
    """
    newest = Newest(max_entities, max_bytes)
    lines = None
    with closing(_pieces(path, max_bytes)) as read:  # some systems rename no open file
        pieces = _noting([] if sizes is None else sizes, read)
        head = next(pieces, b"")
        if version_of(head) == FORMAT_VERSION:
            lines = EntityLines(chain([head], pieces))
            entities = lines.entities()
        else:
            journal = path.with_name(f"{path.name}{FORMER_JOURNAL}")
            entities = chain(former_entities(chain([head], pieces)), former_journal(_pieces(journal, max_bytes)))
        for entity in entities:
            newest.add(entity)
    return newest, lines


def _noting(sizes: list[int], pieces: Iterable[bytes]) -> Iterator[bytes]:
    """The pieces, while the length of each is noted."""
    for piece in pieces:
        sizes.append(len(piece))
        yield piece


def _pieces(path: Path, max_bytes: int) -> Generator[bytes, None, None]:
    """The file, in pieces; nothing for a missing file.

    Raises:
        UnreadableError: anything but a file of this user lies there, or the file is too large.
    """
    try:
        yield from durable_files.read(path, max(MAX_READ_BYTES, 4 * max_bytes))
    except UnsafeFileError as error:
        raise UnreadableError(error.strerror) from None


def forget_history(path: Path) -> None:
    """Remove the entities on disk, while no server holds them. Harmless for none.

    Raises:
        OSError: the entities cannot be removed.
    """
    for file in (path, path.with_name(f"{path.name}{FORMER_JOURNAL}")):
        with suppress(FileNotFoundError):
            files.remove(file)


def read_history(path: Path) -> tuple[Entry, ...]:
    """The entities on disk, while no server holds them. Blocks; changes nothing.

    Raises:
        UnreadableError: the file holds no history.
        NewerFormatError: a newer version wrote it.
        OSError: the file cannot be read.
    """
    if not os.path.lexists(path):
        return ()
    newest, _ = _newest(path, MAX_ENTITIES, MAX_BYTES)
    return tuple([entry for entry, _ in newest.with_sizes()])


MAX_TEXT_BYTES = 64 * 2**10
END_BYTES = MAX_TEXT_BYTES // 2 - 100
"""The bytes kept of each end of a longer text; the words between the two fit into the rest."""
EMPTY_TEXT_BYTES = sys.getsizeof("")


def cut(entry: Entry) -> Entry:
    """The entry; a text of more than 64 KiB keeps its head and tail, with words between them on the part left out."""
    text = entry.text
    if len(text) * 4 <= MAX_TEXT_BYTES or (len(text) <= MAX_TEXT_BYTES and utf8_bytes(text) <= MAX_TEXT_BYTES):
        return entry
    head = text[:END_BYTES].encode("utf-8", "replace")[:END_BYTES].decode("utf-8", "ignore")
    tail = text[-END_BYTES:].encode("utf-8", "replace")[-END_BYTES:].decode("utf-8", "ignore")
    omitted = len(text) - len(head) - len(tail)
    return entry._replace(text=f"{head}\n... {omitted:,} of {len(text):,} characters are left out here ...\n{tail}")


def size_of(entry: Entry) -> int:
    """The bytes that the entry's texts take, in memory or in the file, whichever are more."""
    others = (entry.who, entry.namespace, entry.session_key, entry.evaluation, entry.category)
    names = [text for text in others if text]
    if entry.text.isascii() and (joined := "".join(names)).isascii():  # a character takes a byte in memory
        return _written(entry.text) + len(joined)
    size = max(sys.getsizeof(entry.text) - EMPTY_TEXT_BYTES, _written(entry.text))
    return size + sum([sys.getsizeof(text) - EMPTY_TEXT_BYTES for text in names])


def _written(text: str) -> int:
    return utf8_bytes(encode_basestring(text)) - 2


class Newest:
    """Bounded reading of entries in any order: the ones with the highest lines are kept, within the same limits.

    Of two entries with one line the later counts. `last_line` is the highest that came, 0 before any did; `is_complete`
    tells whether all that came are here, uncut.
    """

    def __init__(self, max_entities: int, max_bytes: int) -> None:
        self._max_entities = max(1, max_entities)
        self._max_bytes = max_bytes
        self._entries: dict[int, tuple[Entry, int]] = {}
        self._lines: list[int] = []
        self._bytes = 0
        self.last_line = 0
        self.is_complete = True

    def add(self, entry: Entry) -> None:
        """Take an entry, and drop the lowest beyond the limits."""
        kept = cut(entry)
        self.is_complete &= kept is entry
        self.last_line = max(self.last_line, entry.line)
        size = size_of(kept)
        if entry.line in self._entries:
            self._bytes -= self._entries[entry.line][1]
        else:
            heapq.heappush(self._lines, entry.line)
        self._entries[entry.line] = kept, size
        self._bytes += size
        while len(self._lines) > 1 and (len(self._lines) > self._max_entities or self._bytes > self._max_bytes):
            self._bytes -= self._entries.pop(heapq.heappop(self._lines))[1]
            self.is_complete = False

    def with_sizes(self) -> list[tuple[Entry, int]]:
        """The entries, their lines rising, each with its size in bytes."""
        return [self._entries[line] for line in sorted(self._entries)]


MAX_LINE_FILE_BYTES = 64

# A crash skips at most this many line numbers. They are renewed when half are used; a faster log renews them itself,
# which takes 0.2 ms, so 0.1 µs a line.
RESERVED_LINES = 2_000
MOST_UNTOLD = 64
"""Lines that the log may have given beyond the last one reported."""
LOST_LINES = 200_000  # skipped when the last given line is unknown: more than a run of days is likely to give
LINE_NUMBER = re.compile(rb"[0-9]{1,18}\n")


class LineNumbers:
    """Line numbers that the log has given and may give, for the life of one server. `load` comes first.

    The file is kept ahead of the given lines: it is written once for many lines, and a crash skips some.
    """

    def __init__(self, path: Path) -> None:
        self.next_line = 1
        """The first line that was not given yet."""
        self._file = path
        self._lock = threading.Lock()
        self._low_from = 0
        """The last line of the first half of the reserved lines."""
        self._renew_at = 0
        """The line that waits until more lines are reserved, or until that was tried."""
        self._is_closed = False

    def load(self, last_known: int, problems: list[str]) -> None:
        """Read the line to go on with, behind `last_known` in any case, and reserve lines. Faults go to `problems`."""
        self.next_line = max(self._read(last_known, problems), last_known + 1)
        if not self._reserve(self.next_line + RESERVED_LINES):
            problems.append(f"line numbers cannot be reserved in {self._file}: they may repeat after a crash")

    def saw(self, line: int) -> bool:
        """Note a line that the log has given; true if half of the reserved lines are used.

        Any thread may call; one call in `RESERVED_LINES` waits for the disk.
        """
        if line >= self.next_line:
            self.next_line = line + 1
            if line + MOST_UNTOLD >= self._renew_at and not self._is_closed:
                self._reserve(line + RESERVED_LINES, is_durable=False)
        return self.next_line > self._low_from

    @property
    def is_low(self) -> bool:
        """Whether half of the reserved lines are used."""
        return self.next_line > self._low_from

    def renew(self) -> None:
        """Reserve more lines if few are left, and wait until that is on disk."""
        if self.is_low and not self._is_closed:
            self._reserve(self.next_line + RESERVED_LINES)

    def close(self) -> None:
        """Keep the exact line to go on with."""
        self._is_closed = True
        self._reserve(self.next_line)

    def _read(self, last_known: int, problems: list[str]) -> int:
        content = b""
        try:
            content = b"".join(durable_files.read(self._file, MAX_LINE_FILE_BYTES))
            if not content and not os.path.lexists(self._file):
                return 1
        except UnsafeFileError:
            with contextlib.suppress(OSError):
                durable_files.set_aside(self._file)
        except OSError as error:
            logger.debug("%s cannot be read: %s", self._file, error)
        if LINE_NUMBER.fullmatch(content):
            return int(content)
        problems.append(f"{self._file} held no line number; {LOST_LINES} lines after the last known are skipped")
        return last_known + LOST_LINES + 1

    def _reserve(self, line: int, *, is_durable: bool = True) -> bool:
        """Keep in a file that lines below this one may have been given; true if that worked.

        A record that is not durable survives the process, and survives the machine only if the system has written it by
        then.
        """
        with self._lock:
            if not self._is_closed:  # two threads may reserve, and the slower one must take nothing back
                line = max(line, self._renew_at)
            # If the disk cannot be written, the next lines are not held up by a try for each.
            self._renew_at = line
            try:
                durable_files.replace(self._file, f"{line}\n".encode(), is_durable=is_durable)
            except OSError as error:
                logger.debug("lines up to %d could not be reserved: %s", line, error)
                return False
            self._low_from = line - RESERVED_LINES // 2 if is_durable else self._low_from
            return True
