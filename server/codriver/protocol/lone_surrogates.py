"""Replace lone surrogates, which JSON can represent but UTF-8 cannot."""

from __future__ import annotations

import json
import re
from typing import Any

SURROGATE_ESCAPE_PATTERN = re.compile(rb"\\u[dD][89a-fA-F]")
"""Matches the start of a JSON escape sequence for a surrogate."""
ESCAPE_PATTERN = re.compile(
    rb"(?P<pair>\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2})"
    rb"|(?P<half>\\u[dD][89a-fA-F][0-9a-fA-F]{2})"
    rb"|\\."
)
"""Matches any escape sequence, so that no match starts inside one. JSON has backslashes only in strings."""
REPLACEMENT_ESCAPE = rb"\ufffd"
LONE_SURROGATE_PATTERN = re.compile("[\ud800-\udfff]")


def has_lone_surrogates(line: bytes) -> bool:
    """Return whether a line of JSON contains an escape sequence for a lone surrogate."""
    if not SURROGATE_ESCAPE_PATTERN.search(line):
        return False
    return any(found["half"] for found in ESCAPE_PATTERN.finditer(line))


def replace_lone_surrogates(line: bytes) -> bytes:
    """Replace the lone surrogates in a line of JSON with U+FFFD."""
    return ESCAPE_PATTERN.sub(lambda found: REPLACEMENT_ESCAPE if found["half"] else found[0], line)


def encodable_id(identity: object) -> str | None:
    """Return a substitute for an id with lone surrogates, or None for any other id.

    Different ids have different substitutes.
    """
    if not isinstance(identity, str) or not LONE_SURROGATE_PATTERN.search(identity):
        return None
    return f"codriver-id-{identity.encode('utf-16-be', 'surrogatepass').hex()}"


def replace_unencodable_ids(message: dict[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
    """Replace ids that contain lone surrogates, and return the message and the original ids, keyed by substitute."""
    renamed_ids: dict[str, str] = {}
    if name := encodable_id(message.get("id")):
        renamed_ids[name] = message["id"]
        message = {**message, "id": name}
    params = message.get("params")
    if isinstance(params, dict) and message.get("method") == "notifications/cancelled":
        message = {
            **message,
            "params": {**params, "requestId": encodable_id(params.get("requestId")) or params.get("requestId")},
        }
    return message, renamed_ids


def restore_id(line: bytes, name: str, identity: str) -> bytes:
    """Replace the substitute for an id in a response with the original id.

    The first occurrence of `name` in the line is the id.
    """
    return line.replace(json.dumps(name).encode(), json.dumps(identity).encode(), 1)
