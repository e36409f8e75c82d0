"""Background evaluations in a kernel, each on its own subshell next to the main shell.

A subshell is a thread of the kernel. No message interrupts it, so an expression in another shell raises an exception in
its thread. That does not stop code that blocks outside of Python. Such code is abandoned, and the answer names its
thread. Source: JEP 91, "Kernel subshells"; ipykernel 7, `SubshellThread`.
"""

from __future__ import annotations

from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import anyio

from codriver.core.values import MAIN_SESSION
from codriver.errors import CodriverError
from codriver.features.jupyter.kernels.evaluator import Evaluator
from codriver.features.jupyter.kernels.kernel import delete_subshell
from codriver.features.jupyter.kernels.silent_expressions import expression
from codriver.repls.contract.adapter import CapabilityMissingError
from codriver.repls.contract.adapter_values import Ending, Interruption

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping

    from codriver.core.values import Failure, Request
    from codriver.features.jupyter.kernels.kernel import Kernel
    from codriver.repls.contract.adapter_values import Listener, OnEnd
    from codriver.repls.contract.extras import Extra

FEATURE: Final = "kernel subshells"
"""In a kernel's account of itself. Source: JEP 91."""
STOP_S: Final = 2.0
"""The time for code to end after the exception was raised in its thread, and the rest between further exceptions."""
AGAIN_S: Final = 0.25
NONE: Final = "this kernel made no subshell, in which the code would run beside what it does: leave background out"
ABANDONED: Final = (
    "it was abandoned: its call blocks outside of Python, where no interrupt reaches it. Its thread, {!r}, lives until "
    "that call returns; what else runs is not disturbed"
)
RAISE: Final = (
    "import ctypes, threading; send, own = ctypes.pythonapi.PyThreadState_SetAsyncExc, threading.get_ident()\n"
    "for ident in [one.ident for one in threading.enumerate() if one.name == {!r}]:\n"
    " send(ctypes.c_ulong(ident), ctypes.py_object(KeyboardInterrupt))\n"
    "try: send(ctypes.c_ulong(own), ctypes.py_object(KeyError)); [None for _ in range(1000)]\n"
    "except KeyError: pass"
)
"""The second exception is taken at once: until a thread takes one, the next traced call in Python 3.11 never begins,
and blocking code takes none. Source: Python documentation, `PyThreadState_SetAsyncExc`.
"""


def has_subshells(kernel: Kernel) -> bool:
    """Return true for a kernel that claims subshells, if its claims count."""
    return kernel.info.quirks.has_subshells and FEATURE in kernel.info.features


class SubshellEvaluations:
    """The evaluations of one adapter in the background, for its life; each has a session, which is its own."""

    def __init__(self, kernel: Kernel, listener: Listener) -> None:
        self._kernel = kernel
        self._listener = listener
        self._running: dict[str, _SubshellEvaluator] = {}
        """The running evaluations, by session."""

    def __contains__(self, session: str) -> bool:
        return session in self._running

    def start(self, request: Request, on_end: OnEnd) -> None:
        """Send code to be run, form by form, on a new subshell."""
        evaluator = _SubshellEvaluator(self._kernel, self._listener)
        self._running[request.session] = evaluator

        def over(how: Ending | Exception) -> None:
            if self._running.get(request.session) is evaluator:
                del self._running[request.session]
                on_end(how)

        evaluator.give_up = lambda words: over(Ending("interrupted", notes=(words,)))
        evaluator.start(replace(request, session=MAIN_SESSION), over)

    async def interrupt(self, session: str) -> Interruption:
        """Stop the code of a session; code that no exception reaches is abandoned within two seconds."""
        return await self._running[session].interrupt()

    async def end(self) -> None:
        """End all running evaluations, when the connection has finished."""
        for evaluator in list(self._running.values()):
            await evaluator.end()


class _NoPrograms:
    """Our programs in a kernel; none is asked beside the main shell."""

    def load_code(self, request: Request) -> str:
        raise CapabilityMissingError("background", f"{request.kind} runs in the main shell alone")

    def frame_code(self, request: Request) -> str:
        raise CapabilityMissingError("background", f"the frame {request.frame} is the main shell's")

    async def prepare_load(self) -> None:
        """Nothing is loaded there."""

    def edited_modules_expressions(self, code: str) -> Mapping[str, str]:
        del code
        return {}

    def edited_modules(self, values: Mapping[str, object]) -> tuple[str, ...]:
        del values
        return ()

    async def begin(self, extra: Extra) -> None:
        raise CapabilityMissingError("background", f"the {extra.report} is recorded in the main shell alone")

    async def end(self, extra: Extra) -> str | None:
        del extra
        return None

    async def plain_locals(self, failure: Failure, cell: int | None) -> tuple[str, ...]:
        del failure, cell
        return ()


class _SubshellEvaluator(Evaluator):
    """Runs one evaluation, on a subshell that lives as long as the evaluation."""

    stores_history = False
    accepts_input = False

    def __init__(self, kernel: Kernel, listener: Listener) -> None:
        super().__init__(kernel, listener, _NoPrograms())
        self.give_up: Callable[[str], None] = lambda _words: None
        """Told in words that no interrupt ends it."""

    @asynccontextmanager
    async def _turn(self) -> AsyncIterator[None]:
        if self._subshell is None:
            self._subshell = await self._kernel.make_subshell()
        if self._subshell is None:
            raise CapabilityMissingError("background", NONE)
        self._kernel.check_open()
        yield

    async def _leave(self) -> None:
        if self._subshell is not None:
            await delete_subshell(self._kernel, self._subshell)

    async def interrupt(self) -> Interruption:
        work = self._works[0] if self._works else None
        if work is None:
            return Interruption("idle")
        work.is_stopping = True
        thread = f"subshell-{self._subshell}"
        with anyio.move_on_after(STOP_S):
            while not work.over.is_set():
                with suppress(CodriverError):
                    await expression(self._kernel, f"exec({RAISE.format(thread)!r}, {{}})", timeout_s=STOP_S)
                with anyio.move_on_after(AGAIN_S):
                    await work.over.wait()
        if not work.over.is_set():
            words = ABANDONED.format(thread)
            self.give_up(words)
            return Interruption("interrupted", note=words)
        return Interruption("interrupted")
