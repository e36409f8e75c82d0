"""Answer plain requests, which have exactly the form that the protocol describes, without the MCP SDK.

The SDK passes each request through models, contexts and tasks, which takes longer than most requests themselves, and
importing it takes as long as the rest of the startup. Therefore clients' first requests, and those in an agent's loop,
are answered here. The module `results` creates the results of these requests and of those that the SDK answers. An
unusual request, such as one with an unknown member or one
at the wrong time, is left to the SDK, which answers it according to the protocol.

Plain requests are recognized by their shape. Shapes are stricter than the protocol where that is simpler: a request
that does not match may still be valid, and is then read by the SDK. Unknown members, null for an absent member, or 1
for true match no shape.
"""

from __future__ import annotations

import logging
from dataclasses import field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeAlias

import anyio
from pydantic_core import from_json

from codriver.core.records import dataclass
from codriver.net.task_set import TaskSet
from codriver.protocol.calls import ToolRunner, encode_json, encode_result
from codriver.protocol.error_messages import (
    CALL,
    CANCELLED,
    CAPABILITIES_KEY,
    CLIENT_KEY,
    DISCOVER,
    HANDSHAKE_VERSIONS,
    INITIALIZE,
    INITIALIZED,
    INTERNAL_ERROR,
    INTERNAL_ERROR_MESSAGE,
    LEVEL_KEY,
    LISTEN,
    LOG_LEVELS,
    MODERN,
    PROGRESS_TOKEN_KEY,
    SERVER_ERROR_CODE,
    TASKS_EXTENSION,
    VERSION_KEY,
    Refusal,
    RequestRefusedError,
    client_description,
    is_stateless,
)
from codriver.protocol.results import Results
from codriver.protocol.skill_resources import GET, LIST, READ_DIRECTORY

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Mapping

    from codriver.net.client_sessions import ClientSession
    from codriver.protocol.replies import Replies
    from codriver.tools.calls.tool import Tool

    Params: TypeAlias = dict[str, Any]

    Given: TypeAlias = Mapping[str, Any]

    Answer: TypeAlias = tuple[bytes, Callable[[], None] | None]

    Making: TypeAlias = Callable[[Results, ClientSession, Given, str], dict[str, Any] | Awaitable[dict[str, Any]]]
    """Creates the result of a request with these parameters, in this protocol version."""

    Shape: TypeAlias = "type | tuple[type, ...] | frozenset[str] | ObjectShape | ArrayShape"


NO_SHAPES: Mapping[str, Shape] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class ObjectShape:
    """The shape of a JSON object.

    The object must have the members in `needed`, and may have the members in `known`. Other members must have the shape
    `others`, and are not allowed if `others` is None.
    """

    needed: Mapping[str, Shape] = field(default_factory=lambda: NO_SHAPES)
    known: Mapping[str, Shape] = field(default_factory=lambda: NO_SHAPES)
    others: Shape | None = None


@dataclass(frozen=True, slots=True)
class ArrayShape:
    """The shape of a JSON array whose values all have the same shape."""

    items: Shape


def has_shape(value: object, shape: Shape) -> bool:
    """Return whether a JSON value has exactly this shape."""
    if isinstance(shape, type):
        return type(value) is shape
    if isinstance(shape, tuple):
        return type(value) in shape
    if isinstance(shape, frozenset):
        return type(value) is str and value in shape
    if isinstance(shape, ArrayShape):
        return type(value) is list and all(has_shape(item, shape.items) for item in value)
    if type(value) is not dict or not shape.needed.keys() <= value.keys():
        return False
    for name, member in value.items():
        of_member = shape.needed.get(name, shape.known.get(name, shape.others))
        if of_member is None or not has_shape(member, of_member):
            return False
    return True


JSON_TYPES = (dict, list, str, int, float, bool, type(None))
"""Types of parsed JSON values."""
OBJECTS_SHAPE = ObjectShape(others=dict)
NO_VALUES: frozenset[str] = frozenset()
"""An empty set of accepted values, for a member that a plain request must not have."""

CLIENT_SHAPE = ObjectShape(
    needed={"name": str, "version": str}, known={"title": str, "description": str, "websiteUrl": str}
)
CAPABILITIES_SHAPE = ObjectShape(
    known={
        "elicitation": ObjectShape(known={"form": dict, "url": dict}, others=JSON_TYPES),
        "experimental": OBJECTS_SHAPE,
        "extensions": ObjectShape(
            known={TASKS_EXTENSION: NO_VALUES}, others=dict
        ),  # calls of clients with tasks are answered differently
        "roots": ObjectShape(known={"listChanged": bool}, others=JSON_TYPES),
        "sampling": ObjectShape(known={"context": dict, "tools": dict}, others=JSON_TYPES),
        "tasks": ObjectShape(known={"list": dict, "cancel": dict, "requests": ObjectShape(others=OBJECTS_SHAPE)}),
    },
    others=JSON_TYPES,
)

META_SHAPE = ObjectShape(known={PROGRESS_TOKEN_KEY: (str, int), VERSION_KEY: NO_VALUES}, others=JSON_TYPES)
"""Shape of `_meta` in a request that belongs to a session opened by a handshake."""
STATELESS_META_SHAPE = ObjectShape(
    needed={VERSION_KEY: frozenset({MODERN}), CAPABILITIES_KEY: CAPABILITIES_SHAPE},
    known={
        PROGRESS_TOKEN_KEY: (str, int),
        CLIENT_KEY: CLIENT_SHAPE,
        LEVEL_KEY: NO_VALUES,
    },  # with a level, messages are sent during the request
    others=JSON_TYPES,
)
"""Shape of `_meta` in a stateless request, which itself describes its client."""


def _params(needed: Mapping[str, Shape] = NO_SHAPES, known: Mapping[str, Shape] = NO_SHAPES) -> ObjectShape:
    return ObjectShape(needed, {**known, "_meta": dict})


INITIALIZE_SHAPE = _params({"protocolVersion": str, "capabilities": CAPABILITIES_SHAPE, "clientInfo": CLIENT_SHAPE})
NO_PARAMS_SHAPE = _params()
PAGE_SHAPE = _params(known={"cursor": str})
CALL_SHAPE = _params({"name": str}, {"arguments": dict})
LEVEL_SHAPE = _params({"level": frozenset(LOG_LEVELS)})
RESOURCE_SHAPE = _params({"uri": str})
DIRECTORY_SHAPE = _params({"uri": str}, {"cursor": str})
CHANGE_KEYS = ("toolsListChanged", "promptsListChanged", "resourcesListChanged")
CHANGES_SHAPE = _params(
    {"notifications": ObjectShape(known={**dict.fromkeys(CHANGE_KEYS, bool), "resourceSubscriptions": ArrayShape(str)})}
)
CANCELLATION_SHAPE = _params({"requestId": (str, int)}, {"reason": str})


logger = logging.getLogger(__name__)

MAX_OPEN_BYTES = 64 * 2**20
"""Maximum total size, in bytes, of a client's unanswered requests if there is more than one."""
REQUEST_KEYS = frozenset({"jsonrpc", "id", "method", "params"})
CONNECTION_CLOSED_ERROR = {"code": SERVER_ERROR_CODE, "message": "Connection closed"}
ANSWER_TEMPLATE = '{"jsonrpc":"2.0","id":%s,"result":%s}\n'

HANDSHAKE, NO_HANDSHAKE, UNSETTLED = frozenset(HANDSHAKE_VERSIONS), frozenset({MODERN}), frozenset({""})
"""States of a connection, as sets of protocol versions: with a handshake, without one, and not settled yet."""
ALL_STATES = HANDSHAKE | NO_HANDSHAKE
"""All states that a connection can be in."""


@dataclass(frozen=True, slots=True)
class PlainRequestKind:
    """A kind of request that can be answered without the SDK.

    It consists of the protocol versions of the request, the shape of its parameters, and the function that creates the
    result.
    """

    versions: frozenset[str]
    params: ObjectShape
    result: Making | None = None
    """Creates the result, or None if the result depends on the connection."""


REQUEST_KINDS: dict[str, PlainRequestKind] = {
    INITIALIZE: PlainRequestKind(UNSETTLED, INITIALIZE_SHAPE, Results.initialize),
    "ping": PlainRequestKind(HANDSHAKE, NO_PARAMS_SHAPE, Results.ping),
    DISCOVER: PlainRequestKind(NO_HANDSHAKE, NO_PARAMS_SHAPE, Results.discover),
    CALL: PlainRequestKind(ALL_STATES, CALL_SHAPE),
    LISTEN: PlainRequestKind(NO_HANDSHAKE, CHANGES_SHAPE),
    "tools/list": PlainRequestKind(ALL_STATES, PAGE_SHAPE, Results.tools),
    "resources/list": PlainRequestKind(ALL_STATES, PAGE_SHAPE, Results.list_resources),
    "resources/templates/list": PlainRequestKind(ALL_STATES, PAGE_SHAPE, Results.list_templates),
    "prompts/list": PlainRequestKind(ALL_STATES, PAGE_SHAPE, Results.list_prompts),
    "resources/subscribe": PlainRequestKind(HANDSHAKE, RESOURCE_SHAPE, Results.subscribe),
    "resources/unsubscribe": PlainRequestKind(HANDSHAKE, RESOURCE_SHAPE, Results.unsubscribe),
    LIST: PlainRequestKind(ALL_STATES, PAGE_SHAPE, Results.list_skills),
    GET: PlainRequestKind(ALL_STATES, RESOURCE_SHAPE, Results.get_skill),
    READ_DIRECTORY: PlainRequestKind(ALL_STATES, DIRECTORY_SHAPE, Results.read_directory),
    "logging/setLevel": PlainRequestKind(HANDSHAKE, LEVEL_SHAPE, Results.set_level),
}
"""The kinds of requests that can be answered without the SDK, by method.

The server that uses the SDK calls the same functions to create results.
"""


@dataclass(frozen=True, slots=True)
class PlainRequest:
    """A request that is being answered without the SDK."""

    identity: str | int
    method: str
    params: Params
    version: str = ""
    """Protocol version in which the request is answered."""

    def result_line(self, result: str) -> bytes:
        """Return the response with a result that is already encoded as JSON."""
        named = self.identity if type(self.identity) is int else encode_json(self.identity)
        return (ANSWER_TEMPLATE % (named, result)).encode()

    def refused(self, error: object) -> bytes:
        """Return the response with an error."""
        return encode_json({"jsonrpc": "2.0", "id": self.identity, "error": error}).encode() + b"\n"


class PlainRequests:
    """Answers the requests of a connection that do not need the SDK, for the lifetime of the connection."""

    def __init__(
        self,
        client: ClientSession,
        results: Results,
        caller: ToolRunner,
        replies: Replies,
        *,
        max_open_requests: int,
    ) -> None:
        self._client = client
        self._results = results
        self._caller = caller
        self.replies = replies
        self.max_open_requests = max_open_requests
        self.has_sdk = False
        """Whether the SDK also handles messages of this client. In that case, only the SDK takes part in handshakes."""
        self._handshake_messages: list[Given] = []
        self._tasks = TaskSet()
        self._running: dict[str | int, anyio.CancelScope] = {}
        self._cancelled: set[str | int] = set()
        """Running requests that were cancelled."""
        self._streams: set[str | int] = set()
        """Open `subscriptions/listen` requests, for which no task runs."""

    def accept(self, line: bytes, read: object = None) -> bool:
        """Process the message in a line if it is plain, and return whether it is.

        `read` is the parsed line, if it was parsed before.
        """
        try:
            message: Any = from_json(line) if read is None else read
        except ValueError:
            return False
        if type(message) is not dict or message.get("jsonrpc") != "2.0":
            return False
        if not message.keys() <= REQUEST_KEYS:
            return self._caller.decisions.accept(self._client, message)
        method, params = message.get("method"), message.get("params", {})
        if type(method) is not str or type(params) is not dict:
            return False
        if "id" not in message:
            return not self.has_sdk and self._accept_notification(method, params)
        identity, plain = message["id"], REQUEST_KINDS.get(method)
        if plain is None or type(identity) not in (int, str):
            return False
        # A cancelled request is no longer open, but its id is in use until its effects are cleaned up.
        is_in_use = identity in self._client.open_requests or identity in self._running or identity in self._streams
        version = MODERN if is_stateless(method, params) else self._client.handshake_version
        if is_in_use or not self._is_plain(plain, params, version):
            return False
        too_much = self.limit_violation(len(line))
        if too_much is not None:
            self.replies.refuse(Refusal(identity, SERVER_ERROR_CODE, too_much))
            return True
        return self._begin(PlainRequest(identity, method, params, version), plain, len(line))

    def _accept_notification(self, method: str, params: Params) -> bool:
        if method == CANCELLED and has_shape(params, CANCELLATION_SHAPE):
            self.cancel(params["requestId"])
        elif method == INITIALIZED and self._handshake_messages and has_shape(params, NO_PARAMS_SHAPE):
            self._handshake_messages[1:] = [{"jsonrpc": "2.0", "method": method, "params": params}]
            self._results.mark_initialized(self._client)
        else:
            return False
        return True

    def _is_plain(self, plain: PlainRequestKind, params: Params, version: str) -> bool:
        """Return whether a request has exactly the usual form. If so, record the client that it describes."""
        meta = params.get("_meta", {})
        if type(meta) is not dict:
            return False
        if version not in plain.versions or (not version and self.has_sdk) or not has_shape(params, plain.params):
            return False
        return self._accepts_description(meta) if version == MODERN else not meta or has_shape(meta, META_SHAPE)

    def _accepts_description(self, meta: Params) -> bool:
        """Return whether the `_meta` of a stateless request describes its client in the usual form.

        A description that equals that of an earlier request is accepted, too.
        """
        described = client_description(meta)
        if described == self._client.envelope:
            return type(meta.get(PROGRESS_TOKEN_KEY, 0)) in (int, str)
        if not has_shape(meta, STATELESS_META_SHAPE):
            return False
        self._client.envelope, self._client.sends_envelopes = described, True
        self._results.introduce_client(self._client, described[CLIENT_KEY]["name"] if CLIENT_KEY in described else None)
        return True

    def handshake_messages(self) -> list[Given]:
        """Return the messages of the client's handshake, so that the SDK can process them later."""
        return self._handshake_messages

    def limit_violation(self, size: int) -> str | None:
        """Explain why a request of `size` bytes exceeds the client's limits. Return None if it does not."""
        opened = self._client.open_requests
        if opened.count >= self.max_open_requests:
            return f"{self.max_open_requests} of this client's requests are unanswered. Wait for some answers first"
        if opened.count and opened.bytes + size > MAX_OPEN_BYTES:
            return (
                f"{opened.bytes:,} bytes of this client's requests are unanswered, and {size:,} more would exceed "
                f"the limit of {MAX_OPEN_BYTES:,}. Wait for some answers first"
            )
        return None

    def cancel(self, identity: object) -> None:
        """Cancel a request. It gets no answer, and its work is stopped if it is a plain request."""
        self.replies.drop_request(identity)
        if isinstance(identity, str | int) and identity in self._running:
            self._cancelled.add(identity)
            self._running[identity].cancel()
        elif isinstance(identity, str | int) and identity in self._streams:
            self._streams.discard(identity)
            self._results.close_stream(self._client, identity)

    def refuse_unanswerable(self) -> None:
        """Answer all open requests with an error, because the client has closed its input."""
        for identity in (self._running.keys() - self._cancelled) | self._streams:
            self.cancel(identity)
            self.replies.put(identity, PlainRequest(identity, "", {}).refused(CONNECTION_CLOSED_ERROR))

    async def stop_all(self) -> None:
        """Stop all requests because nothing can be sent any more, and wait until they have cleaned up."""
        for identity in [*self._running, *self._streams]:
            self.cancel(identity)
        with anyio.CancelScope(shield=True):
            await self._tasks.join()

    def _begin(self, request: PlainRequest, plain: PlainRequestKind, size: int) -> bool:
        """Answer a request, or start a task that answers it. Return False if the request calls an unknown tool."""
        if request.method == CALL:
            arguments = request.params.get("arguments", {})
            called = self._caller.find(request.params["name"], arguments)
            if called is None:
                return False
            meta = request.params.get("_meta")
            conversation = self._client.update_conversation(meta) if meta else self._client.conversation
            self.replies.expect(request.identity, size)
            self._start(request, self._call(request, *called, conversation))
        elif plain.result is None:
            self._listen(request)
        else:
            self.replies.expect(request.identity, size)
            self._answer(request, plain.result)
        return True

    def _answer(self, request: PlainRequest, result: Making) -> None:
        try:
            given = result(self._results, self._client, request.params, request.version)
        except Exception as error:  # noqa: BLE001 - as of one that is run
            self.replies.put(request.identity, self._error_line(request, error))
            return
        if request.method == INITIALIZE:
            self._handshake_messages.append(
                {"jsonrpc": "2.0", "method": INITIALIZE, "id": "", "params": request.params}
            )
        if not isinstance(given, dict):
            self._start(request, self._await_result(request, given))
            return
        self.replies.put(request.identity, request.result_line(encode_json(given)))

    def _start(self, request: PlainRequest, work: Coroutine[Any, Any, Answer]) -> None:
        scope = self._running[request.identity] = anyio.CancelScope()
        self._tasks.start(self._run(request, work, scope))

    async def _run(self, request: PlainRequest, work: Coroutine[Any, Any, Answer], scope: anyio.CancelScope) -> None:
        """Run a coroutine, and send its result as the answer to a request unless the request is cancelled."""
        identity, line, handed_out = request.identity, None, None
        try:
            with scope:
                if identity in self._cancelled:
                    work.close()
                else:
                    line, handed_out = await work
        except Exception as error:  # noqa: BLE001 - it is logged, and the answer reveals no details
            line = self._error_line(request, error)
        finally:
            del self._running[identity]
            is_cancelled = identity in self._cancelled
            self._cancelled.discard(identity)
        if line is not None and not is_cancelled:
            self.replies.put(identity, line)
            if handed_out is not None and not self._client.has_left:
                handed_out()

    async def _await_result(self, request: PlainRequest, result: Awaitable[dict[str, Any]]) -> Answer:
        return request.result_line(encode_json(await result)), None

    def _listen(self, request: PlainRequest) -> None:
        try:
            self._results.open_stream(self._client, request.identity, request.params["notifications"])
        except RequestRefusedError as error:
            self.replies.put(request.identity, self._error_line(request, error))
        else:
            self._streams.add(request.identity)

    async def _call(self, request: PlainRequest, tool: Tool, arguments: Params, conversation: str) -> Answer:
        """Call a tool. Return the response, and the function to call when the response is sent."""
        meta = request.params.get("_meta")
        token = meta.get(PROGRESS_TOKEN_KEY) if meta else None

        async def report(elapsed_s: float, words: str) -> None:
            if token is not None:
                params = {PROGRESS_TOKEN_KEY: token, "progress": elapsed_s, "message": self._caller.redactor(words)}
                notification = {"jsonrpc": "2.0", "method": "notifications/progress", "params": params}
                self._client.outbox.offer(encode_json(notification).encode() + b"\n")

        decisions, is_modern = self._caller.decisions, request.version == MODERN
        if tool.name == decisions.tool and (
            elicitation := await decisions.replacement_request(self._client, request.params)
        ):
            return request.result_line(encode_json(elicitation)), None
        run = self._caller.run
        answered = await run(self._client, tool, arguments, report, conversation, is_stateless=is_modern)
        more_members = self._results.more_members if is_modern else ""
        return request.result_line(encode_result(self._client, answered, more_members)), answered.handed_out

    def _error_line(self, request: PlainRequest, error: Exception) -> bytes:
        """Return the response to a request that was refused or failed with an internal error."""
        if isinstance(error, RequestRefusedError):
            return request.refused(self._caller.redactor.redact_json(error.to_json()))
        logger.error("%s failed", request.method, exc_info=error)
        return request.refused({"code": INTERNAL_ERROR, "message": INTERNAL_ERROR_MESSAGE})
