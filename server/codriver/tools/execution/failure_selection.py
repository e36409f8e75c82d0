"""Select the last failure of a session, so that code can be evaluated in its frames."""

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


def _no_frame_error(why: str) -> RefusedError:
    """Create the error for a request to evaluate code in a frame that does not exist, for the reason `why`."""
    return refused(
        "no-frame",
        f"there is no frame to evaluate in: {why}",
        hint='status with about: "error" lists the frames with their numbers',
    )


def last_failed_evaluation(state: State, target: Target, kind: Kind | None = None) -> Evaluation | None:
    """Return the last failed evaluation of a session, or None.

    If `kind` is given, test runs are ignored. Evaluations in the frames of an error never count.
    """
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
    """Return whether a REPL still retains the frames of a test run.

    It does until the next test run starts in this REPL. Python tests run in a separate process and leave no frames in
    the REPL.
    """
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


def can_evaluate_in_frames(target: Target) -> bool:
    """Return whether a REPL can evaluate code in the frames of its errors."""
    profile = target.repl.profile
    return profile is not None and "frame" in profile.capabilities


def frame_fields(call: Call, target: Target, number: int) -> dict[str, Any]:
    """Return the request fields that evaluate code in a frame of the session's last failure.

    Raises:
        CapabilityMissingError: the REPL does not retain frames.
        RefusedError: nothing failed, or the REPL no longer has the frames.
    """
    profile = target.repl.profile
    if not can_evaluate_in_frames(target):
        raise CapabilityMissingError("frame", profile.missing.get("frame") if profile is not None else None)
    failed = last_failed_evaluation(call.state, target)
    if failed is None:
        raise _no_frame_error("nothing has failed in this session, and Python tests run in a separate process")
    if failed.kind != "run-tests":
        return {"frame": number}
    if target.repl.dialect == PYTHON:
        raise _no_frame_error("the failed tests ran in a separate process, which has ended")
    if not has_test_frames(call.state, failed):
        raise _no_frame_error("other tests have run in this REPL since the failure. Run the failed test again")
    return {"frame": number, "is_in_test": True}
