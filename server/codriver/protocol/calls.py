"""Tool calls, on the shortest way from a line to its answer.

An agent's loop is made of calls, and the SDK's way of a request, through models, contexts and tasks, costs more than
most calls do themselves. So a `tools/call` that is plain in every respect is read, run and answered here: its client
has made the handshake, or says of itself what it said in a call that the SDK let in; its tool exists; and it brings
nothing but an id, a name, arguments and perhaps `_meta`. Whatever is unusual about a call goes the SDK's way and is
answered in the words of the protocol.
"""

from __future__ import annotations

import json
import logging
import re
from dataclasses import replace
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import anyio
from mcp_types.jsonrpc import INTERNAL_ERROR
from pydantic_core import PydanticSerializationError, from_json, to_json

from codriver.core.records import dataclass
from codriver.net.tasks import Workers
from codriver.tools.calls.base import Call, LastingCall
from codriver.tools.calls.client_traits import traits_of
from codriver.tools.calls.envelope import answer
from codriver.tools.lean_toolset import tool_called

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from codriver.log.redaction import Redactor
    from codriver.net.client_sessions import ClientSession
    from codriver.protocol.replies import Replies
    from codriver.tools.calls.base import Answer, Image, Json, Lasting, Services, Tool

    Progress = Callable[[float, str], Awaitable[None]]

logger = logging.getLogger(__name__)

MAX_OPEN_BYTES = 64 * 2**20
"""Of a client's requests that are not answered yet, where there is more than one."""
MOST_WITHHELD = 5
"""Settings that do not count, named in a first answer: an answer is not a list of them."""
NEW_SERVER = "this server has taken another's place: what was defined in the REPLs that one had started is gone"
FAULT = "internal error in codriver: see server_health"

MARK = b'"tools/call"'
KEYS = frozenset({"jsonrpc", "id", "method", "params"})
TOKEN = "progressToken"  # noqa: S105  # the protocol's name for what ties progress to a request
PROTOCOL_PREFIX = "io.modelcontextprotocol/"
PARAMETERS = frozenset({"name", "arguments", "_meta"})
RESULT = '{"jsonrpc":"2.0","id":%s,"result":{"content":%s%s,"isError":%s%s}}\n'
STRUCTURE = ',"structuredContent":%s'
WHOLE_DIGITS = 21
"""JavaScript writes numbers of more digits before the point with an exponent."""
MOST_EXACT = str(2**53 - 1)
"""The greatest whole number that JavaScript knows exactly. Source: ECMA-262, `Number.MAX_SAFE_INTEGER`."""
STRING_OR_NUMBER = re.compile(r'"(?:[^"\\]|\\.)*"|-?\d[\d.eE+-]*')
ABOUT_US = ',"resultType":"complete","_meta":{"io.modelcontextprotocol/serverInfo":%s}'
"""The further members of a result, for clients without a handshake. Source: MCP 2026-07-28, results."""


@dataclass(frozen=True, slots=True)
class Answered:
    """A tool's answer as it leaves the server: its fields as JSON, without secrets."""

    text: str
    images: tuple[Image, ...]
    ok: bool
    handed_out: Callable[[], None] | None = None
    """To be called, in the same turn, by whoever hands it to the client."""


class Caller:
    """Runs tools for clients, whichever way their calls came. Lives as long as the server."""

    def __init__(
        self,
        services: Services,
        *,
        redactor: Redactor,
        tell_of_log: Callable[[ClientSession], None],
        server_info: Mapping[str, str],
    ) -> None:
        self._services = services
        self.about_us = ABOUT_US % _json(server_info)
        self.redactor = redactor
        self._tell_of_log = tell_of_log

    def find(self, client: ClientSession, name: str, arguments: dict[str, Any]) -> tuple[Tool, dict[str, Any]] | None:
        """The tool that a call of this client means, and its arguments; None where there is none."""
        return tool_called(self._services.settings, client.name, name, arguments)

    async def run(
        self,
        client: ClientSession,
        tool: Tool,
        arguments: dict[str, Any],
        progress: Progress,
        conversation: str | None = None,
        *,
        lasting: Lasting | None = None,
    ) -> Answered:
        """The answer of `tool` to this client; every answer passes here, so secrets are taken out here.

        `conversation` is the client's own session that the call is from, if not the one of its newest call.
        """
        client.calls += 1
        whence = client.conversation if conversation is None else conversation
        call = Call(self._services, client.id, client.name, progress, lambda: client.has_left, whence)
        if lasting is not None:
            call = LastingCall(lasting, call)
        given = self._greeting(client, await answer(tool, call, arguments))
        # What this call logged is told before it is answered, also where such news are gathered for a while.
        self._tell_of_log(client)
        text = self.text_of(given.fields, shows_told=given.shows_told)
        if given.has_numbers:
            text = STRING_OR_NUMBER.sub(_as_javascript, text)
        return Answered(text, given.images, given.ok, given.handed_out)

    def text_of(self, fields: Json, *, shows_told: bool = False) -> str:
        """Fields as JSON, without secrets: everything that leaves the server for somebody who reads it."""
        text = _json(fields)
        if self.redactor.may_find(text):
            text = _json(self.redactor.redact_json(fields, shows_told=shows_told))
        return text

    def _greeting(self, client: ClientSession, given: Answer) -> Answer:
        """A client's first answer, with notes of a server that is not its first, and of settings that do not count."""
        withheld = () if client.knows_withheld else self._services.withheld()[:MOST_WITHHELD]
        if given.is_bare or not (withheld or client.had_another):
            return given
        news = (NEW_SERVER,) if client.had_another else ()
        client.had_another = False
        client.knows_withheld |= bool(withheld)
        before = given.fields.get("notes", ())
        notes = [*(before if isinstance(before, list | tuple) else ()), *news, *withheld]
        return replace(given, fields={**given.fields, "notes": notes})


class PlainCalls:
    """The plain calls of one connection. Lives as long as it."""

    def __init__(self, client: ClientSession, caller: Caller, replies: Replies, *, max_open_requests: int) -> None:
        self._client = client
        self.replies = replies
        self._caller = caller
        self._workers = Workers()
        self.max_open_requests = max_open_requests
        self._running: dict[str | int, anyio.CancelScope] = {}
        self._cancelled: set[str | int] = set()
        """Of those that run."""

    def take(self, line: bytes, read: object = None) -> bool:
        """Begin the call in `line`, if the line holds a plain call. `read`: the JSON of the line, if already parsed."""
        opened = self._client.open_requests
        is_known, size = self._client.handshake or self._client.envelope is not None, len(line)
        if not is_known or MARK not in line or self.too_much(size) is not None:
            return False
        try:
            message: Any = from_json(line) if read is None else read
        except ValueError:
            return False
        plain = _plain(message)
        if plain is None:
            return False
        identity, name, arguments, meta = plain
        # A call that was cancelled is not open any more, and ends only when what it began is in order.
        is_taken = identity in opened or identity in self._running
        if is_taken or not self._knows(meta):
            return False
        called = self._caller.find(self._client, name, arguments)
        if called is None:
            return False
        tool, arguments = called
        conversation = self._client.note_conversation(meta) if meta else self._client.conversation
        self.replies.expect(identity, size)
        work = self._run(identity, tool, arguments, meta.get(TOKEN) if meta else None, conversation)
        self._running[identity] = self._workers.start(work)
        return True

    def too_much(self, size: int) -> str | None:
        """Why a request of so many bytes is one too many for this client now; None when it is not."""
        opened = self._client.open_requests
        if opened.count >= self.max_open_requests:
            return f"{self.max_open_requests} requests of this client are not answered yet: wait for answers first"
        if opened.count and opened.bytes + size > MAX_OPEN_BYTES:
            return (
                f"{opened.bytes:,} bytes of this client's requests are not answered yet, and with these {size:,} it "
                f"would be more than {MAX_OPEN_BYTES:,}: wait for answers first"
            )
        return None

    def _knows(self, meta: Mapping[str, object]) -> bool:
        """Whether the client has made the handshake, or says of itself what it said when it was let in."""
        return self._client.handshake or envelope(meta) == self._client.envelope

    def cancel(self, identity: object) -> None:
        """End the call `identity`, if it is one of these; it gets no answer."""
        if isinstance(identity, str | int) and identity in self._running:
            self._cancelled.add(identity)
            self._running[identity].cancel()

    async def end(self) -> None:
        """End every call, as nobody is left to answer, and wait until what they began is in order."""
        for identity in list(self._running):
            self.cancel(identity)
        with anyio.CancelScope(shield=True):
            await self._workers.end()

    async def _run(
        self, identity: str | int, tool: Tool, arguments: dict[str, Any], token: object, conversation: str
    ) -> None:
        line, handed_out = None, None
        try:
            if identity not in self._cancelled:
                line, handed_out = await self._line(identity, tool, arguments, token, conversation)
        finally:
            del self._running[identity]
            is_cancelled = identity in self._cancelled
            self._cancelled.discard(identity)
        if line is not None and not is_cancelled:
            self.replies.put(identity, line)
            if handed_out is not None and not self._client.has_left:
                handed_out()

    async def _line(
        self, identity: str | int, tool: Tool, arguments: dict[str, Any], token: object, conversation: str
    ) -> tuple[bytes, Callable[[], None] | None]:
        """The answer as a line: the result, or the error where we have failed ourselves. Beside it `handed_out`."""

        async def report(elapsed_s: float, words: str) -> None:
            if token is not None:
                params = {TOKEN: token, "progress": elapsed_s, "message": self._caller.redactor(words)}
                said = {"jsonrpc": "2.0", "method": "notifications/progress", "params": params}
                self._client.outbox.offer(_as_line(said))

        try:
            answered = await self._caller.run(self._client, tool, arguments, report, conversation)
        except Exception:
            logger.exception("the call of %s failed", tool.name)
            error = {"code": INTERNAL_ERROR, "message": FAULT}
            return _as_line({"jsonrpc": "2.0", "id": identity, "error": error}), None
        content: list[dict[str, str]] = [{"type": "text", "text": answered.text}]
        if answered.images:
            content += [{"type": "image", "data": one.data, "mimeType": one.mime_type} for one in answered.images]
        # The fields are JSON already, and need not be read and written again.
        is_error = "false" if answered.ok else "true"
        about_us = "" if self._client.handshake else self._caller.about_us
        structure = STRUCTURE % answered.text if traits_of(self._client.name).takes_structure else ""
        named = identity if type(identity) is int else _json(identity)
        line = (RESULT % (named, _json(content), structure, is_error, about_us)).encode()
        return line, answered.handed_out


def meta_of(params: Mapping[str, Any] | None) -> Mapping[str, Any]:
    """The `_meta` of a request; empty for a request without one, and for one of another shape."""
    meta = (params or {}).get("_meta")
    return meta if isinstance(meta, dict) else {}


def envelope(meta: Mapping[str, object]) -> Mapping[str, object]:
    """The members of a request's `_meta` that tell of its client: those that the protocol has named.

    Others, as Claude Code's `claudecode/toolUseId` and `traceparent`, differ from request to request.
    """
    return {key: value for key, value in meta.items() if key.startswith(PROTOCOL_PREFIX)}


def _plain(message: object) -> tuple[str | int, str, dict[str, Any], dict[str, Any]] | None:
    """The id, the name, the arguments and the `_meta` of a call; None for other lines and for the SDK's."""
    if type(message) is not dict or message.keys() != KEYS:
        return None
    identity, params = message["id"], message["params"]
    if message["jsonrpc"] != "2.0" or message["method"] != "tools/call" or type(identity) not in (int, str):
        return None
    if type(params) is not dict or not params.keys() <= PARAMETERS:
        return None
    name, arguments, meta = params.get("name"), params.get("arguments", {}), params.get("_meta", {})
    if type(name) is not str or type(arguments) is not dict or type(meta) is not dict:
        return None
    if meta and type(meta.get(TOKEN, 0)) not in (int, str):
        return None
    return identity, name, arguments, meta


def _as_javascript(found: re.Match[str]) -> str:
    """A number of a JSON text as JavaScript writes it, so that who writes the structure anew gets the same text.

    A whole number that JavaScript would round is told as a string, with all its digits. A string stays as it is.
    Source: ECMA-262, `Number::toString`; RFC 7493, 2.2.
    """
    text = found[0]
    if text[0] == '"':
        return text
    if (whole := text.removeprefix("-")).isdigit():
        is_exact = (len(whole), whole) <= (len(MOST_EXACT), MOST_EXACT)
        return text if is_exact else f'"{text}"'
    sign, digits, exponent = Decimal(repr(float(text))).normalize().as_tuple()
    if not isinstance(exponent, int):  # too great for any, of which JSON has no word
        return text
    if digits == (0,):
        return "0"
    said, point = "".join(map(str, digits)), len(digits) + exponent
    if len(said) <= point <= WHOLE_DIGITS:
        said += "0" * (point - len(said))
    elif 0 < point <= WHOLE_DIGITS:
        said = f"{said[:point]}.{said[point:]}"
    elif -6 < point <= 0:
        said = f"0.{'0' * -point}{said}"
    else:
        said = f"{said[0]}{'.' if said[1:] else ''}{said[1:]}e{point - 1:+d}"
    return f"{'-' if sign else ''}{said}"


def _as_line(message: dict[str, Any]) -> bytes:
    return _json(message).encode() + b"\n"


def _json(value: object) -> str:
    """JSON in what UTF-8 can say, with no space that tells nothing."""
    try:
        return to_json(value).decode()
    except PydanticSerializationError:  # half of a character pair
        return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace").decode()
