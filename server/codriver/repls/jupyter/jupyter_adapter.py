"""The adapter for Jupyter kernels: our side of one kernel, whatever carries its messages.

`connect_jupyter` gives it; `codriver.repls.contract.adapter` says what it guarantees. Source: Jupyter documentation,
"Messaging in Jupyter".
"""

from __future__ import annotations

from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING

import anyio

from codriver.core.values import MAIN_SESSION, NO_LIMITS, TEST_SESSION
from codriver.repls.contract.adapter import Adapter
from codriver.repls.contract.adapter_values import Value
from codriver.repls.contract.errors import CapabilityMissingError, SessionNotOpenError
from codriver.repls.contract.media import TEXTS, Display
from codriver.repls.jupyter.kernel_profile import ONE_NAMESPACE, profile_of
from codriver.repls.jupyter.questions.expressions import leave_subshell
from codriver.repls.jupyter.questions.kernel_introspection import KernelIntrospection, runs_expressions
from codriver.repls.jupyter.questions.kernel_seam import KernelSeam
from codriver.repls.jupyter.questions.kernel_test_runner import KernelTestRunner
from codriver.repls.jupyter.running.evaluator import Evaluator
from codriver.repls.jupyter.running.kept_bundles import KeptBundles
from codriver.repls.jupyter.running.kernel import open_kernel
from codriver.repls.jupyter.running.others_evaluations import OthersEvaluations
from codriver.repls.jupyter.zeromq.zmq_channel import open_zmq

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from contextlib import AbstractAsyncContextManager
    from pathlib import Path

    from codriver.core.values import PrintLimits, Profile, Request, ValuePart
    from codriver.repls.contract.adapter_values import (
        Ended,
        Event,
        Interruption,
        Listener,
        SyntaxFault,
        TestRun,
        ThreadDump,
    )
    from codriver.repls.contract.media import CellRun
    from codriver.repls.contract.questions import Answer, Question
    from codriver.repls.jupyter.messages.channel import Carrier
    from codriver.repls.jupyter.running.kernel import Kernel


def connect_jupyter(
    place: str, *, listener: Listener, workspace: Path | None, is_remote: bool, found_by: Path | None = None
) -> AbstractAsyncContextManager[Adapter]:
    """The connector of the protocol `jupyter`: `place` is the path of a connection file."""
    del is_remote  # the connection file says where the kernel is
    return connect(partial(open_zmq, place, found_by=found_by), listener=listener, workspace=workspace)


@asynccontextmanager
async def connect(carrier: Carrier, *, listener: Listener, workspace: Path | None = None) -> AsyncIterator[Adapter]:
    """An adapter for the kernel that the carrier leads to; leaving the context leaves the kernel alive.

    Stack frames in files under `workspace` count as the user's.

    Raises:
        ReplUnreachableError: nobody listens there.
        NotAnReplError: what listens there does not answer as a kernel does.
        PackageMissingError: what the carrier needs is not installed.
    """
    others: list[OthersEvaluations] = []
    async with open_kernel(carrier, on_foreign=lambda message: others[0].take(message) if others else None) as kernel:
        others.append(OthersEvaluations(listener, kernel.info))
        is_python = await runs_expressions(kernel)
        introspection = KernelIntrospection(kernel, is_python=is_python, workspace=workspace)
        seam = KernelSeam(kernel, introspection.questions, listener) if is_python else None
        if seam is not None:
            await seam.look()
        profile = await profile_of(kernel, answers_expressions=is_python, seam=seam.shown() if seam else None)
        adapter = JupyterAdapter(kernel, profile, listener, introspection, seam)
        try:
            yield adapter
        finally:
            await leave_subshell(kernel)
            kernel.end("it was closed by us")
            with anyio.CancelScope(shield=True):
                await adapter.end()


class JupyterAdapter(Adapter):
    """Our side of one kernel, for the context of `connect`; `Adapter` says what each operation gives."""

    def __init__(
        self,
        kernel: Kernel,
        profile: Profile,
        listener: Listener,
        introspection: KernelIntrospection,
        seam: KernelSeam | None,
    ) -> None:
        self._kernel = kernel
        self._profile = profile
        self._listener = listener
        self._kept = KeptBundles()
        self._introspection = introspection
        self._seam = seam
        self._evaluator = Evaluator(kernel, self._heard, introspection, looks=seam)
        self._tests: KernelTestRunner | None = None
        if introspection.python is not None:
            self._tests = KernelTestRunner(kernel, introspection.python, listener, self._evaluator.interrupt_kernel)

    async def end(self) -> None:
        """End all that runs, when its connection is over."""
        await self._evaluator.end()
        if self._tests is not None:
            await self._tests.end()

    @property
    def profile(self) -> Profile:
        """The abilities of the kernel."""
        return self._profile

    def start_evaluation(self, request: Request, ended: Ended, limits: PrintLimits = NO_LIMITS) -> None:
        """Send code to be run."""
        del limits  # kernels know none
        if request.kind == "run-tests":
            self._require_tests().start(request, ended)
        else:
            request = self._seam.laid_in(request) if self._seam else request
            self._evaluator.start(request, self._introspection.noting(ended))

    async def wait_closed(self) -> str:
        """Wait until the connection is over and give the cause in words."""
        return await self._kernel.wait_closed()

    async def interrupt(self, session: str = MAIN_SESSION) -> Interruption:
        """Ask the kernel to stop what runs of ours."""
        self._require("interrupt")
        if session == TEST_SESSION:
            return await self._require_tests().interrupt()
        _check(session)
        return await self._evaluator.interrupt()

    async def interrupt_others(self) -> Interruption:
        """Ask the kernel to stop what another client evaluates."""
        self._require("interrupt")
        return await self._evaluator.interrupt_others()

    async def send_input(self, text: str, session: str = MAIN_SESSION) -> None:
        """Give `text` to code that reads from stdin."""
        self._require("stdin", session)
        await self._evaluator.send_input(text)

    async def read_value(self, evaluation: str, part: ValuePart) -> Value | str:
        """A part of what a value or display has in another media type."""
        return self._kept.read(evaluation, part)

    async def open_session(self, name: str, *, shares_names: bool = False) -> None:
        """Refuse: a kernel keeps nothing apart."""
        del shares_names
        if name != MAIN_SESSION:
            raise CapabilityMissingError("sessions", ONE_NAMESPACE)

    def cell_run(self, evaluation: str) -> CellRun | None:
        """The outputs of a notebook cell's evaluation."""
        return self._evaluator.cell_run(evaluation)

    async def ask_seam(self, accessor: str, arguments: str) -> str:
        """The answer of the application's seam, as JSON."""
        if self._seam is None:
            raise CapabilityMissingError("seam", self._profile.missing.get("seam"))
        return await self._seam.ask(accessor, arguments)

    async def restart(self) -> None:
        """Restart the kernel by what carries its messages."""
        await self._kernel.channel.restart()

    async def ask(self, question: Question[Answer]) -> Answer:
        """The answer to a question of the contract."""
        if question.capability:
            self._require(question.capability)
        _check(question.session)
        return question.read(await self._introspection.told(question))

    async def fault_of(self, code: str) -> SyntaxFault | None:
        """Why the kernel cannot read `code`."""
        return await self._introspection.fault_of(code)

    async def stacks(self, session: str = MAIN_SESSION) -> ThreadDump | None:
        """The stacks of the kernel's threads."""
        del session  # there is one
        return await self._introspection.stacks()

    async def run_tests(
        self, namespace: str | None, test: str | None, session: str = MAIN_SESSION, *, timeout_s: float = 600.0
    ) -> TestRun:
        """Run tests."""
        _check(session)
        return await self._require_tests().run_tests(namespace, test, timeout_s=timeout_s)

    async def tests_so_far(self, evaluation: str) -> TestRun | None:
        """The tests that have ended of a run under way."""
        return self._tests.so_far(evaluation) if self._tests is not None else None

    def _require_tests(self) -> KernelTestRunner:
        if self._tests is None:
            raise CapabilityMissingError("test", self._profile.missing.get("test"))
        return self._tests

    def _heard(self, evaluation: str | None, event: Event) -> None:
        """An event of ours, whose media types are kept."""
        if evaluation is not None and isinstance(event, Value | Display):
            self._kept.keep(evaluation, event.bundle or {TEXTS[0]: getattr(event, "text", "")})
        self._listener(evaluation, event)

    def _require(self, capability: str, session: str = MAIN_SESSION) -> None:
        if capability not in self._profile.capabilities:
            raise CapabilityMissingError(capability, self._profile.missing.get(capability))
        _check(session)


def _check(session: str) -> None:
    """Refuse a session that is not open."""
    if session != MAIN_SESSION:
        raise SessionNotOpenError(session)
