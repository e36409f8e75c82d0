"""The tool `run_cell`: run cells of a notebook in its kernel, and write their outputs to the file."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, replace
from functools import partial
from pathlib import PurePath
from typing import TYPE_CHECKING, Literal, Self

import anyio
from pydantic import Field, model_validator

from codriver.core import evaluation_queue
from codriver.core.images import replace_image_data
from codriver.core.requests import Request
from codriver.editing.editable_paths import NotEditableError, editable_path, path_for_display
from codriver.editing.file_changes import UnreadableError, read_snapshot
from codriver.editing.vscode import find_open_editor
from codriver.errors import RefusedError, refused, truncate
from codriver.features.jupyter.cell_arguments import CellName  # noqa: TC001  # pydantic evaluates the annotation
from codriver.features.jupyter.cell_output_writes import CellOutputWrites, OutputWrite, content_digest
from codriver.features.jupyter.kernel_origins import KERNEL_FILE
from codriver.features.jupyter.list_cells import kernel_for_notebook
from codriver.features.jupyter.missing_kernel import CELLS_CAPABILITY, KERNEL_SOURCE, describe_kernel_setup
from codriver.features.jupyter.notebook_files import NOTEBOOK_LANGUAGE, parse_notebook, unreadable_notebook
from codriver.features.jupyter.notebook_reading import NotebookReading
from codriver.features.jupyter.notebook_versions import NotebookVersions
from codriver.features.jupyter.open_notebooks import find_open_notebook
from codriver.tools.answers.answer_notes import with_notes
from codriver.tools.answers.evaluation_answers import EVALUATION_SCHEMA, describe_evaluation
from codriver.tools.answers.lean_answers import Evaluating
from codriver.tools.calls.answer import STRINGS_SCHEMA, Answer, answer_schema
from codriver.tools.calls.arguments import WaitMs  # noqa: TC001  # pydantic evaluates the annotation
from codriver.tools.calls.evaluation_waits import wait_for_evaluation
from codriver.tools.calls.gate import require_editing_allowed
from codriver.tools.calls.session_choice import (
    Target,
    check_working_tree,
    discovered_session_in_use,
    resolve_session,
)
from codriver.tools.calls.tool import Tool
from codriver.tools.execution.source_files import LOADED_FILE_RULES
from codriver.tools.execution.submission import print_limits_for_client, submit
from codriver.tools.restart_repl import RestartArguments, restart_repl

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from codriver.core.state import Repl, State
    from codriver.features.jupyter.notebook_files import Cell, Notebook
    from codriver.tools.calls.call import Call

MAX_ANSWER_IMAGES = 10
"""Maximum number of images in an answer."""
VSCODE_CONNECTION_FILE = re.compile(r"kernel-v\d+-?\w")
"""Matches connection file names from VS Code. Source: `createConnectionFile` in its Jupyter extension."""
MAX_OUTCOME_BYTES = 400
"""Maximum number of bytes read from a cell's value or output for the list of all cells."""
MAX_OUTCOME_CHARACTERS = 80
"""Maximum length of a cell's value in the list of all cells."""
RESTART_TIMEOUT_S = 60.0
"""Maximum time for a kernel to restart before all cells are run."""
DEFAULT_ALL_CELLS_TIMEOUT_MS = 600_000
"""Default time limit for running all cells."""


class RunCellArguments(Evaluating):
    """Arguments of `run_cell`: the notebook, and the cell or cells to run."""

    file_path: str
    cell: CellName | None = Field(None, description="The cell's id, or its index from 0.")
    cells: Literal["all"] | None = Field(
        None, description="Run all cells until one fails. A kernel started by Codriver restarts first."
    )
    restart: bool | None = Field(None, description="Also restart a kernel that somebody else started.")
    timeout_ms: WaitMs | None = None
    repl_session_key: str | None = None

    @model_validator(mode="after")
    def _names_cells(self) -> Self:
        if (self.cell is None) == (self.cells is None):
            raise ValueError("pass either cell or cells, but not both")
        if self.restart is not None and self.cells is None:
            raise ValueError("restart requires cells")
        return self


def _no_kernel_error(state: State, name: str, kernelspec: str, keys: Sequence[str], detail: str) -> RefusedError:
    """Return the error for a notebook without a kernel, or with several kernels that could be used."""
    choice = f"Call again with replSessionKey set to one of: {', '.join(keys)}. For a separate kernel, " if keys else ""
    start = describe_kernel_setup(state, "" if kernelspec == "python3" else kernelspec)
    return refused("no-kernel", f"{name} has no kernel{detail}, so nothing was run", hint=choice + start)


async def run_cell(call: Call, arguments: RunCellArguments) -> Answer:
    """Run one cell or all cells of a notebook.

    The outputs of a cell are written to the file when the cell finishes, even if that is after this call has returned.
    """
    require_editing_allowed("run_cell", call.services.live.settings)
    notebook = await _open_notebook(call, arguments)
    target = _resolve_target(call, arguments.repl_session_key, notebook)
    check_working_tree(call, target, notebook.who, arguments.repl_session_key)
    if arguments.cell is None:
        answer = await _run_all(call, arguments, notebook, target)
    else:
        cell = notebook.content.cell(arguments.cell)
        _check_cell(cell, notebook.path.name)
        evaluation = _start_cell(call, notebook, target, cell)
        timeout_ms = call.wait_ms(arguments.timeout_ms)
        current = await wait_for_evaluation(call, evaluation, timeout_ms / 1000, may_last=True)
        answer = await describe_evaluation(call, current, arguments, max_images=MAX_ANSWER_IMAGES)
    return await _add_editor_note(call, notebook, answer)


@dataclass(frozen=True, slots=True)
class OpenedNotebook:
    """A notebook whose cells may be run.

    It is not open in another program, and has not changed since the caller read it.
    """

    who: str
    path: Path
    display_path: str
    """Path as displayed in answers."""
    stamp: bytes
    """Digest of the file's content."""
    content: Notebook
    find_open: Callable[[], str | None]
    """Returns the program in which the notebook is open, or None."""


async def _open_notebook(call: Call, arguments: RunCellArguments) -> OpenedNotebook:
    """Read a notebook and check that its cells may be run.

    Raises:
        RefusedError: the file is not a writable notebook, is open in another program, or has changed since it was read.
    """
    who, services = call.who(arguments.who), call.services
    allow_outside = services.live.settings.allow_edits_outside_workspace
    read_file = partial(_read_notebook, services.workspace, arguments.file_path, allow_outside=allow_outside)
    path, stamp, content = await services.part(NotebookReading).run(call.client, read_file)
    if services.part(NotebookVersions).is_stale(who, path, stamp):
        raise refused(
            "file-changed",
            f"{path.name} has changed since you read it, so nothing was run or written",
            hint="list_cells returns the current cells.",
        )
    find_open = partial(find_open_notebook, path)
    if program := await services.work.files.run(call.client, find_open):
        kernel = kernel_for_notebook(call.state, path, services.workspace)
        alternative = (
            f"Evaluate the cell's code in its kernel with evaluate_code and replSessionKey {kernel.key}"
            if kernel
            else ""
        )
        raise refused(
            "notebook-open",
            f"{path.name} is open in {program}, which would not show the outputs, so nothing was run",
            hint=f"{alternative or 'Evaluate its code with evaluate_code'}. The file is left unchanged.",
        )
    return OpenedNotebook(who, path, path_for_display(services.workspace, path), stamp, content, find_open)


def _check_cell(cell: Cell, name: str) -> None:
    """Check that a cell is a code cell and is not empty or too long.

    Raises:
        RefusedError: the cell has no code or too much.
    """
    if not _has_code(cell):
        state = "is blank" if cell.type == "code" else f"is of the type {cell.type}"
        raise refused(
            "no-code",
            f"cell {cell.index} of {name} {state}: nothing was run",
            hint="list_cells shows which cells have code.",
        )
    if (size := len(cell.source.encode("utf-8", "surrogatepass"))) > LOADED_FILE_RULES.max_bytes:
        raise refused(
            "too-much-code",
            f"cell {cell.index} of {name} has {size:,} bytes of code, and the limit is "
            f"{LOADED_FILE_RULES.max_bytes:,}: "
            "nothing was run",
            hint="Split the cell, or move its data to a file that the code reads.",
        )


def _has_code(cell: Cell) -> bool:
    return cell.type == "code" and bool(cell.source.strip())


def _start_cell(call: Call, notebook: OpenedNotebook, target: Target, cell: Cell) -> str:
    """Start running a cell, and return the id of the evaluation. Its outputs are written when it finishes."""
    request = Request(
        id=evaluation_queue.next_evaluation_id(call.state),
        code=cell.source,
        session=target.session.name,
        file=str(notebook.path),
        part=cell.name,
        description=f"run cell {cell.index} of {notebook.display_path}",
        default_limits=print_limits_for_client(call, target),
        who=notebook.who,
    )
    submit(call, target, notebook.who, request)
    write = OutputWrite(
        notebook.path,
        notebook.display_path,
        cell.index,
        cell.id,
        content_digest(cell.stored_source),
        notebook.stamp,
        notebook.find_open,
    )
    call.services.part(CellOutputWrites).start(call.state.evaluations[request.id], write)
    return request.id


async def _run_all(call: Call, arguments: RunCellArguments, notebook: OpenedNotebook, target: Target) -> Answer:
    """Run all code cells in order, and list the outcome of each. Stop if one fails or the time is up."""
    cells = [cell for cell in notebook.content.cells if _has_code(cell)]
    for cell in cells:
        _check_cell(cell, notebook.path.name)
    if not cells:
        raise refused("no-code", f"no cell of {notebook.path.name} has code: nothing was run", hint="")
    deadline = anyio.current_time() + (arguments.timeout_ms or DEFAULT_ALL_CELLS_TIMEOUT_MS) / 1000
    fields: dict[str, object] = {"sessionKey": target.repl.key}
    restarts = target.repl.is_owned if arguments.restart is None else arguments.restart
    if restarts:
        target = await _restart(call, arguments, target)
    fields["restarted"] = restarts
    lines: list[str] = []
    for number, cell in enumerate(cells):
        evaluation = _start_cell(call, notebook, target, cell)
        current = await wait_for_evaluation(call, evaluation, max(deadline - anyio.current_time(), 0.1), may_last=True)
        description = await call.services.part(CellOutputWrites).describe_cell(current)
        location = str(description[0] if description else cell.index).partition(f", written to {notebook.display_path}")
        lines.append(f"{location[0]}: {current.status}")
        not_run = [str(cell.index) for cell in cells[number + 1 :]]
        if current.status != "done" or (description and description[1]):
            answer = await describe_evaluation(call, current, arguments, max_images=MAX_ANSWER_IMAGES)
            fields |= {"cells": lines, **({"notRun": not_run} if not_run else {})}
            return replace(answer, fields={**answer.fields, **fields})
        refreshed = partial(_read_notebook, call.services.workspace, arguments.file_path, allow_outside=True)
        _, stamp, _ = await call.services.part(NotebookReading).run(call.client, refreshed)
        notebook = replace(notebook, stamp=stamp)
        if not_run and (outcome := _short_outcome(call, evaluation)):
            lines[-1] = f"{location[0]}: {outcome}"
    answer = await describe_evaluation(call, current, arguments, max_images=MAX_ANSWER_IMAGES)
    return replace(answer, fields={**answer.fields, **fields, "cells": lines})


def _short_outcome(call: Call, evaluation: str) -> str:
    """Return the last line of a cell's value or output, or an empty string. Images are represented by their type."""
    transcript = call.services.transcripts.get(evaluation)
    if transcript is None:
        return ""
    value_start = next((value.start for value in reversed(transcript.values())), 0)
    beginning = transcript.chunk("result", value_start, MAX_OUTCOME_BYTES).text
    without_data = replace_image_data(beginning, lambda image: f"<{image.kind}>")
    if without_data != beginning:
        return truncate(without_data, MAX_OUTCOME_CHARACTERS)
    outputs = (item.last(MAX_OUTCOME_BYTES).text.strip() for item in (transcript.result, transcript.out))
    lines = next((output.splitlines() for output in outputs if output and output != "None"), [""])
    return truncate(lines[-1], MAX_OUTCOME_CHARACTERS)


async def _restart(call: Call, arguments: RunCellArguments, target: Target) -> Target:
    """Restart a session's kernel, and return the session.

    Raises:
        RefusedError: the kernel is not ready in time.
        CapabilityMissingError: Codriver cannot restart this kernel.
    """
    key = target.repl.key
    restart_arguments = {"replSessionKey": key, "timeoutMs": int(RESTART_TIMEOUT_S * 1000), "who": arguments.who}
    await restart_repl(call, RestartArguments.model_validate(restart_arguments))
    return resolve_session(call.state, key)


async def _add_editor_note(call: Call, notebook: OpenedNotebook, answer: Answer) -> Answer:
    """Add a note about unsaved changes if an editor has the notebook's directory open.

    Each caller gets the note only once for each notebook.
    """
    subject = ("editor", notebook.path)
    if not call.services.delivered.notes.is_new(notebook.who, subject):
        return answer
    editor = await call.services.work.files.run(
        call.client, partial(find_open_editor, notebook.path.parent, os.environ)
    )
    if editor is None and any(_was_started_by_vscode(repl) for repl in call.state.repls.values()):
        editor = "VS Code"
    if editor is None:
        return answer
    call.services.delivered.notes.record_received(notebook.who, [subject])
    name = notebook.path.name
    note = (
        f"{editor} has this folder open. Unsaved changes to {name} in {editor} will conflict with the outputs that "
        "were written"
    )
    return replace(answer, fields=with_notes(dict(answer.fields), [note]))


def _was_started_by_vscode(repl: Repl) -> bool:
    """Return whether VS Code started the kernel, judging by the name of its connection file."""
    return repl.origin.kind == KERNEL_FILE and VSCODE_CONNECTION_FILE.match(PurePath(repl.origin.text).name) is not None


def _read_notebook(workspace: Path, file_path: str, *, allow_outside: bool) -> tuple[Path, bytes, Notebook]:
    """Read a notebook. Return its path, the digest of its content, and the parsed notebook.

    Raises:
        RefusedError: the file is not a notebook or must not be edited.
    """
    try:
        path = editable_path(workspace, file_path, allow_outside=allow_outside)
        data = read_snapshot(path, workspace).data
    except (NotEditableError, UnreadableError) as error:
        raise unreadable_notebook(file_path, str(error)) from error
    if data is None:
        raise unreadable_notebook(file_path, "there is no such file")
    return path, content_digest(data), parse_notebook(data, path.name)


def _resolve_target(call: Call, key: str | None, notebook: OpenedNotebook) -> Target:
    """Return the session in which to run a notebook's cells.

    This is the session of the notebook's kernel. If it has none, the session `key` is used, or else the kernel that the
    caller used last if somebody else started it, or else the only kernel that belongs to no notebook.

    Raises:
        RefusedError: no kernel can be used, several could be, or the one that the caller used last has ended.
    """
    path, kernelspec = notebook.path, notebook.content.kernel
    of_notebook = kernel_for_notebook(call.state, path, call.services.workspace)
    if of_notebook is not None:
        if key not in (None, of_notebook.key):
            raise refused(
                "ambiguous-session",
                f"{path.name} has the kernel {of_notebook.key}, but replSessionKey is {key}: nothing was run",
                hint=f"Omit replSessionKey, or evaluate the cell's code in {key} with evaluate_code.",
            )
        return resolve_session(call.state, of_notebook.key)
    kernels = [repl for repl in call.state.repls.values() if _runs_cells(repl)]
    keys = [repl.key for repl in kernels]
    if key is not None:
        target = resolve_session(call.state, key)
        if not _runs_cells(target.repl):
            raise _no_kernel_error(call.state, path.name, kernelspec, keys, f", and {key} is not a Jupyter kernel")
        return target
    last = discovered_session_in_use(call, notebook.who)
    if last is not None and not last.repl.document and _runs_cells(last.repl):
        return last
    free = [repl.key for repl in kernels if not repl.document and not repl.origin.is_discovered_only]
    if len(free) != 1:
        raise _no_kernel_error(call.state, path.name, kernelspec, keys, "")
    return resolve_session(call.state, free[0])


def _runs_cells(repl: Repl) -> bool:
    """Return whether a REPL can run cells, or could before its connection was lost."""
    return CELLS_CAPABILITY in (repl.profile.capabilities if repl.profile else repl.formerly if repl.is_awaited else ())


TOOL = Tool(
    name="run_cell",
    title="Run notebook cell",
    description="Run a cell of a notebook file in its kernel, or all cells, and write the outputs to the file. "
    "edit_files changes a cell's source: cell, oldText, newText.",
    arguments=RunCellArguments,
    output=answer_schema(
        **EVALUATION_SCHEMA, cell="string", cells=STRINGS_SCHEMA, notRun=STRINGS_SCHEMA, restarted="boolean"
    ),
    run=run_cell,
    needs=(CELLS_CAPABILITY,),
    source=KERNEL_SOURCE,
    is_default=True,
    may_be_task=True,
    setting="enable_mcp_repl_evaluation",
    destructive=True,
    open_world=True,
    languages=(NOTEBOOK_LANGUAGE,),
    search_hint="jupyter notebook execute cell",
)
