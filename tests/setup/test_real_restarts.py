"""Real agents whose server is restarted between two calls, in both protocol eras: they continue.

Claude Code and Copilot CLI request `server/discover` first, and fall back to the handshake.
"""

import json
import sys

import pytest
import scripted_model
from live_server import RELAY
from real_clients import AGENTS, ClientHome, program
from scripted_model import SAID, TOOL, serving_model

FILTER = """\
import json, os, subprocess, sys
era, log, *command = sys.argv[1:]
relay = subprocess.Popen(command, stdin=subprocess.PIPE)
for line in sys.stdin.buffer:
    message = json.loads(line)
    with open(log, "a") as file:
        print(message.get("method", "an answer"), file=file)
    if era == "handshake" and message.get("method") == "server/discover":
        error = {"code": -32601, "message": "Method not found"}
        os.write(1, json.dumps({"jsonrpc": "2.0", "id": message["id"], "error": error}).encode() + b"\\n")
    else:
        relay.stdin.write(line)
        relay.stdin.flush()
relay.stdin.close()
sys.exit(relay.wait())
"""
"""Stands between a client and the relay: notes each method, and does not know `server/discover` if it shall not."""
INTERFACES = {"claude-code": "/messages", "copilot": "/chat/completions"}
SCRIPT = [(TOOL, {"code": "kept = 6 * 7"}), (TOOL, {"code": "('kept' in globals(), 6 * 7)"})]

pytestmark = pytest.mark.slow


@pytest.fixture
def home(tmp_path):
    home = ClientHome(tmp_path)
    home.trust()
    (home.workspace / "module.py").write_text("")
    home.environment["CODRIVER_MCP_SOCKET_SERVER_PORT"] = "0"
    return home


def write_entry(home, era):
    """Write the agent's entry with the filter in front of the relay; return the path of the filter's notes."""
    (home.home / "filter.py").write_text(FILTER)
    notes = home.home / "methods"
    port_file = home.workspace / ".calva" / "mcp-server" / "port"
    relay = [sys.executable, RELAY, str(port_file), "--start"]
    words = [str(home.home / "filter.py"), era, str(notes), *relay]
    entry = {"type": "stdio", "command": sys.executable, "args": words, "tools": ["*"]}
    (home.workspace / ".mcp.json").write_text(json.dumps({"mcpServers": {"codriver": entry}}))
    return notes


@pytest.mark.parametrize("era", ["modern", "handshake"])
@pytest.mark.parametrize("name", INTERFACES)
def test_an_agent_continues_after_its_server_was_restarted(home, monkeypatch, name, era):
    notes, speak, stops = write_entry(home, era), scripted_model.INTERFACES[INTERFACES[name]], []

    def stopping(body, script):
        results, events = speak(body, script)
        if len(results) == 1 and not stops:
            stops.append(home.codriver("stop"))
        return results, events

    monkeypatch.setitem(scripted_model.INTERFACES, INTERFACES[name], stopping)
    with serving_model(script=SCRIPT) as model:
        (command, *words), variables = AGENTS[name](home, model.url)
        agent = program(command)
        home.codriver("eval", "--start", "0")
        try:
            displayed = home.run(agent, *words, **variables)
        finally:
            home.codriver("stop", "--for-good")
    assert [stopped.startswith("stopped pid") for stopped in stops] == [True]
    assert SAID in displayed, displayed
    reported = json.dumps(model.results[-1], ensure_ascii=False).replace("\\", "")
    assert '"result":"(False, 42)"' in reported, (
        reported
    )  # by another server, whose REPL knows nothing of what was before
    methods = notes.read_text().split()
    assert "server/discover" in methods
    assert ("initialize" in methods) == (era == "handshake")
    assert ("subscriptions/listen" in methods) == (era == "modern")
