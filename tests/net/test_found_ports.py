"""Checks before anything is sent to a port that a file names."""

import os
import socket
import sys

import posix_only
import pytest

from codriver.net.kernel_sockets import (
    GONE_USER_ID,
    LocalSocket,
    address_distrust_reason,
    connection_distrust_reason,
    listener_distrust_reason,
)

LONG_AGO = 10**9
"""In seconds since the epoch: no machine that runs today was started before."""


@pytest.fixture
def file(tmp_path):
    path = tmp_path / ".nrepl-port"
    path.write_text("7888")
    return path


def test_a_port_file_of_any_age_is_accepted_if_the_user_owns_the_listener(file):
    os.utime(file, (LONG_AGO, LONG_AGO))
    assert listener_distrust_reason(LocalSocket(posix_only.user(), 1), file) is None


def test_a_peer_that_disconnected_is_refused(file):
    assert "has closed the connection" in listener_distrust_reason(LocalSocket(GONE_USER_ID, 0), file)


def test_a_user_without_a_name_is_reported_by_number(file):
    assert listener_distrust_reason(LocalSocket(2**31 - 7, 1), file).endswith(
        f"another user of this machine, the user {2**31 - 7}"
    )


def test_without_kernel_information_a_recent_port_file_of_the_user_is_accepted(file):
    assert listener_distrust_reason(None, file) is None


def test_without_kernel_information_a_port_file_older_than_the_boot_is_refused(file):
    os.utime(file, (LONG_AGO, LONG_AGO))
    assert "was written before this machine started" in listener_distrust_reason(None, file)


def test_without_kernel_information_a_world_writable_port_file_is_refused(file):
    posix_only.set_mode(file, 0o602)
    assert "other users may write to it" in listener_distrust_reason(None, file)


@pytest.mark.skipif(not posix_only.is_root(), reason="only root can give a file to another user: run the tests as root")
def test_without_kernel_information_a_port_file_of_another_user_is_refused(file):
    posix_only.give_away(file)
    assert "belongs to another user" in listener_distrust_reason(None, file)


def test_without_kernel_information_a_missing_port_file_is_refused(tmp_path):
    assert "cannot be checked" in listener_distrust_reason(None, tmp_path / "gone")


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux identifies the user of a listener")
@pytest.mark.parametrize("is_accepted", [False, True], ids=["waiting", "accepted"])
def test_the_listener_owner_is_looked_up_by_connection_and_by_address(file, is_accepted):
    os.utime(file, (LONG_AGO, LONG_AGO))  # so that the file alone would not be accepted
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = listener.getsockname()
        with socket.create_connection(address) as peer:
            accepted = listener.accept()[0] if is_accepted else None
            assert (connection_distrust_reason(peer, file), address_distrust_reason(address, file)) == (None, None)
            if accepted is not None:
                accepted.close()
