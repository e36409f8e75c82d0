"""Entries printed for pasting: each matches its client's documentation, and nothing is written."""

import json
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner
from real_clients import program

from codriver.commands.init import init_command
from codriver.setup.printed_clients import printed_clients, printed_entries
from codriver.setup.relay_launch import Launch

PRINTED = printed_clients()
LAUNCH = Launch(Path('/opt/my "python"'), Path("/opt/codriver_relay.py"), Path("/work space/app"))
ARGS = ["-I", "-S", "/opt/codriver_relay.py", "/work space/app/.calva/mcp-server/port", "--start"]
CLOUD = {"type": "local", "command": "codriver-relay", "args": ["--workspace", "auto", "--start"], "tools": ["*"]}

# What each client documents, a value for each block.
DOCUMENTED = {
    "goose": [
        {
            "extensions": {
                "codriver-app": {
                    "name": "codriver-app", "type": "stdio", "cmd": str(LAUNCH.python), "args": ARGS, "envs": {},
                    "timeout": 660, "enabled": True,
                }
            }
        }
    ],
    "continue": [
        {
            "name": "Codriver", "version": "0.0.1", "schema": "v1",
            "mcpServers": [{"name": "codriver", "type": "stdio", "command": str(LAUNCH.python), "args": ARGS}],
        }
    ],
    "github": [
        {"mcpServers": {"codriver": CLOUD}},
        {
            "name": "Copilot Setup Steps", "on": "workflow_dispatch",
            "jobs": {
                "copilot-setup-steps": {
                    "runs-on": "ubuntu-latest", "permissions": {"contents": "read"},
                    "steps": [
                        {"uses": "actions/checkout@v5"},
                        {"uses": "actions/setup-python@v6", "with": {"python-version": "3.12"}},
                        {"run": "pip install 'codriver[lisp] @ git+URL'"},
                    ],
                }
            },
        },
    ],
}  # fmt: skip


def read_yaml(text):
    """Return what a third-party YAML parser makes of a text."""
    words = [program("yaml"), "--json"]
    done = subprocess.run(words, input=text, capture_output=True, text=True, timeout=60, check=True)
    (document,) = json.loads(done.stdout)
    return document


def test_every_printed_entry_has_a_documented_form():
    assert list(DOCUMENTED) == list(PRINTED)


@pytest.mark.slow
@pytest.mark.parametrize("name", PRINTED)
def test_a_rendered_printed_entry_matches_the_clients_documentation(name):
    client = PRINTED[name]
    texts = [client.render(block, LAUNCH) for block in client.blocks]
    read = [(json.loads if text.startswith("{") else read_yaml)(text) for text in texts]
    assert read == DOCUMENTED[name]


def test_entries_of_clients_with_a_configuration_file_are_not_printed():
    text, others = printed_entries(["zed", "goose", "all"], LAUNCH, remove=False)
    assert others == ("zed", "all")
    assert text.startswith("goose: paste into ~/.config/goose/config.yaml")
    assert text.endswith("then start a new goose session\n")


def test_a_removal_describes_where_pasted_entries_must_be_removed():
    text, _ = printed_entries(["github"], LAUNCH, remove=True)
    assert text.startswith("Copilot cloud agent: Codriver wrote nothing. Remove the text that you pasted into")
    assert ".github/workflows/copilot-setup-steps.yml" in text


def test_printing_writes_nothing_into_the_workspace(tmp_path, monkeypatch):
    for name in ("CONFIG", "STATE", "CACHE"):
        monkeypatch.setenv(f"XDG_{name}_HOME", str(tmp_path / name.lower()))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    workspace = tmp_path / "app"
    (workspace / ".vscode").mkdir(parents=True)
    done = CliRunner().invoke(init_command, ["--workspace", str(workspace), "--client", "github", "--client", "goose"])
    assert done.exit_code == 0, done.output
    assert '"command": "codriver-relay"' in done.output
    assert "codriver-app:" in done.output
    assert [path.name for path in workspace.rglob("*")] == [".vscode"]
