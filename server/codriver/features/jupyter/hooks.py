"""The hooks that add Jupyter to a running server."""

from __future__ import annotations

import os
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from codriver.errors import refused
from codriver.features.jupyter import list_cells, run_cell
from codriver.features.jupyter.cell_arguments import CellOfEdit, StatusArguments
from codriver.features.jupyter.cell_output_writes import CellOutputWrites, content_digest, describe_cell
from codriver.features.jupyter.configured_kernels import check_configured_kernels, configured_kernels, configured_repls
from codriver.features.jupyter.kernel_kind import JUPYTER_PROTOCOL
from codriver.features.jupyter.kernels.jupyter_server_kernels import (
    SERVER_PROTOCOLS,
    ServerKernels,
    describe_start_delay,
)
from codriver.features.jupyter.kernels.kernel_discovery import KernelDiscovery
from codriver.features.jupyter.kernels.kernel_processes import find_process
from codriver.features.jupyter.notebook_edits import apply_to_notebook
from codriver.features.jupyter.notebook_files import NOTEBOOK_LANGUAGE, NOTEBOOK_SUFFIX
from codriver.features.jupyter.notebook_reading import NotebookReading
from codriver.features.jupyter.notebook_versions import NotebookVersions
from codriver.features.jupyter.open_notebooks import find_open_notebook
from codriver.features.jupyter.session_rows import add_notebooks
from codriver.server_hooks import Connectors, Part, ServerHooks
from codriver.tools.calls.arguments import AddedArguments
from codriver.tools.calls.call import CallHooks, StatusSubject
from codriver.tools.calls.gate import run_tool
from codriver.tools.edit_arguments import EditArguments

if TYPE_CHECKING:
    from pathlib import Path

    from anyio.abc import TaskGroup

    from codriver.editing.file_changes import Change
    from codriver.features.jupyter.kernels.named_kernels import NamedKernel
    from codriver.tools.calls.answer import Answer
    from codriver.tools.calls.call import Call, Services


def _server_kernels(services: Services, _tasks: TaskGroup) -> ServerKernels:
    def named_kernels() -> tuple[NamedKernel, ...]:
        return configured_kernels(services.live.settings, os.environ)

    return ServerKernels(
        os.environ,
        services.learn_secret,
        services.transcripts.store.wait_until_written,
        named_kernels,
        services.repls.hooks,
    )


def _discovery(services: Services, _tasks: TaskGroup) -> KernelDiscovery:
    return KernelDiscovery(
        core=services.core,
        workspace=services.workspace,
        environ=os.environ,
        protocols={JUPYTER_PROTOCOL, *SERVER_PROTOCOLS},
        named_ids=services.part(ServerKernels).ids,
    )


def _writes(services: Services, tasks: TaskGroup) -> CellOutputWrites:
    reads = services.part(NotebookVersions)
    return CellOutputWrites(tasks, services.core, services.repls, services.transcripts, services.editor, reads)


def _find_process_id(file: str) -> int | None:
    process = find_process(file)
    return None if process is None else process.id


def guard_notebook(services: Services, who: str, change: Change) -> str:
    """Return an empty string if a caller may edit a notebook, or the reason why not.

    Edits are refused if the caller has read an older version, or if the notebook is open in a Jupyter Server. Blocks
    while querying the servers.
    """
    old_content, path = change.before.data, change.path
    if path.suffix != NOTEBOOK_SUFFIX or old_content is None:
        return ""
    if services.part(NotebookVersions).is_stale(who, path, content_digest(old_content)):
        return "the notebook has changed since you read it. list_cells returns its current cells"
    if program := find_open_notebook(path):
        return f"the notebook is open in {program}, whose copy would lack the edit. Ask your human to close it there"
    return ""


def _forget_read(call: Call, who: str, file: Path) -> None:
    call.services.part(NotebookVersions).forget(who, file)


async def answer_about_cells(call: Call, arguments: Any) -> Answer:
    """Answer a call to `status` with `about: cells` by calling `list_cells`."""
    if arguments.file is None:
        raise refused("bad-arguments", "about: cells requires a notebook", hint="Pass its path as file.")
    addition = call.added_arguments(StatusArguments)
    cell = None if addition is None else addition.cell
    list_arguments = {"filePath": arguments.file, "from": arguments.start, "cell": cell, "who": arguments.who}
    return await run_tool(
        list_cells.TOOL, call, {name: value for name, value in list_arguments.items() if value is not None}
    )


SERVER: Final = ServerHooks(
    tools=(list_cells.TOOL, run_cell.TOOL),
    parts=(
        Part(NotebookVersions, lambda _services, _tasks: NotebookVersions()),
        Part(NotebookReading, lambda _services, _tasks: NotebookReading()),
        Part(CellOutputWrites, _writes),
        Part(ServerKernels, _server_kernels, stop_after_repls=ServerKernels.end),
        Part(KernelDiscovery, _discovery, search=KernelDiscovery.run),
    ),
    connectors=(Connectors(ServerKernels, ServerKernels.connectors, describe_start_delay),),
    named_repls=(configured_repls,),
    checks=(check_configured_kernels,),
    added_arguments=(
        AddedArguments(("status",), StatusArguments),
        AddedArguments((), CellOfEdit, inside=EditArguments),
    ),
    calls=CallHooks(
        sessions=(add_notebooks,),
        describe=(describe_cell,),
        process_of=MappingProxyType({JUPYTER_PROTOCOL: _find_process_id}),
        guards=(guard_notebook,),
        changed=(_forget_read,),
        status_subjects=MappingProxyType(
            {"cells": StatusSubject("cells (of a notebook, with code)", "the notebook", answer_about_cells)}
        ),
    ),
    languages=((NOTEBOOK_LANGUAGE, (NOTEBOOK_SUFFIX,)),),
    edit_languages=((NOTEBOOK_SUFFIX, apply_to_notebook),),
)
