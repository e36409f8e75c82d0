"""What macOS reports about a socket is read where its header file says; macOS itself is asked where the tests run on
it.
"""

import ctypes
import os
import socket
import sys

import pytest

from codriver.systems.machine import SOCKET_INFO_BYTES, is_listening_at, listening_port, socket_descriptors

U8, I16, I32, U32, I64, U64 = (
    ctypes.c_uint8, ctypes.c_int16, ctypes.c_int32, ctypes.c_uint32, ctypes.c_int64, ctypes.c_uint64
)  # fmt: skip


def struct(name, *fields):
    return type(name, (ctypes.Structure,), {"_fields_": fields})


# As `sys/proc_info.h` has them.
FileInfo = struct("FileInfo", ("flags", U32), ("status", U32), ("offset", I64), ("type", I32), ("guard", U32))
Stat = struct(
    "Stat", ("dev", U32), ("mode", ctypes.c_uint16), ("nlink", ctypes.c_uint16), ("ino", U64), ("uid", U32),
    ("gid", U32), ("times", I64 * 8), ("size", I64), ("blocks", I64), ("blksize", I32), ("flags", U32), ("gen", U32),
    ("rdev", U32), ("spare", I64 * 2),
)  # fmt: skip
Buffer = struct("Buffer", ("numbers", U32 * 5), ("flags", I16), ("timeo", I16))
Version6 = struct("Version6", ("hlim", U8), ("cksum", I32), ("ifindex", ctypes.c_uint16), ("hops", I16))
Internet = struct(
    "Internet", ("fport", I32), ("lport", I32), ("gencnt", U64), ("flags", U32), ("flow", U32), ("vflag", U8),
    ("ttl", U8), ("rfu", U32), ("faddr", U32 * 4), ("laddr", U32 * 4), ("tos", U8), ("v6", Version6),
)  # fmt: skip
Tcp = struct("Tcp", ("ini", Internet), ("state", I32), ("timers", I32 * 4), ("mss", I32), ("flags", U32), ("rfu", U32))
Local = struct("Local", ("so", U64), ("pcb", U64), ("addr", ctypes.c_char * 255), ("caddr", ctypes.c_char * 255))


class Protocols(ctypes.Union):
    _fields_ = (("tcp", Tcp), ("local", Local))


SocketInfo = struct(
    "SocketInfo", ("stat", Stat), ("so", U64), ("pcb", U64), ("type", I32), ("protocol", I32), ("family", I32),
    ("shorts", I16 * 8), ("oobmark", U32), ("rcv", Buffer), ("snd", Buffer), ("kind", I32), ("rfu", U32),
    ("proto", Protocols),
)  # fmt: skip
Told = struct("Told", ("pfi", FileInfo), ("psi", SocketInfo))


def socket_info(kind, state, port):
    made = Told()
    made.psi.kind = kind
    made.psi.proto.tcp.state = state
    made.psi.proto.tcp.ini.lport = socket.htons(port)
    made.psi.proto.tcp.ini.fport = socket.htons(1)
    return bytes(made)


def test_the_socket_info_structure_has_the_size_given_by_the_system_header():
    assert ctypes.sizeof(Told) == SOCKET_INFO_BYTES


@pytest.mark.parametrize("port", [1, 1664, 65535])
def test_the_port_of_a_listening_socket_is_read(port):
    assert listening_port(socket_info(2, 1, port)) == port


@pytest.mark.parametrize(("kind", "state"), [(2, 4), (1, 1), (3, 0)])
def test_a_socket_that_does_not_listen_has_no_listening_port(kind, state):
    assert listening_port(socket_info(kind, state, 1664)) is None


def test_sockets_are_found_among_all_descriptors():
    pairs = ((0, 1), (3, 2), (4, 5), (70, 2))
    rows = b"".join(number.to_bytes(4, sys.byteorder) for pair in pairs for number in pair)
    assert socket_descriptors(rows) == [3, 70]
    assert socket_descriptors(rows + b"\0" * 4) == [3, 70]
    assert socket_descriptors(b"") == []


def test_the_owner_of_a_listener_is_looked_up_only_on_macos():
    is_macos = sys.platform == "darwin"
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        assert is_listening_at(os.getpid(), port) is (True if is_macos else None)
        assert is_listening_at(os.getpid(), port - 1) is (False if is_macos else None)
