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
TOKEN_LINE_BYTES = 4096
READ_BYTES = 64 * 1024


class Admission:
    """Decides over connections, for the life of one server. `token`: what a peer must show first, None for nothing."""

    def __init__(self, *, token: str | None) -> None:
        self._token = token
        self.refused = 0

    async def admit(self, stream: SocketStream) -> bytes | None:
        """The first bytes of a peer that may come in, its token taken off; None for one that may not.

        A refused peer gets no answer: it learns nothing, not even what listens here.
        """
        first = await self._first_bytes(stream)
        if first is None:
            self.refused += 1
        return first

    async def _first_bytes(self, stream: SocketStream) -> bytes | None:
        raw = stream.extra(SocketAttribute.raw_socket)
        owner = await anyio.to_thread.run_sync(door.peer_uid, raw)
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
                    case "json" if self._token is None:
                        return data
                    case "json" if b"\n" in data:
                        return self._without_token(data)
                if len(data) > TOKEN_LINE_BYTES:
                    return None
        return None

    def _without_token(self, data: bytes) -> bytes | None:
        line, _, rest = data.lstrip().partition(b"\n")
        try:
            message = json.loads(line)
            given = message["params"]["token"] if message["method"] == "codriver/token" else ""
        except (ValueError, KeyError, TypeError, RecursionError):
            given = ""
        if isinstance(given, str) and door.token_matches(self._token or "", given):
            return rest
        logger.warning("refused a connection without the token")
        return None
