"""Real clients start without the SDK: all that they ask up to their first evaluation is answered on the plain way."""

import pytest
from client_starts import STARTS, Delivery, begin

SDK = {"mcp", "mcp_types"}


@pytest.fixture
def server(tmp_path):
    telling = Delivery(tmp_path, "--repl", "python")
    yield telling
    if telling.process.poll() is None:
        telling.stop()


def test_the_starts_of_real_clients_need_no_sdk(server):
    for name in STARTS:
        with server.client(handshake=False) as client:
            begin(client, name)
    assert server.imported() & SDK == set()


def test_what_needs_the_sdk_brings_it(server):
    with server.client() as client:
        assert client.request("resources/read", {"uri": "codriver://handoff"})["result"]["contents"]
    assert server.imported() >= SDK
