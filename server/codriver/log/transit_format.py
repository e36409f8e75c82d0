"""The format of the history file, each line of which is a value in transit's JSON encoding.

The first line is `["^ ","~:format-version",2]`. Each other line is an entry as a map with keywords such as
`:output/line` as keys. Lines are encoded independently, so each can be read without the others. They are read and
written one at a time, because a file may be much larger than the part of it that is retained. No other module imports
transit-python. It is only imported for the first line, so that it does not delay the start of the server.
"""

from __future__ import annotations

import io
import re
from typing import TYPE_CHECKING, Any, Final, cast

from codriver.log.log_entries import ENTRY_SCHEMA, Entry

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

FORMAT_VERSION: Final = 2
HEADER: Final = b'["^ ","~:format-version",%d]\n' % FORMAT_VERSION
"""The first line of a file, with the version of its format."""
VERSION_HEADER_PATTERN: Final = re.compile(rb'\s*\[\s*"\^ "\s*,\s*"~:format-version"\s*,\s*([0-9]{1,9})\s*([],])')
"""Matches the beginning of a file in any version of the format."""
ENTRY_LINE_START: Final = re.compile(rb'^\["\^ ","~:output/line",(?:"~i)?([0-9]{1,18})"?,', re.MULTILINE)
"""Matches the beginning and the number of an entry's line. The text of an entry has no unescaped quotes."""
UNPAIRED_SURROGATE_PATTERN: Final = re.compile("[\ud800-\udfff]")
CHUNK_BYTES: Final = 256 * 2**10
"""Approximate size of the chunks in which a file is written."""
MAX_LINE_OR_TIME: Final = 10**17
"""Limit for line numbers and times, so that incremented ones still have at most 18 digits."""

MAX_LINE_BYTES = 8 * 2**20
"""Maximum size of a line, far more than an entry needs."""
MAX_BROKEN_LINES: Final = 1000
"""Maximum number of broken lines in a file that still counts as a history."""
MAX_UNQUOTED_CHARACTERS: Final = 10_000
"""Maximum number of characters in a line, not counting strings.

An entry has about 30. Parsing 8 MiB of brackets would take 200 MiB of memory.
"""
STRING_PATTERN: Final = re.compile(r'"(?:[^"\\]++|\\.)*+"', re.DOTALL)
"""Matches a string in JSON."""


class UnreadableError(ValueError):
    """Raised when a file or line is not part of a valid history. The message is the reason."""


class NewerFormatError(ValueError):
    """Raised when a file was written by a newer version of Codriver."""


def check_version(head: bytes) -> None:
    """Check that a history file that starts with `head` has the current format.

    Raises:
        UnreadableError: the file is not a history, or has an older format.
        NewerFormatError: the file was written by a newer version.
    """
    found = VERSION_HEADER_PATTERN.match(head)
    version = 0 if found is None else int(found[1])
    if version > FORMAT_VERSION:
        raise NewerFormatError(
            f"the file has the format version {version}, but this version of Codriver only reads {FORMAT_VERSION}"
        )
    if version < FORMAT_VERSION:
        raise UnreadableError("the file does not start with a known :format-version")


def highest_line(lines: bytes) -> int:
    """Return the highest line number of the entries in these lines of a history file, or 0 if there are none."""
    return max(map(int, ENTRY_LINE_START.findall(lines)), default=0)


def encode_file(entities: Iterable[Entry]) -> Iterator[bytes]:
    """Encode a whole history file, in chunks of about 256 KiB."""
    writer = EntryEncoder()
    started, size = [HEADER], 0
    for entity in entities:
        started.append(writer.encode(entity))
        size += len(started[-1])
        if size >= CHUNK_BYTES:
            yield b"".join(started)
            started, size = [], 0
    yield b"".join(started)


def encode_entry(entity: Entry) -> bytes:
    """Encode an entry as a line of a history file."""
    return EntryEncoder().encode(entity)


class EntryEncoder:
    """Encodes log entries as lines of a history file. Not thread-safe."""

    def __init__(self) -> None:
        self._stream = io.StringIO()
        self._writer: Any = None
        self._keys: dict[str, object] = {}

    def prepare(self) -> None:
        """Import the transit library. This takes as long as the rest of the server's start."""
        if self._writer is None:
            from transit.transit_types import Keyword  # noqa: PLC0415  # a server starts without it
            from transit.writer import Writer  # noqa: PLC0415  # as above

            self._writer = Writer(self._stream, "json")
            self._keys = {name: Keyword(f"{ENTRY_SCHEMA.namespace}/{name}") for name in ENTRY_SCHEMA.attributes}

    def encode(self, entity: Entry) -> bytes:
        """Encode an entry as a line. Unpaired surrogates are replaced by U+FFFD."""
        self.prepare()
        self._stream.seek(0)
        self._stream.truncate()
        self._writer.write({self._keys[name]: value for name, value in entity.to_json().items()})
        text = self._stream.getvalue()
        if not text.isascii():
            text = UNPAIRED_SURROGATE_PATTERN.sub("\ufffd", text)
        return text.encode() + b"\n"


class EntryDecoder:
    """Decodes the entries of a history file.

    After `decode_entries` is exhausted, `broken` is the number of lines that are not entries. `is_torn` is true if the
    file does not end with a line ending, because a crash interrupted a write. An incomplete last line is ignored.
    """

    def __init__(self, chunks: Iterable[bytes]) -> None:
        self._chunks = chunks
        self.broken = 0
        self.is_torn = False

    def decode_entries(self) -> Iterator[Entry]:
        """Yield the entries in order. The first line, which contains the version, is skipped.

        Raises:
            UnreadableError: the file has too many broken lines to be a history.
        """
        lines, reader = self._lines(), _LineDecoder()
        next(lines, None)
        for line in lines:
            try:
                entity = None if line is None else reader.decode(line)
            except UnreadableError:
                entity = None
            if entity is not None:
                yield entity
                continue
            self.broken += 1
            if self.broken > MAX_BROKEN_LINES:
                raise UnreadableError(f"more than {MAX_BROKEN_LINES} lines in the file contain no entity")

    def _lines(self) -> Iterator[bytes | None]:
        """Yield all complete lines. A line that is too long is yielded as None."""
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


class _LineDecoder:
    """Decodes single lines of a history file. Unknown attributes are ignored."""

    def __init__(self) -> None:
        from transit.reader import Reader  # noqa: PLC0415  # a server starts without it
        from transit.transit_types import Keyword  # noqa: PLC0415  # as above

        self._reader = Reader("json")
        self._names = {Keyword(f"{ENTRY_SCHEMA.namespace}/{name}"): name for name in ENTRY_SCHEMA.attributes}

    def decode(self, line: bytes) -> Entry:
        """Decode a line. The caller must limit the length of the line.

        Raises:
            UnreadableError: the line is not an entry, or so complex that decoding would take too much memory.
        """
        try:
            text = line.decode()
        except UnicodeDecodeError as error:
            raise UnreadableError(f"the line is not valid UTF-8: {error.reason}") from None
        if len(text) > MAX_UNQUOTED_CHARACTERS and len(STRING_PATTERN.sub("", text)) > MAX_UNQUOTED_CHARACTERS:
            raise UnreadableError(f"the line has more than {MAX_UNQUOTED_CHARACTERS} characters outside of strings")
        try:
            found = self._reader.read(io.StringIO(text))
            entity = {self._names[key]: value for key, value in found.items() if key in self._names}
        except Exception as error:  # noqa: BLE001  # any exception of the library means that the line is broken
            raise UnreadableError(f"the line is not valid transit: {error}") from None
        return _parse_entry(entity)


def _parse_entry(entity: Mapping[str, Any]) -> Entry:
    try:
        record = ENTRY_SCHEMA.record(entity)
    except (KeyError, AttributeError, TypeError) as error:
        raise UnreadableError(f"an entity lacks a required attribute: {error}") from None
    numbers = (record[0], record[3])
    strings = [value for value in (record[1], record[2], *record[4:]) if value is not None]
    if not all(type(n) is int for n in numbers) or not all(isinstance(text, str) for text in strings):
        raise UnreadableError("an attribute of an entity has the wrong type")
    if not all(0 <= cast("int", n) <= MAX_LINE_OR_TIME for n in numbers):
        raise UnreadableError("an entity's line number or time is out of range")
    return Entry.from_record(record)
