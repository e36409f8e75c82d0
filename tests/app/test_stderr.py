"""Messages of the server on stderr reach a reader, and block nothing if nobody reads them."""

import contextlib
import signal
import socket

import pytest
from live_server import serving

REFUSED = 1500
"""Connections whose refusals are more text than a pipe holds."""


@pytest.fixture
def live(tmp_path):
    (tmp_path / "workspace").mkdir()
    (tmp_path / "workspace" / "codriver.toml").write_text("maxClients = 1\n")
    with serving(tmp_path, "--repl", "none") as running:
        yield running


def connect_beyond_limit(live):
    """Connect a client beyond the limit, which is refused and disconnected with a warning."""
    with socket.create_connection(("127.0.0.1", live.port), timeout=20) as item, contextlib.suppress(ConnectionError):
        item.sendall(b'{"jsonrpc": "2.0", "id": 1, "method": "ping"}\n')
        item.shutdown(socket.SHUT_WR)
        while item.recv(4096):
            pass


def test_a_server_with_unread_stderr_continues_and_stops_on_request(live):
    with live.client() as client:
        for _ in range(REFUSED):
            connect_beyond_limit(live)
        assert client.call("server_health")["ok"]
    live.process.send_signal(signal.SIGTERM)
    assert live.process.wait(20) == 0


def test_a_message_reaches_stderr_even_if_the_server_ends_immediately(live):
    with live.client():
        connect_beyond_limit(live)
    live.process.send_signal(signal.SIGTERM)
    assert "refused a client because 1 are already connected" in live.process.stdout.read()
    assert live.process.wait(20) == 0
