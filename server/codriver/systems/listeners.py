"""The port that a process listens on, as macOS tells of processes of this user. Linux tells by tables of sockets."""

from __future__ import annotations

import socket
import sys
from typing import Final

FD_BYTES: Final = 8
"""The length of one row of the list of a process' descriptors: its number, and its kind, both of 4 bytes."""
IS_SOCKET: Final = 2
INFO_BYTES: Final = 792
"""The length of all that is told of a socket. Source: macOS, `sys/proc_info.h`, `struct socket_fdinfo`."""
KIND_AT, PORT_AT, STATE_AT = 256, 268, 344
"""Where `soi_kind`, `insi_lport` and `tcpsi_state` are: of 4 bytes each, the port in the network's order."""
IS_TCP, LISTENS = 2, 1

if sys.platform == "darwin":
    import ctypes

    LIST_DESCRIPTORS, TELL_OF_SOCKET = 1, 3
    SPARE = 16
    """So many more descriptors than were counted a moment before are made room for."""

    def listens(process: int, port: int) -> bool | None:
        """Whether a process listens at a port of TCP; None where the system does not tell, as of another user's."""
        system = ctypes.CDLL(None, use_errno=True)
        nothing = ctypes.c_uint64(0)
        needed = system.proc_pidinfo(process, LIST_DESCRIPTORS, nothing, None, 0)
        if needed <= 0:
            return None
        rows = ctypes.create_string_buffer(needed + SPARE * FD_BYTES)
        given = system.proc_pidinfo(process, LIST_DESCRIPTORS, nothing, rows, len(rows))
        if given <= 0:
            return None
        told = ctypes.create_string_buffer(INFO_BYTES)
        for number in sockets_in(rows.raw[:given]):
            size = system.proc_pidfdinfo(process, number, TELL_OF_SOCKET, told, INFO_BYTES)
            if size >= INFO_BYTES and listening_port(told.raw) == port:
                return True
        return False

else:

    def listens(_process: int, _port: int) -> bool | None:
        """None: this system is not asked in this way."""
        return None


def sockets_in(rows: bytes) -> list[int]:
    """The descriptors that are sockets, of a process' list of descriptors."""
    pairs = [(_number(rows, at), _number(rows, at + 4)) for at in range(0, len(rows) - FD_BYTES + 1, FD_BYTES)]
    return [descriptor for descriptor, kind in pairs if kind == IS_SOCKET]


def listening_port(told: bytes) -> int | None:
    """The port of a socket of TCP that listens, out of what the system tells of a socket; None for any other."""
    if _number(told, KIND_AT) != IS_TCP or _number(told, STATE_AT) != LISTENS:
        return None
    return socket.ntohs(_number(told, PORT_AT) & 0xFFFF)


def _number(data: bytes, at: int) -> int:
    return int.from_bytes(data[at : at + 4], sys.byteorder)
