"""Who can reach a port of this machine: only its own programs, or others too."""

from __future__ import annotations

import ipaddress
import socket
import struct
from pathlib import Path
from typing import Final

from codriver.net.admission import is_loopback

TABLES: Final = ("/proc/net/tcp", "/proc/net/tcp6")
LISTENING: Final = "0A"
"""The state `TCP_LISTEN` in those tables. Source: Linux, `include/net/tcp_states.h`."""
CONNECT_S: Final = 0.3


def wide_listener(port: int) -> str | None:
    """The address beyond loopback on which something listens at `port` here; None when there is none."""
    tables = [Path(name) for name in TABLES if Path(name).exists()]
    if not tables:
        return _reached_from_outside(port)
    hosts = [host for table in tables for host in listening_hosts(table.read_text(encoding="ascii"), port)]
    return next((host for host in hosts if not is_loopback(host)), None)


def listening_hosts(table: str, port: int) -> list[str]:
    """The local addresses in one of the kernel's TCP tables at which `port` is listened on.

    Source: Linux, `Documentation/networking/proc_net_tcp.rst`; addresses are words in the machine's byte order.
    """
    hosts = []
    for line in table.splitlines()[1:]:
        fields = line.split()
        if len(fields) < 4 or fields[3] != LISTENING:
            continue
        address, _, hex_port = fields[1].partition(":")
        if int(hex_port, 16) == port:
            words = [int(address[at : at + 8], 16) for at in range(0, len(address), 8)]
            packed = struct.pack(f"={len(words)}I", *words)
            hosts.append(str(ipaddress.ip_address(packed)))
    return hosts


def _reached_from_outside(port: int) -> str | None:
    """Where the system has no such table: this machine's own outer address, if the port answers there."""
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            # Connecting a datagram socket sends nothing; it only chooses the address that would be used.
            probe.connect(("192.0.2.1", 9))
            host = str(probe.getsockname()[0])
        if is_loopback(host):
            return None
        with socket.create_connection((host, port), timeout=CONNECT_S):
            return host
    except OSError:
        return None
