"""Send the replies of a connection, individually or in batches."""

from __future__ import annotations

import json
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from codriver.protocol.error_messages import INVALID_REQUEST, MODERN, Refusal
from codriver.protocol.lone_surrogates import restore_id

if TYPE_CHECKING:
    from collections.abc import Iterator

    from codriver.net.client_sessions import ClientSession

VERSIONS_WITHOUT_NULL_ID = frozenset({"2025-11-25", "2026-07-28"})
"""Versions in which an error for a request with an unknown id has no `id`. In others, as in JSON-RPC, it is null."""


class Batch:
    """The responses to a batch of messages, which are sent in one line when all of them are available."""

    def __init__(self) -> None:
        self._waiting: set[str | int] = set()
        self._answers: list[bytes] = []
        self._is_whole = False

    def expect(self, identity: str | int) -> None:
        """Wait for the response to another request in the batch."""
        self._waiting.add(identity)

    def add(self, line: bytes) -> None:
        """Add a response, or an error about a message in the batch."""
        self._answers.append(line.strip())

    def stop_expecting(self, identity: str | int) -> None:
        """Stop waiting for the response to a request."""
        self._waiting.discard(identity)

    def end_messages(self) -> None:
        """Record that all messages in the batch have been read."""
        self._is_whole = True

    def pop_line(self) -> bytes | None:
        """Return the line with all responses, or None if some are missing or there are none."""
        if not self._is_whole or self._waiting or not self._answers:
            return None
        answers, self._answers = self._answers, []
        return b"[" + b",".join(answers) + b"]\n"


class Replies:
    """Sends responses to the requests of one connection, individually or as a batch."""

    def __init__(self, session: ClientSession) -> None:
        self._session = session
        self._batches: dict[str | int, Batch] = {}
        """Batch of each unanswered request."""
        self._reading: Batch | None = None
        self._spelt: dict[str | int, str] = {}
        """Original ids, by the substitutes that replace them. See `codriver.protocol.lone_surrogates`."""
        self.line_number = 0
        """The number of the line that is being read. Blank lines are not counted."""

    @contextmanager
    def batch(self) -> Iterator[None]:
        """Send the responses to requests that are read while the context is active as one batch."""
        self._reading = batch = Batch()
        try:
            yield
        finally:
            self._reading = None
            batch.end_messages()
            self._send(batch)

    def remember_ids(self, names: dict[str, str]) -> None:
        """Add original ids, by the ids that replaced them in requests. Responses get the original ids again."""
        self._spelt.update(names)

    def expect(self, identity: str | int, size: int) -> None:
        """Record that a request of `size` bytes was read and has to be answered."""
        self._session.open_requests.add(identity, size)
        if self._reading is not None:
            self._reading.expect(identity)
            self._batches[identity] = self._reading

    def put(self, identity: str | int, line: bytes) -> None:
        """Send the response to a request."""
        if identity in self._spelt:
            line = restore_id(line, str(identity), self._spelt.pop(identity))
        batch = self._batches.pop(identity, None)
        if batch is None:
            self._session.outbox.put(line)
        else:
            batch.add(line)
            batch.stop_expecting(identity)
            self._send(batch)
        self._session.open_requests.remove(identity)

    def drop_request(self, identity: object) -> None:
        """Stop waiting for the response to a cancelled request. Unknown ids are ignored."""
        if not isinstance(identity, str | int) or identity not in self._session.open_requests:
            return
        self._spelt.pop(identity, None)
        if batch := self._batches.pop(identity, None):
            batch.stop_expecting(identity)
            self._send(batch)
        self._session.open_requests.remove(identity)

    def refuse(self, refused: Refusal) -> None:
        """Answer the message that was just read with an error.

        If the message has no valid id, the error names the number of its line, so that the relay recognizes the line.
        """
        identity = refused.identity
        if identity in self._spelt and identity not in self._session.open_requests:
            identity = self._spelt.pop(identity)
        answer: dict[str, Any] = {"jsonrpc": "2.0", "id": identity}
        if identity is None and self._version() in VERSIONS_WITHOUT_NULL_ID:
            del answer["id"]
        answer["error"] = {"code": refused.code, "message": refused.text}
        if identity is None:
            answer["error"]["data"] = {"line": self.line_number}
        line = json.dumps(answer).encode() + b"\n"
        if self._reading is not None:
            self._reading.add(line)
        else:
            self._session.outbox.put(line)

    def refuse_line(self, text: str) -> None:
        """Answer a line whose id is unknown with an error."""
        self.refuse(Refusal(None, INVALID_REQUEST, text))

    def _version(self) -> str:
        """Return the protocol version of the client, or an empty string if it is unknown."""
        return self._session.handshake_version or (MODERN if self._session.sends_envelopes else "")

    def _send(self, batch: Batch) -> None:
        line = batch.pop_line()
        if line is not None:
            self._session.outbox.put(line)
