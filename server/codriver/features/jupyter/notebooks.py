"""Notebook files: read their cells, and replace outputs or source while every other byte stays the same.

The file is not serialised from JSON. Only the spans of changed values are replaced, so that indentation, escapes, the
order of keys and text after the last brace are unchanged. Everything is read from the bytes of the file, and unneeded
values, mostly outputs, are skipped: as a Python string, 64 MiB with one wide character take 256 MiB. Source: nbformat
4.5, "The Notebook file format". New text has the format of nbformat.
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
    """Parses the value at an offset; returns the value and the offset of its end."""

_SPACE = re.compile(rb"[ \t\r\n]*")
_BRACKET = re.compile(rb'["\[\]{}]')
_BARE = re.compile(rb'[^\s,\]}\[{":]*')
"""A JSON number or literal."""
_SURROGATE = re.compile("[\ud800-\udfff]")
_COUNTED = re.compile(r"(?:cell-)?(\d{1,9})")
_SPLIT = frozenset({"application/javascript", "image/svg+xml"})
"""Text types, in addition to `text/`, that are stored as lists of lines."""
_ORDER: Final = ("output_type", "name", "execution_count", "metadata", "data", "text", "ename", "evalue", "traceback")
CHECKED_BYTES: Final = 64 * 1024
MAX_VALUE_BYTES: Final = 20 * 2**20
"""Maximum size of a value that is read, such as a source."""
MAX_ELEMENTS: Final = 300_000
"""Maximum number of values and containers in a notebook. Each takes at least a hundred bytes; images are few."""
MAX_DEPTH: Final = 100
NO_READERS: Final[Mapping[str, Reader]] = MappingProxyType({})


def not_a_notebook(name: str, why: str) -> RefusedError:
    """Return the refusal of a file that is not a notebook of nbformat 4."""
    hint = "Pass a Jupyter notebook. Convert nbformat 3 with jupyter nbconvert --to notebook --inplace."
    return refused("file-unreadable", f"{name} is not a notebook of nbformat 4: {why}", hint=hint)


class _BrokenError(ValueError):
    """The bytes at a position are not JSON, or a value that is not read."""

    def __init__(self, error_text: str, position: int) -> None:
        super().__init__(error_text)
        self.error_text = error_text
        self.position = position


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell. `index` counts from 0. Files older than nbformat 4.5 have no `id`."""

    index: int
    id: str | None
    type: str
    stored_source: bytes
    """Source of the cell as stored in the file: JSON."""
    execution_count: int | None
    outputs: tuple[str, ...]
    """Type of each output."""

    @property
    def name(self) -> str:
        """Return the name with which callers refer to the cell.

        That is its id, or else the clients' name for a cell without one.
        """
        return self.id or f"cell-{self.index}"

    @property
    def source(self) -> str:
        """Return the source of the cell as text, parsed again each time."""
        return _joined(json.loads(self.stored_source.decode()))

    @property
    def has_error(self) -> bool:
        """Return whether the cell's outputs contain an error."""
        return "error" in self.outputs


@dataclass(frozen=True, slots=True)
class Notebook:
    """The cells of a notebook, and the name of its kernelspec, or an empty string."""

    name: str
    cells: tuple[Cell, ...]
    kernel: str = ""
    language: str = ""
    """Language of its code in lower case, or empty if unknown."""

    def cell(self, given: str) -> Cell:
        """Return the cell with this id, or else with this index from 0, such as `3` or `cell-3`.

        Raises:
            RefusedError: no cell matches, or several do.
        """
        named = [cell for cell in self.cells if cell.id == given]
        counted = _COUNTED.fullmatch(given)
        if not named and counted and int(counted[1]) < len(self.cells):
            return self.cells[int(counted[1])]
        if len(named) != 1:
            raise self._no_such_cell(given, named)
        return named[0]

    def _no_such_cell(self, given: str, found: Sequence[Cell]) -> RefusedError:
        """Return the refusal when no cell matches, or several do."""
        indexes = ", ".join([str(cell.index) for cell in found])
        what = f"cells {indexes} have the id {given!r}" if found else f"there is no cell {given!r}"
        has = f"indexes from 0 to {len(self.cells) - 1}" if self.cells else "no cells at all"
        return refused(
            "unknown-cell",
            f"{what} in {self.name}, which has {has}",
            hint="Pass a cell's id, or its index from 0. list_cells has both.",
        )


@dataclass(frozen=True, slots=True)
class _Member:
    """One member of a JSON object: the positions of its key and its value, and the value if it was read."""

    lead: str
    """White space before the key."""
    key: int
    colon: str
    """Text from the end of the key to the value."""
    start: int
    end: int
    value: Any


@dataclass(frozen=True, slots=True)
class _Style:
    """Layout of a cell's values. `indent` is None if everything is on one line."""

    indent: str | None
    base: str
    """White space before the keys of the cell."""
    newline: str
    comma: str
    colon: str
    is_sorted: bool

    def to_json(self, value: object) -> str:
        """Return a value as it is written to the cell."""
        separators = (self.comma, self.colon)
        text = json.dumps(
            value, ensure_ascii=False, indent=self.indent, separators=separators, sort_keys=self.is_sorted
        )
        # A lone surrogate cannot be encoded in UTF-8, but JSON has an escape sequence for it.
        text = _SURROGATE.sub(lambda half: f"\\u{ord(half[0]):04x}", text)
        return text if self.indent is None else text.replace("\n", self.newline + self.base)


def notebook_in(data: bytes, name: str) -> Notebook:
    """Return the notebook in a file's bytes. Its elements are counted before it is parsed.

    Raises:
        RefusedError: it is not a notebook, or too large.
    """
    if heavy := excess(data, max_elements=MAX_ELEMENTS, max_depth=MAX_DEPTH):
        raise not_a_notebook(name, f"it has {heavy.error}, which exceeds the limit for a notebook")
    check = codecs.getincrementaldecoder("utf-8")()
    try:
        for start in range(0, len(data), CHECKED_BYTES):
            check.decode(data[start : start + CHECKED_BYTES])
        check.decode(b"", final=True)
    except UnicodeDecodeError:
        raise not_a_notebook(name, "it is not UTF-8") from None
    return read_notebook(data, name)


def read_notebook(data: bytes, name: str) -> Notebook:
    """Return the notebook in a file's UTF-8 bytes. `name` is the file's name in refusals.

    Raises:
        RefusedError: it is not a notebook.
    """
    top = _top(data, name)
    metadata = top["metadata"].value if "metadata" in top else {}
    spec = metadata.get("kernelspec") if isinstance(metadata, dict) else None
    kernel = spec.get("name") if isinstance(spec, dict) else None
    info = metadata.get("language_info") if isinstance(metadata, dict) else None
    names_found = [one.get(key) for one, key in ((info, "name"), (spec, "language")) if isinstance(one, dict)]
    language = next((one.lower() for one in names_found if isinstance(one, str)), "")
    cells = top["cells"].value
    found = tuple(_cell(data, index, cell) for index, cell in enumerate(cells))
    return Notebook(name, found, kernel if isinstance(kernel, str) else "", language)


def with_outputs(
    data: bytes, name: str, index: int, outputs: Sequence[Mapping[str, Any]], execution_count: int | None
) -> bytes:
    """Return the bytes of a file with the outputs and execution count of the cell `index` replaced.

    A cell without outputs or count gets them at nbformat's position. `outputs` are those of nbformat, with text as
    strings or lists of lines.

    Raises:
        RefusedError: it is not a notebook.
    """
    top = _top(data, name)
    members = top["cells"].value[index]
    style = _style(top, members)
    stored = [_stored(output, is_sorted=style.is_sorted) for output in outputs]
    edits = [
        _edit(members, "execution_count", json.dumps(execution_count), style),
        _edit(members, "outputs", style.to_json(stored), style),
    ]
    # Of two members inserted at one position, the later key is inserted first.
    chunks: list[bytes | memoryview] = []
    rest = len(data)
    view = memoryview(data)
    for start, end, new in sorted(edits, key=lambda edit: edit[:2], reverse=True):
        chunks += (view[end:rest], new.encode())
        rest = start
    return b"".join((view[:rest], *reversed(chunks)))


def with_source(text: str, name: str, index: int, source: str) -> str:
    """Return the text with the source of the cell `index` replaced, as a string or list of lines as before.

    Raises:
        RefusedError: it is not a notebook.
    """
    data = text.encode("utf-8", "surrogatepass")
    top = _top(data, name)
    members = top["cells"].value[index]
    is_whole = "source" in members and data[members["source"].start : members["source"].start + 1] == b'"'
    style = _style(top, members)
    value = source if is_whole else source.splitlines(keepends=True)
    start, end, new = _edit(members, "source", style.to_json(value), style)
    return b"".join((data[:start], new.encode(), data[end:])).decode("utf-8", "surrogatepass")


def left_out(characters: int) -> dict[str, Any]:
    """Return an output that reports how many characters of a cell's outputs were omitted."""
    words = f"\ncodriver left out the last {characters:,} characters of this cell's outputs, as there were too many\n"
    return {"output_type": "stream", "name": "stderr", "text": words}


def _top(data: bytes, name: str) -> dict[str, _Member]:
    """Return the members of the notebook, with the used ones checked, including the members of each of its cells.

    Raises:
        RefusedError: it is not a notebook.
    """
    start = _past_space(data, len(codecs.BOM_UTF8) if data.startswith(codecs.BOM_UTF8) else 0)
    error_text, position = "", 0
    try:
        top, end = _members(data, start, {"cells": _elements, "metadata": _value, "nbformat": _value})
    except _BrokenError as error:
        error_text, position = error.error_text, error.position
    if error_text:  # raised here, because the earlier errors reference the whole file
        line = data.rfind(b"\n", 0, position) + 1
        column = len(data[line:position].decode(errors="replace")) + 1
        raise not_a_notebook(name, f"line {data.count(10, 0, position) + 1}, column {column}: {error_text}")
    is_over = _past_space(data, end) == len(data)
    version = top["nbformat"].value if "nbformat" in top else None
    if not is_over or version != 4:
        why = f"its nbformat is {json.dumps(version)}" if is_over else "there is text after its last brace"
        raise not_a_notebook(name, why)
    if "cells" not in top or not all(top["cells"].value):
        raise not_a_notebook(name, "it has no cells, or an empty one")
    return top


def _past_space(data: bytes, position: int) -> int:
    match = _SPACE.match(data, position)
    return match.end() if match else position


def _expect(data: bytes, position: int, characters: bytes) -> bytes:
    """Return the character at a position, which has to be one of `characters`.

    Raises:
        _BrokenError: it is another character.
    """
    found = data[position : position + 1]
    if not found or found not in characters:
        raise _BrokenError(f"expected {' or '.join(characters.decode())}", position)
    return found


def _value(data: bytes, position: int) -> tuple[Any, int]:
    """Return the value at a position, and its end.

    Raises:
        _BrokenError: the text at the position is not a value, or too long.
    """
    _, end = _passed(data, position)
    if end - position > MAX_VALUE_BYTES:
        raise _BrokenError(f"a value of {end - position:,} bytes exceeds the limit", position)
    text = data[position:end].decode("utf-8", "surrogatepass")
    try:
        return json.loads(text), end
    except json.JSONDecodeError as error:
        at = position + len(text[: error.pos].encode("utf-8", "surrogatepass"))
        raise _BrokenError(error.msg, at) from None
    except RecursionError:
        raise _BrokenError("it is nested too deeply", position) from None
    except ValueError:  # Python refuses to read some numbers
        raise _BrokenError("a number has too many digits", position) from None


def _checked(data: bytes, position: int) -> tuple[None, int]:
    """Return the end of a valid value, without storing the value.

    Raises:
        _BrokenError: the value is invalid.
    """
    return None, _value(data, position)[1]


def _passed(data: bytes, position: int) -> tuple[None, int]:
    """Return the end of the value at a position, without parsing it or checking its strings and numbers.

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
        bare = _BARE.match(data, position)
        if bare is None or not bare[0]:
            raise _BrokenError("expected a value", position)
        return None, bare.end()
    open_brackets = bytearray()
    at = position
    while mark := _BRACKET.search(data, at):
        at, kind = mark.end(), mark[0]
        if kind == b'"':
            _, at = _passed(data, mark.start())
        elif kind in b"[{":
            open_brackets += kind
        elif open_brackets.pop() + 2 != kind[0]:
            raise _BrokenError("a bracket that closes another", mark.start())
        if not open_brackets:
            return None, at
    raise _BrokenError("a bracket without an end", position)


def _members(data: bytes, position: int, readers: Mapping[str, Reader] = NO_READERS) -> tuple[dict[str, _Member], int]:
    """Return the members of the object at a position, and its end. Of two with the same key, the last one counts.

    Values of the keys in `readers` are read, and all others skipped.

    Raises:
        _BrokenError: the value is not an object.
    """
    _expect(data, position, b"{")
    members: dict[str, _Member] = {}
    before = position + 1
    key_at = _past_space(data, before)
    if data[key_at : key_at + 1] == b"}":
        return members, key_at + 1
    while True:
        _expect(data, key_at, b'"')
        key, key_end = _value(data, key_at)
        colon_at = _past_space(data, key_end)
        _expect(data, colon_at, b":")
        start = _past_space(data, colon_at + 1)
        value, end = readers.get(key, _passed)(data, start)
        lead, colon = data[before:key_at].decode(), data[key_end:start].decode()
        members[key] = _Member(lead, key_at, colon, start, end, value)
        comma_at = _past_space(data, end)
        if _expect(data, comma_at, b",}") == b"}":
            return members, comma_at + 1
        before = comma_at + 1
        key_at = _past_space(data, before)


def _each(data: bytes, position: int, reader: Reader) -> tuple[list[Any], int]:
    """Return the values of the array at a position, each read by the reader, and the array's end.

    Values are read one by one, because reading a large text at once blocks all other threads.

    Raises:
        _BrokenError: the value is not an array, or the reader cannot read it.
    """
    _expect(data, position, b"[")
    found: list[Any] = []
    position = _past_space(data, position + 1)
    if data[position : position + 1] == b"]":
        return found, position + 1
    while True:
        value, end = reader(data, position)
        found.append(value)
        comma_at = _past_space(data, end)
        if _expect(data, comma_at, b",]") == b"]":
            return found, comma_at + 1
        position = _past_space(data, comma_at + 1)


def _elements(data: bytes, position: int) -> tuple[list[dict[str, _Member]], int]:
    """Return the members of each cell of the array at a position, and its end."""
    return _each(data, position, lambda data, at: _members(data, at, _CELL_READERS))


def _outputs(data: bytes, position: int) -> tuple[list[str], int]:
    """Return the types of a cell's outputs, and the end of the outputs."""
    if data[position : position + 1] != b"[":
        return [], _passed(data, position)[1]
    found, end = _each(data, position, _output_type)
    return [one for one in found if one is not None], end


def _output_type(data: bytes, position: int) -> tuple[str | None, int]:
    if data[position : position + 1] != b"{":
        return _passed(data, position)
    members, end = _members(data, position, {"output_type": _value})
    kind = members["output_type"].value if "output_type" in members else ""
    return kind if isinstance(kind, str) else "", end


_CELL_READERS: Final[Mapping[str, Reader]] = MappingProxyType({
    "id": _value, "cell_type": _value, "execution_count": _value, "source": _checked, "outputs": _outputs,
})  # fmt: skip


def _style(top: Mapping[str, _Member], cell: Mapping[str, _Member]) -> _Style:
    """Return the layout of a cell, from its own keys and the first ones of the file."""
    first, outer = next(iter(cell.values())), next(iter(top.values()))
    later = [member.lead for member in cell.values()][1:]
    colon = first.colon if first.colon.strip() == ":" and "\n" not in first.colon else ": "
    is_sorted = list(cell) == sorted(cell)
    _, is_broken, base = first.lead.rpartition("\n")
    if not is_broken:
        return _Style(None, "", "", f",{later[0] if later else ' '}", colon, is_sorted)
    newline = "\r\n" if "\r\n" in first.lead else "\n"
    return _Style(outer.lead.rpartition("\n")[2], base, newline, ",", colon, is_sorted)


def _edit(members: Mapping[str, _Member], key: str, value: str, style: _Style) -> tuple[int, int, str]:
    """Return the span to replace and its new text, so that the member gets this value."""
    if member := members.get(key):
        return member.start, member.end, value
    new = f'"{key}"{style.colon}{value}'
    later = next((one for name, one in members.items() if name > key), None) if style.is_sorted else None
    if later is not None:
        return later.key, later.key, f"{new},{later.lead}"
    last = list(members.values())[-1]
    return last.end, last.end, f",{last.lead}{new}"


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
    """Return a text that is stored as a string or a list of lines."""
    return "".join(map(str, text)) if isinstance(text, list) else text if isinstance(text, str) else ""


def _stored(output: Mapping[str, Any], *, is_sorted: bool) -> dict[str, Any]:
    """Return an output as it is stored: text as lists of lines, without data that needs a live kernel."""
    stored = {key: value for key, value in output.items() if key != "transient"}
    if isinstance(stored.get("text"), str):
        stored["text"] = stored["text"].splitlines(keepends=True)
    data = stored.get("data")
    if isinstance(data, dict):
        stored["data"] = {kind: _lines(kind, value) for kind, value in data.items()}
    if is_sorted:
        return stored
    known: dict[str, Any] = {key: stored[key] for key in _ORDER if key in stored}
    return {**known, **stored}


def _lines(kind: str, value: object) -> object:
    is_text = kind.startswith("text/") or kind in _SPLIT
    return value.splitlines(keepends=True) if isinstance(value, str) and is_text else value
