"""Room for code that waits in the queues of REPLs: bounded for each client and for all together."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from codriver.errors import RefusedError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from codriver.core.values import Evaluation, Request

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
    """How many bytes a queued request holds, without walking through its forms."""
    code = sys.getsizeof(request.code)
    return EVALUATION_BYTES + (2 * code + FORM_BYTES * len(request.forms) if request.forms else code)
