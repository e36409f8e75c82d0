"""Record calls in an nREPL server for Clojure on the JVM, for evaluations that request it.

Codriver's programs wrap the functions of a project during a run. The wrappers have a lease that this module renews. If
the lease is not renewed, for example because the server was killed, the REPL restores the functions.
"""

from __future__ import annotations

import json
from contextlib import asynccontextmanager, suppress
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

import anyio

from codriver.errors import CodriverError
from codriver.features.traces.recording_request import RUN_REPORT
from codriver.net.task_set import TaskSet
from codriver.repls.contract.events import FeatureReport
from codriver.repls.nrepl.connection_routes import TOOL_SESSION
from codriver.repls.nrepl.replies import parse_program_data
from codriver.repls.programs import Programs, program
from codriver.wire.untrusted import mapping_or_empty, text_or_none

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence
    from pathlib import Path

    from codriver.features.traces.recording_request import RecordingRequest
    from codriver.repls.contract.evaluation_extensions import Rewrite
    from codriver.repls.contract.events import Listener
    from codriver.repls.nrepl.connection import Message
    from codriver.repls.nrepl.probe import ProbeResult
    from codriver.repls.nrepl.session_pool import SessionPool


LEASE_S: Final = 60.0
"""Time within which the lease must be renewed. Otherwise, the REPL drops the programs."""
RENEWALS_PER_LEASE: Final = 4
"""Number of renewals per lease. Several renewals let the lease survive a pause of the REPL, for example for garbage
collection.
"""
PRINT_FIELD: Final = "nrepl.middleware.print/print"
"""The request field that names the print function."""


PROGRAMS_BY_DIALECT: Final = MappingProxyType(
    {
        "clojure": Programs(
            {
                "install": program("clojure/traces.clj", TEXTS=program("clojure/call_texts.clj")),
                "step": program("clojure/trace.clj"),
            }
        ),
    }
)
"""The programs that manage runs and perform one step of a run, by dialect.

The REPL drops them when they are not used.
"""


class CallTraces:
    """Records the calls made by evaluations in one nREPL server."""

    def __init__(
        self,
        sessions: SessionPool,
        probed: ProbeResult,
        listener: Listener,
        workspace: Path | None,
        *,
        lease_s: float = LEASE_S,
    ) -> None:
        self._sessions = sessions
        self._dialect = probed.dialect
        self._listener = listener
        self._directories = (str(workspace),) if workspace is not None else ()
        self._lease_s = lease_s

    @asynccontextmanager
    async def run_around(self, evaluation: str, extension: RecordingRequest) -> AsyncIterator[Rewrite | None]:
        """Record the calls made by an evaluation while the context is active, and report them afterwards.

        Yield a function that changes the request of the evaluation, or None if nothing is recorded.

        Raises:
            CodriverError: the REPL could not start the recording.
        """
        names = extension.names
        if names is None or self._dialect.name not in PROGRAMS_BY_DIALECT:
            yield None
            return
        identity = uuid4().hex
        started = await self._start_recording(identity, names)
        if (evaluator := text_or_none(started.get("eval"))) is None:
            self._report(evaluation, started)
            yield None
            return
        renewing = TaskSet()
        renewing.start(self._renew(identity))
        try:
            yield partial(_with_recording, evaluator, text_or_none(started.get("print")))
        finally:
            with anyio.CancelScope(shield=True):
                await renewing.end()
                with suppress(CodriverError):  # otherwise the run ends with its lease
                    answer = await self._sessions.evaluate(TOOL_SESSION, self._step_code("end", identity))
                    # a record of many calls takes a long time to transfer
                    run = await anyio.to_thread.run_sync(
                        parse_program_data, "the recorded calls", answer, self._dialect
                    )
                    self._report(evaluation, mapping_or_empty(run))

    async def _start_recording(self, identity: str, names: Sequence[str]) -> Mapping[str, object]:
        """Start a recording. If the REPL does not have the program that records calls yet, send it first."""
        step = self._step_code("begin", identity, names=names)
        started = mapping_or_empty(self._parse_answer(await self._sessions.evaluate(TOOL_SESSION, step)))
        if started.get("missing"):
            await self._sessions.evaluate(
                TOOL_SESSION, self._dialect.fill_program(PROGRAMS_BY_DIALECT[self._dialect.name]["install"])
            )
            started = mapping_or_empty(self._parse_answer(await self._sessions.evaluate(TOOL_SESSION, step)))
        return started

    async def _renew(self, identity: str) -> None:
        while True:
            await anyio.sleep(self._lease_s / RENEWALS_PER_LEASE)
            with suppress(CodriverError):
                await self._sessions.evaluate(TOOL_SESSION, self._step_code("renew", identity))

    def _step_code(self, step: str, identity: str, *, names: Sequence[str] = ()) -> str:
        """Return the code that performs a step of a recording in the REPL, such as starting or ending it."""
        return self._dialect.fill_program(
            PROGRAMS_BY_DIALECT[self._dialect.name]["step"],
            step=step,
            id=identity,
            names=tuple(names),
            folders=self._directories,
            lease=str(int(self._lease_s * 1000)),
        )

    def _parse_answer(self, answer: Sequence[Message]) -> object:
        """Parse the data that the REPL returned for a step."""
        return parse_program_data("the recording", answer, self._dialect)

    def _report(self, evaluation: str, run: Mapping[str, object]) -> None:
        """Pass a finished recording to the listener."""
        self._listener(evaluation, FeatureReport(RUN_REPORT, json.dumps(run)))


def _with_recording(evaluator: str, printer: str | None, fields: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of a request with an evaluator and a printer that record calls.

    Without a printer, calls made while a lazy value is printed are not recorded.
    """
    printed = {PRINT_FIELD: printer} if printer and PRINT_FIELD in fields else {}
    return {**fields, "eval": evaluator, **printed}
