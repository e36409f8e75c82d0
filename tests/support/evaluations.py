"""Evaluate through an adapter, and wait for the end that the server is notified of."""

import anyio

from codriver.core.print_limits import NO_PRINT_LIMITS


async def evaluate(adapter, request, limits=NO_PRINT_LIMITS):
    """Evaluate code and return its end. Cancelling stops the wait and not the evaluation."""
    over, endings = anyio.Event(), []

    def ended(how):
        endings.append(how)
        over.set()

    adapter.start_evaluation(request, ended, limits)
    await over.wait()
    (how,) = endings
    if isinstance(how, Exception):
        raise how
    return how
