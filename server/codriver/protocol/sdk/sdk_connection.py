"""One connection as the SDK wants to see it: a stream of messages to read, and one to write."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Self

import anyio
from mcp.server.runner import serve_dual_era_loop
from mcp.shared.message import SessionMessage
from mcp_types import (
    ErrorData,
    JSONRPCError,
    JSONRPCNotification,
    JSONRPCRequest,
    JSONRPCResponse,
    jsonrpc_message_adapter,
)
from pydantic import ValidationError

from codriver.protocol.error_messages import INVALID_PARAMS, INVALID_REQUEST, TOO_MANY, Refusal, refusal
from codriver.protocol.versions import (
    CANCELLED,
    DISCOVER,
    HANDSHAKE_VERSIONS,
    INITIALIZE,
    LISTEN,
    VERSION_KEY,
    version_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from types import TracebackType

    from mcp.server.lowlevel import Server

    from codriver.net.client_sessions import ClientSession
    from codriver.protocol.plain_requests import PlainRequests

UNSAID: dict[str, object] = {
    "protocolVersion": HANDSHAKE_VERSIONS[0],
    "capabilities": {},
    "clientInfo": {"name": "", "version": ""},
}
"""The parameters of a client that says nothing of itself, as those of Backseat Driver may."""


class SdkConnection:
    """Both directions of one connection, and the SDK's loop between them.

    `plain` has the requests of this client that the SDK does not see, and the replies by which all answers go.
    `redact` takes the secrets out of errors, which repeat what was asked; results come without any.
    """

    def __init__(
        self,
        server: Server[ClientSession],
        session: ClientSession,
        plain: PlainRequests,
        redact: Callable[[object], object],
        forget: Callable[[ClientSession], None],
    ) -> None:
        self._server = server
        self._session = session
        self._plain = plain
        self._replies = plain.replies
        self._redact = redact
        self._forget = forget
        self._to_sdk, self._messages = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        self._awaited: tuple[str | int, anyio.Event] | None = None
        """A request whose answer is waited for, before anything else is handed on."""
        self._is_hearing = False
        """Whether that answer is one that the client has had already."""

    async def run(self) -> None:
        """Answer what is handed on, until there is no more."""
        try:
            await serve_dual_era_loop(self._server, self._messages, self, lifespan_state=self._session)
        finally:
            self._forget(self._session)

    def end(self) -> None:
        """No more comes."""
        self._to_sdk.close()

    def drop(self) -> None:
        """Let go of what was handed on, where no loop runs that would."""
        self.end()
        self._messages.close()

    async def hear(self, said: Iterable[Mapping[str, Any]]) -> None:
        """Take in what the client said before of itself. It is not answered again."""
        self._is_hearing = True
        for one in said:
            await self.take(SessionMessage(jsonrpc_message_adapter.validate_python(one, by_name=False)))
        self._is_hearing = False

    async def take(self, item: SessionMessage) -> None:
        """Take in a message that was read; return when the SDK has begun with it.

        What settles who the client is, is answered first: what comes behind it may depend on that.
        """
        message, answered = item.message, anyio.Event()
        if isinstance(message, JSONRPCRequest) and (self._is_hearing or message.method == INITIALIZE):
            self._awaited = message.id, answered
        else:
            answered.set()
        await self._to_sdk.send(item)
        await answered.wait()

    def read(self, line: bytes, *, in_batch: bool = False) -> SessionMessage | None:
        """The message in a line; None when it is none, and then it is answered."""
        try:
            message = jsonrpc_message_adapter.validate_json(line, by_name=False)
        except ValidationError:
            if (refused := refusal(line)) is not None:
                self._replies.refuse(refused)
            return None
        if isinstance(message, JSONRPCRequest):
            opened = self._open(message, len(line), in_batch=in_batch)
            return SessionMessage(opened) if opened is not None else None
        if isinstance(message, JSONRPCNotification) and b'"id"' in line and "id" in json.loads(line):
            # An id that is null, a fraction or a boolean is no id: the sender expects an answer it cannot get.
            self._replies.refuse_line("the id of a request must be a string or an integer")
            return None
        if isinstance(message, JSONRPCNotification) and message.method == CANCELLED:
            # A cancelled request gets no answer, so it is not open any more.
            self._plain.cancel((message.params or {}).get("requestId"))
        return SessionMessage(message)

    def _open(self, request: JSONRPCRequest, size: int, *, in_batch: bool) -> JSONRPCRequest | None:
        if request.method == INITIALIZE and not request.params:
            request = request.model_copy(update={"params": UNSAID})
        refused = self._refused(request, size, in_batch=in_batch)
        if refused is not None:
            self._replies.refuse(refused)
            return None
        if request.method == INITIALIZE or self._replies.version is None:
            self._replies.version = version_of(request.method, request.params or {})
        if request.method != LISTEN or in_batch:
            self._replies.expect(request.id, size)
        return request

    def _refused(self, request: JSONRPCRequest, size: int, *, in_batch: bool) -> Refusal | None:
        """Why a request goes no further; None when it does."""
        too_much = self._plain.too_much(size)
        if too_much is not None:
            return Refusal(request.id, TOO_MANY, too_much)
        if request.method == INITIALIZE and in_batch:
            return Refusal(request.id, INVALID_REQUEST, "initialize must not be part of a batch: send it by itself")
        if request.method == DISCOVER and version_of(request.method, request.params or {}) is None:
            # The SDK would take the connection for one with a handshake, for good.
            return Refusal(request.id, INVALID_PARAMS, f"{DISCOVER} needs params._meta with {VERSION_KEY!r}")
        return None

    async def send(self, item: SessionMessage, /) -> None:
        """Queue a message for the client. Never waits: the outbox bounds what may be lost."""
        message = item.message
        if isinstance(message, JSONRPCResponse | JSONRPCError) and self._awaited and message.id == self._awaited[0]:
            self._awaited[1].set()
            self._awaited = None
            if self._is_hearing:
                return
        if isinstance(message, JSONRPCError):
            cleared = self._redact(message.error.model_dump(by_alias=True, exclude_unset=True))
            message = message.model_copy(update={"error": ErrorData.model_validate(cleared)})
            if message.id is None:
                self._replies.refuse(Refusal(None, message.error.code, message.error.message))
                return
        line = message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n"
        if isinstance(message, JSONRPCNotification):
            self._session.outbox.offer(line)
        elif isinstance(message, JSONRPCResponse | JSONRPCError) and message.id is not None:
            self._replies.put(message.id, line)
        else:
            self._session.outbox.put(line)

    async def aclose(self) -> None:
        """Nothing: the listener owns the socket and closes it when all is written."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc_val: BaseException | None,
        exc_tb: TracebackType | None,
    ) -> None:
        return None
