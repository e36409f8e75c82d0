"""Recorded calls of Clojure on the JVM: the functions of a project are wrapped by our own code while one run lasts.

What is wrapped there is under a lease that is renewed from here. When nobody renews it, as after a kill, the REPL puts
back by itself what it wrapped.
"""

from __future__ import annotations

import json
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from uuid import uuid4

import anyio

from codriver.errors import CodriverError
from codriver.net.tasks import TaskSet
from codriver.repls.contract.adapter_values import CallsRecorded
from codriver.repls.nrepl.responses import read_data
from codriver.repls.nrepl.session_pool import TOOL_SESSION
from codriver.wire.untrusted import as_map, as_text

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence
    from pathlib import Path

    from codriver.repls.contract.adapter_values import Listener
    from codriver.repls.nrepl.connection import Message
    from codriver.repls.nrepl.probe import ProbeResult
    from codriver.repls.nrepl.session_pool import SessionPool
    from codriver.wire.bencode import Value

LEASE_S: Final = 60.0
RENEWALS: Final = 4
"""In the time of a lease: a REPL that stands still meanwhile, as for its memory, must not lose it."""
PRINT: Final = "nrepl.middleware.print/print"


@dataclass(frozen=True, slots=True)
class Recording:
    """The functions of the REPL by which code is evaluated and its values are printed so that their calls are recorded.

    Without `printer`, calls of lazy values are not seen where these are computed as they are printed.
    """

    evaluator: str
    printer: str | None

    def fields(self, others: Mapping[str, Value]) -> dict[str, Value]:
        """The fields of a request that evaluates, with these functions in the places of others."""
        printed: dict[str, Value] = {PRINT: self.printer} if self.printer and PRINT in others else {}
        return {**others, "eval": self.evaluator, **printed}


class CallTraces:
    """The recordings of one REPL. Lives as long as its adapter."""

    def __init__(
        self,
        sessions: SessionPool,
        probed: ProbeResult,
        listener: Listener,
        *,
        workspace: Path | None,
        lease_s: float = LEASE_S,
    ) -> None:
        self._sessions = sessions
        self._dialect = probed.dialect
        self._listener = listener
        self._folders = (str(workspace),) if workspace is not None else ()
        self._lease_s = lease_s

    @asynccontextmanager
    async def recording(self, evaluation: str, names: Sequence[str] | None) -> AsyncIterator[Recording | None]:
        """A context in which calls are recorded, and told at its end; None where nothing is recorded by our own code.

        Raises:
            CodriverError: the REPL could not begin.
        """
        if names is None or "trace" not in self._dialect.ask:
            yield None
            return
        identity = uuid4().hex
        begun = await self._begin(identity, names)
        if (evaluator := as_text(begun.get("eval"))) is None:
            self._tell(evaluation, begun)
            yield None
            return
        renewing = TaskSet()
        renewing.start(self._renew(identity))
        try:
            yield Recording(evaluator, as_text(begun.get("print")))
        finally:
            with anyio.CancelScope(shield=True):
                await renewing.end()
                with suppress(CodriverError):  # what is not ended here ends with its lease
                    answer = await self._sessions.ask(TOOL_SESSION, self._step("end", identity))
                    # The record of many calls is long.
                    told = await anyio.to_thread.run_sync(read_data, "the recorded calls", answer, self._dialect)
                    self._tell(evaluation, as_map(told))

    async def _begin(self, identity: str, names: Sequence[str]) -> Mapping[str, object]:
        """Begin a run, by the program of runs, which the REPL drops when it has had none for a while."""
        step = self._step("begin", identity, names=names)
        begun = as_map(self._read(await self._sessions.ask(TOOL_SESSION, step)))
        if begun.get("missing"):
            await self._sessions.ask(TOOL_SESSION, self._dialect.expression("traces"))
            begun = as_map(self._read(await self._sessions.ask(TOOL_SESSION, step)))
        return begun

    async def _renew(self, identity: str) -> None:
        while True:
            await anyio.sleep(self._lease_s / RENEWALS)
            with suppress(CodriverError):
                await self._sessions.ask(TOOL_SESSION, self._step("renew", identity))

    def _step(self, step: str, identity: str, *, names: Sequence[str] = ()) -> str:
        lease = str(int(self._lease_s * 1000))
        words = {"names": tuple(names), "folders": self._folders, "lease": lease}
        return self._dialect.expression("trace", step=step, id=identity, **words)

    def _read(self, answer: Sequence[Message]) -> object:
        return read_data("the recording", answer, self._dialect)

    def _tell(self, evaluation: str, run: Mapping[str, object]) -> None:
        self._listener(evaluation, CallsRecorded(json.dumps(run)))
