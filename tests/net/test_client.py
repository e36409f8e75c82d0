"""The small client of the commands waits long for evaluations, but not for answers that need none."""

import json
import socket
import threading

import pytest

from codriver.net import client
from codriver.net.client import Connection, UnresponsiveServerError

ANSWER_DELAY_S = 0.3
"""The time that the server takes to answer an evaluation, in seconds. It answers no other request."""


@pytest.fixture
def slow_server():
    """Return the address of a server that accepts any request and answers evaluations only, after a delay."""
    has_ended = threading.Event()
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        accepted, _ = listener.accept()
        with accepted, accepted.makefile("rb") as lines:
            for line in lines:
                request = json.loads(line)
                if request["params"].get("name") == "evaluate_code":
                    has_ended.wait(ANSWER_DELAY_S)
                    result = {"structuredContent": {"ok": True}}
                    accepted.sendall(
                        json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": result}).encode() + b"\n"
                    )

    thread = threading.Thread(target=serve)
    thread.start()
    yield listener.getsockname()
    has_ended.set()
    thread.join()
    listener.close()


def test_a_query_that_the_server_never_answers_fails_but_an_evaluation_may_take_longer(slow_server, monkeypatch):
    monkeypatch.setattr(client, "QUERY_TIMEOUT_S", ANSWER_DELAY_S / 10)
    with Connection(*slow_server) as connection:
        assert connection.call("evaluate_code", {"code": "1"}) == {"ok": True}
        with pytest.raises(UnresponsiveServerError, match=r"did not answer within 0\.03 s\..*codriver doctor"):
            connection.call("server_health", {})
