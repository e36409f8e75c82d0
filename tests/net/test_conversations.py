"""Clients identify their conversations in the `_meta` of a call, each in its own way."""

import json
import sys

import pytest
from live_server import RELAY, Relayed

from codriver.net.conversations import MAX_ID_CHARACTERS, conversation_digest, conversation_id

TURN = {"thread_id": "t-1", "turn_id": "9"}


@pytest.mark.parametrize(
    ("meta", "meant"),
    [
        ({"sessionId": "a"}, "a"),
        ({"sessionID": "a"}, "a"),
        ({"threadId": "a"}, "a"),
        ({"vscode.conversationId": "a"}, "a"),
        ({"x-codex-turn-metadata": TURN}, "t-1"),
        ({"x-codex-turn-metadata": json.dumps(TURN)}, "t-1"),
        ({"sessionId": "", "threadId": "b"}, "b"),
        ({"sessionId": 7}, None),
        ({"sessionId": "a\nb"}, None),
        ({"sessionId": "a" * (MAX_ID_CHARACTERS + 1)}, None),
        ({"x-codex-turn-metadata": "[" * 5000}, None),
        ({"x-codex-turn-metadata": "[1]"}, None),
        ({"x-codex-turn-metadata": {"thread_id": 1}}, None),
        ({}, None),
    ],
)
def test_a_conversation_id_is_read_from_each_supported_key(meta, meant):
    assert conversation_id(meta) == meant


def test_only_a_digest_of_a_conversation_id_is_displayed():
    assert len(conversation_digest("a-secret-id")) == 8
    assert conversation_digest("a-secret-id") != conversation_digest("another")
    assert conversation_digest("\ud800")


@pytest.mark.served("memory")
@pytest.mark.parametrize("key", ["sessionId", "sessionID", "threadId", "vscode.conversationId"])
def test_two_conversations_of_a_client_are_two_callers(live, client, key):
    def call(conversation, **arguments):
        params = {"name": "evaluate_code", "arguments": {"detail": True, **arguments}, "_meta": {key: conversation}}
        return client.request("tools/call", params)["result"]["structuredContent"]["who"]

    assert call(f"{key}-1", code="1", who="first") == "first"
    assert call(f"{key}-2", code="1", who="second") == "second"
    assert call(f"{key}-1", code="1") == "first"
    assert call(f"{key}-2", code="1") == "second"
    with live.client(name="another") as another:
        meta = {key: f"{key}-1"}
        params = {"name": "evaluate_code", "arguments": {"detail": True, "code": "1"}, "_meta": meta}
        assert another.request("tools/call", params)["result"]["structuredContent"]["who"] == "another"
    assert f"{key}-1" not in json.dumps(client.call("server_health"))


@pytest.mark.parametrize("key", ["sessionId", "sessionID", "threadId", "vscode.conversationId"])
def test_unnamed_conversations_of_a_client_are_two_callers(live, key):
    def call(client, conversation, tool="evaluate_code", **arguments):
        params = {"name": tool, "arguments": arguments, "_meta": {key: conversation}}
        return client.request("tools/call", params)["result"]["structuredContent"]

    def who(client, conversation):
        return call(client, conversation, code="1", detail=True)["who"]

    with live.client(name=f"agent-{key}") as client:
        first = who(client, "a")
        assert who(client, "b") == f"{first}-2"
        assert who(client, "a") == first
        assert "notes" not in call(client, "a", code=f"{len(key)} + 7")
        assert "same result" not in str(call(client, "b", code=f"{len(key)} + 7"))
        assert "same result" in str(call(client, "a", code=f"{len(key)} + 7"))
        started = call(client, "a", code="input()")
        assert started["status"] == "needs-input"
        assert call(client, "b", "interrupt_evaluation")["reason"] == "bad-arguments"
        assert call(client, "b", "send_input", text="x\n")["reason"] == "bad-arguments"
        assert call(client, "a", "interrupt_evaluation")["ok"]
    with live.client(name=f"agent-{key}") as client:
        assert who(client, "b") == f"{first}-2"
        assert who(client, "c") == f"{first}-3"
        assert who(client, "a") == first


def test_code_of_an_unnamed_conversation_is_not_attributed_to_a_named_one(live):
    def call(conversation, tool="evaluate_code", **arguments):
        params = {"name": tool, "arguments": arguments, "_meta": {"threadId": conversation}}
        return client.request("tools/call", params)["result"]["structuredContent"]

    with live.client(name="namer") as client:
        assert call("a", code="input()")["status"] == "needs-input"
        assert call("b", "send_input", text="x\n", who="second")["reason"] == "bad-arguments"
        assert call("a", "interrupt_evaluation", who="first")["ok"]


@pytest.mark.served("memory")
def test_claude_code_is_recognized_by_its_session_id_after_a_restart(live):
    def who(name, session, **arguments):
        command = [sys.executable, "-I", "-S", RELAY, str(live.port_file)]
        with Relayed(command, {**live.environ, "CLAUDE_CODE_SESSION_ID": session}, name=name) as client:
            reply = client.call("server_health")
            assert session not in json.dumps(reply)
            answer = client.call("evaluate_code", code="1", detail=True, **arguments)
            return answer["who"], answer["sessionKey"], [row.get("conversation") for row in reply["clients"]]

    first = who("claude-code", "claude-session-1", who="planner")
    assert first == ("planner", "py", [conversation_digest("claude-session-1")])
    assert who("claude-code", "claude-session-1") == first
    assert who("claude-code", "claude-session-2") == ("claude-code", "py", [conversation_digest("claude-session-2")])
    assert who("another", "claude-session-1") == ("another", "py", [None])
