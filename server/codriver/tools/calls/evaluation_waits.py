"""Find an evaluation by its id, wait for it, send it input, and stop it."""

from __future__ import annotations

import asyncio
import math
from time import monotonic
from typing import TYPE_CHECKING

import anyio

from codriver.core import caller_names
from codriver.core.actions import CancelQueued, InputRequested, InputSent
from codriver.core.state import queue_occupant
from codriver.errors import RefusedError, refused

if TYPE_CHECKING:
    from codriver.core.evaluations import Evaluation
    from codriver.core.state import State
    from codriver.log.evaluation_transcripts import Transcript
    from codriver.tools.calls.call import Call

MAX_PROGRESS_CHARACTERS = 200
"""Maximum number of characters of output in a progress message."""


def find_evaluation(state: State, given: str) -> Evaluation:
    """Return the evaluation with the given id.

    Raises:
        RefusedError: no evaluation with this id is known.
    """
    evaluation = state.evaluations.get(given)
    if evaluation is None:
        raise refused(
            "unknown-evaluation",
            f"no evaluation {given!r} is known",
            hint="Ids are discarded after about a thousand evaluations, and when the server restarts. repl_output_log "
            "still has the code and output, and its source $history has the code sent to earlier servers.",
        )
    return evaluation


async def wait_for_evaluation(
    call: Call, evaluation: str, timeout_s: float, *, owns: bool = True, may_last: bool = False
) -> Evaluation:
    """Wait for an evaluation, and return its current state.

    Waiting ends when the evaluation finishes, needs input, or is queued behind one that needs input, and after
    `timeout_s` seconds. Progress is reported at intervals. If the call is cancelled and `owns` is true, the evaluation
    is stopped. If `may_last` is true, a call whose answer is fetched later waits without a time limit.
    """
    core, durations, lasting = call.services.core, call.services.durations, call.lasting if owns else None
    transcript = call.services.transcripts.get(evaluation)
    started = reported = monotonic()
    deadline = math.inf if lasting is not None and may_last else started + timeout_s
    blocked_since: float | None = None
    try:
        while True:
            current = find_evaluation(core.state, evaluation)
            now = monotonic()
            if lasting is not None:
                lasting.follow_evaluation(current)
            can_provide_input = lasting is not None and lasting.accepts_input
            if current.is_finished or (current.status == "needs-input" and not can_provide_input):
                return current
            if now >= deadline or transcript is None:
                return current
            is_blocked = current.status == "queued" and lasting is None and _is_behind_input(call, current)
            blocked_since = (blocked_since or now) if is_blocked else None
            if blocked_since is not None and now - blocked_since >= durations.behind_input_s:
                return current
            if now >= reported + durations.progress_s:
                reported = now
                await call.progress(now - started, _describe_progress(call, evaluation))
            until = min(deadline, reported + durations.progress_s)
            await _wait_for_change(transcript, min(until, now + durations.behind_input_s) if is_blocked else until)
    except anyio.get_cancelled_exc_class():
        if owns and not (lasting is not None and lasting.is_detached):
            with anyio.move_on_after(2 * durations.settle_s, shield=True):
                await stop_evaluation(call, evaluation, _describe_cancellation(call))
        raise


async def _wait_for_change(transcript: Transcript, until: float) -> None:
    """Wait until the evaluation changes or the time `until` is reached.

    Waking all waiting tasks is cheaper than a cancel scope.
    """
    timeout = asyncio.get_running_loop().call_later(max(0.0, until - monotonic()), transcript.notify_change)
    try:
        await transcript.next_change()
    finally:
        timeout.cancel()


def _is_behind_input(call: Call, evaluation: Evaluation) -> bool:
    """Return whether an evaluation is queued behind one that may wait for input forever.

    An evaluation whose client has disconnected, or which is being stopped, does not wait much longer.
    """
    ahead = queue_occupant(call.state, evaluation)
    if ahead is None or ahead.status != "needs-input" or ahead.stop_requested:
        return False
    return ahead.client is None or ahead.client in call.state.clients


def _describe_cancellation(call: Call) -> str:
    """Explain why a call was cancelled."""
    client = f"its client {call.client_name}" if call.client_name else "its client"
    if call.state.lifecycle.phase != "started":
        return "the server is stopping"
    how = "disconnected while the code was running" if call.has_left() else "cancelled the call that waited for it"
    return f"{client} {how}"


async def send_line(call: Call, evaluation: Evaluation, text: str) -> None:
    """Send a line of input to an evaluation that is waiting for it.

    The status changes before the line is sent, because the code may request the next line immediately.

    Raises:
        RefusedError: the REPL did not accept the line, and the evaluation still needs input.
        ReplDisconnectedError: the connection was lost, so the evaluation has ended.
    """
    _notify_follower(call, InputSent(evaluation.id))
    try:
        await call.services.repls.adapter(evaluation.repl).send_input(f"{text}\n", evaluation.execution_session)
    except RefusedError:
        _notify_follower(call, InputRequested(evaluation.id))
        raise


def _notify_follower(call: Call, action: InputSent | InputRequested) -> None:
    """Dispatch an action, and report the changed evaluation to the call's follower immediately."""
    call.dispatch(action)
    if call.lasting is not None:
        call.lasting.follow_evaluation(find_evaluation(call.state, action.evaluation))


async def stop_evaluation(call: Call, evaluation: str, why: str, *, allow_restart: bool = False) -> tuple[str, ...]:
    """Stop an evaluation by any available means, and return sentences that describe what was done.

    A finished evaluation is left alone. `why` is the reason that the log records. With `allow_restart`, the REPL may be
    restarted.
    """
    current = find_evaluation(call.state, evaluation)
    if current.status == "queued":
        call.dispatch(CancelQueued(evaluation, f"the code was removed from the queue before it ran: {why}"))
        return ("the code was removed from the queue and never ran",)
    if current.is_finished:
        return ("the code had already finished",)
    settle_s = call.services.durations.settle_s
    if current.is_job:
        return await call.services.tests.stop(current, why)
    return await call.services.repls.stop(evaluation, why, allow_restart=allow_restart, settle_s=settle_s)


def _describe_progress(call: Call, evaluation: str) -> str:
    """Describe the progress of an evaluation: why it is queued, its finished tests, or its last line of output."""
    current = find_evaluation(call.state, evaluation)
    if current.status == "queued":
        return "; ".join(describe_queue(call, current))
    if current.is_test_job:
        return f"test run {evaluation}: {describe_test_progress(call, current)}"
    transcript = call.services.transcripts.get(evaluation)
    # Only text in memory is considered, because this line is just a preview. Blank text may hide it.
    output = transcript.out.last(10 * MAX_PROGRESS_CHARACTERS).text if transcript else ""
    last = output.rstrip().rsplit("\n", 1)[-1][-MAX_PROGRESS_CHARACTERS:]
    return f"evaluation {evaluation} is running" + (f"; last output: {last}" if last else "")


def describe_how_to_stop(call: Call, evaluation: Evaluation) -> str:
    """Describe how the caller can stop a running evaluation, given the capabilities of its REPL."""
    repl = call.state.repls.get(evaluation.repl)
    profile = repl.profile if repl is not None else None
    if repl is None or profile is None or "interrupt" in profile.capabilities or evaluation.kind == "run-tests":
        return "interrupt_evaluation"
    if repl.is_owned or "restart" in profile.capabilities:
        return f"restart_repl ({repl.key} cannot interrupt)"
    return f"restarting {repl.key}, which cannot interrupt, with the program that started it"


def describe_callers_evaluation(evaluation: Evaluation, who: str) -> str:
    """Describe an evaluation as the caller's own, or as one started over the same connection without a `who`."""
    if evaluation.who == who:
        return f"your evaluation {evaluation.id}"
    return f"evaluation {evaluation.id} of {evaluation.who}, started on this connection before a call passed who,"


def describe_queue(call: Call, evaluation: Evaluation) -> list[str]:
    """Explain why a queued evaluation is not running yet, and what the caller can do."""
    state = call.state
    if evaluation.is_test_job:
        return _describe_waiting_job(call, evaluation)
    repl = state.repls.get(evaluation.repl)
    if repl is not None and repl.phase != "connected":
        why = f": {repl.note}" if repl.note else ""
        return [f"the REPL {repl.key} is not ready yet ({repl.phase}{why}). The code runs as soon as the REPL is"]
    ahead = queue_occupant(state, evaluation)
    if ahead is None:
        return ["other evaluations are ahead of this one in the session"]
    now = call.services.now()
    since_s = max(0, now - (ahead.started_at or now)) // 1000
    how = ", which is waiting for input," if ahead.status == "needs-input" else ""
    ways = ways_to_free_session(call, ahead)
    is_same_caller = caller_names.is_by_caller(state, evaluation.client, evaluation.who, (ahead.client, ahead.who))
    occupant = (
        describe_callers_evaluation(ahead, evaluation.who)
        if is_same_caller
        else f"evaluation {ahead.id} of {ahead.who}"
    )
    return [f"the session has been occupied by {occupant}{how} for {since_s} s; {', or '.join(ways)}"]


def _describe_waiting_job(call: Call, job: Evaluation) -> list[str]:
    """Describe the test run that a queued test run is waiting for, and its progress."""
    ahead = queue_occupant(call.state, job)
    if ahead is None:
        return ["other test runs are ahead of this one"]
    since_s = max(0, call.services.now() - (ahead.started_at or 0)) // 1000
    is_same_caller = caller_names.is_by_caller(call.state, job.client, job.who, (ahead.client, ahead.who))
    whose = (
        f"your test run {ahead.id}"
        if is_same_caller and ahead.who == job.who
        else f"the test run {ahead.id} of {ahead.who}"
    )
    return [f"{whose} has been running for {since_s} s, {describe_test_progress(call, ahead)}"]


def describe_test_progress(call: Call, job: Evaluation) -> str:
    """Describe the progress of a test run."""
    job_report = call.services.tests.report(job.id)
    counts = job_report.report.counts if job_report is not None else None
    of = counts.collected - counts.deselected if counts is not None else 0
    done = len(job_report.report.results) if job_report is not None else 0
    return f"{done} of {of} tests are done" if of else f"{done} tests are done"


def ways_to_free_session(call: Call, ahead: Evaluation) -> list[str]:
    """Return the ways in which a caller can deal with an evaluation occupying its session."""
    ways = ["send it input with send_input" if ahead.status == "needs-input" else "wait with get_evaluation"]
    ways.append(f"stop it with {describe_how_to_stop(call, ahead)}")
    repl = call.state.repls.get(ahead.repl)
    profile = repl.profile if repl is not None else None
    if profile is not None and not profile.is_serial and profile.isolation != "none":
        ways.append("evaluate with isolate: true")
    if profile is not None and profile.runs_concurrently:
        ways.append("run other code in parallel with background: true")
    return ways
