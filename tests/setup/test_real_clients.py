"""What the clients themselves make of the entries that `codriver init` writes."""

import re
import sys
from pathlib import Path
from typing import Any

import pytest
from real_clients import Place, program

import codriver_relay
from codriver.setup.change_plan import apply, plan
from codriver.setup.clients import Environment, Launch, entry_name, known_clients

CLIENTS = known_clients()
PYTHON = "/bin/false"

LISTED: dict[str, Any] = {
    "claude-code": (["claude", "mcp", "get", "codriver"], "Command: {python}", "Args: {relay} {port} --start"),
    "copilot": (["copilot", "mcp", "get", "codriver"], "{python}", "{relay} {port} --start"),
    "codex": (["codex", "mcp", "get", "codriver", "--json"], '"{python}"', '"{port}"', '_sec": 660', '"JAVA_HOME"'),
    "gemini": (["gemini", "mcp", "list"], "codriver: {python} {relay} {port} --start (stdio)"),
    "qwen": (["qwen", "mcp", "list"], "codriver: {python} {relay} {port} --start (stdio)"),
    "opencode": (["opencode", "mcp", "list"], "codriver", "{python} {relay} {port} --start"),
}
CONNECTED = {
    "claude-code": (["claude", "mcp", "list"], "codriver: .* ✔ Connected"),
    "gemini": (["gemini", "mcp", "list"], "✓ codriver: .* Connected"),
    "opencode": (["opencode", "mcp", "list"], "✓ codriver connected"),
}

pytestmark = pytest.mark.slow


@pytest.fixture
def place(tmp_path):
    place = Place(tmp_path)
    place.trust()
    return place


def write_entry(place, name, scope, launch):
    machine = Environment(place.home, "linux", place.environment)
    (change,) = plan([CLIENTS[name]], launch, machine, scope=scope)
    apply(change)


@pytest.mark.parametrize(("name", "scope"), [(name, scope) for name in LISTED for scope in CLIENTS[name].scopes])
def test_the_client_itself_lists_the_entry(place, tmp_path, name, scope):
    (command, *words), *expected = LISTED[name]
    launch = Launch(Path(PYTHON), tmp_path / "codriver_relay.py", place.workspace)
    write_entry(place, name, scope, launch)
    called = entry_name(scope, place.workspace)
    shown = place.run(program(command), *(called if word == "codriver" else word for word in words))
    for text in expected:
        port = place.workspace / ".calva/mcp-server/port"
        wanted = text.format(python=PYTHON, relay=launch.relay, port=port).replace("codriver:", f"{called}:")
        assert wanted in shown, shown


@pytest.mark.parametrize("name", CONNECTED)
def test_the_client_itself_connects_where_nobody_started_a_server(place, name):
    (command, *words), expected = CONNECTED[name]
    write_entry(place, name, "workspace", Launch(Path(sys.executable), Path(codriver_relay.__file__), place.workspace))
    try:
        shown = place.run(program(command), *words, CODRIVER_MCP_SOCKET_SERVER_PORT="0")
        assert re.search(expected, shown), shown
    finally:
        place.run(sys.executable, "-m", "codriver", "stop")
