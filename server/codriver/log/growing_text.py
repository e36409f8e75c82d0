"""Strings that grow, of any length: the newest part in memory, the part before it in files, and the oldest dropped."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from codriver.log.redaction import Redactor, StreamRedactor
    from codriver.log.spill import SpillFile, Store

logger = logging.getLogger(__name__)

PART_CHARACTERS = 256 * 2**10
"""The length at which a string in memory goes to the disk.

Smaller parts cost more time: a MiB takes 0.2 ms like this, 0.9 ms in parts of 64 KiB. Larger parts cost memory for
every evaluation with a shorter text.
"""
WRITTEN_CHARACTERS = 4 * 2**20
"""Maximum number of characters written at a time.

While other threads compute, each use of the disk waits some 5 ms for its turn: parts of 256 KiB would allow 20 MiB a
second, and a program prints twenty times as fast.
"""
TAIL_CHARACTERS = 64 * 2**10
"""The end of a string on disk that stays in memory too: answers usually show the end of output, a few KB."""


# Whole blocks are read: this many characters take 0.05 ms, and an index of them 100 bytes.
BLOCK_CHARACTERS = 64 * 2**10


@dataclass(frozen=True, slots=True)
class Chunk:
    """A chunk of a string: its position, the length of the whole, and of the dropped part, in characters."""

    text: str
    start: int
    total: int
    dropped: int


NOTHING = Chunk("", 0, 0, 0)


def blocks(spans: Iterable[tuple[str, int, int]]) -> Iterator[str]:
    """Yield the characters of these strings, each from a place to before another, in blocks for a file."""
    found: list[str] = []
    capacity = BLOCK_CHARACTERS
    for string, start, end in spans:
        position = start
        while position < end:
            found.append(string[position : min(end, position + capacity)])
            position += len(found[-1])
            capacity -= len(found[-1])
            if not capacity:
                yield "".join(found)
                found, capacity = [], BLOCK_CHARACTERS
    if found:
        yield "".join(found)


class Text:
    """A string that grows at its end. Positions count from its beginning, even after that beginning is dropped.

    If the text cannot go to the disk, at most `store.max_stored` characters are stored, or one whole chunk. The oldest
    is dropped. Everything but `move` and `drop_file` may be called from any thread.
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

    def __init__(self, store: Store, name: str, age: int) -> None:
        """`name`: for the files, and a part of a file's name.

        `age`: strings of a lower age lose their files earlier.
        """
        self.age = age
        self.total = 0
        """The length in characters, with the dropped part."""
        self._store = store
        self._name = name
        # In order: the part in files, whose end `_tail` repeats, then the unwritten part, in chunks.
        self._files: list[SpillFile] = []
        self._sizes: list[int] = []
        self._written = 0
        self._tail = ""
        self._chunks: list[str] = []
        self._offset = 0
        """How many characters of the first chunk are written."""
        self._unwritten = 0
        self._moving = 0
        self._is_moving = False
        self._try_at = 0
        """The length from which on writing is tried again, after a failure."""
        self._is_forgotten = False

    @property
    def dropped(self) -> int:
        """Return the number of oldest characters that were dropped."""
        if not self._written:
            return 0
        with self._store.lock:
            return self._first_position()

    @property
    def is_in_memory(self) -> bool:
        """Return whether the whole text can be read without the disk."""
        return not self._files

    def add(self, text: str) -> None:
        """Add a chunk at the end. Never waits for the disk."""
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
            if is_due and not self._is_moving and store.spills:
                self._is_moving = True
                store.movers += 1
                self._moving = self._unwritten
                store.moving += self._moving
                store.submit(self.move)

    def read(self, start: int, end: int) -> Chunk:
        """Return the stored characters from `start` to before `end`. A position far from the end needs the disk."""
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
                self._lose(file, error)
                continue
            found += [tail, *(chunk[start:stop] for chunk, start, stop in spans)]
            return Chunk("".join(found), begin, total, dropped)

    def last(self, count: int) -> Chunk:
        """Return the last `count` characters, or as many as are stored."""
        total = self.total
        return self.read(max(0, total - count), total) if total else NOTHING

    def all(self) -> str:
        """Return the whole stored text as one string; only for strings that are known to be short."""
        with self._store.lock:
            if not self._written:
                return "".join(self._chunks)
        return self.read(0, self.total).text

    def chunks(self) -> Iterator[str]:
        """Yield the whole text, as far as held now, in chunks of bounded length."""
        position, total = 0, self.total
        while position < total:
            chunk = self.read(position, min(total, max(position, self.dropped) + PART_CHARACTERS))
            if not chunk.text:
                return
            yield chunk.text
            position = chunk.start + len(chunk.text)

    def forget(self) -> None:
        """Drop the text, in memory and on disk, and accept no more."""
        with self._store.lock:
            self._is_forgotten = True
            self._drop_files()
            self._store.stored -= self._unwritten + len(self._tail)
            self._written += self._unwritten
            self._unwritten = self._offset = 0
            self._tail = ""
            self._chunks.clear()

    # Called with the lock held

    def _first_position(self) -> int:
        near = self._written - len(self._tail)
        return min(self._files[0].start, near) if self._files else near

    def _spans(self, skipped: int, most: int) -> list[tuple[str, int, int]]:
        """Return the chunks of characters that are not written, each from a place to another.

        The first `skipped` are left out, then come at most `most`.
        """
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
        """Count so many characters as written."""
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
        """Drop the oldest chunks in memory while there are too many, and with them all text before them."""
        while len(self._chunks) > 1 and self._store.is_behind(self._unwritten, is_moving=self._is_moving):
            self._drop_files()
            self._retain_tail("")
            self._mark_written(len(self._chunks[0]) - self._offset)

    def _retain_tail(self, tail: str) -> None:
        self._store.stored += len(tail) - len(self._tail)
        self._tail = tail

    def drop_file(self) -> SpillFile:
        """Drop the text in the oldest file, and return the file to be removed. The caller holds the store's lock."""
        self._store.dropped(self._sizes.pop(0))
        if len(self._files) == 1:
            self._store.emptied(self)
        return self._files.pop(0)

    def _drop_files(self) -> None:
        while self._files:
            self._store.submit(self.drop_file().remove)

    def _lose(self, file: SpillFile, error: OSError) -> None:
        """Count the text in an unreadable file, and all text before it, as dropped. Takes the lock itself."""
        with self._store.lock:
            if file in self._files:  # else the file was dropped in the meantime
                logger.warning("a part of a long text is lost: %s", error)
                while file in self._files:
                    self._store.submit(self.drop_file().remove)

    # In the thread for the disk

    def move(self) -> None:
        """Write the text that only memory holds, until little of it is left. Called by the store, in its thread."""
        while (part := self._next_part()) is not None:
            spans, start, file = part
            self._store.use(file)
            parts = list(blocks(spans))  # copied without the lock, for which the event loop may be waiting
            try:
                size = file.append(parts)
            except OSError as error:
                if not file.size:
                    file.remove()
                self._stay(error)
                return
            self._moved(parts, start, file, size)
            self._store.trim()

    def _next_part(self) -> tuple[list[tuple[str, int, int]], int, SpillFile] | None:
        """Return the next part to write, its place, and the file for it; None when there is no such part."""
        with self._store.lock:
            if self._unwritten < PART_CHARACTERS or self._is_forgotten or not self._store.spills:
                self._end_moving()
                return None
            last = self._files[-1] if self._files else None
            file = self._store.file_for(last, self._name, self._written)
            # A file is dropped as a whole: a large one would take too much of the text with it.
            most = min(WRITTEN_CHARACTERS, max(PART_CHARACTERS, self._store.max_file_bytes))
            return self._spans(0, most), self._written, file

    def _moved(self, parts: list[str], start: int, file: SpillFile, size: int) -> None:
        """Note that a part is in a file now, which may be unwanted by now, or push out another."""
        gone: list[SpillFile] = []
        store, length = self._store, sum(map(len, parts))
        end = "".join(parts[-2:])[-TAIL_CHARACTERS:]
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
                self._retain_tail((self._tail + end)[-TAIL_CHARACTERS:])
                moved = min(length, self._moving)
                self._moving -= moved
                store.moving -= moved
                store.wrote(self, size)
                while sum(self._sizes) > store.max_stream_bytes and len(self._files) > 1:
                    gone.append(self.drop_file())
        for useless in gone:
            useless.remove()

    def _stay(self, error: OSError) -> None:
        """Keep in memory the part that could not be written; the next try comes when there is more text."""
        with self._store.lock:
            self._try_at = self.total + PART_CHARACTERS
            self._store.failed(error)
            self._end_moving()

    def _end_moving(self) -> None:
        if self._offset:  # the rest of a chunk would hold the whole chunk
            self._chunks[0] = self._chunks[0][self._offset :]
            self._offset = 0
        self._is_moving = False
        self._store.movers -= 1
        self._store.moving -= self._moving
        self._moving = 0
        self._drop_excess()


class Stream(Text):
    """A string without secrets. A possible beginning of a secret is withheld until more text arrives, or the end."""

    __slots__ = ("_redactor", "_within")

    def __init__(self, store: Store, name: str, age: int, redactor: Redactor) -> None:
        super().__init__(store, name, age)
        self._redactor = redactor
        self._within: StreamRedactor | None = None
        """The redactor of this stream, from its first text on: most evaluations print nothing."""

    def append(self, text: str) -> str:
        """Add `text` at the end, and return the part of it, and of withheld text, that may be displayed."""
        if self._within is None:
            self._within = self._redactor.stream()
        seen = self._within.feed(text)
        self.add(seen)
        return seen

    def end(self) -> str:
        """Add the withheld text, and return it: no more text can make it a secret."""
        if self._within is None:
            return ""
        rest = self._within.flush()
        if rest:
            self.add(rest)
        return rest
