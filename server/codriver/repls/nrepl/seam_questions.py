"""Questions to an application by its seam.

An application that was missing when the REPL was connected is searched after code that may have loaded it, before the
end of that code is reported. So it is known when the caller reads on.
"""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import anyio

from codriver.core.values import MAIN_SESSION, Failure, Request
from codriver.errors import CodriverError
from codriver.repls.contract.adapter import CapabilityMissingError, EvaluationFailedError, OpTimedOutError
from codriver.repls.contract.adapter_values import AppEvents, Listener, Output, SeamFound
from codriver.repls.dialects import seam_providers
from codriver.repls.dialects.seam_providers import CHECK_S, FrameReader, Provider, learn_sensitive
from codriver.repls.nrepl.responses import SEAM_OP, Reply, check, read_data
from codriver.repls.nrepl.session_routes import TOOL_SESSION

if TYPE_CHECKING:
    from collections.abc import Sequence

    from codriver.repls.nrepl.connection import Message, NreplConnection
    from codriver.repls.nrepl.probe import ProbeResult
    from codriver.repls.nrepl.session_pool import SessionPool
    from codriver.wire.bencode import Value

    """A way to put a question, in a session and with the namespace in which its names are read."""

SEAM: Final = "the application's seam"
_SHOW_MESSAGES: Final = frozenset({"clojure", "hy"})


class SeamQueries:
    """The questions to the seam of the application in one REPL. Lives as long as its adapter."""

    def __init__(self, sessions: SessionPool, probed: ProbeResult, listener: Listener, *, op_timeout_s: float) -> None:
        self._sessions = sessions
        self._profile = probed.profile
        self._dialect = probed.dialect
        self._is_native = SEAM_OP in probed.ops
        self._search = None if self._is_native else seam_providers.search_expression(probed.dialect.name)
        self._found = probed.seam
        self._streams: dict[str, _Stream] = {}
        """The event streams, by the id of their subscription."""
        self._listener = listener
        self._op_timeout_s = op_timeout_s

    async def call(self, accessor: str, arguments: str) -> str:
        """Return the answer to an accessor, as JSON."""
        if self._is_native:
            return await self._call_op(accessor, arguments)
        if self._found is None:
            await self.find_application()
        if self._found is None:
            raise self._missing()
        if refused := seam_providers.refusal(self._found.provider, accessor, self._found.lacking):
            return json.dumps(refused)
        provider, parsed = self._found.provider, json.loads(arguments)
        code = seam_providers.form(provider, self._dialect.name, accessor, parsed)
        if accessor == "subscribe":
            return await self._subscribe(provider, code)
        answer = self._read(provider, accessor, await self._evaluate(code))
        for identity in seam_providers.finished_subscriptions(accessor, parsed, json.loads(answer), self._streams):
            self._streams.pop(identity).end()
        return answer

    def laid_in(self, request: Request) -> Request:
        """The request to load a file; for our package in a REPL that loads no Python, the code that loads it."""
        code = seam_providers.laying_in(self._dialect.name, request.file)
        if code is None:
            return request
        return replace(request, code=code, forms=(), file=None, kind="evaluate")

    @property
    def accepts_origin(self) -> bool:
        """True on the JVM and in Hy: their nREPLs show the message to evaluated code, and our seam reads it there."""
        found = self._found
        return (
            found is not None
            and self._dialect.name in _SHOW_MESSAGES
            and seam_providers.reports_sensitive(found.provider)
        )

    @property
    def is_first(self) -> bool:
        """Return true if sensitive texts are requested before code runs: our worker tells them by itself."""
        found = self._found
        return found is not None and not self._is_native and seam_providers.reports_sensitive(found.provider)

    async def before(self) -> None:
        """Learn the texts at sensitive paths, before code that may show them. Never raises."""
        if self.is_first and not self._is_busy:
            await learn_sensitive(self.call, self._listener)

    def is_last(self, request: Request) -> bool:
        """True if an application is looked for after a request: none is known, and its code may have loaded one.

        The effect of a file is not visible in the request that loads it.
        """
        if self._found is not None or self._search is None:
            return False
        return request.kind != "evaluate" or seam_providers.may_bring(self._dialect.name, request.code)

    async def after(self) -> None:
        """Search for an application after code that may have loaded one. Never raises."""
        with suppress(CodriverError), anyio.move_on_after(CHECK_S):
            await self.find_application()

    async def find_application(self) -> None:
        """Ask whether an application shows itself, unless the REPL is busy and would not answer.

        Raises:
            EvaluationFailedError: the REPL failed in answering.
        """
        if self._search is None or self._is_busy:
            return
        answer = await self._evaluate(self._dialect.as_json(self._search))
        found_data = read_data("the question for an application", answer, self._dialect)
        self._found = seam_providers.found(self._dialect.name, found_data)
        if self._found:
            self._listener(None, SeamFound(self._found.session_id, self._found.provider.name))

    @property
    def _is_busy(self) -> bool:
        """Return true while the REPL runs code and would not answer."""
        connection = self._sessions.get(MAIN_SESSION).connection
        return connection.is_waiting and not self._dialect.answers_while_busy

    async def _call_op(self, accessor: str, arguments: str) -> str:
        main = self._sessions.get(MAIN_SESSION)
        fields: dict[str, Value] = {"name": accessor, "args": arguments, **main.address()}
        answer = await main.connection.request(SEAM_OP, timeout_s=self._op_timeout_s, **fields)
        check(SEAM, answer, self._dialect)
        seam_answer = next((text for message in answer if (text := message.text("answer"))), None)
        if seam_answer is None:
            raise self._missing()
        for message in answer:
            Reply(None, self._listener).receive(message)
        return seam_answer

    async def _subscribe(self, provider: Provider, code: str) -> str:
        """Subscribe by evaluating a form, whose output brings the frames as long as the subscription stands."""
        tool = await self._sessions.open(TOOL_SESSION)
        stream = _Stream(tool.connection, self._listener)
        try:
            fields: dict[str, Value] = {**tool.address(), "code": f"{self._dialect.preserve_last}{code}"}
            answer = await stream.begin(fields, timeout_s=self._op_timeout_s)
            reply = self._read(provider, "subscribe", answer)
            stream.frames.subscription = identity = json.loads(reply).get("subId")
        except BaseException:
            stream.end()
            raise
        if identity is None:
            stream.end()
        else:
            self._streams[identity] = stream
        return reply

    async def _evaluate(self, code: str) -> list[Message]:
        return await self._sessions.evaluate(TOOL_SESSION, f"{self._dialect.preserve_last}{code}")

    def _read(self, provider: Provider, accessor: str, answer: Sequence[Message]) -> str:
        check(SEAM, answer, self._dialect)
        printed = next((text for message in reversed(answer) if (text := message.text("value"))), "")
        try:
            return seam_providers.answer(provider, accessor, seam_providers.unquoted(self._dialect.name, printed))
        except (ValueError, SyntaxError) as error:
            failure = Failure("unreadable", f"it answered {printed[:200]!r}")
            raise EvaluationFailedError(SEAM, failure) from error

    def _missing(self) -> CapabilityMissingError:
        return CapabilityMissingError("seam", self._profile.missing.get("seam"))


class _Stream:
    """The output of a subscribing form, in which frames of events come, also after its evaluation."""

    def __init__(self, connection: NreplConnection, listener: Listener) -> None:
        self.frames = FrameReader()
        self._connection = connection
        self._listener = listener
        self._answer: list[Message] = []
        self._exchange = connection.begin(self._receive)

    async def begin(self, fields: dict[str, Value], *, timeout_s: float) -> list[Message]:
        """Send the form; the messages that answer it.

        Raises:
            OpTimedOutError: no answer came in time.
        """
        connection, exchange = self._connection, self._exchange
        connection.retain(exchange)
        with anyio.move_on_after(timeout_s):
            await connection.send(exchange, "eval", fields)
            await exchange.wait_over()
            connection.check_open()
            return self._answer
        raise OpTimedOutError("eval", timeout_s)

    def end(self) -> None:
        """Treat later messages like those of any ended evaluation."""
        self._connection.end(self._exchange)
        self._connection.forget(self._exchange)

    def _receive(self, message: Message) -> None:
        """Pass on frames, and other output as no one's; all else is the form's answer."""
        text = message.text("out")
        for found in self.frames.feed(text) if text else ():
            self._listener(None, Output("out", found) if isinstance(found, str) else AppEvents(found))
        if err := message.text("err"):
            self._listener(None, Output("err", err))
        if not self._exchange.is_over:
            self._answer.append(message)
