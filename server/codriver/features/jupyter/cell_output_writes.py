"""Write the outputs of notebook cells to their files.

Outputs are written when the evaluation finishes, whether or not a call is waiting for it. They are not written if the
file has changed since the run started, except by other runs of this server.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Final

import anyio
import anyio.to_thread

from codriver.core.records import Recent
from codriver.editing import FilesChangedError
from codriver.editing.file_changes import UnreadableError
from codriver.errors import RefusedError, ReplDisconnectedError
from codriver.features.jupyter.kernels.cell_outputs import CellRuns
from codriver.features.jupyter.notebook_files import omission_output, replace_outputs
from codriver.tools.calls.call import AnswerAddition

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from anyio.abc import TaskGroup

    from codriver.core.dispatch import Core
    from codriver.core.evaluations import Evaluation
    from codriver.editing import Editor
    from codriver.features.jupyter.kernels.cell_outputs import CellRun
    from codriver.features.jupyter.notebook_files import Cell
    from codriver.features.jupyter.notebook_versions import NotebookVersions
    from codriver.log.evaluation_transcripts import Transcripts
    from codriver.repls.supervisor import ReplSupervisor
    from codriver.tools.calls.call import Call

MAX_REMEMBERED_RUNS: Final = 1000
"""Maximum number of runs of cells to remember. The server remembers as many evaluations."""
CHECK_INTERVAL_S: Final = 5.0
"""Maximum time between two checks for the end of an evaluation, which may end without printing anything."""
WRITE_TIMEOUT_S: Final = 10.0
"""Maximum time that an answer waits for a write. After that, it reports that the outputs are still being written."""


@dataclass(slots=True)
class OutputWrite:
    """A pending or finished write of a cell's outputs to its notebook file."""

    path: Path
    display_path: str
    """Path as displayed in answers."""
    index: int
    """Index of the cell, from 0."""
    cell_id: str | None
    source_digest: bytes
    """Digest of the code that runs."""
    stamp: bytes
    """Digest that the file must have. Otherwise, nothing is written."""
    find_open: Callable[[], str | None]
    """Returns the program in which the notebook is open, or None. Waits for servers for at most 2 s."""
    execution_count: int | None = None
    failure: str = ""
    """Reason why nothing was written."""
    finished: anyio.Event = field(default_factory=anyio.Event)


def content_digest(data: bytes) -> bytes:
    """Return a digest of a file's content, used to compare versions of the file."""
    return hashlib.blake2b(data, digest_size=16).digest()


class CellOutputWrites:
    """Writes the outputs of cells to their notebooks when the cells finish.

    One instance exists per server. It remembers the latest `MAX_REMEMBERED_RUNS` writes by evaluation.
    """

    def __init__(
        self,
        tasks: TaskGroup,
        core: Core,
        repls: ReplSupervisor,
        transcripts: Transcripts,
        editor: Editor,
        reads: NotebookVersions,
    ) -> None:
        self._tasks = tasks
        self._reads = reads
        self._core = core
        self._repls = repls
        self._transcripts = transcripts
        self._editor = editor
        self.by_evaluation: Recent[str, OutputWrite] = Recent(MAX_REMEMBERED_RUNS)

    def start(self, evaluation: Evaluation, write: OutputWrite) -> None:
        """Register the notebook cell of an evaluation that has just started.

        A background task writes the outputs when the evaluation finishes.
        """
        self.by_evaluation[evaluation.id] = write
        self._tasks.start_soon(self._follow, evaluation, write)

    def edited_cells(self, path: Path, cells: Iterable[Cell]) -> frozenset[int]:
        """Return the indexes of the cells whose source has changed since the run that wrote their outputs."""
        written = {
            (write.index, write.cell_id): write.source_digest
            for write in self.by_evaluation.values()
            if write.path == path and write.finished.is_set() and not write.failure
        }
        digests = ((cell, written.get((cell.index, cell.id))) for cell in cells if written)
        return frozenset(
            cell.index for cell, digest in digests if digest not in (None, content_digest(cell.stored_source))
        )

    async def describe_cell(self, evaluation: Evaluation) -> tuple[str, str] | None:
        """Return a description of the cell that an evaluation is running, and a note if its outputs were not written.

        The note is empty once the outputs are in the file. If the evaluation has finished, wait for the write first.
        Return None if the evaluation is not running a cell.
        """
        write = self.by_evaluation.get(evaluation.id)
        if write is None:
            return None
        if evaluation.is_finished:
            with anyio.move_on_after(WRITE_TIMEOUT_S):
                await write.finished.wait()
        cell = " ".join(filter(None, (str(write.index), write.cell_id)))
        count = "" if write.execution_count is None else f" [{write.execution_count}]"
        if write.failure:
            note = f"the outputs were not written to {write.display_path}: {write.failure}"
            return f"{cell}{count} of {write.display_path}", note
        if not write.finished.is_set():
            return (
                f"{cell} of {write.display_path}",
                f"the outputs will be written to {write.display_path} when the cell finishes",
            )
        return f"{cell}{count}, written to {write.display_path}", ""

    async def _follow(self, evaluation: Evaluation, write: OutputWrite) -> None:
        transcript = self._transcripts.get(evaluation.id)
        while transcript is not None:
            current = self._core.state.evaluations.get(evaluation.id)
            if current is None or current.is_finished:
                break
            with anyio.move_on_after(CHECK_INTERVAL_S):
                await transcript.next_change()
        # The code has run, so write its outputs even if the server is stopping.
        with anyio.CancelScope(shield=True):
            try:
                write.failure = await self._write_outputs(evaluation, write)
            finally:
                write.finished.set()

    async def _write_outputs(self, evaluation: Evaluation, write: OutputWrite) -> str:
        """Write the outputs to the notebook. Return an empty string, or the reason why they were not written."""
        try:
            cells = self._repls.adapter(evaluation.repl).companion(CellRuns)
            run = None if cells is None else cells.collect(evaluation.id)
        except ReplDisconnectedError:
            run = None
        if run is None or not run.has_started:
            return "the cell did not run, or its kernel has ended, so the file is unchanged"
        write.execution_count = run.execution_count
        try:
            if program := await anyio.to_thread.run_sync(write.find_open):
                return f"the notebook was opened during the run in {program}, which would not show the outputs"
            contents: list[bytes] = []
            await self._editor.rewrite(write.path, partial(_insert_outputs, write, run, contents))
        except FilesChangedError:
            return (
                "the file has changed since the run started, so only this answer has the outputs. To write them, run "
                "the cell again"
            )
        except (RefusedError, UnreadableError) as error:
            return f"{error}, so only this answer has the outputs"
        self._update_expected_digests(write, content_digest(contents[-1]))
        return ""

    def _update_expected_digests(self, finished_write: OutputWrite, stamp: bytes) -> None:
        """Replace the expected digest of the file after a write by Codriver.

        The outputs of other cells in the notebook that are still running can then be written as well, and callers that
        have read the notebook need not read it again.
        """
        old_version = (finished_write.path, finished_write.stamp)
        self._reads.replace(*old_version, stamp)
        for write in self.by_evaluation.values():
            if (write.path, write.stamp) == old_version and not write.finished.is_set():
                write.stamp = stamp


def _insert_outputs(write: OutputWrite, run: CellRun, contents: list[bytes], data: bytes | None) -> bytes:
    """Insert the outputs of a run into the bytes of a notebook file.

    Return the new bytes, and also append them to `contents`.

    Raises:
        FilesChangedError: the file has changed since the run started.
    """
    if data is None or content_digest(data) != write.stamp:
        raise FilesChangedError([write.display_path])
    outputs = [*run.outputs, *([omission_output(run.omitted)] if run.omitted else [])]
    contents.append(replace_outputs(data, write.display_path, write.index, outputs, run.execution_count))
    return contents[-1]


async def describe_cell(call: Call, evaluation: Evaluation) -> AnswerAddition | None:
    """Return an addition to an answer about the cell that an evaluation is running, or None if there is none."""
    writes: CellOutputWrites = call.services.parts[CellOutputWrites]
    if evaluation.id not in writes.by_evaluation:
        return None
    description = await writes.describe_cell(evaluation)
    return (
        None
        if description is None
        else AnswerAddition({"cell": description[0]}, description[1:] if description[1] else ())
    )
