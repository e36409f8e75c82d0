"""Evaluations in the REPLs: begun, bounded in time, and their end reported to the core."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from codriver.core import actions
from codriver.core.state import Failure
from codriver.errors import CodriverError, ReplDisconnectedError
from codriver.repls import values

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from codriver.core import effects
    from codriver.repls.base import Adapter
    from codriver.repls.reporting import Reporter
    from codriver.repls.stopping import Stopping

    Spawn = Callable[[str, Callable[[effects.RunEvaluation], Awaitable[None]], effects.RunEvaluation], None]


@dataclass(frozen=True, slots=True)
class Limits:
    """What bounds evaluations: see the settings of the same names."""

    max_run_s: float
    max_length: int
    max_depth: int
    max_value_bytes: int = 32 * 2**20
    """What the REPL is asked to stop printing at: far above what an answer shows, as the rest can be asked for."""


class Running:
    """Runs the evaluations of one server, for its life. `adapters` are those connected at any moment.

    `spawn` does something in a task of its own, whose faults end nothing but itself.
    """

    def __init__(
        self,
        reporter: Reporter,
        adapters: Mapping[str, Adapter],
        stopping: Stopping,
        spawn: Spawn,
        limits: Limits,
    ) -> None:
        self._reporter = reporter
        self._adapters = adapters
        self._stopping = stopping
        self._spawn = spawn
        self.limits = limits
        """What bounds the evaluations that begin from now on."""
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._overlong: dict[str, str] = {}
        """By evaluation that is being ended because it ran too long: that in words."""

    def begin(self, effect: effects.RunEvaluation) -> None:
        """Run it. Its end is reported, whatever happens; by the life of the connection if that ends first."""
        request, limits = effect.request, self.limits
        evaluation = values.Evaluation(
            id=effect.evaluation,
            code=request.code,
            session=effect.session,
            namespace=request.namespace,
            forms=tuple([values.Form(text, line, column) for text, line, column in request.forms]),
            max_length=limits.max_length,
            max_depth=limits.max_depth,
            max_value_bytes=limits.max_value_bytes,
        )
        adapter = self._adapters.get(effect.repl)
        if adapter is None:
            return
        path = (request.path or "") if request.kind == "load-file" else None
        overlong = partial(self._spawn, f"ending the evaluation {effect.evaluation}", self._end_overlong, effect)
        timer = asyncio.get_running_loop().call_later(limits.max_run_s, overlong)
        self._timers[effect.evaluation] = timer
        try:
            adapter.begin(evaluation, partial(self._ended, effect.evaluation), path=path)
        except Exception as error:  # noqa: BLE001  # who waits for its end must be told of it, whatever happened
            # The dispatch that asked for this is not over yet.
            asyncio.get_running_loop().call_soon(self._ended, effect.evaluation, error)

    def _ended(self, evaluation: str, how: values.Ending | Exception) -> None:
        self._timers.pop(evaluation).cancel()
        why = self._overlong.pop(evaluation, None)
        if isinstance(how, ReplDisconnectedError):
            return  # the life of the connection ends all its evaluations at once, with the cause
        try:
            self._reporter.dispatch(_ending(evaluation, how, notes=(why,) if why else ()))
        except Exception as error:  # noqa: BLE001  # as above
            text = self._reporter.fault(f"the evaluation {evaluation}", error)
            failure = Failure("internal-error", f"{text}; the code was sent and may have run, in part or whole")
            self._reporter.dispatch(actions.EvaluationEnded(evaluation, "failed", failure=failure))

    async def _end_overlong(self, effect: effects.RunEvaluation) -> None:
        """It ran longer than anything may: interrupt it, and say so whatever comes of it."""
        why = f"it ran longer than the run limit of {self.limits.max_run_s:g} s"
        await self._stopping.keep_stacks(effect.evaluation, effect.repl, effect.session)
        adapter = self._adapters.get(effect.repl)
        if adapter is None or effect.evaluation not in self._timers:
            return
        self._overlong[effect.evaluation] = f"{why} and was interrupted"
        try:
            done = await adapter.interrupt(effect.session)
        except CodriverError as error:
            text = f"{why} and could not be interrupted: {error}"
            if effect.evaluation in self._overlong:  # it may still end by itself
                self._overlong[effect.evaluation] = text
            self._reporter.dispatch(actions.LatchError("run-limit", text), actions.Say(text, error=True))
            return
        notes = (f"{why} and was interrupted ({done.outcome})", *([done.note] if done.note else []))
        self._reporter.dispatch(actions.EvaluationEnded(effect.evaluation, "interrupted", notes=notes))


def _ending(evaluation: str, how: values.Ending | Exception, *, notes: tuple[str, ...]) -> actions.EvaluationEnded:
    """What to report. A fault of ours is raised again: the words for it are found where it is remembered."""
    if isinstance(how, CodriverError):
        failure = Failure(getattr(how, "reason", type(how).__name__), str(how))
        return actions.EvaluationEnded(evaluation, "failed", failure=failure, notes=notes)
    if isinstance(how, Exception):
        raise how
    failed = how.error and Failure(
        type=how.error.type,
        message=how.error.message,
        phase=how.error.phase,
        file=how.error.file,
        line=how.error.line,
        column=how.error.column,
        form=how.error.form,
        trace=how.error.trace,
    )
    return actions.EvaluationEnded(evaluation, how.status, how.namespace, failed or None, (*how.notes, *notes))
