"""Read the conversation ids that clients send in the `_meta` of tool calls.

An id separates the conversations on one connection. It grants nothing: a client that sends another client's id only
gets a caller on its own connection.
"""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

MAX_ID_CHARACTERS: Final = 128
"""Maximum length of a conversation id."""
CONVERSATION_ID_KEYS: Final = ("sessionId", "sessionID", "threadId", "vscode.conversationId")
"""Keys in `_meta` that contain an id.

Source: recordings of Codex 0.171.0, opencode 1.18.33 and VS Code. Claude Code 2.1.330 sends none.
"""
CLAUDE_CODE_CLIENT: Final = "claude-code"
"""Name of the client whose relay sends the session id from the variable `CLAUDE_CODE_SESSION_ID`."""
TURN_METADATA_KEY: Final = "x-codex-turn-metadata"
"""Key in `_meta` of an object, or its JSON, with a `thread_id`. Source: a recording of Codex 0.171.0."""
MAX_TURN_METADATA_CHARACTERS: Final = 10_000
"""Maximum length of the JSON under `TURN_METADATA_KEY`. Longer values are ignored."""


def conversation_id(meta: Mapping[str, object]) -> str | None:
    """Return the conversation's id in the `_meta` of a call, or None if there is none."""
    for key in CONVERSATION_ID_KEYS:
        if (found := valid_id_or_none(meta.get(key))) is not None:
            return found
    turn = meta.get(TURN_METADATA_KEY)
    if isinstance(turn, str) and len(turn) <= MAX_TURN_METADATA_CHARACTERS:
        try:
            turn = json.loads(turn)
        except (ValueError, RecursionError):
            return None
    return valid_id_or_none(turn.get("thread_id")) if isinstance(turn, dict) else None


def valid_id_or_none(given: object) -> str | None:
    """Return `given` if it is a valid conversation id, or None."""
    is_id = isinstance(given, str) and 0 < len(given) <= MAX_ID_CHARACTERS and given.isprintable()
    return given if is_id else None  # type: ignore[return-value]  # `is_id` implies a string


def conversation_digest(conversation: str) -> str:
    """Return a short digest of a conversation's id. It identifies the conversation without revealing the id."""
    return hashlib.sha256(conversation.encode("utf-8", "surrogatepass")).hexdigest()[:8]
