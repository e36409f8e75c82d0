"""Format of the history: a file of lines, each of them a value in transit's JSON encoding.

The first line is `["^ ","~:format-version",2]`; each of the others is an entity as a map, whose keys are keywords such
as `:output/line`. Each line is written by itself, so it can be read without the lines before it. Lines are read and
written one at a time, as a file may be many times larger than the part of it that is retained. transit-python reads and
writes them; it is imported with the first line, since a server starts without it. No other module imports transit.
"""

from __future__ import annotations

import io
import re
from typing import TYPE_CHECKING, Any, Final, cast

from codriver.log.output_log import SCHEMA, Entry

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

FORMAT_VERSION: Final = 2
HEADER: Final = b'["^ ","~:format-version",%d]\n' % FORMAT_VERSION
VERSION: Final = re.compile(rb'\s*\[\s*"\^ "\s*,\s*"~:format-version"\s*,\s*([0-9]{1,9})\s*([],])')
"""The beginning of a file of any version."""
LINE: Final = re.compile(rb'^\["\^ ","~:output/line",(?:"~i)?([0-9]{1,18})"?,', re.MULTILINE)
"""The beginning of the line of an entity, with its line number. No text of an entity has unescaped quotes."""
HALF_CHARACTER: Final = re.compile("[\ud800-\udfff]")
WRITTEN_BYTES: Final = 256 * 2**10
MAX_NUMBER: Final = 10**17  # a line or a time; the next numbers still have 18 digits

MAX_LINE_BYTES = 8 * 2**20  # eight times the longest code that was ever kept whole
MAX_BROKEN_LINES: Final = 1000
MAX_PLAIN_CHARACTERS: Final = 10_000  # outside of strings: an entity has some 30, and 8 MiB of brackets are 200 MiB
STRING: Final = re.compile(r'"(?:[^"\\]++|\\.)*+"', re.DOTALL)


class UnreadableError(ValueError):
    """A file that holds no history, and the reason."""


class NewerFormatError(ValueError):
    """A file that a newer version wrote."""


def check_version(head: bytes) -> None:
    """Check that a file with this beginning has the present format.

    Raises:
        UnreadableError: the file holds no history.
        NewerFormatError: a newer version wrote it.
    """
    found = VERSION.match(head)
    version = 0 if found is None else int(found[1])
    if version > FORMAT_VERSION:
        raise NewerFormatError(f"has the format {version}, and this version knows {FORMAT_VERSION}")
    if version < FORMAT_VERSION:
        raise UnreadableError("it says no :format-version that is known")


def last_number(lines: bytes) -> int:
    """Return the highest line number of the entities in some lines of a file; 0 for none."""
    return max(map(int, LINE.findall(lines)), default=0)


def file_chunks(entities: Iterable[Entry]) -> Iterator[bytes]:
    """Return the file that holds these entities, in chunks of some 256 KiB."""
    writer = EntityWriter()
    started, size = [HEADER], 0
    for entity in entities:
        started.append(writer.line_of(entity))
        size += len(started[-1])
        if size >= WRITTEN_BYTES:
            yield b"".join(started)
            started, size = [], 0
    yield b"".join(started)


def line_of(entity: Entry) -> bytes:
    """Return the line that holds this entity."""
    return EntityWriter().line_of(entity)


class EntityWriter:
    """Writes the lines of entities, in one thread at a time."""

    def __init__(self) -> None:
        self._stream = io.StringIO()
        self._writer: Any = None
        self._keys: dict[str, object] = {}

    def prepare(self) -> None:
        """Import the library, which takes as long as the rest of a start."""
        if self._writer is None:
            from transit.transit_types import Keyword  # noqa: PLC0415  # a server starts without it
            from transit.writer import Writer  # noqa: PLC0415  # as above

            self._writer = Writer(self._stream, "json")
            self._keys = {name: Keyword(f"{SCHEMA.namespace}/{name}") for name in SCHEMA.attributes}

    def line_of(self, entity: Entry) -> bytes:
        """Return the line that holds an entity, with a mark in place of half a surrogate pair."""
        self.prepare()
        self._stream.seek(0)
        self._stream.truncate()
        self._writer.write({self._keys[name]: value for name, value in entity.to_json().items()})
        text = self._stream.getvalue()
        if not text.isascii():
            text = HALF_CHARACTER.sub("\ufffd", text)
        return text.encode() + b"\n"


class EntityLines:
    """Reader of a file of lines. `broken` and `is_torn` are valid once `entities` is exhausted.

    `broken` counts the lines that hold no entity. Text after the last newline was torn by a crash: it is left out, and
    `is_torn` is set.
    """

    def __init__(self, chunks: Iterable[bytes]) -> None:
        self._chunks = chunks
        self.broken = 0
        self.is_torn = False

    def entities(self) -> Iterator[Entry]:
        """Yield the entities in order, skipping the first line with the version.

        Raises:
            UnreadableError: so many lines are broken that this is not a history.
        """
        lines, reader = self._lines(), _EntityReader()
        next(lines, None)
        for line in lines:
            try:
                entity = None if line is None else reader.entity(line)
            except UnreadableError:
                entity = None
            if entity is not None:
                yield entity
                continue
            self.broken += 1
            if self.broken > MAX_BROKEN_LINES:
                raise UnreadableError(f"more than {MAX_BROKEN_LINES} of its lines hold no entity")

    def _lines(self) -> Iterator[bytes | None]:
        """Yield the whole lines; None for one that is too long."""
        started = b""
        is_long = False
        for chunk in self._chunks:
            *lines, rest = chunk.split(b"\n")
            for line in lines:
                yield None if is_long else started + line
                started, is_long = b"", False
            started += rest
            if len(started) > MAX_LINE_BYTES:
                started, is_long = b"", True
        self.is_torn = bool(started) or is_long


class _EntityReader:
    """Reads the lines of entities. Keys that this version does not know are left out."""

    def __init__(self) -> None:
        from transit.reader import Reader  # noqa: PLC0415  # a server starts without it
        from transit.transit_types import Keyword  # noqa: PLC0415  # as above

        self._reader = Reader("json")
        self._names = {Keyword(f"{SCHEMA.namespace}/{name}"): name for name in SCHEMA.attributes}

    def entity(self, line: bytes) -> Entry:
        """Return the entity of a line of bounded length, unless it would take far more memory than the line.

        Raises:
            UnreadableError: the line holds no entity, or is too large.
        """
        try:
            text = line.decode()
        except UnicodeDecodeError as error:
            raise UnreadableError(f"no UTF-8: {error.reason}") from None
        if len(text) > MAX_PLAIN_CHARACTERS and len(STRING.sub("", text)) > MAX_PLAIN_CHARACTERS:
            raise UnreadableError(f"it has more than {MAX_PLAIN_CHARACTERS} characters outside of strings")
        try:
            found = self._reader.read(io.StringIO(text))
            entity = {self._names[key]: value for key, value in found.items() if key in self._names}
        except Exception as error:  # noqa: BLE001  # whatever a broken value does to the library, the line is broken
            raise UnreadableError(f"no transit: {error}") from None
        return _entry(entity)


def _entry(entity: Mapping[str, Any]) -> Entry:
    try:
        record = SCHEMA.record(entity)
    except (KeyError, AttributeError, TypeError) as error:
        raise UnreadableError(f"an entity lacks an attribute: {error}") from None
    numbers = (record[0], record[3])
    strings = [value for value in (record[1], record[2], *record[4:]) if value is not None]
    if not all(type(n) is int for n in numbers) or not all(isinstance(text, str) for text in strings):
        raise UnreadableError("an attribute of an entity has a wrong type")
    if not all(0 <= cast("int", n) <= MAX_NUMBER for n in numbers):
        raise UnreadableError("a line or a time of an entity is out of range")
    return Entry.from_record(record)
