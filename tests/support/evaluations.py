"""Evaluations through an adapter, for tests: waited for, where the server is told of the end."""

import anyio

from codriver.core.values import NO_LIMITS


async def evaluate(adapter, request, limits=NO_LIMITS):
    """Run code and give its ending. Cancelling stops the waiting, not the work."""
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
