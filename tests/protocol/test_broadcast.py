"""What a client is notified of about the log while it calls tools, in both protocol eras."""

import pytest

pytestmark = pytest.mark.served("memory", durations="skills_s=0.1", settings={"skill_sources": ("workspace",)})

UPDATED = "notifications/resources/updated"
LOG = "codriver://log"
MODERN = {
    "_meta": {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "modern", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    }
}


def pop_notifications(client, method=UPDATED):
    """Return and remove the notifications of this kind received so far."""
    found = [message for message in client.notifications if message["method"] == method]
    client.notifications = [message for message in client.notifications if message not in found]
    return found


def test_log_updates_arrive_before_the_answer_to_the_call_that_caused_them(live):
    with live.client() as client:
        client.call("evaluate_code", code="0")
        client.request("resources/subscribe", {"uri": LOG})
        pop_notifications(client)
        for number in range(10):
            client.call("evaluate_code", code=f"(println {number})")
            assert {message["params"]["uri"] for message in pop_notifications(client)} == {LOG}


def test_a_log_update_is_sent_only_once(live):
    with live.client() as client, live.client() as other:
        client.request("resources/subscribe", {"uri": LOG})
        client.call("evaluate_code", code="1")
        assert pop_notifications(client)
        client.call("list_sessions")
        assert not pop_notifications(client)
        other.call("evaluate_code", code="2")
        assert client.await_notification(UPDATED)["params"] == {"uri": LOG}


def test_a_client_without_a_subscription_gets_no_log_updates(live):
    with live.client() as client:
        client.call("evaluate_code", code="1")
        client.request("resources/subscribe", {"uri": LOG})
        client.request("resources/unsubscribe", {"uri": LOG})
        client.call("evaluate_code", code="1")
        assert not pop_notifications(client)


def listen(client, **arguments):
    identity = client.begin("subscriptions/listen", {**MODERN, "notifications": arguments})
    notification = client.await_notification("notifications/subscriptions/acknowledged")
    assert notification["params"]["notifications"] == arguments
    return identity


def evaluate(client, code):
    arguments = {"name": "evaluate_code", "arguments": {"code": code}}
    return client.request("tools/call", {**MODERN, **arguments})["result"]["structuredContent"]


def test_a_stream_is_notified_when_its_skill_changes(live):
    with live.client(handshake=False) as client:
        listen(client, resourceSubscriptions=["skill://ours/SKILL.md"])
        file = live.workspace / ".codriver" / "skills" / "ours" / "SKILL.md"
        file.parent.mkdir(parents=True)
        file.write_text("---\nname: ours\ndescription: How we do it.\n---\n")
        notification = client.await_notification(UPDATED)
        assert notification["params"]["uri"] == "skill://ours/SKILL.md"


def test_a_stream_of_the_modern_protocol_also_gets_log_updates_before_the_answer(live):
    with live.client(handshake=False) as client:
        evaluate(client, "0")
        identity = listen(client, resourceSubscriptions=[LOG])
        for number in range(10):
            assert evaluate(client, f"(println {number})")["ok"]
            notifications = pop_notifications(client)
            assert {message["params"]["uri"] for message in notifications} == {LOG}
            assert {
                message["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"] for message in notifications
            } == {identity}


def test_a_stream_carries_only_its_subscriptions_until_cancelled(live):
    with live.client(handshake=False) as client:
        listen(client, toolsListChanged=True)
        second = listen(client, resourceSubscriptions=[LOG])
        evaluate(client, "1")
        notifications = pop_notifications(client)
        assert [message["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"] for message in notifications] == (
            [second] * len(notifications)
        )
        client.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": second}})
        evaluate(client, "2")
        pop_notifications(client)
        evaluate(client, "3")
        assert not pop_notifications(client)


def test_too_many_streams_of_a_client_are_refused(live):
    with live.client(handshake=False) as client:
        for _ in range(64):
            listen(client, toolsListChanged=True)
        refused = client.request("subscriptions/listen", {**MODERN, "notifications": {"toolsListChanged": True}})
        assert "64 open streams" in refused["error"]["message"]
