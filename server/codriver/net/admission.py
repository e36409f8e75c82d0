"""Check the protocol, user and token of new connections before any request is read."""

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

from codriver.net.conversations import valid_id_or_none
from codriver.net.kernel_sockets import (
    GONE_USER_ID,
    normalize_address,
    query_kernel,
    search_tables,
)
from codriver.net.refusal_log import RefusalLog
from codriver.net.server_record import INTRODUCTION_METHOD, WORKSPACE_METHOD
from codriver_relay.peer import IS_LINUX
from codriver_relay.safe_files import is_mine

if TYPE_CHECKING:
    import socket
    from pathlib import Path

    from anyio.abc import SocketStream

Verdict = Literal["json", "wait", "refuse"]
"""What to do with a connection after its first bytes. See `classify_first_bytes`."""

JSON_WHITESPACE = b" \t\r\n"
BOM = b"\xef\xbb\xbf"
"""The UTF-8 byte order mark, which some shells write first. No protocol starts with it."""
JSON_START_BYTES = b'{["'
"""Bytes that can start a JSON value, but no HTTP method, which is a token. Source: RFC 9110, section 5.6.2."""
FOREIGN_START_PATTERN = re.compile(
    rb"[A-Z]{2,16}[ \t\r\n/]"  # an upper-case verb: HTTP, the HTTP/2 preface (PRI *), PROXY, RTSP, SMTP, DICT
    rb"|SSH-"
    rb"|[^\x20-\x7e]"  # a TLS hello (0x16), PROXY v2 (0x0d), SOCKS (0x05), STUN (0x00), any binary protocol
)
"""Matches the first bytes of data that is not JSON, such as an HTTP request or a TLS handshake."""
FOREIGN_VERSION_PATTERN = re.compile(rb"(?:HTTP|RTSP|SIP|ICY)/[0-9]", re.IGNORECASE)
"""Matches the version of HTTP or a similar protocol in the first line of a request.

The method alone does not identify such a request: after DNS rebinding, a web page can use methods such as `null`.
"""

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class AdmittedPeer:
    """An admitted connection: what its introduction says about the peer, and the bytes received after it."""

    first: bytes
    starts_server: bool = False
    """Whether the peer is a relay that starts a server if none is running."""
    had_another: bool = False
    """Whether the peer is a relay that was connected to a different server before."""
    accepts_skills: bool = True
    """Whether the peer's client should receive skills. False for a relay with `--no-skills`."""
    conversation: str = ""
    """The id of the Claude Code conversation that started the peer, if the peer is a relay. Empty for other clients."""
    stops_server: bool = False
    """Whether the peer only asks the server to stop."""
    request: str = ""
    """The name of a single request that the peer makes instead of speaking MCP, or empty."""
    detail: str = ""
    """The argument of the single request, or empty."""


MAX_FIRST_BYTE_WAIT_S = 300.0
"""Maximum wait for the first byte, in seconds. A relay connects immediately, but sends nothing until its client
does."""
MAX_FIRST_LINE_WAIT_S = 10.0
"""Maximum time to wait for the rest of the first line, in seconds."""
PEER_QUERY_THREADS = 4
"""Number of threads that look up peers' users. They do nothing else, so that no other work delays admission."""
MAX_TOKEN_LINE_BYTES = 4096
"""Maximum length, in bytes, of the first line from a peer that is not admitted yet."""
MAX_READ_BYTES = 64 * 1024
"""Maximum number of bytes read at once."""
INTRODUCTION_START = b'{"jsonrpc": "2.0", "method": "%s"' % INTRODUCTION_METHOD.encode()
"""The start of the line in which Codriver's relay and commands send a token and name the server they expect."""
WORKSPACE_LINE_TEMPLATE = (
    b'{"jsonrpc": "2.0", "method": "%s", "params": {"workspace": "%%s"}}\n' % WORKSPACE_METHOD.encode()
)
"""The answer to a peer that names a workspace: the device and inode of the served workspace."""


def classify_first_bytes(data: bytes) -> Verdict:
    """Return whether the first bytes of a connection are JSON, belong to another protocol, or are too few to decide.

    These verdicts are `json`, `refuse` and `wait`. After a byte order mark and whitespace, `{`, `[` and `"` count as
    JSON. An upper-case verb, an SSH banner and any byte that does not occur in text are refused. Other text is decided
    by its complete first line: one with a version of HTTP or a related protocol is refused, and any other counts as a
    client's mistake (`json`), which is answered with an error.
    """
    if BOM.startswith(data):
        return "wait"
    text = data.removeprefix(BOM).lstrip(JSON_WHITESPACE)
    if not text:
        return "wait"
    if text[0] in JSON_START_BYTES:
        return "json"
    if FOREIGN_START_PATTERN.match(text):
        return "refuse"
    line, line_end, _ = text.partition(b"\n")
    if FOREIGN_VERSION_PATTERN.search(line):
        return "refuse"
    return "json" if line_end else "wait"


def is_loopback(host: str) -> bool:
    """Return whether a host name or address refers only to this machine. Brackets around the address are ignored."""
    if host.lower() == "localhost":
        return True
    try:
        address = ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return (mapped or address).is_loopback


def find_peer_user(connection: socket.socket) -> int | None:
    """Return the user id of the process at the other end of a connection.

    Returns `GONE_USER_ID` if the peer was on this machine and has closed its socket. Returns None if the peer is on
    another machine, or the system is not Linux.
    """
    if not IS_LINUX:
        return None
    try:
        peer, local = connection.getpeername(), connection.getsockname()
    except OSError:
        return GONE_USER_ID  # the peer has disconnected
    remote_address, local_address = normalize_address(peer), normalize_address(local)
    try:
        found = query_kernel(remote_address, local_address)
    except OSError:
        try:
            found = search_tables(remote_address, local_address)
        except OSError:
            return None
    if found is None:
        return GONE_USER_ID if is_loopback(remote_address[0]) else None
    return found.uid if found.inode else GONE_USER_ID


def token_matches(expected: str, given: str) -> bool:
    """Compare two tokens in constant time, and return whether they are equal and not empty."""
    return hmac.compare_digest(expected.encode(), given.encode("utf-8", "replace")) and bool(expected)


async def is_from_user(stream: SocketStream, threads: anyio.CapacityLimiter, refusals: RefusalLog) -> bool:
    """Return whether a connection may be from this user.

    Returns False if the peer is a process of another user or has disconnected, and True if the user is unknown.
    """
    raw = stream.extra(SocketAttribute.raw_socket)
    owner = await anyio.to_thread.run_sync(find_peer_user, raw, limiter=threads)
    if owner == GONE_USER_ID:
        return False  # the peer disconnected before its user could be found
    if owner is not None and not is_mine(owner):
        refusals.log_refusal("refused a connection from another user of this machine")
        return False
    return True


class Admission:
    """Decides which connections are admitted.

    Unless `token` is None, each peer must send it. A peer that expects a different `session_id` or workspace has read a
    stale or forged port file, and is refused because it must not use the REPLs of this workspace. A peer that names the
    workspace it expects is sent the workspace that is served. A peer that names nothing is admitted.
    """

    def __init__(self, *, token: str | None, session_id: str, workspace: Path) -> None:
        self._token = token
        self._session_id = session_id
        self._threads = anyio.CapacityLimiter(PEER_QUERY_THREADS)
        self._workspace = workspace
        self._refusals = RefusalLog(logger)
        self.refused = 0

    async def admit(self, stream: SocketStream) -> AdmittedPeer | None:
        """Read and check the introduction of a peer. Return the admitted peer, or None if it was refused.

        A refused peer gets no answer, so it does not learn which service this is.
        """
        first = await self._read_introduction(stream)
        if first is None:
            self.refused += 1
        return first

    async def _read_introduction(self, stream: SocketStream) -> AdmittedPeer | None:
        if not await is_from_user(stream, self._threads, self._refusals):
            return None
        data = b""
        with anyio.move_on_after(MAX_FIRST_BYTE_WAIT_S) as patience:
            while True:
                try:
                    data += await stream.receive(MAX_READ_BYTES)
                except (anyio.EndOfStream, anyio.BrokenResourceError):
                    return None
                patience.deadline = min(patience.deadline, anyio.current_time() + MAX_FIRST_LINE_WAIT_S)
                match classify_first_bytes(data):
                    case "refuse":
                        self._refusals.log_refusal("refused a connection that does not speak JSON")
                        return None
                    case "json" if self._token is None and not _may_introduce(data):
                        return AdmittedPeer(data)
                    case "json" if b"\n" in data:
                        return await self._check_introduction(data, stream)
                if len(data) > MAX_TOKEN_LINE_BYTES:
                    return None
        return None

    async def _check_introduction(self, data: bytes, stream: SocketStream) -> AdmittedPeer | None:
        line, _, rest = data.lstrip().partition(b"\n")
        try:
            message = json.loads(line)
            given = message["params"] if message["method"] == INTRODUCTION_METHOD else {}
            token, session = given.get("token", ""), given.get("session", self._session_id)
            named_workspace, given_names = given.get("workspace"), given.keys()
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            if self._token is None:
                return AdmittedPeer(data)  # the mistake is answered later
            given, token, session, named_workspace, given_names = {}, "", self._session_id, None, ()
        if self._token is not None and not (isinstance(token, str) and token_matches(self._token, token)):
            self._refusals.log_refusal("refused a connection without the token")
            return None
        if session != self._session_id:
            self._refusals.log_refusal(
                "refused a connection for a different server: the client read an outdated port file"
            )
            return None
        if named_workspace is not None and not await self._send_workspace(stream, named_workspace):
            self._refusals.log_refusal(
                "refused a connection for a different workspace: the port file of that workspace names this server"
            )
            return None
        return AdmittedPeer(
            rest,
            starts_server="starts" in given_names,
            had_another="before" in given_names,
            accepts_skills="withoutSkills" not in given_names,
            conversation=valid_id_or_none(given.get("conversation")) or "" if given_names else "",
            stops_server="stop" in given_names,
            request=_text_or_empty(given.get("request")),
            detail=_text_or_empty(given.get("detail")),
        )

    async def _send_workspace(self, stream: SocketStream, named_workspace: object) -> bool:
        """Send the served workspace to a peer, as its device and inode, and return whether the peer expects it."""
        try:
            status = await anyio.to_thread.run_sync(self._workspace.stat, limiter=self._threads)
        except OSError:
            return False  # the workspace was removed
        served = f"{status.st_dev}:{status.st_ino}"
        try:
            await stream.send(WORKSPACE_LINE_TEMPLATE % served.encode())
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            return False
        return named_workspace == served


def _text_or_empty(value: object) -> str:
    return value if isinstance(value, str) else ""


def _may_introduce(data: bytes) -> bool:
    """Return whether `data` may be the beginning of an introduction."""
    text = data.lstrip()[: len(INTRODUCTION_START)]
    return INTRODUCTION_START.startswith(text)
