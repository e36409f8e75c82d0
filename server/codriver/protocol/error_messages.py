"""JSON-RPC error messages, and the names of MCP's versions.

The names with which requests and results state their version and client are also defined here, so that the SDK need not
be imported for them. A test compares them with the SDK's names.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from codriver.errors import CodriverError
from codriver.wire.untrusted import MAX_DEPTH, mapping_or_empty

if TYPE_CHECKING:
    from collections.abc import Mapping


PARSE_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND, INVALID_PARAMS, INTERNAL_ERROR = -32700, -32600, -32601, -32602, -32603
"""JSON-RPC error codes. Source: JSON-RPC 2.0, error object."""
SERVER_ERROR_CODE = -32000
"""An error code from the range that JSON-RPC reserves for servers."""
INTERNAL_ERROR_MESSAGE = "internal error in Codriver. See server_health"
"""Message for an internal error, without details."""
TOO_DEEP_MESSAGE = f"this line nests arrays and objects more than {MAX_DEPTH} levels deep. Send it with less nesting"
MAX_INTEGER_DIGITS = 4300
"""Maximum number of digits in an integer.

The time for parsing an integer grows with the square of its length. Source: Python, `sys`.
"""
NO_BATCH_MESSAGE = "only MCP 2025-03-26 supports batches. Send one message per line"
NO_MESSAGE = "this message is not a JSON-RPC 2.0 request, notification or response"


class RequestRefusedError(CodriverError):
    """Raised to answer a request with a JSON-RPC error."""

    def __init__(self, code: int, text: str, data: object = None) -> None:
        super().__init__(text)
        self.code = code
        self.data = data

    def to_json(self) -> dict[str, Any]:
        """Return the error object for the response."""
        return {"code": self.code, "message": str(self)} | ({} if self.data is None else {"data": self.data})


@dataclass(frozen=True, slots=True)
class Refusal:
    """A response with a JSON-RPC error. `identity` is the id of the request, or None if it is unknown."""

    identity: str | int | None
    code: int
    text: str


@dataclass(frozen=True, slots=True)
class HugeInteger:
    """An integer in JSON with too many digits to be converted."""

    digits: int


def read_json(line: bytes) -> Any:
    """Parse a line of JSON. Integers with more than `MAX_INTEGER_DIGITS` digits become `HugeInteger`.

    Raises:
        ValueError: the line is not JSON.
        RecursionError: the value is nested too deeply.
    """
    return json.loads(line.decode(), parse_int=_parse_integer)  # `json` would accept bytes in other encodings as well


def refuse_invalid_line(line: bytes) -> Refusal | None:
    """Return the error response to a line that is not a valid message.

    Returns None for a notification, because notifications are never answered.
    """
    try:
        value = read_json(line)
    except RecursionError:
        return Refusal(None, INVALID_REQUEST, TOO_DEEP_MESSAGE)
    except ValueError:
        return Refusal(None, PARSE_ERROR, "this line is not JSON. Send one JSON-RPC message per line, in UTF-8")
    if isinstance(value, list):
        return Refusal(None, INVALID_REQUEST, NO_BATCH_MESSAGE)
    return _of_object(value) if isinstance(value, dict) else Refusal(None, INVALID_REQUEST, NO_MESSAGE)


def _of_object(value: dict[str, Any]) -> Refusal | None:
    given = value.get("id")
    # The id of a malformed response was chosen by the server, so an error with it could be mistaken for another answer.
    is_response = "method" not in value and ("result" in value or "error" in value)
    identity = given if isinstance(given, str) or type(given) is int else None
    identity = None if is_response else identity
    if isinstance(given, HugeInteger):
        text = (
            f"the id has {given.digits} digits. An id must be a string, or an integer of at most "
            f"{MAX_INTEGER_DIGITS} digits"
        )
        return Refusal(None, INVALID_REQUEST, text)
    is_request_or_notification = value.get("jsonrpc") == "2.0" and isinstance(value.get("method"), str)
    if is_request_or_notification and "id" not in value:
        return None
    if is_too_deep(value):
        return Refusal(identity, INVALID_REQUEST, TOO_DEEP_MESSAGE)
    if huge := _longest_integer_digits(value):
        text = (
            f"a number in this message has {huge} digits, but at most {MAX_INTEGER_DIGITS} are allowed. Send the "
            "number as a string"
        )
        return Refusal(identity, INVALID_PARAMS if is_request_or_notification else INVALID_REQUEST, text)
    if is_request_or_notification and identity is not None and not isinstance(value.get("params"), dict | None):
        text = "params must be an object that contains the parameters by name"
        return Refusal(identity, INVALID_PARAMS, text)
    return Refusal(identity, INVALID_REQUEST, NO_MESSAGE)


def is_too_deep(value: object) -> bool:
    """Return whether arrays and objects are nested more than `MAX_DEPTH` levels deep."""
    level = [value]
    for _ in range(MAX_DEPTH):
        level = [item for outer in level for item in _items(outer)]
    return any(isinstance(item, dict | list) for item in level)


def _longest_integer_digits(value: object) -> int:
    """Return the number of digits in the longest `HugeInteger` in a value, or 0 if there is none."""
    if isinstance(value, HugeInteger):
        return value.digits
    return max(map(_longest_integer_digits, _items(value)), default=0)


def _items(value: object) -> list[Any]:
    if isinstance(value, dict):
        return list(value.values())
    return value if isinstance(value, list) else []


def _parse_integer(text: str) -> int | HugeInteger:
    digits = len(text) - text.startswith("-")
    return int(text) if digits <= MAX_INTEGER_DIGITS else HugeInteger(digits)


HANDSHAKE_VERSIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
"""Protocol versions in which a client starts with `initialize`, oldest first."""
BATCH_VERSION = "2025-03-26"
"""The only version of the protocol that supports batches."""
OLDER, MODERN = "2025-11-25", "2026-07-28"
"""Versions with tasks, each in its own form. The second has no handshake: each request describes its client."""

INITIALIZE, DISCOVER, LISTEN, CALL = "initialize", "server/discover", "subscriptions/listen", "tools/call"
"""Methods of requests."""
INITIALIZED, CANCELLED = "notifications/initialized", "notifications/cancelled"
"""Methods of notifications."""

META_KEY_PREFIX = "io.modelcontextprotocol/"
"""Prefix of the protocol's names in `_meta`."""
VERSION_KEY = f"{META_KEY_PREFIX}protocolVersion"
CLIENT_KEY = f"{META_KEY_PREFIX}clientInfo"
CAPABILITIES_KEY = f"{META_KEY_PREFIX}clientCapabilities"
LEVEL_KEY = f"{META_KEY_PREFIX}logLevel"
SERVER_KEY = f"{META_KEY_PREFIX}serverInfo"
SUBSCRIPTION_KEY = f"{META_KEY_PREFIX}subscriptionId"
PROGRESS_TOKEN_KEY = "progressToken"  # noqa: S105  # the protocol's name for the token of progress notifications

LOG_LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")
"""Levels of log messages, least severe first. Source: RFC 5424."""

TASKS_EXTENSION = f"{META_KEY_PREFIX}tasks"
"""Extension with which a client that uses MCP 2026-07-28 declares that it supports tasks."""
TASKS_CAPABILITY: Mapping[str, Any] = MappingProxyType({"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}})
"""The capability `tasks`, which is offered to clients that use MCP 2025-11-25 and declare it themselves."""


def request_meta(params: Mapping[str, Any] | None) -> Mapping[str, Any]:
    """Return the `_meta` object of a request, or an empty mapping if it is missing or malformed."""
    return mapping_or_empty((params or {}).get("_meta"))


def client_description(meta: Mapping[str, Any]) -> dict[str, Any]:
    """Return the members of a request's `_meta` that describe the client.

    Other members, such as Claude Code's `claudecode/toolUseId` and `traceparent`, differ from request to request.
    """
    return {key: value for key, value in meta.items() if key.startswith(META_KEY_PREFIX)}


def is_stateless(method: str, params: Mapping[str, Any] | None) -> bool:
    """Return whether a request describes its client itself, as in MCP 2026-07-28.

    All other requests belong to the session that was opened by `initialize`, and so does `initialize` itself.
    """
    return method != INITIALIZE and VERSION_KEY in request_meta(params)


def input_responses(params: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    """Return the responses to earlier elicitations in a request's parameters, or None.

    Source: MCP 2026-07-28, `inputResponses`.
    """
    found = (params or {}).get("inputResponses")
    return found if isinstance(found, dict) else None
