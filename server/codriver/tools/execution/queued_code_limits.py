"""Limit how much code may be running or queued, for each client and in total."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from codriver.errors import RefusedError, refused

if TYPE_CHECKING:
    from collections.abc import Iterable

    from codriver.core.evaluations import Evaluation
    from codriver.core.requests import Request


MAX_CLIENT_BYTES = 32 * 2**20
"""Maximum size of one client's unfinished code: twice the maximum size of a message by default."""
MAX_TOTAL_BYTES = 128 * 2**20
"""Maximum total size of unfinished code across all clients."""
GUARANTEED_CLIENT_BYTES = 64 * 1024
"""Number of bytes of unfinished code that each client may always have, no matter how much the others have.

Together they are 32 MiB for the maximum number of clients.
"""
EVALUATION_OVERHEAD_BYTES = 8 * 1024
"""Number of bytes counted for an evaluation in addition to its code, which limits the number of evaluations."""
FORM_OVERHEAD_BYTES = 200
"""Number of bytes counted for each form in a request in addition to its text."""


def _too_much_code_error(waiting: int, most: int, whose: str) -> RefusedError:
    """Create the error for code that exceeds the limit for one client or for all clients."""
    return refused(
        "too-much-code",
        f"the code was not sent: {waiting:,} bytes of {whose} are already running or queued, and the limit is {most:,}",
        hint="Wait for evaluations to finish, or stop some with interrupt_evaluation. Load large code with load_file.",
        details={"waiting": waiting, "most": most},
    )


def check_limits(unfinished: Iterable[Evaluation], client: str, request: Request) -> None:
    """Check that a request does not exceed the limits on unfinished code.

    A client without unfinished requests may send a request of any size.

    Raises:
        RefusedError: the request exceeds a limit.
    """
    of_client = total = 0
    for evaluation in unfinished:
        if evaluation.request is not None:
            size = request_bytes(evaluation.request)
            total += size
            of_client += size if evaluation.client == client else 0
    more = request_bytes(request)
    if of_client and of_client + more > MAX_CLIENT_BYTES:
        raise _too_much_code_error(of_client, MAX_CLIENT_BYTES, "this client")
    if of_client + more > GUARANTEED_CLIENT_BYTES and total and total + more > MAX_TOTAL_BYTES:
        raise _too_much_code_error(total, MAX_TOTAL_BYTES, "all clients")


def request_bytes(request: Request) -> int:
    """Return the approximate memory size of a queued request, in bytes.

    The forms are only counted, which is fast even for large files.
    """
    code = sys.getsizeof(request.code)
    return EVALUATION_OVERHEAD_BYTES + (2 * code + FORM_OVERHEAD_BYTES * len(request.forms) if request.forms else code)
