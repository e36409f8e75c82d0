"""While a server starts, its client is answered from the tool list cached by the previous one, if nothing changed."""

import json
import logging
import os

import pytest
from live_server import until

from codriver.app.stored_answers import MAX_CLIENTS, store_client_entry, validity_conditions
from codriver_relay.stored_answers import read_stored
from relay.cold_server import GREETING, INITIALIZE, LIST, QUESTION, TOOLS, rewrite, stored_entry
from relay.relay_process import INITIALIZED, LIST_CHANGED, answer, encode, request


def greeted(cold, **environment):
    """Return a relay whose client was answered while there is no server."""
    relay = cold.relay(**environment)
    relay.send(INITIALIZE)
    assert relay.receive() == answer("first", GREETING)
    relay.send(INITIALIZED, LIST)
    assert relay.receive() == answer(7, TOOLS)
    return relay


def introduced(cold, greeting=GREETING):
    """Return the server to which the relay then repeats its client's introduction."""
    peer = cold.serve()
    assert peer.read() == INITIALIZE
    peer.send(answer("first", greeting))
    assert peer.read() == QUESTION
    assert peer.read() == INITIALIZED
    return peer


def test_the_client_is_answered_from_the_cache_and_its_handshake_sent_to_the_server_later(cold, monkeypatch):
    cold.store(monkeypatch)
    relay = greeted(cold)
    relay.send(request(8))
    peer = introduced(cold, {**GREETING, "instructions": "no REPL"})
    assert peer.read() == request(8)
    peer.send(answer("codriver-relay-list", TOOLS), answer(8, {"done": True}))
    assert relay.receive() == answer(8, {"done": True})


def test_the_client_is_notified_if_the_servers_tool_list_differs_from_the_cached_one(cold, monkeypatch):
    cold.store(monkeypatch)
    relay = greeted(cold)
    peer = introduced(cold)
    peer.send(answer("codriver-relay-list", {"tools": TOOLS["tools"][:1]}), answer(8))
    assert relay.receive() == LIST_CHANGED
    assert relay.receive() == answer(8)


def test_the_server_is_queried_for_its_list_as_soon_as_it_is_running(cold, monkeypatch):
    cold.store(monkeypatch)
    relay = greeted(cold)
    peer = introduced(cold)
    relay.send(LIST)
    assert peer.read() == LIST


def test_a_connection_lost_before_the_comparison_counts_as_a_change(cold, monkeypatch):
    cold.store(monkeypatch)
    relay = greeted(cold)
    introduced(cold).close()
    peer = cold.accept()
    assert peer.read() == INITIALIZE
    peer.send(answer("first", GREETING))
    assert peer.read() == INITIALIZED
    assert relay.receive() == LIST_CHANGED


def test_a_failed_server_start_answers_waiting_requests(cold, monkeypatch):
    cold.store(monkeypatch)
    relay = greeted(cold)
    relay.send(request(8))
    cold.end()
    assert "status 3" in relay.receive()["error"]["message"]


def test_a_cancelled_call_is_cancelled_on_the_server(cold, monkeypatch):
    cold.store(monkeypatch)
    relay = greeted(cold)
    cancelled = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 8}}
    relay.send(request(8), cancelled)
    peer = introduced(cold)
    assert [peer.read(), peer.read()] == [request(8), cancelled]


SPOILT = {
    "another client": lambda file, _: rewrite(file, clients=[{**stored_entry(file), "name": "other"}]),
    "another protocol version": lambda file, _: rewrite(
        file, clients=[{**stored_entry(file), "protocol": "2025-06-18"}]
    ),
    "another workspace": lambda file, _: rewrite(file, workspace="/elsewhere"),
    "another environment": lambda file, _: rewrite(file, environment={}),
    "a settings file that came": lambda _, workspace: (workspace / "codriver.toml").write_text('toolset = "full"\n'),
    "another version": lambda file, _: rewrite(file, files={__file__: [1, 2, 3]}),
    "a file that others may read": lambda file, _: file.chmod(0o644),
    "a folder that others may enter": lambda file, _: file.parent.chmod(0o755),
    "a file with another name": lambda file, _: os.link(file, file.parent / "other"),
    "a link": lambda file, _: file.symlink_to(file.rename(file.parent / "other")),
    "no JSON": lambda file, _: file.write_text('{"clients": [{"name'),
    "JSON of another shape": lambda file, _: file.write_text('[{"clients": 1}]'),
    "answers that are none": lambda file, _: rewrite(file, clients=[{**stored_entry(file), "tools": []}]),
}


@pytest.mark.parametrize("spoil", SPOILT.values(), ids=SPOILT)
def test_an_outdated_cache_is_ignored(cold, monkeypatch, spoil):
    file = cold.store(monkeypatch)
    assert read_stored(str(cold.workspace), encode(INITIALIZE)) is not None
    spoil(file, cold.workspace)
    assert read_stored(str(cold.workspace), encode(INITIALIZE)) is None
    relay = cold.relay()
    relay.send(INITIALIZE)
    peer = cold.serve()
    assert peer.read() == INITIALIZE
    peer.send(answer("first"))
    assert relay.receive() == answer("first")


def test_a_client_without_skills_has_its_own_cached_answer(cold, monkeypatch):
    file = cold.store(monkeypatch)
    assert read_stored(str(cold.workspace), encode(INITIALIZE), wants_skills=False) is None
    rewrite(file, clients=[{**stored_entry(file), "withoutSkills": True}])
    assert read_stored(str(cold.workspace), encode(INITIALIZE)) is None
    assert read_stored(str(cold.workspace), encode(INITIALIZE), wants_skills=False) is not None


def test_a_cache_written_by_another_python_is_ignored(cold, monkeypatch):
    monkeypatch.delenv("CODRIVER_SERVER_COMMAND", raising=False)
    del cold.environment["CODRIVER_SERVER_COMMAND"]
    file = cold.store(monkeypatch)
    assert read_stored(str(cold.workspace), encode(INITIALIZE)) == {"greeting": GREETING, "tools": TOOLS}
    rewrite(file, python="/usr/bin/other")
    assert read_stored(str(cold.workspace), encode(INITIALIZE)) is None


def test_the_newest_clients_are_cached_in_a_private_file(cold, monkeypatch):
    for number in range(MAX_CLIENTS + 2):
        file = cold.store(monkeypatch, name=f"agent-{number}")
    names = [client["name"] for client in json.loads(file.read_text())["clients"]]
    assert names == [f"agent-{number}" for number in range(MAX_CLIENTS + 1, 1, -1)]
    assert (file.stat().st_mode & 0o777, file.parent.stat().st_mode & 0o777) == (0o600, 0o700)


def test_a_deleted_workspace_is_logged_and_causes_no_failure(cold, caplog):
    cold.workspace.rmdir()
    with caplog.at_level(logging.INFO):
        store_client_entry(
            cold.workspace, {"name": "agent", "protocol": "2025-11-25", "greeting": GREETING, "tools": TOOLS}
        )
    assert "cannot store the list of tools for relays" in caplog.text
    assert str(cold.workspace) in caplog.text


def test_answers_cached_under_other_conditions_are_dropped(cold, monkeypatch):
    cold.store(monkeypatch, name="before")
    (cold.workspace / "codriver.toml").write_text('toolset = "full"\n')
    file = cold.store(monkeypatch)
    assert [client["name"] for client in json.loads(file.read_text())["clients"]] == ["agent"]
    assert validity_conditions(cold.workspace).items() <= json.loads(file.read_text()).items()


def test_secret_variables_neither_invalidate_the_cache_nor_appear_in_its_file(cold, monkeypatch):
    cold.environment |= {"CODRIVER_TOKEN": "sesame-1", "CODRIVER_KERNEL_TOKEN": "sesame-2"}
    assert "sesame" not in cold.store(monkeypatch).read_text()
    greeted(cold, CODRIVER_KERNEL_TOKEN="another")


# With a real server


def answered(relay, identity):
    """Return the result of a request, skipping earlier messages."""
    return next(line["result"] for line in iter(relay.receive, None) if line.get("id") == identity)


def test_the_tools_of_a_real_server_are_listed_before_it_is_ready(gated, tmp_path):
    relay = gated.relay()
    relay.send(INITIALIZE, INITIALIZED, LIST)
    gated.open()
    answered(relay, 7)
    lists = tmp_path / "state" / "codriver" / "lists"
    until(lambda: lists.is_dir() and any(lists.glob("*.json")), "the list that is kept")
    relay.close()
    gated.stop()
    (file,) = lists.glob("*.json")
    relay = gated.relay()
    relay.send(INITIALIZE, INITIALIZED, LIST)
    assert answered(relay, "first") == stored_entry(file)["greeting"]
    assert answered(relay, 7) == stored_entry(file)["tools"]
    gated.open()
    relay.send(request(8, name="evaluate_code", arguments={"code": "1+2"}))
    assert answered(relay, 8)["structuredContent"]["result"] == "3"


def test_a_disconnected_client_that_was_answered_does_not_wait_for_the_server(cold, monkeypatch):
    cold.store(monkeypatch)
    relay = greeted(cold)
    relay.end()
    assert relay.wait() == 0
    assert relay.receive_line() is None
