"""A server leaves no session in the user's REPL, however it ends, and never closes the user's own."""

import signal
import socket

import posix_only
import pytest
from live_server import Live, serving, until
from real_repls import repl

from codriver.wire.bencode import Decoder, encode

ROUNDS = 3


def request(endpoint, op, **fields):
    """Return the answer of an nREPL server."""
    decoder, answer = Decoder(), {}
    with socket.create_connection((endpoint.host, endpoint.port), timeout=60) as connection:
        connection.sendall(encode({"op": op, "id": "1", **fields}))
        while "done" not in answer.get("status", ()):
            for message in decoder.feed(connection.recv(65536)):
                answer |= message
    return answer


@pytest.fixture
def user():
    """Return a REPL and a session of its user."""
    endpoint = repl("jvm").endpoint
    session = request(endpoint, "clone")["new-session"]
    request(endpoint, "eval", code="(def theirs 1)", session=session)
    yield endpoint, session
    request(endpoint, "close", session=session)


def sessions(endpoint):
    return set(request(endpoint, "ls-sessions")["sessions"])


def work(live, has_started=lambda: True):
    """Run code of two clients: each in a lane, in an isolated session and in one endless evaluation."""
    with live.client(name="ann") as ann, live.client(name="bob") as bob:
        assert ann.call("evaluate_code", code="1", timeoutMs=60_000)["ok"]
        assert ann.call("symbol_info", symbol="map")["ok"]
        assert bob.call("evaluate_code", code="2", isolate=True, timeoutMs=60_000)["ok"]
        assert bob.call("evaluate_code", code="(deref (promise))", timeoutMs=1000)["status"] == "running"
        # Who is gone opens no session any more.
        until(has_started, "the session of the last evaluation")


@pytest.mark.parametrize("end", ["SIGTERM", "SIGINT", "stop"])
def test_stopping_a_server_closes_its_sessions(tmp_path, user, end):
    endpoint, theirs = user
    before = sessions(endpoint)
    for _ in range(ROUNDS):
        live = Live(tmp_path, "--nrepl", str(endpoint))
        work(live, lambda: len(sessions(endpoint) - before) >= 4)
        if end == "stop":
            assert live.run("stop").returncode == 0
        live.stop(getattr(signal, end, signal.SIGTERM))
        assert sessions(endpoint) == before
    assert theirs in before


def test_sessions_of_a_killed_server_are_closed_by_the_next_start(tmp_path, user):
    endpoint, theirs = user
    before = sessions(endpoint)
    left = set()
    for _ in range(ROUNDS):
        live = Live(tmp_path, "--nrepl", str(endpoint))
        work(live)
        until(lambda left=left: not left & sessions(endpoint), "the sessions of the run before to be closed")
        live.stop(posix_only.KILL)
        left = sessions(endpoint) - before
    with serving(tmp_path, "--nrepl", str(endpoint)) as live:
        work(live)
    assert sessions(endpoint) == before
    assert theirs in before
