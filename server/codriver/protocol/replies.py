"""Replies of one connection. A reply goes by itself, or with the other replies of its request's batch."""

from __future__ import annotations

import json
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from codriver.protocol.error_messages import INVALID_REQUEST, MODERN, Refusal
from codriver.protocol.lone_surrogates import with_original_id

if TYPE_CHECKING:
    from collections.abc import Iterator

    from codriver.net.client_sessions import ClientSession

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
