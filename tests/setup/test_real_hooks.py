"""Real agents that edit files with their own tools, with the hooks that `codriver init --hooks` installs."""

import json
import os
import sys
from pathlib import Path

import pytest
from real_clients import AGENTS, ClientHome, program
from scripted_model import SAID, serving_model

from codriver.net.relay_install import install_relay, shipped_relay_directory
from codriver.setup.environment import Environment
from codriver.setup.init import InitOptions, run_init
from codriver.setup.relay_launch import Launch

pytestmark = pytest.mark.slow

SOUND = "(ns core)\n\n(defn f [x]\n  (inc x))\n"
OLD, NEW = "(inc x)", "(inc (inc x)"
BROKEN = "(def a 1"
FAILING = "def test_never():\n    assert False\n"


def patch(name, *lines):
    return "\n".join(["*** Begin Patch", name, *lines, "*** End Patch"])


def script_of(write, edit, path, content, old, new, **more):
    """Three edits: a file that parses, a change after which it does not, and a new file that does not parse; then a
    test.
    """

    def script(folder):
        def whole(name, text):
            return write, {path: str(folder / name), content: text}

        change = edit, {path: str(folder / "core.clj"), old: OLD, new: NEW, **more}
        return [whole("core.clj", SOUND), change, whole("new.clj", BROKEN), whole("test_never.py", FAILING)]

    return script


def patches(_folder):
    added = [f"+{line}" for line in SOUND.splitlines()]
    return [
        ("apply_patch", patch("*** Add File: core.clj", *added)),
        ("apply_patch", patch("*** Update File: core.clj", "@@", "-  (inc x))", f"+  {NEW})")),
        ("apply_patch", patch("*** Add File: new.clj", f"+{BROKEN}")),
        ("apply_patch", patch("*** Add File: test_never.py", *[f"+{line}" for line in FAILING.splitlines()])),
    ]


SCRIPTS = {
    "claude-code": script_of("Write", "Edit", "file_path", "content", "old_string", "new_string"),
    "copilot": script_of("create", "edit", "path", "file_text", "old_str", "new_str"),
    "codex": patches,
    "gemini": script_of(
        "write_file", "replace", "file_path", "content", "old_string", "new_string", instruction="change it"
    ),
    "qwen": script_of("write_file", "edit", "file_path", "content", "old_string", "new_string"),
    "opencode": script_of("write", "edit", "filePath", "content", "oldString", "newString"),
}
WHO = {"copilot": "copilot-cli"}
MORE = {
    "claude-code": ["--allowedTools", "Write", "Edit"],
    "codex": ["--dangerously-bypass-hook-trust", "-m", "gpt-5.5"],  # the models that Codex knows get `apply_patch`
}
BLOCKED_TURNS = {"claude-code", "copilot", "codex", "gemini", "qwen"}
"""Not opencode: it leaves when its model is done, and takes no prompt after that."""


def set_up(home, name, monkeypatch):
    """Write the entry and the hooks of a client as `init` does, and run a server that runs the tests of a turn."""
    install_relay(shipped_relay_directory(), home.home / "codriver" / "codriver_relay.py")
    launch = Launch(Path(sys.executable), home.home / "codriver" / "codriver_relay.py", home.workspace)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home.home / ".config"))
    names = ("claude-code", name) if name == "copilot" else (name,)
    environment = Environment(home.home, "linux", {"PATH": os.defpath})
    report = run_init(launch, InitOptions(names, hooks=True, start_repl=False), environment)
    assert report.exit_status == 0, report.text
    if name == "claude-code":
        # Its hooks are calls on the connection, and a model that edits at once is there before that is open.
        entries = json.loads((home.workspace / ".mcp.json").read_text())
        entries["mcpServers"]["codriver"]["alwaysLoad"] = True
        (home.workspace / ".mcp.json").write_text(json.dumps(entries))
    settings = home.home / ".config" / "codriver" / "codriver.toml"
    settings.parent.mkdir(parents=True, exist_ok=True)
    settings.write_text("hookGate = true\n")
    home.codriver("trust")  # else the turn's tests are refused


def edits(home, who):
    """Return the edits of a client in the log."""
    query = (
        "[:find ?line ?text :in $ ?who :where [?e :output/who ?who] [?e :output/text ?text] [?e :output/line ?line]]"
    )
    given = json.dumps({"query": query, "inputs": [who]})
    displayed = home.codriver("call", "repl_output_log", given)
    return [text for _, text in sorted(json.loads(displayed)["result"]) if " edited " in text]


@pytest.mark.parametrize("name", SCRIPTS)
def test_an_edit_by_a_clients_own_tool_is_logged_and_its_errors_are_sent_to_the_model(tmp_path, name, monkeypatch):
    home = ClientHome(tmp_path)
    home.environment["CODRIVER_HOOK_DEADLINE_S"] = "5"  # no client waits longer
    home.trust()
    set_up(home, name, monkeypatch)
    with serving_model(script=SCRIPTS[name](home.workspace)) as model:
        (command, *words), variables = AGENTS[name](home, model.url)
        agent = program(command)
        home.codriver("eval", "--start", "0", CODRIVER_MCP_SOCKET_SERVER_PORT="0")
        try:
            displayed = home.run(agent, *words, *MORE.get(name, []), **variables)
            noted = edits(home, WHO.get(name, name))
        finally:
            home.codriver("stop")
    assert SAID in displayed, displayed
    received = "".join(model.heard)
    who = WHO.get(name, name)
    assert noted == [f"{who} edited core.clj", f"{who} edited core.clj", f"{who} edited test_never.py"], displayed
    assert "core.clj:3:1 cannot be read" in received
    assert "new.clj:1:1 cannot be read" in received
    assert not (home.workspace / "new.clj").exists()
    assert (home.workspace / "core.clj").read_text() == SOUND.replace(OLD, NEW)
    assert "REPLs: py (python, connected" in received
    if name in BLOCKED_TURNS:
        assert received.count("tests of the changed files fail") > 0
        assert "test_never.py::test_never" in received
