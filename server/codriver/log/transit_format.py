"""Format of the history: entities as the transit of its file, and as the JSON lines of its journal.

Both are read and written piece by piece, one value at a time in memory, as they may be many times larger than what is
held of them. This is the only door to transit.
"""

from __future__ import annotations

import codecs
import json
import logging
import re
from typing import TYPE_CHECKING, Any, cast

from pydantic_core import PydanticSerializationError, to_json

from codriver.log.output_log import SCHEMA, Entry

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from transit.rolling_cache import RollingCache

    from codriver.log.output_log import Value

logger = logging.getLogger(__name__)

FORMAT_VERSION = 1
VERSION_KEY, ENTITIES_KEY = "~:format-version", "~:entities"
KEYS = {name: f"~:{SCHEMA.namespace}/{name}" for name in SCHEMA.attributes}
NAMES = {key: name for name, key in KEYS.items()}
MAP = "^ "
ESCAPED = ("~", "^", "`")
"""The characters that mean something at the beginning of a string. Source: the transit format."""
HALF_CHARACTER = re.compile("[\ud800-\udfff]")
WRITTEN_BYTES = 256 * 2**10
MAX_KEY_CHARACTERS = 200  # keys are remembered, up to 1,936 of them
MAX_KEYS = 100
MAX_NUMBER = 10**17  # a line or a time; what follows one still has 18 digits

MAX_VALUE_CHARACTERS = 8 * 2**20  # eight times the longest code that was ever kept whole
MAX_PLAIN_CHARACTERS = 10_000  # outside of strings: an entity has some 30, and 8 MiB of brackets are 200 MiB as lists
SPACE = re.compile(r"[ \t\r\n]*+")
STRING = re.compile(r'"(?:[^"\\]++|\\.)*+"', re.DOTALL)
STRING_REST = re.compile(r'(?:[^"\\]++|\\.)*+', re.DOTALL)
MARK = re.compile(r'["\[\]{}]')
FLAT = re.compile(r'\[(?:[^"\[\]{}]++|"(?:[^"\\]++|\\.)*+")*+\]', re.DOTALL)
"""A list of strings and numbers, as nearly all are."""
ATOM = re.compile(r"[^\s,:\[\]{}\"]*+")


class UnreadableError(ValueError):
    """A file that holds no history: says why."""


class NewerFormatError(ValueError):
    """A file that a newer version wrote."""


def transit_pieces(entities: Iterable[Entry]) -> Iterator[bytes]:
    """The file that holds these entities, in pieces of some 256 KiB. Source: the transit format's JSON encoding."""
    from transit.rolling_cache import RollingCache  # noqa: PLC0415  # without a history nothing of it is needed

    cache = RollingCache()
    version, listed = (cache.encode(key, as_map_key=True) for key in (VERSION_KEY, ENTITIES_KEY))
    begun = [f'["{MAP}","{version}",{FORMAT_VERSION},"{listed}",['.encode()]
    size = 0
    comma = b""
    for entry in entities:
        begun.append(comma + _written(entry, cache))
        comma = b","
        size += len(begun[-1])
        if size >= WRITTEN_BYTES:
            yield b"".join(begun)
            begun, size = [], 0
    yield b"".join([*begun, b"]]"])


def _written(entry: Entry, cache: RollingCache) -> bytes:
    parts: list[Value] = [MAP]
    for name, value in entry.to_json().items():
        parts += cache.encode(KEYS[name], as_map_key=True), _storable(value)
    return to_json(parts)


def _storable(value: Value) -> Value:
    """The value as transit has it, with a mark in place of half a character: no UTF-8 file can hold that."""
    if not isinstance(value, str):
        return value
    text = value if value.isascii() else HALF_CHARACTER.sub("\ufffd", value)
    if not text.startswith(ESCAPED):  # as nearly all
        return text
    from transit.writer import escape  # noqa: PLC0415  # as above

    return cast("str", escape(text))


def read_transit(chunks: Iterable[bytes]) -> Iterator[Entry]:
    """The entities that a file holds, one after the other. What was given before an error is no history either.

    Raises:
        UnreadableError: it holds no history.
        NewerFormatError: a newer version wrote it.
    """
    reading = _Reading(Pieces(chunks))
    try:
        yield from reading.entities()
    except PiecesError as error:
        problem: UnreadableError | None = UnreadableError(str(error))
    except UnreadableError as error:
        problem = error
    else:
        problem = None if reading.has_entities else UnreadableError("it says no :entities")
    if reading.version is None:
        raise problem or UnreadableError("it says no :format-version")
    if reading.version > FORMAT_VERSION:
        raise NewerFormatError(f"has the format {reading.version}, and this version knows {FORMAT_VERSION}")
    if problem is not None:
        raise problem


class _Reading:
    """Reader of one file: its map's keys as they come, and what is known by then."""

    def __init__(self, pieces: Pieces) -> None:
        self.version: int | None = None
        self.has_entities = False
        self._pieces = pieces

    def entities(self) -> Iterator[Entry]:
        pieces = self._pieces
        end = "]" if pieces.take("[{") == "[" else "}"
        from transit.decoder import Decoder  # noqa: PLC0415  # now that there is something to read
        from transit.rolling_cache import RollingCache  # noqa: PLC0415  # as above

        self._cache, self._decoder = RollingCache(), Decoder()
        if end == "]" and (pieces.next_mark() != '"' or parsed(pieces.value()) != MAP):
            raise UnreadableError("it is no map")
        separators = ",:" if end == "}" else ","
        is_first = end == "}"
        for _ in range(MAX_KEYS):
            if pieces.has(end):
                break
            if not is_first:
                pieces.take(",")
            is_first = False
            key = self._key(parsed(pieces.value()))
            pieces.take(separators)
            if key == ENTITIES_KEY and pieces.next_mark() == "[":
                self.has_entities = True
                yield from self._listed()
            else:
                self._keep(key, self._decoded(parsed(pieces.value())))
        if pieces.next_mark():
            raise UnreadableError("it goes on behind its end")

    def _keep(self, key: str, value: object) -> None:
        if key != VERSION_KEY:
            return
        if type(value) is not int or value < 1:
            raise UnreadableError("it says no :format-version")
        self.version = value
        if value > FORMAT_VERSION:
            raise UnreadableError("a newer version wrote it")

    def _listed(self) -> Iterator[Entry]:
        self._pieces.take("[")
        if self._pieces.has("]"):
            return
        while True:
            yield self._entity(parsed(self._pieces.value()))
            if self._pieces.take(",]") == "]":
                return

    def _entity(self, node: Any) -> Entry:
        """The entity of a map. What this version does not know is left out."""
        if isinstance(node, dict):
            node = [MAP, *(part for pair in node.items() for part in pair)]
        if not isinstance(node, list) or node[:1] != [MAP]:
            raise UnreadableError("one of the entities is no map")
        found = {}
        for key, value in zip(node[1::2], node[2::2], strict=False):
            name = NAMES.get(self._key(key))
            decoded = self._atom(value)
            if name is not None:
                found[name] = decoded
        return _entry(found)

    def _key(self, key: object) -> str:
        if not isinstance(key, str) or len(key) > MAX_KEY_CHARACTERS:
            raise UnreadableError("a key is no keyword")
        try:
            return cast("str", self._cache.decode(key, as_map_key=True))
        except (ValueError, IndexError) as error:
            raise UnreadableError(f"no transit JSON: {error}") from None

    def _atom(self, value: object) -> object:
        if isinstance(value, list | dict):
            raise UnreadableError("an attribute of an entity is a collection")
        if not isinstance(value, str) or not value.startswith(("~", "^")):
            return value
        if value.startswith(("~~", "~^", "~`")):
            return value[1:]
        if len(value) > MAX_KEY_CHARACTERS:
            raise UnreadableError("a tagged value is too long")
        return self._decoded(value)

    def _decoded(self, node: object) -> object:
        try:
            return self._decoder.decode(node, self._cache)
        except Exception as error:  # whatever a broken value does to the decoder, the file is broken
            raise UnreadableError(f"no transit JSON: {error}") from error


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


def journal_line(entry: Entry) -> bytes:
    """The line of the journal that holds this entity."""
    document = entry.to_json()
    try:
        return to_json(document) + b"\n"
    except PydanticSerializationError:  # half of a character, which only an escape can say
        return json.dumps(document, separators=(",", ":")).encode() + b"\n"


def read_journal(chunks: Iterable[bytes]) -> Iterator[Entry | None]:
    """The entities that a journal holds, one after the other; None for each of its lines that cannot be read.

    What stands behind the last newline was torn by a crash, and is left out without a word.
    """
    for line in _lines(chunks):
        try:
            yield None if line is None else _entry(parsed(line.decode()))
        except ValueError:
            yield None


def _lines(chunks: Iterable[bytes]) -> Iterator[bytes | None]:
    """The whole lines; None for one that is too long."""
    begun = b""
    is_long = False
    for chunk in chunks:
        *lines, rest = chunk.split(b"\n")
        for line in lines:
            yield None if is_long else begun + line
            begun, is_long = b"", False
        begun += rest
        if len(begun) > MAX_VALUE_CHARACTERS:
            begun, is_long = b"", True
    logger.debug("the journal ended with %d torn bytes", len(begun))


class PiecesError(ValueError):
    """The text is no JSON, or a value of it is longer than any that is read."""


def parsed(text: str) -> Any:
    """The JSON value of a text that is already bounded in length, unless it would take far more memory than the text.

    Raises:
        PiecesError: it is none, or too large.
    """
    if len(text) > MAX_PLAIN_CHARACTERS and len(STRING.sub("", text)) > MAX_PLAIN_CHARACTERS:
        raise PiecesError(f"a value has more than {MAX_PLAIN_CHARACTERS} characters outside of strings")
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise PiecesError(f"no JSON: {error}") from None


class Pieces:
    """JSON of a file, read value by value from its beginning on. Spaces between values are passed over.

    Everything but `__init__` raises PiecesError at what is not expected.
    """

    def __init__(self, chunks: Iterable[bytes]) -> None:
        self._chunks: Iterator[str] = codecs.iterdecode(iter(chunks), "utf-8")
        self._text = ""
        self._place = 0

    def next_mark(self) -> str:
        """The next character, which stays; nothing at the end."""
        while True:
            space = SPACE.match(self._text, self._place)
            self._place = space.end() if space else self._place
            if self._place < len(self._text):
                return self._text[self._place]
            if not self._more():
                return ""

    def has(self, marks: str) -> str:
        """The next character if it is one of these, which is then read; else nothing."""
        mark = self.next_mark()
        if not mark or mark not in marks:
            return ""
        self._place += 1
        return mark

    def take(self, marks: str) -> str:
        """The next character, which has to be one of these."""
        mark = self.has(marks)
        if not mark:
            found = self.next_mark()
            raise PiecesError(f"{found} where one of {marks} belongs" if found else "it ends too early")
        return mark

    def value(self) -> str:
        """The next value as it is written."""
        mark = self.next_mark()
        if self._place > len(self._text) // 2:
            self._text, self._place = self._text[self._place :], 0
        start = self._place
        if mark == "[" and (flat := FLAT.match(self._text, start)):
            self._place = flat.end()
        elif mark and mark in "[{":
            self._place = self._container(start)
        else:
            self._place = self._string(start + 1) if mark == '"' else self._atom(start)
        return self._text[start : self._place]

    def _container(self, place: int) -> int:
        depth = marks = 0
        while marks <= MAX_PLAIN_CHARACTERS:
            found = MARK.search(self._text, place)
            if found is None:
                place = len(self._text)
                self._need_more()
                continue
            place = found.end()
            marks += 1
            if found[0] == '"':
                place = self._string(place)
            else:
                depth += 1 if found[0] in "[{" else -1
            if depth == 0:
                return place
        raise PiecesError(f"a value has more than {MAX_PLAIN_CHARACTERS} parts")

    def _string(self, place: int) -> int:
        """The end of a string whose first character stands at `place`."""
        while True:
            rest = STRING_REST.match(self._text, place)
            place = rest.end() if rest else place
            if self._text.startswith('"', place):
                return place + 1
            self._need_more()

    def _atom(self, start: int) -> int:
        end = start
        while True:
            atom = ATOM.match(self._text, end)
            end = atom.end() if atom else end
            if end < len(self._text) or not self._grow():
                if end == start:
                    raise PiecesError("a value is missing")
                return end

    def _need_more(self) -> None:
        if not self._grow():
            raise PiecesError("it ends too early")

    def _more(self) -> bool:
        """Whether there was more to read; what is used is forgotten."""
        self._text, self._place = self._text[self._place :], 0
        return self._grow()

    def _grow(self) -> bool:
        """Whether there was more to read, while a value is not whole yet: nothing of it is forgotten."""
        if len(self._text) - self._place > MAX_VALUE_CHARACTERS:
            raise PiecesError(f"a value has more than {MAX_VALUE_CHARACTERS} characters")
        try:
            chunk = next(self._chunks, "")
        except UnicodeDecodeError as error:
            raise PiecesError(f"no UTF-8: {error.reason}") from None
        self._text += chunk
        return bool(chunk)
