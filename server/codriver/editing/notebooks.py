"""Notebook files: their cells, whose outputs or source are replaced while every other byte stays as it is.

The text is not written anew from its JSON: the spans of values in it are found, and these alone are replaced, so that
indentation, escapes, the order of keys and the text behind the last brace stay as the file's writer left them.

Everything is read from the bytes of the file, and values that nobody asks for, mostly outputs, are skipped: as a Python
text, 64 MiB with one wide character take 256 MiB. Source: nbformat 4.5, "The Notebook file format"; the written form is
that of nbformat.
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
    """A reader of the value at a place; it returns the value and its end."""

_SPACE = re.compile(rb"[ \t\r\n]*")
_BRACKET = re.compile(rb'["\[\]{}]')
_BARE = re.compile(rb'[^\s,\]}\[{":]*')
"""A bare value of JSON: a number, or a name."""
_SURROGATE = re.compile("[\ud800-\udfff]")
_COUNTED = re.compile(r"(?:cell-)?(\d{1,9})")
_SPLIT = frozenset({"application/javascript", "image/svg+xml"})
"""The types of text that are stored as lists of lines, beside those of `text/`."""
_ORDER: Final = ("output_type", "name", "execution_count", "metadata", "data", "text", "ename", "evalue", "traceback")
CHECKED_BYTES: Final = 64 * 1024
MOST_VALUE_BYTES: Final = 20 * 2**20
"""The longest value that is read, such as a source: more than is run at once."""
MAX_ELEMENTS: Final = 300_000
"""Values and containers in one notebook: pictures are long and few, and each element takes a hundred bytes at least."""
MAX_DEPTH: Final = 100
NO_READERS: Final[Mapping[str, Reader]] = MappingProxyType({})


def no_notebook(name: str, why: str) -> RefusedError:
    """Return the refusal of a text that is no notebook of nbformat 4."""
    hint = "give a Jupyter notebook; one of nbformat 3 is converted by jupyter nbconvert --to notebook --inplace"
    return refused("file-unreadable", f"{name} is no notebook of nbformat 4: {why}", hint=hint)


class _BrokenError(ValueError):
    """The bytes are no JSON at a place, or hold a value there that is not read."""

    def __init__(self, problem: str, place: int) -> None:
        super().__init__(problem)
        self.problem = problem
        self.place = place


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell. `index` counts from 0; a file older than nbformat 4.5 has no `id`."""

    index: int
    id: str | None
    type: str
    stored_source: bytes
    """The cell's source as stored in the file: JSON."""
    execution_count: int | None
    outputs: tuple[str, ...]
    """The type of each output."""

    @property
    def name(self) -> str:
        """The name by which callers ask for the cell: its id, else the clients' name for a cell without an id."""
        return self.id or f"cell-{self.index}"

    @property
    def source(self) -> str:
        """Return the cell's source as text, read again each time."""
        return _joined(json.loads(self.stored_source.decode()))

    @property
    def has_error(self) -> bool:
        """Return whether the cell's outputs tell a failure."""
        return "error" in self.outputs


@dataclass(frozen=True, slots=True)
class Notebook:
    """The cells of a notebook, and the name of its kernelspec, empty in a notebook without one."""

    name: str
    cells: tuple[Cell, ...]
    kernel: str = ""
    language: str = ""
    """The language of its code, in small letters; empty if the notebook does not say."""

    def cell(self, given: str) -> Cell:
        """Return the cell with this id, else with this index from 0, as `3` or `cell-3`.

        Raises:
            RefusedError: the name means no cell, or more than one.
        """
        named = [cell for cell in self.cells if cell.id == given]
        counted = _COUNTED.fullmatch(given)
        if not named and counted and int(counted[1]) < len(self.cells):
            return self.cells[int(counted[1])]
        if len(named) != 1:
            raise self._no_such_cell(given, named)
        return named[0]

    def _no_such_cell(self, given: str, found: Sequence[Cell]) -> RefusedError:
        """No cell, or more than one, is meant."""
        indexes = ", ".join([str(cell.index) for cell in found])
        what = f"cells {indexes} have the id {given!r}" if found else f"there is no cell {given!r}"
        has = f"indexes from 0 to {len(self.cells) - 1}" if self.cells else "no cells at all"
        return refused(
            "unknown-cell",
            f"{what} in {self.name}, which has {has}",
            hint="give a cell's id, or its index counted from 0: list_cells has both",
        )


@dataclass(frozen=True, slots=True)
class _Member:
    """One member of a JSON object: the places of its key and its value, and the value if it was read."""

    lead: str
    """The space before the key."""
    key: int
    colon: str
    """From the end of the key to the value."""
    start: int
    end: int
    value: Any


@dataclass(frozen=True, slots=True)
class _Style:
    """The layout of a cell's values: `indent` None for all in one line."""

    indent: str | None
    base: str
    """The space before the keys of the cell."""
    newline: str
    comma: str
    colon: str
    is_sorted: bool

    def shown(self, value: object) -> str:
        """Return a value as it is written into the cell."""
        separators = (self.comma, self.colon)
        text = json.dumps(
            value, ensure_ascii=False, indent=self.indent, separators=separators, sort_keys=self.is_sorted
        )
        # Half a character has no bytes in UTF-8; JSON has an escape for it.
        text = _SURROGATE.sub(lambda half: f"\\u{ord(half[0]):04x}", text)
        return text if self.indent is None else text.replace("\n", self.newline + self.base)


def notebook_in(data: bytes, name: str) -> Notebook:
    """Return the notebook in a file's bytes; their elements are counted before anything is built of them.

    Raises:
        RefusedError: it is none, or too heavy to be read.
    """
    if heavy := excess(data, max_elements=MAX_ELEMENTS, max_depth=MAX_DEPTH):
        raise no_notebook(name, f"it holds {heavy.error}, which is more than is read of a notebook")
    check = codecs.getincrementaldecoder("utf-8")()
    try:
        for start in range(0, len(data), CHECKED_BYTES):
            check.decode(data[start : start + CHECKED_BYTES])
        check.decode(b"", final=True)
    except UnicodeDecodeError:
        raise no_notebook(name, "it is not UTF-8") from None
    return read_notebook(data, name)


def read_notebook(data: bytes, name: str) -> Notebook:
    """Return the notebook in a file's bytes, which are UTF-8. `name`: the file's name in refusals.

    Raises:
        RefusedError: it is none.
    """
    top = _top(data, name)
    metadata = top["metadata"].value if "metadata" in top else {}
    spec = metadata.get("kernelspec") if isinstance(metadata, dict) else None
    kernel = spec.get("name") if isinstance(spec, dict) else None
    info = metadata.get("language_info") if isinstance(metadata, dict) else None
    said = [one.get(key) for one, key in ((info, "name"), (spec, "language")) if isinstance(one, dict)]
    language = next((one.lower() for one in said if isinstance(one, str)), "")
    cells = top["cells"].value
    found = tuple(_cell(data, index, cell) for index, cell in enumerate(cells))
    return Notebook(name, found, kernel if isinstance(kernel, str) else "", language)


def with_outputs(
    data: bytes, name: str, index: int, outputs: Sequence[Mapping[str, Any]], execution_count: int | None
) -> bytes:
    """The bytes of a file with the outputs and the execution count of the cell `index` replaced, and all else as it is.

    A cell without outputs or count gets them at nbformat's place. `outputs` are those of nbformat, their texts whole or
    as lists of lines.

    Raises:
        RefusedError: it is none.
    """
    top = _top(data, name)
    members = top["cells"].value[index]
    style = _style(top, members)
    stored = [_stored(output, is_sorted=style.is_sorted) for output in outputs]
    edits = [
        _edit(members, "execution_count", json.dumps(execution_count), style),
        _edit(members, "outputs", style.shown(stored), style),
    ]
    # Of two members inserted at one place, the later key is put there first.
    pieces: list[bytes | memoryview] = []
    rest = len(data)
    view = memoryview(data)
    for start, end, new in sorted(edits, key=lambda edit: edit[:2], reverse=True):
        pieces += (view[end:rest], new.encode())
        rest = start
    return b"".join((view[:rest], *reversed(pieces)))


def with_source(text: str, name: str, index: int, source: str) -> str:
    """The text with the source of the cell `index` replaced, whole or in lines as it stood, and all else as it is.

    Raises:
        RefusedError: it is none.
    """
    data = text.encode("utf-8", "surrogatepass")
    top = _top(data, name)
    members = top["cells"].value[index]
    is_whole = "source" in members and data[members["source"].start : members["source"].start + 1] == b'"'
    style = _style(top, members)
    value = source if is_whole else source.splitlines(keepends=True)
    start, end, new = _edit(members, "source", style.shown(value), style)
    return b"".join((data[:start], new.encode(), data[end:])).decode("utf-8", "surrogatepass")


def left_out(characters: int) -> dict[str, Any]:
    """Return the output that says how many characters of a cell's outputs were left out before it."""
    words = f"\ncodriver left out the last {characters:,} characters of this cell's outputs, as there were too many\n"
    return {"output_type": "stream", "name": "stderr", "text": words}


def _top(data: bytes, name: str) -> dict[str, _Member]:
    """The members of the notebook itself, checked as far as they are used, and the members of each of its cells.

    Raises:
        RefusedError: it is none.
    """
    start = _past_space(data, len(codecs.BOM_UTF8) if data.startswith(codecs.BOM_UTF8) else 0)
    problem, place = "", 0
    try:
        top, end = _members(data, start, {"cells": _elements, "metadata": _value, "nbformat": _value})
    except _BrokenError as error:
        problem, place = error.problem, error.place
    if problem:  # raised out here, since the errors before it hold the whole file
        line = data.rfind(b"\n", 0, place) + 1
        column = len(data[line:place].decode(errors="replace")) + 1
        raise no_notebook(name, f"line {data.count(10, 0, place) + 1}, column {column}: {problem}")
    is_over = _past_space(data, end) == len(data)
    version = top["nbformat"].value if "nbformat" in top else None
    if not is_over or version != 4:
        why = f"its nbformat is {json.dumps(version)}" if is_over else "there is text behind its last brace"
        raise no_notebook(name, why)
    if "cells" not in top or not all(top["cells"].value):
        raise no_notebook(name, "it has no cells, or an empty one")
    return top


def _past_space(data: bytes, place: int) -> int:
    match = _SPACE.match(data, place)
    return match.end() if match else place


def _expect(data: bytes, place: int, characters: bytes) -> bytes:
    """Return the character at a place, which has to be one of these.

    Raises:
        _BrokenError: another character stands there.
    """
    found = data[place : place + 1]
    if not found or found not in characters:
        raise _BrokenError(f"expected {' or '.join(characters.decode())}", place)
    return found


def _value(data: bytes, place: int) -> tuple[Any, int]:
    """Return the value at a place, and its end.

    Raises:
        _BrokenError: the text there is no value, or too long.
    """
    _, end = _passed(data, place)
    if end - place > MOST_VALUE_BYTES:
        raise _BrokenError(f"a value of {end - place:,} bytes is longer than any that is read of a notebook", place)
    text = data[place:end].decode("utf-8", "surrogatepass")
    try:
        return json.loads(text), end
    except json.JSONDecodeError as error:
        at = place + len(text[: error.pos].encode("utf-8", "surrogatepass"))
        raise _BrokenError(error.msg, at) from None
    except RecursionError:
        raise _BrokenError("it is nested too deep", place) from None
    except ValueError:  # Python refuses to read some numbers
        raise _BrokenError("it holds a number of too many digits", place) from None


def _checked(data: bytes, place: int) -> tuple[None, int]:
    """Return the end of a readable value, which is not kept.

    Raises:
        _BrokenError: the value is unreadable.
    """
    return None, _value(data, place)[1]


def _passed(data: bytes, place: int) -> tuple[None, int]:
    """The end of the value at a place. Nothing is built of the value, and its texts and numbers are not checked.

    Raises:
        _BrokenError: the value has no end.
    """
    first = data[place : place + 1]
    if first == b'"':
        end = end_of_text(data, place + 1)
        if data[end - 1 : end] != b'"' or end == place + 1:
            raise _BrokenError("a text without an end", place)
        return None, end
    if first not in (b"[", b"{"):
        bare = _BARE.match(data, place)
        if bare is None or not bare[0]:
            raise _BrokenError("expected a value", place)
        return None, bare.end()
    open_brackets = bytearray()
    at = place
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
    raise _BrokenError("a bracket without an end", place)


def _members(data: bytes, place: int, readers: Mapping[str, Reader] = NO_READERS) -> tuple[dict[str, _Member], int]:
    """The members of the object at a place, and its end. Of two with one key the last counts, as for all readers.

    `readers`: the values of these keys are read, all others are skipped.

    Raises:
        _BrokenError: the value is no object.
    """
    _expect(data, place, b"{")
    members: dict[str, _Member] = {}
    before = place + 1
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


def _each(data: bytes, place: int, reader: Reader) -> tuple[list[Any], int]:
    """Return the values of the array at a place, each as the reader reads it, and the array's end.

    The values are read one by one, since reading a large text at once stops all other threads.

    Raises:
        _BrokenError: the value is no array, or the reader cannot read it.
    """
    _expect(data, place, b"[")
    found: list[Any] = []
    place = _past_space(data, place + 1)
    if data[place : place + 1] == b"]":
        return found, place + 1
    while True:
        value, end = reader(data, place)
        found.append(value)
        comma_at = _past_space(data, end)
        if _expect(data, comma_at, b",]") == b"]":
            return found, comma_at + 1
        place = _past_space(data, comma_at + 1)


def _elements(data: bytes, place: int) -> tuple[list[dict[str, _Member]], int]:
    """Return the members of each cell of the array at a place, and its end."""
    return _each(data, place, lambda data, at: _members(data, at, _CELL_READERS))


def _outputs(data: bytes, place: int) -> tuple[list[str], int]:
    """Return the types of a cell's outputs, and the end of the outputs."""
    if data[place : place + 1] != b"[":
        return [], _passed(data, place)[1]
    found, end = _each(data, place, _output_type)
    return [one for one in found if one is not None], end


def _output_type(data: bytes, place: int) -> tuple[str | None, int]:
    if data[place : place + 1] != b"{":
        return _passed(data, place)
    members, end = _members(data, place, {"output_type": _value})
    kind = members["output_type"].value if "output_type" in members else ""
    return kind if isinstance(kind, str) else "", end


_CELL_READERS: Final[Mapping[str, Reader]] = MappingProxyType({
    "id": _value, "cell_type": _value, "execution_count": _value, "source": _checked, "outputs": _outputs,
})  # fmt: skip


def _style(top: Mapping[str, _Member], cell: Mapping[str, _Member]) -> _Style:
    """Return the layout of a cell, by its own keys and the first ones of the file."""
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
    """Return the span to replace, and its new text, so that the member has this value."""
    if there := members.get(key):
        return there.start, there.end, value
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
    """Return a text that is stored whole or as a list of lines."""
    return "".join(map(str, text)) if isinstance(text, list) else text if isinstance(text, str) else ""


def _stored(output: Mapping[str, Any], *, is_sorted: bool) -> dict[str, Any]:
    """An output as it is stored: texts as lists of lines, and no data that lives only as long as its kernel."""
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
