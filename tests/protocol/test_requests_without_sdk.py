"""Plain requests take a shorter path than others, and the answers do not differ."""

import json
from types import SimpleNamespace
from unittest.mock import patch

import anyio
import pytest
from all_tools import BY_NAME
from live_server import until
from mcp_types.jsonrpc import INTERNAL_ERROR

from codriver.net.client_sessions import ClientSession
from codriver.net.outbox import Outbox
from codriver.protocol import requests_without_sdk
from codriver.protocol.calls import ToolAnswer
from codriver.protocol.error_messages import INTERNAL_ERROR_MESSAGE, SERVER_ERROR_CODE
from codriver.protocol.replies import Replies
from codriver.protocol.requests_without_sdk import REQUEST_KINDS, UNSETTLED, PlainRequestKind, PlainRequests

pytestmark = pytest.mark.served("memory", durations="progress_s=0.3")

CALLS = {
    "a refused call": ("evaluate_code", {"code": "(", "who": "me"}),
    "arguments that do not fit": ("evaluate_code", {"cod": 1}),
    "no arguments": ("balance_brackets", None),
    "a text of all planes": ("balance_brackets", {"text": '(str "ä €\u2028 😀 \\u0000")'}),
    "a picture": ("get_evaluation", {"maxImages": 1}),
}
PICTURE = '"data:image/png;base64,iVBORw0KGgo="'


@pytest.fixture
def client(live):
    with live.client() as item:
        yield item


def both_ways(client, tool, arguments):
    """Return the answers to one call on the short path and through the SDK, which handles unknown parameters."""
    params = {"name": tool} if arguments is None else {"name": tool, "arguments": arguments}
    return client.request("tools/call", params), client.request("tools/call", {**params, "beside": "x"})


@pytest.mark.parametrize("what", CALLS)
def test_both_request_paths_give_the_same_answer(client, what):
    tool, arguments = CALLS[what]
    if tool == "get_evaluation":
        arguments = {**arguments, "evaluationId": client.call("evaluate_code", code=PICTURE)["evaluationId"]}
    short, long = both_ways(client, tool, arguments)
    assert short.pop("id") != long.pop("id")
    assert short == long
    if what == "a picture":
        assert short["result"]["content"][1]["mimeType"] == "image/png"


def test_both_request_paths_give_the_same_answer_without_a_handshake(live):
    client = {"name": "modern", "version": "1"}
    about = {"protocolVersion": "2026-07-28", "clientInfo": client, "clientCapabilities": {}}
    meta = {f"io.modelcontextprotocol/{key}": value for key, value in about.items()}
    params = {"name": "balance_brackets", "arguments": {"text": "(a"}, "_meta": {**meta, "progressToken": 1}}
    with live.client(handshake=False) as modern, live.client(name="other") as other:
        long, short = (modern.request("tools/call", params) for _ in range(2))
        assert {**long, "id": 0} == {**short, "id": 0}
        assert short["result"]["resultType"] == "complete"
        assert [row["calls"] for row in other.call("server_health")["clients"] if row["name"] == "modern"] == [2]
        newer = {**meta, "io.modelcontextprotocol/protocolVersion": "2027-01-01"}
        assert modern.request("tools/call", {**params, "_meta": newer})["error"]["code"] == -32022
        early = modern.request("tools/call", {**params, "_meta": {}})["error"]["message"]
        assert "describe the client in params._meta" in early


def test_both_request_paths_give_the_same_refusal_for_an_unknown_tool(client):
    short, long = both_ways(client, "no_such_tool", {})
    assert short["error"] == long["error"]


@pytest.mark.parametrize("identity", [0, "", "0", 2**70, "ä\n"])
def test_a_request_id_is_returned_unchanged(client, identity):
    client.send({"jsonrpc": "2.0", "id": identity, "method": "tools/call", "params": {"name": "list_sessions"}})
    answer = client.receive()
    assert (answer["id"], type(answer["id"])) == (identity, type(identity))


@pytest.mark.parametrize(
    "odd",
    [
        {"jsonrpc": "1.0"},
        {"id": None},
        {"id": 1.5},
        {"id": True},
        {"params": {"name": 7}},
        {"params": {"name": "balance_brackets", "arguments": []}},
        {"params": []},
        {"params": {"arguments": {}}},
    ],
)
def test_a_malformed_call_is_refused(client, odd):
    plain = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "list_sessions", "arguments": {}}}
    client.send({**plain, **odd})
    assert client.receive()["error"]["code"] in (-32600, -32602)


def test_a_call_cancelled_at_once_never_runs(client):
    call = {"jsonrpc": "2.0", "id": "c", "method": "tools/call"}
    params = {"name": "evaluate_code", "arguments": {"code": "(def ran-all-the-same 1)"}}
    gone = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "c"}}
    client.write(b"".join(json.dumps(message).encode() + b"\n" for message in ({**call, "params": params}, gone)))
    assert client.call("evaluate_code", code="ran-all-the-same")["error"]["class"] == "NameError"
    assert [message for message in client.notifications if message.get("id") == "c"] == []


@pytest.mark.parametrize("identity", [None, [], {"a": 1}, 1.5, "nobody", 10**30])
def test_cancelling_an_unknown_request_is_ignored(client, identity):
    client.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": identity}})
    assert client.call("list_sessions")["ok"]


@pytest.mark.parametrize("beside", [{}, {"beside": "x"}], ids=["the short way", "the SDK's way"])
def test_the_session_id_of_a_client_is_that_of_its_newest_call(live, beside):
    """Codex 0.169.0 sends a `sessionId` in each call."""
    with live.client(name="codex-mcp-client") as client:

        def known(meta):
            params = {"name": "server_health", "arguments": {}, "_meta": meta, **beside}
            answer = json.loads(client.request("tools/call", params)["result"]["content"][0]["text"])
            return [row.get("conversation") for row in answer["clients"] if row["name"] == "codex-mcp-client"]

        assert known({}) == [None]
        (first,) = known({"sessionId": "01a20355-4ad3", "threadId": "x"})
        assert first
        assert first not in "01a20355-4ad3", "the id itself is shown nowhere"
        for odd in (7, None, {"a": 1}, "x" * 1000, "two\nlines"):
            assert known({"sessionId": odd}) == [first]
        (second,) = known({"sessionId": "01a20355-4ad4"})
        assert second != first


@pytest.mark.parametrize("beside", [{}, {"beside": "x"}], ids=["the short way", "the SDK's way"])
def test_cancelling_an_answered_call_has_no_effect(live, client, beside):
    """opencode 1.18.33 sends one after each answer."""
    gate = live.workspace / f"gate {len(beside)}"
    answered = client.begin("tools/call", {"name": "evaluate_code", "arguments": {"code": "2"}, **beside})
    assert client.answer(answered)["result"]["structuredContent"]["result"] == "2"
    running = client.begin_call("evaluate_code", code=f'(await-file "{gate.as_posix()}") "whole"')
    until(lambda: _is_busy(live), "the evaluation to run")
    for _ in range(2):
        client.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": answered}})
    assert client.call("list_sessions")["ok"]
    gate.touch()
    assert client.answer(running)["result"]["structuredContent"]["result"] == '"whole"'
    notifications = [message for message in client.notifications if message.get("method") != "notifications/progress"]
    assert all(
        message.get("method") != "notifications/message" and message.get("id") != answered for message in notifications
    )


def _is_busy(live):
    with live.client(name="other") as other:
        return _busy(other)


def test_a_running_call_that_is_cancelled_is_stopped_without_an_answer(live, client):
    with live.client(name="other") as other:
        pending = client.begin_call("evaluate_code", code="(wait)")
        until(lambda: _busy(other), "the evaluation to run")
        client.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": pending}})
        assert other.call("evaluate_code", code="(+ 1 1)", timeoutMs=20_000)["result"] == "2"
        assert client.call("evaluate_code", code="(+ 2 2)")["result"] == "4"
        assert all(message.get("id") != pending for message in client.notifications)


def test_an_id_reused_after_its_cancellation_is_answered(live, client):
    call = {"jsonrpc": "2.0", "id": "again", "method": "tools/call"}
    params = {"name": "evaluate_code", "arguments": {"code": "(wait)"}}
    with live.client(name="other") as other:
        client.send({**call, "params": params})
        until(lambda: _busy(other), "the evaluation to run")
    gone = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "again"}}
    again = {**call, "params": {"name": "evaluate_code", "arguments": {"code": "(+ 20 22)"}}}
    client.write(b"".join(json.dumps(message).encode() + b"\n" for message in (gone, again)))
    assert client.answer("again")["result"]["structuredContent"]["result"] == "42"


def _busy(client):
    rows = client.call("server_health")["clients"]
    return any(row["openRequests"] for row in rows if row["name"] == "bare")


def test_progress_is_sent_with_the_requested_token(live):
    with live.client() as client:
        gate = live.workspace / "gate of the progress"
        code = f'(await-file "{gate.as_posix()}")'
        params = {"name": "evaluate_code", "arguments": {"code": code}}
        pending = client.begin("tools/call", {**params, "_meta": {"progressToken": "mine"}})
        client.notifications.append(client.await_notification("notifications/progress"))
        gate.touch()
        assert client.answer(pending)["result"]["structuredContent"]["ok"]
        notifications = [
            message["params"] for message in client.notifications if message["method"] == "notifications/progress"
        ]
        assert {params["progressToken"] for params in notifications} == {"mine"}
        assert notifications[0]["progress"] >= 0.2
        assert "is running" in notifications[0]["message"]


NOTHING_ASKED = SimpleNamespace(tool="", accept=lambda _client, _message: False)


class Failing:
    decisions = NOTHING_ASKED

    def find(self, name, arguments):
        return BY_NAME[name], arguments

    async def run(self, *_, **_more):
        raise ZeroDivisionError("secret inside")


@pytest.mark.anyio
async def test_an_internal_error_is_answered_without_details(caplog):
    outbox = Outbox(max_notifications=10, max_notification_bytes=1000, congested_bytes=1000)
    session = ClientSession("c1", outbox)
    session.handshake_version = "2025-11-25"
    line = b'{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"list_sessions"}}'
    failing = PlainRequests(session, None, Failing(), Replies(session), max_open_requests=1)
    assert failing.accept(line)
    await session.open_requests.wait_for_removal()
    answer = json.loads(outbox.pop_batch())
    assert answer == {"jsonrpc": "2.0", "id": 7, "error": {"code": INTERNAL_ERROR, "message": INTERNAL_ERROR_MESSAGE}}
    assert len(session.open_requests) == 0
    assert "secret inside" in caplog.text


@pytest.mark.anyio
@pytest.mark.parametrize(("event", "is_delivered"), [("nothing", True), ("cancelled", False), ("left", False)])
async def test_an_answer_counts_as_delivered_only_when_it_is_sent(event, is_delivered):
    session = ClientSession("c1", Outbox(max_notifications=10, max_notification_bytes=1000, congested_bytes=1000))
    session.handshake_version = "2025-11-25"
    received = []

    class Answering:
        decisions = NOTHING_ASKED

        def find(self, name, arguments):
            return BY_NAME[name], arguments

        async def run(self, *_, **_more):
            if event == "cancelled":
                plain.cancel(7)
            session.has_left = event == "left"
            return ToolAnswer('{"ok":true}', (), ok=True, handed_out=lambda: received.append(event))

    results = SimpleNamespace(beside="")
    plain = PlainRequests(session, results, Answering(), Replies(session), max_open_requests=1)
    assert plain.accept(b'{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"list_sessions"}}')
    await anyio.wait_all_tasks_blocked()
    assert bool(received) is is_delivered


@pytest.mark.anyio
async def test_requests_with_varying_meta_fields_are_handled_without_the_sdk():
    outbox = Outbox(max_notifications=10, max_notification_bytes=1000, congested_bytes=1000)
    session = ClientSession("c1", outbox)
    message = {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}
    session.envelope = message
    plain = PlainRequests(session, None, Failing(), Replies(session), max_open_requests=9)

    def is_accepted(identity, meta):
        params = {"name": "list_sessions", "_meta": meta}
        line = {"jsonrpc": "2.0", "id": identity, "method": "tools/call", "params": params}
        return plain.accept(json.dumps(line).encode())

    assert is_accepted(1, {**message, "claudecode/toolUseId": "toolu_1", "traceparent": "00-1"})
    assert is_accepted(2, {**message, "claudecode/toolUseId": "toolu_2"})
    assert not is_accepted(3, {**message, "io.modelcontextprotocol/logLevel": "info"})
    assert not is_accepted(4, {"claudecode/toolUseId": "toolu_3"})
    await session.open_requests.wait_for_removal()


@pytest.mark.anyio
async def test_requests_that_the_fast_path_cannot_handle_are_left_to_the_sdk():
    outbox = Outbox(max_notifications=10, max_notification_bytes=1000, congested_bytes=1000)
    session = ClientSession("c1", outbox)
    plain = b'{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"list_sessions"}}'
    nothing_found = SimpleNamespace(find=lambda _name, _arguments: None, decisions=NOTHING_ASKED)
    taken = PlainRequests(session, None, nothing_found, Replies(session), max_open_requests=1)
    assert not taken.accept(plain), "before the handshake"
    session.envelope = {"who": "me"}
    assert not taken.accept(plain), "a client that does not say who it is"
    session.handshake_version = "2025-11-25"
    assert not taken.accept(plain.replace(b"list_sessions", b"no_such_tool"))
    assert not taken.accept(plain.replace(b'"id":7', b'"id":7,"more":1'))
    assert not taken.accept(plain.replace(b'{"name"', b'{"task":{},"name"'))
    assert not taken.accept(plain[:-1])
    session.open_requests.add(1)
    assert taken.accept(plain)
    refused = json.loads(outbox.pop_batch())["error"]
    assert refused["code"] == SERVER_ERROR_CODE, "while as many are open as may be"


def test_repeated_handshakes_use_no_more_memory():
    session = ClientSession("c1", Outbox(max_notifications=10, max_notification_bytes=1000, congested_bytes=1000))
    results = SimpleNamespace(mark_initialized=lambda _client: None)
    plain = PlainRequests(session, results, None, Replies(session), max_open_requests=1)
    hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
    notification = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    with patch.dict(
        REQUEST_KINDS, initialize=PlainRequestKind(UNSETTLED, requests_without_sdk.INITIALIZE_SHAPE, lambda *_: {})
    ):
        assert plain.accept(json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello}).encode())
    for _ in range(3):
        assert plain.accept(json.dumps(notification).encode())
    assert [message["method"] for message in plain.handshake_messages()] == ["initialize", "notifications/initialized"]
