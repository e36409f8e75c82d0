"""The tool `list_cells`: list the cells of a notebook, or return the source of one cell."""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING

from pydantic import Field

from codriver import files
from codriver.editing.editable_paths import NotEditableError, editable_path
from codriver.errors import format_count, truncate
from codriver.features.jupyter.cell_arguments import CellName  # pydantic evaluates the annotation
from codriver.features.jupyter.cell_output_writes import CellOutputWrites, content_digest
from codriver.features.jupyter.missing_kernel import describe_missing_kernel
from codriver.features.jupyter.notebook_files import NOTEBOOK_LANGUAGE, parse_notebook, unreadable_notebook
from codriver.features.jupyter.notebook_reading import NotebookReading
from codriver.features.jupyter.notebook_versions import NotebookVersions
from codriver.tools.answers.answer_budget import default_budget, fit_rows
from codriver.tools.calls.answer import STRINGS_SCHEMA, Answer, answer_schema
from codriver.tools.calls.arguments import Arguments
from codriver.tools.calls.tool import Tool

if TYPE_CHECKING:
    from collections.abc import Container
    from pathlib import Path

    from codriver.core.state import Repl, State
    from codriver.features.jupyter.notebook_files import Cell, Notebook
    from codriver.tools.calls.call import Call

MAX_NOTEBOOK_BYTES = 64 * 2**20
"""Maximum size of a notebook in bytes, including its images."""
MIN_LINE_BYTES = 8
"""Minimum size of a cell's line in an answer, such as `"0 code",`."""
MAX_COMPLETE_SOURCE_BYTES = 3000
"""Maximum total size of all cells' sources for an answer to contain them completely."""
MAX_FIRST_LINE_CHARACTERS = 80
"""Maximum displayed length of a cell's first line."""


class ListCellsArguments(Arguments):
    """Arguments of `list_cells`: the notebook, and the cells to list or the cell to read."""

    file_path: str
    cell: CellName | None = Field(None, description="Its source: id, or index from 0.")
    start: int = Field(0, alias="from", ge=0)


async def list_cells(call: Call, arguments: ListCellsArguments) -> Answer:
    """List the cells of a notebook, starting at an index, along with its kernel's session.

    The list is shortened to the size limit for answers. If a cell is named, return its source instead.
    """
    workspace, allow_outside = call.services.workspace, call.services.live.settings.allow_edits_outside_workspace
    read = partial(_read_notebook, workspace, arguments.file_path, allow_outside=allow_outside)
    path, stamp, notebook = await call.services.part(NotebookReading).run(call.client, read)
    call.services.part(NotebookVersions).record_read(call.who(arguments.who), path, stamp)
    edited = call.services.part(CellOutputWrites).edited_cells(path, notebook.cells)
    max_bytes = default_budget(call)
    if arguments.cell is not None:
        return _source_answer(notebook.cell(arguments.cell), edited, arguments.start, max_bytes)
    remaining = notebook.cells[arguments.start :]
    # More lines than this cannot fit, so do not format them.
    is_whole = sum(len(cell.stored_source) for cell in remaining) <= MAX_COMPLETE_SOURCE_BYTES
    lines = [
        _format_cell(cell, edited, is_whole=is_whole)
        for cell in (remaining if is_whole else remaining[: max_bytes // MIN_LINE_BYTES])
    ]
    fitting, _, _ = fit_rows(lines, max_bytes)
    omitted = len(remaining) - len(fitting)
    fields: dict[str, object] = {"cells": fitting, "count": len(notebook.cells)}
    if notebook.kernel:
        fields["kernelspec"] = notebook.kernel
    repl = kernel_for_notebook(call.state, path, workspace)
    if repl is not None:
        fields["sessionKey"] = repl.key
    notes = [f"{omitted} more: list_cells with from {arguments.start + len(fitting)}"] if omitted else []
    if note := describe_missing_kernel(call.state):
        notes.append(note)
    return Answer(fields | ({"notes": notes} if notes else {}))


def _source_answer(cell: Cell, edited: Container[int], start: int, max_bytes: int) -> Answer:
    """Return the source of a cell, starting at a line and shortened to `max_bytes`."""
    lines = cell.source.splitlines(keepends=True)[start:]
    fitting: list[str] = []
    size = 0
    for line in lines:
        size += len(json.dumps(line, ensure_ascii=False).encode("utf-8", "surrogatepass"))
        if fitting and size > max_bytes:
            break
        fitting.append(line)
    source, is_cut = "".join(fitting), False
    if len(fitting) == 1 and size > max_bytes:
        source, is_cut = truncate(source, max_bytes // 4), True
    fields: dict[str, object] = {"cells": [_format_cell(cell, edited)], "source": source}
    left = len(lines) - len(fitting)
    notes = [f"{format_count(left, 'more line')}: from {start + len(fitting)}"] if left else []
    notes += ["the line is too long for an answer"] if is_cut else []
    return Answer(fields | ({"notes": notes} if notes else {}))


def kernel_for_notebook(state: State, notebook: Path, workspace: Path) -> Repl | None:
    """Return a notebook's connected kernel, or None if it has none or more than one."""
    path = notebook.resolve()
    kernels = [
        repl
        for repl in state.repls.values()
        if repl.phase == "connected" and repl.document and (workspace / repl.document).resolve() == path
    ]
    return kernels[0] if len(kernels) == 1 else None


def _format_cell(cell: Cell, edited: Container[int], *, is_whole: bool = False) -> str:
    """Format a cell as a line such as `3 8c1d code [7] import numpy (+2 lines), 1 output, error`.

    In this example, 3 is the cell's index, 8c1d its id, and 7 its execution count. The cells with the indexes in
    `edited` have outputs of earlier code. With `is_whole`, the complete source is included, below the line if it has
    several lines.
    """
    first, *further_lines = cell.source.strip("\n").splitlines() or [""]
    first_line = truncate(first, MAX_FIRST_LINE_CHARACTERS)
    line_count = f" (+{format_count(len(further_lines), 'line')})" if further_lines else ""
    execution = "" if cell.execution_count is None else f" [{cell.execution_count}]"
    if cell.index in edited:
        execution = f" [{'' if cell.execution_count is None else f'{cell.execution_count}, '}edited since]"
    elif cell.type == "code" and cell.execution_count is None and not cell.outputs and cell.source.strip():
        execution = " [not run]"
    outputs = f", {format_count(len(cell.outputs), 'output')}" if cell.outputs else ""
    error = ", error" if cell.has_error else ""
    identification = " ".join(filter(None, (str(cell.index), cell.id, cell.type)))
    if is_whole and further_lines:
        return "\n".join([f"{identification}{execution}{outputs}{error}", first, *further_lines])
    first_line = first if is_whole else f"{first_line}{line_count}"
    return f"{identification}{execution} {first_line}{outputs}{error}".rstrip()


def _read_notebook(workspace: Path, file_path: str, *, allow_outside: bool) -> tuple[Path, bytes, Notebook]:
    """Read a notebook. Return its path, the digest of its content, and the parsed notebook.

    Files outside the workspace require `allow_outside`.

    Raises:
        RefusedError: the file is not a notebook, or must not be read.
    """
    try:
        path = editable_path(workspace, file_path, allow_outside=allow_outside)
        rules = files.FileRules(files.Links.ANY if allow_outside else files.Links.WITHIN, MAX_NOTEBOOK_BYTES)
        data = files.read(path, rules, root=None if allow_outside else workspace)
    except NotEditableError as error:
        raise unreadable_notebook(file_path, str(error)) from error
    except OSError as error:
        raise unreadable_notebook(file_path, error.strerror or "the file cannot be opened") from error
    return path, content_digest(data), parse_notebook(data, path.name)


TOOL = Tool(
    name="list_cells",
    title="List notebook cells",
    description="A notebook's cells: index, id, type, count, source (first line if long); or one source.",
    arguments=ListCellsArguments,
    output=answer_schema(
        cells=STRINGS_SCHEMA, source="string", count="integer", kernelspec="string", sessionKey="string"
    ),
    run=list_cells,
    read_only=True,
    idempotent=True,
    languages=(NOTEBOOK_LANGUAGE,),
    setting="enable_mcp_repl_evaluation",
    search_hint="jupyter notebook cells ids",
)
