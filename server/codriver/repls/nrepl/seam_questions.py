"""Queries to an application through its seam.

If no application was found when the REPL was connected, it is searched again after code that may have loaded one. The
search precedes the report of that code's end, so the caller can use the application immediately.
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
from codriver.repls.contract.adapter_values import Listener, Output, SeamFound
from codriver.repls.dialects import seam_providers
from codriver.repls.dialects.seam_providers import CHECK_S, FrameReader, Provider, learn_sensitive
from codriver.repls.nrepl.responses import SEAM_OP, Reply, check_no_failure, parse_program_data
from codriver.repls.nrepl.session_routes import TOOL_SESSION

if TYPE_CHECKING:
    from collections.abc import Sequence

    from codriver.repls.contract.extras import Programs
    from codriver.repls.nrepl.connection import Message, NreplConnection
    from codriver.repls.nrepl.probe import ProbeResult
    from codriver.repls.nrepl.session_pool import SessionPool
    from codriver.wire.bencode import Value


SEAM: Final = "the application's seam"
_SHOW_MESSAGES: Final = frozenset({"clojure", "hy"})


class SeamQueries:
    """Calls the seam of the application in one REPL, for as long as its adapter exists."""

    def __init__(
        self, sessions: SessionPool, probed: ProbeResult, listener: Listener, programs: Programs, *, op_timeout_s: float
    ) -> None:
        self._sessions = sessions
        self._profile = probed.profile
        self._dialect = probed.dialect
        self._is_native = SEAM_OP in probed.ops
        self._search = None if self._is_native else seam_providers.search_expression(probed.dialect.name)
        self._found = probed.seam
        self._streams: dict[str, _Stream] = {}
        """The event streams by the id of their subscription."""
        self._listener = listener
        self._reports = programs.report_fields
        self._op_timeout_s = op_timeout_s

    async def call(self, accessor: str, arguments: str) -> str:
        """Call an accessor, and return its answer as JSON.

        Raises:
            CapabilityMissingError: no application has installed the seam.
            EvaluationFailedError: the call failed.
        """
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
        """Replace a request to load `codriver_seam` in a REPL that cannot load Python by the code that loads it."""
        code = seam_providers.seam_package_code(self._dialect.name, request.file)
        if code is None:
            return request
        return replace(request, code=code, forms=(), file=None, kind="evaluate")

    @property
    def accepts_origin(self) -> bool:
        """Return whether the seam can read the origin from the request, as nREPL on the JVM and in Hy allows."""
        found = self._found
        return (
            found is not None
            and self._dialect.name in _SHOW_MESSAGES
            and seam_providers.reports_sensitive(found.provider)
        )

    @property
    def is_first(self) -> bool:
        """Return whether sensitive values must be queried before code runs. Codriver's worker sends them by itself."""
        found = self._found
        return found is not None and not self._is_native and seam_providers.reports_sensitive(found.provider)

    async def before(self) -> None:
        """Learn the values at sensitive paths before code that may display them. Never raises."""
        if self.is_first and not self._is_busy:
            await learn_sensitive(self.call, self._listener)

    def is_last(self, request: Request) -> bool:
        """Return whether to search for an application after a request because its code may have loaded one.

        A request to load a file does not show the file's effect, so the answer for those is always yes.
        """
        if self._found is not None or self._search is None:
            return False
        return request.kind != "evaluate" or seam_providers.may_load_application(self._dialect.name, request.code)

    async def after(self) -> None:
        """Search for an application after code that may have loaded one. Never raises."""
        with suppress(CodriverError), anyio.move_on_after(CHECK_S):
            await self.find_application()

    async def find_application(self) -> None:
        """Search for an application that has installed the seam, unless the REPL is too busy to answer.

        Raises:
            EvaluationFailedError: the search failed.
        """
        if self._search is None or self._is_busy:
            return
        answer = await self._evaluate(self._dialect.as_json(self._search))
        found_data = parse_program_data("the query of an application", answer, self._dialect)
        self._found = seam_providers.found(self._dialect.name, found_data)
        if self._found:
            self._listener(None, SeamFound(self._found.session_id, self._found.provider.name))

    @property
    def _is_busy(self) -> bool:
        """Return whether the REPL is running code and would not answer."""
        connection = self._sessions.get(MAIN_SESSION).connection
        return connection.is_waiting and not self._dialect.answers_while_busy

    async def _call_op(self, accessor: str, arguments: str) -> str:
        main = self._sessions.get(MAIN_SESSION)
        fields: dict[str, Value] = {"name": accessor, "args": arguments, **main.address()}
        answer = await main.connection.request(SEAM_OP, timeout_s=self._op_timeout_s, **fields)
        check_no_failure(SEAM, answer, self._dialect)
        seam_answer = next((text for message in answer if (text := message.text("answer"))), None)
        if seam_answer is None:
            raise self._missing()
        for message in answer:
            Reply(None, self._listener, reports=self._reports).receive(message)
        return seam_answer

    async def _subscribe(self, provider: Provider, code: str) -> str:
        """Subscribe by evaluating a form. Its output contains the frames while the subscription lasts."""
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
        check_no_failure(SEAM, answer, self._dialect)
        printed = next((text for message in reversed(answer) if (text := message.text("value"))), "")
        try:
            return seam_providers.answer(provider, accessor, seam_providers.unquoted(self._dialect.name, printed))
        except (ValueError, SyntaxError) as error:
            failure = Failure("unreadable", f"it answered {printed[:200]!r}")
            raise EvaluationFailedError(SEAM, failure) from error

    def _missing(self) -> CapabilityMissingError:
        return CapabilityMissingError("seam", self._profile.missing.get("seam"))


class _Stream:
    """The output of a form that subscribes, which contains frames of events even after its evaluation."""

    def __init__(self, connection: NreplConnection, listener: Listener) -> None:
        self.frames = FrameReader()
        self._connection = connection
        self._listener = listener
        self._answer: list[Message] = []
        self._exchange = connection.begin(self._receive)

    async def begin(self, fields: dict[str, Value], *, timeout_s: float) -> list[Message]:
        """Send the form, and return the replies up to its end.

        Raises:
            OpTimedOutError: the form did not end in time.
        """
        connection, exchange = self._connection, self._exchange
        connection.retain(exchange)
        with anyio.move_on_after(timeout_s):
            await connection.send(exchange, "eval", fields)
            await exchange.wait_finished()
            connection.check_open()
            return self._answer
        raise OpTimedOutError("eval", timeout_s)

    def end(self) -> None:
        """Treat later messages like those of any finished evaluation."""
        self._connection.end(self._exchange)
        self._connection.forget(self._exchange)

    def _receive(self, message: Message) -> None:
        """Report frames and output to the listener. All other messages are replies to the form."""
        text = message.text("out")
        for found in self.frames.feed(text) if text else ():
            self._listener(None, Output("out", found) if isinstance(found, str) else found)
        if err := message.text("err"):
            self._listener(None, Output("err", err))
        if not self._exchange.is_finished:
            self._answer.append(message)
