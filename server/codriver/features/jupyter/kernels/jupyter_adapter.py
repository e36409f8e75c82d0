"""The adapter for Jupyter kernels, over any transport.

`connect_jupyter` returns the adapter. `codriver.repls.contract.adapter` describes what adapters guarantee. Source:
Jupyter documentation, "Messaging in Jupyter".
"""

from __future__ import annotations

from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING

import anyio

from codriver.core.values import MAIN_SESSION, NO_LIMITS, TEST_SESSION, Profile
from codriver.features.jupyter.kernels.evaluator import Evaluator
from codriver.features.jupyter.kernels.foreign_evaluations import ForeignEvaluations
from codriver.features.jupyter.kernels.kernel import Kernel, delete_subshell, open_kernel
from codriver.features.jupyter.kernels.kernel_introspection import KernelIntrospection
from codriver.features.jupyter.kernels.kernel_profile import ONE_NAMESPACE, build_profile, supports_expressions
from codriver.features.jupyter.kernels.kernel_seam import KernelSeam
from codriver.features.jupyter.kernels.kernel_tests import KernelTestRunner
from codriver.features.jupyter.kernels.stored_bundles import StoredBundles
from codriver.features.jupyter.kernels.subshell_evaluations import SubshellEvaluations
from codriver.features.jupyter.kernels.zmq_channel import open_zmq
from codriver.repls.contract.adapter import Adapter, CapabilityMissingError, SessionNotOpenError
from codriver.repls.contract.adapter_values import TEXT_TYPES, Display, Value

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from contextlib import AbstractAsyncContextManager
    from pathlib import Path

    from codriver.core.values import PrintLimits, Request, ValuePart
    from codriver.features.jupyter.kernels.channel import Carrier
    from codriver.repls.contract.adapter_values import (
        CellRun,
        Event,
        Interruption,
        Listener,
        OnEnd,
        SyntaxIssue,
        TestRun,
        ThreadDump,
    )
    from codriver.repls.contract.questions import Answer, Query


def connect_jupyter(
    address: str, *, listener: Listener, workspace: Path | None, is_remote: bool, found_by: Path | None = None
) -> AbstractAsyncContextManager[Adapter]:
    """The connector of the protocol `jupyter`: `address` is the path of a connection file."""
    del is_remote  # the connection file tells the kernel's place
    return connect(partial(open_zmq, address, found_by=found_by), listener=listener, workspace=workspace)


@asynccontextmanager
async def connect(carrier: Carrier, *, listener: Listener, workspace: Path | None = None) -> AsyncIterator[Adapter]:
    """An adapter for the kernel behind the carrier; leaving the context leaves the kernel alive.

    Stack frames in files under `workspace` count as the user's.

    Raises:
        ReplUnreachableError: nobody listens there.
        NotAnReplError: the listener does not answer as a kernel does.
        PackageMissingError: a package for the carrier is missing.
    """
    others: list[ForeignEvaluations] = []
    async with open_kernel(
        carrier, on_foreign=lambda message: others[0].receive(message) if others else None
    ) as kernel:
        others.append(ForeignEvaluations(listener, kernel.info))
        is_python = await supports_expressions(kernel)
        introspection = KernelIntrospection(kernel, is_python=is_python, workspace=workspace)
        seam = KernelSeam(kernel, introspection.queries, listener) if is_python else None
        if seam is not None:
            await seam.find_application()
        profile = await build_profile(kernel, answers_expressions=is_python, seam=seam.capability() if seam else None)
        adapter = JupyterAdapter(kernel, profile, listener, introspection, seam)
        try:
            yield adapter
        finally:
            await delete_subshell(kernel, kernel.subshell_id)
            kernel.end("Codriver closed it")
            with anyio.CancelScope(shield=True):
                await adapter.end()


class JupyterAdapter(Adapter):
    """Our side of one kernel, for the context of `connect`; `Adapter` describes the operations."""

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
        self._bundles = StoredBundles()
        self._introspection = introspection
        self._seam = seam
        self._evaluator = Evaluator(kernel, self._receive, introspection, seam_checks=seam)
        self._in_subshells = SubshellEvaluations(kernel, self._receive)
        self._tests: KernelTestRunner | None = None
        if introspection.python is not None:
            self._tests = KernelTestRunner(kernel, introspection.python, listener, self._evaluator.interrupt_kernel)

    async def end(self) -> None:
        """End all running evaluations, when the connection is over."""
        await self._evaluator.end()
        await self._in_subshells.end()
        if self._tests is not None:
            await self._tests.end()

    @property
    def profile(self) -> Profile:
        """The abilities of the kernel."""
        return self._profile

    def start_evaluation(self, request: Request, on_end: OnEnd, limits: PrintLimits = NO_LIMITS) -> None:
        """Send code to be run."""
        del limits  # kernels know no limits
        if request.kind == "run-tests":
            self._require_tests().start(request, on_end)
        elif request.background:
            self._in_subshells.start(request, on_end)
        else:
            request = self._seam.with_seam_loader(request) if self._seam else request
            self._evaluator.start(request, self._introspection.noting(on_end))

    async def wait_closed(self) -> str:
        """Wait until the connection is over and give the cause in words."""
        return await self._kernel.wait_closed()

    async def interrupt(self, session: str = MAIN_SESSION) -> Interruption:
        """Ask the kernel to stop our running code."""
        self._require("interrupt")
        if session == TEST_SESSION:
            return await self._require_tests().interrupt()
        if session in self._in_subshells:
            return await self._in_subshells.interrupt(session)
        _check(session)
        return await self._evaluator.interrupt()

    async def interrupt_others(self) -> Interruption:
        """Ask the kernel to stop another client's evaluation."""
        self._require("interrupt")
        return await self._evaluator.interrupt_others()

    async def send_input(self, text: str, session: str = MAIN_SESSION) -> None:
        """Give `text` to code that reads from stdin."""
        self._require("stdin", session)
        await self._evaluator.send_input(text)

    async def read_value(self, evaluation: str, part: ValuePart) -> Value | str:
        """A part of a value or display in another media type."""
        return self._bundles.read(evaluation, part)

    async def open_session(self, name: str, *, shares_names: bool = False) -> None:
        """Refuse: a kernel keeps nothing apart."""
        del shares_names
        if name != MAIN_SESSION:
            raise CapabilityMissingError("sessions", ONE_NAMESPACE)

    def cell_run(self, evaluation: str) -> CellRun | None:
        """The outputs of a notebook cell's evaluation."""
        return self._evaluator.cell_run(evaluation)

    async def call_seam(self, accessor: str, arguments: str) -> str:
        """The answer of the application's seam, as JSON."""
        if self._seam is None:
            raise CapabilityMissingError("seam", self._profile.missing.get("seam"))
        return await self._seam.call(accessor, arguments)

    async def restart(self) -> None:
        """Restart the kernel by the carrier of its messages."""
        await self._kernel.channel.restart()

    async def query(self, query: Query[Answer]) -> Answer:
        """The answer to a question of the contract."""
        if query.capability:
            self._require(query.capability)
        _check(query.session)
        return query.read(await self._introspection.answer_fields(query))

    async def check_syntax(self, code: str) -> SyntaxIssue | None:
        """The reason why the kernel cannot read `code`."""
        return await self._introspection.check_syntax(code)

    async def stacks(self, session: str = MAIN_SESSION) -> ThreadDump | None:
        """The stacks of the kernel's threads."""
        del session  # a kernel has only one session
        return await self._introspection.stacks()

    async def run_tests(
        self, namespace: str | None, test: str | None, session: str = MAIN_SESSION, *, timeout_s: float = 600.0
    ) -> TestRun:
        """Run tests."""
        _check(session)
        return await self._require_tests().run_tests(namespace, test, timeout_s=timeout_s)

    async def tests_so_far(self, evaluation: str) -> TestRun | None:
        """The ended tests of a run under way."""
        return self._tests.so_far(evaluation) if self._tests is not None else None

    def _require_tests(self) -> KernelTestRunner:
        if self._tests is None:
            raise CapabilityMissingError("test", self._profile.missing.get("test"))
        return self._tests

    def _receive(self, evaluation: str | None, event: Event) -> None:
        """An event of ours, with its media types kept."""
        if evaluation is not None and isinstance(event, Value | Display):
            self._bundles.store(evaluation, event.bundle or {TEXT_TYPES[0]: getattr(event, "text", "")})
        self._listener(evaluation, event)

    def _require(self, capability: str, session: str = MAIN_SESSION) -> None:
        if capability not in self._profile.capabilities:
            raise CapabilityMissingError(capability, self._profile.missing.get(capability))
        _check(session)


def _check(session: str) -> None:
    """Refuse a session that is not open."""
    if session != MAIN_SESSION:
        raise SessionNotOpenError(session)
