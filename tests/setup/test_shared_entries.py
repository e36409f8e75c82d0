"""Entries in files shared by a team: no local paths, and one command line that works everywhere."""

import contextlib
import json
import os
import shlex
import shutil
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path

import forked
import live_server
import pytest
from lent_servers import run_directory
from live_server import environ
from needs import do_without, program

import codriver_relay
from codriver import __version__
from codriver.files.codriver_paths import port_file
from codriver.setup.change_plan import apply_change, find_entry, plan_entries, plan_removal
from codriver.setup.client_entries import command_line
from codriver.setup.clients import known_clients
from codriver.setup.codriver_toml import WORKSPACE_MARK
from codriver.setup.doctor_checks import check_entries
from codriver.setup.environment import Environment
from codriver.setup.init import InitOptions, run_init
from codriver.setup.relay_launch import Launch
from codriver.setup.shared_command import registry_version, shared_command
from relay.relay_process import INITIALIZED, RelayProcess, request

CLIENTS = known_clients()
SHARING = [name for name, client in CLIENTS.items() if "workspace" in client.scopes]
RELAY = ("codriver-relay", "--workspace", "auto", "--start")
UVX = ("uvx", "--from", "codriver==1.2.3", *RELAY)


@pytest.fixture
def workspace(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    folder = tmp_path / "app"
    folder.mkdir()
    (folder / "README.md").touch()
    return folder


@pytest.fixture
def machine(tmp_path):
    (tmp_path / "bin").mkdir()
    return Environment(tmp_path / "home", "linux", {"PATH": str(tmp_path / "bin")})


@pytest.fixture
def launch(workspace):
    return Launch(Path("/opt/python"), Path("/opt/codriver_relay.py"), workspace, RELAY)


@pytest.fixture
def stack():
    with contextlib.ExitStack() as stack:
        yield stack


def install(machine, name, text):
    """Create a program on the search path."""
    program = Path(machine.variables["PATH"]) / name
    program.write_text(f"#!/bin/sh\n{text}\n")
    program.chmod(0o755)


def install_relay(machine):
    install(machine, "codriver-relay", f'exec "{sys.executable}" -I -S "{live_server.RELAY}" "$@"')


def entry(name, launch, file):
    return find_entry(CLIENTS[name], file.read_text(), "codriver")


@pytest.mark.parametrize("shared", [RELAY, UVX], ids=lambda words: words[0])
@pytest.mark.parametrize("name", SHARING)
def test_a_shared_file_contains_no_local_path(name, shared, workspace, machine):
    launch = Launch(Path("/opt/python"), Path("/opt/codriver_relay.py"), workspace, shared)
    (change,) = plan_entries([CLIENTS[name]], launch, machine, scope="workspace")
    assert change.state == "add"
    apply_change(change)
    assert command_line(entry(name, launch, change.file)) == shared
    for path in (str(workspace), "/opt/", str(machine.home), "{{", "${workspaceFolder}"):
        assert path not in change.file.read_text()
    (again,) = plan_entries([CLIENTS[name]], launch, machine, scope="workspace")
    assert again.state == "same"
    (removal,) = plan_removal([CLIENTS[name]], launch, machine, scope="workspace")
    assert removal.state == "remove"


def test_entries_in_the_users_own_file_contain_local_paths(launch, machine):
    (change,) = plan_entries([CLIENTS["zed"]], launch, machine, scope="user")
    assert '"/opt/python"' in change.after
    assert "auto" not in change.after


@pytest.mark.parametrize("name", SHARING)
def test_an_older_entry_with_paths_is_replaced_without_being_forced(name, launch, workspace, machine):
    elsewhere = Launch(Path("/home/other/bin/python"), Path("/home/other/codriver_relay.py"), workspace)
    (old,) = plan_entries([CLIENTS[name]], elsewhere, machine, scope="workspace")
    apply_change(old)
    (change,) = plan_entries([CLIENTS[name]], launch, machine, scope="workspace")
    assert change.state == "replace"
    apply_change(change)
    assert command_line(entry(name, launch, change.file)) == RELAY
    assert "/home/other" not in change.file.read_text()


def test_an_older_entry_without_newer_keys_is_replaced(launch, workspace, machine):
    old = {"command": "/x/python", "args": ["/x/codriver_relay.py", "/x/app/.calva/mcp-server/port", "--start"]}
    (workspace / ".mcp.json").write_text(json.dumps({"mcpServers": {"codriver": old}}))
    (change,) = plan_entries([CLIENTS["claude-code"]], launch, machine)
    assert change.state == "replace"


@pytest.mark.parametrize(
    "changed",
    [
        {"env": {"JAVA_HOME": "/jdk"}},
        {"type": "http"},
        {"args": ["/x/codriver_relay.py", "1664"]},
        {"args": ["/x/codriver_relay.py", "/x/.calva/mcp-server/port", "--verbose"]},
        {"args": ["/x/other.py", "/x/.calva/mcp-server/port", "--start"]},
        {"args": [*RELAY[1:], "--verbose"]},
    ],
)
def test_an_entry_modified_by_the_user_is_replaced_only_if_forced(launch, workspace, machine, changed):
    old = {
        "type": "stdio",
        "command": "/x/python",
        "args": ["/x/codriver_relay.py", "/x/.calva/mcp-server/port", "--start"],
    }
    (workspace / ".mcp.json").write_text(json.dumps({"mcpServers": {"codriver": old | changed}}))
    (change,) = plan_entries([CLIENTS["claude-code"]], launch, machine)
    assert change.state == "refused"
    (change,) = plan_entries([CLIENTS["claude-code"]], launch, machine, force=True)
    assert change.state == "replace"


@pytest.mark.parametrize("theirs", [RELAY, UVX, ("uvx", "--from", "codriver==0.9", *RELAY)], ids=" ".join)
def test_another_team_members_shared_entry_is_kept(theirs, launch, workspace, machine):
    (change,) = plan_entries([CLIENTS["gemini"]], Launch(Path("/p"), Path("/r"), workspace, theirs), machine)
    apply_change(change)
    for mine in (RELAY, UVX, ()):
        (again,) = plan_entries([CLIENTS["gemini"]], Launch(Path("/p"), Path("/r"), workspace, mine), machine)
        assert again.state == "same"


# Which command line


def test_a_relay_on_the_search_path_takes_precedence(machine):
    install_relay(machine)
    assert shared_command(machine) == RELAY


@pytest.mark.parametrize("text", ["echo usage: codriver-relay PORT", "echo '`auto`'; exit 3", "exec /nowhere"])
def test_a_relay_that_does_not_support_workspace_auto_is_ignored(machine, text):
    install(machine, "codriver-relay", text)
    assert shared_command(machine) == ()


@pytest.mark.parametrize(
    ("files", "version"),
    [
        ({"INSTALLER": "pip\n"}, __version__),
        ({"INSTALLER": "uv"}, __version__),
        ({"INSTALLER": "Poetry 2.1"}, __version__),
        ({"INSTALLER": "pip\n", "direct_url.json": "{}"}, ""),
        ({"INSTALLER": "debian"}, ""),
        ({}, ""),
    ],
)
def test_uvx_is_used_for_installations_from_a_registry(tmp_path, machine, monkeypatch, files, version):
    about = tmp_path / "site" / f"codriver-{__version__}.dist-info"
    about.mkdir(parents=True)
    for name, text in {"METADATA": f"Name: codriver\nVersion: {__version__}\n", **files}.items():
        (about / name).write_text(text)
    monkeypatch.syspath_prepend(str(about.parent))
    assert registry_version() == version
    assert shared_command(machine) == ()
    install(machine, "uvx", "true")
    assert shared_command(machine) == (("uvx", "--from", f"codriver=={__version__}", *RELAY) if version else ())


def test_a_source_checkout_is_not_recognized_as_a_registry_installation():
    assert metadata.distribution("codriver").read_text("direct_url.json")
    assert registry_version() == ""


# Where none works


def test_local_paths_are_not_written_to_a_file_in_a_repository_unless_forced(workspace, machine):
    launch = Launch(Path("/opt/python"), Path("/opt/r.py"), workspace / "sub", ())
    (workspace / "sub").mkdir()
    (workspace / ".git").write_text("gitdir: /elsewhere\n")
    (change, other) = plan_entries([CLIENTS["gemini"], CLIENTS["claude-code"]], launch, machine)
    assert (change.state, other.state) == ("skipped", "skipped")
    assert "paths from this machine" in change.reason
    assert "codriver init --client gemini --scope user" in change.fix
    assert "--client claude-code --force" in other.fix
    command = shlex.split(other.fix.split("`")[-2])
    assert command[:5] == ["claude", "mcp", "add", "codriver", "--"]
    assert command[5:] == ["/opt/python", "-I", "-S", "/opt/r.py", str(port_file(workspace / "sub")), "--start"]
    assert plan_entries([CLIENTS["gemini"]], launch, machine, scope="user")[0].state == "add"
    (forced,) = plan_entries([CLIENTS["gemini"]], launch, machine, force=True)
    assert "/opt/python" in forced.after


def test_outside_a_repository_paths_are_written_and_reported(workspace, machine):
    launch = Launch(Path("/opt/python"), Path("/opt/r.py"), workspace, ())
    report = run_init(launch, InitOptions(["claude-code"]), machine)
    assert report.exit_status == 0
    assert ".mcp.json contains paths from this machine" in report.text
    assert "--scope user" in report.text


def test_the_command_fails_if_a_named_client_gets_no_entry(workspace, machine):
    (workspace / ".git").mkdir()
    launch = Launch(Path("/opt/python"), Path("/opt/r.py"), workspace, ())
    report = run_init(launch, InitOptions(["claude-code"]), machine)
    assert report.exit_status == 1
    assert "codriver-relay of this version is on the PATH" in report.text
    assert "`uv tool install .` in a checkout of Codriver, then run init again; otherwise" in report.text
    assert not (workspace / ".mcp.json").exists()


def test_no_shared_entry_is_written_to_a_directory_that_workspace_auto_refuses(workspace, machine):
    install_relay(machine)
    workspace.chmod(0o777)
    (workspace / ".git").mkdir()
    launch = Launch(Path("/opt/python"), Path("/opt/r.py"), workspace).with_shared_command(machine)
    assert launch.shared == ()
    (change,) = plan_entries([CLIENTS["zed"]], launch, machine)
    assert "does not accept other users' folders" in change.reason


def test_a_path_that_workspace_auto_refuses_is_explained(workspace, machine):
    install_relay(machine)
    workspace.chmod(0o777)
    launch = Launch(Path("/opt/python"), Path("/opt/r.py"), workspace).with_shared_command(machine)
    report = run_init(launch, InitOptions(["claude-code"]), machine)
    assert ".mcp.json contains paths from this machine, because --workspace auto does not accept" in report.text
    assert "on the PATH, for example with pipx" not in report.text


# What is said, and what is left


def test_a_shared_file_may_be_committed_and_its_requirements_are_listed(launch, workspace, machine):
    (workspace / ".git").mkdir()
    text = run_init(launch, InitOptions(["claude-code"]), machine).text
    assert (
        "git: .mcp.json contains no paths from this machine and may be committed; everyone who works on "
        "the project needs "
        "codriver-relay" in text
    )


def test_a_relay_in_a_virtual_environment_is_reported(launch, workspace, machine, tmp_path):
    install_relay(machine)
    reported = f"here it is in {tmp_path}, so start clients with that environment activated"
    assert reported not in run_init(launch, InitOptions(["claude-code"]), machine).text
    (tmp_path / "pyvenv.cfg").touch()
    assert reported in run_init(launch, InitOptions(["vscode"]), machine).text


def test_a_workspace_without_a_project_has_a_marker_file_until_the_last_removal(launch, workspace, machine):
    run_init(launch, InitOptions(["claude-code", "vscode"]), machine)
    mark = workspace / "codriver.toml"
    assert mark.read_text() == WORKSPACE_MARK
    assert tomllib.loads(WORKSPACE_MARK) == {}
    run_init(launch, InitOptions(["vscode"], remove=True), machine)
    assert mark.exists()
    run_init(launch, InitOptions(["claude-code"], remove=True), machine)
    assert [file.name for file in workspace.iterdir()] == ["README.md"]


def test_a_marker_file_with_content_is_kept(launch, workspace, machine):
    run_init(launch, InitOptions(["claude-code"]), machine)
    (workspace / "codriver.toml").write_text(WORKSPACE_MARK + "watch = true\n")
    run_init(launch, InitOptions(["claude-code"], remove=True), machine)
    assert (workspace / "codriver.toml").exists()


def test_a_workspace_with_a_project_gets_no_marker_file(launch, workspace, machine):
    (workspace / ".git").mkdir()
    run_init(launch, InitOptions(["claude-code"]), machine)
    assert not (workspace / "codriver.toml").exists()


def test_doctor_reports_a_shared_entry_whose_program_is_missing(launch, workspace, machine):
    (workspace / ".mcp.json").write_text("{}")
    install_relay(machine)
    apply_change(plan_entries([CLIENTS["claude-code"]], launch, machine)[0])
    (check, *_) = check_entries(launch, machine)
    assert check.state == "ok"
    (Path(machine.variables["PATH"]) / "codriver-relay").unlink()
    (check, *_) = check_entries(launch, machine)
    assert (check.state, "codriver-relay does not exist" in check.text) == ("wrong", True)


def test_doctor_reports_an_older_entry_and_how_to_replace_it(launch, workspace, machine):
    old = Launch(Path(sys.executable), Path(codriver_relay.__file__).with_name("codriver_relay.py"), workspace)
    apply_change(plan_entries([CLIENTS["claude-code"]], old, machine)[0])
    (check, *_) = check_entries(launch, machine)
    assert "codriver init --client claude-code writes an entry without paths" in check.fix


def test_doctor_explains_why_a_shared_file_has_no_entry(launch, workspace, machine):
    (workspace / ".git").mkdir()
    (workspace / ".mcp.json").write_text("{}")
    nowhere = Launch(launch.python, launch.relay, workspace, ())
    (check, *_) = check_entries(nowhere, machine)
    assert check.state == "note"
    assert f"Claude Code has no entry in {workspace / '.mcp.json'}: the file is in git" in check.text
    assert "no codriver-relay of this version is on the PATH" in check.text
    assert "--force writes them anyway" in check.fix


def test_doctor_explains_that_a_file_belongs_to_another_client(launch, workspace, machine):
    (workspace / ".mcp.json").write_text('{"servers": {}}')
    (check, *_) = check_entries(launch, machine)
    assert check.state == "note"
    assert "the file has the key servers of other clients, and" in check.text
    assert check.fix == "use separate files for the two clients"


def test_doctor_locates_the_error_in_a_shared_file(launch, workspace, machine):
    (workspace / ".mcp.json").write_text('{"mcpServers": {\n  "codriver" {}}}')
    (check, *_) = check_entries(launch, machine)
    assert check.state == "wrong"
    assert f"{workspace / '.mcp.json'}: Claude Code cannot read the file: " in check.text
    assert "line 2" in check.text


# For real


def evaluated(client):
    """Return the current directory of the REPL of a client that starts without a server."""
    about = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "agent", "version": "1"}}
    client.send(request("first", "initialize", **about), INITIALIZED)
    client.send(request(8, name="evaluate_code", arguments={"code": "__import__('os').getcwd()", "detail": True}))
    result = next(line["result"] for line in iter(client.receive, None) if line.get("id") == 8)
    return str(result["structuredContent"].get("result", result))


def test_an_entry_written_by_init_starts_a_server_for_its_workspace(workspace, machine, tmp_path, stack):
    install_relay(machine)
    (workspace / "a" / "b").mkdir(parents=True)
    (workspace / "shop.py").touch()
    place = f"{machine.variables['PATH']}{os.pathsep}{os.environ['PATH']}"
    ours = environ(tmp_path) | {"PATH": place, "CODRIVER_MCP_SOCKET_SERVER_PORT": "0"}
    ours.pop("CLAUDE_PROJECT_DIR", None)
    done = forked.run(["-w", str(workspace), "init", "--client", "claude-code"], env=ours)
    assert done.returncode == 0, done
    command, *words = command_line(json.loads((workspace / ".mcp.json").read_text())["mcpServers"]["codriver"])
    stack.callback(forked.run, ["-w", str(workspace), "stop"], env=ours)
    client = RelayProcess(
        *words, command=shutil.which(command, path=place), cwd=workspace / "a" / "b", environment=ours
    )
    stack.callback(client.close)
    assert str(workspace) in evaluated(client)


@pytest.mark.slow
def test_uvx_runs_the_relay_of_this_checkout(workspace, tmp_path, stack):
    program("uvx", install="pip install uv", is_expected=False)
    (workspace / "shop.py").touch()
    (workspace / ".git").mkdir()
    ours = environ(tmp_path) | {"CODRIVER_MCP_SOCKET_SERVER_PORT": "0", "UV_CACHE_DIR": str(run_directory() / "uv")}
    ours.pop("CLAUDE_PROJECT_DIR", None)
    from_here = ["uvx", "--from", str(Path(__file__).parents[2])]
    fetched = subprocess.run([*from_here, "true"], env=ours, capture_output=True, check=False)
    if fetched.returncode:
        do_without(f"uvx cannot build here: {fetched.stderr[-300:]!r}", is_expected=False)
    stack.callback(forked.run, ["-w", str(workspace), "stop"], env=ours)
    words = [*from_here[1:], "codriver-relay", "--workspace", "auto", "--start"]
    client = RelayProcess(*words, command="uvx", cwd=workspace, environment=ours)
    stack.callback(client.close)
    assert str(workspace) in evaluated(client)
