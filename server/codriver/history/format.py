"""Entities as bytes: the transit of the history's file, and the JSON lines of its journal."""

from __future__ import annotations

import io
import json
import logging
import re
from typing import TYPE_CHECKING, Any

from transit.reader import Reader
from transit.transit_types import Keyword
from transit.writer import Writer

from codriver.outputlog import SCHEMA, Entry

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from codriver.outputlog import Value

logger = logging.getLogger(__name__)

FORMAT_VERSION = 1
KEYWORDS = {name: Keyword(f"{SCHEMA.namespace}/{name}") for name in SCHEMA.attributes}
HALF_CHARACTER = re.compile("[\ud800-\udfff]")


class UnreadableError(ValueError):
    """A file that holds no history: says why."""


class NewerFormatError(ValueError):
    """A file that a newer version wrote."""


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


def journal_line(entry: Entry) -> bytes:
    """The line of the journal that holds this entity."""
    return json.dumps(entry.to_json(), separators=(",", ":")).encode() + b"\n"


def read_journal(content: bytes) -> tuple[dict[int, Entry], int]:
    """The entities that a journal holds, by their lines in the log, and how many of its lines cannot be read.

    What stands behind the last newline was torn by a crash, and is left out without a word.
    """
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
    logger.debug("the journal held %d entries and %d torn bytes", len(entities), len(torn))
    return entities, broken
