"""Admission of connections: by protocol, user and token, checked before a line is read."""

from __future__ import annotations

import hmac
import ipaddress
import json
import logging
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import anyio
from anyio.abc import SocketAttribute

from codriver.net.conversations import as_id
from codriver.net.kernel_sockets import (
    GONE,
    look_up,
    plain,
    query_kernel,
)
from codriver.net.refusal_log import RefusalLog
from codriver.net.server_record import INTRODUCTION, WORKSPACE
from codriver_relay.own_files import is_mine
from codriver_relay.peer import IS_LINUX

if TYPE_CHECKING:
    import socket
    from pathlib import Path

    from anyio.abc import SocketStream

Verdict = Literal["json", "wait", "refuse"]

BLANK = b" \t\r\n"
BOM = b"\xef\xbb\xbf"
"""The byte order mark that some shells put before all UTF-8; no protocol begins with it."""
JSON_STARTS = b'{["'
"""First bytes of JSON strings that begin no HTTP method: a method is a token. Source: RFC 9110, section 5.6.2."""
FOREIGN_START = re.compile(
    rb"[A-Z]{2,16}[ \t\r\n/]"  # a verb in capitals: HTTP, the HTTP/2 preface (PRI *), PROXY, RTSP, SMTP, DICT
    rb"|SSH-"
    rb"|[^\x20-\x7e]"  # a TLS hello (0x16), PROXY v2 (0x0d), SOCKS (0x05), STUN (0x00), any binary protocol
)
FOREIGN_LINE = re.compile(rb"(?:HTTP|RTSP|SIP|ICY)/[0-9]", re.IGNORECASE)
"""A web page may choose a method such as `patch` or `null` when DNS rebinding makes this port its own origin."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Admitted:
    """An admitted peer: its first bytes without the introduction, and what the introduction says about it."""

    first: bytes
    starts_server: bool = False
    """Whether the peer is a relay that starts a server if none runs."""
    had_another: bool = False
    """Whether the peer is a relay that was connected to another server before."""
    accepts_skills: bool = True
    """Whether the peer's client should get skills; not for a relay with `--no-skills`."""
    conversation: str = ""
    """The id of the Claude Code conversation that the peer, a relay, was started for; empty for other clients."""
    stops_server: bool = False
    """Whether the peer only requests that the server stop."""
    request: str = ""
    """The name of the peer's request, if that is all that the peer wants; empty for a peer that speaks MCP."""
    detail: str = ""
    """The detail of the request."""


FIRST_BYTE_S = 300.0
"""A relay connects when its client starts and is silent until the client speaks; a port scanner is silent forever."""
FIRST_LINE_S = 10.0
QUERY_THREADS = 4
"""Number of threads that query the kernel about peers. No other work uses them, so newcomers are never delayed."""
TOKEN_LINE_BYTES = 4096
READ_BYTES = 64 * 1024
INTRODUCTION_START = b'{"jsonrpc": "2.0", "method": "%s"' % INTRODUCTION.encode()
"""The beginning of the line in which Codriver's relay and commands send a token and name their server."""
WORKSPACE_LINE = b'{"jsonrpc": "2.0", "method": "%s", "params": {"workspace": "%%s"}}\n' % WORKSPACE.encode()
"""The answer to a peer that names a workspace: the device and inode of the served workspace."""


def first_bytes_verdict(data: bytes) -> Verdict:
    """Return `refuse` for bytes of another protocol, `wait` while that is still possible, else `json`.

    After a byte order mark and blanks, `{`, `[` and `"` are admitted immediately. A verb in capitals, an SSH banner and
    any byte that no text has are refused immediately. Any other text is judged by its whole first line: a line with a
    version of HTTP or a related protocol is refused. Any other line is a client's mistake (`json`), which the reader
    answers.
    """
    if BOM.startswith(data):
        return "wait"
    text = data.removeprefix(BOM).lstrip(BLANK)
    if not text:
        return "wait"
    if text[0] in JSON_STARTS:
        return "json"
    if FOREIGN_START.match(text):
        return "refuse"
    line, line_end, _ = text.partition(b"\n")
    if FOREIGN_LINE.search(line):
        return "refuse"
    return "json" if line_end else "wait"


def is_loopback(host: str) -> bool:
    """Return whether a host name or an address, also one in brackets, means this machine alone."""
    if host.lower() == "localhost":
        return True
    try:
        address = ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return (mapped or address).is_loopback


def peer_uid(connection: socket.socket) -> int | None:
    """Return the user at the other end of a connection from this machine.

    `GONE`, which is no user, when the peer is on loopback and no process has its socket. None on other systems than
    Linux, and for a peer on another machine.
    """
    if not IS_LINUX:
        return None
    try:
        peer, local = connection.getpeername(), connection.getsockname()
    except OSError:
        return GONE  # the peer has hung up already
    remote_address, local_address = plain(peer), plain(local)
    try:
        found = query_kernel(remote_address, local_address)
    except OSError:
        try:
            found = look_up(remote_address, local_address)
        except OSError:
            return None
    if found is None:
        return GONE if is_loopback(remote_address[0]) else None
    return found.uid if found.inode else GONE


def token_matches(expected: str, given: str) -> bool:
    """Return whether the tokens are equal and not empty, in constant time."""
    return hmac.compare_digest(expected.encode(), given.encode("utf-8", "replace")) and bool(expected)


async def is_from_user(stream: SocketStream, threads: anyio.CapacityLimiter, refusals: RefusalLog) -> bool:
    """Return whether a connection may be this user's. It may not if its peer is someone else's or gone."""
    raw = stream.extra(SocketAttribute.raw_socket)
    owner = await anyio.to_thread.run_sync(peer_uid, raw, limiter=threads)
    if owner == GONE:
        return False  # the peer hung up before its user could be found
    if owner is not None and not is_mine(owner):
        refusals.note("refused a connection of another user of this machine")
        return False
    return True


class Admission:
    """Decides which connections are admitted. `token`: the token that a peer must send; None for none.

    A peer that names another `session_id`, or another workspace, followed a stale or rewritten port file. It must not
    reach the REPLs of this workspace. A peer that names a workspace receives the served one first. A peer that names
    nothing is admitted.
    """

    def __init__(self, *, token: str | None, session_id: str, workspace: Path) -> None:
        self._token = token
        self._session_id = session_id
        self._threads = anyio.CapacityLimiter(QUERY_THREADS)
        self._workspace = workspace
        self._refusals = RefusalLog(logger)
        self.refused = 0

    async def admit(self, stream: SocketStream) -> Admitted | None:
        """Return the admitted peer; None for a refused one.

        A refused peer gets no answer and learns nothing, not even the name of the service.
        """
        first = await self._first_bytes(stream)
        if first is None:
            self.refused += 1
        return first

    async def _first_bytes(self, stream: SocketStream) -> Admitted | None:
        if not await is_from_user(stream, self._threads, self._refusals):
            return None
        data = b""
        with anyio.move_on_after(FIRST_BYTE_S) as patience:
            while True:
                try:
                    data += await stream.receive(READ_BYTES)
                except (anyio.EndOfStream, anyio.BrokenResourceError):
                    return None
                patience.deadline = min(patience.deadline, anyio.current_time() + FIRST_LINE_S)
                match first_bytes_verdict(data):
                    case "refuse":
                        self._refusals.note("refused a connection that does not speak JSON")
                        return None
                    case "json" if self._token is None and not _may_introduce(data):
                        return Admitted(data)
                    case "json" if b"\n" in data:
                        return await self._without_introduction(data, stream)
                if len(data) > TOKEN_LINE_BYTES:
                    return None
        return None

    async def _without_introduction(self, data: bytes, stream: SocketStream) -> Admitted | None:
        line, _, rest = data.lstrip().partition(b"\n")
        try:
            message = json.loads(line)
            given = message["params"] if message["method"] == INTRODUCTION else {}
            token, session = given.get("token", ""), given.get("session", self._session_id)
            named_workspace, given_names = given.get("workspace"), given.keys()
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            if self._token is None:
                return Admitted(data)  # the reader answers the mistake
            given, token, session, named_workspace, given_names = {}, "", self._session_id, None, ()
        if self._token is not None and not (isinstance(token, str) and token_matches(self._token, token)):
            self._refusals.note("refused a connection without the token")
            return None
        if session != self._session_id:
            self._refusals.note("refused a connection that means another server, by the port file of one that is gone")
            return None
        if named_workspace is not None and not await self._send_workspace(stream, named_workspace):
            self._refusals.note("refused a connection that means another workspace, whose port file names this server")
            return None
        return Admitted(
            rest,
            starts_server="starts" in given_names,
            had_another="before" in given_names,
            accepts_skills="withoutSkills" not in given_names,
            conversation=as_id(given.get("conversation")) or "" if given_names else "",
            stops_server="stop" in given_names,
            request=_text(given.get("request")),
            detail=_text(given.get("detail")),
        )

    async def _send_workspace(self, stream: SocketStream, named_workspace: object) -> bool:
        """Send a peer the served workspace, and return whether the peer means that one, by device and inode."""
        try:
            status = await anyio.to_thread.run_sync(self._workspace.stat, limiter=self._threads)
        except OSError:
            return False  # the workspace was removed
        served = f"{status.st_dev}:{status.st_ino}"
        try:
            await stream.send(WORKSPACE_LINE % served.encode())
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            return False
        return named_workspace == served


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _may_introduce(data: bytes) -> bool:
    """Return whether the received part of a first line may belong to an introduction."""
    text = data.lstrip()[: len(INTRODUCTION_START)]
    return INTRODUCTION_START.startswith(text)
