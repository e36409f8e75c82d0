"""Background evaluations in a kernel, each on its own subshell next to the main shell.

A subshell is a thread in the kernel. No message can interrupt it, so an expression in another shell raises an exception
in its thread. This does not stop code that is blocked outside Python. Such code is abandoned, and the answer names its
thread. Source: JEP 91, "Kernel subshells"; ipykernel 7, `SubshellThread`.
"""

from __future__ import annotations

from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import anyio

from codriver.core.requests import MAIN_SESSION
from codriver.errors import CodriverError
from codriver.features.jupyter.kernels.evaluator import Evaluator
from codriver.features.jupyter.kernels.kernel import delete_subshell
from codriver.features.jupyter.kernels.silent_expressions import evaluate_expression
from codriver.repls.contract.adapter import CapabilityMissingError
from codriver.repls.contract.events import Ending, Interruption

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping

    from codriver.core.evaluations import Failure
    from codriver.core.requests import Request
    from codriver.features.jupyter.kernels.kernel import Kernel
    from codriver.repls.contract.evaluation_extensions import EvaluationExtension
    from codriver.repls.contract.events import Listener, OnEnd

SUBSHELLS_FEATURE: Final = "kernel subshells"
"""The name of the subshells feature in a kernel's info. Source: JEP 91."""
STOP_TIMEOUT_S: Final = 2.0
"""Maximum time for code to end after the exception has been raised in its thread."""
RAISE_INTERVAL_S: Final = 0.25
"""Time after which the exception is raised again if the code is still running."""
NO_SUBSHELL_MESSAGE: Final = (
    "this kernel did not create a subshell, which a background evaluation needs. Omit background"
)
ABANDONED_MESSAGE: Final = (
    "the evaluation was abandoned, because it is blocked in a call outside Python, which cannot be interrupted. Its "
    "thread, {!r}, runs until that call returns. Other code is not affected"
)
RAISE_CODE: Final = (
    "import ctypes, threading; send, this_ident = ctypes.pythonapi.PyThreadState_SetAsyncExc, threading.get_ident()\n"
    "for ident in [thread.ident for thread in threading.enumerate() if thread.name == {!r}]:\n"
    " send(ctypes.c_ulong(ident), ctypes.py_object(KeyboardInterrupt))\n"
    "try: send(ctypes.c_ulong(this_ident), ctypes.py_object(KeyError)); [None for _ in range(1000)]\n"
    "except KeyError: pass"
)
"""Code that raises KeyboardInterrupt in all threads with a given name.

It also raises an exception in its own thread and catches it immediately. In Python 3.11, the next traced call never
starts while any thread has a pending exception, and blocked code does not receive its exception. Source: Python
documentation, `PyThreadState_SetAsyncExc`.
"""


def has_subshells(kernel: Kernel) -> bool:
    """Return whether the kernel supports subshells reliably."""
    return kernel.info.quirks.has_subshells and SUBSHELLS_FEATURE in kernel.info.features


class SubshellEvaluations:
    """Runs background evaluations in one kernel. Each evaluation has its own session and subshell."""

    def __init__(self, kernel: Kernel, listener: Listener) -> None:
        self._kernel = kernel
        self._listener = listener
        self._running: dict[str, _SubshellEvaluator] = {}
        """The running evaluations, by session."""

    def __contains__(self, session: str) -> bool:
        return session in self._running

    def start(self, request: Request, on_end: OnEnd) -> None:
        """Start an evaluation on a new subshell. `on_end` is called when it has ended."""
        evaluator = _SubshellEvaluator(self._kernel, self._listener)
        self._running[request.session] = evaluator

        def on_finished(ending: Ending | Exception) -> None:
            if self._running.get(request.session) is evaluator:
                del self._running[request.session]
                on_end(ending)

        evaluator.on_abandoned = lambda note: on_finished(Ending("interrupted", notes=(note,)))
        evaluator.start(replace(request, session=MAIN_SESSION), on_finished)

    async def interrupt(self, session: str) -> Interruption:
        """Interrupt a session's evaluation. Abandon it if it has not stopped after two seconds."""
        return await self._running[session].interrupt()

    async def end(self) -> None:
        """End all running evaluations because the connection is closed."""
        for evaluator in list(self._running.values()):
            await evaluator.end()


class _NoPrograms:
    """Programs for subshells, which can neither load files nor evaluate code in frames."""

    def loading_code(self, request: Request) -> str:
        raise CapabilityMissingError("background", f"{request.kind} only runs in the main shell")

    def frame_evaluation_code(self, request: Request) -> str:
        raise CapabilityMissingError("background", f"frame {request.frame} belongs to the main shell")

    async def prepare_load(self) -> None:
        """Do nothing, because nothing is loaded on a subshell."""

    def edited_modules_expressions(self, code: str) -> Mapping[str, str]:
        del code
        return {}

    def edited_modules(self, values: Mapping[str, object]) -> tuple[str, ...]:
        del values
        return ()

    async def start_extension(self, extension: EvaluationExtension) -> None:
        raise CapabilityMissingError("background", f"the {extension.report} is only recorded in the main shell")

    async def end_extension(self, extension: EvaluationExtension) -> str | None:
        del extension
        return None

    async def simple_locals(self, failure: Failure, cell: int | None) -> tuple[str, ...]:
        del failure, cell
        return ()


class _SubshellEvaluator(Evaluator):
    """Runs one evaluation on a subshell, and deletes the subshell when the evaluation has ended."""

    stores_history = False
    accepts_input = False

    def __init__(self, kernel: Kernel, listener: Listener) -> None:
        super().__init__(kernel, listener, _NoPrograms())
        self.on_abandoned: Callable[[str], None] = lambda _note: None
        """Called with a note if the code cannot be interrupted."""

    @asynccontextmanager
    async def _reserve_shell(self) -> AsyncIterator[None]:
        if self._subshell is None:
            self._subshell = await self._kernel.create_subshell()
        if self._subshell is None:
            raise CapabilityMissingError("background", NO_SUBSHELL_MESSAGE)
        self._kernel.check_open()
        yield

    async def _clean_up(self) -> None:
        if self._subshell is not None:
            await delete_subshell(self._kernel, self._subshell)

    async def interrupt(self) -> Interruption:
        evaluation = self._queue[0] if self._queue else None
        if evaluation is None:
            return Interruption("idle")
        evaluation.is_stopping = True
        thread_name = f"subshell-{self._subshell}"
        with anyio.move_on_after(STOP_TIMEOUT_S):
            while not evaluation.finished.is_set():
                with suppress(CodriverError):
                    await evaluate_expression(
                        self._kernel, f"exec({RAISE_CODE.format(thread_name)!r}, {{}})", timeout_s=STOP_TIMEOUT_S
                    )
                with anyio.move_on_after(RAISE_INTERVAL_S):
                    await evaluation.finished.wait()
        if not evaluation.finished.is_set():
            note = ABANDONED_MESSAGE.format(thread_name)
            self.on_abandoned(note)
            return Interruption("interrupted", note=note)
        return Interruption("interrupted")
