"""The clients that can be set up: their templates and their files."""

import json
import re
import sys
import tomllib
from pathlib import Path

import pytest

from codriver.files.codriver_paths import shipped_directory
from codriver.setup.client_entries import command_line
from codriver.setup.clients import (
    NoSuchScopeError,
    UnknownClientError,
    detect_clients,
    entry_name,
    known_clients,
    select_clients,
)
from codriver.setup.environment import Environment
from codriver.setup.relay_launch import Launch

CLIENTS = known_clients()
LAUNCH = Launch(Path("/opt/python"), Path("/opt/codriver_relay.py"), Path("/work space/app"))
ARGS = ["-I", "-S", "/opt/codriver_relay.py", "/work space/app/.calva/mcp-server/port", "--start"]
IN_FOLDER = ["-I", "-S", "/opt/codriver_relay.py", "${workspaceFolder}/.calva/mcp-server/port", "--start"]


ROO = "User/globalStorage/rooveterinaryinc.roo-cline/settings/mcp_settings.json"
PLAIN = {"command": "/opt/python", "args": ARGS}


def stdio(arguments):
    return {"type": "stdio", "command": "/opt/python", "args": arguments}


# Where each client reads its entry and how it has to look, as the client's own documentation says.
DOCUMENTED = {
    "claude-code": (".mcp.json", None, {"mcpServers": {"codriver": {**stdio(ARGS), "tools": ["*"]}}}),
    "vscode": (".vscode/mcp.json", None, {"servers": {"codriver": stdio(IN_FOLDER)}}),
    "cursor": (".cursor/mcp.json", None, {"mcpServers": {"codriver": stdio(IN_FOLDER)}}),
    "claude-desktop": (
        None,
        ".config/Claude/claude_desktop_config.json",
        {"mcpServers": {"codriver": {"command": "/opt/python", "args": ARGS}}},
    ),
    "windsurf": (
        None,
        ".codeium/windsurf/mcp_config.json",
        {"mcpServers": {"codriver": {"command": "/opt/python", "args": ARGS}}},
    ),
    "gemini": (
        ".gemini/settings.json",
        ".gemini/settings.json",
        {"mcpServers": {"codriver": {"command": "/opt/python", "args": ARGS, "timeout": 660000}}},
    ),
    "codex": (
        ".codex/config.toml",
        ".codex/config.toml",
        {
            "mcp_servers": {
                "codriver": {
                    "command": "/opt/python", "args": ARGS, "startup_timeout_sec": 60, "tool_timeout_sec": 660,
                    "env_vars": ["JAVA_HOME", "VIRTUAL_ENV", "XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME"],
                }
            }
        },
    ),
    "zed": (
        ".zed/settings.json",
        ".config/zed/settings.json",
        {"context_servers": {"codriver": {"command": "/opt/python", "args": ARGS, "env": {}, "timeout": 600}}},
    ),
    "eca": (
        ".eca/config.json",
        ".config/eca/config.json",
        {"mcpServers": {"codriver": {"command": "/opt/python", "args": ARGS}}},
    ),
    "opencode": (
        "opencode.json",
        ".config/opencode/opencode.json",
        {
            "$schema": "https://opencode.ai/config.json",
            "mcp": {
                "codriver": {
                    "type": "local", "command": ["/opt/python", *ARGS], "enabled": True, "timeout": 660000,
                }
            },
        },
    ),
    "copilot": (
        ".mcp.json",
        ".copilot/mcp-config.json",
        {"mcpServers": {"codriver": {**stdio(ARGS), "tools": ["*"]}}},
    ),
    "cline": (
        None,
        ".cline/data/settings/cline_mcp_settings.json",
        {"mcpServers": {"codriver": {"transport": stdio(ARGS)}}},
    ),
    "cline-vscode": (
        None,
        ".config/Code/User/globalStorage/saoudrizwan.claude-dev/settings/cline_mcp_settings.json",
        {"mcpServers": {"codriver": {**PLAIN, "timeout": 660}}},
    ),
    "qwen": (
        ".qwen/settings.json",
        ".qwen/settings.json",
        {"mcpServers": {"codriver": {**PLAIN, "timeout": 660000}}},
    ),
    "visual-studio": (".mcp.json", ".mcp.json", {"servers": {"codriver": stdio(ARGS)}}),
    "junie": (".junie/mcp/mcp.json", ".junie/mcp/mcp.json", {"mcpServers": {"codriver": PLAIN}}),
    "kiro": (
        ".kiro/settings/mcp.json",
        ".kiro/settings/mcp.json",
        {"mcpServers": {"codriver": {**PLAIN, "timeout": 660000}}},
    ),
    "roo": (
        ".roo/mcp.json",
        ".config/Code/User/globalStorage/rooveterinaryinc.roo-cline/settings/mcp_settings.json",
        {"mcpServers": {"codriver": {**PLAIN, "timeout": 660}}},
    ),
    "kilo": (
        "kilo.json",
        ".config/kilo/kilo.json",
        {
            "mcp": {
                "codriver": {
                    "type": "local", "command": ["/opt/python", *ARGS], "enabled": True, "timeout": 660000,
                }
            },
        },
    ),
    "amp": (".amp/settings.json", ".config/amp/settings.json", {"amp.mcpServers": {"codriver": PLAIN}}),
    "warp": (".warp/.mcp.json", ".warp/.mcp.json", {"mcpServers": {"codriver": PLAIN}}),
    "lm-studio": (None, ".lmstudio/mcp.json", {"mcpServers": {"codriver": PLAIN}}),
    "droid": (
        ".factory/mcp.json",
        ".factory/mcp.json",
        {"mcpServers": {"codriver": {**stdio(ARGS), "disabled": False}}},
    ),
    "auggie": (None, ".augment/settings.json", {"mcpServers": {"codriver": PLAIN}}),
    "crush": (
        "crush.json",
        ".config/crush/crush.json",
        {"mcp": {"codriver": {**stdio(ARGS), "timeout": 660}}},
    ),
}  # fmt: skip


@pytest.fixture
def machine(tmp_path):
    (tmp_path / "home").mkdir()
    return Environment(tmp_path / "home", "linux", {"PATH": ""})


def read(client, text):
    return tomllib.loads(text) if client.is_toml else json.loads(text)


def test_every_client_has_a_documented_form():
    assert list(DOCUMENTED) == list(CLIENTS)


@pytest.mark.parametrize("name", CLIENTS)
def test_a_rendered_template_matches_the_clients_documentation(name):
    assert read(CLIENTS[name], CLIENTS[name].render(LAUNCH, "codriver")) == DOCUMENTED[name][2]


@pytest.mark.parametrize("name", CLIENTS)
def test_each_entry_is_written_to_the_file_that_the_client_documents(name, machine):
    workspace_file, user_file, whole = DOCUMENTED[name]
    client = CLIENTS[name]
    workspace = machine.home / "w"
    places = {
        "workspace": workspace_file and workspace / workspace_file,
        "user": user_file and machine.home / user_file,
    }
    assert client.scopes == tuple(scope for scope, file in places.items() if file)
    for scope in client.scopes:
        assert client.file(scope, workspace, machine) == places[scope]
    node = whole
    for key in client.entry_path():
        node = node[key]
    assert node == {"codriver": client.entry(LAUNCH, "codriver")}


@pytest.mark.parametrize("name", CLIENTS)
def test_unusual_paths_are_written_correctly(name):
    client = CLIENTS[name]
    launch = Launch(Path('/p "q"/py\\thon'), Path("/релей/r.py"), Path("/w {{name}}"))
    command = command_line(client.entry(launch, "codriver"))
    assert command[:4] == (str(launch.python), "-I", "-S", str(launch.relay))
    if "${workspaceFolder}" not in command[4]:
        assert command[4] == "/w {{name}}/.calva/mcp-server/port"


@pytest.mark.parametrize(
    ("platform", "variables", "client", "file"),
    [
        ("macos", {}, "claude-desktop", "Library/Application Support/Claude/claude_desktop_config.json"),
        ("windows", {"APPDATA": "/roaming"}, "claude-desktop", "/roaming/Claude/claude_desktop_config.json"),
        ("windows", {}, "claude-desktop", "AppData/Roaming/Claude/claude_desktop_config.json"),
        ("macos", {"XDG_CONFIG_HOME": "/xdg"}, "zed", ".config/zed/settings.json"),
        ("linux", {"XDG_CONFIG_HOME": "/xdg"}, "zed", "/xdg/zed/settings.json"),
        ("linux", {"XDG_CONFIG_HOME": "relative"}, "zed", ".config/zed/settings.json"),
        ("linux", {"CODEX_HOME": "/codex"}, "codex", "/codex/config.toml"),
        ("linux", {"COPILOT_HOME": "/copilot"}, "copilot", "/copilot/mcp-config.json"),
        ("macos", {}, "roo", f"Library/Application Support/Code/{ROO}"),
        ("windows", {"APPDATA": "/roaming"}, "roo", f"/roaming/Code/{ROO}"),
        ("windows", {}, "crush", "AppData/Local/crush/crush.json"),
        ("linux", {"XDG_CONFIG_HOME": "/xdg"}, "opencode", "/xdg/opencode/opencode.json"),
    ],
)
def test_the_path_of_a_user_file_depends_on_the_platform_and_environment_variables(
    tmp_path, platform, variables, client, file
):
    machine = Environment(tmp_path, platform, variables)
    assert CLIENTS[client].file("user", tmp_path, machine) == tmp_path / file


def test_a_client_from_the_windows_store_has_its_own_file(tmp_path):
    desktop = CLIENTS["claude-desktop"]
    machine = Environment(tmp_path, "windows", {"LOCALAPPDATA": str(tmp_path / "local")})
    plain = tmp_path / "AppData" / "Roaming" / "Claude" / "claude_desktop_config.json"
    assert not desktop.is_installed(machine)
    assert desktop.file("user", tmp_path, machine) == plain
    package = tmp_path / "local" / "Packages" / "Claude_key" / "LocalCache" / "Roaming" / "Claude"
    package.mkdir(parents=True)
    assert desktop.is_installed(machine)
    assert desktop.file("user", tmp_path, machine) == package / "claude_desktop_config.json"


def test_every_client_has_a_user_file_on_all_platforms_or_on_none():
    for client in CLIENTS.values():
        assert set(client.user) in (set(), {"linux", "macos", "windows"})


def test_an_existing_file_takes_precedence_over_the_first_candidate(machine, tmp_path):
    (tmp_path / "opencode.jsonc").write_text("{}")
    assert CLIENTS["opencode"].file("workspace", tmp_path, machine) == tmp_path / "opencode.jsonc"


def test_an_unsupported_scope_is_refused(machine, tmp_path):
    with pytest.raises(NoSuchScopeError, match="Use --scope user"):
        CLIENTS["windsurf"].file("workspace", tmp_path, machine)
    with pytest.raises(NoSuchScopeError, match="Use --scope workspace"):
        CLIENTS["cursor"].file("user", tmp_path, machine)


def test_clients_are_detected_by_their_directories_and_commands(tmp_path):
    workspace, home, programs = (tmp_path / name for name in ("workspace", "home", "bin"))
    for folder in (workspace / ".vscode", home / ".codeium" / "windsurf", programs):
        folder.mkdir(parents=True)
    machine = Environment(home, "linux", {"PATH": str(programs)})
    assert [client.id for client in detect_clients(workspace, machine)] == ["vscode", "windsurf"]
    (programs / "codex").write_text("#!/bin/sh\n")
    (programs / "codex").chmod(0o755)
    assert [client.id for client in detect_clients(workspace, machine)] == ["vscode", "windsurf", "codex"]


def test_clients_are_selected_by_name():
    assert [client.id for client in select_clients(["zed", "eca", "zed"])] == ["zed", "eca"]
    assert [client.id for client in select_clients(["all"])] == list(CLIENTS)
    with pytest.raises(UnknownClientError, match=r"'emacs'\. The known clients are claude-code, vscode"):
        select_clients(["emacs"])


def test_the_launch_command_uses_this_interpreter_and_the_users_relay(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    (tmp_path / "link").symlink_to(tmp_path)
    launch = Launch.current(tmp_path / "link")
    assert launch == Launch(Path(sys.executable), tmp_path / "config" / "codriver" / "codriver_relay.py", tmp_path)


def test_each_workspace_has_its_own_entry_in_a_user_file():
    assert entry_name("workspace", Path("/a/My App")) == "codriver"
    assert entry_name("user", Path("/a/My App")) == "codriver-my-app"
    assert entry_name("user", Path("/")) == "codriver"


def test_every_template_file_is_used():
    folder = shipped_directory("wrapper-config")
    used = {"clients.toml", "printed.toml", "README.md"}
    used |= set(re.findall(r'template = "(.*)"', (folder / "clients.toml").read_text()))
    used |= set(re.findall(r'^"(.*)" = ', (folder / "printed.toml").read_text(), re.MULTILINE))
    # What `make_packages.py` reads and writes is held by a test of its own, and so is what lies in folders.
    used |= {"packages.toml", "make_packages.py", "server.json", "live-debugger.md"}
    assert {file.name for file in shipped_directory("wrapper-config").iterdir() if file.is_file()} == used
