"""The record of clients that were connected: who and when, up to a limit."""

import json
import sys

import pytest
from live_server import serving, until

from codriver.files.codriver_paths import state_directory
from codriver.net import seen_clients
from codriver.net.seen_clients import MAX_CLIENTS, SEEN_CLIENTS_FILE


@pytest.fixture
def temporary_state(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


def test_a_connected_client_is_recorded_by_its_caller_name(tmp_path, temporary_state):
    with serving(tmp_path) as live:
        for name in ("qwen-cli-mcp-client-codriver", "Some Client", "codriver-cli"):
            with live.client(name=name) as client:
                client.request("tools/list", {})
        if sys.platform == "win32":  # this ends the server immediately, before it has written everything
            until(lambda: len(seen_clients.read_last_connections()) >= 2, "the record of both")
    assert set(seen_clients.read_last_connections()) == {"qwen", "some-client"}


def test_only_the_newest_clients_are_kept(temporary_state):
    for number in range(MAX_CLIENTS + 3):
        seen_clients.record_client(f"client-{number}", 1000 + number)
    seen_clients.record_client("client-3", 5000)
    seen = seen_clients.read_last_connections()
    assert len(seen) == MAX_CLIENTS
    assert seen["client-3"] == 5000
    assert "client-2" not in seen
    assert seen["client-4"] == 1004


@pytest.mark.parametrize("text", ["", "[]", "{", '{"a": "x", "b": true, "c": -1, "d": 1e99, "e": 3}', "[" * 100_000])
def test_a_malformed_record_is_read_as_far_as_possible(temporary_state, text):
    state_directory().mkdir(parents=True, mode=0o700)
    (state_directory() / SEEN_CLIENTS_FILE).write_text(text)
    assert set(seen_clients.read_last_connections()) <= {"e"}
    seen_clients.record_client("codex", 7)
    assert json.loads((state_directory() / SEEN_CLIENTS_FILE).read_text())["codex"] == 7


def test_an_unwritable_record_is_skipped(tmp_path, temporary_state):
    (tmp_path / "state").write_text("no folder")
    seen_clients.record_client("codex", 7)
    assert seen_clients.read_last_connections() == {}
