"""Run evaluations: start each one in its REPL, enforce its time limit and report its end to the core."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Final

from codriver.core import actions
from codriver.core.evaluations import Failure
from codriver.core.print_limits import PrintLimits
from codriver.errors import MAY_HAVE_RUN, CodriverError, ReplDisconnectedError
from codriver.repls.contract.adapter import Adapter, SessionNotOpenError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from codriver.core.dispatch import Core
    from codriver.core.effects import RunEvaluation
    from codriver.repls.contract.events import Ending
    from codriver.repls.internal_errors import InternalErrorReporter
    from codriver.repls.interrupt import Interrupter

    Spawn = Callable[[str, Callable[[RunEvaluation], Awaitable[None]], RunEvaluation], None]

MAX_VALUE_BYTES: Final = 32 * 2**20
"""Length in bytes at which a REPL stops printing a value.

It is far longer than an answer, because callers can read more of a value later.
"""


class Runner:
    """Runs a server's evaluations.

    `adapters` maps the ids of connected REPLs to their adapters. `spawn` runs a function in a separate task. `clear`
    removes secrets from failures.
    """

    def __init__(
        self,
        core: Core,
        errors: InternalErrorReporter,
        adapters: Mapping[str, Adapter],
        interrupter: Interrupter,
        spawn: Spawn,
        clear: Callable[[Failure], Failure],
    ) -> None:
        self._core = core
        self._errors = errors
        self._adapters = adapters
        self._interrupter = interrupter
        self._spawn = spawn
        self._clear = clear
        self._running: dict[str, asyncio.TimerHandle] = {}
        """The timer that enforces the time limit of each running evaluation."""
        self._overlong: dict[str, str] = {}
        """Messages that explain why evaluations that exceeded their time limit are being ended."""

    def start_evaluation(self, effect: RunEvaluation) -> None:
        """Start an evaluation. Its end is always reported, at the latest when the connection ends."""
        evaluation = effect.request.id
        adapter = self._adapters.get(effect.repl)
        if adapter is None:
            return
        loop = asyncio.get_running_loop()
        self._running[evaluation] = loop.call_later(effect.max_run_ms / 1000, self._on_overdue, effect)
        on_end = partial(self._finish, evaluation)
        try:
            adapter.start_evaluation(effect.request, on_end, _print_limits(effect))
        except SessionNotOpenError as error:
            if self._opens_session(effect):
                self._spawn(f"opening a session for the evaluation {evaluation}", self._start_in_session, effect)
            else:
                asyncio.get_running_loop().call_soon(on_end, error)
        except Exception as error:  # noqa: BLE001  # callers wait for the end, whatever happened
            # Report it in the next iteration, because the dispatch that caused this call has not returned yet.
            asyncio.get_running_loop().call_soon(on_end, error)

    def _opens_session(self, effect: RunEvaluation) -> bool:
        """Return whether the evaluation's session must be opened first.

        This is the case for background evaluations and for lanes, which are single callers' sessions in a shared REPL.
        """
        if effect.request.background:
            return True
        repl = self._core.state.repls.get(effect.repl)
        session = repl.sessions.get(effect.request.session) if repl else None
        return session is not None and session.lane is not None

    async def _start_in_session(self, effect: RunEvaluation) -> None:
        """Open the session of an evaluation, then run the evaluation in it."""
        evaluation, adapter = effect.request.id, self._adapters.get(effect.repl)
        if adapter is None:
            return
        on_end = partial(self._finish, evaluation)
        try:
            await adapter.open_session(effect.request.session, shares_names=True)
            if evaluation in self._running:
                adapter.start_evaluation(effect.request, on_end, _print_limits(effect))
        except Exception as error:  # noqa: BLE001  # as in `start_evaluation`
            on_end(error)

    def _finish(self, evaluation: str, how: Ending | Exception) -> None:
        self._running.pop(evaluation).cancel()
        why = self._overlong.pop(evaluation, None)
        if isinstance(how, ReplDisconnectedError):
            return  # the connection reports the end of all its evaluations at once, with the cause
        try:
            self._core.report(_finished_action(evaluation, how, self._clear, notes=(why,) if why else ()))
        except Exception as error:  # noqa: BLE001  # as above
            text = self._errors.report(f"the evaluation {evaluation}", error)
            failure = Failure("internal-error", f"{text}. The code was sent and {MAY_HAVE_RUN}")
            self._core.report(actions.EvaluationFinished(evaluation, "failed", failure=failure))

    def _on_overdue(self, effect: RunEvaluation) -> None:
        self._spawn(f"ending the evaluation {effect.request.id}", self._end_overlong, effect)

    async def _end_overlong(self, effect: RunEvaluation) -> None:
        """Interrupt an evaluation that exceeded its time limit, and report the outcome."""
        evaluation = effect.request.id
        session = self._core.state.evaluations[evaluation].execution_session
        why = f"the evaluation ran longer than the run limit of {effect.max_run_ms / 1000:g} s"
        await self._interrupter.store_stacks(evaluation, effect.repl, session)
        adapter = self._adapters.get(effect.repl)
        if adapter is None or evaluation not in self._running:
            return
        self._overlong[evaluation] = f"{why} and was interrupted"
        try:
            done = await adapter.interrupt(session)
        except CodriverError as error:
            text = f"{why} and could not be interrupted: {error}"
            if evaluation in self._overlong:  # the evaluation may still end by itself
                self._overlong[evaluation] = text
            self._core.report(actions.LatchError("run-limit", text), actions.AddServerLine(text, error=True))
            return
        notes = (f"{why} and was interrupted ({done.outcome})", *([done.note] if done.note else []))
        self._core.report(actions.EvaluationFinished(evaluation, "interrupted", notes=notes))


def _print_limits(effect: RunEvaluation) -> PrintLimits:
    """Return the print limits of a request. They default to the caller's limits, or to those in the settings."""
    length, depth = effect.request.max_length, effect.request.max_depth
    default = effect.request.default_limits or PrintLimits(effect.max_length, effect.max_depth)
    return PrintLimits(
        length or default.max_length, depth or default.max_depth, MAX_VALUE_BYTES, length is not None, depth is not None
    )


def _finished_action(
    evaluation: str, how: Ending | Exception, clear: Callable[[Failure], Failure], *, notes: tuple[str, ...]
) -> actions.EvaluationFinished:
    """Create the action that reports the end of an evaluation.

    A `CodriverError` counts as a failure of the evaluation. Other exceptions are raised.
    """
    if isinstance(how, CodriverError):
        failure = Failure(getattr(how, "reason", type(how).__name__), str(how))
        return actions.EvaluationFinished(evaluation, "failed", failure=failure, notes=notes)
    if isinstance(how, Exception):
        raise how
    notes = (*how.notes, *notes)
    cleared = how.failure and clear(how.failure)
    return actions.EvaluationFinished(evaluation, how.status, how.namespace, cleared, notes, how.log_line, how.data)
