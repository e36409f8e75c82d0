"""Select the last failure of a session, in whose frames code can be evaluated."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from codriver.core.profiles import PYTHON
from codriver.errors import RefusedError, refused
from codriver.repls.contract.adapter import CapabilityMissingError

if TYPE_CHECKING:
    from codriver.core.evaluations import Evaluation
    from codriver.core.requests import Kind
    from codriver.core.state import State
    from codriver.tools.calls.call import Call
    from codriver.tools.calls.session_choice import Target


def _no_frame(why: str) -> RefusedError:
    """Return the refusal to evaluate in a frame."""
    return refused(
        "no-frame", f"there is no frame to evaluate in: {why}", hint='status with about: "error" numbers the frames'
    )


def last_failed_evaluation(state: State, target: Target, kind: Kind | None = None) -> Evaluation | None:
    """Return the last evaluation of a session that failed. With `kind`, test runs are ignored."""
    session = (target.repl.id, target.session.name)
    failed = [
        evaluation
        for evaluation in state.evaluations.values()
        if evaluation.status == "failed"
        and (evaluation.repl, evaluation.session) == session
        and not (kind and evaluation.kind == "run-tests")
    ]
    # Evaluating in the frames of an error does not replace it as the last one.
    failed = [failure for failure in failed if not failure.is_in_frame]
    return max(failed, key=lambda failure: (failure.finished_at or 0, failure.number), default=None)


def has_test_frames(state: State, run: Evaluation) -> bool:
    """Return whether a REPL still has the frames of a test run, because no other run has started there since."""
    repl = state.repls.get(run.repl)
    runs = [
        evaluation
        for evaluation in state.evaluations.values()
        if evaluation.kind == "run-tests" and evaluation.repl == run.repl
    ]
    newest = max(runs, key=lambda finished_run: finished_run.number, default=None)
    if repl is None or repl.dialect == PYTHON:  # tests of Python run in a process of their own
        return False
    return run.generation == repl.generation and newest is not None and newest.id == run.id


def has_frames(target: Target) -> bool:
    """Return whether code can be evaluated in the frames of this REPL's errors."""
    profile = target.repl.profile
    return profile is not None and "frame" in profile.capabilities


def frame_fields(call: Call, target: Target, number: int) -> dict[str, Any]:
    """Return the request fields for evaluating in a numbered frame of the session's last failure.

    Raises:
        CapabilityMissingError: the REPL retains no frames.
        RefusedError: nothing failed, or the REPL no longer has the frames.
    """
    profile = target.repl.profile
    if not has_frames(target):
        raise CapabilityMissingError("frame", profile.missing.get("frame") if profile is not None else None)
    failed = last_failed_evaluation(call.state, target)
    if failed is None:
        raise _no_frame("nothing failed in this session; Python tests run in a separate process")
    if failed.kind != "run-tests":
        return {"frame": number}
    if target.repl.dialect == PYTHON:
        raise _no_frame("the failed tests ran in a separate process, which has ended")
    if not has_test_frames(call.state, failed):
        raise _no_frame("other tests have run in this REPL since: run the failed test again")
    return {"frame": number, "is_in_test": True}
