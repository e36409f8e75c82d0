"""Strings that grow at their end, with the newest part in memory and older parts in files."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from codriver.log.redaction import Redactor, StreamRedactor
    from codriver.log.spill import SpillFile, SpillStore

logger = logging.getLogger(__name__)

PART_CHARACTERS = 256 * 2**10
"""Number of characters at which buffered text is written to disk.

A MiB takes 0.2 ms this way, but 0.9 ms in parts of 64 KiB. Larger parts would cost memory for every evaluation with a
shorter output.
"""
MAX_WRITE_CHARACTERS = 4 * 2**20
"""Maximum number of characters written at once.

While other threads compute, each write waits about 5 ms for the interpreter lock. With only 256 KiB per write, 20 MiB
per second could be written, but a program can print twenty times as much.
"""
RETAINED_TAIL_CHARACTERS = 64 * 2**10
"""Number of characters at the end of the written text that also stay in memory, because most answers need them."""


# Size of the blocks that are read from a file. Reading one takes 0.05 ms, and its index entry 100 bytes.
MAX_BLOCK_CHARACTERS = 64 * 2**10
"""Maximum number of characters in a block that `split_into_blocks` yields."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """A part of a `GrowingText`. Positions and lengths are in characters."""

    text: str
    start: int
    """Position of the first character of `text`."""
    total: int
    """Length of the whole string, including the part that was dropped."""
    dropped: int
    """Number of characters that were dropped from the beginning."""


EMPTY_CHUNK = Chunk("", 0, 0, 0)
"""A chunk without text."""


def split_into_blocks(spans: Iterable[tuple[str, int, int]]) -> Iterator[str]:
    """Join spans of strings, and yield the result in blocks of at most `MAX_BLOCK_CHARACTERS`.

    A span is a string, a start and an exclusive end.
    """
    found: list[str] = []
    capacity = MAX_BLOCK_CHARACTERS
    for string, start, end in spans:
        position = start
        while position < end:
            found.append(string[position : min(end, position + capacity)])
            position += len(found[-1])
            capacity -= len(found[-1])
            if not capacity:
                yield "".join(found)
                found, capacity = [], MAX_BLOCK_CHARACTERS
    if found:
        yield "".join(found)


class GrowingText:
    """A string that text can be appended to, and whose beginning may be dropped to limit its size.

    Positions count from the beginning of the string, even if that has been dropped. Older text is moved to files. If it
    cannot be written to disk, at most `store.max_stored` characters or one chunk are retained.

    All methods except `write_to_files` and `drop_file` may be called from any thread.
    """

    __slots__ = (
        "_chunks",
        "_files",
        "_is_forgotten",
        "_is_moving",
        "_moving",
        "_name",
        "_offset",
        "_sizes",
        "_store",
        "_tail",
        "_try_at",
        "_unwritten",
        "_written",
        "age",
        "total",
    )  # fmt: skip

    def __init__(self, store: SpillStore, name: str, age: int) -> None:
        """Create an empty string.

        `name` becomes part of the names of its files. When the disk space is used up, strings with a lower `age` lose
        their files first.
        """
        self.age = age
        self.total = 0
        """Number of characters added so far, including those that were dropped."""
        self._store = store
        self._name = name
        # The string consists of the part in files, whose end is repeated in `_tail`, and the unwritten chunks.
        self._files: list[SpillFile] = []
        self._sizes: list[int] = []
        self._written = 0
        self._tail = ""
        self._chunks: list[str] = []
        self._offset = 0
        """Number of characters of the first chunk that have been written already."""
        self._unwritten = 0
        self._moving = 0
        self._is_moving = False
        self._try_at = 0
        """The length at which writing is attempted again after a failure."""
        self._is_forgotten = False

    @property
    def dropped(self) -> int:
        """Return the number of characters that were dropped from the beginning."""
        if not self._written:
            return 0
        with self._store.lock:
            return self._first_position()

    @property
    def is_in_memory(self) -> bool:
        """Return whether the whole string can be read without disk access."""
        return not self._files

    def add(self, text: str) -> None:
        """Append text. Never waits for the disk."""
        store, size = self._store, len(text)
        if not size:
            return
        with store.lock:
            if self._is_forgotten:
                return
            if self._chunks and len(self._chunks[-1]) + size <= store.small_characters:
                self._chunks[-1] += text
            else:
                self._chunks.append(text)
            self._unwritten += size
            self.total += size
            store.stored += size
            if len(self._chunks) > 1:
                self._drop_excess()
            is_due = self._unwritten >= PART_CHARACTERS and self.total >= self._try_at
            if is_due and not self._is_moving and store.writes_to_disk:
                self._is_moving = True
                store.movers += 1
                self._moving = self._unwritten
                store.moving += self._moving
                store.submit(self.write_to_files)

    def read(self, start: int, end: int) -> Chunk:
        """Return the characters from `start` up to but not including `end`, except those that were dropped.

        Blocks on disk I/O if some of them are not in memory.
        """
        while True:
            with self._store.lock:
                if not self._written and start <= 0 and end >= self.total:
                    return Chunk("".join(self._chunks), 0, self.total, 0)
                dropped, total = self._first_position(), self.total
                begin = max(0, start, dropped)
                end = max(begin, min(end, total))
                near = self._written - len(self._tail)
                files = [(file, min(file.end, near)) for file in self._files] if begin < near else []
                tail = self._tail[max(0, begin - near) : max(0, end - near)]
                first = max(begin, self._written)
                spans = self._spans(first - self._written, end - first)
            found: list[str] = []
            try:
                for file, beyond in files:
                    found.append(file.read(max(begin, file.start), min(end, beyond)))
            except OSError as error:
                self._drop_unreadable(file, error)
                continue
            found += [tail, *(chunk[start:stop] for chunk, start, stop in spans)]
            return Chunk("".join(found), begin, total, dropped)

    def last(self, count: int) -> Chunk:
        """Return the last `count` characters, or fewer if the rest was dropped."""
        total = self.total
        return self.read(max(0, total - count), total) if total else EMPTY_CHUNK

    def read_all(self) -> str:
        """Return everything that was not dropped as one string. Only call this for strings known to be short."""
        with self._store.lock:
            if not self._written:
                return "".join(self._chunks)
        return self.read(0, self.total).text

    def chunks(self) -> Iterator[str]:
        """Yield everything that was not dropped in chunks, so that a long string is never in memory as a whole."""
        position, total = 0, self.total
        while position < total:
            chunk = self.read(position, min(total, max(position, self.dropped) + PART_CHARACTERS))
            if not chunk.text:
                return
            yield chunk.text
            position = chunk.start + len(chunk.text)

    def discard(self) -> None:
        """Drop the whole string in memory and on disk, and ignore text that is added later."""
        with self._store.lock:
            self._is_forgotten = True
            self._drop_files()
            self._store.stored -= self._unwritten + len(self._tail)
            self._written += self._unwritten
            self._unwritten = self._offset = 0
            self._tail = ""
            self._chunks.clear()

    # The following methods are called with the lock held.

    def _first_position(self) -> int:
        near = self._written - len(self._tail)
        return min(self._files[0].start, near) if self._files else near

    def _spans(self, skipped: int, most: int) -> list[tuple[str, int, int]]:
        """Return up to `most` unwritten characters, after the first `skipped`, as spans of chunks."""
        found: list[tuple[str, int, int]] = []
        start = self._offset + skipped
        for chunk in self._chunks:
            if most <= 0:
                break
            if start < len(chunk):
                end = min(len(chunk), start + most)
                found.append((chunk, start, end))
                most -= end - start
            start = max(0, start - len(chunk))
        return found

    def _mark_written(self, count: int) -> None:
        """Release the memory of the next `count` characters, because they have been written."""
        self._written += count
        self._unwritten -= count
        self._store.stored -= count
        self._offset += count
        used = 0
        for chunk in self._chunks:
            if self._offset < len(chunk):
                break
            self._offset -= len(chunk)
            used += 1
        del self._chunks[:used]

    def _drop_excess(self) -> None:
        """Drop the files and the oldest chunks in memory while too much text is unwritten."""
        while len(self._chunks) > 1 and self._store.is_behind(self._unwritten, is_moving=self._is_moving):
            self._drop_files()
            self._retain_tail("")
            self._mark_written(len(self._chunks[0]) - self._offset)

    def _retain_tail(self, tail: str) -> None:
        self._store.stored += len(tail) - len(self._tail)
        self._tail = tail

    def drop_file(self) -> SpillFile:
        """Forget the oldest file and return it, so that the caller can delete it. Requires the store's lock."""
        self._store.record_dropped(self._sizes.pop(0))
        if len(self._files) == 1:
            self._store.record_emptied(self)
        return self._files.pop(0)

    def _drop_files(self) -> None:
        while self._files:
            self._store.submit(self.drop_file().remove)

    def _drop_unreadable(self, file: SpillFile, error: OSError) -> None:
        """Drop an unreadable file and everything before it. Acquires the lock."""
        with self._store.lock:
            if file in self._files:  # otherwise it was dropped in the meantime
                logger.warning("part of a long string is lost, because its file cannot be read: %s", error)
                while file in self._files:
                    self._store.submit(self.drop_file().remove)

    # The following methods run in the disk thread.

    def write_to_files(self) -> None:
        """Write text to files until little is unwritten. Runs in the store's disk thread."""
        while (part := self._next_part()) is not None:
            spans, start, file = part
            self._store.close_previous(file)
            parts = list(split_into_blocks(spans))  # copied without the lock, which the event loop may be waiting for
            try:
                size = file.append(parts)
            except OSError as error:
                if not file.size:
                    file.remove()
                self._retry_writing_later(error)
                return
            self._record_move(parts, start, file, size)
            self._store.drop_oldest_files()

    def _next_part(self) -> tuple[list[tuple[str, int, int]], int, SpillFile] | None:
        """Return the next spans to write, their position and their file, or None if too little is unwritten."""
        with self._store.lock:
            if self._unwritten < PART_CHARACTERS or self._is_forgotten or not self._store.writes_to_disk:
                self._finish_move()
                return None
            last = self._files[-1] if self._files else None
            file = self._store.select_file(last, self._name, self._written)
            # Files are only dropped as a whole, so they should not be too large.
            most = min(MAX_WRITE_CHARACTERS, max(PART_CHARACTERS, self._store.max_file_bytes))
            return self._spans(0, most), self._written, file

    def _record_move(self, parts: list[str], start: int, file: SpillFile, size: int) -> None:
        """Record that a part has been written, and remove files that are no longer needed."""
        gone: list[SpillFile] = []
        store, length = self._store, sum(map(len, parts))
        end = "".join(parts[-2:])[-RETAINED_TAIL_CHARACTERS:]
        with store.lock:
            is_known = file in self._files
            if self._is_forgotten or start != self._written or (not is_known and file.start != start):
                gone.append(file)
            else:
                if not is_known:
                    self._files.append(file)
                    self._sizes.append(0)
                self._sizes[-1] += size
                self._mark_written(length)
                self._retain_tail((self._tail + end)[-RETAINED_TAIL_CHARACTERS:])
                moved = min(length, self._moving)
                self._moving -= moved
                store.moving -= moved
                store.record_written(self, size)
                while sum(self._sizes) > store.max_stream_bytes and len(self._files) > 1:
                    gone.append(self.drop_file())
        for useless in gone:
            useless.remove()

    def _retry_writing_later(self, error: OSError) -> None:
        """Record a failed write, and try again when more text has been added."""
        with self._store.lock:
            self._try_at = self.total + PART_CHARACTERS
            self._store.record_error(error)
            self._finish_move()

    def _finish_move(self) -> None:
        if self._offset:  # release the written part of the chunk
            self._chunks[0] = self._chunks[0][self._offset :]
            self._offset = 0
        self._is_moving = False
        self._store.movers -= 1
        self._store.moving -= self._moving
        self._moving = 0
        self._drop_excess()


class RedactedStream(GrowingText):
    """An evaluation's output stream, with secrets redacted.

    Text that might be the start of a secret is withheld until more text shows whether it is one.
    """

    __slots__ = ("_redactor", "_within")

    def __init__(self, store: SpillStore, name: str, age: int, redactor: Redactor) -> None:
        super().__init__(store, name, age)
        self._redactor = redactor
        self._within: StreamRedactor | None = None
        """The redactor of this stream, created with its first text because most evaluations print nothing."""

    def append(self, text: str) -> str:
        """Redact and store text. Return the redacted text, without the end that is still withheld."""
        if self._within is None:
            self._within = self._redactor.new_stream_redactor()
        seen = self._within.feed(text)
        self.add(seen)
        return seen

    def end(self) -> str:
        """Store and return the withheld text, because no more text follows."""
        if self._within is None:
            return ""
        rest = self._within.flush()
        if rest:
            self.add(rest)
        return rest
