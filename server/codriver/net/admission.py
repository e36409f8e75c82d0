"""Admission of connections: each is checked by its first bytes, its user and its token before a line of it is read."""

from __future__ import annotations

import json
import logging
import os
from typing import TYPE_CHECKING

import anyio
from anyio.abc import SocketAttribute

from codriver.net import peers

if TYPE_CHECKING:
    from pathlib import Path

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

WORKSPACE_LINE = b'{"jsonrpc": "2.0", "method": "codriver/workspace", "params": {"workspace": "%s"}}\n'
"""The answer to one that names a workspace: the device and inode of ours."""


class Admission:
    """Decides over connections, for the life of one server. `token`: what a peer must show first, None for nothing.

    A peer that names another server than this `session_id`, or another workspace, found this one behind a port file
    that is left over, or that somebody rewrote: it belongs elsewhere, and must not reach the REPLs of this workspace.
    One that names a workspace is told ours before all else. One that names nothing is let in.
    """

    def __init__(self, *, token: str | None, session_id: str, workspace: Path) -> None:
        self._token = token
        self._session_id = session_id
        self._threads = anyio.CapacityLimiter(ASKING)
        self._workspace = workspace
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
        owner = await anyio.to_thread.run_sync(peers.peer_uid, raw, limiter=self._threads)
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
                match peers.first_bytes_verdict(data):
                    case "refuse":
                        logger.warning("refused a connection that does not speak JSON")
                        return None
                    case "json" if self._token is None and not _may_introduce(data):
                        return data
                    case "json" if b"\n" in data:
                        return await self._without_introduction(data, stream)
                if len(data) > TOKEN_LINE_BYTES:
                    return None
        return None

    async def _without_introduction(self, data: bytes, stream: SocketStream) -> bytes | None:
        line, _, rest = data.lstrip().partition(b"\n")
        try:
            message = json.loads(line)
            given = message["params"] if message["method"] == "codriver/token" else {}
            token, session = given.get("token", ""), given.get("session", self._session_id)
            meant = given.get("workspace")
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            if self._token is None:
                return data  # the reader answers it
            token, session, meant = "", self._session_id, None
        if self._token is not None and not (isinstance(token, str) and peers.token_matches(self._token, token)):
            logger.warning("refused a connection without the token")
            return None
        if session != self._session_id:
            logger.warning("refused a connection that means another server, by the port file of one that is gone")
            return None
        if meant is not None and not await self._tell_workspace(stream, meant):
            logger.warning("refused a connection that means another workspace, whose port file names this server")
            return None
        return rest

    async def _tell_workspace(self, stream: SocketStream, meant: object) -> bool:
        """Tell a peer which workspace is served; whether it is the one that the peer means, by device and inode."""
        try:
            status = await anyio.to_thread.run_sync(self._workspace.stat, limiter=self._threads)
        except OSError:
            return False  # it was removed
        ours = f"{status.st_dev}:{status.st_ino}"
        try:
            await stream.send(WORKSPACE_LINE % ours.encode())
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            return False
        return meant == ours


def _may_introduce(data: bytes) -> bool:
    """Whether a first line begins, as far as it is here, as an introduction does."""
    text = data.lstrip()[: len(INTRODUCTION)]
    return INTRODUCTION.startswith(text)
