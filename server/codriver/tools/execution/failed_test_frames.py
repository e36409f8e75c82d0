"""Evaluate code in the frames of the last failed Python test, whose process is retained for this purpose."""

from __future__ import annotations

from typing import TYPE_CHECKING

from codriver.core import evaluation_queue
from codriver.core.actions import StartJob
from codriver.core.evaluations import TEST_JOBS_REPL
from codriver.core.requests import Request
from codriver.errors import refused
from codriver.net.seen_clients import COMMAND_NAME_PREFIX
from codriver.testing.retained_failure import FrameCode
from codriver.tools.execution.queued_code_limits import check_limits

if TYPE_CHECKING:
    from codriver.core.evaluations import Evaluation
    from codriver.errors import RefusedError
    from codriver.tools.calls.call import Call

FRAMES_HINT = "evaluate_code with frame: 0 runs code in the frame that failed, and with frame: 1 in its caller"
PROCESS_EXITED_MESSAGE = (
    "the process of the failed test has ended. It is retained only until the next test run, for at most ten minutes"
)


def last_failed_run(call: Call, who: str, session_key: str | None = None) -> Evaluation | None:
    """Return the test run that is the caller's last failure, or None if another evaluation failed later.

    With `session_key`, only failures in that session are considered.
    """
    is_command_line = call.client_name.startswith(COMMAND_NAME_PREFIX)

    def is_candidate(candidate: Evaluation) -> bool:
        # The command line connects for each call. Another client may have the same name as one that disconnected.
        is_of_earlier_connection = (
            is_command_line and candidate.who == who and candidate.client not in call.state.clients
        )
        if (
            candidate.status != "failed"
            or candidate.is_in_frame
            or not (is_of_earlier_connection or call.belongs_to(candidate, who))
        ):
            return False
        if not candidate.is_job:
            return session_key is None or call.state.evaluation_session_key(candidate) == session_key
        job_report = call.services.tests.report(candidate.id)
        return (
            job_report is not None
            and job_report.job.purpose == "tests"
            and session_key in (None, TEST_JOBS_REPL, job_report.job.session_key)
        )

    failed = [evaluation for evaluation in call.state.evaluations.values() if is_candidate(evaluation)]
    last = max(failed, key=lambda candidate: (candidate.finished_at or 0, candidate.number), default=None)
    return last if last is not None and last.is_job else None


def no_frames_reason(call: Call, run: str) -> str:
    """Explain why code cannot be evaluated in the frames of a run. Return an empty string if it can."""
    if call.services.tests.failure.process_of_run(run) is not None:
        return ""
    job_report = call.services.tests.report(run)
    finished = job_report.report.finished if job_report is not None else None
    return f"no frames: {(finished.why_not_retained if finished is not None else '') or PROCESS_EXITED_MESSAGE}"


def start_in_frame(call: Call, who: str, run: Evaluation, code: str, frame: int, description: str | None) -> str:
    """Start evaluating code in a frame of a failed test, and return the evaluation's id.

    Frame 0 is the innermost one.

    Raises:
        RefusedError: the test's process has ended, or the failure has no such frame.
    """
    process = call.services.tests.failure.process_of_run(run.id)
    if process is None:
        raise _no_frame_error(no_frames_reason(call, run.id))
    if frame >= len(process.frames):
        raise _no_frame_error(
            f"there is no frame {frame}: the failure has {len(process.frames)} frames, and 0 is the innermost"
        )
    identity = evaluation_queue.next_evaluation_id(call.state)
    job = FrameCode(run.id, frame, code)
    request = Request(identity, code, frame=frame, description=description, job=job)
    check_limits(call.state.unfinished(), call.client, request)
    call.evaluations.append(identity)
    transcript = call.services.transcripts.open(identity, code=code)
    call.dispatch(StartJob(request, transcript.head), who=who)
    return identity


def _no_frame_error(why: str) -> RefusedError:
    """Create the error for a request to evaluate code in a frame that does not exist, for the reason `why`."""
    return refused(
        "no-frame",
        why,
        hint='Run only the failed test. Then status with about: "error" lists its frames with their numbers.',
    )
