"""The adapter for Jupyter kernels: our side of one kernel, whatever carries its messages.

`connect_jupyter` gives it; `codriver.repls.adapter` says what it guarantees. Source: Jupyter documentation, "Messaging
in Jupyter".
"""

from __future__ import annotations

from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING

import anyio

from codriver.core.values import MAIN_SESSION, NO_LIMITS
from codriver.repls.adapter import Adapter
from codriver.repls.errors import CapabilityMissingError, SessionNotOpenError
from codriver.repls.jupyter.evaluator import Evaluator
from codriver.repls.jupyter.kernel import open_kernel
from codriver.repls.jupyter.kernel_profile import ONE_NAMESPACE, profile_of
from codriver.repls.jupyter.others import OthersEvaluations
from codriver.repls.jupyter.zmq_channel import open_zmq

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from contextlib import AbstractAsyncContextManager
    from pathlib import Path

    from codriver.core.values import PrintLimits, Profile, Request
    from codriver.repls.adapter_values import Ended, Interruption, Listener
    from codriver.repls.jupyter.channel import Carrier
    from codriver.repls.jupyter.kernel import Kernel
    from codriver.repls.media import CellRun


def connect_jupyter(
    place: str, *, listener: Listener, workspace: Path | None, is_remote: bool
) -> AbstractAsyncContextManager[Adapter]:
    """The connector of the protocol `jupyter`: `place` is the path of a connection file. See `Connector`."""
    del workspace, is_remote  # the connection file says where the kernel is
    return connect(partial(open_zmq, place), listener=listener)


@asynccontextmanager
async def connect(carrier: Carrier, *, listener: Listener) -> AsyncIterator[Adapter]:
    """An adapter for the kernel that the carrier leads to; leaving the context leaves the kernel alive.

    Raises:
        ReplUnreachableError: nobody listens there.
        NotAnReplError: what listens there does not answer as a kernel does.
        PackageMissingError: what the carrier needs is not installed.
    """
    others: list[OthersEvaluations] = []
    async with open_kernel(carrier, on_foreign=lambda message: others[0].take(message) if others else None) as kernel:
        others.append(OthersEvaluations(listener, kernel.info))
        adapter = JupyterAdapter(kernel, await profile_of(kernel), listener)
        try:
            yield adapter
        finally:
            kernel.end("it was closed by us")
            with anyio.CancelScope(shield=True):
                await adapter.end()


class JupyterAdapter(Adapter):
    """Our side of one kernel. Lives as long as the context of `connect`."""

    def __init__(self, kernel: Kernel, profile: Profile, listener: Listener) -> None:
        self._kernel = kernel
        self._profile = profile
        self._evaluator = Evaluator(kernel, listener, load_code)

    async def end(self) -> None:
        """End all that runs, when its connection is over."""
        await self._evaluator.end()

    @property
    def profile(self) -> Profile:
        """What the kernel can do."""
        return self._profile

    def start_evaluation(self, request: Request, ended: Ended, limits: PrintLimits = NO_LIMITS) -> None:
        """Send code to be run. See `Adapter.start_evaluation`."""
        del limits  # kernels know none
        self._evaluator.start(request, ended)

    async def wait_closed(self) -> str:
        """Wait until the connection is over and give the cause in words."""
        return await self._kernel.wait_closed()

    async def interrupt(self, session: str = MAIN_SESSION) -> Interruption:
        """Ask the kernel to stop what runs of ours. See `Adapter.interrupt`."""
        self._require("interrupt", session)
        return await self._evaluator.interrupt()

    async def interrupt_others(self) -> Interruption:
        """Ask the kernel to stop what another client evaluates. See `Adapter.interrupt_others`."""
        self._require("interrupt")
        return await self._evaluator.interrupt_others()

    async def send_input(self, text: str, session: str = MAIN_SESSION) -> None:
        """Give `text` to code that reads from stdin. See `Adapter.send_input`."""
        self._require("stdin", session)
        await self._evaluator.send_input(text)

    async def open_session(self, name: str, *, shares_names: bool = False) -> None:
        """Refuse: a kernel keeps nothing apart. See `Adapter.open_session`."""
        del shares_names
        if name != MAIN_SESSION:
            raise CapabilityMissingError("sessions", ONE_NAMESPACE)

    def cell_run(self, evaluation: str) -> CellRun | None:
        """The outputs of a notebook cell's evaluation. See `Adapter.cell_run`."""
        return self._evaluator.cell_run(evaluation)

    async def restart(self) -> None:
        """Restart the kernel by what carries its messages. See `Adapter.restart`."""
        await self._kernel.channel.restart()

    def _require(self, capability: str, session: str = MAIN_SESSION) -> None:
        if capability not in self._profile.capabilities:
            raise CapabilityMissingError(capability, self._profile.missing.get(capability))
        if session != MAIN_SESSION:
            raise SessionNotOpenError(session)


def load_code(request: Request) -> str:
    """The code that loads a file: in Python under its path, so that places in it are told; else its text."""
    return request.code
