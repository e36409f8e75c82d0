"""Python expressions that a kernel evaluates silently: no client sees them, and nothing counts them.

They are the `user_expressions` of an execution without code. Kernels of other languages answer none of them.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Final

import anyio

from codriver.errors import CodriverError
from codriver.repls.contract.errors import OpTimedOutError
from codriver.repls.jupyter.messages.messages import mapping_of
from codriver.repls.jupyter.running.exchange import Exchange
from codriver.repls.jupyter.running.kernel import EXECUTE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from codriver.repls.jupyter.messages.messages import Message
    from codriver.repls.jupyter.running.kernel import Kernel

    Told = Mapping[str, object]
    """A value as `execute_result` has one, or an error; empty where the kernel told nothing."""


LEAVE_S: Final = 0.5
"""How long a kernel may take to end a subshell: code that holds the interpreter's lock holds that up too."""


async def expression(kernel: Kernel, code: str, *, timeout_s: float) -> Told:
    """The value of an expression; in a subshell while the kernel is busy, if it has one, else in its turn.

    Raises:
        OpTimedOutError: it was not answered, or did not get its turn, in time.
        ReplDisconnectedError: the connection is over.
    """
    return told_by(await kernel.ask(EXECUTE, silently(code), timeout_s=timeout_s, while_busy=True))


async def leave_subshell(kernel: Kernel) -> None:
    """End our subshell, whose thread would stay in the kernel for its life. Never raises."""
    if kernel.own_subshell is None or kernel.cause is not None:
        return
    content = {"subshell_id": kernel.own_subshell}
    with anyio.CancelScope(shield=True), suppress(CodriverError):
        await kernel.ask("delete_subshell_request", content, socket="control", timeout_s=LEAVE_S)


async def expression_now(kernel: Kernel, code: str, *, timeout_s: float) -> Told:
    """The value of an expression, on the main shell in a turn that the caller has.

    Raises:
        OpTimedOutError: it was not answered in time.
        ReplDisconnectedError: the connection is over.
    """
    exchange = kernel.post("shell", EXECUTE, silently(code), Exchange())
    try:
        with anyio.move_on_after(timeout_s):
            await exchange.replied.wait()
            kernel.check_open()
            return told_by(exchange.reply)
    finally:
        kernel.finish(exchange)
    raise OpTimedOutError(EXECUTE, timeout_s)


def silently(code: str) -> dict[str, object]:
    """The content of a request that evaluates an expression and nothing else."""
    return {
        "code": "",
        "silent": True,
        "store_history": False,
        "user_expressions": {"it": code},
        "allow_stdin": False,
        "stop_on_error": False,
    }


def told_by(reply: Message | None) -> Told:
    """The value of the expression that a reply tells."""
    return mapping_of(reply.mapping("user_expressions"), "it") if reply is not None else {}
