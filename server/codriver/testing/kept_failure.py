"""The process of the last failed run, and code that is evaluated in the frames of its failure.

There is at most one for a server. It ends before the next run starts, after ten minutes, and with the server.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import anyio

from codriver.core.actions import EvaluationFinished, StopRequested
from codriver.core.values import TEST_JOBS, Failure
from codriver.errors import CodriverError
from codriver.log.output_log import NO_LINE, Category, Entry

if TYPE_CHECKING:
    from anyio.abc import TaskGroup

    from codriver.core.dispatch import Core, RunJob
    from codriver.core.values import Evaluation
    from codriver.log.logbook import Logbook
    from codriver.log.transcripts import Transcripts
    from codriver.testing.runs import KeptProcess

logger = logging.getLogger(__name__)

KEPT_S: Final = 600.0
"""The time for which the process of a failed run is kept."""
STOP_S: Final = 6.0
"""The time for interrupted code to end: after 2 s its process is killed."""


@dataclass(frozen=True, slots=True)
class FrameCode:
    """Code to evaluate in a frame of the failure of a run. `frame`: 0 is the innermost one."""

    run: str
    """The id of the run."""
    frame: int
    code: str


@dataclass(slots=True)
class _Kept:
    run: str
    process: KeptProcess
    dropped: anyio.Event = field(default_factory=anyio.Event)
    over: anyio.Event = field(default_factory=anyio.Event)


@dataclass(slots=True)
class _Evaluating:
    process: KeptProcess | None
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    over: anyio.Event = field(default_factory=anyio.Event)
    is_interrupted: bool = False


class KeptFailure:
    """The owner of that process."""

    def __init__(self, core: Core, tasks: TaskGroup, transcripts: Transcripts, logbook: Logbook) -> None:
        self._core = core
        self._tasks = tasks
        self._transcripts = transcripts
        self._logbook = logbook
        self._kept: _Kept | None = None
        self._evaluating: dict[str, _Evaluating] = {}

    def of(self, run: str) -> KeptProcess | None:
        """Return the process of a run, if it is kept."""
        kept = self._kept
        return kept.process if kept is not None and kept.run == run else None

    def keep(self, run: str, process: KeptProcess) -> None:
        """Keep the process of a run, whose end belongs to this object from now on."""
        self._kept = kept = _Kept(run, process)
        self._tasks.start_soon(self._own, kept)

    async def _own(self, kept: _Kept) -> None:
        try:
            with anyio.move_on_after(KEPT_S):
                await kept.dropped.wait()
        finally:
            if self._kept is kept:
                self._kept = None
            await kept.process.aclose()
            kept.over.set()

    async def drop(self) -> None:
        """End the process, if one is kept, with the code that is evaluated in it; wait until it is gone."""
        kept = self._kept
        for one in list(self._evaluating.values()):
            one.scope.cancel()
        if kept is not None:
            kept.dropped.set()
            await kept.over.wait()

    # Code

    def begin(self, effect: RunJob) -> None:
        """Start to evaluate code in a frame. Its end is always reported."""
        job = effect.request.job
        assert isinstance(job, FrameCode)  # noqa: S101  # whoever makes the request gives it
        evaluating = self._evaluating[effect.request.id] = _Evaluating(self.of(job.run))
        self._tasks.start_soon(self._run, effect.request.id, job, evaluating, effect.max_run_ms / 1000)

    async def _run(self, identity: str, job: FrameCode, evaluating: _Evaluating, most_s: float) -> None:
        ended = EvaluationFinished(identity, "failed", failure=Failure("no-frame", "the process of this run is gone"))
        try:
            with evaluating.scope:
                if evaluating.process is not None:
                    answer = await evaluating.process.evaluate(job.code, job.frame, timeout_s=most_s)
                    ended = self._record(identity, answer)
                    if evaluating.is_interrupted and ended.status == "failed":
                        ended = EvaluationFinished(identity, "interrupted")
        except CodriverError as error:
            ended = EvaluationFinished(identity, "failed", failure=Failure("no-frame", str(error)))
        except Exception as error:
            logger.exception("code in a frame of %s failed", job.run)
            text = f"codriver itself failed: {error!r}"
            ended = EvaluationFinished(identity, "failed", failure=Failure("internal-error", text))
        finally:
            del self._evaluating[identity]
            evaluating.over.set()
            self._core.report(ended)

    def _record(self, identity: str, answer: object) -> EvaluationFinished:
        """Put the texts of an answer into the log and the transcript, and return the end that it is."""
        texts = answer if isinstance(answer, dict) else {}
        who = self._core.state.evaluations[identity].who
        transcript = self._transcripts.get(identity)

        def log(category: Category, text: str) -> None:
            now = self._core.now()
            self._logbook.record(Entry(NO_LINE, category, text, now, who, None, TEST_JOBS, identity))

        if transcript is None:
            return EvaluationFinished(identity, "done")
        if printed := texts.get("output"):
            seen = transcript.out.append(str(printed)) + "".join(rest for rest, _ in transcript.end_streams())
            log("evaluationOutput", seen)
        if "error" in texts:
            message = str(self._transcripts.cleared(str(texts["error"])))
            return EvaluationFinished(identity, "failed", failure=Failure(str(texts.get("type", "")), message))
        log("evaluationResults", transcript.add_value(str(texts.get("value", "")) or "None"))
        return EvaluationFinished(identity, "done")

    async def stop(self, evaluation: Evaluation, why: str) -> tuple[str, ...]:
        """Interrupt code, and wait for its end; what was done, in words."""
        evaluating = self._evaluating.get(evaluation.id)
        if evaluating is None or evaluating.process is None:
            return ("it was over already",)
        self._core.report(StopRequested(evaluation.id, why))
        evaluating.is_interrupted = True
        await evaluating.process.interrupt()
        with anyio.move_on_after(STOP_S):
            await evaluating.over.wait()
        if evaluating.over.is_set():
            return ("it was interrupted",)
        return ("it was interrupted, and is still ending",)
