"""Tool calls: a tool runs for its client, and its answer becomes JSON without secrets."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final, Protocol

from pydantic_core import PydanticSerializationError, to_json

from codriver.core.records import dataclass
from codriver.tools.calls.call import Call, Lasting, LastingCall, Services
from codriver.tools.calls.client_traits import traits_of
from codriver.tools.calls.gate import answer
from codriver.tools.manifest import tool_called

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from codriver.log.redaction import Redactor
    from codriver.net.client_sessions import ClientSession
    from codriver.tools.calls.answer import Answer, Image
    from codriver.tools.calls.arguments import Json
    from codriver.tools.calls.tool import Manifest, Tool

    Progress = Callable[[float, str], Awaitable[None]]

CALLS: Final = "calls"
MOST_ARGUMENTS: Final = 64
"""Maximum number of names of arguments that are counted for one tool: callers may invent any."""
MOST_NAME_CHARACTERS: Final = 40
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
        """Ask a client a question next to the answer of this tool, if there is one to ask."""

    async def required(self, client: ClientSession, params: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return the question in place of the answer to a call with these parameters; None to run the call."""

    def take(self, client: ClientSession, message: Mapping[str, Any]) -> bool:
        """Take in a client's answer; true if it answers such a question."""


class Caller:
    """Runs tools for clients, on either way of a call. Lives as long as the server."""

    def __init__(
        self,
        services: Services,
        manifest: Manifest,
        *,
        redactor: Redactor,
        tell_of_log: Callable[[ClientSession], None],
        questions: Questions,
    ) -> None:
        self._services = services
        self._manifest = manifest
        self.redactor = redactor
        self._tell_of_log = tell_of_log
        self.questions = questions
        """The questions to humans that are asked beside an answer."""

    def find(self, name: str, arguments: dict[str, Any]) -> tuple[Tool, dict[str, Any]] | None:
        """Return the tool that a call names, and its arguments; None for an unknown one."""
        return tool_called(self._manifest, name, arguments)

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
        """Return the answer of `tool` to this client. Every answer passes here, where secrets are taken out.

        `conversation` is the client's own session for this call, if it is not that of the newest call. Next to the
        answer to a stateless call, the client is asked nothing.
        """
        client.calls += 1
        uses = self._services.uses
        if tool.name not in uses:
            uses[tool.name] = {CALLS: 0}
        counts = uses[tool.name]
        counts[CALLS] += 1
        for name in arguments:
            if name in counts:
                counts[name] += 1
            elif len(counts) <= MOST_ARGUMENTS:
                counts[name[:MOST_NAME_CHARACTERS]] = 1
        whence = client.conversation if conversation is None else conversation
        call = Call(self._services, client.id, client.name, progress, lambda: client.has_left, whence)
        if lasting is not None:
            call = LastingCall(lasting, call)
        given = self._greeting(client, await answer(tool, call, arguments))
        # The log entries of this call are told before its answer, also while such news are gathered.
        self._tell_of_log(client)
        if client.accepts_forms and not is_stateless:
            self.questions.consider(client, tool)
        text = self.text_of(given.fields, shows_sensitive=given.shows_sensitive)
        if given.has_numbers:
            text = STRING_OR_NUMBER.sub(_as_javascript, text)
        return Answered(text, given.images, given.ok, given.handed_out)

    def text_of(self, fields: Json, *, shows_sensitive: bool = False) -> str:
        """Return fields as JSON, without secrets, for everything that leaves the server for a reader."""
        text = as_json(fields)
        if self.redactor.may_find(text):
            text = as_json(self.redactor.redact_json(fields, shows_sensitive=shows_sensitive))
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
    """Return a tool's answer as the JSON of the result that this client gets.

    `beside`: further members of the result of a stateless request, as `Results` has them.
    """
    content: list[dict[str, str]] = [{"type": "text", "text": answered.text}]
    if answered.images:
        content += [{"type": "image", "data": one.data, "mimeType": one.mime_type} for one in answered.images]
    # The fields are JSON already, and need not be read and written again.
    structure = STRUCTURE % answered.text if traits_of(client.name).accepts_structure else ""
    return RESULT % (as_json(content), structure, "false" if answered.ok else "true", beside)


def as_json(value: object) -> str:
    """JSON in characters that UTF-8 can hold, without superfluous spaces."""
    try:
        return to_json(value).decode()
    except PydanticSerializationError:  # half of a surrogate pair
        return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace").decode()
