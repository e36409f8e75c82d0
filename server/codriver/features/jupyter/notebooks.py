"""Read the cells of notebook files, and replace outputs or source without changing any other byte.

Files are not parsed and serialized again. Only the spans of changed values are replaced, so indentation, escapes, the
order of keys and trailing white space stay the same. The bytes are not decoded as a whole, because 64 MiB with one wide
character take 256 MiB as a string. Values that are not needed, mostly outputs, are skipped. New values are formatted
like nbformat does. Source: nbformat 4.5, "The Notebook file format".
"""

from __future__ import annotations

import codecs
import json
import re
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from codriver.errors import refused
from codriver.wire.untrusted import end_of_text, excess

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from codriver.errors import RefusedError

    Reader = Callable[[bytes, int], tuple[Any, int]]
    """Parses the value at an offset, and returns the value and the offset of its end."""

_SPACE = re.compile(rb"[ \t\r\n]*")
_BRACKET = re.compile(rb'["\[\]{}]')
_LITERAL = re.compile(rb'[^\s,\]}\[{":]*')
"""A JSON number or literal."""
_SURROGATE = re.compile("[\ud800-\udfff]")
_CELL_INDEX = re.compile(r"(?:cell-)?(\d{1,9})")
_LINE_LISTS = frozenset({"application/javascript", "image/svg+xml"})
"""MIME types that are stored as lists of lines, in addition to `text/…`."""
_KEY_ORDER: Final = (
    "output_type",
    "name",
    "execution_count",
    "metadata",
    "data",
    "text",
    "ename",
    "evalue",
    "traceback",
)
"""Order in which nbformat writes the keys of an output."""
CHECKED_BYTES: Final = 64 * 1024
"""Number of bytes that are checked for valid UTF-8 at a time."""
MAX_VALUE_BYTES: Final = 20 * 2**20
"""Maximum size of a value that is parsed, such as a cell's source."""
MAX_ELEMENTS: Final = 300_000
"""Maximum number of values and containers in a notebook, because each takes at least a hundred bytes of memory."""
MAX_DEPTH: Final = 100
NO_READERS: Final[Mapping[str, Reader]] = MappingProxyType({})


def not_a_notebook(name: str, reason: str) -> RefusedError:
    """Return the refusal of a file that is not a notebook of nbformat 4."""
    hint = "Pass a Jupyter notebook. Convert nbformat 3 with jupyter nbconvert --to notebook --inplace."
    return refused("file-unreadable", f"{name} is not a notebook of nbformat 4: {reason}", hint=hint)


class _BrokenError(ValueError):
    """The bytes at a position are not the expected JSON, or the value is too large."""

    def __init__(self, error_text: str, position: int) -> None:
        super().__init__(error_text)
        self.error_text = error_text
        self.position = position


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell of a notebook."""

    index: int
    """Index of the cell, from 0."""
    id: str | None
    """Id of the cell, which files older than nbformat 4.5 do not have."""
    type: str
    stored_source: bytes
    """Source of the cell in JSON, as stored in the file."""
    execution_count: int | None
    outputs: tuple[str, ...]
    """Type of each output."""

    @property
    def name(self) -> str:
        """Return the id of the cell, or if it has none, the name that clients use instead, such as `cell-3`."""
        return self.id or f"cell-{self.index}"

    @property
    def source(self) -> str:
        """Return the source of the cell as text. It is parsed at each access."""
        return _joined(json.loads(self.stored_source.decode()))

    @property
    def has_error(self) -> bool:
        """Return whether one of the outputs is an error."""
        return "error" in self.outputs


@dataclass(frozen=True, slots=True)
class Notebook:
    """A parsed notebook."""

    name: str
    """File name, for messages."""
    cells: tuple[Cell, ...]
    kernel: str = ""
    """Name of its kernelspec, or an empty string."""
    language: str = ""
    """Language of its code in lower case, or an empty string if unknown."""

    def cell(self, name: str) -> Cell:
        """Return the cell with this id, or if there is none, with this index from 0, such as `3` or `cell-3`.

        Raises:
            RefusedError: no cell has this id or index, or several have this id.
        """
        matches = [cell for cell in self.cells if cell.id == name]
        index = _CELL_INDEX.fullmatch(name)
        if not matches and index and int(index[1]) < len(self.cells):
            return self.cells[int(index[1])]
        if len(matches) != 1:
            raise self._no_such_cell(name, matches)
        return matches[0]

    def _no_such_cell(self, name: str, matches: Sequence[Cell]) -> RefusedError:
        """Return the refusal when no cell matches, or several do."""
        indexes = ", ".join([str(cell.index) for cell in matches])
        reason = f"cells {indexes} have the id {name!r}" if matches else f"there is no cell {name!r}"
        available = f"indexes from 0 to {len(self.cells) - 1}" if self.cells else "no cells at all"
        return refused(
            "unknown-cell",
            f"{reason} in {self.name}, which has {available}",
            hint="Pass a cell's id, or its index from 0. list_cells has both.",
        )


@dataclass(frozen=True, slots=True)
class _Member:
    """A member of a JSON object. Positions are offsets in the file."""

    lead: str
    """White space before the key."""
    key: int
    """Position of the key."""
    colon: str
    """Text from the end of the key to the value."""
    start: int
    """Start of the value."""
    end: int
    """End of the value."""
    value: Any
    """The value, or None if it was skipped."""


@dataclass(frozen=True, slots=True)
class _Style:
    """The formatting of a cell in its file."""

    indent: str | None
    """Indentation of one level, or None if the cell is on one line."""
    base: str
    """White space before the keys of the cell."""
    newline: str
    comma: str
    colon: str
    is_sorted: bool

    def to_json(self, value: object) -> str:
        """Return a value in JSON with this formatting."""
        separators = (self.comma, self.colon)
        text = json.dumps(
            value, ensure_ascii=False, indent=self.indent, separators=separators, sort_keys=self.is_sorted
        )
        # A lone surrogate cannot be encoded in UTF-8, but JSON has an escape sequence for it.
        text = _SURROGATE.sub(lambda match: f"\\u{ord(match[0]):04x}", text)
        return text if self.indent is None else text.replace("\n", self.newline + self.base)


def parse_notebook(data: bytes, name: str) -> Notebook:
    """Parse the bytes of a file, after checking the number of its elements, its depth and its encoding.

    Raises:
        RefusedError: the file is not a notebook, or is too large.
    """
    if excess_found := excess(data, max_elements=MAX_ELEMENTS, max_depth=MAX_DEPTH):
        raise not_a_notebook(name, f"it has {excess_found.error}, which exceeds the limit for a notebook")
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        for start in range(0, len(data), CHECKED_BYTES):
            decoder.decode(data[start : start + CHECKED_BYTES])
        decoder.decode(b"", final=True)
    except UnicodeDecodeError:
        raise not_a_notebook(name, "it is not UTF-8") from None
    return read_notebook(data, name)


def read_notebook(data: bytes, name: str) -> Notebook:
    """Parse the bytes of a file without the checks of `parse_notebook`. `name` is the file name in messages.

    Raises:
        RefusedError: the file is not a notebook.
    """
    top = _top(data, name)
    metadata = top["metadata"].value if "metadata" in top else {}
    spec = metadata.get("kernelspec") if isinstance(metadata, dict) else None
    kernel = spec.get("name") if isinstance(spec, dict) else None
    info = metadata.get("language_info") if isinstance(metadata, dict) else None
    languages = [one.get(key) for one, key in ((info, "name"), (spec, "language")) if isinstance(one, dict)]
    language = next((one.lower() for one in languages if isinstance(one, str)), "")
    cells = top["cells"].value
    parsed_cells = tuple(_cell(data, index, cell) for index, cell in enumerate(cells))
    return Notebook(name, parsed_cells, kernel if isinstance(kernel, str) else "", language)


def with_outputs(
    data: bytes, name: str, index: int, outputs: Sequence[Mapping[str, Any]], execution_count: int | None
) -> bytes:
    """Replace the outputs and the execution count of the cell `index`, and return the bytes of the new file.

    If the cell does not have these keys, add them where nbformat would. `outputs` have the format of nbformat, in which
    text is a string or a list of lines.

    Raises:
        RefusedError: the file is not a notebook.
    """
    top = _top(data, name)
    members = top["cells"].value[index]
    style = _style(top, members)
    stored = [_stored(output, is_sorted=style.is_sorted) for output in outputs]
    edits = [
        _edit(members, "execution_count", json.dumps(execution_count), style),
        _edit(members, "outputs", style.to_json(stored), style),
    ]
    # Work from the end, so that positions stay valid. Of two insertions at one position, the second key goes first.
    chunks: list[bytes | memoryview] = []
    unchanged_end = len(data)
    view = memoryview(data)
    for start, end, value in sorted(edits, key=lambda edit: edit[:2], reverse=True):
        chunks += (view[end:unchanged_end], value.encode())
        unchanged_end = start
    return b"".join((view[:unchanged_end], *reversed(chunks)))


def with_source(text: str, name: str, index: int, source: str) -> str:
    """Replace the source of the cell `index`, and return the new text of the file.

    The source stays a string or a list of lines, whichever it was.

    Raises:
        RefusedError: the text is not a notebook.
    """
    data = text.encode("utf-8", "surrogatepass")
    top = _top(data, name)
    members = top["cells"].value[index]
    is_string = "source" in members and data[members["source"].start : members["source"].start + 1] == b'"'
    style = _style(top, members)
    value = source if is_string else source.splitlines(keepends=True)
    start, end, replacement = _edit(members, "source", style.to_json(value), style)
    return b"".join((data[:start], replacement.encode(), data[end:])).decode("utf-8", "surrogatepass")


def omission_output(characters: int) -> dict[str, Any]:
    """Return an output that reports how many characters of the cell's outputs were omitted."""
    text = f"\ncodriver left out the last {characters:,} characters of this cell's outputs, as there were too many\n"
    return {"output_type": "stream", "name": "stderr", "text": text}


def _top(data: bytes, name: str) -> dict[str, _Member]:
    """Return the members of the notebook. The value of `cells` is a list with the members of each cell.

    Raises:
        RefusedError: the file is not a notebook.
    """
    start = _skip_space(data, len(codecs.BOM_UTF8) if data.startswith(codecs.BOM_UTF8) else 0)
    error_text, position = "", 0
    try:
        top, end = _members(data, start, {"cells": _elements, "metadata": _value, "nbformat": _value})
    except _BrokenError as error:
        error_text, position = error.error_text, error.position
    if error_text:  # not raised in the handler, because the traceback of the error references the whole file
        line = data.rfind(b"\n", 0, position) + 1
        column = len(data[line:position].decode(errors="replace")) + 1
        raise not_a_notebook(name, f"line {data.count(10, 0, position) + 1}, column {column}: {error_text}")
    is_at_end = _skip_space(data, end) == len(data)
    version = top["nbformat"].value if "nbformat" in top else None
    if not is_at_end or version != 4:
        reason = f"its nbformat is {json.dumps(version)}" if is_at_end else "there is text after its last brace"
        raise not_a_notebook(name, reason)
    if "cells" not in top or not all(top["cells"].value):
        raise not_a_notebook(name, "it has no cells, or an empty one")
    return top


def _skip_space(data: bytes, position: int) -> int:
    match = _SPACE.match(data, position)
    return match.end() if match else position


def _expect(data: bytes, position: int, characters: bytes) -> bytes:
    """Return the character at a position, which must be one of `characters`.

    Raises:
        _BrokenError: it is another character, or the end of the file.
    """
    character = data[position : position + 1]
    if not character or character not in characters:
        raise _BrokenError(f"expected {' or '.join(characters.decode())}", position)
    return character


def _value(data: bytes, position: int) -> tuple[Any, int]:
    """Parse the value at a position, and return it with its end.

    Raises:
        _BrokenError: the value is invalid or too large.
    """
    _, end = _skip_value(data, position)
    if end - position > MAX_VALUE_BYTES:
        raise _BrokenError(f"a value of {end - position:,} bytes exceeds the limit", position)
    text = data[position:end].decode("utf-8", "surrogatepass")
    try:
        return json.loads(text), end
    except json.JSONDecodeError as error:
        error_position = position + len(text[: error.pos].encode("utf-8", "surrogatepass"))
        raise _BrokenError(error.msg, error_position) from None
    except RecursionError:
        raise _BrokenError("it is nested too deeply", position) from None
    except ValueError:  # Python limits the number of digits
        raise _BrokenError("a number has too many digits", position) from None


def _check_value(data: bytes, position: int) -> tuple[None, int]:
    """Check that the value at a position is valid, and return its end without the value.

    Raises:
        _BrokenError: the value is invalid or too large.
    """
    return None, _value(data, position)[1]


def _skip_value(data: bytes, position: int) -> tuple[None, int]:
    """Return the end of the value at a position. Only its brackets are checked, not its strings and numbers.

    Raises:
        _BrokenError: the value has no end.
    """
    first = data[position : position + 1]
    if first == b'"':
        end = end_of_text(data, position + 1)
        if data[end - 1 : end] != b'"' or end == position + 1:
            raise _BrokenError("a string without an end", position)
        return None, end
    if first not in (b"[", b"{"):
        literal = _LITERAL.match(data, position)
        if literal is None or not literal[0]:
            raise _BrokenError("expected a value", position)
        return None, literal.end()
    open_brackets = bytearray()
    current = position
    while bracket := _BRACKET.search(data, current):
        current, kind = bracket.end(), bracket[0]
        if kind == b'"':
            _, current = _skip_value(data, bracket.start())
        elif kind in b"[{":
            open_brackets += kind
        elif open_brackets.pop() + 2 != kind[0]:
            raise _BrokenError("a bracket that closes another", bracket.start())
        if not open_brackets:
            return None, current
    raise _BrokenError("a bracket without an end", position)


def _members(data: bytes, position: int, readers: Mapping[str, Reader] = NO_READERS) -> tuple[dict[str, _Member], int]:
    """Return the members of the object at a position, and its end. If a key occurs twice, the last one counts.

    `readers` has the functions that parse the values of some keys. All other values are skipped.

    Raises:
        _BrokenError: the value is not an object, or a reader cannot parse its value.
    """
    _expect(data, position, b"{")
    members: dict[str, _Member] = {}
    lead_start = position + 1
    key_at = _skip_space(data, lead_start)
    if data[key_at : key_at + 1] == b"}":
        return members, key_at + 1
    while True:
        _expect(data, key_at, b'"')
        key, key_end = _value(data, key_at)
        colon_at = _skip_space(data, key_end)
        _expect(data, colon_at, b":")
        start = _skip_space(data, colon_at + 1)
        value, end = readers.get(key, _skip_value)(data, start)
        lead, colon = data[lead_start:key_at].decode(), data[key_end:start].decode()
        members[key] = _Member(lead, key_at, colon, start, end, value)
        comma_at = _skip_space(data, end)
        if _expect(data, comma_at, b",}") == b"}":
            return members, comma_at + 1
        lead_start = comma_at + 1
        key_at = _skip_space(data, lead_start)


def _each(data: bytes, position: int, reader: Reader) -> tuple[list[Any], int]:
    """Return the values of the array at a position, and its end. `reader` parses each value.

    Values are parsed one by one, because parsing a large text at once would block all other threads.

    Raises:
        _BrokenError: the value is not an array, or the reader cannot parse one of its values.
    """
    _expect(data, position, b"[")
    values: list[Any] = []
    position = _skip_space(data, position + 1)
    if data[position : position + 1] == b"]":
        return values, position + 1
    while True:
        value, end = reader(data, position)
        values.append(value)
        comma_at = _skip_space(data, end)
        if _expect(data, comma_at, b",]") == b"]":
            return values, comma_at + 1
        position = _skip_space(data, comma_at + 1)


def _elements(data: bytes, position: int) -> tuple[list[dict[str, _Member]], int]:
    """Return the members of each cell of the array at a position, and its end."""
    return _each(data, position, lambda data, position: _members(data, position, _CELL_READERS))


def _outputs(data: bytes, position: int) -> tuple[list[str], int]:
    """Return the types of a cell's outputs, and the end of the outputs."""
    if data[position : position + 1] != b"[":
        return [], _skip_value(data, position)[1]
    types, end = _each(data, position, _output_type)
    return [kind for kind in types if kind is not None], end


def _output_type(data: bytes, position: int) -> tuple[str | None, int]:
    if data[position : position + 1] != b"{":
        return _skip_value(data, position)
    members, end = _members(data, position, {"output_type": _value})
    kind = members["output_type"].value if "output_type" in members else ""
    return kind if isinstance(kind, str) else "", end


_CELL_READERS: Final[Mapping[str, Reader]] = MappingProxyType({
    "id": _value, "cell_type": _value, "execution_count": _value, "source": _check_value, "outputs": _outputs,
})  # fmt: skip


def _style(top: Mapping[str, _Member], cell: Mapping[str, _Member]) -> _Style:
    """Return the formatting of a cell, derived from its first keys and the first key of the file."""
    first, outer = next(iter(cell.values())), next(iter(top.values()))
    further_leads = [member.lead for member in cell.values()][1:]
    colon = first.colon if first.colon.strip() == ":" and "\n" not in first.colon else ": "
    is_sorted = list(cell) == sorted(cell)
    _, has_newline, base = first.lead.rpartition("\n")
    if not has_newline:
        return _Style(None, "", "", f",{further_leads[0] if further_leads else ' '}", colon, is_sorted)
    newline = "\r\n" if "\r\n" in first.lead else "\n"
    return _Style(outer.lead.rpartition("\n")[2], base, newline, ",", colon, is_sorted)


def _edit(members: Mapping[str, _Member], key: str, value: str, style: _Style) -> tuple[int, int, str]:
    """Return the start and end of the text to replace, and the new text, so that a member gets this value."""
    if member := members.get(key):
        return member.start, member.end, value
    inserted = f'"{key}"{style.colon}{value}'
    following = next((other for name, other in members.items() if name > key), None) if style.is_sorted else None
    if following is not None:
        return following.key, following.key, f"{inserted},{following.lead}"
    last = list(members.values())[-1]
    return last.end, last.end, f",{last.lead}{inserted}"


def _cell(data: bytes, index: int, members: Mapping[str, _Member]) -> Cell:
    cell = {key: member.value for key, member in members.items()}
    identity, count, source = cell.get("id"), cell.get("execution_count"), members.get("source")
    return Cell(
        index=index,
        id=identity if isinstance(identity, str) else None,
        type=str(cell.get("cell_type")),
        stored_source=data[source.start : source.end] if source else b"null",
        execution_count=count if isinstance(count, int) else None,
        outputs=tuple(cell.get("outputs") or ()),
    )


def _joined(text: object) -> str:
    """Return a text that is stored as a string or a list of lines, or an empty string for other values."""
    return "".join(map(str, text)) if isinstance(text, list) else text if isinstance(text, str) else ""


def _stored(output: Mapping[str, Any], *, is_sorted: bool) -> dict[str, Any]:
    """Return an output as nbformat stores it: text as lists of lines, and without `transient` data."""
    stored = {key: value for key, value in output.items() if key != "transient"}
    if isinstance(stored.get("text"), str):
        stored["text"] = stored["text"].splitlines(keepends=True)
    data = stored.get("data")
    if isinstance(data, dict):
        stored["data"] = {kind: _lines(kind, value) for kind, value in data.items()}
    if is_sorted:
        return stored
    ordered: dict[str, Any] = {key: stored[key] for key in _KEY_ORDER if key in stored}
    return {**ordered, **stored}


def _lines(kind: str, value: object) -> object:
    is_text = kind.startswith("text/") or kind in _LINE_LISTS
    return value.splitlines(keepends=True) if isinstance(value, str) and is_text else value
