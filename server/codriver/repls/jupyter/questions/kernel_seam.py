"""The seam of the application in a Python kernel: asked by expressions, which no client sees, also while a cell runs.

It is looked for when the kernel is connected, and when code has run that may have brought it. Frames of events come as
output of the expression that subscribed, from the application's own threads.
"""

from __future__ import annotations

import ast
import json
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import anyio

from codriver.core.values import Capability, Failure
from codriver.errors import CodriverError
from codriver.repls.contract.adapter_values import AppEvents, SeamShown
from codriver.repls.contract.errors import CapabilityMissingError, EvaluationFailedError
from codriver.repls.jupyter.questions.kernel_questions import silently, told_by
from codriver.repls.jupyter.running.kernel import EXECUTE, Exchange
from codriver.repls.seam import seam_providers
from codriver.repls.seam.seam_providers import FrameReader, learn_sensitive
from codriver.wire.untrusted import mapping_of, text_of

if TYPE_CHECKING:
    from codriver.core.values import Request
    from codriver.repls.contract.adapter_values import Listener
    from codriver.repls.jupyter.messages import Message
    from codriver.repls.jupyter.questions.kernel_questions import Questions
    from codriver.repls.jupyter.running.kernel import Kernel

PYTHON: Final = "python"
LOOK_S: Final = 0.5
"""How long the look for an application may take."""
ASK_S: Final = 10.0
SEAM: Final = "the application's seam"


class KernelSeam:
    """The questions to the seam of the application in one Python kernel, for the life of its connection."""

    def __init__(self, kernel: Kernel, questions: Questions, listener: Listener) -> None:
        self._kernel = kernel
        self._questions = questions
        self._listener = listener
        self._found: seam_providers.Found | None = None
        self._streams: dict[str, Exchange] = {}
        """By the id of its subscription."""

    @staticmethod
    def laid_in(request: Request) -> Request:
        """The request; of one to load our package, whose file is a part of it alone, the code that brings it in."""
        code = seam_providers.laying_in(seam_providers.KERNEL, request.file)
        return replace(request, code=code, file=None, kind="evaluate") if code else request

    @property
    def takes_origin(self) -> bool:
        """True where an application is there, whose seam reads the messages of its kernel."""
        return self._found is not None

    @property
    def is_first(self) -> bool:
        """True where sensitive texts are asked for before code runs."""
        return self._found is not None

    async def before(self) -> None:
        """Learn what stands at sensitive paths, before code runs that may show it. Never raises."""
        if self.is_first and not self._kernel.is_busy:
            await learn_sensitive(self.ask, self._listener)

    def is_last(self, request: Request) -> bool:
        """True where an application is looked for when this was evaluated: none is known, and it may have brought one.

        Whatever a file brings in is not seen in the request that loads it.
        """
        is_load = request.kind != "evaluate"
        return self._found is None and (is_load or seam_providers.may_bring(PYTHON, request.code))

    async def after(self) -> None:
        """Look for an application when code has run that may have brought one. Never raises."""
        await self.look()

    async def look(self) -> None:
        """Ask whether an application shows itself, unless the kernel is busy. Never raises."""
        if self._kernel.is_busy:
            return
        question = f"__import__('json').dumps({seam_providers.question(PYTHON)})"
        with suppress(CodriverError, ValueError), anyio.move_on_after(LOOK_S):
            told = await self._evaluate(question, Exchange())
            self._found = seam_providers.found(PYTHON, json.loads(told))
        if self._found is not None:
            self._listener(None, SeamShown(self._found.session_id, self._found.provider.name))

    def shown(self) -> tuple[str, Capability] | None:
        """The session id of the seam that was found, and the capability that it gives."""
        found = self._found
        return (found.session_id, Capability(found.provider.name, adapted=True)) if found else None

    async def ask(self, accessor: str, arguments: str) -> str:
        """The answer to an accessor, as JSON."""
        if self._found is None:
            await self.look()
        if self._found is None:
            raise CapabilityMissingError("seam", seam_providers.WAYS[PYTHON])
        await self._questions.wait_free()
        provider, asked = self._found.provider, json.loads(arguments)
        code = seam_providers.form(provider, PYTHON, accessor, asked)
        if accessor == "subscribe":
            return await self._subscribe(code)
        told = await self._evaluate(code, Exchange())
        for identity in seam_providers.over(accessor, asked, json.loads(told), self._streams):
            del self._kernel.kept[self._streams.pop(identity).id]
        return told

    async def _subscribe(self, code: str) -> str:
        frames = FrameReader()
        exchange = Exchange(lambda message: self._take(message, frames))
        told = await self._evaluate(code, exchange)
        frames.subscription = identity = json.loads(told).get("subId")
        if identity is not None:
            self._kernel.kept[exchange.id] = exchange
            self._streams[identity] = exchange
        return told

    def _take(self, message: Message, frames: FrameReader) -> None:
        if message.type != "stream":
            return
        for found in frames.feed(text_of(message.content, "text")):
            if not isinstance(found, str):
                self._listener(None, AppEvents(found))

    async def _evaluate(self, code: str, exchange: Exchange) -> str:
        """The text that an expression gives.

        Raises:
            EvaluationFailedError: it failed, or gives no text.
        """
        reply = await self._kernel.ask(EXECUTE, silently(code), timeout_s=ASK_S, while_busy=True, exchange=exchange)
        told = told_by(reply)
        if text_of(told, "status") == "error":
            raise EvaluationFailedError(SEAM, Failure(text_of(told, "ename"), text_of(told, "evalue")))
        printed = text_of(mapping_of(told, "data"), "text/plain")
        try:
            return str(ast.literal_eval(printed))
        except (ValueError, SyntaxError) as error:
            fault = Failure("unreadable", f"it answered {printed[:200]!r}")
            raise EvaluationFailedError(SEAM, fault) from error
