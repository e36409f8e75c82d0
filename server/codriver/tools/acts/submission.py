"""The submission of code to a session: within what a client may have waiting, with its transcript open."""

from __future__ import annotations

import hashlib
import sys
from typing import TYPE_CHECKING

from codriver.core.actions import Evaluate
from codriver.core.state import queue_at, queue_of
from codriver.core.values import HELD, NO_LIMITS, PrintLimits, place_of
from codriver.errors import RefusedError
from codriver.tools.calls.client_traits import traits_of
from codriver.tools.calls.evaluation_waits import ways_out
from codriver.tools.truth.conflicts import note_sent

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from codriver.core.values import Evaluation, Kind, Request
    from codriver.tools.calls.base import Call
    from codriver.tools.calls.session_choice import Target

MAX_BYTES_OF_A_CLIENT = 32 * 2**20
"""Two of the longest messages that are read unless `maxLineBytes` says otherwise."""
MAX_BYTES = 128 * 2**20
SURE_BYTES = 64 * 1024
"""A client may have so much, however much the others have: 32 MiB for as many clients as there may be."""
EVALUATION_BYTES = 8 * 1024
"""An evaluation weighs this much beside its code, so that their number has a bound too."""
FORM_BYTES = 200


class TooMuchCodeError(RefusedError):
    """The code would be more than a client, or all of them, may have waiting."""

    reason = "too-much-code"

    def __init__(self, waiting: int, most: int, whose: str) -> None:
        super().__init__(
            f"the code was not sent: {waiting:,} bytes of {whose} are running or queued, and {most:,} are the most "
            "that is allowed",
            hint="wait for evaluations to end, or end some with interrupt_evaluation; load_file keeps code in a file",
            details={"waiting": waiting, "most": most},
        )


def check_room(unfinished: Iterable[Evaluation], client: str, request: Request) -> None:
    """Whether one more request may be queued beside what has not ended. A client with none there may send any one.

    Raises:
        TooMuchCodeError: it would be too much.
    """
    own = total = 0
    for evaluation in unfinished:
        if evaluation.request is not None:
            held = weight(evaluation.request)
            total += held
            own += held if evaluation.client == client else 0
    more = weight(request)
    if own and own + more > MAX_BYTES_OF_A_CLIENT:
        raise TooMuchCodeError(own, MAX_BYTES_OF_A_CLIENT, "this client")
    if own + more > SURE_BYTES and total and total + more > MAX_BYTES:
        raise TooMuchCodeError(total, MAX_BYTES, "all clients")


def weight(request: Request) -> int:
    """The bytes that a queued request holds, without walking through its forms."""
    code = sys.getsizeof(request.code) + sys.getsizeof(request.trial)
    return EVALUATION_BYTES + (2 * code + FORM_BYTES * len(request.forms) if request.forms else code)


MOST_ELEMENTS, MOST_LEVELS = 100_000, 1000
"""The most of a collection that can be asked for."""


def default_limits(call: Call, target: Target) -> PrintLimits | None:
    """The limits to which a value is printed for who does not say; None where that is the settings' to say."""
    if not traits_of(call.client_name).reads_whole:
        return None
    # Python prints no collection without an end; a sequence of Lisp may have none.
    return NO_LIMITS if target.repl.dialect == "python" else PrintLimits(MOST_ELEMENTS, MOST_LEVELS)


class BusyError(RefusedError):
    """The code would wait for an evaluation of its own caller, who knows that it runs."""

    reason = "busy"

    def __init__(self, held: Evaluation, key: str, since_s: int, ways: Sequence[str]) -> None:
        how = "waits for input" if held.status == "needs-input" else "runs"
        super().__init__(
            f"the code was not sent, and does not run, now or later: your own evaluation {held.id} {how} in {key}, "
            f"for {since_s} s",
            hint=", or ".join(ways),
            details={"evaluationId": held.id},
        )


def check_free(call: Call, target: Target, who: str, *, kind: Kind = "evaluate") -> None:
    """Refuse what would wait for an evaluation of its own caller who was answered that it runs.

    Raises:
        BusyError: there is one.
    """
    state = call.services.core.state
    place = place_of(kind, target.session.name)
    queue = queue_at(state, target.repl.id, place)
    for one in state.unfinished():
        if one.is_answered and one.status in HELD and queue_of(state, one) == queue and call.is_own(one, who):
            since_s = max(0, call.services.now() - (one.started_at or 0)) // 1000
            raise BusyError(one, target.repl.key, since_s, ways_out(call, one))


def begin(call: Call, target: Target, who: str, request: Request) -> None:
    """Ask for an evaluation, whose texts are kept from now on.

    Raises:
        TooMuchCodeError: too much waits already.
        BusyError: it would wait for its own caller.
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
    transcript = call.services.transcripts.open(request.id, asked, shown)
    call.dispatch(Evaluate(target.repl.id, request, transcript.head, target.lane), who=who)
    note_sent(call, target, who, request)
