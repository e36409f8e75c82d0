"""An evaluation by its id: the wait for it, with progress and the reason of its own wait; input for it; its stop."""

from __future__ import annotations

import asyncio
import math
from time import monotonic
from typing import TYPE_CHECKING

import anyio

from codriver.core import caller_names
from codriver.core.actions import CancelQueued, InputGiven, InputRequested
from codriver.core.state import holder
from codriver.errors import RefusedError, refused

if TYPE_CHECKING:
    from codriver.core.state import State
    from codriver.core.values import Evaluation
    from codriver.log.transcripts import Transcript
    from codriver.tools.calls.call import Call

PROGRESS_CHARACTERS = 200


def evaluation_of(state: State, given: str) -> Evaluation:
    """Return the evaluation with the id `given`.

    Raises:
        RefusedError: there is no such evaluation, or it is forgotten.
    """
    evaluation = state.evaluations.get(given)
    if evaluation is None:
        raise refused(
            "unknown-evaluation",
            f"no evaluation {given!r} is known",
            hint="ids are forgotten after about a thousand evaluations and when the server restarts; "
            "repl_output_log has what was evaluated, its $history also the code of earlier servers",
        )
    return evaluation


async def wait(
    call: Call, evaluation: str, timeout_s: float, *, owns: bool = True, may_last: bool = False
) -> Evaluation:
    """The evaluation when it is over, wants input or waits behind one that does, or `timeout_s` have passed.

    Progress goes out every now and then. When a call that `owns` its evaluation is cancelled, the evaluation is
    stopped: if queued it never runs, if running it is interrupted. A lasting call waits without end if it `may_last`,
    and also while its evaluation wants input that the client is asked for.
    """
    core, durations, lasting = call.services.core, call.services.durations, call.lasting if owns else None
    transcript = call.services.transcripts.get(evaluation)
    began = told = monotonic()
    deadline = math.inf if lasting is not None and may_last else began + timeout_s
    held_up_since: float | None = None
    try:
        while True:
            current = evaluation_of(core.state, evaluation)
            now = monotonic()
            if lasting is not None:
                lasting.note(current)
            is_asked = lasting is not None and lasting.takes_input
            if current.over or (current.status == "needs-input" and not is_asked):
                return current
            if now >= deadline or transcript is None:
                return current
            is_held_up = current.status == "queued" and lasting is None and _is_behind_input(call, current)
            held_up_since = (held_up_since or now) if is_held_up else None
            if held_up_since is not None and now - held_up_since >= durations.behind_input_s:
                return current
            if now >= told + durations.progress_s:
                told = now
                await call.progress(now - began, _progress(call, evaluation))
            until = min(deadline, told + durations.progress_s)
            await _changed(transcript, min(until, now + durations.behind_input_s) if is_held_up else until)
    except anyio.get_cancelled_exc_class():
        if owns and not (lasting is not None and lasting.is_detached):
            with anyio.move_on_after(2 * durations.settle_s, shield=True):
                await stop(call, evaluation, _why_cancelled(call))
        raise


async def _changed(transcript: Transcript, until: float) -> None:
    """Wait until the evaluation changed, or this moment. Waking all waiting tasks costs less than a cancel scope."""
    timeout = asyncio.get_running_loop().call_later(max(0.0, until - monotonic()), transcript.signal)
    try:
        await transcript.change()
    finally:
        timeout.cancel()


def _is_behind_input(call: Call, evaluation: Evaluation) -> bool:
    """Whether an evaluation waits for another that waits for input, maybe for ever: its callers have to know.

    An evaluation whose client is gone, or whose end was asked for, does not wait for long.
    """
    ahead = holder(call.state, evaluation)
    if ahead is None or ahead.status != "needs-input" or ahead.stop_requested:
        return False
    return ahead.client is None or ahead.client in call.state.clients


def _why_cancelled(call: Call) -> str:
    client = f"its client {call.client_name}" if call.client_name else "its client"
    if call.state.lifecycle.phase != "started":
        return "the server stops"
    return f"{client} left while it ran" if call.has_left() else f"{client} cancelled the call that waited for it"


async def give_input(call: Call, evaluation: Evaluation, text: str) -> None:
    """Give a line to code that reads. The status changes before the line is sent, as the code may at once want another.

    Raises:
        RefusedError: the REPL did not take the line; the evaluation wants input again.
        ReplDisconnectedError: the connection is over, which ends the evaluation.
    """
    _tell(call, InputGiven(evaluation.id))
    try:
        await call.services.repls.adapter(evaluation.repl).send_input(f"{text}\n", evaluation.execution_session)
    except RefusedError:
        _tell(call, InputRequested(evaluation.id))
        raise


def _tell(call: Call, action: InputGiven | InputRequested) -> None:
    """Dispatch an action, and tell the call's follower before the evaluation changes again."""
    call.dispatch(action)
    if call.lasting is not None:
        call.lasting.note(evaluation_of(call.state, action.evaluation))


async def stop(call: Call, evaluation: str, why: str, *, allow_restart: bool = False) -> tuple[str, ...]:
    """End an evaluation by the means at hand, and tell the act in words. Harmless for a finished one."""
    current = evaluation_of(call.state, evaluation)
    if current.status == "queued":
        call.dispatch(CancelQueued(evaluation, f"taken out of the queue before it ran: {why}"))
        return ("it was still queued and was taken out of the queue: its code never ran",)
    if current.over:
        return ("it was over already",)
    settle_s = call.services.durations.settle_s
    if current.is_job:
        return await call.services.tests.stop(current, why)
    return await call.services.repls.stop(evaluation, why, allow_restart=allow_restart, settle_s=settle_s)


def _progress(call: Call, evaluation: str) -> str:
    current = evaluation_of(call.state, evaluation)
    if current.status == "queued":
        return "; ".join(queue_notes(call, current))
    if current.is_test_job:
        return f"test run {evaluation}: {tests_done(call, current)}"
    transcript = call.services.transcripts.get(evaluation)
    # The code in memory in any case: blank space beyond that hides the line, which is only for a glance.
    said = transcript.out.last(10 * PROGRESS_CHARACTERS).text if transcript else ""
    last = said.rstrip().rsplit("\n", 1)[-1][-PROGRESS_CHARACTERS:]
    return f"evaluation {evaluation} is running" + (f"; last output: {last}" if last else "")


def way_to_end(call: Call, evaluation: Evaluation) -> str:
    """Return the means to end a running evaluation, in words, by the abilities of its REPL."""
    repl = call.state.repls.get(evaluation.repl)
    profile = repl.profile if repl is not None else None
    if repl is None or profile is None or "interrupt" in profile.capabilities or evaluation.kind == "run-tests":
        return "interrupt_evaluation"
    if repl.owned or "restart" in profile.capabilities:
        return f"restart_repl ({repl.key} cannot interrupt)"
    return f"a restart where {repl.key} was started (it cannot interrupt)"


def queue_notes(call: Call, evaluation: Evaluation) -> list[str]:
    """Return the reasons why a queued evaluation does not run yet, and the ways out."""
    state = call.state
    if evaluation.is_test_job:
        return _notes_of_waiting_job(call, evaluation)
    repl = state.repls.get(evaluation.repl)
    if repl is not None and repl.phase != "connected":
        why = f": {repl.note}" if repl.note else ""
        return [f"the REPL {repl.key} is not ready yet ({repl.phase}{why}); the code runs as soon as it is"]
    ahead = holder(state, evaluation)
    if ahead is None:
        return ["other evaluations are ahead of it in this session"]
    now = call.services.now()
    since_s = max(0, now - (ahead.started_at or now)) // 1000
    how = ", which waits for input," if ahead.status == "needs-input" else ""
    ways = ways_out(call, ahead)
    is_own = caller_names.is_by_caller(state, evaluation.client, evaluation.who, (ahead.client, ahead.who))
    held = f"your own evaluation {ahead.id}" if is_own else f"evaluation {ahead.id} of {ahead.who}"
    return [f"the session is held by {held}{how} for {since_s} s; {', or '.join(ways)}"]


def _notes_of_waiting_job(call: Call, job: Evaluation) -> list[str]:
    """Say for which test run another one waits, and how far that is."""
    ahead = holder(call.state, job)
    if ahead is None:
        return ["other test runs are ahead of it"]
    since_s = max(0, call.services.now() - (ahead.started_at or 0)) // 1000
    is_own = caller_names.is_by_caller(call.state, job.client, job.who, (ahead.client, ahead.who))
    whose = f"your own test run {ahead.id}" if is_own else f"the test run {ahead.id} of {ahead.who}"
    return [f"{whose} runs for {since_s} s, {tests_done(call, ahead)}"]


def tests_done(call: Call, job: Evaluation) -> str:
    """Say how far a test run is."""
    kept = call.services.tests.report(job.id)
    counts = kept.report.counts if kept is not None else None
    of = counts.collected - counts.deselected if counts is not None else 0
    done = len(kept.report.results) if kept is not None else 0
    return f"{done} of {of} tests are done" if of else f"{done} tests are done"


def ways_out(call: Call, ahead: Evaluation) -> list[str]:
    """Return the ways out for a caller whose session is held by an evaluation."""
    ways = ["give it input with send_input" if ahead.status == "needs-input" else "wait with get_evaluation"]
    ways.append(f"end that one with {way_to_end(call, ahead)}")
    repl = call.state.repls.get(ahead.repl)
    profile = repl.profile if repl is not None else None
    if profile is not None and not profile.is_serial and profile.isolation != "none":
        ways.append("evaluate with isolate: true")
    if profile is not None and profile.runs_concurrently:
        ways.append("run other code beside it with background: true")
    return ways
