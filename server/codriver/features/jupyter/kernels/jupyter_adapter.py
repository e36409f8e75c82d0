"""The adapter for Jupyter kernels, which works with any transport.

`connect_jupyter` returns the adapter. `codriver.repls.contract.adapter` describes what adapters guarantee. Source:
Jupyter documentation, "Messaging in Jupyter".
"""

from __future__ import annotations

import json
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import anyio

from codriver.core.print_limits import NO_PRINT_LIMITS
from codriver.core.requests import MAIN_SESSION, TEST_SESSION
from codriver.features.jupyter.kernels.cell_outputs import CellRuns
from codriver.features.jupyter.kernels.evaluator import Evaluator
from codriver.features.jupyter.kernels.foreign_evaluations import ForeignEvaluations
from codriver.features.jupyter.kernels.kernel import Kernel, delete_subshell, open_kernel
from codriver.features.jupyter.kernels.kernel_access import KernelAccess
from codriver.features.jupyter.kernels.kernel_introspection import KernelIntrospection
from codriver.features.jupyter.kernels.kernel_profile import ONE_NAMESPACE_HINT, build_profile, supports_expressions
from codriver.features.jupyter.kernels.kernel_tests import KernelTestRunner
from codriver.features.jupyter.kernels.stored_bundles import StoredBundles
from codriver.features.jupyter.kernels.subshell_evaluations import SubshellEvaluations
from codriver.features.jupyter.kernels.zmq_channel import open_zmq
from codriver.repls.contract.adapter import Adapter, CapabilityMissingError, SessionNotOpenError
from codriver.repls.contract.companions import EvaluationSteps, create_companions, with_companions
from codriver.repls.contract.display_data import TEXT_TYPES, Display
from codriver.repls.contract.evaluation_extensions import NO_HOOKS
from codriver.repls.contract.events import FeatureReport, Value
from codriver.wire.untrusted import mapping_or_empty

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping
    from contextlib import AbstractAsyncContextManager
    from pathlib import Path

    from codriver.core.print_limits import PrintLimits, ValuePart
    from codriver.core.profiles import Profile
    from codriver.core.requests import Request
    from codriver.features.jupyter.kernels.channel import Carrier
    from codriver.repls.contract.evaluation_extensions import AdapterHooks
    from codriver.repls.contract.events import Event, Interruption, Listener, OnEnd
    from codriver.repls.contract.queries import Answer, Query
    from codriver.repls.contract.stack_trace_values import ThreadDump
    from codriver.repls.contract.symbols import SyntaxIssue
    from codriver.repls.contract.test_run_values import TestRun

T = TypeVar("T")


def connect_jupyter(
    address: str,
    *,
    listener: Listener,
    workspace: Path | None,
    is_remote: bool,
    found_by: Path | None = None,
    hooks: AdapterHooks = NO_HOOKS,
) -> AbstractAsyncContextManager[Adapter]:
    """Connect to a kernel by its connection file.

    `address` is the path of the file. This function is the connector for the protocol `jupyter`.
    """
    del is_remote  # the connection file contains the kernel's host
    return connect(partial(open_zmq, address, found_by=found_by), listener=listener, workspace=workspace, hooks=hooks)


@asynccontextmanager
async def connect(
    carrier: Carrier, *, listener: Listener, workspace: Path | None = None, hooks: AdapterHooks = NO_HOOKS
) -> AsyncIterator[Adapter]:
    """Connect to a kernel and yield its adapter. The kernel continues to run when the context is exited.

    Stack frames in files under `workspace` are marked as the user's. `hooks` contains what features add to the adapter.

    Raises:
        ReplUnreachableError: nothing listens at the kernel's address.
        NotAReplError: the listener does not answer like a kernel.
        PackageMissingError: a package that the transport requires is not installed.
    """
    foreign_evaluations: list[ForeignEvaluations] = []
    async with open_kernel(
        carrier, on_foreign=lambda message: foreign_evaluations[0].receive(message) if foreign_evaluations else None
    ) as kernel:
        foreign_evaluations.append(ForeignEvaluations(listener, kernel.info))
        is_python = await supports_expressions(kernel)
        introspection = KernelIntrospection(kernel, is_python=is_python, workspace=workspace)
        steps = EvaluationSteps()
        companions: Mapping[type, Any] = {}
        if is_python:
            access = KernelAccess(kernel, introspection.queries, listener)
            companions = await create_companions(hooks.companions, access, steps)
        profile = with_companions(await build_profile(kernel, has_expressions=is_python), companions.values())
        adapter = JupyterAdapter(kernel, profile, listener, introspection, companions, steps, hooks.reply_fields)
        try:
            yield adapter
        finally:
            await delete_subshell(kernel, kernel.subshell_id)
            kernel.end("Codriver closed the connection")
            with anyio.CancelScope(shield=True):
                await adapter.end_evaluations()


class JupyterAdapter(Adapter):
    """The adapter of one connected kernel. Use `connect` to create one."""

    def __init__(
        self,
        kernel: Kernel,
        profile: Profile,
        listener: Listener,
        introspection: KernelIntrospection,
        companions: Mapping[type, Any],
        steps: EvaluationSteps,
        reply_fields: Mapping[str, str],
    ) -> None:
        self._kernel = kernel
        self._profile = profile
        self._listener = listener
        self._bundles = StoredBundles()
        self._introspection = introspection
        cells = CellRuns()
        self._companions = {**companions, CellRuns: cells}
        self._steps = steps
        self._reply_fields = reply_fields
        self._evaluator = Evaluator(kernel, self._on_event, introspection, steps, cells)
        self._background = SubshellEvaluations(kernel, self._on_event)
        self._tests: KernelTestRunner | None = None
        if introspection.python is not None:
            self._tests = KernelTestRunner(kernel, introspection.python, listener, self._evaluator.interrupt_kernel)

    async def end_evaluations(self) -> None:
        """End all running evaluations because the connection is closed."""
        await self._evaluator.end()
        await self._background.end()
        if self._tests is not None:
            await self._tests.end()

    @property
    def profile(self) -> Profile:
        """Return the profile of the kernel."""
        return self._profile

    def start_evaluation(self, request: Request, on_end: OnEnd, limits: PrintLimits = NO_PRINT_LIMITS) -> None:
        """Start an evaluation, a load or a test run. `on_end` is called when it has ended."""
        del limits  # kernels do not support them
        if request.kind == "run-tests":
            self._require_tests().start(request, on_end)
        elif request.background:
            self._background.start(request, on_end)
        else:
            request = self._steps.rewrite_load(request) if request.file else request
            self._evaluator.start(request, self._introspection.remember_failures(on_end))

    async def wait_closed(self) -> str:
        """Wait until the connection is closed and return the cause."""
        return await self._kernel.wait_closed()

    async def interrupt(self, session: str = MAIN_SESSION) -> Interruption:
        """Interrupt the code that Codriver is running in a session."""
        self._check_capability("interrupt")
        if session == TEST_SESSION:
            return await self._require_tests().interrupt()
        if session in self._background:
            return await self._background.interrupt(session)
        _check_session(session)
        return await self._evaluator.interrupt()

    async def interrupt_others(self) -> Interruption:
        """Interrupt the code that the kernel is running for another client."""
        self._check_capability("interrupt")
        return await self._evaluator.interrupt_others()

    async def send_input(self, text: str, session: str = MAIN_SESSION) -> None:
        """Send text to code that is reading from stdin."""
        self._check_capability("stdin", session)
        await self._evaluator.send_input(text)

    async def read_value(self, evaluation: str, part: ValuePart) -> Value | str:
        """Return a value or display in another MIME type, or a message that explains why it is not available."""
        return self._bundles.read(evaluation, part)

    async def open_session(self, name: str, *, shares_names: bool = False) -> None:
        """Raise an error for any session other than the main one, because a kernel has only one namespace."""
        del shares_names
        if name != MAIN_SESSION:
            raise CapabilityMissingError("sessions", ONE_NAMESPACE_HINT)

    def companion(self, kind: type[T]) -> T | None:
        """Return the companion of this type, or None if the adapter has none."""
        return self._companions.get(kind)

    async def call_op(self, op: str, fields: Mapping[str, str]) -> str:
        """Call an operation that a feature adds to Codriver's worker, and return the field `answer` of its reply."""
        if self._introspection.python is None:
            raise CapabilityMissingError(op)
        return await self._introspection.python.call_op(op, fields, self._forward_reports)

    def _forward_reports(self, text: str) -> None:
        """Report the fields of a JSON message sent by a thread in the kernel. Ignore invalid messages."""
        with suppress(ValueError, RecursionError):
            for field, report in mapping_or_empty(json.loads(text)).items():
                if field in self._reply_fields and isinstance(report, str):
                    self._listener(None, FeatureReport(self._reply_fields[field], report))

    async def restart(self) -> None:
        """Restart the kernel through the transport."""
        await self._kernel.channel.restart()

    async def query(self, query: Query[Answer]) -> Answer:
        """Send a query to the kernel and return the answer."""
        if query.capability:
            self._check_capability(query.capability)
        _check_session(query.session)
        return query.read(await self._introspection.answer_fields(query))

    async def check_syntax(self, code: str) -> SyntaxIssue | None:
        """Return the syntax error in `code`, or None if there is none or the kernel cannot check it."""
        return await self._introspection.check_syntax(code)

    async def dump_threads(self, session: str = MAIN_SESSION) -> ThreadDump | None:
        """Return the stacks of the kernel's threads, or None if they are not available."""
        del session  # a kernel has only one session
        return await self._introspection.stacks()

    async def run_tests(
        self, namespace: str | None, test: str | None, session: str = MAIN_SESSION, *, timeout_s: float = 600.0
    ) -> TestRun:
        """Run tests and return their results."""
        _check_session(session)
        return await self._require_tests().run_tests(namespace, test, timeout_s=timeout_s)

    async def finished_tests(self, evaluation: str) -> TestRun | None:
        """Return the results so far of a running test run, or None if the evaluation is not running tests."""
        return self._tests.finished_tests(evaluation) if self._tests is not None else None

    def _require_tests(self) -> KernelTestRunner:
        if self._tests is None:
            raise CapabilityMissingError("test", self._profile.missing.get("test"))
        return self._tests

    def _on_event(self, evaluation: str | None, event: Event) -> None:
        """Store the MIME bundle of a value or display, and pass the event to the listener."""
        if evaluation is not None and isinstance(event, Value | Display):
            self._bundles.store(evaluation, event.bundle or {TEXT_TYPES[0]: getattr(event, "text", "")})
        self._listener(evaluation, event)

    def _check_capability(self, capability: str, session: str = MAIN_SESSION) -> None:
        if capability not in self._profile.capabilities:
            raise CapabilityMissingError(capability, self._profile.missing.get(capability))
        _check_session(session)


def _check_session(session: str) -> None:
    if session != MAIN_SESSION:
        raise SessionNotOpenError(session)
