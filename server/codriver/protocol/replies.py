"""Answers to one client's requests, on their way to it: each by itself, or with those of the batch it was asked in.

Lone surrogates, which JSON can say and UTF-8 cannot, are replaced in text and renamed in ids.
"""

from __future__ import annotations

import json
import re
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from codriver.protocol.error_messages import INVALID_REQUEST, Refusal

if TYPE_CHECKING:
    from collections.abc import Iterator

    from codriver.net.client_sessions import ClientSession


WITHOUT_NULL = frozenset({"2025-11-25", "2026-07-28"})
"""Versions in whose schema an error without a known id has no `id`. In the others, as in JSON-RPC, it is null."""


class Batch:
    """The answers to messages that came as one array. They go as one, when the last of them is there."""

    def __init__(self) -> None:
        self._waiting: set[str | int] = set()
        self._answers: list[bytes] = []
        self._is_whole = False

    def expect(self, identity: str | int) -> None:
        """One more request of it was read."""
        self._waiting.add(identity)

    def add(self, line: bytes) -> None:
        """An answer of it, or an error about one of its messages."""
        self._answers.append(line.strip())

    def strike_out(self, identity: str | int) -> None:
        """Wait no longer for a request: it is answered, or will not be."""
        self._waiting.discard(identity)

    def end(self) -> None:
        """All of its messages were read."""
        self._is_whole = True

    def take(self) -> bytes | None:
        """The line that answers it; None before the last answer is there, and where nothing in it wants one."""
        if not self._is_whole or self._waiting or not self._answers:
            return None
        answers, self._answers = self._answers, []
        return b"[" + b",".join(answers) + b"]\n"


class Replies:
    """The answers of one connection. `version`: the protocol version, None before the client named one."""

    def __init__(self, session: ClientSession) -> None:
        self.version: str | None = None
        self._session = session
        self._batches: dict[str | int, Batch] = {}
        """By the requests in them that are not answered yet."""
        self._reading: Batch | None = None
        self._spelt: dict[str | int, str] = {}
        """Ids as they came, by the names that stand for them: see `codriver.protocol.replies`."""

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
        """A request of so many bytes was read, and will be answered."""
        self._session.open_requests.add(identity, size)
        if self._reading is not None:
            self._reading.expect(identity)
            self._batches[identity] = self._reading

    def put(self, identity: str | int, line: bytes) -> None:
        """The answer to a request."""
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
        """A request that was cancelled gets no answer. What is not open is passed over, whatever it is."""
        if not isinstance(identity, str | int) or identity not in self._session.open_requests:
            return
        self._spelt.pop(identity, None)
        if batch := self._batches.pop(identity, None):
            batch.strike_out(identity)
            self._send(batch)
        self._session.open_requests.remove(identity)

    def refuse(self, refused: Refusal) -> None:
        """Answer what was read now with an error."""
        identity = refused.identity
        if identity in self._spelt and identity not in self._session.open_requests:
            identity = self._spelt.pop(identity)
        answer: dict[str, Any] = {"jsonrpc": "2.0", "id": identity}
        if identity is None and self.version in WITHOUT_NULL:
            del answer["id"]
        answer["error"] = {"code": refused.code, "message": refused.text}
        line = json.dumps(answer).encode() + b"\n"
        if self._reading is not None:
            self._reading.add(line)
        else:
            self._session.outbox.put(line)

    def refuse_line(self, text: str) -> None:
        """Answer a line of which no id can be known."""
        self.refuse(Refusal(None, INVALID_REQUEST, text))

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
    """Whether a line of JSON has a half of a pair."""
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
    """The message with names for such ids: its own, and that of the request it cancels; and its own id by its name."""
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
    """The answer with the id that came instead of its name, which is the first thing in it of that kind."""
    return line.replace(json.dumps(name).encode(), json.dumps(identity).encode(), 1)
