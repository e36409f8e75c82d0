"""Log messages: only for clients that ask, at their level, limited, without secrets, in every protocol version."""

import json
import logging

import anyio
import posix_only
import pytest
from live_server import serving, until
from mcp_versions import MODERN, OLDER, Versioned, check, speaking

from codriver.log.redaction import Redactor
from codriver.net.outbox import Outbox
from codriver.protocol.log_messages import MAX_BURST_MESSAGES, MAX_STORED_MESSAGES, LogMessages

NEVER = '[:find ?l :where [?l :output/text "never"]]'
SECRET = "correct-horse-battery"


class Client:
    """A client that only records the messages sent to it."""

    def __init__(self):
        self.outbox = Outbox(max_notifications=1000, max_notification_bytes=2**20, congested_bytes=2**20)

    def pop_messages(self):
        lines = (self.outbox.pop_batch() or b"").splitlines()
        for line in lines:
            check("2025-11-25", "LoggingMessageNotification", json.loads(line))
        return [json.loads(line)["params"] for line in lines]


class Clock:
    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def messages(clock):
    return LogMessages(Redactor.from_environment({"MY_SECRET": SECRET}), clock=clock)


def test_a_client_gets_only_messages_at_or_above_its_level(messages):
    deaf, all_ears, picky = Client(), Client(), Client()
    messages.send("warning", "before anybody asked")
    messages.set_level(all_ears, "info")
    messages.set_level(picky, "error")
    messages.send("warning", "lost", "codriver.repls")
    messages.send("error", "broken")
    messages.send("debug", "nothing")
    assert [item["data"] for item in all_ears.pop_messages()] == ["lost", "broken"]
    assert picky.pop_messages() == [{"level": "error", "logger": "codriver", "data": "broken"}]
    assert deaf.pop_messages() == []


def test_changing_the_level_or_disconnecting_takes_effect_at_once(messages):
    client = Client()
    messages.set_level(client, "debug")
    messages.send("info", "one")
    messages.set_level(client, "warning")
    messages.send("info", "two")
    messages.send("warning", "three")
    assert [item["data"] for item in client.pop_messages()] == ["one", "three"]
    messages.remove_client(client)
    messages.send("critical", "four")
    assert client.pop_messages() == []


def test_a_flood_is_limited_and_the_omitted_messages_are_counted(messages, clock):
    client = Client()
    messages.set_level(client, "info")
    for number in range(10 * MAX_BURST_MESSAGES):
        messages.send("info", f"message {number}")
    assert len(client.pop_messages()) == MAX_BURST_MESSAGES
    clock.now += 1
    messages.send("info", "at last")
    messages.send("info", "too soon")
    assert [item["data"] for item in client.pop_messages()] == [
        f"at last ({9 * MAX_BURST_MESSAGES} messages before this one were left out)"
    ]


def test_a_message_is_short_and_contains_no_secret(messages):
    client = Client()
    messages.set_level(client, "info")
    messages.send("info", f"it is {SECRET}, and a half: \ud800 " + "x" * 5000)
    (message,) = client.pop_messages()
    assert SECRET not in message["data"]
    assert len(message["data"]) <= 1000


def restart(client):
    """Cause something that the server reports at the level `info`."""
    assert client.call("restart_repl")["ok"]


def is_of_restart(message):
    return message.get("method") == "notifications/message" and "restarting REPL py: " in message["params"]["data"]


def test_a_lost_repl_and_invalid_settings_are_warnings(live):
    with speaking(live, "2025-11-25") as client:
        client.request("logging/setLevel", level="warning")
        restart(client)
        number = int(client.call("evaluate_code", code="import os; os.getpid()", detail=True)["result"])
        posix_only.kill(number)
        (live.workspace / "codriver.toml").write_text("maxLineBytes = 'many'\n")
        messages = [client.pop_notification("notifications/message")["params"] for _ in range(2)]
        assert {item["level"] for item in messages} == {"warning"}
        assert any(
            "REPL py lost: " in element["data"] and element["logger"] == "codriver.repls" for element in messages
        )
        assert any("maxLineBytes" in single["data"] and single["logger"] == "codriver" for single in messages)
        until(lambda: client.call("evaluate_code", code="1")["ok"], "the next REPL")
    (live.workspace / "codriver.toml").unlink()


def test_a_request_gets_the_newest_earlier_messages_and_the_number_of_omitted_ones(messages, clock):
    client = Client()
    with messages.sending_to(client, "warning"):
        pass
    for number in range(MAX_STORED_MESSAGES + 10):
        messages.send("info", "beneath it")
        messages.send("warning", f"message {number}")
    assert client.pop_messages() == []
    with messages.sending_to(client, "warning"):
        seen = client.pop_messages()
    assert len(seen) == MAX_BURST_MESSAGES
    assert (
        seen[0]["data"] == f"message {MAX_STORED_MESSAGES // 2 + 10} "
        f"({MAX_STORED_MESSAGES // 2 + 10} messages before this one were left out)"
    )
    messages.send("error", "after the answer")
    assert client.pop_messages() == []


def test_the_relay_sends_the_log_level_to_the_next_server_again(tmp_path):
    with serving(tmp_path, "--repl", "none") as first, speaking(first, "2025-11-25", relayed=True) as client:
        client.request("logging/setLevel", level="warning")
        first.stop()
        with serving(tmp_path, "--repl", "none") as second:
            client.pop_notification("notifications/tools/list_changed")
            client.request("ping")
            (second.workspace / "codriver.toml").write_text("maxLineBytes = 'many'\n")
            params = client.pop_notification("notifications/message")["params"]
            assert "maxLineBytes" in params["data"]
            assert not [item for item in client.messages if "id" in item]


@pytest.mark.parametrize("relayed", [False, True], ids=["direct", "relay"])
@pytest.mark.parametrize("version", OLDER)
def test_a_client_that_sets_a_level_is_notified_of_a_repl_restart(live, version, relayed):
    with speaking(live, version, relayed=relayed) as client, speaking(live, version) as other:
        assert client.about["capabilities"]["logging"] == {}
        assert client.request("logging/setLevel", level="info") == {}
        assert client.request("logging/setLevel", is_valid=False, level="loud")["code"] == -32602
        restart(other)
        params = client.pop_message(is_of_restart)["params"]
        assert (params["level"], params["logger"]) == ("info", "codriver.repls")
        other.request("ping")
        assert not [item for item in other.messages if item["method"] == "notifications/message"]


@pytest.mark.parametrize("relayed", [False, True], ids=["direct", "relay"])
def test_a_request_with_a_level_gets_messages_since_the_last_one_before_its_answer(live, relayed):
    with speaking(live, MODERN, relayed=relayed, log_level="info") as client, speaking(live, MODERN) as other:
        assert client.about["capabilities"]["logging"] == {}
        restart(other)
        client.request("prompts/list")
        assert [item["params"]["level"] for item in client.messages if is_of_restart(item)] == ["info"]
        client.messages.clear()
        client.request("prompts/list")
        assert not client.messages
        assert not any(is_of_restart(element) for element in other.messages)
        client.log_level = None
        restart(other)
        client.request("prompts/list")
        client.call("evaluate_code", code="1")
        assert not any(is_of_restart(single) for single in client.messages)


def test_messages_are_sent_while_a_call_runs(live):
    with speaking(live, MODERN, log_level="info") as client, speaking(live, MODERN) as other:
        client.call("evaluate_code", code="1")
        waiting = client.begin("tools/call", name="wait_for", arguments={"query": NEVER})
        restart(other)
        client.pop_message(is_of_restart)
        client.bare.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": waiting}})


def test_an_unknown_level_in_a_request_is_refused(live):
    with live.client(handshake=False) as bare:
        client = Versioned(bare, MODERN)
        meta = {**client.meta(), "io.modelcontextprotocol/logLevel": "loud"}
        error = bare.request("prompts/list", {"_meta": meta})["error"]
        assert (error["code"], "emergency" in error["message"]) == (-32602, True)
        assert client.request("logging/setLevel", is_valid=False, level="info")["code"] == -32601


def test_a_subscription_carries_no_log_messages(live):
    with speaking(live, MODERN) as client, speaking(live, MODERN) as other:
        client.log_level = "debug"
        client.begin("subscriptions/listen", notifications={"resourceSubscriptions": ["codriver://log"]})
        client.pop_notification("notifications/subscriptions/acknowledged")
        client.log_level = None
        restart(other)
        client.pop_notification("notifications/resources/updated")
        client.request("prompts/list")
        assert not any(is_of_restart(item) for item in client.messages)


@pytest.mark.anyio
async def test_the_servers_own_warnings_are_sent_from_any_thread(messages):
    client = Client()
    messages.set_level(client, "warning")
    log = logging.getLogger("codriver.net.of_a_test")
    with messages.forwarding_log_records():
        log.warning("from the %s", "loop")
        await anyio.to_thread.run_sync(log.error, "from a thread")
        log.info("not for anybody")
        await anyio.lowlevel.checkpoint()
        await anyio.lowlevel.checkpoint()
    log.warning("after the end")
    assert client.pop_messages() == [
        {"level": "warning", "logger": "codriver.net", "data": "from the loop"},
        {"level": "error", "logger": "codriver.net", "data": "from a thread"},
    ]


def test_a_client_that_reads_too_slowly_is_reported_once(tmp_path):
    (tmp_path / "workspace").mkdir()
    (tmp_path / "workspace" / "codriver.toml").write_text("outboxMessages = 1\n")
    with (
        serving(tmp_path, "--repl", "python") as live,
        speaking(live, OLDER[-1], name="slow-reader") as slow,
        speaking(live, OLDER[-1]) as client,
    ):
        client.request("logging/setLevel", level="warning")
        until(lambda: client.call("evaluate_code", code="1")["ok"], "the REPL")
        long = client.call("evaluate_code", code="print('x' * 15_000_000)", detail=True)["evaluationId"]
        slow.request("resources/subscribe", uri="codriver://log")
        # What nobody reads fills the socket, and then its outbox.
        slow.begin("resources/read", uri=f"codriver://evaluation/{long}/stdout?limit=15000000")
        notification = until(lambda: dropped(client), "a loss")
        assert "slow-reader" in notification["params"]["data"]
        restart(client)
        client.request("ping")
        assert sum("too slowly" in json.dumps(item) for item in client.messages) == 1


def dropped(client):
    """Return the warning about a client that reads too slowly, after giving it a little more to read."""
    restart(client)
    client.request("ping")
    return next((item for item in client.messages if "too slowly" in json.dumps(item)), None)
