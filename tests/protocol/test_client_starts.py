"""Real clients start without the SDK: everything that they ask up to their first evaluation is answered without it."""

import pytest
from client_starts import STARTS, Delivery, begin

SDK = {"mcp", "mcp_types"}


@pytest.fixture
def server(tmp_path):
    telling = Delivery(tmp_path, "--repl", "python")
    yield telling
    if telling.process.poll() is None:
        telling.stop()


def test_starting_a_real_client_does_not_import_the_sdk(server):
    for name in STARTS:
        with server.client(handshake=False) as client:
            begin(client, name)
    assert server.imported() & SDK == set()


def test_a_request_that_needs_the_sdk_imports_it(server):
    with server.client() as client:
        assert client.request("resources/read", {"uri": "codriver://handoff"})["result"]["contents"]
    assert server.imported() >= SDK
