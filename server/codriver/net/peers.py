"""The peers of connections: their protocol, by the first bytes, and the user behind them.

A peer that speaks MCP begins with JSON. A web page can make a browser send HTTP to any local port, and a scanner tries
TLS: their first bytes are no JSON, so they are told from a client that merely sent a broken line, which gets an answer.
"""

from __future__ import annotations

import hmac
import ipaddress
import re
import sys
from typing import TYPE_CHECKING, Literal

from codriver.net.kernel_sockets import (
    GONE,
    ask_kernel,
    look_up,
    plain,
)

if TYPE_CHECKING:
    import socket

Verdict = Literal["json", "wait", "refuse"]

BLANK = b" \t\r\n"
BOM = b"\xef\xbb\xbf"
"""The mark that some shells put before all UTF-8; no protocol begins with it."""
JSON_STARTS = b'{["'
"""What a JSON text starts with, and no method of HTTP can: a method is a token. Source: RFC 9110, section 5.6.2."""
FOREIGN_START = re.compile(
    rb"[A-Z]{2,16}[ \t\r\n/]"  # a verb in capitals: HTTP, the HTTP/2 preface (PRI *), PROXY, RTSP, SMTP, DICT
    rb"|SSH-"
    rb"|[^\x20-\x7e]"  # a TLS hello (0x16), PROXY v2 (0x0d), SOCKS (0x05), STUN (0x00), any binary protocol
)
FOREIGN_LINE = re.compile(rb"(?:HTTP|RTSP|SIP|ICY)/[0-9]", re.IGNORECASE)
"""A page may choose a method such as `patch` or `null` when DNS rebinding makes this port its own origin."""


def first_bytes_verdict(data: bytes) -> Verdict:
    """`refuse` for what belongs to another protocol, `wait` while it may still turn out so, else `json`.

    The rule, for what follows a byte order mark and blanks: `{`, `[` and `"` are let in at once. A verb in capitals, an
    SSH banner and any byte that no text has are refused at once. Any other text is judged by its whole first line: one
    that names a version of HTTP or of its kin is refused; else it is a client's mistake (`json`), which the reader
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
    line, ended, _ = text.partition(b"\n")
    if FOREIGN_LINE.search(line):
        return "refuse"
    return "json" if ended else "wait"


def is_loopback(host: str) -> bool:
    """Whether a host name or an address, also one in brackets, means this machine alone."""
    if host.lower() == "localhost":
        return True
    try:
        address = ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return (mapped or address).is_loopback


def peer_uid(connection: socket.socket) -> int | None:
    """The user at the other end of a connection from this machine.

    `GONE`, which is no user, when the peer is on loopback and no process has its socket. None where the system does not
    tell: another system than Linux, or a peer on another machine.
    """
    if sys.platform != "linux":
        return None
    try:
        peer, own = connection.getpeername(), connection.getsockname()
    except OSError:
        return GONE  # it has hung up already
    there, here = plain(peer), plain(own)
    try:
        found = ask_kernel(there, here)
    except OSError:
        try:
            found = look_up(there, here)
        except OSError:
            return None
    if found is None:
        return GONE if is_loopback(there[0]) else None
    return found.uid if found.inode else GONE


def token_matches(expected: str, given: str) -> bool:
    """Whether the tokens are the same and not empty, in a time that does not tell how much of them is the same."""
    return hmac.compare_digest(expected.encode(), given.encode("utf-8", "replace")) and bool(expected)
