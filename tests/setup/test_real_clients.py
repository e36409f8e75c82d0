"""What real clients make of the entries that `codriver init` writes."""

import json
import re
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from live_server import RELAY, WAIT_S, Bare, until
from real_clients import Place, program

from codriver.setup.change_plan import apply, plan
from codriver.setup.clients import Environment, Launch, entry_name, known_clients

CLIENTS = known_clients()
PYTHON = "/bin/false"

LISTED: dict[str, Any] = {
    "claude-code": (["claude", "mcp", "get", "codriver"], "Command: {python}", "Args: -I -S {relay} {port} --start"),
    "copilot": (["copilot", "mcp", "get", "codriver"], "{python}", "-I -S {relay} {port} --start"),
    "codex": (["codex", "mcp", "get", "codriver", "--json"], '"{python}"', '"{port}"', '_sec": 660', '"JAVA_HOME"'),
    "gemini": (["gemini", "mcp", "list"], "codriver: {python} -I -S {relay} {port} --start (stdio)"),
    "qwen": (["qwen", "mcp", "list"], "codriver: {python} -I -S {relay} {port} --start (stdio)"),
    "opencode": (["opencode", "mcp", "list"], "codriver", "{python} -I -S {relay} {port} --start"),
}
CONNECTED = {
    "claude-code": (["claude", "mcp", "list"], "codriver: .* ✔ Connected"),
    "gemini": (["gemini", "mcp", "list"], "✓ codriver: .* Connected"),
    "opencode": (["opencode", "mcp", "list"], "✓ codriver connected"),
    "droid": (["droid", "mcp", "list"], r"codriver stdio connected \[project\]"),
}
UNDECIDED = {"droid": "codriver stdio connecting "}
"""What a client prints that gave up waiting for the answer: it says nothing of whether the server can be reached."""

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
def test_a_real_client_lists_the_entry(place, tmp_path, name, scope):
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
def test_a_real_client_connects_without_a_running_server(place, name):
    (command, *words), expected = CONNECTED[name]
    write_entry(place, name, "workspace", Launch(Path(sys.executable), Path(RELAY), place.workspace))
    try:

        def listed():
            shown = place.run(program(command), *words, CODRIVER_MCP_SOCKET_SERVER_PORT="0")
            return None if UNDECIDED.get(name, "\0") in shown else shown

        shown = until(listed, f"{command} to say whether it connected")
        assert re.search(expected, shown), shown
    finally:
        place.codriver("stop")


def test_auggie_connects_and_lists_the_tools(place):
    """It connects to servers only once it has a task, and gets no further without an account: the server is asked."""
    auggie = program("auggie")
    launch = Launch(Path(sys.executable), Path(RELAY), place.workspace)
    write_entry(place, "auggie", "user", launch)
    settings = place.home / ".augment" / "settings.json"
    account = {"accessToken": "none", "tenantURL": "http://127.0.0.1:1/", "scopes": ["read"]}
    place.codriver("eval", "--start", "0", CODRIVER_MCP_SOCKET_SERVER_PORT="0")
    # It waits longer and longer for its model, which is not there.
    waiting = subprocess.Popen(
        [auggie, "--mcp-config", settings, "--print", "go"],
        cwd=place.workspace, env={**place.environment, "AUGMENT_SESSION_AUTH": json.dumps(account)},
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    port = int((place.workspace / ".calva" / "mcp-server" / "port").read_text())
    try:
        with Bare(socket.create_connection(("127.0.0.1", port), timeout=WAIT_S)) as client:
            until(lambda: "augment-mcp-client" in str(client.call("server_health")["clients"]), "auggie to connect")
        listed = place.codriver("init", "--list")
    finally:
        waiting.kill()
        waiting.wait()
        place.codriver("stop", "--for-good")
    assert re.search(r"auggie auggie yes \d{4}-", listed), listed
