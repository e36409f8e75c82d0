"""Interrupt running evaluations by the REPL's own operation or by a restart, after saving the stacks of its threads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import anyio

from codriver.core import actions
from codriver.errors import NOT_CONNECTED, CodriverError, ReplDisconnectedError
from codriver.repls.contract.adapter import Adapter, OpTimedOutError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from codriver.core.dispatch import Core
    from codriver.core.evaluations import Evaluation
    from codriver.log.evaluation_transcripts import Transcripts
    from codriver.repls.contract.stack_trace_values import ThreadDump

RETRY_INTERVAL_S = 0.1
"""Seconds between attempts to interrupt a REPL that claims to be idle."""
REPLY_TIMEOUT_S = 3.0
"""Seconds to wait for the reply to an interrupt."""

STACKS_AT_INPUT_TIMEOUT_S = 0.5
"""Seconds to wait for the stacks of code that is waiting for input.

The limit is short, because the position of such code matters less.
"""


INTERRUPTED_MESSAGE: Final = "the REPL interrupted the evaluation"
"""The message about a confirmed interrupt, which callers omit if the status already implies it."""


class Interrupter:
    """Interrupts evaluations in the REPLs of one server.

    `adapters` maps the ids of connected REPLs to their adapters. `stacks_s` is the number of seconds to wait for
    stacks.
    """

    def __init__(
        self, core: Core, adapters: Mapping[str, Adapter], transcripts: Transcripts, *, stacks_s: float
    ) -> None:
        self._core = core
        self._adapters = adapters
        self._transcripts = transcripts
        self._stacks_s = stacks_s

    async def stop(self, evaluation_id: str, why: str, *, allow_restart: bool, settle_s: float) -> tuple[str, ...]:
        """Interrupt a running evaluation. If that fails and `allow_restart` is set, restart the REPL.

        Wait up to `settle_s` seconds for the evaluation to end. Return messages about what was done and the state of
        the session.
        """
        evaluation = self._core.state.evaluations[evaluation_id]
        repl = self._core.state.repls.get(evaluation.repl)
        if repl is None or repl.profile is None:
            return ("the REPL has ended, and the evaluation with it",)
        self._core.report(actions.StopRequested(evaluation_id, why))
        await self.store_stacks(evaluation_id, evaluation.repl, evaluation.execution_session)
        reports: list[str] = []
        if "interrupt" in repl.profile.capabilities or evaluation.kind == "run-tests":
            reports, over = await self._interrupt_until_over(evaluation_id, settle_s)
            if over:  # the status already implies that the interrupt worked
                return (
                    *(words for words in reports if words != INTERRUPTED_MESSAGE),
                    "the evaluation has ended and the session accepts new ones",
                )
        else:
            reports.append(repl.profile.missing.get("interrupt", "this REPL cannot interrupt evaluations"))
        if not repl.is_owned:
            return (
                *reports,
                "the evaluation is still running. Codriver did not start this REPL, so only its owner can restart it",
            )
        if not allow_restart:
            return (
                *reports,
                (
                    "the evaluation is still running. To restart the REPL, which discards its definitions, call "
                    "interrupt_evaluation with allowRestart: true"
                ),
            )
        self._core.report(actions.RestartRepl(repl.id, why))
        return (*reports, "the REPL is being restarted, and its definitions are lost")

    async def read_stacks(self, evaluation: Evaluation) -> ThreadDump | None:
        """Return the stacks of the REPL's threads, or None if they are not received in time."""
        adapter = self._adapters.get(evaluation.repl)
        with anyio.move_on_after(self._stacks_s):
            return await adapter.dump_threads(evaluation.execution_session) if adapter is not None else None
        return None

    async def store_stacks(self, evaluation_id: str, repl_id: str, session: str) -> None:
        """Store the stacks of the REPL's threads in the evaluation's transcript, before an interrupt discards them."""
        transcript, adapter = self._transcripts.get(evaluation_id), self._adapters.get(repl_id)
        if transcript is None or adapter is None:
            return
        evaluation = self._core.state.evaluations.get(evaluation_id)
        is_reading = evaluation is not None and evaluation.status == "needs-input"
        with anyio.move_on_after(STACKS_AT_INPUT_TIMEOUT_S if is_reading else self._stacks_s):
            dump = await adapter.dump_threads(session)
            if dump is not None:
                transcript.store_stacks(dump.whole, dump.user)

    async def _interrupt_until_over(self, evaluation_id: str, settle_s: float) -> tuple[list[str], bool]:
        """Interrupt an evaluation. Return the REPL's reports and whether the evaluation has finished.

        A REPL that claims to be idle may not have started the code yet, so the interrupt is repeated for up to
        `settle_s` seconds.
        """
        evaluation = self._core.state.evaluations[evaluation_id]
        deadline = anyio.current_time() + settle_s
        while True:
            report, idle = await self._interrupt(evaluation)
            left_s = deadline - anyio.current_time()
            over = await self._has_finished(evaluation_id, min(RETRY_INTERVAL_S, left_s) if idle else left_s)
            if over or not idle or anyio.current_time() >= deadline:
                return [report], over

    async def _interrupt(self, evaluation: Evaluation) -> tuple[str, bool]:
        """Send one interrupt. Return the REPL's report and whether the REPL claims to be idle."""
        adapter = self._adapters.get(evaluation.repl)
        if adapter is None:
            return str(ReplDisconnectedError(NOT_CONNECTED)), False
        try:
            with anyio.fail_after(REPLY_TIMEOUT_S):
                if evaluation.is_others:
                    done = await adapter.interrupt_others()
                else:
                    done = await adapter.interrupt(evaluation.execution_session)
        except (OpTimedOutError, TimeoutError):
            return "the REPL did not answer the interrupt", False
        except CodriverError as error:
            return str(error), False
        words = {
            "interrupted": INTERRUPTED_MESSAGE,
            "requested": "the interrupt was sent to the REPL",
            "idle": "the REPL reports that nothing is running",
        }
        return words[done.outcome] + (f": {done.note}" if done.note else ""), done.outcome == "idle"

    async def _has_finished(self, evaluation_id: str, settle_s: float) -> bool:
        transcript = self._transcripts.get(evaluation_id)
        with anyio.move_on_after(max(0, settle_s)):
            while not self._core.state.evaluations[evaluation_id].is_finished and transcript is not None:
                await transcript.next_change()
        return self._core.state.evaluations[evaluation_id].is_finished
