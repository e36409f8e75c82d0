"""Clients name their conversations in the `_meta` of a call, each in its own way."""

import json

import pytest

from codriver.net.conversations import MAX_CONVERSATION, conversation_of, digest_of

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
        ({"sessionId": "a" * (MAX_CONVERSATION + 1)}, None),
        ({"x-codex-turn-metadata": "[" * 5000}, None),
        ({"x-codex-turn-metadata": "[1]"}, None),
        ({"x-codex-turn-metadata": {"thread_id": 1}}, None),
        ({}, None),
    ],
)
def test_an_id_is_read_from_each_key(meta, meant):
    assert conversation_of(meta) == meant


def test_only_a_digest_of_an_id_is_shown():
    assert len(digest_of("a-secret-id")) == 8
    assert digest_of("a-secret-id") != digest_of("another")
    assert digest_of("\ud800")


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
