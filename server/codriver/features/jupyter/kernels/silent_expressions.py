"""Evaluate expressions in a Python kernel without visible output or history.

No other client sees the expressions, and they do not change the execution count.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import anyio

from codriver.features.jupyter.kernels.kernel import EXECUTE_TYPE, Exchange, Kernel
from codriver.repls.contract.adapter import OpTimedOutError
from codriver.wire.untrusted import mapping_at, text_at

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from codriver.features.jupyter.kernels.messages import Message


MESSAGE_MARK: Final = "\x1e"
"""The first character of each message from one of the kernel's threads. The last message contains nothing else."""


async def evaluate_expression(kernel: Kernel, code: str, *, timeout_s: float) -> Mapping[str, object]:
    """Evaluate an expression silently, and return the result as sent by the kernel.

    If the kernel is busy, use a subshell if it has any, or wait until it is free.

    Raises:
        OpTimedOutError: the expression was not evaluated in time.
        ReplDisconnectedError: the connection has closed.
    """
    return expression_value(
        await kernel.request(EXECUTE_TYPE, silent_request(code), timeout_s=timeout_s, while_busy=True)
    )


async def evaluate_with_messages(
    kernel: Kernel, code: str, on_text: Callable[[str], object], *, timeout_s: float
) -> Mapping[str, object]:
    """Evaluate an expression as `evaluate_expression` does, and pass the texts that it sends to `on_text`.

    Threads that the expression started may send texts even after it has returned.
    """
    is_last = False

    def on_message(message: Message) -> None:
        nonlocal is_last
        text = text_at(message.content, "text") if message.type == "stream" else None
        if text == MESSAGE_MARK:
            is_last = True
            kernel.retained.pop(exchange.id, None)
        elif text is not None and text.startswith(MESSAGE_MARK):
            on_text(text.removeprefix(MESSAGE_MARK))

    exchange = Exchange(on_message)
    reply = await kernel.request(
        EXECUTE_TYPE, silent_request(code), timeout_s=timeout_s, while_busy=True, exchange=exchange
    )
    if not is_last:
        kernel.retained[exchange.id] = exchange
    return expression_value(reply)


async def evaluate_in_turn(kernel: Kernel, code: str, *, timeout_s: float) -> Mapping[str, object]:
    """Evaluate an expression on the main shell, which the caller must have reserved. Return the result.

    Raises:
        OpTimedOutError: the expression was not evaluated in time.
        ReplDisconnectedError: the connection has closed.
    """
    exchange = kernel.post("shell", EXECUTE_TYPE, silent_request(code), Exchange())
    try:
        with anyio.move_on_after(timeout_s):
            await exchange.replied.wait()
            kernel.check_open()
            return expression_value(exchange.reply)
    finally:
        kernel.finish(exchange)
    raise OpTimedOutError(EXECUTE_TYPE, timeout_s)


def silent_request(code: str) -> dict[str, object]:
    """Return the content of an `execute_request` that only evaluates an expression."""
    return {
        "code": "",
        "silent": True,
        "store_history": False,
        "user_expressions": {"it": code},
        "allow_stdin": False,
        "stop_on_error": False,
    }


def expression_value(reply: Message | None) -> Mapping[str, object]:
    """Return the result of the expression from a reply, or an empty mapping if there is none."""
    return mapping_at(reply.mapping_field("user_expressions"), "it") if reply is not None else {}
