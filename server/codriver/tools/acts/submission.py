"""The submission of code to a session: within the bound of a client's waiting code, its transcript open.

Code can be evaluated in the frames of a session's newest failure, by code or by a test.
"""

from __future__ import annotations

import hashlib
import sys
from typing import TYPE_CHECKING, Any

from codriver.core.actions import Evaluate
from codriver.core.state import queue_at, queue_of
from codriver.core.values import NO_LIMITS, OCCUPYING, PrintLimits, place_of
from codriver.errors import RefusedError, refused
from codriver.repls.contract.adapter import CapabilityMissingError
from codriver.tools.calls.client_traits import traits_of
from codriver.tools.calls.evaluation_waits import ways_out

if TYPE_CHECKING:
    from collections.abc import Iterable

    from codriver.core.state import State
    from codriver.core.values import Evaluation, Kind, Request
    from codriver.tools.calls.call import Call
    from codriver.tools.calls.session_choice import Target


MAX_BYTES_OF_A_CLIENT = 32 * 2**20
"""Two of the longest messages that are read unless `maxLineBytes` says otherwise."""
MAX_BYTES = 128 * 2**20
SURE_BYTES = 64 * 1024
"""The bytes that a client may always have waiting, whatever the others have: 32 MiB for the most clients."""
EVALUATION_BYTES = 8 * 1024
"""An evaluation weighs this much beside its code, so that their number has a bound too."""
FORM_BYTES = 200


def _too_much_code(waiting: int, most: int, whose: str) -> RefusedError:
    """Return the refusal that the code would exceed the most that a client, or all of them, may have waiting."""
    return refused(
        "too-much-code",
        f"the code was not sent: {waiting:,} bytes of {whose} are running or queued, and {most:,} are the most "
        "that is allowed",
        hint="wait for evaluations to end, or end some with interrupt_evaluation; load_file keeps code in a file",
        details={"waiting": waiting, "most": most},
    )


def check_room(unfinished: Iterable[Evaluation], client: str, request: Request) -> None:
    """Check that one more request may wait beside the unfinished. A client without any may send a request of any size.

    Raises:
        RefusedError: the request would be too much.
    """
    own = total = 0
    for evaluation in unfinished:
        if evaluation.request is not None:
            held = weight(evaluation.request)
            total += held
            own += held if evaluation.client == client else 0
    more = weight(request)
    if own and own + more > MAX_BYTES_OF_A_CLIENT:
        raise _too_much_code(own, MAX_BYTES_OF_A_CLIENT, "this client")
    if own + more > SURE_BYTES and total and total + more > MAX_BYTES:
        raise _too_much_code(total, MAX_BYTES, "all clients")


def weight(request: Request) -> int:
    """Return the bytes that a queued request holds, without walking through its forms."""
    code = sys.getsizeof(request.code)
    return EVALUATION_BYTES + (2 * code + FORM_BYTES * len(request.forms) if request.forms else code)


MOST_ELEMENTS, MOST_LEVELS = 100_000, 1000
"""The most of a collection that can be asked for."""


def default_limits(call: Call, target: Target) -> PrintLimits | None:
    """Return the print limits for a client that gives none; None: the settings' count."""
    if not traits_of(call.client_name).reads_whole:
        return None
    # Python prints every collection to an end; a sequence of Lisp may have none.
    return NO_LIMITS if target.repl.dialect == "python" else PrintLimits(MOST_ELEMENTS, MOST_LEVELS)


def check_free(call: Call, target: Target, who: str, *, kind: Kind = "evaluate") -> None:
    """Refuse a request that would wait for an evaluation whose caller, the same, was answered that it runs.

    Raises:
        RefusedError: the caller has such an evaluation.
    """
    state = call.services.core.state
    place = place_of(kind, target.session.name)
    queue = queue_at(state, target.repl.id, place)
    for one in state.unfinished():
        if one.is_answered and one.status in OCCUPYING and queue_of(state, one) == queue and call.is_own(one, who):
            since_s = max(0, call.services.now() - (one.started_at or 0)) // 1000
            how = "waits for input" if one.status == "needs-input" else "runs"
            raise refused(
                "busy",
                f"the code was not sent, and does not run, now or later: your own evaluation {one.id} {how} in "
                f"{target.repl.key}, for {since_s} s",
                hint=", or ".join(ways_out(call, one)),
                details={"evaluationId": one.id},
            )


def begin(call: Call, target: Target, who: str, request: Request) -> None:
    """Ask for an evaluation, whose texts are kept from then on.

    Raises:
        RefusedError: too much waits already, or the evaluation would wait for its own caller.
    """
    state = call.services.core.state
    if state.live:
        if not request.background:
            check_free(call, target, who, kind=request.kind)
        check_room(state.unfinished(), call.client, request)
    code = hashlib.blake2b(request.code.encode("utf-8", "surrogatepass"), digest_size=16).digest()
    place = (request.session, request.namespace, request.frame, request.file, request.cell)
    asked = (target.repl.id, *place, request.kind, code)
    shown = f"load-file {request.file}" if request.file and request.cell is None else request.code
    call.evaluations.append(request.id)
    transcript = call.services.transcripts.open(request.id, asked, shown)
    call.dispatch(Evaluate(target.repl.id, request, transcript.head, target.lane), who=who)
    for sent in call.services.hooks.sent:
        sent(call, target.repl, target.session, request)


def _no_frame(why: str) -> RefusedError:
    """Return the refusal that the session has no frame to evaluate in."""
    return refused(
        "no-frame", f"there is no frame to evaluate in: {why}", hint='status with about: "error" numbers the frames'
    )


def last_failed(state: State, target: Target, kind: Kind | None = None) -> Evaluation | None:
    """Return the evaluation of a session that failed last, of any kind, or of any but runs of tests."""
    own = (target.repl.id, target.session.name)
    failed = [
        one
        for one in state.evaluations.values()
        if one.status == "failed" and (one.repl, one.session) == own and not (kind and one.kind == "run-tests")
    ]
    # The error whose frames are looked at stays the last one.
    failed = [one for one in failed if not one.is_in_frame]
    return max(failed, key=lambda one: (one.finished_at or 0, one.number), default=None)


def keeps_test(state: State, run: Evaluation) -> bool:
    """Return true if the REPL has the frames of a run of tests: no other run has started there since."""
    repl = state.repls.get(run.repl)
    runs = [one for one in state.evaluations.values() if one.kind == "run-tests" and one.repl == run.repl]
    newest = max((one for one in runs if not one.is_fresh), key=lambda one: one.number, default=None)
    return repl is not None and run.generation == repl.generation and newest is not None and newest.id == run.id


def has_frames(target: Target) -> bool:
    """Return true if code can be evaluated in the frames of this REPL's errors."""
    profile = target.repl.profile
    return profile is not None and "frame" in profile.capabilities


def frame_fields(call: Call, target: Target, number: int) -> dict[str, Any]:
    """The fields of a request that is evaluated in the given frame of the session's newest failure.

    Raises:
        CapabilityMissingError: the REPL keeps no frames.
        RefusedError: there is no failure, or the REPL does not have its frames.
    """
    profile = target.repl.profile
    if not has_frames(target):
        raise CapabilityMissingError("frame", profile.missing.get("frame") if profile is not None else None)
    failed = last_failed(call.state, target)
    if failed is None:
        raise _no_frame("nothing failed in this session; tests of Python run in a process of their own")
    if failed.kind != "run-tests":
        return {"frame": number}
    if failed.is_fresh:
        raise _no_frame("the tests that failed ran in a new process, which has ended")
    if not keeps_test(call.state, failed):
        raise _no_frame("other tests ran in this REPL since: run the one that fails again")
    return {"frame": number, "is_in_test": True}
