"""What features do around calls of the base's tools: see `CallHooks`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from codriver.tools.calls.base import CallHooks

if TYPE_CHECKING:
    from collections.abc import Callable

    from codriver.core.state import Repl
    from codriver.tools.calls.base import Answer, Call


def merged(every: tuple[CallHooks, ...]) -> CallHooks:
    """Return the hooks of several features as one, in their order."""
    return CallHooks(
        prepare=tuple(one for hooks in every for one in hooks.prepare),
        recorders=tuple(one for hooks in every for one in hooks.recorders),
        complete=tuple(one for hooks in every for one in hooks.complete),
        hints=tuple(one for hooks in every for one in hooks.hints),
        failed=tuple(one for hooks in every for one in hooks.failed),
        parts={name: read for hooks in every for name, read in hooks.parts.items()},
    )


def extras_of(call: Call, repl: Repl | None) -> tuple[Any, ...]:
    """Return what features add to a request of this call; most calls add nothing.

    Raises:
        RefusedError: the REPL cannot do what an added argument requests.
    """
    if not call.added:
        return ()
    found = (prepare(call, repl) for prepare in call.services.hooks.prepare)
    return tuple(extra for extra in found if extra is not None)


async def completed(call: Call, answer: Answer, evaluation: str) -> Answer:
    """Return an answer about an evaluation with what features add to it."""
    for complete in call.services.hooks.complete:
        answer = await complete(call, answer, evaluation)
    return answer


def notify_of_failures(call: Call, job: str, handed_out: Callable[[], None] | None) -> None:
    """Call `handed_out`, then notify features that an answer about this run of tests is on its way."""
    if handed_out is not None:
        handed_out()
    for failed in call.services.hooks.failed:
        failed(call, job)
