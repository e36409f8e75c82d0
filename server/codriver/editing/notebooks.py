"""Notebook files: their cells, whose outputs or source are replaced while every other byte stays as it is.

The text is not written anew from its JSON: the spans of values in it are found, and these alone are replaced, so
that indentation, escapes, the order of keys and what follows the last brace remain those of whoever wrote the file.
Source: nbformat 4.5, "The Notebook file format"; what is written is what nbformat writes.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from json.decoder import JSONDecodeError
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from codriver.errors import RefusedError
from codriver.wire.untrusted import excess

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

MARK: Final = "\ufeff"
_SPACE = re.compile(r"[ \t\r\n]*")
_SURROGATE = re.compile("[\ud800-\udfff]")
_COUNTED = re.compile(r"(?:cell-)?(\d{1,9})")
_SPLIT = frozenset({"application/javascript", "image/svg+xml"})
"""The types of text that stand as lists of lines, beside those of `text/`."""
_ORDER: Final = ("output_type", "name", "execution_count", "metadata", "data", "text", "ename", "evalue", "traceback")
_decode = json.JSONDecoder().raw_decode
MAX_ELEMENTS: Final = 300_000
"""Values and containers in one notebook: pictures are long and few, and each element takes a hundred bytes at least."""
MAX_DEPTH: Final = 100
NO_READERS: Final[Mapping[str, Callable[[str, int], tuple[Any, int]]]] = MappingProxyType({})


class NotANotebookError(RefusedError):
    """The text is no notebook of nbformat 4."""

    reason = "file-unreadable"

    def __init__(self, name: str, why: str) -> None:
        self.why = why
        hint = "give a Jupyter notebook; one of nbformat 3 is converted by jupyter nbconvert --to notebook --inplace"
        super().__init__(f"{name} is no notebook of nbformat 4: {why}", hint=hint)


class NoSuchCellError(RefusedError):
    """No cell, or more than one, is meant."""

    reason = "unknown-cell"

    def __init__(self, name: str, given: str, found: Sequence[int], count: int) -> None:
        what = f"cells {', '.join(map(str, found))} have the id {given!r}" if found else f"there is no cell {given!r}"
        indexes = f"indexes from 0 to {count - 1}" if count else "no cells at all"
        super().__init__(
            f"{what} in {name}, which has {indexes}",
            hint="give a cell's id, or its index counted from 0: list_cells has both",
        )


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell. `index` counts from 0; a file older than nbformat 4.5 has no `id`."""

    index: int
    id: str | None
    type: str
    source: str
    execution_count: int | None
    outputs: tuple[Mapping[str, Any], ...]

    @property
    def name(self) -> str:
        """The name by which it is asked for: its id, else what clients call a cell without one."""
        return self.id or f"cell-{self.index}"

    @property
    def has_error(self) -> bool:
        """Whether its outputs tell a failure."""
        return any(one.get("output_type") == "error" for one in self.outputs)


@dataclass(frozen=True, slots=True)
class Notebook:
    """The cells of a notebook, and the name of its kernelspec, empty in a notebook without one."""

    name: str
    cells: tuple[Cell, ...]
    kernel: str = ""
    language: str = ""
    """That of its code, in small letters; empty where the notebook does not say."""

    def cell(self, given: str) -> Cell:
        """The cell with this id, else with this index from 0, as `3` or `cell-3`.

        Raises:
            NoSuchCellError: it is none, or more than one.
        """
        named = [cell for cell in self.cells if cell.id == given]
        counted = _COUNTED.fullmatch(given)
        if not named and counted and int(counted[1]) < len(self.cells):
            return self.cells[int(counted[1])]
        if len(named) != 1:
            raise NoSuchCellError(self.name, given, [cell.index for cell in named], len(self.cells))
        return named[0]


@dataclass(frozen=True, slots=True)
class _Member:
    """One member of a JSON object: where its key and its value stand in the text, and the value."""

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
        """A value as it is written into the cell."""
        separators = (self.comma, self.colon)
        text = json.dumps(
            value, ensure_ascii=False, indent=self.indent, separators=separators, sort_keys=self.is_sorted
        )
        # Half a character has no bytes in UTF-8; JSON has an escape for it.
        text = _SURROGATE.sub(lambda half: f"\\u{ord(half[0]):04x}", text)
        return text if self.indent is None else text.replace("\n", self.newline + self.base)


def notebook_in(data: bytes, name: str) -> Notebook:
    """The notebook in a file's bytes, which are weighed before anything is built of them.

    Raises:
        NotANotebookError: it is none, or too heavy to be read.
    """
    if heavy := excess(data, max_elements=MAX_ELEMENTS, max_depth=MAX_DEPTH):
        raise NotANotebookError(name, f"it holds {heavy.problem}, which is more than is read of a notebook")
    try:
        return read_notebook(data.decode(), name)
    except UnicodeDecodeError:
        why = "it is not UTF-8"
    except NotANotebookError as error:
        why = error.why
    raise NotANotebookError(name, why)  # out here: the errors before it hold the whole text


def read_notebook(text: str, name: str) -> Notebook:
    """The notebook in a file's text. `name`: as refusals call it.

    Raises:
        NotANotebookError: it is none.
    """
    top = _top(text, name)
    cells = [{key: member.value for key, member in cell.items()} for cell in top["cells"].value]
    metadata = top["metadata"].value if "metadata" in top else {}
    spec = metadata.get("kernelspec") if isinstance(metadata, dict) else None
    kernel = spec.get("name") if isinstance(spec, dict) else None
    info = metadata.get("language_info") if isinstance(metadata, dict) else None
    said = [one.get(key) for one, key in ((info, "name"), (spec, "language")) if isinstance(one, dict)]
    language = next((one.lower() for one in said if isinstance(one, str)), "")
    found = tuple(map(_cell, range(len(cells)), cells))
    return Notebook(name, found, kernel if isinstance(kernel, str) else "", language)


def with_outputs(
    text: str, name: str, index: int, outputs: Sequence[Mapping[str, Any]], execution_count: int | None
) -> str:
    """The text with the outputs and the execution count of the cell `index` replaced, and all else as it is.

    A cell that lacks one of them gets it where nbformat would have it. `outputs` are those of nbformat, their texts
    whole or as lists of lines.

    Raises:
        NotANotebookError: it is none.
    """
    top = _top(text, name)
    members = top["cells"].value[index]
    style = _style(top, members)
    stored = [_stored(output, is_sorted=style.is_sorted) for output in outputs]
    edits = [
        _edit(members, "execution_count", json.dumps(execution_count), style),
        _edit(members, "outputs", style.shown(stored), style),
    ]
    # Of two that come in at one place, the later key is put there first.
    for start, end, new in sorted(edits, key=lambda edit: edit[:2], reverse=True):
        text = text[:start] + new + text[end:]
    return text


def with_source(text: str, name: str, index: int, source: str) -> str:
    """The text with the source of the cell `index` replaced, whole or in lines as it stood, and all else as it is.

    Raises:
        NotANotebookError: it is none.
    """
    top = _top(text, name)
    members = top["cells"].value[index]
    is_whole = "source" in members and isinstance(members["source"].value, str)
    style = _style(top, members)
    value = source if is_whole else source.splitlines(keepends=True)
    start, end, new = _edit(members, "source", style.shown(value), style)
    return text[:start] + new + text[end:]


def left_out(characters: int) -> dict[str, Any]:
    """The output that says how many characters of a cell's outputs were left out before it."""
    words = f"\ncodriver left out the last {characters:,} characters of this cell's outputs, as there were too many\n"
    return {"output_type": "stream", "name": "stderr", "text": words}


def _top(text: str, name: str) -> dict[str, _Member]:
    """The members of the notebook itself, checked as far as they are used; of its cells the members of each.

    Raises:
        NotANotebookError: it is none.
    """
    start = _past_space(text, len(MARK) if text.startswith(MARK) else 0)
    try:
        top, end = _members(text, start, {"cells": _elements})
        rest = text[_past_space(text, end) :]
    except JSONDecodeError as error:
        raise NotANotebookError(name, f"line {error.lineno}, column {error.colno}: {error.msg}") from error
    except RecursionError as error:
        raise NotANotebookError(name, "it is nested too deep") from error
    except ValueError as error:  # Python refuses to read some
        raise NotANotebookError(name, "it holds a number of too many digits") from error
    version = top["nbformat"].value if "nbformat" in top else None
    if rest or version != 4:
        why = "there is text behind its last brace" if rest else f"its nbformat is {json.dumps(version)}"
        raise NotANotebookError(name, why)
    if "cells" not in top or not all(top["cells"].value):
        raise NotANotebookError(name, "it has no cells, or an empty one")
    return top


def _past_space(text: str, place: int) -> int:
    match = _SPACE.match(text, place)
    return match.end() if match else place


def _expect(text: str, place: int, characters: str) -> str:
    """The character at a place, which has to be one of these.

    Raises:
        JSONDecodeError: it is not.
    """
    found = text[place : place + 1]
    if not found or found not in characters:
        raise JSONDecodeError(f"expected {' or '.join(characters)}", text, place)
    return found


def _members(
    text: str, place: int, readers: Mapping[str, Callable[[str, int], tuple[Any, int]]] = NO_READERS
) -> tuple[dict[str, _Member], int]:
    """The members of the object at a place, and its end. Of two with one key the last counts, as for all readers.

    `readers`: of these keys, what reads the value at a place and gives it with its end.

    Raises:
        JSONDecodeError: it is no object.
    """
    _expect(text, place, "{")
    members: dict[str, _Member] = {}
    before = place + 1
    key_at = _past_space(text, before)
    if text[key_at : key_at + 1] == "}":
        return members, key_at + 1
    while True:
        _expect(text, key_at, '"')
        key, key_end = _decode(text, key_at)
        colon_at = _past_space(text, key_end)
        _expect(text, colon_at, ":")
        start = _past_space(text, colon_at + 1)
        value, end = readers.get(key, _decode)(text, start)
        members[key] = _Member(text[before:key_at], key_at, text[key_end:start], start, end, value)
        comma_at = _past_space(text, end)
        if _expect(text, comma_at, ",}") == "}":
            return members, comma_at + 1
        before = comma_at + 1
        key_at = _past_space(text, before)


def _elements(text: str, place: int) -> tuple[list[dict[str, _Member]], int]:
    """The members of each object of the array at a place, and its end.

    They are read one by one, as a thread that reads a large text at once stops all others.

    Raises:
        JSONDecodeError: it is no array of objects.
    """
    _expect(text, place, "[")
    elements: list[dict[str, _Member]] = []
    place = _past_space(text, place + 1)
    if text[place : place + 1] == "]":
        return elements, place + 1
    while True:
        members, end = _members(text, place)
        elements.append(members)
        comma_at = _past_space(text, end)
        if _expect(text, comma_at, ",]") == "]":
            return elements, comma_at + 1
        place = _past_space(text, comma_at + 1)


def _style(top: Mapping[str, _Member], cell: Mapping[str, _Member]) -> _Style:
    """The layout of a cell, by its own keys and the first ones of the file."""
    first, outer = next(iter(cell.values())), next(iter(top.values()))
    later = [member.lead for member in cell.values()][1:]
    colon = first.colon if _SPACE.sub("", first.colon) == ":" and "\n" not in first.colon else ": "
    is_sorted = list(cell) == sorted(cell)
    _, is_broken, base = first.lead.rpartition("\n")
    if not is_broken:
        return _Style(None, "", "", f",{later[0] if later else ' '}", colon, is_sorted)
    newline = "\r\n" if "\r\n" in first.lead else "\n"
    return _Style(outer.lead.rpartition("\n")[2], base, newline, ",", colon, is_sorted)


def _edit(members: Mapping[str, _Member], key: str, value: str, style: _Style) -> tuple[int, int, str]:
    """The span to replace, and what by, so that the member has this value."""
    if there := members.get(key):
        return there.start, there.end, value
    new = f'"{key}"{style.colon}{value}'
    later = next((one for name, one in members.items() if name > key), None) if style.is_sorted else None
    if later is not None:
        return later.key, later.key, f"{new},{later.lead}"
    last = list(members.values())[-1]
    return last.end, last.end, f",{last.lead}{new}"


def _cell(index: int, cell: Mapping[str, Any]) -> Cell:
    identity, count, outputs = cell.get("id"), cell.get("execution_count"), cell.get("outputs")
    return Cell(
        index=index,
        id=identity if isinstance(identity, str) else None,
        type=str(cell.get("cell_type")),
        source=_joined(cell.get("source")),
        execution_count=count if isinstance(count, int) else None,
        outputs=tuple(one for one in outputs if isinstance(one, dict)) if isinstance(outputs, list) else (),
    )


def _joined(text: object) -> str:
    """A text that stands whole or as a list of lines."""
    return "".join(map(str, text)) if isinstance(text, list) else text if isinstance(text, str) else ""


def _stored(output: Mapping[str, Any], *, is_sorted: bool) -> dict[str, Any]:
    """An output as it is stored: texts as lists of lines, and nothing that only lives as long as its kernel."""
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
