"""Outputs of notebook cells on their way into their files.

They are written at the end of the evaluation, whoever waits for it. They enter a file only if it is as it was when the
run started, apart from the writes of other runs of this server.
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
from codriver.editing.notebooks import left_out, with_outputs
from codriver.errors import RefusedError, ReplDisconnectedError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from anyio.abc import TaskGroup

    from codriver.core.dispatch import Core
    from codriver.core.values import Evaluation
    from codriver.editing import Editor
    from codriver.log.transcripts import Transcripts
    from codriver.repls.contract.adapter_values import CellRun
    from codriver.repls.supervisor import Repls
    from codriver.tools.ledgers.notebook_reads import NotebookReads

KEPT: Final = 1000
"""The runs whose outcome is still told: as many evaluations are remembered."""
LOOK_S: Final = 5.0
SETTLE_S: Final = 10.0
"""How long an answer waits for a disk, before it says that the outputs are still on their way."""


@dataclass(slots=True)
class Write:
    """The outputs of one run, and their place."""

    path: Path
    shown: str
    """The path in the form of answers."""
    index: int
    """The cell's, from 0."""
    cell_id: str | None
    stamp: bytes
    """The stamp of the file's content that the write expects."""
    find_open: Callable[[], str | None]
    """The place where a notebook is open, in words; None for a closed notebook. May wait for a server, 2 s at most."""
    count: int | None = None
    why_not: str = ""
    """The reason why nothing was written, in words."""
    over: anyio.Event = field(default_factory=anyio.Event)


def digest_of(data: bytes) -> bytes:
    """Return the stamp of a file's content."""
    return hashlib.blake2b(data, digest_size=16).digest()


class CellWrites:
    """The runs of cells whose outputs are being written, or were, by evaluation. Lives as long as its server."""

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
        self._writes: Recent[str, Write] = Recent(KEPT)

    def begin(self, evaluation: Evaluation, write: Write) -> None:
        """Write the outputs of an evaluation, just started, at its end."""
        self._writes[evaluation.id] = write
        self._tasks.start_soon(self._follow, evaluation, write)

    async def told(self, evaluation: Evaluation) -> tuple[str, str] | None:
        """The cell and its file in words, and a note if the file lacks its outputs; None for other code.

        A finished evaluation is told once its outputs are written, or cannot be.
        """
        write = self._writes.get(evaluation.id)
        if write is None:
            return None
        if evaluation.over:
            with anyio.move_on_after(SETTLE_S):
                await write.over.wait()
        about = " ".join(filter(None, (str(write.index), write.cell_id)))
        count = "" if write.count is None else f" [{write.count}]"
        if write.why_not:
            words = f"the outputs were not written into {write.shown}: {write.why_not}"
            return f"{about}{count} of {write.shown}", words
        if not write.over.is_set():
            return f"{about} of {write.shown}", f"the outputs are written into {write.shown} when it is over"
        return f"{about}{count}, written into {write.shown}", ""

    async def _follow(self, evaluation: Evaluation, write: Write) -> None:
        transcript = self._transcripts.get(evaluation.id)
        while transcript is not None:
            current = self._core.state.evaluations.get(evaluation.id)
            if current is None or current.over:
                break
            with anyio.move_on_after(LOOK_S):
                await transcript.change()
        # The code that ran has to be known, even if the server stops just now.
        with anyio.CancelScope(shield=True):
            try:
                write.why_not = await self._finish(evaluation, write)
            finally:
                write.over.set()

    async def _finish(self, evaluation: Evaluation, write: Write) -> str:
        """Write the outputs into the notebook; in words the reason of a failure, empty for none."""
        try:
            run = self._repls.adapter(evaluation.repl).cell_run(evaluation.id)
        except ReplDisconnectedError:
            run = None
        if run is None or not run.has_begun:
            return "it did not run, or its kernel is gone, so the file is as it was"
        write.count = run.execution_count
        try:
            if where := await anyio.to_thread.run_sync(write.find_open):
                return f"meanwhile it was opened in {where}, which would not see them"
            made: list[bytes] = []
            await self._editor.rewrite(write.path, partial(_rewritten, write, run, made))
        except FilesChangedError:
            return "it changed since the run began; they are here alone: run the cell again if the file is to have them"
        except (RefusedError, UnreadableError) as error:
            return f"{error}; they are here alone"
        self._expect(write, digest_of(made[-1]))
        return ""

    def _expect(self, done: Write, stamp: bytes) -> None:
        """Let the other runs in this file know its present state."""
        before = (done.path, done.stamp)
        self._reads.follow(*before, stamp)
        for write in self._writes.values():
            if (write.path, write.stamp) == before and not write.over.is_set():
                write.stamp = stamp


def _rewritten(write: Write, run: CellRun, made: list[bytes], data: bytes | None) -> bytes:
    """Return the file with the outputs in it, which is kept in `made` too.

    Raises:
        FilesChangedError: the file has changed.
    """
    if data is None or digest_of(data) != write.stamp:
        raise FilesChangedError([write.shown])
    outputs = [*run.outputs, *([left_out(run.omitted)] if run.omitted else [])]
    made.append(with_outputs(data, write.shown, write.index, outputs, run.execution_count))
    return made[-1]
