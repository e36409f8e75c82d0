"""A REPL in a new process, for a single job of a command.

No server knows the REPL, and it ends when the job is done. It is started with the same recipes that servers use. Its
output outside of evaluations is discarded.
"""

from __future__ import annotations

import tempfile
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import anyio

from codriver.core.evaluations import Failure
from codriver.core.print_limits import PrintLimits
from codriver.core.requests import Request
from codriver.errors import CodriverError, StartError
from codriver.features.jupyter.kernels.cell_outputs import CellRuns
from codriver.net.task_set import task_group_cancelled_on_exit
from codriver.repls import kinds
from codriver.repls.contract.adapter import Adapter, Connector, NotAReplError, ReplUnreachableError
from codriver.repls.contract.display_data import TEXT_TYPES, Display, bundle_text
from codriver.repls.contract.events import NAMESPACE_MISSING_TYPE, Ending, InputNeeded, Output, SensitiveValues, Value
from codriver.repls.launch import processes

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable, Mapping
    from contextlib import AbstractAsyncContextManager

    from codriver.repls.contract.events import Event
    from codriver.repls.contract.test_run_values import TestRun
    from codriver.repls.launch.processes import ReplProcess
    from codriver.repls.launch.recipes import AddressFile, Recipe

    Learn = Callable[[Iterable[tuple[str, str]]], None]
    OnOutput = Callable[[str, str], None]

ENDLESS_FAILURE: Final = "Endless"
"""Type of the failure recorded for code that was interrupted because it took too long."""
COMPLETE_LIMITS: Final = PrintLimits()
"""Print limits under which values are printed in full."""
INTERRUPT_TIMEOUT_S: Final = 10.0
"""How long to wait for an interrupted evaluation to end."""
LEININGEN_TARGET_DIRECTORY: Final = "target"
"""The directory in which Leiningen builds and to which it writes its port."""
NREPL_MAIN_ARGUMENTS: Final = ("-m", "nrepl.cmdline")
"""Arguments with which Clojure starts an nREPL server."""
NREPL_ARGUMENTS_WITHOUT_PORT_FILE: Final = (
    "-e",
    """(do (require 'nrepl.server) (println (str "nREPL server started on port " (:port
    ((resolve 'nrepl.server/start-server) :bind "127.0.0.1" :port 0)))) (flush) @(promise))""",
)
"""Arguments that start an nREPL server without its command line program, which would overwrite an existing
`.nrepl-port`.
"""


@dataclass(frozen=True, slots=True)
class EvaluationOutcome:
    """The result of an evaluation: its values as text, its output, and its failure, if any."""

    values: tuple[str, ...]
    out: str
    err: str
    failure: Failure | None = None
    cell: tuple[Mapping[str, object], ...] = ()
    """The outputs of a kernel's cell, in the notebook format."""


@dataclass(slots=True)
class ReceivedAnswers:
    """The responses to one evaluation, collected as they are received."""

    values: list[str] = field(default_factory=list)
    updates: dict[str, str] = field(default_factory=dict)
    """The last state of each updated display, by name."""
    out: list[str] = field(default_factory=list)
    err: list[str] = field(default_factory=list)
    end: Ending | Exception | None = None
    over: anyio.Event = field(default_factory=anyio.Event)


def add_event(
    received: Mapping[str, ReceivedAnswers],
    evaluation: str | None,
    event: Event,
    learn: Learn = lambda _strings: None,
    on_output: OnOutput = lambda _stream, _text: None,
) -> None:
    """Add an event to the responses of its evaluation. Pass output to `on_output` as it is received.

    `learn` is called with strings that an application declares as sensitive.
    """
    if isinstance(event, SensitiveValues):
        learn(event.values)
    found = received.get(evaluation or "")
    if found is None:
        return
    if isinstance(event, Display) and event.is_update:
        found.updates[event.display_id] = bundle_text(event.bundle)
    elif isinstance(event, Value | Display):
        found.values.append(bundle_text(event.bundle or {TEXT_TYPES[0]: getattr(event, "text", "")}))
    elif isinstance(event, Output):
        (found.out if event.stream == "out" else found.err).append(event.text)
        on_output(event.stream, event.text)


class FreshRepl:
    """A REPL started for one job. Use `fresh_repl` to create one."""

    def __init__(
        self, adapter: Adapter, received: dict[str, ReceivedAnswers], timeout_s: float, *, is_kernel: bool = False
    ) -> None:
        self._adapter = adapter
        self._received = received
        self._timeout_s = timeout_s
        self.dialect = adapter.profile.dialect
        self.is_kernel = is_kernel
        self.versions: Mapping[str, str] = adapter.profile.versions

    async def run(
        self,
        code: str,
        *,
        namespace: str | None = None,
        file: str | None = None,
        timeout_s: float | None = None,
        limits: PrintLimits = COMPLETE_LIMITS,
        is_partial: bool = False,
    ) -> EvaluationOutcome:
        """Evaluate code, or load it as the text of `file`, and return the outcome.

        If `namespace` does not exist, it is loaded from disk. With `is_partial`, later calls send more code from the
        same evaluation. Figures are displayed at the end of the evaluation. The code is interrupted after `timeout_s`,
        or after the time limit of the REPL.

        Raises:
            CodriverError: the code took too long and cannot be interrupted.
            ReplDisconnectedError: the connection to the REPL was lost.
        """
        ran = await self._run(code, namespace, file, timeout_s, limits, is_partial=is_partial)
        if namespace and ran.failure is not None and ran.failure.type == NAMESPACE_MISSING_TYPE:
            quoted = f"import {namespace}" if self.dialect == kinds.PYTHON_KIND.dialect else f"(require '{namespace})"
            loaded = await self._run(quoted)
            if loaded.failure:
                return loaded
            return await self._run(code, namespace, None, timeout_s, is_partial=is_partial)
        return ran

    async def _run(
        self,
        code: str,
        namespace: str | None = None,
        file: str | None = None,
        timeout_s: float | None = None,
        limits: PrintLimits = COMPLETE_LIMITS,
        *,
        is_partial: bool = False,
    ) -> EvaluationOutcome:
        name = str(len(self._received))
        received = self._received[name] = ReceivedAnswers()
        kind = "load-file" if file else "evaluate"
        cell = name if self.is_kernel and not file else None
        request = Request(name, code, namespace=namespace, file=file, kind=kind, part=cell, is_partial=is_partial)  # type: ignore[arg-type]  # mypy takes the two words for any text

        def finish(end: Ending | Exception) -> None:
            received.end = end
            received.over.set()

        self._adapter.start_evaluation(request, finish, limits)
        limit_s = timeout_s or self._timeout_s
        with anyio.move_on_after(limit_s) as scope:
            await received.over.wait()
        if scope.cancelled_caught:
            await self._interrupt(received, code, limit_s)
            return self._build_result(name, _endless_failure(limit_s))
        if isinstance(received.end, Exception):
            raise received.end
        failure = received.end.failure if received.end else None
        if failure is None and received.end is not None and received.end.status != "done":
            failure = Failure(received.end.status, "the code did not finish by itself")
        return self._build_result(name, failure)

    def _build_result(self, name: str, failure: Failure | None) -> EvaluationOutcome:
        """Create the outcome of an evaluation from the responses received so far."""
        received, cells = self._received[name], self._adapter.companion(CellRuns)
        run = None if cells is None else cells.collect(name)
        values = (*received.values, *received.updates.values())
        return EvaluationOutcome(
            values, "".join(received.out), "".join(received.err), failure, run.outputs if run else ()
        )

    async def _interrupt(self, received: ReceivedAnswers, code: str, limit_s: float) -> None:
        """Interrupt an evaluation that exceeded its time limit.

        Raises:
            CodriverError: the evaluation does not end.
        """
        if "interrupt" in self._adapter.profile.capabilities:
            with anyio.move_on_after(INTERRUPT_TIMEOUT_S):
                await self._adapter.interrupt()
                await received.over.wait()
                return
        head = code.strip().partition("\n")[0][:60]
        raise CodriverError(
            f"`{head}` did not finish within {limit_s:g} s in the fresh REPL. Leave this evaluation out, or increase "
            "the limit"
        )

    async def run_tests(self, namespace: str) -> TestRun:
        """Run the tests in a loaded namespace. Raises the same exceptions as `Adapter.run_tests`."""
        return await self._adapter.run_tests(namespace, None, timeout_s=self._timeout_s)

    async def end_input(self) -> None:
        """Signal the end of input to code that is reading from stdin."""
        if "stdin" in self._adapter.profile.capabilities:
            await self._adapter.send_input("")


def _endless_failure(limit_s: float) -> Failure:
    return Failure(ENDLESS_FAILURE, f"the code had not finished after {limit_s:g} s and was interrupted")


@asynccontextmanager
async def fresh_repl(
    recipe: Recipe,
    connectors: Mapping[str, Connector],
    workspace: Path,
    *,
    timeout_s: float,
    learn: Learn,
    on_output: OnOutput,
) -> AsyncIterator[FreshRepl]:
    """Start a REPL in `workspace`, and end it when the context is exited.

    A REPL that would write a port file is started in a temporary directory with links to the workspace, so that other
    programs do not connect to it. `timeout_s` limits each evaluation. `learn` is called with strings that the
    application declares as sensitive, before they can be displayed. `on_output` is called with the output of
    evaluations.

    Raises:
        StartError: the REPL cannot be started.
        CodriverError: the connection to the REPL fails.
    """
    async with AsyncExitStack() as stack:
        recipe, directory = _without_port_file(recipe, workspace, stack)
        received: dict[str, ReceivedAnswers] = {}
        reading = anyio.Event()

        def listen(evaluation: str | None, event: Event) -> None:
            if isinstance(event, InputNeeded):
                reading.set()
            add_event(received, evaluation, event, learn, on_output)

        file = await _prepare_address_file(recipe, stack)
        running = await stack.enter_async_context(
            processes.start_repl_process(
                recipe.command, cwd=directory, env=recipe.env, on_output=lambda _stream, _text: None,
                port_file=recipe.port_file, start_timeout_s=recipe.start_timeout_s,
                farewell=partial(file.farewell, file.path) if file else None,
            )
        )  # fmt: skip
        connect = partial(connectors[recipe.protocol], listener=listen, workspace=workspace, is_remote=False)
        address = str(file.path if file else await running.endpoint())
        adapter = await _connect_when_ready(stack, partial(connect, address), running, recipe)
        fresh = FreshRepl(adapter, received, timeout_s, is_kernel=file is not None)
        tasks = await stack.enter_async_context(task_group_cancelled_on_exit())

        async def end_inputs() -> None:
            nonlocal reading
            while True:
                await reading.wait()
                reading = anyio.Event()
                await fresh.end_input()

        tasks.start_soon(end_inputs)
        try:
            yield fresh
        finally:
            tasks.cancel_scope.cancel()


async def _prepare_address_file(recipe: Recipe, stack: AsyncExitStack) -> AddressFile | None:
    """Prepare the connection file of a kernel, and delete it when `stack` is closed. Return None for other REPLs."""
    file = recipe.address_file
    if file is not None:
        stack.callback(file.discard, file.path)
        await anyio.to_thread.run_sync(partial(file.prepare, file.path, is_first=True))
    return file


async def _connect_when_ready(
    stack: AsyncExitStack,
    connect: Callable[[], AbstractAsyncContextManager[Adapter]],
    running: ReplProcess,
    recipe: Recipe,
) -> Adapter:
    """Connect to a REPL that was just started, and return its adapter.

    Connecting to a kernel is retried, because a kernel does not report when it starts listening.

    Raises:
        StartError: the kernel exited first or did not answer in time.
        CodriverError: the connection to another kind of REPL failed.
    """
    deadline = anyio.current_time() + recipe.start_timeout_s
    while True:
        try:
            return await stack.enter_async_context(connect())
        except (ReplUnreachableError, NotAReplError) as error:
            if recipe.address_file is None:
                raise
            if running.over.is_set():
                cause = await running.wait()
                remedy = next((remedy for words, remedy in recipe.remedies if words in cause), cause)
                raise StartError(f"the kernel exited before it accepted a connection: {remedy}") from error
            if anyio.current_time() > deadline:
                raise StartError(str(error)) from error
            await anyio.sleep(processes.ADDRESS_POLL_INTERVAL_S)


def _without_port_file(recipe: Recipe, workspace: Path, stack: AsyncExitStack) -> tuple[Recipe, Path]:
    """Change a recipe so that the REPL does not overwrite a port file in the workspace.

    Return the new recipe and the directory in which to start the REPL.
    """
    if recipe.port_file is None:
        return recipe, workspace
    if recipe.command[-2:] == NREPL_MAIN_ARGUMENTS:
        return replace(
            recipe, command=(*recipe.command[:-2], *NREPL_ARGUMENTS_WITHOUT_PORT_FILE), port_file=None
        ), workspace
    directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="codriver-fresh-")))
    for entry in workspace.iterdir():  # files that the program needs, such as nbb.edn
        if not entry.name.startswith(".") and entry.name != LEININGEN_TARGET_DIRECTORY:
            (directory / entry.name).symlink_to(entry)
    program, *arguments = recipe.command
    command = (str(workspace / program) if "/" in program else program, *arguments)
    return replace(recipe, command=command, port_file=directory / recipe.port_file.relative_to(workspace)), directory
