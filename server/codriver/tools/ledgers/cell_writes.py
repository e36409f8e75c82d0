"""Outputs of notebook cells on their way into their files: written when the evaluation is over, whoever waits for it.

A file is written only as it was when the run began, but for what other runs of this server wrote into it meanwhile.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Final

import anyio
import anyio.to_thread

from codriver.core.recent import Recent
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
    from codriver.repls.contract.media import CellRun
    from codriver.repls.supervisor import Repls

KEPT: Final = 1000
"""Runs whose outcome is still told: evaluations are forgotten after as many."""
LOOK_S: Final = 5.0
SETTLE_S: Final = 10.0
"""How long an answer waits for a disk, before it says that the outputs are still on their way."""


@dataclass(slots=True)
class Write:
    """The outputs of one run, and the place they go to."""

    path: Path
    shown: str
    """The path as answers show it."""
    index: int
    """The cell's, from 0."""
    cell_id: str | None
    stamp: bytes
    """Of the file's content, as the write expects it."""
    find_open: Callable[[], str | None]
    """The place where a notebook is open, in words; None for a closed one. May wait for a server, 2 s at most."""
    count: int | None = None
    why_not: str = ""
    """Why nothing was written, in words."""
    over: anyio.Event = field(default_factory=anyio.Event)


def stamp_of(data: bytes) -> bytes:
    """The stamp of a file's content."""
    return hashlib.blake2b(data, digest_size=16).digest()


class CellWrites:
    """The runs of cells whose outputs are written, or were, by evaluation. Lives as long as its server."""

    def __init__(self, tasks: TaskGroup, core: Core, repls: Repls, transcripts: Transcripts, editor: Editor) -> None:
        self._tasks = tasks
        self._core = core
        self._repls = repls
        self._transcripts = transcripts
        self._editor = editor
        self._writes: Recent[str, Write] = Recent(KEPT)

    def begin(self, evaluation: Evaluation, write: Write) -> None:
        """Write the outputs of an evaluation, which was just begun, when it is over."""
        self._writes[evaluation.id] = write
        self._tasks.start_soon(self._follow, evaluation, write)

    async def wait_written(self, evaluation: Evaluation) -> None:
        """Wait until the outputs of an evaluation that is over are written, or cannot be."""
        write = self._writes.get(evaluation.id)
        if write is not None and evaluation.over:
            with anyio.move_on_after(SETTLE_S):
                await write.over.wait()

    def told(self, evaluation: str) -> tuple[str, str] | None:
        """The cell and its file in words, and a note where the file does not have its outputs; None for other code."""
        write = self._writes.get(evaluation)
        if write is None:
            return None
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
        # What ran is to be known, also where the server stops just now.
        with anyio.CancelScope(shield=True):
            try:
                write.why_not = await self._finish(evaluation, write)
            finally:
                write.over.set()

    async def _finish(self, evaluation: Evaluation, write: Write) -> str:
        """Write, and say why not where that fails."""
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
        self._expect(write, stamp_of(made[-1]))
        return ""

    def _expect(self, done: Write, stamp: bytes) -> None:
        """Let the other runs in this file know how it is now."""
        before = (done.path, done.stamp)
        for write in self._writes.values():
            if (write.path, write.stamp) == before and not write.over.is_set():
                write.stamp = stamp


def _rewritten(write: Write, run: CellRun, made: list[bytes], data: bytes | None) -> bytes:
    """The file with the outputs in it, which is kept in `made` too.

    Raises:
        FilesChangedError: it is not as it was.
    """
    if data is None or stamp_of(data) != write.stamp:
        raise FilesChangedError([write.shown])
    outputs = [*run.outputs, *([left_out(run.omitted)] if run.omitted else [])]
    made.append(with_outputs(data.decode(), write.shown, write.index, outputs, run.execution_count).encode())
    return made[-1]
