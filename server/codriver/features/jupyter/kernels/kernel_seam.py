"""The connection to the seam of an application that runs in a Python kernel.

The seam is searched for when the kernel is connected, and after code that may have loaded it. Events are printed by the
application's threads, so the kernel sends them as output of the expression that subscribed.
"""

from __future__ import annotations

import ast
import json
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import anyio

from codriver.core.values import Capability, Failure, Request
from codriver.errors import CodriverError
from codriver.features.jupyter.kernels.kernel import EXECUTE, Exchange, Kernel
from codriver.features.jupyter.kernels.silent_expressions import expression_value, silent_request
from codriver.repls.contract.adapter import CapabilityMissingError, EvaluationFailedError
from codriver.repls.contract.adapter_values import Listener, SeamFound
from codriver.repls.dialects import seam_providers
from codriver.repls.dialects.seam_providers import FrameReader, learn_sensitive
from codriver.wire.untrusted import mapping_of, text_of

if TYPE_CHECKING:
    from codriver.features.jupyter.kernels.kernel_queries import KernelQueries
    from codriver.features.jupyter.kernels.messages import Message


PYTHON: Final = "python"
SEARCH_S: Final = 0.5
"""Maximum duration of the search for an application."""
CALL_S: Final = 10.0
"""Maximum duration of a call of the seam."""
SEAM: Final = "the application's seam"


class KernelSeam:
    """Calls the seam of the application in one connected Python kernel."""

    def __init__(self, kernel: Kernel, queries: KernelQueries, listener: Listener) -> None:
        self._kernel = kernel
        self._queries = queries
        self._listener = listener
        self._provider_match: seam_providers.Found | None = None
        self._streams: dict[str, Exchange] = {}
        """The event streams, by the id of their subscription."""

    @staticmethod
    def with_seam_loader(request: Request) -> Request:
        """Return the request, with code that loads the seam's package if that is requested.

        The file of such a request is only a part of the package.
        """
        code = seam_providers.seam_package_code(seam_providers.KERNEL, request.file)
        return replace(request, code=code, file=None, kind="evaluate") if code else request

    @property
    def accepts_origin(self) -> bool:
        """Return whether the application's seam reads the messages of its kernel."""
        return self._provider_match is not None

    @property
    def is_first(self) -> bool:
        """Return whether sensitive texts are requested before code runs."""
        return self._provider_match is not None

    async def before(self) -> None:
        """Learn the texts at sensitive paths, before code that may print them. Never raises."""
        if self.is_first and not self._kernel.is_busy:
            await learn_sensitive(self.call, self._listener)

    def is_last(self, request: Request) -> bool:
        """Return whether to search for an application after a request that may have loaded one, because none is known.

        The effect of a file is not visible in the request that loads it.
        """
        is_load = request.kind != "evaluate"
        return self._provider_match is None and (is_load or seam_providers.may_load_application(PYTHON, request.code))

    async def after(self) -> None:
        """Search for an application after code that may have loaded one. Never raises."""
        await self.find_application()

    async def find_application(self) -> None:
        """Search for an application, unless the kernel is busy. Never raises."""
        if self._kernel.is_busy:
            return
        expression = f"__import__('json').dumps({seam_providers.search_expression(PYTHON)})"
        with suppress(CodriverError, ValueError), anyio.move_on_after(SEARCH_S):
            answer = await self._evaluate(expression, Exchange())
            self._provider_match = seam_providers.found(PYTHON, json.loads(answer))
        if self._provider_match is not None:
            self._listener(None, SeamFound(self._provider_match.session_id, self._provider_match.provider.name))

    def capability(self) -> tuple[str, Capability] | None:
        """Return the session id of the seam and the capability that it provides, or None without a seam."""
        match = self._provider_match
        return (match.session_id, Capability(match.provider.name, adapted=True)) if match else None

    async def call(self, accessor: str, arguments: str) -> str:
        """Return the answer of an accessor as JSON."""
        if self._provider_match is None:
            await self.find_application()
        if self._provider_match is None:
            raise CapabilityMissingError("seam", seam_providers.WAYS[PYTHON])
        await self._queries.wait_until_free()
        provider, parsed = self._provider_match.provider, json.loads(arguments)
        code = seam_providers.form(provider, PYTHON, accessor, parsed)
        if accessor == "subscribe":
            return await self._subscribe(code)
        answer = await self._evaluate(code, Exchange())
        for identity in seam_providers.finished_subscriptions(accessor, parsed, json.loads(answer), self._streams):
            del self._kernel.retained[self._streams.pop(identity).id]
        return answer

    async def _subscribe(self, code: str) -> str:
        frames = FrameReader()
        exchange = Exchange(lambda message: self._on_message(message, frames))
        answer = await self._evaluate(code, exchange)
        frames.subscription = subscription_id = json.loads(answer).get("subId")
        if subscription_id is not None:
            self._kernel.retained[exchange.id] = exchange
            self._streams[subscription_id] = exchange
        return answer

    def _on_message(self, message: Message, frames: FrameReader) -> None:
        if message.type != "stream":
            return
        for event in frames.feed(text_of(message.content, "text")):
            if not isinstance(event, str):
                self._listener(None, event)

    async def _evaluate(self, code: str, exchange: Exchange) -> str:
        """Return the string that is the value of an expression.

        Raises:
            EvaluationFailedError: the expression failed, or its value is not a string.
        """
        reply = await self._kernel.request(
            EXECUTE, silent_request(code), timeout_s=CALL_S, while_busy=True, exchange=exchange
        )
        value = expression_value(reply)
        if text_of(value, "status") == "error":
            raise EvaluationFailedError(SEAM, Failure(text_of(value, "ename"), text_of(value, "evalue")))
        printed = text_of(mapping_of(value, "data"), "text/plain")
        try:
            return str(ast.literal_eval(printed))
        except (ValueError, SyntaxError) as error:
            failure = Failure("unreadable", f"it returned {printed[:200]!r} instead of a string")
            raise EvaluationFailedError(SEAM, failure) from error
