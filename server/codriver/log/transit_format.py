"""Format of the history: a file of lines, each of them a value in transit's JSON encoding.

The first line is `["^ ","~:format-version",2]`; each of the others is an entity as a map, whose keys are keywords such
as `:output/line`. Each value alone uses none of transit's cache codes, so that a line is read without the lines before
it. Lines are read and written one at a time, as a file may be many times larger than the part of it that is held.

Version 1 was one value with all entities, and beside it a journal of plain JSON. Such a file is read whole, to be taken
over. This is the only door to transit.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final, cast

from pydantic_core import to_json

from codriver.log.output_log import SCHEMA, Entry

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from codriver.log.output_log import Value

FORMAT_VERSION: Final = 2
HEADER: Final = b'["^ ","~:format-version",%d]\n' % FORMAT_VERSION
VERSION: Final = re.compile(rb'\s*\[\s*"\^ "\s*,\s*"~:format-version"\s*,\s*([0-9]{1,9})\s*([],])')
"""The beginning of a file of any version."""
KEYS: Final = {name: f"~:{SCHEMA.namespace}/{name}" for name in SCHEMA.attributes}
NAMES: Final = {key: name for name, key in KEYS.items()}
MAP: Final = "^ "
ESCAPED: Final = ("~", "^", "`")
"""The characters that mean something at the beginning of a string, so that a tilde goes before it. Source: transit."""
HALF_CHARACTER: Final = re.compile("[\ud800-\udfff]")
WRITTEN_BYTES: Final = 256 * 2**10
MAX_NUMBER: Final = 10**17  # a line or a time; the next numbers still have 18 digits

MAX_LINE_BYTES = 8 * 2**20  # eight times the longest code that was ever kept whole
MAX_BROKEN_LINES: Final = 1000
MAX_PLAIN_CHARACTERS: Final = 10_000  # outside of strings: an entity has some 30, and 8 MiB of brackets are 200 MiB
MAX_FORMER_BYTES = 32 * 2**20
MAX_FORMER_PLAIN_CHARACTERS: Final = 400_000
"""The characters outside of strings in a file of version 1: some 35 for each of the 10,000 entities that were kept."""
STRING: Final = re.compile(r'"(?:[^"\\]++|\\.)*+"', re.DOTALL)


class UnreadableError(ValueError):
    """A file that holds no history, and the reason."""


class NewerFormatError(ValueError):
    """A file that a newer version wrote."""


def version_of(head: bytes) -> int:
    """The version of a file with this beginning: 1, or the present one.

    Raises:
        UnreadableError: the file holds no history.
        NewerFormatError: a newer version wrote it.
    """
    found = VERSION.match(head)
    if found is None or not (version := int(found[1])):
        raise UnreadableError("it says no :format-version")
    if version > FORMAT_VERSION:
        raise NewerFormatError(f"has the format {version}, and this version knows {FORMAT_VERSION}")
    return version


def file_pieces(entities: Iterable[Entry]) -> Iterator[bytes]:
    """The file that holds these entities, in pieces of some 256 KiB."""
    begun, size = [HEADER], 0
    for entity in entities:
        begun.append(line_of(entity))
        size += len(begun[-1])
        if size >= WRITTEN_BYTES:
            yield b"".join(begun)
            begun, size = [], 0
    yield b"".join(begun)


def line_of(entity: Entry) -> bytes:
    """The line that holds this entity."""
    parts: list[Value] = [MAP]
    for name, value in entity.to_json().items():
        parts += KEYS[name], _storable(value)
    return to_json(parts) + b"\n"


def _storable(value: Value) -> Value:
    """The value as transit has it, with a mark in place of half a surrogate pair: no UTF-8 file can hold that."""
    if not isinstance(value, str):
        return value
    text = value if value.isascii() else HALF_CHARACTER.sub("\ufffd", value)
    return f"~{text}" if text.startswith(ESCAPED) else text


class EntityLines:
    """Reader of a file of lines. `broken` and `is_torn` hold once `entities` has come to its end.

    `broken` counts the lines that hold no entity. Text behind the last newline was torn by a crash: it is left out, and
    `is_torn` says so.
    """

    def __init__(self, chunks: Iterable[bytes]) -> None:
        self._chunks = chunks
        self.broken = 0
        self.is_torn = False

    def entities(self) -> Iterator[Entry]:
        """The entities, one after the other; the first line says the version, and is passed over.

        Raises:
            UnreadableError: so many lines are broken that this is no history.
        """
        lines = self._lines()
        next(lines, None)
        for line in lines:
            try:
                entity = None if line is None else _entity(parsed(line))
            except UnreadableError:
                entity = None
            if entity is not None:
                yield entity
                continue
            self.broken += 1
            if self.broken > MAX_BROKEN_LINES:
                raise UnreadableError(f"more than {MAX_BROKEN_LINES} of its lines hold no entity")

    def _lines(self) -> Iterator[bytes | None]:
        """The whole lines; None for one that is too long."""
        begun = b""
        is_long = False
        for chunk in self._chunks:
            *lines, rest = chunk.split(b"\n")
            for line in lines:
                yield None if is_long else begun + line
                begun, is_long = b"", False
            begun += rest
            if len(begun) > MAX_LINE_BYTES:
                begun, is_long = b"", True
        self.is_torn = bool(begun) or is_long


def _entity(node: object) -> Entry:
    """The entity of a map. Keys that this version does not know are left out."""
    if not isinstance(node, list) or node[:1] != [MAP]:
        raise UnreadableError("an entity is no map")
    found = {}
    for key, value in zip(node[1::2], node[2::2], strict=False):
        if isinstance(key, str) and (name := NAMES.get(key)):
            is_escaped = isinstance(value, str) and value.startswith(ESCAPED)
            if is_escaped and value[1:2] not in ESCAPED:
                raise UnreadableError("an attribute of an entity is no string and no number")
            found[name] = value[1:] if is_escaped else value
    return _entry(found)


def _entry(entity: Mapping[str, Any]) -> Entry:
    try:
        record = SCHEMA.record(entity)
    except (KeyError, AttributeError, TypeError) as error:
        raise UnreadableError(f"an entity lacks an attribute: {error}") from None
    numbers = (record[0], record[3])
    texts = [value for value in (record[1], record[2], *record[4:]) if value is not None]
    if not all(type(n) is int for n in numbers) or not all(isinstance(text, str) for text in texts):
        raise UnreadableError("an attribute of an entity has a wrong type")
    if not all(0 <= cast("int", n) <= MAX_NUMBER for n in numbers):
        raise UnreadableError("a line or a time of an entity is out of range")
    return Entry.from_record(record)


def parsed(written: bytes | bytearray, most_plain_characters: int = MAX_PLAIN_CHARACTERS) -> Any:
    """The JSON value of a text of bounded length, unless the value would take far more memory than the text.

    Raises:
        UnreadableError: the text is no JSON, or too large.
    """
    try:
        text = written.decode()
    except UnicodeDecodeError as error:
        raise UnreadableError(f"no UTF-8: {error.reason}") from None
    if len(text) > most_plain_characters and len(STRING.sub("", text)) > most_plain_characters:
        raise UnreadableError(f"it has more than {most_plain_characters} characters outside of strings")
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UnreadableError(f"no JSON: {error}") from None


def former_entities(chunks: Iterable[bytes]) -> list[Entry]:
    """The entities of a file of version 1.

    Raises:
        UnreadableError: the file holds no history.
    """
    content = _whole(chunks)
    from transit.decoder import Decoder  # noqa: PLC0415  # only where there is a former file
    from transit.transit_types import Keyword  # noqa: PLC0415  # as above

    node = parsed(content, MAX_FORMER_PLAIN_CHARACTERS)
    try:
        entities = Decoder().decode(node)[Keyword("entities")]
        maps = [{f"~:{key}": value for key, value in entity.items()} for entity in entities]
    except Exception as error:  # whatever a broken value does to the decoder, the file is broken
        raise UnreadableError(f"no transit JSON: {error}") from error
    return [_entry({NAMES[key]: value for key, value in entity.items() if key in NAMES}) for entity in maps]


def former_journal(chunks: Iterable[bytes]) -> Iterator[Entry]:
    """The entities of the journal that stood beside a file of version 1; unreadable ones are left out."""
    try:
        lines = _whole(chunks).split(b"\n")
    except UnreadableError:
        return
    for line in lines:
        try:
            yield _entry(parsed(line))
        except UnreadableError:
            continue


def _whole(chunks: Iterable[bytes]) -> bytearray:
    content = bytearray()
    for chunk in chunks:
        content += chunk
        if len(content) > MAX_FORMER_BYTES:
            raise UnreadableError(f"it has more than {MAX_FORMER_BYTES:,} bytes")
    return content
