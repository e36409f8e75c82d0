"""Limits for one peer: connections, time to connect, requests in flight, line length and nesting depth."""

import contextlib
import json
import socket
import sys
from pathlib import Path

import anyio
import pytest
from anyio.abc import SocketListener
from live_server import RELAY, WAIT_S, Bare, Relayed, serving, until, user_settings_file

from codriver.net import admission
from codriver.net.admission import Admission

LIMITS = """
maxClients = 6
maxRequestsPerClient = 4
maxLineBytes = 5000
historyMaxBytes = 262144
"""


@pytest.fixture(scope="module")
def live(tmp_path_factory):
    folder = tmp_path_factory.mktemp("limits")
    (folder / "workspace").mkdir()
    (folder / "workspace" / "codriver.toml").write_text(LIMITS)
    with serving(folder, "--repl", "python") as running, running.client() as running.watcher:
        assert running.watcher.call("evaluate_code", code="1", timeoutMs=60_000)["ok"]
        yield running


@pytest.fixture
def client(live):
    """Return the one client that stays connected when all others are gone."""
    until(lambda: live.watcher.call("server_health")["count"] == 1, "the clients of other tests to be gone")
    return live.watcher


def connect(live):
    return socket.create_connection(("127.0.0.1", live.port), timeout=WAIT_S)


def is_hung_up(sock):
    with contextlib.suppress(ConnectionResetError):
        return sock.recv(1) == b""
    return True


# Connections


def test_a_client_beyond_the_limit_is_refused_with_the_limit_and_a_hint(live, client):
    with contextlib.ExitStack() as others:
        clients = [others.enter_context(live.client(name=f"c{number}")) for number in range(5)]
        with Bare(connect(live), handshake=False) as one_more:
            error = one_more.request("initialize", {"protocolVersion": "2025-11-25"})["error"]
            assert error["message"].startswith("6 clients are connected")
            assert "raise maxClients" in error["message"]
            assert one_more.receive() is None
        assert [c.request("ping")["result"] for c in (client, *clients)] == [{}] * 6
        clients[0].close()
        until(lambda: client.call("server_health")["count"] == 5, "the client to be gone")
        with live.client() as late:
            assert late.request("ping")["result"] == {}


def test_a_client_beyond_the_limit_behind_a_relay_gets_an_error_response(live, client):
    command = [sys.executable, "-I", "-S", RELAY, str(live.port_file)]
    with contextlib.ExitStack() as others:
        for number in range(5):
            others.enter_context(live.client(name=f"c{number}"))
        with Relayed(command, live.environ, handshake=False) as one_more:
            about = {"name": "late", "version": "1"}
            params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": about}
            assert one_more.request("initialize", params)["error"]["message"].startswith("6 clients are connected")
        assert client.request("ping")["result"] == {}


def test_silent_connections_do_not_prevent_clients_from_connecting(live, client):
    with contextlib.ExitStack() as open_ones:
        silent = [open_ones.enter_context(connect(live)) for _ in range(20)]
        with live.client() as late:
            assert late.request("ping")["result"] == {}
        assert is_hung_up(silent[0])
        assert client.request("ping")["result"] == {}


@pytest.mark.skipif(sys.platform == "win32", reason="there is no limit on open files to set")
def test_a_server_out_of_file_descriptors_waits_and_recovers(tmp_path, monkeypatch):
    # The limit is set in the server's own process, as it could not be raised again in this one.
    site = tmp_path / "site"
    site.mkdir()
    (site / "sitecustomize.py").write_text("import resource\nresource.setrlimit(resource.RLIMIT_NOFILE, (40, 40))\n")
    monkeypatch.setenv("PYTHONPATH", str(site))
    with serving(tmp_path, "--repl", "none") as live:
        with contextlib.ExitStack() as retained:
            for _ in range(60):
                retained.enter_context(connect(live))
            output = until(live.process.stdout.readline, "the server to say so")
            assert "cannot accept connections at the moment" in output
        with live.client() as client:
            assert client.call("server_health")["ok"]


# Time at the door

pytestmark = pytest.mark.anyio


@contextlib.asynccontextmanager
async def at_the_door(monkeypatch, *, token=None, first_byte_s=0.05, first_line_s=0.05):
    """Return how a listener handles the next connection, and that connection."""
    monkeypatch.setattr(admission, "MAX_FIRST_BYTE_WAIT_S", first_byte_s)
    monkeypatch.setattr(admission, "MAX_FIRST_LINE_WAIT_S", first_line_s)
    door = Admission(token=token, session_id="me", workspace=Path.cwd())
    with socket.create_server(("127.0.0.1", 0)) as raw:
        raw.settimeout(0)
        listener = await SocketListener.from_socket(raw.dup())
        async with (
            listener,
            await anyio.connect_tcp(*raw.getsockname()) as peer,
            await listener.accept() as stream,
        ):
            with anyio.fail_after(WAIT_S):
                yield lambda: door.admit(stream), peer


async def test_a_silent_peer_times_out(monkeypatch):
    async with at_the_door(monkeypatch, first_line_s=WAIT_S) as (admit, _):
        assert await admit() is None


@pytest.mark.parametrize("pending", [b" ", b"\n", b"P", b"no json and no end of line"])
async def test_a_peer_with_an_incomplete_first_line_times_out(monkeypatch, pending):
    async with at_the_door(monkeypatch, first_byte_s=WAIT_S) as (admit, peer):
        await peer.send(pending)
        assert await admit() is None


async def test_a_peer_with_an_incomplete_token_times_out(monkeypatch):
    async with at_the_door(monkeypatch, first_byte_s=WAIT_S, token="secret") as (admit, peer):
        await peer.send(b'{"jsonrpc": "2.0", "method": "codriver/token"')
        assert await admit() is None


async def test_endless_leading_whitespace_is_not_buffered(monkeypatch):
    async with at_the_door(monkeypatch, first_byte_s=WAIT_S, first_line_s=WAIT_S) as (admit, peer):
        await peer.send(b" " * 10_000)
        assert await admit() is None


# Requests, lines, nesting


def test_requests_beyond_the_limit_are_refused_without_affecting_others(live, client):
    gate = live.workspace / "gate"
    code = f"import os, time\nwhile not os.path.exists({str(gate)!r}): time.sleep(0.01)"
    with live.client() as greedy:
        calls = [greedy.begin_call("evaluate_code", code=code, isolate=True, timeoutMs=600_000) for _ in range(6)]
        for refused in calls[4:]:
            error = greedy.answer(refused)["error"]
            assert error["message"].startswith("4 of this client's requests are unanswered")
        assert client.request("ping")["result"] == {}
        gate.touch()
        answers = [greedy.receive() for _ in range(4)]  # in any order
        assert {answer["id"] for answer in answers} == set(calls[:4])
        assert {answer["result"]["structuredContent"]["status"] for answer in answers} == {"done"}
        assert greedy.request("ping")["result"] == {}


@pytest.mark.parametrize("line", [b'"' + b"x" * 5000 + b'"\n', b"{" + b" " * 6000])
def test_a_line_beyond_the_limit_is_reported_and_ends_the_connection(live, client, line):
    with live.client() as long_winded:
        long_winded.write(line)
        message = long_winded.receive()["error"]["message"]
        assert "exceeds the limit of 5000 bytes" in message
        assert long_winded.receive() is None
    assert client.request("ping")["result"] == {}


DEEP = 2000


@pytest.mark.parametrize(
    "line",
    [
        "[" * DEEP + "]" * DEEP,
        "[" * DEEP,
        '{"a":' * 800 + "1" + "}" * 800,
        '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"server_health","arguments":{"x":%s}}}'
        % ("[" * DEEP + "]" * DEEP),
        '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"repl_output_log","arguments":{"query":'
        '"[:find ?e :in $ ?x :where [?e :output/line _]]","inputs":[%s]}}}' % ("[" * 150 + "]" * 150),
        '{"jsonrpc":"2.0","id":%s,"method":"ping"}' % ("9" * 4300),
        '{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":%s}}' % ("9" * 4700),
        '{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":1e999999}}',
        '{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":NaN}}',
        '{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":"\\ud800"}}',
    ],
    ids=range(10),
)
def test_the_connection_survives_messages_with_deep_nesting_or_huge_numbers(client, line):
    client.write(line.encode() + b"\n")
    answer = client.receive()
    assert "error" in answer or "result" in answer
    assert client.request("ping")["result"] == {}


def test_a_deeply_nested_query_is_refused(client):
    answer = client.call("repl_output_log", query="[:find ?e :where " + "[" * 2000)
    assert (answer["ok"], answer["reason"]) == (False, "bad-query")


# The token


@pytest.fixture(scope="module")
def guarded(tmp_path_factory):
    folder = tmp_path_factory.mktemp("guarded")
    (folder / "workspace").mkdir()
    user_settings_file(folder).write_text('requireToken = true\nhost = "::1"\n')
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        pytest.skip("this machine has no IPv6: give its loopback an IPv6 address")
    with serving(folder, "--repl", "none") as running:
        yield running


def knock(guarded, line):
    """Open a connection over IPv6 loopback that starts with `line`."""
    sock = socket.create_connection(("::1", guarded.port), timeout=WAIT_S)
    sock.sendall(line)
    return sock


def token_line(token):
    return json.dumps({"jsonrpc": "2.0", "method": "codriver/token", "params": {"token": token}}).encode() + b"\n"


def test_the_correct_token_also_works_over_ipv6(guarded):
    file = guarded.port_file.parent / "token"
    assert file.stat().st_mode & 0o777 == 0o600
    with Bare(knock(guarded, token_line(file.read_text()))) as client:
        assert client.request("ping")["result"] == {}
        assert file.read_text() not in json.dumps(client.call("server_health"))


@pytest.mark.parametrize("token", ["", "x", "\udcff", None, 5, ["x"], {"a": 1}])
def test_a_wrong_token_gets_no_answer(guarded, token):
    with knock(guarded, token_line(token)) as stranger:
        assert is_hung_up(stranger)


@pytest.mark.parametrize(
    "line",
    [b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n', b"[]\n", b"1\n", b'{"method":"codriver/token"}\n', b'"' * 5000],
)
def test_a_peer_without_a_token_gets_no_answer(guarded, line):
    with knock(guarded, line) as stranger:
        assert is_hung_up(stranger)


def test_the_relay_sends_the_token_by_itself(guarded):
    with guarded.relay("::1") as client:
        assert client.request("ping")["result"] == {}


# The history


def test_server_health_reports_a_history_size_below_its_limit(live, client):
    code = "'" + "x" * 4000 + "'; None"
    for _ in range(80):
        assert client.call("evaluate_code", code=code)["ok"]
    taken = client.call("server_health")["history"]
    assert taken["maxBytes"] == 262_144
    assert 200_000 < taken["bytes"] <= taken["maxBytes"]
    assert 50 < taken["entities"] < 70
    assert taken["diskBytes"] < 3 * taken["maxBytes"]
