"""Read the cells in notebook files, and replace outputs or source without changing any other byte.

Files are not parsed and serialized again. Only the spans of changed values are replaced, so indentation, escapes, key
order and trailing white space stay the same. The bytes are not decoded as a whole, because 64 MiB with one wide
character take 256 MiB as a string. Values that are not needed, mostly outputs, are skipped. New values are formatted as
nbformat does. Source: nbformat 4.5, "The Notebook file format".
"""

from __future__ import annotations

import codecs
import json
import re
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from codriver.errors import refused
from codriver.features.jupyter.json_spans import (
    JsonError,
    Member,
    check_value,
    parse_array,
    parse_members,
    parse_value,
    skip_space,
    skip_value,
)
from codriver.wire.untrusted import find_exceeded_limit

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from codriver.errors import RefusedError
    from codriver.features.jupyter.json_spans import ValueParser

NOTEBOOK_SUFFIX: Final = ".ipynb"
NOTEBOOK_LANGUAGE: Final = "notebook"
"""The language of tools for notebooks, which are offered in workspaces that contain a notebook."""
_SURROGATE = re.compile("[\ud800-\udfff]")
_CELL_INDEX = re.compile(r"(?:cell-)?(\d{1,9})")
"""Matches the index of a cell, with or without the prefix that clients add."""
_LINE_LIST_TYPES = frozenset({"application/javascript", "image/svg+xml"})
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
UTF8_CHECK_BYTES: Final = 64 * 1024
"""Number of bytes to check for valid UTF-8 at a time."""
MAX_ELEMENTS: Final = 300_000
"""Maximum number of values and containers in a notebook. Each takes at least a hundred bytes of memory."""
MAX_DEPTH: Final = 100


def not_a_notebook(name: str, reason: str) -> RefusedError:
    """Return the error for a file that is not an nbformat 4 notebook."""
    hint = "Pass a Jupyter notebook. Convert nbformat 3 with jupyter nbconvert --to notebook --inplace."
    return refused("file-unreadable", f"{name} is not a notebook of nbformat 4: {reason}", hint=hint)


def unreadable_notebook(name: str, reason: str) -> RefusedError:
    """Return the error for a notebook that cannot be read."""
    hint = "Pass the path of a Jupyter notebook, absolute or relative to the workspace."
    return refused("file-unreadable", f"cannot read {name}: {reason}", hint=hint)


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell of a notebook file."""

    index: int
    """Index of the cell, from 0."""
    id: str | None
    """Id of the cell, which files older than nbformat 4.5 do not have."""
    type: str
    stored_source: bytes
    """Source of the cell as JSON, as stored in the file."""
    execution_count: int | None
    outputs: tuple[str, ...]
    """Type of each output."""

    @property
    def name(self) -> str:
        """Return the id of the cell, or its index in the form `cell-3` if it has no id."""
        return self.id or f"cell-{self.index}"

    @property
    def source(self) -> str:
        """Return the source of the cell, which is parsed on each access."""
        return _join_text(json.loads(self.stored_source.decode()))

    @property
    def has_error(self) -> bool:
        """Return whether one of the cell's outputs is an error."""
        return "error" in self.outputs


@dataclass(frozen=True, slots=True)
class Notebook:
    """A parsed notebook file."""

    name: str
    """File name, for messages."""
    cells: tuple[Cell, ...]
    kernel: str = ""
    """Name of the notebook's kernelspec, or an empty string."""
    language: str = ""
    """Language of the notebook's code in lower case, or an empty string if unknown."""

    def cell(self, name: str) -> Cell:
        """Return the cell with this id. If there is none, return the cell with this index, such as `3` or `cell-3`.

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
        """Return the error for a name that does not identify exactly one cell."""
        indexes = ", ".join([str(cell.index) for cell in matches])
        reason = f"cells {indexes} have the id {name!r}" if matches else f"there is no cell {name!r}"
        available = f"indexes from 0 to {len(self.cells) - 1}" if self.cells else "no cells at all"
        return refused(
            "unknown-cell",
            f"{reason} in {self.name}, which has {available}",
            hint="Pass a cell's id, or its index from 0. list_cells has both.",
        )


@dataclass(frozen=True, slots=True)
class _Style:
    """The way in which the JSON of a cell is formatted in its file."""

    indent: str | None
    """Indentation of one level, or None if the cell is on one line."""
    base: str
    """White space before the keys of the cell."""
    newline: str
    comma: str
    colon: str
    is_sorted: bool

    def to_json(self, value: object) -> str:
        """Return a value as JSON in this style."""
        separators = (self.comma, self.colon)
        text = json.dumps(
            value, ensure_ascii=False, indent=self.indent, separators=separators, sort_keys=self.is_sorted
        )
        # A lone surrogate cannot be encoded in UTF-8, but JSON has an escape sequence for it.
        text = _SURROGATE.sub(lambda match: f"\\u{ord(match[0]):04x}", text)
        return text if self.indent is None else text.replace("\n", self.newline + self.base)


def parse_notebook(data: bytes, name: str) -> Notebook:
    """Parse the bytes of a notebook file.

    Its encoding, depth and number of elements are checked first. `name` is the file name used in error messages.

    Raises:
        RefusedError: the file is not a notebook or is too large.
    """
    if excess_found := find_exceeded_limit(data, max_elements=MAX_ELEMENTS, max_depth=MAX_DEPTH):
        raise not_a_notebook(name, f"the file has {excess_found.error}, which exceeds the limit for a notebook")
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        for start in range(0, len(data), UTF8_CHECK_BYTES):
            decoder.decode(data[start : start + UTF8_CHECK_BYTES])
        decoder.decode(b"", final=True)
    except UnicodeDecodeError:
        raise not_a_notebook(name, "the file is not UTF-8") from None
    return read_notebook(data, name)


def read_notebook(data: bytes, name: str) -> Notebook:
    """Parse the bytes of a notebook file without the checks of `parse_notebook`.

    `name` is the file name used in error messages.

    Raises:
        RefusedError: the file is not a notebook.
    """
    top = _parse_top_level(data, name)
    metadata = top["metadata"].value if "metadata" in top else {}
    spec = metadata.get("kernelspec") if isinstance(metadata, dict) else None
    kernel = spec.get("name") if isinstance(spec, dict) else None
    info = metadata.get("language_info") if isinstance(metadata, dict) else None
    languages = [record.get(key) for record, key in ((info, "name"), (spec, "language")) if isinstance(record, dict)]
    language = next((item.lower() for item in languages if isinstance(item, str)), "")
    cells = top["cells"].value
    parsed_cells = tuple(_cell(data, index, cell) for index, cell in enumerate(cells))
    return Notebook(name, parsed_cells, kernel if isinstance(kernel, str) else "", language)


def replace_outputs(
    data: bytes, name: str, index: int, outputs: Sequence[Mapping[str, Any]], execution_count: int | None
) -> bytes:
    """Replace the outputs and the execution count of a cell, and return the new bytes of the file.

    Keys that the cell lacks are added where nbformat puts them. `outputs` are in nbformat's format, in which text is a
    string or a list of lines.

    Raises:
        RefusedError: the file is not a notebook.
    """
    top = _parse_top_level(data, name)
    members = top["cells"].value[index]
    style = _detect_style(top, members)
    stored = [_to_stored_form(output, is_sorted=style.is_sorted) for output in outputs]
    edits = [
        _member_edit(members, "execution_count", json.dumps(execution_count), style),
        _member_edit(members, "outputs", style.to_json(stored), style),
    ]
    # Work from the end, so that positions stay valid. Of two insertions at one position, the second key goes first.
    chunks: list[bytes | memoryview] = []
    unchanged_end = len(data)
    view = memoryview(data)
    for start, end, value in sorted(edits, key=lambda edit: edit[:2], reverse=True):
        chunks += (view[end:unchanged_end], value.encode())
        unchanged_end = start
    return b"".join((view[:unchanged_end], *reversed(chunks)))


def replace_source(text: str, name: str, index: int, source: str) -> str:
    """Replace the source of a cell, and return the new text of the file.

    The source remains a string or a list of lines.

    Raises:
        RefusedError: the text is not a notebook.
    """
    data = text.encode("utf-8", "surrogatepass")
    top = _parse_top_level(data, name)
    members = top["cells"].value[index]
    is_string = "source" in members and data[members["source"].start : members["source"].start + 1] == b'"'
    style = _detect_style(top, members)
    value = source if is_string else source.splitlines(keepends=True)
    start, end, replacement = _member_edit(members, "source", style.to_json(value), style)
    return b"".join((data[:start], replacement.encode(), data[end:])).decode("utf-8", "surrogatepass")


def omission_output(characters: int) -> dict[str, Any]:
    """Return an output that reports the number of omitted characters."""
    text = f"\ncodriver left out the last {characters:,} characters of this cell's outputs, as there were too many\n"
    return {"output_type": "stream", "name": "stderr", "text": text}


def _parse_top_level(data: bytes, name: str) -> dict[str, Member]:
    """Parse the members of a notebook. The value of `cells` is a list with the members of each cell.

    Raises:
        RefusedError: the file is not a notebook.
    """
    start = skip_space(data, len(codecs.BOM_UTF8) if data.startswith(codecs.BOM_UTF8) else 0)
    error_text, position = "", 0
    try:
        top, end = parse_members(
            data, start, {"cells": _parse_elements, "metadata": parse_value, "nbformat": parse_value}
        )
    except JsonError as error:
        error_text, position = error.error_text, error.position
    if error_text:  # not raised in the handler, because the error's traceback references the whole file
        line = data.rfind(b"\n", 0, position) + 1
        column = len(data[line:position].decode(errors="replace")) + 1
        raise not_a_notebook(name, f"line {data.count(10, 0, position) + 1}, column {column}: {error_text}")
    is_at_end = skip_space(data, end) == len(data)
    version = top["nbformat"].value if "nbformat" in top else None
    if not is_at_end or version != 4:
        reason = f"the nbformat is {json.dumps(version)}" if is_at_end else "there is text after the last brace"
        raise not_a_notebook(name, reason)
    if "cells" not in top or not all(top["cells"].value):
        raise not_a_notebook(name, "the document has no cells, or an empty list of them")
    return top


def _parse_elements(data: bytes, position: int) -> tuple[list[dict[str, Member]], int]:
    """Parse an array of objects. Return the members of each, and the position after the array."""
    return parse_array(data, position, lambda data, position: parse_members(data, position, _CELL_PARSERS))


def _outputs(data: bytes, position: int) -> tuple[list[str], int]:
    """Parse the outputs of a cell. Return the type of each, and the position after the outputs."""
    if data[position : position + 1] != b"[":
        return [], skip_value(data, position)[1]
    types, end = parse_array(data, position, _output_type)
    return [kind for kind in types if kind is not None], end


def _output_type(data: bytes, position: int) -> tuple[str | None, int]:
    if data[position : position + 1] != b"{":
        return skip_value(data, position)
    members, end = parse_members(data, position, {"output_type": parse_value})
    kind = members["output_type"].value if "output_type" in members else ""
    return kind if isinstance(kind, str) else "", end


_CELL_PARSERS: Final[Mapping[str, ValueParser]] = MappingProxyType({
    "id": parse_value, "cell_type": parse_value, "execution_count": parse_value, "source": check_value,
    "outputs": _outputs,
})  # fmt: skip
"""Functions that parse the values in a cell. The source is not parsed until it is used."""


def _detect_style(top: Mapping[str, Member], cell: Mapping[str, Member]) -> _Style:
    """Return the style of a cell, derived from the text around its first keys and the file's first key."""
    first, outer = next(iter(cell.values())), next(iter(top.values()))
    further_leads = [member.lead for member in cell.values()][1:]
    colon = first.colon if first.colon.strip() == ":" and "\n" not in first.colon else ": "
    is_sorted = list(cell) == sorted(cell)
    _, has_newline, base = first.lead.rpartition("\n")
    if not has_newline:
        return _Style(None, "", "", f",{further_leads[0] if further_leads else ' '}", colon, is_sorted)
    newline = "\r\n" if "\r\n" in first.lead else "\n"
    return _Style(outer.lead.rpartition("\n")[2], base, newline, ",", colon, is_sorted)


def _member_edit(members: Mapping[str, Member], key: str, value: str, style: _Style) -> tuple[int, int, str]:
    """Return the edit that sets a member to a value: the start and end of the text to replace, and the new text."""
    if member := members.get(key):
        return member.start, member.end, value
    inserted = f'"{key}"{style.colon}{value}'
    following = next((other for name, other in members.items() if name > key), None) if style.is_sorted else None
    if following is not None:
        return following.key, following.key, f"{inserted},{following.lead}"
    last = list(members.values())[-1]
    return last.end, last.end, f",{last.lead}{inserted}"


def _cell(data: bytes, index: int, members: Mapping[str, Member]) -> Cell:
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


def _join_text(text: object) -> str:
    """Join text that nbformat stores as a string or a list of lines. Return an empty string for other values."""
    return "".join(map(str, text)) if isinstance(text, list) else text if isinstance(text, str) else ""


def _to_stored_form(output: Mapping[str, Any], *, is_sorted: bool) -> dict[str, Any]:
    """Convert an output to the form stored by nbformat, with text as lists of lines and without transient data."""
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
    is_text = kind.startswith("text/") or kind in _LINE_LIST_TYPES
    return value.splitlines(keepends=True) if isinstance(value, str) and is_text else value
