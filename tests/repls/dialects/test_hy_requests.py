"""hy-nrepl and requests that arrive in one read, as when the server was blocked: each is answered."""

import socket
import time

import pytest
from real_repls import fresh

from codriver.repls.nrepl.nrepl_adapter import connect_nrepl
from codriver.wire.bencode import Decoder, encode

pytestmark = pytest.mark.anyio
WAIT_S = 60


@pytest.fixture
def hy():
    with fresh("hy") as running:
        yield running


def answered(connection, ids):
    """Return the ids of the answered requests, once all are answered or nothing more arrives."""
    decoder, over, deadline = Decoder(), set(), time.monotonic() + WAIT_S
    connection.settimeout(WAIT_S)
    while over != ids and time.monotonic() < deadline:
        try:
            data = connection.recv(65536)
        except TimeoutError:
            break
        over |= {message["id"] for message in map(dict, decoder.feed(data)) if "done" in message.get("status", ())}
    return over


async def test_all_requests_sent_in_one_packet_are_answered(hy):
    async with connect_nrepl(str(hy.endpoint), listener=lambda _id, _event: None, workspace=None, is_remote=False):
        pass  # it applies the fix to the server
    with socket.create_connection((hy.endpoint.host, hy.endpoint.port), WAIT_S) as connection:
        ids = {str(number) for number in range(5)}
        # The last is longer than the kilobyte that the server reads at once.
        code = {name: f'(print "{name * (2000 if name == "4" else 1)}")' for name in ids}
        connection.sendall(b"".join(encode({"op": "eval", "id": name, "code": code[name]}) for name in sorted(ids)))
        assert answered(connection, ids) == ids
