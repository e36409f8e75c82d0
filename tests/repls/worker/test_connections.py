"""Misbehaving clients of the worker."""

import socket

import pytest
from worker_client import WAIT_S, texts

from codriver.wire.bencode import encode


@pytest.mark.slow
def test_a_client_that_never_reads_is_dropped_without_affecting_others(python):
    with socket.create_connection(("127.0.0.1", python.port), timeout=WAIT_S) as stuck:
        stuck.sendall(encode({"op": "eval", "id": "1", "code": "for _ in range(100): print('x' * 1_000_000)"}))
        assert texts(python.evaluate("'here'"), "value") == ["'here'"]


def test_invalid_bytes_close_only_the_connection_they_came_from(python):
    with socket.create_connection(("127.0.0.1", python.port), timeout=WAIT_S) as other:
        other.sendall(b"garbage")
        assert other.recv(100) == b""
    assert texts(python.evaluate("1"), "value") == ["1"]


def test_ten_megabytes_can_be_sent_and_received(python):
    assert len(texts(python.evaluate("'v' * 10_000_000"), "value")[0]) == 10_000_002
    assert texts(python.evaluate(f"len('{'c' * 10_000_000}')"), "value") == ["10000000"]
