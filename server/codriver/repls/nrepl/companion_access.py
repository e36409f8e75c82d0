"""The interface through which companions, the extensions of REPLs by features, use an nREPL server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import anyio

from codriver.core.evaluations import Failure
from codriver.core.requests import MAIN_SESSION
from codriver.repls.contract.adapter import EvaluationFailedError, OpTimedOutError
from codriver.repls.contract.events import Output
from codriver.repls.nrepl.connection_routes import TOOL_SESSION
from codriver.repls.nrepl.replies import require_success

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from codriver.repls.contract.events import Listener
    from codriver.repls.nrepl.connection import Message, NreplConnection
    from codriver.repls.nrepl.probe import ProbeResult
    from codriver.repls.nrepl.session_pool import SessionPool
    from codriver.wire.bencode import Value

CONNECT_TIMEOUT_S: Final = 5.0
"""Maximum number of seconds that companions may spend on queries to a server when they are created.

Basilisp is slow on a busy machine.
"""


class NreplAccess:
    """A companion's interface to one nREPL server. It can be used for as long as the server's adapter exists."""

    connect_timeout_s = CONNECT_TIMEOUT_S

    def __init__(
        self,
        sessions: SessionPool,
        probed: ProbeResult,
        listener: Listener,
        call_op: Callable[[str, Mapping[str, str]], Awaitable[str]],
        *,
        op_timeout_s: float,
    ) -> None:
        self._sessions = sessions
        self._dialect = probed.dialect
        self._call_op = call_op
        self._op_timeout_s = op_timeout_s
        self.dialect = probed.dialect.name
        self.ops = probed.ops
        self.description = probed.description
        self.listener = listener

    @property
    def is_busy(self) -> bool:
        """Return whether the REPL is running code and would therefore not answer."""
        connection = self._sessions.get(MAIN_SESSION).connection
        return connection.is_waiting and not self._dialect.answers_while_busy

    async def evaluate(self, code: str, *, what: str) -> str:
        """Evaluate an expression in Codriver's session, and return its value."""
        answer = await self._sessions.evaluate(TOOL_SESSION, f"{self._dialect.preserve_last}{code}")
        return self._read_string(answer, what)

    async def stream(self, code: str, *, what: str, on_output: Callable[[str], None]) -> tuple[str, Callable[[], None]]:
        """Evaluate an expression and return its value. Also pass output from threads that it starts to `on_output`."""
        session = await self._sessions.open(TOOL_SESSION)
        stream = _Stream(session.connection, self.listener, on_output)
        try:
            fields: dict[str, Value] = {**session.address(), "code": f"{self._dialect.preserve_last}{code}"}
            answer = await stream.begin(fields, timeout_s=self._op_timeout_s)
            return self._read_string(answer, what), stream.end
        except BaseException:
            stream.end()
            raise

    async def call_op(self, op: str, fields: Mapping[str, str]) -> str:
        """Call an op of the REPL. See `Adapter.call_op`."""
        return await self._call_op(op, fields)

    def _read_string(self, answer: Sequence[Message], what: str) -> str:
        require_success(what, answer, self._dialect)
        printed = next((text for message in reversed(answer) if (text := message.text("value"))), "")
        try:
            return self._dialect.parse_string(printed)
        except (ValueError, SyntaxError) as error:
            failure = Failure("unreadable", f"the REPL returned {printed[:200]!r} instead of a string")
            raise EvaluationFailedError(what, failure) from error


class _Stream:
    """The output of an expression, including output from threads that keep running after its evaluation."""

    def __init__(self, connection: NreplConnection, listener: Listener, on_output: Callable[[str], None]) -> None:
        self._connection = connection
        self._listener = listener
        self._on_output = on_output
        self._answer: list[Message] = []
        self._exchange = connection.register(self._receive)

    async def begin(self, fields: dict[str, Value], *, timeout_s: float) -> list[Message]:
        """Send the expression and return the replies to it.

        Raises:
            OpTimedOutError: the evaluation did not end in time.
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
        """Stop passing on output. Later messages are treated like those of any finished evaluation."""
        self._connection.finish(self._exchange)
        self._connection.release(self._exchange)

    def _receive(self, message: Message) -> None:
        """Pass output on, and collect all other messages as replies to the expression."""
        if text := message.text("out"):
            self._on_output(text)
        if err := message.text("err"):
            self._listener(None, Output("err", err))
        if not self._exchange.is_finished:
            self._answer.append(message)
