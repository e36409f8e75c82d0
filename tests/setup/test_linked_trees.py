"""A linked git working tree has its own server and environment, wherever it is."""

import json
import os
import subprocess
import sys
from pathlib import Path

import forked
import pytest
from linked_tree import git, linked_tree
from live_server import WAIT_S, environ

from codriver.repls.launch.projects import find_python
from codriver.setup.environment import Environment
from codriver.setup.init import InitOptions, run_init
from codriver.setup.relay_launch import Launch
from codriver_relay.workspace_search import find_workspace

RELAY = ("codriver-relay", "--workspace", "auto", "--start")


@pytest.fixture(scope="module")
def main(tmp_path_factory):
    return tmp_path_factory.mktemp("trees") / "main"


@pytest.fixture(scope="module")
def inner(main):
    """Create a tree inside the main checkout, as agents do."""
    linked_tree(main, main / "trees" / "inner")
    return main / "trees" / "inner"


def init(folder, home, shared=RELAY):
    launch = Launch(Path("/opt/python"), Path("/opt/codriver_relay.py"), folder, shared)
    return run_init(launch, InitOptions(clients=("claude-code",)), Environment(home, "linux", {"PATH": "/usr/bin"}))


def test_init_explains_what_is_separate_and_writes_a_matching_entry(main, inner, tmp_path, monkeypatch):
    text = init(inner, tmp_path).text
    assert f"linked to {main}, with its own server, REPLs, log and history" in text
    assert f"Python     .venv in the main checkout {main}, because this working tree has none" in text
    assert "`python3 -m venv .venv`" in text
    entry = json.loads((inner / ".mcp.json").read_text())["mcpServers"]["codriver"]
    assert [entry["command"], *entry["args"]] == [*RELAY]
    monkeypatch.delenv("CLAUDE_PROJECT_DIR", raising=False)
    for folder in (inner, inner / "src" / "own"):
        monkeypatch.chdir(folder)
        assert find_workspace() == str(inner)
    assert "tree " not in init(main, tmp_path).text


def test_an_entry_for_the_server_of_another_tree_is_reported_as_such(main, inner, tmp_path):
    words = ["/r/codriver_relay.py", str(main / ".calva/mcp-server/port")]
    (inner / ".mcp.json").write_text(
        json.dumps(
            {
                "mcpServers": {
                    "codriver": {
                        "command": "/p",
                        "args": words,
                    }
                }
            }
        )
    )
    text = init(inner, tmp_path, shared=()).text
    assert f"the file has a different entry codriver, which connects to the server of {main};" in text


def test_the_environment_in_a_linked_tree_takes_precedence(main, inner):
    assert find_python(inner, {}).path == str(main / ".venv/bin/python")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", inner / ".venv"], check=True)
    found = find_python(inner, {})
    assert (found.path, found.whose, found.caution) == (str(inner / ".venv/bin/python"), "the project's .venv", None)


@pytest.mark.slow
def test_commands_in_a_tree_use_only_its_own_server(tmp_path):
    env, main = environ(tmp_path), tmp_path / "main"
    git("init", str(main))
    (main / "codriver.toml").touch()
    git("-C", str(main), "commit", "--allow-empty", "-m", "first")
    git("-C", str(main), "worktree", "add", str(main / "trees" / "inner"))
    inside = main / "trees" / "inner" / "src"
    inside.mkdir()

    def command(*words, folder):
        # A server that goes on in the background starts from nothing: it outlives what it was forked from.
        if "--detach" in words:
            done = subprocess.run(
                [sys.executable, "-m", "codriver", *words], cwd=folder, env=env, capture_output=True, text=True,
                timeout=WAIT_S, check=False,
            )  # fmt: skip
        else:
            done = forked.run(words, env=env, cwd=folder, timeout=WAIT_S)
        return done.returncode, done.stdout, done.stderr

    try:
        assert command("serve", "--detach", "--port", "0", "--repl", "none", folder=main)[0] == 0
        status, text, _ = command("status", folder=inside)
        assert status == 3
        assert f"no codriver server is running for {inside.parent}:" in text
        assert command("serve", "--detach", "--port", "0", "--repl", "none", folder=inside.parent)[0] == 0
        status, text, reported = command("status", folder=inside)
        assert (status, reported) == (0, f"codriver: using the workspace {inside.parent}\n")
        listed = command("status", "--all", folder=tmp_path)[1].splitlines()
        assert [line.partition("  ")[0] for line in listed] == [str(main), str(inside.parent)]
    finally:
        for folder in (main, inside.parent):
            command("stop", "-w", os.fspath(folder), folder=tmp_path)
