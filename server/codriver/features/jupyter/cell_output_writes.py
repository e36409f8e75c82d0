"""Write the outputs of notebook cells to their files.

Outputs are written when the evaluation finishes, whether or not a call waits for it. They are written only if the file
is as it was when the run started, apart from writes of other runs of this server.
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
from codriver.features.jupyter.notebooks import left_out, with_outputs
from codriver.tools.calls.call import Description

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from anyio.abc import TaskGroup

    from codriver.core.dispatch import Core
    from codriver.core.values import Evaluation
    from codriver.editing import Editor
    from codriver.features.jupyter.notebook_reads import NotebookReads
    from codriver.log.transcripts import Transcripts
    from codriver.repls.contract.adapter_values import CellRun
    from codriver.repls.supervisor import Repls
    from codriver.tools.calls.call import Call

MAX_RUNS: Final = 1000
"""Maximum number of runs whose outcome is remembered, as many as evaluations."""
CHECK_INTERVAL_S: Final = 5.0
SETTLE_S: Final = 10.0
"""How long an answer waits for the disk before it reports that the outputs are still being written."""


@dataclass(slots=True)
class Write:
    """The outputs of one run, and the cell to which they belong."""

    path: Path
    display_path: str
    """Path as displayed in answers."""
    index: int
    """Index of the cell, from 0."""
    cell_id: str | None
    stamp: bytes
    """Stamp of the content that the file must still have."""
    find_open: Callable[[], str | None]
    """Return where a notebook is open, or None if it is closed. May wait for a server, 2 s at most."""
    count: int | None = None
    why_not: str = ""
    """Why nothing was written."""
    over: anyio.Event = field(default_factory=anyio.Event)


def digest_of(data: bytes) -> bytes:
    """Return the stamp of a file's content."""
    return hashlib.blake2b(data, digest_size=16).digest()


class CellWrites:
    """Runs of cells whose outputs are being or have been written, by evaluation. One for the life of a server."""

    def __init__(
        self,
        tasks: TaskGroup,
        core: Core,
        repls: Repls,
        transcripts: Transcripts,
        editor: Editor,
        reads: NotebookReads,
    ) -> None:
        self._tasks = tasks
        self._reads = reads
        self._core = core
        self._repls = repls
        self._transcripts = transcripts
        self._editor = editor
        self.by_evaluation: Recent[str, Write] = Recent(MAX_RUNS)

    def begin(self, evaluation: Evaluation, write: Write) -> None:
        """Write the outputs of an evaluation that has just started when it finishes."""
        self.by_evaluation[evaluation.id] = write
        self._tasks.start_soon(self._follow, evaluation, write)

    async def describe(self, evaluation: Evaluation) -> tuple[str, str] | None:
        """Describe the cell of an evaluation and its file, with a note if the file lacks its outputs.

        The result is None for other code. For a finished evaluation, wait until its outputs are written or cannot be.
        """
        write = self.by_evaluation.get(evaluation.id)
        if write is None:
            return None
        if evaluation.over:
            with anyio.move_on_after(SETTLE_S):
                await write.over.wait()
        about = " ".join(filter(None, (str(write.index), write.cell_id)))
        count = "" if write.count is None else f" [{write.count}]"
        if write.why_not:
            words = f"the outputs were not written to {write.display_path}: {write.why_not}"
            return f"{about}{count} of {write.display_path}", words
        if not write.over.is_set():
            return (
                f"{about} of {write.display_path}",
                f"the outputs will be written to {write.display_path} when it finishes",
            )
        return f"{about}{count}, written to {write.display_path}", ""

    async def _follow(self, evaluation: Evaluation, write: Write) -> None:
        transcript = self._transcripts.get(evaluation.id)
        while transcript is not None:
            current = self._core.state.evaluations.get(evaluation.id)
            if current is None or current.over:
                break
            with anyio.move_on_after(CHECK_INTERVAL_S):
                await transcript.change()
        # The code that ran has to be recorded, even if the server stops now.
        with anyio.CancelScope(shield=True):
            try:
                write.why_not = await self._finish(evaluation, write)
            finally:
                write.over.set()

    async def _finish(self, evaluation: Evaluation, write: Write) -> str:
        """Write the outputs to the notebook, and return the reason of a failure or an empty string."""
        try:
            run = self._repls.adapter(evaluation.repl).cell_run(evaluation.id)
        except ReplDisconnectedError:
            run = None
        if run is None or not run.has_started:
            return "the cell did not run, or its kernel has ended, so the file is unchanged"
        write.count = run.execution_count
        try:
            if where := await anyio.to_thread.run_sync(write.find_open):
                return f"it was opened in {where} during the run, which would not see them"
            made: list[bytes] = []
            await self._editor.rewrite(write.path, partial(_rewritten, write, run, made))
        except FilesChangedError:
            return (
                "it has changed since the run started, so only this answer has them; run the cell again to write them"
            )
        except (RefusedError, UnreadableError) as error:
            return f"{error}; only this answer has them"
        self._expect(write, digest_of(made[-1]))
        return ""

    def _expect(self, done: Write, stamp: bytes) -> None:
        """Make other runs in this file expect its new content."""
        before = (done.path, done.stamp)
        self._reads.follow(*before, stamp)
        for write in self.by_evaluation.values():
            if (write.path, write.stamp) == before and not write.over.is_set():
                write.stamp = stamp


def _rewritten(write: Write, run: CellRun, made: list[bytes], data: bytes | None) -> bytes:
    """Return the content of the file with the outputs, and add it to `made`.

    Raises:
        FilesChangedError: the file has changed.
    """
    if data is None or digest_of(data) != write.stamp:
        raise FilesChangedError([write.display_path])
    outputs = [*run.outputs, *([left_out(run.omitted)] if run.omitted else [])]
    made.append(with_outputs(data, write.display_path, write.index, outputs, run.execution_count))
    return made[-1]


async def describe_cell(call: Call, evaluation: Evaluation) -> Description | None:
    """Return what an answer about an evaluation says of its cell, or None for other code. Called for every answer."""
    writes: CellWrites = call.services.parts[CellWrites]
    if evaluation.id not in writes.by_evaluation:
        return None
    found = await writes.describe(evaluation)
    return None if found is None else Description({"cell": found[0]}, found[1:] if found[1] else ())
