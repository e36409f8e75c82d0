"""Who is at the door: what the first bytes of a connection tell, and which user is behind it.

A peer that speaks MCP begins with JSON. A web page can make a browser send HTTP to any local port, and a scanner tries
TLS: their first bytes are no JSON, so they are told from a client that merely sent a broken line, which gets an answer.
"""

from __future__ import annotations

import hmac
import ipaddress
import re
import socket
import struct
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

Verdict = Literal["json", "wait", "refuse"]

BLANK = b" \t\r\n"
JSON_STARTS = b'{["'
"""What a JSON text starts with, and no method of HTTP can: a method is a token. Source: RFC 9110, section 5.6.2."""
FOREIGN_START = re.compile(
    rb"[A-Z]{2,16}[ \t\r\n/]"  # a verb in capitals: HTTP, the HTTP/2 preface (PRI *), PROXY, RTSP, SMTP, DICT
    rb"|SSH-"
    rb"|[^\x20-\x7e]"  # a TLS hello (0x16), PROXY v2 (0x0d), SOCKS (0x05), STUN (0x00), any binary protocol
)
FOREIGN_LINE = re.compile(rb"(?:HTTP|RTSP|SIP|ICY)/[0-9]", re.IGNORECASE)
"""A page may choose a method such as `patch` or `null` when DNS rebinding makes this port its own origin."""

GONE = -1
"""The user of a peer whose socket has no owner any more: its process closed it, so nobody can be held to be behind it.

The kernel shows user 0 for such a socket, so that a stranger who sends and closes at once would pass for root.
"""

SOCK_DIAG_BY_FAMILY, NETLINK_SOCK_DIAG, NLM_F_REQUEST, NLMSG_ERROR = 20, 4, 1, 2
ENOENT = 2
ANY_STATE = 0xFFFFFFFF
DIAG_S = 1.0
"""The kernel answers at once; a socket filter that swallows the question must not hold the door."""
TABLE_READS = 3
"""While a table is read, what others close can move a row out of sight."""


@dataclass(frozen=True, slots=True)
class Peer:
    """What the kernel knows of a socket of this machine: its user, and its inode, 0 when no process has it."""

    uid: int
    inode: int


class KernelSilentError(OSError):
    """The kernel does not answer this way of asking."""


def first_bytes_verdict(data: bytes) -> Verdict:
    """`refuse` for what belongs to another protocol, `wait` while it may still turn out so, else `json`.

    The rule, for what follows leading blanks: `{`, `[` and `"` are let in at once. A verb in capitals, an SSH banner
    and any byte that no text has are refused at once. Any other text is judged by its whole first line: one that names
    a version of HTTP or of its kin is refused; else it is a client's mistake (`json`), which the reader answers.
    """
    text = data.lstrip(BLANK)
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
    there, here = (_plain(peer[0]), peer[1]), (_plain(own[0]), own[1])
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


def ask_kernel(there: tuple[str, int], here: tuple[str, int]) -> Peer | None:
    """The socket whose own address is `there` and whose peer's is `here`; None when there is none.

    One question for one socket: 0.02 ms, however many there are. Reading the table costs 5 ms even when it is empty, as
    the kernel walks all its buckets. Source: sock_diag(7), `struct inet_diag_req_v2` and `struct inet_diag_msg`.

    Raises:
        OSError: this kernel, or the container it is in, does not answer such questions.
    """
    family = _family(there[0])
    addresses = (socket.inet_pton(family, host).ljust(16, b"\0") for host, _ in (there, here))
    identity = struct.pack("!HH", there[1], here[1]) + b"".join(addresses) + bytes(4) + b"\xff" * 8
    question = struct.pack("=BBBxI", family, socket.IPPROTO_TCP, 0, ANY_STATE) + identity
    head = struct.pack("=IHHII", 16 + len(question), SOCK_DIAG_BY_FAMILY, NLM_F_REQUEST, 1, 0)
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_SOCK_DIAG) as kernel:
        kernel.settimeout(DIAG_S)
        kernel.send(head + question)
        answer = kernel.recv(4096)
    (kind,) = struct.unpack_from("=H", answer, 4)
    if kind == NLMSG_ERROR:
        (negative,) = struct.unpack_from("=i", answer, 16)
        if negative == -ENOENT:
            return None
        raise KernelSilentError(-negative, "sock_diag")
    if kind != SOCK_DIAG_BY_FAMILY or len(answer) < 88:
        raise KernelSilentError(0, f"sock_diag answered a message of type {kind}")
    uid, inode = struct.unpack_from("=II", answer, 16 + 64)
    return Peer(uid, inode)


def look_up(there: tuple[str, int], here: tuple[str, int], *, folder: Path = Path("/proc/net")) -> Peer | None:
    """The same from the kernel's tables, for where it answers no questions.

    Source: proc(5), /proc/net/tcp: column 2 is a socket's local address, 3 its peer's, 8 its user, 10 its inode.

    Raises:
        OSError: there are no such tables.
    """
    wanted = [_table_form(*there), _table_form(*here)]
    table = folder / ("tcp6" if _family(there[0]) == socket.AF_INET6 else "tcp")
    for _ in range(TABLE_READS):
        for line in table.read_text(encoding="ascii").splitlines()[1:]:
            fields = line.split()
            if fields[1:3] == wanted:
                return Peer(int(fields[7]), int(fields[9]))
    return None


def token_matches(expected: str, given: str) -> bool:
    """Whether the tokens are the same and not empty, in a time that does not tell how much of them is the same."""
    return hmac.compare_digest(expected.encode(), given.encode("utf-8", "replace")) and bool(expected)


def _plain(host: str) -> str:
    """An address without its zone; one of IPv4 that came in over an IPv6 listener as its own end has it."""
    address = host.partition("%")[0]
    return address[7:] if address.startswith("::ffff:") and "." in address else address


def _family(host: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in host else socket.AF_INET


def _table_form(host: str, port: int) -> str:
    """An address as the kernel's table writes it: hexadecimal, in the machine's byte order by 32-bit words."""
    packed = ipaddress.ip_address(host).packed
    words = struct.unpack(f"={len(packed) // 4}I", packed)
    return "".join(f"{word:08X}" for word in words) + f":{port:04X}"
