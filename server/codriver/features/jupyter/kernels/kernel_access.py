"""The interface that a Python kernel offers to companions, the objects with which features extend a REPL."""

from __future__ import annotations

import ast
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from codriver.core.evaluations import Failure
from codriver.features.jupyter.kernels.kernel import EXECUTE_TYPE, Exchange, Kernel
from codriver.features.jupyter.kernels.silent_expressions import expression_value, silent_request
from codriver.repls.contract.adapter import CapabilityMissingError, EvaluationFailedError
from codriver.repls.contract.events import Output
from codriver.wire.untrusted import mapping_at, text_at

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from codriver.features.jupyter.kernels.kernel_queries import KernelQueries
    from codriver.features.jupyter.kernels.messages import Message
    from codriver.repls.contract.events import Listener

CONNECT_TIMEOUT_S: Final = 0.5
"""Maximum time that companions may spend querying a kernel when they are created. The kernel may be busy."""
CALL_TIMEOUT_S: Final = 10.0
"""Maximum time to evaluate an expression."""


class KernelAccess:
    """Gives companions access to a connected Python kernel.

    A companion is the part of a feature that works with one REPL. Kernels report the output of a thread as output of
    the expression that started the thread, even after the expression has ended.
    """

    dialect = "python"
    ops: frozenset[str] = frozenset()
    description: Mapping[str, object] = MappingProxyType({})
    connect_timeout_s = CONNECT_TIMEOUT_S

    def __init__(self, kernel: Kernel, queries: KernelQueries, listener: Listener) -> None:
        self._kernel = kernel
        self._queries = queries
        self.listener = listener

    @property
    def is_busy(self) -> bool:
        """Return whether the kernel is running code."""
        return self._kernel.is_busy

    async def evaluate(self, code: str, *, what: str) -> str:
        """Evaluate an expression silently and return its value."""
        return await self._evaluate(code, what, Exchange())

    async def stream(self, code: str, *, what: str, on_output: Callable[[str], None]) -> tuple[str, Callable[[], None]]:
        """Evaluate an expression silently, and pass what it prints to `on_output`.

        Return the value, and a function that stops passing on the output of threads that the expression started.
        """

        def receive(message: Message) -> None:
            if message.type == "stream" and text_at(message.content, "name") == "stderr":
                self.listener(None, Output("err", text_at(message.content, "text")))
            elif message.type == "stream":
                on_output(text_at(message.content, "text"))

        exchange = Exchange(receive)
        value = await self._evaluate(code, what, exchange)
        self._kernel.retained[exchange.id] = exchange

        def end() -> None:
            self._kernel.retained.pop(exchange.id, None)

        return value, end

    async def call_op(self, op: str, fields: Mapping[str, str]) -> str:
        """Raise an error, because kernels have no operations."""
        del fields
        raise CapabilityMissingError(op)

    async def _evaluate(self, code: str, what: str, exchange: Exchange) -> str:
        await self._queries.wait_until_free()
        reply = await self._kernel.request(
            EXECUTE_TYPE, silent_request(code), timeout_s=CALL_TIMEOUT_S, while_busy=True, exchange=exchange
        )
        value = expression_value(reply)
        if text_at(value, "status") == "error":
            raise EvaluationFailedError(what, Failure(text_at(value, "ename"), text_at(value, "evalue")))
        printed = text_at(mapping_at(value, "data"), "text/plain")
        try:
            return str(ast.literal_eval(printed))
        except (ValueError, SyntaxError) as error:
            failure = Failure("unreadable", f"the kernel returned {printed[:200]!r} instead of a string")
            raise EvaluationFailedError(what, failure) from error
