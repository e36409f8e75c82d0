"""Who may come in: each connection is looked at before a line of it is read."""

from __future__ import annotations

import json
import logging
import os
from typing import TYPE_CHECKING

import anyio
from anyio.abc import SocketAttribute

from codriver import door

if TYPE_CHECKING:
    from anyio.abc import SocketStream

logger = logging.getLogger(__name__)

FIRST_BYTE_S = 300.0
"""A relay connects when its client starts and is silent until the client speaks; a port scanner is silent for ever."""
FIRST_LINE_S = 10.0
ASKING = 4
"""Threads that ask the kernel about peers. They are of their own: whatever the others do, newcomers are looked at."""
TOKEN_LINE_BYTES = 4096
READ_BYTES = 64 * 1024


INTRODUCTION = b'{"jsonrpc": "2.0", "method": "codriver/token"'
"""How the line begins with which our own relay and commands show a token and name the server that they mean."""


class Admission:
    """Decides over connections, for the life of one server. `token`: what a peer must show first, None for nothing.

    A peer that names another server than this `session_id` found this one behind the port file of a server that is
    gone: it belongs to another workspace, and must not reach the REPLs of this one.
    """

    def __init__(self, *, token: str | None, session_id: str) -> None:
        self._token = token
        self._session_id = session_id
        self._threads = anyio.CapacityLimiter(ASKING)
        self.refused = 0

    async def admit(self, stream: SocketStream) -> bytes | None:
        """The first bytes of a peer that may come in, its introduction taken off; None for one that may not.

        A refused peer gets no answer: it learns nothing, not even what listens here.
        """
        first = await self._first_bytes(stream)
        if first is None:
            self.refused += 1
        return first

    async def _first_bytes(self, stream: SocketStream) -> bytes | None:
        raw = stream.extra(SocketAttribute.raw_socket)
        owner = await anyio.to_thread.run_sync(door.peer_uid, raw, limiter=self._threads)
        if owner is not None and owner != os.getuid():
            logger.warning("refused a connection of another user of this machine")
            return None
        data = b""
        with anyio.move_on_after(FIRST_BYTE_S) as patience:
            while True:
                try:
                    data += await stream.receive(READ_BYTES)
                except (anyio.EndOfStream, anyio.BrokenResourceError):
                    return None
                patience.deadline = min(patience.deadline, anyio.current_time() + FIRST_LINE_S)
                match door.first_bytes_verdict(data):
                    case "refuse":
                        logger.warning("refused a connection that does not speak JSON")
                        return None
                    case "json" if self._token is None and not _may_introduce(data):
                        return data
                    case "json" if b"\n" in data:
                        return self._without_introduction(data)
                if len(data) > TOKEN_LINE_BYTES:
                    return None
        return None

    def _without_introduction(self, data: bytes) -> bytes | None:
        line, _, rest = data.lstrip().partition(b"\n")
        try:
            message = json.loads(line)
            given = message["params"] if message["method"] == "codriver/token" else {}
            token, session = given.get("token", ""), given.get("session", self._session_id)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            if self._token is None:
                return data  # the reader answers it
            token, session = "", self._session_id
        if self._token is not None and not (isinstance(token, str) and door.token_matches(self._token, token)):
            logger.warning("refused a connection without the token")
            return None
        if session != self._session_id:
            logger.warning("refused a connection that means another server, by the port file of one that is gone")
            return None
        return rest


def _may_introduce(data: bytes) -> bool:
    """Whether a first line begins, as far as it is here, as an introduction does."""
    text = data.lstrip()[: len(INTRODUCTION)]
    return INTRODUCTION.startswith(text)
