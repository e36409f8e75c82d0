"""The ids by which clients name their conversations in the `_meta` of a call.

An id separates the conversations of one connection. It grants nothing: a client that sends another client's id gets a
caller of its own connection alone.
"""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

MAX_CONVERSATION: Final = 128
"""Maximum number of characters of an id."""
KEYS: Final = ("sessionId", "sessionID", "threadId", "vscode.conversationId")
"""Source: recordings of Codex 0.171.0, opencode 1.18.33 and VS Code. Claude Code 2.1.330 names none."""
CLAUDE_CODE: Final = "claude-code"
"""The name of the client whose session id comes by its relay, from the variable `CLAUDE_CODE_SESSION_ID`."""
TURN: Final = "x-codex-turn-metadata"
"""An object, or its JSON, with the `thread_id`. Source: a recording of Codex 0.171.0."""
MAX_TURN: Final = 10_000
"""The characters of JSON that are read of it."""


def conversation_of(meta: Mapping[str, object]) -> str | None:
    """Return the id of a conversation; None if the call names none."""
    for key in KEYS:
        if (found := as_id(meta.get(key))) is not None:
            return found
    turn = meta.get(TURN)
    if isinstance(turn, str) and len(turn) <= MAX_TURN:
        try:
            turn = json.loads(turn)
        except (ValueError, RecursionError):
            return None
    return as_id(turn.get("thread_id")) if isinstance(turn, dict) else None


def as_id(given: object) -> str | None:
    """Return a received value that may be an id; None for any other."""
    is_id = isinstance(given, str) and 0 < len(given) <= MAX_CONVERSATION and given.isprintable()
    return given if is_id else None  # type: ignore[return-value]  # it is text


def digest_of(conversation: str) -> str:
    """Return the displayed form of an id: enough to distinguish conversations, without revealing the id."""
    return hashlib.sha256(conversation.encode("utf-8", "surrogatepass")).hexdigest()[:8]
