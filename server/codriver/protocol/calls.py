"""Tool calls and replies: a tool run for its client, its answer as JSON without secrets, and each reply put on its way.

A reply goes by itself, or with the other replies of its request's batch. Lone surrogates, which JSON can say and UTF-8
cannot, are replaced in text and renamed in ids.
"""

from __future__ import annotations

import json
import re
from contextlib import contextmanager
from dataclasses import replace
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Protocol

from pydantic_core import PydanticSerializationError, to_json

from codriver.core.records import dataclass
from codriver.protocol.error_messages import INVALID_REQUEST, MODERN, Refusal
from codriver.tools.calls.base import Answer, Call, Image, Json, Lasting, LastingCall, Services, Tool, traits_of
from codriver.tools.calls.gate import answer
from codriver.tools.manifest import tool_called

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Mapping

    from codriver.log.redaction import Redactor
    from codriver.net.client_sessions import ClientSession

    Progress = Callable[[float, str], Awaitable[None]]


WITHOUT_NULL = frozenset({"2025-11-25", "2026-07-28"})
"""Versions in whose schema an error about an unknown id has no `id`. In all others, as in JSON-RPC, that id is null."""


class Batch:
    """The answers to messages that came as one array. They go as one line, when the last of them is there."""

    def __init__(self) -> None:
        self._waiting: set[str | int] = set()
        self._answers: list[bytes] = []
        self._is_whole = False

    def expect(self, identity: str | int) -> None:
        """Expect the answer to one more request of the batch."""
        self._waiting.add(identity)

    def add(self, line: bytes) -> None:
        """Add an answer of the batch, or an error about one of its messages."""
        self._answers.append(line.strip())

    def strike_out(self, identity: str | int) -> None:
        """Stop waiting for a request: it is answered, or will not be."""
        self._waiting.discard(identity)

    def end(self) -> None:
        """Note that all messages of the batch were read."""
        self._is_whole = True

    def take(self) -> bytes | None:
        """The line that answers the batch; None before the last answer is there, and for a batch without answers."""
        if not self._is_whole or self._waiting or not self._answers:
            return None
        answers, self._answers = self._answers, []
        return b"[" + b",".join(answers) + b"]\n"


class Replies:
    """The answers of one connection."""

    def __init__(self, session: ClientSession) -> None:
        self._session = session
        self._batches: dict[str | int, Batch] = {}
        """By request that is not answered yet: its batch."""
        self._reading: Batch | None = None
        self._spelt: dict[str | int, str] = {}
        """By the names that stand for them: the original ids; see `codriver.protocol.calls`."""

    @contextmanager
    def batch(self) -> Iterator[None]:
        """Gather in one batch the requests that are read within this context."""
        self._reading = batch = Batch()
        try:
            yield
        finally:
            self._reading = None
            batch.end()
            self._send(batch)

    def name(self, names: dict[str, str]) -> None:
        """Remember the ids that these names stand for."""
        self._spelt.update(names)

    def expect(self, identity: str | int, size: int) -> None:
        """Note that a request of so many bytes was read, and will be answered."""
        self._session.open_requests.add(identity, size)
        if self._reading is not None:
            self._reading.expect(identity)
            self._batches[identity] = self._reading

    def put(self, identity: str | int, line: bytes) -> None:
        """Put the answer to a request on its way."""
        if identity in self._spelt:
            line = with_original_id(line, str(identity), self._spelt.pop(identity))
        batch = self._batches.pop(identity, None)
        if batch is None:
            self._session.outbox.put(line)
        else:
            batch.add(line)
            batch.strike_out(identity)
            self._send(batch)
        self._session.open_requests.remove(identity)

    def forget(self, identity: object) -> None:
        """Give a cancelled request no answer. An id without an open request is passed over, whatever it is."""
        if not isinstance(identity, str | int) or identity not in self._session.open_requests:
            return
        self._spelt.pop(identity, None)
        if batch := self._batches.pop(identity, None):
            batch.strike_out(identity)
            self._send(batch)
        self._session.open_requests.remove(identity)

    def refuse(self, refused: Refusal) -> None:
        """Answer the message read just now with an error."""
        identity = refused.identity
        if identity in self._spelt and identity not in self._session.open_requests:
            identity = self._spelt.pop(identity)
        answer: dict[str, Any] = {"jsonrpc": "2.0", "id": identity}
        if identity is None and self._version() in WITHOUT_NULL:
            del answer["id"]
        answer["error"] = {"code": refused.code, "message": refused.text}
        line = json.dumps(answer).encode() + b"\n"
        if self._reading is not None:
            self._reading.add(line)
        else:
            self._session.outbox.put(line)

    def refuse_line(self, text: str) -> None:
        """Answer a line whose id cannot be known."""
        self.refuse(Refusal(None, INVALID_REQUEST, text))

    def _version(self) -> str:
        """Return the protocol version of a message that answers no known request; empty before the client named one."""
        return self._session.handshake_version or (MODERN if self._session.sends_envelopes else "")

    def _send(self, batch: Batch) -> None:
        line = batch.take()
        if line is not None:
            self._session.outbox.put(line)


SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")
ESCAPE = re.compile(
    rb"(?P<pair>\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2})"
    rb"|(?P<half>\\u[dD][89a-fA-F][0-9a-fA-F]{2})"
    rb"|\\."
)
"""Escapes in order, so that none begins in the middle of another. JSON has backslashes in strings alone."""
REPLACEMENT = rb"\ufffd"
HALF = re.compile("[\ud800-\udfff]")


def has_halves(line: bytes) -> bool:
    """Whether a line of JSON has half of a surrogate pair."""
    if not SURROGATE.search(line):
        return False
    return any(found["half"] for found in ESCAPE.finditer(line))


def without_halves(line: bytes) -> bytes:
    """The line with U+FFFD for each half."""
    return ESCAPE.sub(lambda found: REPLACEMENT if found["half"] else found[0], line)


def name_for(identity: object) -> str | None:
    """The name that stands for an id with halves of a character pair, always the same; None for any other id."""
    if not isinstance(identity, str) or not HALF.search(identity):
        return None
    return f"codriver-id-{identity.encode('utf-16-be', 'surrogatepass').hex()}"


def with_plain_ids(message: dict[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
    """The message with names for such ids, its own and that of the request it cancels; and its own id by its name."""
    renamed_ids: dict[str, str] = {}
    if name := name_for(message.get("id")):
        renamed_ids[name] = message["id"]
        message = {**message, "id": name}
    params = message.get("params")
    if isinstance(params, dict) and message.get("method") == "notifications/cancelled":
        message = {
            **message,
            "params": {**params, "requestId": name_for(params.get("requestId")) or params.get("requestId")},
        }
    return message, renamed_ids


def with_original_id(line: bytes, name: str, identity: str) -> bytes:
    """The answer with its original id in place of the name, which is the first such text in it."""
    return line.replace(json.dumps(name).encode(), json.dumps(identity).encode(), 1)


MOST_WITHHELD = 5
"""Settings that do not count, named in a first answer: a longer list would drown the answer."""
NEW_SERVER = "a new server has replaced the previous one: what was defined in the REPLs that it had started is gone"
RESULT = '{"content":%s%s,"isError":%s%s}'
STRUCTURE = ',"structuredContent":%s'
WHOLE_DIGITS = 21
"""JavaScript writes numbers of more digits before the point with an exponent."""
MOST_EXACT = str(2**53 - 1)
"""The greatest whole number that JavaScript knows exactly. Source: ECMA-262, `Number.MAX_SAFE_INTEGER`."""
STRING_OR_NUMBER = re.compile(r'"(?:[^"\\]|\\.)*"|-?\d[\d.eE+-]*')


@dataclass(frozen=True, slots=True)
class Answered:
    """A tool's answer as it leaves the server: its fields as JSON, without secrets."""

    text: str
    images: tuple[Image, ...]
    ok: bool
    handed_out: Callable[[], None] | None = None
    """The function to call, in the same turn, when the answer is handed to the client."""


class Questions(Protocol):
    """Questions to the humans behind clients."""

    tool: str
    """The name of the tool whose answer a question may replace."""

    def consider(self, client: ClientSession, tool: Tool) -> None:
        """Ask a client a question beside the answer of this tool, if there is one to ask."""

    async def required(self, client: ClientSession, params: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return the question in place of the answer to a call with these parameters; None to run the call."""

    def take(self, client: ClientSession, message: Mapping[str, Any]) -> bool:
        """Take in a client's answer; true if it answers such a question."""


class Caller:
    """Runs tools for clients, on either way of a call. Lives as long as the server."""

    def __init__(
        self,
        services: Services,
        *,
        redactor: Redactor,
        tell_of_log: Callable[[ClientSession], None],
        questions: Questions,
    ) -> None:
        self._services = services
        self.redactor = redactor
        self._tell_of_log = tell_of_log
        self.questions = questions
        """The questions to humans that are asked beside an answer."""

    def find(self, client: ClientSession, name: str, arguments: dict[str, Any]) -> tuple[Tool, dict[str, Any]] | None:
        """The tool that a call of this client means, and its arguments; None for an unknown one."""
        return tool_called(self._services.manifest, self._services.live.settings, client.name, name, arguments)

    async def run(
        self,
        client: ClientSession,
        tool: Tool,
        arguments: dict[str, Any],
        progress: Progress,
        conversation: str | None = None,
        *,
        lasting: Lasting | None = None,
        is_stateless: bool = False,
    ) -> Answered:
        """The answer of `tool` to this client. Every answer passes here, where secrets are taken out.

        `conversation` is the client's own session for this call, if it is not that of the newest call. Beside the
        answer to a stateless call, the client is asked nothing.
        """
        client.calls += 1
        whence = client.conversation if conversation is None else conversation
        call = Call(self._services, client.id, client.name, progress, lambda: client.has_left, whence)
        if lasting is not None:
            call = LastingCall(lasting, call)
        given = self._greeting(client, await answer(tool, call, arguments))
        # The log entries of this call are told before its answer, also while such news are gathered.
        self._tell_of_log(client)
        if client.takes_forms and not is_stateless:
            self.questions.consider(client, tool)
        text = self.text_of(given.fields, shows_told=given.shows_told)
        if given.has_numbers:
            text = STRING_OR_NUMBER.sub(_as_javascript, text)
        return Answered(text, given.images, given.ok, given.handed_out)

    def text_of(self, fields: Json, *, shows_told: bool = False) -> str:
        """Fields as JSON, without secrets, for everything that leaves the server for a reader."""
        text = as_json(fields)
        if self.redactor.may_find(text):
            text = as_json(self.redactor.redact_json(fields, shows_told=shows_told))
        return text

    def _greeting(self, client: ClientSession, given: Answer) -> Answer:
        """A client's first answer, with notes on a server that is not its first, and on settings that do not count."""
        withheld = () if client.knows_withheld else self._services.live.withheld[:MOST_WITHHELD]
        if given.is_bare or not (withheld or client.had_another):
            return given
        news = (NEW_SERVER,) if client.had_another else ()
        client.had_another = False
        client.knows_withheld |= bool(withheld)
        before = given.fields.get("notes", ())
        notes = [*(before if isinstance(before, list | tuple) else ()), *news, *withheld]
        return replace(given, fields={**given.fields, "notes": notes})


def _as_javascript(found: re.Match[str]) -> str:
    """A number of a JSON text as JavaScript writes it, so that a JavaScript client gives the same text again.

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
    if not isinstance(exponent, int):  # a number too great for JSON
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


def result_of(client: ClientSession, answered: Answered, beside: str = "") -> str:
    """A tool's answer as the JSON of the result that this client gets.

    `beside`: further members of the result of a stateless request, as `Results` has them.
    """
    content: list[dict[str, str]] = [{"type": "text", "text": answered.text}]
    if answered.images:
        content += [{"type": "image", "data": one.data, "mimeType": one.mime_type} for one in answered.images]
    # The fields are JSON already, and need not be read and written again.
    structure = STRUCTURE % answered.text if traits_of(client.name).takes_structure else ""
    return RESULT % (as_json(content), structure, "false" if answered.ok else "true", beside)


def as_json(value: object) -> str:
    """JSON in characters that UTF-8 can hold, without superfluous spaces."""
    try:
        return to_json(value).decode()
    except PydanticSerializationError:  # half of a surrogate pair
        return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace").decode()
