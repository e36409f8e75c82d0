"""Expressions that a Python kernel evaluates silently, as `user_expressions` of an execution without code.

No other client sees them, and they do not change the execution count.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import anyio

from codriver.features.jupyter.kernels.kernel import EXECUTE, Exchange, Kernel
from codriver.repls.contract.adapter import OpTimedOutError
from codriver.wire.untrusted import mapping_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from codriver.features.jupyter.kernels.messages import Message

    Fields = Mapping[str, object]

    """A value in the form of `execute_result`, or an error; empty if the kernel told nothing."""


async def expression(kernel: Kernel, code: str, *, timeout_s: float) -> Fields:
    """The value of an expression; in a subshell while the kernel is busy, if there is one, else in its turn.

    Raises:
        OpTimedOutError: the expression was not answered, or did not get its turn, in time.
        ReplDisconnectedError: the connection is over.
    """
    return expression_value(await kernel.request(EXECUTE, silently(code), timeout_s=timeout_s, while_busy=True))


async def expression_now(kernel: Kernel, code: str, *, timeout_s: float) -> Fields:
    """Return the value of an expression, on the main shell in a turn that the caller has.

    Raises:
        OpTimedOutError: no answer came in time.
        ReplDisconnectedError: the connection has finished.
    """
    exchange = kernel.post("shell", EXECUTE, silently(code), Exchange())
    try:
        with anyio.move_on_after(timeout_s):
            await exchange.replied.wait()
            kernel.check_open()
            return expression_value(exchange.reply)
    finally:
        kernel.finish(exchange)
    raise OpTimedOutError(EXECUTE, timeout_s)


def silently(code: str) -> dict[str, object]:
    """Return the content of a request that evaluates an expression and nothing else."""
    return {
        "code": "",
        "silent": True,
        "store_history": False,
        "user_expressions": {"it": code},
        "allow_stdin": False,
        "stop_on_error": False,
    }


def expression_value(reply: Message | None) -> Fields:
    """Return the value of the expression that a reply tells."""
    return mapping_of(reply.mapping("user_expressions"), "it") if reply is not None else {}
