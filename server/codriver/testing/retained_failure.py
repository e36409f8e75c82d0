"""Retain the process of the last failed run, and evaluate code in the frames of its failure.

A server has at most one such process. It ends before the next run starts, after ten minutes, or with the server.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import anyio

from codriver.core.actions import EvaluationFinished, StopRequested
from codriver.core.evaluations import TEST_JOBS_REPL, Failure
from codriver.errors import CodriverError
from codriver.log.log_entries import UNASSIGNED_LINE, Category, Entry

if TYPE_CHECKING:
    from anyio.abc import TaskGroup

    from codriver.core.dispatch import Core
    from codriver.core.effects import RunJob
    from codriver.core.evaluations import Evaluation
    from codriver.log.evaluation_transcripts import Transcripts
    from codriver.log.logbook import Logbook
    from codriver.testing.runs import RetainedProcess

logger = logging.getLogger(__name__)

RETENTION_S: Final = 600.0
"""How long the process of a failed run is retained, in seconds."""
STOP_TIMEOUT_S: Final = 6.0
"""Maximum time for interrupted code to stop, in seconds. Its process is killed after 2 s."""


@dataclass(frozen=True, slots=True)
class FrameCode:
    """Code to evaluate in a frame of a failure. Frame 0 is the innermost."""

    run: str
    """Id of the run."""
    frame: int
    code: str


@dataclass(slots=True)
class _RetainedRunProcess:
    """The retained process of a failed run, with events that are set when it is dropped and when it has ended."""

    run: str
    process: RetainedProcess
    dropped: anyio.Event = field(default_factory=anyio.Event)
    over: anyio.Event = field(default_factory=anyio.Event)


@dataclass(slots=True)
class _FrameEvaluation:
    """The state of an evaluation in a frame of the retained process."""

    process: RetainedProcess | None
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    over: anyio.Event = field(default_factory=anyio.Event)
    is_interrupted: bool = False


class RetainedFailure:
    """Owns the retained process of the last failed run, and evaluates code in its frames."""

    def __init__(self, core: Core, tasks: TaskGroup, transcripts: Transcripts, logbook: Logbook) -> None:
        self._core = core
        self._tasks = tasks
        self._transcripts = transcripts
        self._logbook = logbook
        self._retained: _RetainedRunProcess | None = None
        self._evaluating: dict[str, _FrameEvaluation] = {}

    def process_of_run(self, run: str) -> RetainedProcess | None:
        """Return the retained process of a run, or None if it is not retained."""
        retained = self._retained
        return retained.process if retained is not None and retained.run == run else None

    def retain(self, run: str, process: RetainedProcess) -> None:
        """Take ownership of the process of a failed run."""
        self._retained = retained = _RetainedRunProcess(run, process)
        self._tasks.start_soon(self._end_when_dropped, retained)

    async def _end_when_dropped(self, retained: _RetainedRunProcess) -> None:
        """End a retained process when it is dropped, or after `RETENTION_S` seconds."""
        try:
            with anyio.move_on_after(RETENTION_S):
                await retained.dropped.wait()
        finally:
            if self._retained is retained:
                self._retained = None
            await retained.process.aclose()
            retained.over.set()

    def start_dropping(self) -> None:
        """Start ending the retained process and the code being evaluated in it, if there are any."""
        for evaluation in list(self._evaluating.values()):
            evaluation.scope.cancel()
        if self._retained is not None:
            self._retained.dropped.set()

    async def drop(self) -> None:
        """End the retained process and the code being evaluated in it, and wait until the process has exited."""
        retained = self._retained
        self.start_dropping()
        if retained is not None:
            await retained.over.wait()

    # Code

    def start_evaluation(self, effect: RunJob) -> None:
        """Start evaluating code in a frame. The end of the evaluation is always reported to the core."""
        job = effect.request.job
        assert isinstance(job, FrameCode)  # noqa: S101  # the caller always sets it
        evaluating = self._evaluating[effect.request.id] = _FrameEvaluation(self.process_of_run(job.run))
        self._tasks.start_soon(self._run, effect.request.id, job, evaluating, effect.max_run_ms / 1000)

    async def _run(self, identity: str, job: FrameCode, evaluating: _FrameEvaluation, most_s: float) -> None:
        """Evaluate code in a frame, and report the end of the evaluation to the core."""
        finished = EvaluationFinished(
            identity, "failed", failure=Failure("no-frame", "the process of this test run has ended")
        )
        try:
            with evaluating.scope:
                if evaluating.process is not None:
                    answer = await evaluating.process.evaluate(job.code, job.frame, timeout_s=most_s)
                    finished = self._record_answer(identity, answer)
                    if evaluating.is_interrupted and finished.status == "failed":
                        finished = EvaluationFinished(identity, "interrupted")
        except CodriverError as error:
            finished = EvaluationFinished(identity, "failed", failure=Failure("no-frame", str(error)))
        except Exception as error:
            logger.exception("code in a frame of %s failed", job.run)
            text = f"internal error in Codriver: {error!r}"
            finished = EvaluationFinished(identity, "failed", failure=Failure("internal-error", text))
        finally:
            del self._evaluating[identity]
            evaluating.over.set()
            self._core.report(finished)

    def _record_answer(self, identity: str, answer: object) -> EvaluationFinished:
        """Add the result of code to the log and the transcript, and return the end of the evaluation."""
        fields = answer if isinstance(answer, dict) else {}
        who = self._core.state.evaluations[identity].who
        transcript = self._transcripts.get(identity)

        def log(category: Category, text: str) -> None:
            now = self._core.now()
            self._logbook.record(Entry(UNASSIGNED_LINE, category, text, now, who, None, TEST_JOBS_REPL, identity))

        if transcript is None:
            return EvaluationFinished(identity, "done")
        if printed := fields.get("output"):
            seen = transcript.out.append(str(printed)) + "".join(rest for rest, _ in transcript.end_streams())
            log("evaluationOutput", seen)
        if "error" in fields:
            message = str(self._transcripts.redact(str(fields["error"])))
            return EvaluationFinished(identity, "failed", failure=Failure(str(fields.get("type", "")), message))
        log("evaluationResults", transcript.add_value(str(fields.get("value", "")) or "None"))
        return EvaluationFinished(identity, "done")

    async def stop(self, evaluation: Evaluation, why: str) -> tuple[str, ...]:
        """Interrupt code in a frame and wait for its end. Return messages that describe the result."""
        evaluating = self._evaluating.get(evaluation.id)
        if evaluating is None or evaluating.process is None:
            return ("the code had already finished",)
        self._core.report(StopRequested(evaluation.id, why))
        evaluating.is_interrupted = True
        await evaluating.process.interrupt()
        with anyio.move_on_after(STOP_TIMEOUT_S):
            await evaluating.over.wait()
        if evaluating.over.is_set():
            return ("the code was interrupted",)
        return ("the code was interrupted, and is still stopping",)
