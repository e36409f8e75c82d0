"""Whether anything speaks against sending to whoever listens at a port that a file names."""

import os
import socket
import sys

import posix_only
import pytest

from codriver.net.kernel_sockets import GONE, Peer, objection_at, objection_to, objection_to_listener

LONG_AGO = 10**9
"""In seconds since the epoch: no machine that runs today was started before."""


@pytest.fixture
def file(tmp_path):
    path = tmp_path / ".nrepl-port"
    path.write_text("7888")
    return path


def test_a_listener_of_ones_own_is_spoken_to_however_old_the_file_is(file):
    os.utime(file, (LONG_AGO, LONG_AGO))
    assert objection_to_listener(Peer(posix_only.user(), 1), file) is None


def test_who_has_hung_up_is_nobody_to_speak_to(file):
    assert "has hung up" in objection_to_listener(Peer(GONE, 0), file)


def test_a_user_without_a_name_is_told_by_number(file):
    assert objection_to_listener(Peer(2**31 - 7, 1), file).startswith(f"the user {2**31 - 7} listens there")


def test_where_nobody_can_be_asked_a_fresh_file_of_ones_own_counts(file):
    assert objection_to_listener(None, file) is None


def test_where_nobody_can_be_asked_a_file_from_before_the_machine_was_started_does_not_count(file):
    os.utime(file, (LONG_AGO, LONG_AGO))
    assert "older than this machine's start" in objection_to_listener(None, file)


def test_where_nobody_can_be_asked_a_file_that_others_may_write_does_not_count(file):
    posix_only.set_mode(file, 0o602)
    assert "others may write to it" in objection_to_listener(None, file)


@pytest.mark.skipif(not posix_only.is_root(), reason="only root can give a file to another user: run the tests as root")
def test_where_nobody_can_be_asked_a_file_of_another_user_does_not_count(file):
    posix_only.give_away(file)
    assert "another user's" in objection_to_listener(None, file)


def test_where_nobody_can_be_asked_a_file_that_is_gone_does_not_count(tmp_path):
    assert "cannot be looked at" in objection_to_listener(None, tmp_path / "gone")


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells the user of a listener")
@pytest.mark.parametrize("is_accepted", [False, True], ids=["waiting", "accepted"])
def test_the_kernel_is_asked_by_connection_and_by_address(file, is_accepted):
    os.utime(file, (LONG_AGO, LONG_AGO))  # so that the file alone would not do
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = listener.getsockname()
        with socket.create_connection(address) as peer:
            accepted = listener.accept()[0] if is_accepted else None
            assert (objection_to(peer, file), objection_at(address, file)) == (None, None)
            if accepted is not None:
                accepted.close()
