"""`codriver init --list`: every client, with what is known of it."""

import time
from pathlib import Path

import pytest
from click.testing import CliRunner

from codriver.commands.init import init_command
from codriver.net import seen_clients
from codriver.setup.change_plan import apply_change, plan_entries
from codriver.setup.client_list import render_client_table
from codriver.setup.clients import known_clients
from codriver.setup.environment import Environment
from codriver.setup.printed_clients import printed_clients
from codriver.setup.relay_launch import Launch

CLIENTS = known_clients()


@pytest.fixture
def machine(tmp_path):
    (tmp_path / "home").mkdir()
    return Environment(tmp_path / "home", "linux", {"PATH": ""})


@pytest.fixture
def launch(tmp_path):
    (tmp_path / "app").mkdir()
    return Launch(Path("/opt/python"), Path("/opt/codriver_relay.py"), tmp_path / "app")


def row(text, title):
    (line,) = [line for line in text.splitlines() if line.startswith(f"{title}  ")]
    return line.removeprefix(title).split(maxsplit=2)


def test_every_supported_client_has_a_line_in_the_list(launch, machine):
    text = render_client_table(launch, machine, {})
    for client in CLIENTS.values():
        assert row(text, client.title)[:2] == [client.id, "no"]
        assert row(text, client.title)[2].split() == ["never", "none"], client.title
    for printed in printed_clients().values():
        last_connection, configured = row(text, printed.title)[2].split(maxsplit=1)
        assert (last_connection, configured) == ("never", "not detected. --client prints an entry to paste")


def test_a_client_is_listed_with_its_entries_and_last_connection(launch, machine):
    for scope in ("workspace", "user"):
        for change in plan_entries([CLIENTS["codex"]], launch, machine, scope=scope):
            apply_change(change)
    when = time.mktime((2026, 11, 22, 9, 30, 0, 0, 0, -1))
    text = render_client_table(launch, machine, {"codex": int(when), "cline": int(when)})
    assert row(text, "Codex") == ["codex", "yes", "2026-11-22 09:30  in .codex/config.toml, in ~/.codex/config.toml"]
    for title in ("Cline", "Cline in VS Code"):
        assert row(text, title)[2].startswith("2026-11-22 09:30")


def test_an_entry_not_written_by_init_is_listed_as_different(launch, machine):
    (launch.workspace / ".mcp.json").write_text('{"mcpServers": {"codriver": {"command": "x"}}}')
    text = render_client_table(launch, machine, {})
    assert ".mcp.json: the file has a different entry codriver" in row(text, "Claude Code")[2]
    assert "none" in row(text, "Visual Studio")[2]


def test_listing_changes_nothing(tmp_path, monkeypatch):
    for name in ("CONFIG", "STATE", "CACHE"):
        monkeypatch.setenv(f"XDG_{name}_HOME", str(tmp_path / name.lower()))
    monkeypatch.setenv("HOME", str(tmp_path))
    seen_clients.record_client("codex", 1_700_000_000)
    before = sorted(tmp_path.rglob("*"))
    (tmp_path / "app").mkdir()
    done = CliRunner().invoke(init_command, ["--workspace", str(tmp_path / "app"), "--list"])
    assert done.exit_code == 0, done.output
    assert row(done.output, "Codex")[2].startswith("2023-11-")
    assert sorted(tmp_path.rglob("*")) == sorted([*before, tmp_path / "app"])
