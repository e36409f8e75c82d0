"""The failure whose frames code can be evaluated in: the newest of a session, by code or by a test."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from codriver.errors import RefusedError
from codriver.repls.contract.errors import CapabilityMissingError

if TYPE_CHECKING:
    from codriver.core.state import State
    from codriver.core.values import Evaluation, Kind
    from codriver.tools.calls.base import Call
    from codriver.tools.calls.session_choice import Target


class NoFrameError(RefusedError):
    """The session has no frame to evaluate in."""

    reason = "no-frame"

    def __init__(self, why: str) -> None:
        super().__init__(f"there is no frame to evaluate in: {why}", hint="stacktrace numbers the frames there are")


def last_failed(state: State, target: Target, kind: Kind | None = None) -> Evaluation | None:
    """The evaluation of a session that failed last, of any kind or not by running tests."""
    own = (target.repl.id, target.session.name)
    failed = [
        one
        for one in state.evaluations.values()
        if one.status == "failed" and (one.repl, one.session) == own and not (kind and one.kind == "run-tests")
    ]
    # The error whose frames are looked at stays the last one, and tests that ran again are those of before.
    failed = [one for one in failed if not one.is_in_frame and not one.runs_again]
    return max(failed, key=lambda one: (one.ended_at or 0, one.number), default=None)


def keeps_test(state: State, run: Evaluation) -> bool:
    """True where the REPL has the frames of a run of tests: no other run has begun there since."""
    repl = state.repls.get(run.repl)
    runs = [one for one in state.evaluations.values() if one.kind == "run-tests" and one.repl == run.repl]
    newest = max((one for one in runs if not one.is_fresh), key=lambda one: one.number, default=None)
    return repl is not None and run.generation == repl.generation and newest is not None and newest.id == run.id


def has_frames(target: Target) -> bool:
    """True where code can be evaluated in the frames of this REPL's errors."""
    profile = target.repl.profile
    return profile is not None and "frame" in profile.capabilities


def frame_fields(call: Call, target: Target, number: int | None) -> dict[str, Any]:
    """The fields of a request that is evaluated in that frame of the session's newest failure; none without a number.

    Raises:
        CapabilityMissingError: the REPL keeps no frames.
        NoFrameError: nothing failed, or the REPL does not have that failure's frames.
    """
    if number is None:
        return {}
    profile = target.repl.profile
    if not has_frames(target):
        raise CapabilityMissingError("frame", profile.missing.get("frame") if profile is not None else None)
    failed = last_failed(call.state, target)
    if failed is None:
        raise NoFrameError("nothing failed in this session")
    if failed.kind != "run-tests":
        return {"frame": number}
    if failed.is_fresh:
        raise NoFrameError("the tests that failed ran in a new process, which has ended")
    if target.repl.dialect != "python":
        raise NoFrameError("the frames of a test are kept in Python alone: evaluate what the test does")
    if not keeps_test(call.state, failed):
        raise NoFrameError("other tests ran in this REPL since: run the one that fails again")
    return {"frame": number, "is_in_test": True}
