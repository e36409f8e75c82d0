"""`run_cell`: a notebook's cell runs in the notebook's own kernel, and its outputs go into the file."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from pydantic import Field

from codriver.core import evaluation_queue
from codriver.core.values import NOTEBOOK, Request
from codriver.editing.file_changes import NotEditableError, UnreadableError, editable_path, read, show
from codriver.editing.notebooks import no_notebook, notebook_in
from codriver.errors import RefusedError, refused
from codriver.tools.acts.file_loads import FILE
from codriver.tools.acts.submission import begin, default_limits
from codriver.tools.answers.evaluation_answers import EVALUATION, describe
from codriver.tools.answers.lean_answers import Evaluating
from codriver.tools.calls.base import Answer, Call, Tool, answer_schema
from codriver.tools.calls.evaluation_waits import wait
from codriver.tools.calls.gate import to_have_kernel
from codriver.tools.calls.session_choice import Target, check_tree, resolve
from codriver.tools.edit_files import find_open_notebook
from codriver.tools.ledgers.ledger import Write, digest_of
from codriver.tools.list_cells import CELLS, CellName, kernel_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from codriver.core.state import Repl, State
    from codriver.editing.notebooks import Notebook

MAX_IMAGES = 10


class RunCellArguments(Evaluating):
    """Arguments of `run_cell`."""

    file_path: str
    cell: CellName = Field(description="Id, or index from 0.")
    timeout_ms: int | None = Field(None, ge=100, le=600_000)
    repl_session_key: str | None = None


def _no_kernel(state: State, name: str, kernelspec: str, keys: Sequence[str], why: str) -> RefusedError:
    """The kernel for the notebook's cells is not clear."""
    choice = (
        f"call again with replSessionKey set to one of: {', '.join(keys)}; or, for one of its own, " if keys else ""
    )
    start = to_have_kernel(state, "" if kernelspec == "python3" else kernelspec)
    return refused("no-kernel", f"{name} has no kernel of its own{why}: nothing was run", hint=choice + start)


async def run_cell(call: Call, arguments: RunCellArguments) -> Answer:
    """Run one cell, wait, and tell its standing. Its outputs are written at its end, also after this call."""
    who = call.who(arguments.who)
    workspace, allow_outside = call.services.workspace, call.services.live.settings.allow_edits_outside_workspace
    reading = partial(_read, workspace, arguments.file_path, allow_outside=allow_outside)
    path, stamp, notebook = await call.services.work.notebooks.run(call.client, reading)
    cell = notebook.cell(arguments.cell)
    if cell.type != "code" or not cell.source.strip():
        what = "is blank" if cell.type == "code" else f"is of the type {cell.type}"
        raise refused(
            "no-code",
            f"cell {cell.index} of {path.name} {what}: nothing was run",
            hint="list_cells tells which cells have code",
        )
    if (size := len(cell.source.encode("utf-8", "surrogatepass"))) > FILE.most_bytes:
        raise refused(
            "too-much-code",
            f"cell {cell.index} of {path.name} has {size:,} bytes of code, and {FILE.most_bytes:,} are the most that "
            "is run of a file: nothing was run",
            hint="split the cell, or have its data in a file that the code reads",
        )
    find_open = partial(find_open_notebook, path)
    if where := await call.services.work.files.run(call.client, find_open):
        own = kernel_of(call.state, path, call.services.workspace)
        way = f"evaluate the cell's code in its kernel, with evaluate_code and replSessionKey {own.key}" if own else ""
        raise refused(
            "notebook-open",
            f"{path.name} is open in {where}, whose copy of it would not have the outputs: nothing was run",
            hint=f"{way or 'evaluate its code with evaluate_code'}; the file stays the human's",
        )
    target = _target(call, arguments.repl_session_key, path, notebook)
    check_tree(call, target, who, arguments.repl_session_key)
    shown = show(call.services.workspace, path)
    request = Request(
        id=evaluation_queue.next_id(call.state),
        code=cell.source,
        session=target.session.name,
        file=str(path),
        cell=cell.name,
        description=f"run cell {cell.index} of {shown}",
        default_limits=default_limits(call, target),
    )
    begin(call, target, who, request)
    write = Write(path, shown, cell.index, cell.id, stamp, find_open)
    call.services.ledger.cells.begin(call.state.evaluations[request.id], write)
    del notebook, cell  # not to be held as long as the cell runs
    timeout_ms = arguments.timeout_ms or call.services.live.settings.evaluate_timeout_ms
    current = await wait(call, request.id, timeout_ms / 1000, may_last=True)
    return await describe(call, current, arguments, max_images=MAX_IMAGES)


def _read(workspace: Path, given: str, *, allow_outside: bool) -> tuple[Path, bytes, Notebook]:
    """The notebook's path, the stamp of its content and the notebook itself, of a file that can be written.

    Raises:
        RefusedError: the file is no such notebook.
    """
    try:
        path = editable_path(workspace, given, allow_outside=allow_outside)
        data = read(path, workspace).data
    except (NotEditableError, UnreadableError) as error:
        raise no_notebook(given, str(error)) from error
    if data is None:
        raise no_notebook(given, "there is no such file")
    return path, digest_of(data), notebook_in(data, path.name)


def _target(call: Call, key: str | None, path: Path, notebook: Notebook) -> Target:
    """The session of the notebook's own kernel, else the named one, else the only kernel without a notebook.

    Raises:
        RefusedError: the kernel that is meant is not clear.
    """
    own = kernel_of(call.state, path, call.services.workspace)
    if own is not None:
        if key not in (None, own.key):
            raise refused(
                "ambiguous-session",
                f"{path.name} has the kernel {own.key}, and {key} was named: nothing was run",
                hint=f"leave replSessionKey out, or evaluate the cell's code in {key} with evaluate_code",
            )
        return resolve(call.state, own.key)
    kernels = [repl for repl in call.state.repls.values() if _runs_cells(repl)]
    keys = [repl.key for repl in kernels]
    if key is not None:
        target = resolve(call.state, key)
        if not _runs_cells(target.repl):
            raise _no_kernel(call.state, path.name, notebook.kernel, keys, f", and {key} is no Jupyter kernel")
        return target
    free = [repl.key for repl in kernels if not repl.notebook and not repl.origin.is_merely_found]
    if len(free) != 1:
        raise _no_kernel(call.state, path.name, notebook.kernel, keys, "")
    return resolve(call.state, free[0])


def _runs_cells(repl: Repl) -> bool:
    """Whether the REPL keeps the outputs of cells, or kept them and is on its way back."""
    return CELLS in (repl.profile.capabilities if repl.profile else repl.formerly if repl.is_coming else ())


TOOLS = (
    Tool(
        name="run_cell",
        title="Run notebook cell",
        description="Run a cell of a notebook file in its kernel and write the outputs into the file.",
        arguments=RunCellArguments,
        output=answer_schema(**EVALUATION, cell="string"),
        run=run_cell,
        needs=(CELLS,),
        setting="enable_mcp_repl_evaluation",
        destructive=True,
        open_world=True,
        languages=(NOTEBOOK,),
        search_hint="jupyter notebook execute cell",
    ),
)
