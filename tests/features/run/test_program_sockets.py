"""The sockets at which programs connect, and who connected."""

# mypy: disable-error-code="attr-defined"
# It is skipped on Windows, which lacks some of these functions.

import errno
import os
import socket
import stat
import struct
import sys
from pathlib import Path

import pytest

from codriver.features.run import program_sockets
from codriver.features.run.program_sockets import listen_for_program, macos_peer_ids, peer_ids

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="`codriver run` refuses Windows")

MACOS_MAX_PATH_BYTES = 103
"""The longest path of a socket. Source: macOS, `sys/un.h`, `sockaddr_un`, less the null byte at the end."""


class MacosSocket:
    """A connected Unix socket with the options that macOS documents."""

    def __init__(self, credentials, process):
        self.credentials = credentials
        self.process = process

    def getsockopt(self, level, option, size=0):
        assert level == 0
        if option == 1:
            return self.credentials[:size]
        assert (option, size) == (2, 0)
        if self.process is None:
            raise OSError(errno.ENOTCONN, "Socket is not connected")
        return self.process


def credentials(version=0, user=501):
    """Return a `struct xucred` of macOS: version, user, number of groups, and 16 groups."""
    return struct.pack("IIh2x16I", version, user, 1, 20, *[0] * 15)


@pytest.mark.parametrize(
    ("sock", "ids"),
    [
        (MacosSocket(credentials(), 4321), (4321, 501)),
        (MacosSocket(credentials(), None), None),
        (MacosSocket(credentials(version=1), 4321), None),
        (MacosSocket(credentials()[:8], 4321), None),
    ],
    ids=["known", "has closed its end", "another structure", "too short"],
)
def test_the_peer_is_identified_as_macos_documents_it(sock, ids):
    assert macos_peer_ids(sock) == ids


def test_this_process_is_identified_as_its_peer():
    ours, theirs = socket.socketpair(socket.AF_UNIX)
    with ours, theirs:
        assert peer_ids(ours) == (os.getpid(), os.getuid())


def test_a_socket_in_a_temporary_directory_has_a_short_path_and_is_private(tmp_path, monkeypatch):
    monkeypatch.setattr(program_sockets, "HAS_DESCRIPTOR_PATHS", False)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    long = tmp_path / ("long" * 50)
    long.mkdir()
    with listen_for_program(long) as (_, address):
        directory = Path(address).parent
        assert len(os.fsencode(address)) <= MACOS_MAX_PATH_BYTES
        assert stat.S_IMODE(directory.stat().st_mode) == 0o700
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(address)
        assert [*long.iterdir()] == []
    assert not directory.exists()


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have no paths of open directories")
def test_a_socket_in_a_directory_with_a_long_path_is_reached_by_its_name(tmp_path):
    long = tmp_path / ("long" * 50)
    long.mkdir()
    with listen_for_program(long) as (_, address):
        assert [path.name for path in long.iterdir()] == [address]
    assert [*long.iterdir()] == []
