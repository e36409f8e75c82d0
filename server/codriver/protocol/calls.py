"""Run tools for clients, and convert their answers to JSON without secrets."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final, Protocol

from pydantic_core import PydanticSerializationError, to_json

from codriver.core.records import dataclass
from codriver.tools.calls.call import Call, CallFollower, LastingCall, Services
from codriver.tools.calls.client_traits import find_traits
from codriver.tools.calls.gate import answer_call
from codriver.tools.manifest import find_called_tool

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from codriver.log.redaction import Redactor
    from codriver.net.client_sessions import ClientSession
    from codriver.tools.calls.answer import Answer, Image
    from codriver.tools.calls.arguments import Json
    from codriver.tools.calls.tool import Manifest, Tool

    Progress = Callable[[float, str], Awaitable[None]]

CALL_COUNTS_KEY: Final = "calls"
MAX_COUNTED_ARGUMENTS: Final = 64
"""Maximum number of argument names that are counted for one tool, because callers may invent any names."""
MAX_ARGUMENT_NAME_CHARACTERS: Final = 40
"""Maximum length of the name of a counted argument. Longer names are truncated."""
MAX_NAMED_IGNORED_SETTINGS = 5
"""Maximum number of ignored settings that the first answer to a client names."""
NEW_SERVER_NOTE = (
    "a new server has replaced the previous one. The definitions in the REPLs that the previous server had started "
    "are gone"
)
RESULT_TEMPLATE = '{"content":%s%s,"isError":%s%s}'
"""A tool's result as JSON, with placeholders for its parts."""
STRUCTURED_CONTENT_TEMPLATE = ',"structuredContent":%s'
MAX_PLAIN_DIGITS = 21
"""Maximum number of digits before the decimal point that JavaScript writes without an exponent."""
MAX_EXACT_INTEGER = str(2**53 - 1)
"""Largest integer that JavaScript represents exactly. Source: ECMA-262, `Number.MAX_SAFE_INTEGER`."""
STRING_OR_NUMBER_PATTERN = re.compile(r'"(?:[^"\\]|\\.)*"|-?\d[\d.eE+-]*')
"""Matches a string or a number in JSON."""


@dataclass(frozen=True, slots=True)
class ToolAnswer:
    """A tool's answer as it is sent to the client: its fields as JSON, without secrets."""

    text: str
    images: tuple[Image, ...]
    ok: bool
    handed_out: Callable[[], None] | None = None
    """Function to call, in the same event loop step, when the answer is passed to the client."""


class UserDecisions(Protocol):
    """The interface for asking clients' users to make decisions."""

    tool: str
    """Name of the tool whose answer may be replaced with a request for a decision."""

    def request_if_needed(self, client: ClientSession, tool: Tool) -> None:
        """Send a client's user a request for a decision, if a tool's answer shows that a decision is needed."""

    async def replacement_request(self, client: ClientSession, params: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return the request for a decision that replaces the answer to a call, or None if the call should be run."""

    def accept(self, client: ClientSession, message: Mapping[str, Any]) -> bool:
        """Process a message from a client, and return whether it answers a request for a decision."""


class ToolRunner:
    """Runs tools for clients, for the lifetime of a server."""

    def __init__(
        self,
        services: Services,
        manifest: Manifest,
        *,
        redactor: Redactor,
        notify_of_log: Callable[[ClientSession], None],
        decisions: UserDecisions,
    ) -> None:
        self._services = services
        self._manifest = manifest
        self.redactor = redactor
        self._notify_of_log = notify_of_log
        self.decisions = decisions
        """Asks humans for decisions in addition to answers."""

    def find(self, name: str, arguments: dict[str, Any]) -> tuple[Tool, dict[str, Any]] | None:
        """Return the tool with this name and its arguments, or None if there is no such tool."""
        return find_called_tool(self._manifest, name, arguments)

    async def run(
        self,
        client: ClientSession,
        tool: Tool,
        arguments: dict[str, Any],
        progress: Progress,
        conversation: str | None = None,
        *,
        lasting: CallFollower | None = None,
        is_stateless: bool = False,
    ) -> ToolAnswer:
        """Run a tool for a client, and return its answer without secrets.

        `conversation` is the client's conversation, if it differs from that of the client's last call. Users are not
        asked for decisions during stateless calls.
        """
        client.calls += 1
        uses = self._services.uses
        if tool.name not in uses:
            uses[tool.name] = {CALL_COUNTS_KEY: 0}
        counts = uses[tool.name]
        counts[CALL_COUNTS_KEY] += 1
        for name in arguments:
            if name in counts:
                counts[name] += 1
            elif len(counts) <= MAX_COUNTED_ARGUMENTS:
                counts[name[:MAX_ARGUMENT_NAME_CHARACTERS]] = 1
        origin = client.conversation if conversation is None else conversation
        number = client.conversation_number(origin)
        call = Call(self._services, client.id, client.name, progress, lambda: client.has_left, origin, number)
        if lasting is not None:
            call = LastingCall(lasting, call)
        given = self._add_greeting(client, await answer_call(tool, call, arguments))
        # Notifications about log entries from this call are sent before its answer, even if they are being collected.
        self._notify_of_log(client)
        if client.accepts_forms and not is_stateless:
            self.decisions.request_if_needed(client, tool)
        text = self.encode_redacted(given.fields, shows_sensitive=given.shows_sensitive)
        if given.has_numbers:
            text = STRING_OR_NUMBER_PATTERN.sub(_format_as_javascript, text)
        return ToolAnswer(text, given.images, given.ok, given.handed_out)

    def encode_redacted(self, fields: Json, *, shows_sensitive: bool = False) -> str:
        """Encode fields as JSON without secrets."""
        text = encode_json(fields)
        if self.redactor.may_contain_secret(text):
            text = encode_json(self.redactor.redact_json(fields, shows_sensitive=shows_sensitive))
        return text

    def _add_greeting(self, client: ClientSession, given: Answer) -> Answer:
        """Add notes about a replaced server and about ignored settings to the first answer to a client."""
        withheld = () if client.knows_withheld else self._services.live.withheld[:MAX_NAMED_IGNORED_SETTINGS]
        if given.is_bare or not (withheld or client.had_another):
            return given
        greeting_notes = (NEW_SERVER_NOTE,) if client.had_another else ()
        client.had_another = False
        client.knows_withheld |= bool(withheld)
        before = given.fields.get("notes", ())
        notes = [*(before if isinstance(before, list | tuple) else ()), *greeting_notes, *withheld]
        return replace(given, fields={**given.fields, "notes": notes})


def _format_as_javascript(found: re.Match[str]) -> str:
    """Format a number in JSON text as JavaScript does, so that clients written in JavaScript produce the same text.

    An integer that JavaScript would round becomes a string with all digits. Strings are unchanged. Source: ECMA-262,
    `Number::toString`; RFC 7493, 2.2.
    """
    text = found[0]
    if text[0] == '"':
        return text
    if (whole := text.removeprefix("-")).isdigit():
        is_exact = (len(whole), whole) <= (len(MAX_EXACT_INTEGER), MAX_EXACT_INTEGER)
        return text if is_exact else f'"{text}"'
    sign, digits, exponent = Decimal(repr(float(text))).normalize().as_tuple()
    if not isinstance(exponent, int):  # infinity: a number too great for JSON
        return text
    if digits == (0,):
        return "0"
    digits_text, point = "".join(map(str, digits)), len(digits) + exponent
    if len(digits_text) <= point <= MAX_PLAIN_DIGITS:
        digits_text += "0" * (point - len(digits_text))
    elif 0 < point <= MAX_PLAIN_DIGITS:
        digits_text = f"{digits_text[:point]}.{digits_text[point:]}"
    elif -6 < point <= 0:
        digits_text = f"0.{'0' * -point}{digits_text}"
    else:
        digits_text = f"{digits_text[0]}{'.' if digits_text[1:] else ''}{digits_text[1:]}e{point - 1:+d}"
    return f"{'-' if sign else ''}{digits_text}"


def encode_result(client: ClientSession, answered: ToolAnswer, more_members: str = "") -> str:
    """Encode a tool's answer as the JSON result of a request by this client.

    `more_members` are additional members for the result of a stateless request, as JSON. See `Results`.
    """
    content: list[dict[str, str]] = [{"type": "text", "text": answered.text}]
    if answered.images:
        content += [{"type": "image", "data": image.data, "mimeType": image.mime_type} for image in answered.images]
    # The fields are JSON already and are inserted as they are.
    structure = STRUCTURED_CONTENT_TEMPLATE % answered.text if find_traits(client.name).accepts_structure else ""
    return RESULT_TEMPLATE % (encode_json(content), structure, "false" if answered.ok else "true", more_members)


def encode_json(value: object) -> str:
    """Encode a value as compact JSON in valid UTF-8."""
    try:
        return to_json(value).decode()
    except PydanticSerializationError:  # half of a surrogate pair
        return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace").decode()
