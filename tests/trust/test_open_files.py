"""Open descriptors of a process are named, so that a leak under load can be identified."""

import os
import socket
import sys
from contextlib import closing

import pytest

from trust.open_files import open_files

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads a process's files from /proc")


def test_a_socket_closed_by_its_peer_is_named_with_ports_and_state():
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        client = socket.create_connection(listener.getsockname())
        served, (_, port) = listener.accept()
        with closing(served):
            client.close()
            assert served.recv(1) == b""
            ours = listener.getsockname()[1]
            named = open_files(os.getpid())
            assert f"{served.fileno()} port {ours} to {port}, CLOSE_WAIT" in named
            assert f"{listener.fileno()} port {ours} to 0, LISTEN" in named
        assert not any(line.endswith("CLOSE_WAIT") and f" {ours} to " in line for line in open_files(os.getpid()))


def test_a_file_is_named_by_its_path(tmp_path):
    with (tmp_path / "left.txt").open("w") as file:
        assert f"{file.fileno()} {tmp_path / 'left.txt'}" in open_files(os.getpid())
