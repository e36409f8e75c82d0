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
from real_clients import ClientHome, program

from codriver.setup.change_plan import apply_change, plan_entries
from codriver.setup.clients import entry_name, known_clients
from codriver.setup.environment import Environment
from codriver.setup.relay_launch import Launch

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
def home(tmp_path):
    home = ClientHome(tmp_path)
    home.trust()
    return home


def write_entry(home, name, scope, launch):
    machine = Environment(home.home, "linux", home.environment)
    (change,) = plan_entries([CLIENTS[name]], launch, machine, scope=scope)
    apply_change(change)


@pytest.mark.parametrize(("name", "scope"), [(name, scope) for name in LISTED for scope in CLIENTS[name].scopes])
def test_a_real_client_lists_the_entry(home, tmp_path, name, scope):
    (command, *words), *expected = LISTED[name]
    launch = Launch(Path(PYTHON), tmp_path / "codriver_relay.py", home.workspace)
    write_entry(home, name, scope, launch)
    called = entry_name(scope, home.workspace)
    displayed = home.run(program(command), *(called if word == "codriver" else word for word in words))
    for text in expected:
        port = home.workspace / ".calva/mcp-server/port"
        required = text.format(python=PYTHON, relay=launch.relay, port=port).replace("codriver:", f"{called}:")
        assert required in displayed, displayed


@pytest.mark.parametrize("name", CONNECTED)
def test_a_real_client_connects_without_a_running_server(home, name):
    (command, *words), expected = CONNECTED[name]
    write_entry(home, name, "workspace", Launch(Path(sys.executable), Path(RELAY), home.workspace))
    try:

        def listed():
            displayed = home.run(program(command), *words, CODRIVER_MCP_SOCKET_SERVER_PORT="0")
            return None if UNDECIDED.get(name, "\0") in displayed else displayed

        displayed = until(listed, f"{command} to say whether it connected")
        assert re.search(expected, displayed), displayed
    finally:
        home.codriver("stop")


def test_auggie_connects_and_lists_the_tools(home):
    """It connects to servers only once it has a task, and gets no further without an account: the server is asked."""
    auggie = program("auggie")
    launch = Launch(Path(sys.executable), Path(RELAY), home.workspace)
    write_entry(home, "auggie", "user", launch)
    settings = home.home / ".augment" / "settings.json"
    account = {"accessToken": "none", "tenantURL": "http://127.0.0.1:1/", "scopes": ["read"]}
    home.codriver("eval", "--start", "0", CODRIVER_MCP_SOCKET_SERVER_PORT="0")
    # It waits longer and longer for its model, which is not there.
    waiting = subprocess.Popen(
        [auggie, "--mcp-config", settings, "--print", "go"],
        cwd=home.workspace, env={**home.environment, "AUGMENT_SESSION_AUTH": json.dumps(account)},
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    port = int((home.workspace / ".calva" / "mcp-server" / "port").read_text())
    try:
        with Bare(socket.create_connection(("127.0.0.1", port), timeout=WAIT_S)) as client:
            until(lambda: "augment-mcp-client" in str(client.call("server_health")["clients"]), "auggie to connect")
        listed = home.codriver("init", "--list")
    finally:
        waiting.kill()
        waiting.wait()
        home.codriver("stop", "--for-good")
    assert re.search(r"auggie auggie yes \d{4}-", listed), listed
