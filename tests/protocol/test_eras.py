"""One connection serves both protocol eras: each request is answered in the era in which it is written.

A request with the envelope of 2026-07-28 is stateless, whatever came before it. A request without one belongs to the
session that `initialize` opens. Both share one client: its evaluations, tasks and notes.
"""

import json
import sys

import pytest
from live_server import RELAY, Relayed, until

pytestmark = pytest.mark.served("memory", durations="progress_s=0.3 task_s=0.2")

PREFIX = "io.modelcontextprotocol/"
TASKS = f"{PREFIX}tasks"
CLIENT = {"name": "both-eras", "version": "1"}
ENVELOPE = {
    f"{PREFIX}protocolVersion": "2026-07-28",
    f"{PREFIX}clientInfo": CLIENT,
    f"{PREFIX}clientCapabilities": {},
}
WITH_TASKS = {**ENVELOPE, f"{PREFIX}clientCapabilities": {"extensions": {TASKS: {}}}}
INITIALIZE = {"protocolVersion": "2025-11-25", "capabilities": {"tasks": {}}, "clientInfo": CLIENT}
STRANGE = {"surprise": 1}
"""A parameter that makes the SDK answer in place of the short way."""


@pytest.fixture(params=["socket", "relay"])
def client(live, request):
    command = [sys.executable, "-I", "-S", RELAY, str(live.port_file)]
    is_direct = request.param == "socket"
    item = live.client(handshake=False) if is_direct else Relayed(command, live.environ, handshake=False)
    with item as client:
        yield client


@pytest.fixture(params=[{}, STRANGE], ids=["short-way", "sdk"])
def odd(request):
    """Return additional parameters of a request that choose the path on which it is answered."""
    return request.param


def initialize(client, **more):
    result = client.request("initialize", {**INITIALIZE, **more})["result"]
    assert result["protocolVersion"] == "2025-11-25"
    client.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
    return result


def stateless(client, method, **params):
    return client.request(method, {**params, "_meta": ENVELOPE})


def is_stateless(answer):
    return answer["result"].get("resultType") == "complete" and PREFIX + "serverInfo" in answer["result"]["_meta"]


def check_both_eras(client, **more):
    """Check that each era answers a request in its own form."""
    assert is_stateless(stateless(client, "tools/list", **more))
    listed = client.request("tools/list", more)["result"]
    assert not listed.keys() & {"resultType", "ttlMs", "cacheScope", "_meta"}
    assert listed["tools"][0]["execution"] == {"taskSupport": "optional"}
    assert is_stateless(stateless(client, "tools/call", name="balance_brackets", arguments={"text": "(a"}, **more))
    called = client.request("tools/call", {"name": "balance_brackets", "arguments": {"text": "(a"}, **more})["result"]
    assert "resultType" not in called
    assert client.request("ping", more)["result"] == {}
    assert stateless(client, "ping", **more)["error"]["code"] == -32601


def test_a_handshake_may_follow_an_answered_probe(client, odd):
    assert is_stateless(stateless(client, "server/discover", **odd))
    initialize(client, **odd)
    check_both_eras(client, **odd)


def test_stateless_requests_may_follow_a_handshake(client, odd):
    initialize(client, **odd)
    assert is_stateless(stateless(client, "server/discover", **odd))
    check_both_eras(client, **odd)


@pytest.mark.parametrize("is_cancelled_first", [True, False])
def test_a_handshake_may_follow_a_cancelled_probe(client, odd, is_cancelled_first):
    probe = {"jsonrpc": "2.0", "id": "probe", "method": "server/discover", "params": {"_meta": ENVELOPE, **odd}}
    cancelled = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "probe"}}
    hello = {"jsonrpc": "2.0", "id": "hello", "method": "initialize", "params": INITIALIZE}
    messages = [probe, cancelled, hello] if is_cancelled_first else [hello, probe, cancelled]
    client.write(b"".join(json.dumps(message).encode() + b"\n" for message in messages))
    assert client.answer("hello")["result"]["protocolVersion"] == "2025-11-25"
    client.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
    check_both_eras(client, **odd)


def test_a_ping_as_the_first_request_does_not_choose_the_era(client, odd):
    assert client.request("ping", odd)["result"] == {}
    assert is_stateless(stateless(client, "tools/list", **odd))
    initialize(client, **odd)
    check_both_eras(client, **odd)


def test_a_refused_request_before_the_handshake_does_not_choose_the_era(client, odd):
    refused = client.request("tools/list", odd)["error"]
    assert refused["code"] == -32602
    assert "initialize" in refused["message"]
    assert "_meta" in refused["message"]
    assert is_stateless(stateless(client, "tools/list", **odd))
    assert client.request("tools/list", odd)["error"] == refused
    initialize(client, **odd)
    check_both_eras(client, **odd)


@pytest.mark.parametrize("params", [{"protocolVersion": 7}, {"protocolVersion": "2025-11-25", "capabilities": []}])
def test_a_refused_handshake_does_not_choose_the_era(client, params):
    assert client.request("initialize", params)["error"]["code"] == -32602
    client.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
    assert is_stateless(stateless(client, "tools/list"))
    assert "initialize" in client.request("tools/list")["error"]["message"]
    initialize(client)
    check_both_eras(client)


def test_a_handshake_may_follow_stateless_requests(client):
    stateless(client, "server/discover")
    initialize(client, protocolVersion="2026-07-28")
    check_both_eras(client)


def test_an_envelope_with_an_unknown_version_is_refused_next_to_a_session(client):
    initialize(client)
    later = {**ENVELOPE, f"{PREFIX}protocolVersion": "2027-01-01"}
    assert client.request("tools/list", {"_meta": later})["error"]["code"] == -32022
    partial = {f"{PREFIX}protocolVersion": "2026-07-28"}
    assert client.request("tools/list", {"_meta": partial})["error"]["code"] == -32602
    check_both_eras(client)


# What runs goes on


@pytest.fixture
def gate(tmp_path):
    """Return a file that waiting code waits for."""
    file = tmp_path / "gate"
    yield file
    file.touch()


def waiting_for(gate):
    return {"name": "evaluate_code", "arguments": {"code": f'(await-file "{gate.as_posix()}") "done"', "detail": True}}


def value_of(answer):
    return answer["result"]["structuredContent"]["result"]


def test_initialize_ends_no_running_evaluation(client, gate, odd):
    old = client.begin("tools/call", {**waiting_for(gate), "_meta": {**ENVELOPE, "progressToken": 1}})
    client.notifications.append(client.await_notification("notifications/progress"))
    initialize(client, **odd)
    new = client.begin("tools/call", {**waiting_for(gate), **odd})
    initialize(client, **odd)  # and neither does a second one
    check_both_eras(client, **odd)
    gate.touch()
    assert value_of(client.answer(old)) == value_of(client.answer(new)) == '"done"'


def test_a_request_can_be_cancelled_in_either_era(client, gate):
    initialize(client)
    for meta in ({}, ENVELOPE):
        pending = client.begin("tools/call", {**waiting_for(gate), **STRANGE, "_meta": {**meta, "progressToken": 1}})
        client.await_notification("notifications/progress")
        client.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": pending}})
        assert client.request("ping")["result"] == {}
        until(lambda: "running" not in client.call("list_sessions")["sessions"][0], "the end of the evaluation")


def test_both_eras_of_a_connection_count_as_one_client(client, other):
    initialize(client)
    client.request("tools/call", {"name": "evaluate_code", "arguments": {"code": "(+ 1 2)", "who": "me"}})
    stateless(client, "tools/call", name="evaluate_code", arguments={"code": "(+ 3 4)", "who": "me"})
    rows = [row for row in other.call("server_health")["clients"] if row["name"] == "both-eras"]
    assert [row["calls"] for row in rows] == [2]


def test_a_task_created_in_one_era_can_be_used_in_the_other(client, gate):
    initialize(client)
    task = client.request("tools/call", {**waiting_for(gate), "_meta": WITH_TASKS})["result"]
    assert task["resultType"] == "task"
    answer = client.request("tasks/get", {"taskId": task["taskId"]})["result"]
    assert answer["status"] == "working"
    assert "pollInterval" in answer
    assert [item["taskId"] for item in client.request("tasks/list")["result"]["tasks"]] == [task["taskId"]]
    requested = client.request("tools/call", {**waiting_for(gate), "task": {}})["result"]["task"]
    known = client.request("tasks/get", {"taskId": requested["taskId"], "_meta": WITH_TASKS})["result"]
    assert known["status"] == "working"
    gate.touch()


def test_a_stateless_call_ignores_the_sessions_task_argument(client):
    initialize(client)
    answer = stateless(client, "tools/call", name="evaluate_code", arguments={"code": "1"}, task={"ttl": 1000})
    assert is_stateless(answer)


def test_sessions_and_streams_are_both_notified_of_log_changes(client):
    listen = {"notifications": {"resourceSubscriptions": ["codriver://log"]}, "_meta": ENVELOPE}
    stream = client.begin("subscriptions/listen", listen)
    client.await_notification("notifications/subscriptions/acknowledged")
    initialize(client)
    client.request("resources/subscribe", {"uri": "codriver://log"})
    client.call("evaluate_code", code="(+ 1 2)")
    notifications = [client.await_notification("notifications/resources/updated")["params"] for _ in range(2)]
    assert sorted(notifications, key=len) == [
        {"uri": "codriver://log"},
        {"uri": "codriver://log", "_meta": {f"{PREFIX}subscriptionId": stream}},
    ]


def test_session_and_request_log_levels_are_independent(client, gate):
    initialize(client)
    meta = {**ENVELOPE, f"{PREFIX}logLevel": "debug", "progressToken": 1}
    pending = client.begin("tools/call", {**waiting_for(gate), "_meta": meta})
    client.notifications.append(client.await_notification("notifications/progress"))
    assert client.request("logging/setLevel", {"level": "error"})["result"] == {}
    gate.touch()
    assert value_of(client.answer(pending)) == '"done"'
    assert client.request("logging/setLevel", {"level": "info"})["result"] == {}
