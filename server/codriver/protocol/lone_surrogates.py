"""Lone surrogates, which JSON can express and UTF-8 cannot: replaced in text, and renamed in ids."""

from __future__ import annotations

import json
import re
from typing import Any

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
    """Return whether a line of JSON has half of a surrogate pair."""
    if not SURROGATE.search(line):
        return False
    return any(found["half"] for found in ESCAPE.finditer(line))


def without_halves(line: bytes) -> bytes:
    """Return the line with U+FFFD for each half."""
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
    """Return the answer with its original id in place of the name, which is the first such text in it."""
    return line.replace(json.dumps(name).encode(), json.dumps(identity).encode(), 1)
