"""`codriver init` prepares the tool list for relays, so that a client's first session has its tools immediately."""

import os
from typing import Any

import pytest
from client_starts import STARTS

from codriver.app import stored_answers
from codriver.app.first_answers import store_first_answers
from codriver.setup.clients import known_clients
from codriver_relay.stored_answers import read_stored

GREETS = {name: client.greets for name, client in known_clients().items() if client.greets}


@pytest.fixture
def workspace(tmp_path, monkeypatch):
    for name in [name for name in os.environ if name.startswith("CODRIVER_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    folder = tmp_path / "workspace"
    folder.mkdir()
    (folder / "app.py").touch()
    return folder


def first_answers(workspace, name):
    """Return the instructions and the tool names with which the relay answers this client's first lines."""
    lines = [line.encode() for line in STARTS[name]]
    is_handshake = not any(b'"server/discover"' in line for line in lines)
    first = next(line for line in lines if (b'"initialize"' if is_handshake else b'"server/discover"') in line)
    kept = read_stored(str(workspace), first, is_handshake=is_handshake)
    if kept is None:
        return None
    listed: Any = kept["tools"]["tools"]
    return kept["greeting"]["instructions"], [tool["name"] for tool in listed]


@pytest.mark.parametrize("name", GREETS)
def test_the_relay_answers_a_clients_first_lines_with_the_tools_of_a_starting_repl(workspace, name):
    store_first_answers(workspace, GREETS.values())
    instructions, tools = first_answers(workspace, name)
    assert "py (python, starting)" in instructions
    assert "evaluate_code" in tools


def test_a_client_that_lists_tools_only_once_gets_the_tools_of_a_repl_in_advance(workspace):
    store_first_answers(workspace, GREETS.values())
    assert "symbol_info" in first_answers(workspace, "codex")[1]
    assert "symbol_info" not in first_answers(workspace, "gemini")[1]


def test_the_first_instructions_for_an_untrusted_project_explain_why_its_repl_is_stopped(workspace):
    (workspace / "app.py").unlink()
    (workspace / "package.json").write_text('{"dependencies": {"nbb": "1"}}')
    program = workspace / "node_modules" / ".bin" / "nbb"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\ntouch {workspace}/ran\n")
    program.chmod(0o700)
    store_first_answers(workspace, GREETS.values())
    instructions, tools = first_answers(workspace, "gemini")
    assert "nbb is stopped: " in instructions
    assert "codriver trust" in instructions
    assert "starting" not in instructions
    assert "evaluate_code" in tools
    assert not (workspace / "ran").exists()


def test_the_tool_list_stored_by_a_server_is_not_overwritten(workspace):
    name, protocol = GREETS["codex"]
    mine = {"name": name, "protocol": protocol, "greeting": {"protocolVersion": protocol, "instructions": "mine"}}
    stored_answers.store_client_entry(workspace, {**mine, "tools": {"tools": []}})
    store_first_answers(workspace, GREETS.values())
    assert first_answers(workspace, "codex") == ("mine", [])
    assert "evaluate_code" in first_answers(workspace, "opencode")[1]


def test_changing_settings_later_invalidates_the_cached_list(workspace):
    store_first_answers(workspace, GREETS.values())
    (workspace / "codriver.toml").write_text('toolset = "full"\n')
    assert first_answers(workspace, "codex") is None


def test_forgetting_the_cached_list_twice_is_harmless(workspace):
    store_first_answers(workspace, GREETS.values())
    stored_answers.remove_stored_lists(workspace)
    stored_answers.remove_stored_lists(workspace)
    assert first_answers(workspace, "codex") is None
