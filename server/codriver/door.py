"""Who is at the door: what the first bytes of a connection tell, and which user is behind it.

A peer that speaks MCP begins with JSON. A web page can make a browser POST to any local port, and a scanner tries TLS:
their first bytes are no JSON, so they are told from a client that merely sent a broken line, which gets an answer.
"""

from __future__ import annotations

import hmac
import ipaddress
import re
import socket
from pathlib import Path
from typing import Literal

Verdict = Literal["json", "wait", "refuse"]

BLANK = b" \t\r\n"
FOREIGN = re.compile(
    rb"[A-Z]{2,16}[ \t\r\n/]"  # an HTTP verb, the HTTP/2 preface (PRI *), PROXY, SSH-like banners: words in capitals
    rb"|SSH-|[\x00-\x08\x0e-\x1f\x7f-\xff]"  # SSH, a TLS hello (0x16 …), any binary protocol
)
WORD = re.compile(rb"[A-Z]{1,16}\Z")
LONGEST_WORD = 17


def first_bytes_verdict(data: bytes) -> Verdict:
    """`refuse` for what belongs to another protocol, `wait` while it may still turn out so, else `json`.

    `json` also covers a first line that is text but no JSON: that is a mistake of a client, and it is answered.
    """
    text = data.lstrip(BLANK)
    if not text or (WORD.match(text) and len(text) < LONGEST_WORD):
        return "wait"
    return "refuse" if FOREIGN.match(text) else "json"


def is_loopback(host: str) -> bool:
    """Whether an address is of this machine alone."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def peer_uid(connection: socket.socket) -> int | None:
    """The user at the other end of a loopback connection; None where the system does not tell.

    Source: proc(5), /proc/net/tcp: column 2 is the local address of a socket, column 8 its user.
    """
    try:
        peer, own = connection.getpeername(), connection.getsockname()
    except OSError:
        return None
    wanted = (_table_form(peer[0], peer[1]), _table_form(own[0], own[1]))
    name = "tcp6" if connection.family == socket.AF_INET6 else "tcp"
    try:
        table = Path(f"/proc/net/{name}").read_text(encoding="ascii")
    except OSError:
        return None
    for line in table.splitlines()[1:]:
        fields = line.split()
        if (fields[1], fields[2]) == wanted:
            return int(fields[7])
    return None


def token_matches(expected: str, given: str) -> bool:
    """Whether the tokens are the same, in a time that does not tell how much of them is."""
    return hmac.compare_digest(expected.encode(), given.encode("utf-8", "replace"))


def _table_form(host: str, port: int) -> str:
    """An address as the kernel's table writes it: hexadecimal, in the machine's byte order by 32-bit words."""
    packed = ipaddress.ip_address(host.partition("%")[0]).packed
    words = [packed[i : i + 4][::-1] for i in range(0, len(packed), 4)]
    return f"{b''.join(words).hex().upper()}:{port:04X}"
