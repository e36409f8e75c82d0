"""The packages match their description and the rules of their formats.

`test_real_packages.py` tests them with the programs they are for.
"""

import base64
import importlib.util
import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import needs
import pytest
from all_tools import BY_NAME

from codriver import __version__
from codriver.repls.worker.serving.nrepl_server import WORKER_VERSION
from codriver.setup.shared_command import RELAY_COMMAND

ROOT = Path(__file__).parents[2]
PLUGIN = ROOT / "wrapper-config" / "plugin"
MAKER = ROOT / "wrapper-config" / "make_packages.py"
ENTRY = {"command": RELAY_COMMAND[0], "args": list(RELAY_COMMAND[1:])}


def maker():
    spec = importlib.util.spec_from_file_location("make_packages", MAKER)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def read(path):
    return json.loads((ROOT / path).read_text())


def links():
    (block,) = re.findall(
        "<!-- packages: .*?-->\n(.*?)\n<!-- /packages -->", (ROOT / "README.md").read_text(), re.DOTALL
    )
    return dict(re.findall(r"\[([^]]+)\]\(([^)]+)\)", block))


@pytest.mark.parametrize("path", maker().packages(), ids=str)
def test_every_package_file_matches_the_generated_content(path):
    assert (ROOT / path).read_text() == maker().packages()[path], "run `python wrapper-config/make_packages.py`"


def test_the_plugin_contains_no_stale_file():
    written = {path for path in maker().packages() if path.is_relative_to("wrapper-config/plugin")}
    assert {path.relative_to(ROOT) for path in PLUGIN.rglob("*") if path.is_file()} == written


@pytest.mark.parametrize("name", [".mcp.json", ".codex-plugin/mcp.json", "gemini-extension.json"])
def test_the_plugin_starts_the_relay_without_a_path(name):
    (entry,) = read(PLUGIN / name)["mcpServers"].values()
    *args, last = entry["args"]
    assert {**entry, "args": args}.items() >= ENTRY.items()
    assert last == "--no-skills"  # the plugin has them as files


def test_each_client_starts_the_plugins_server_in_the_project():
    (shared,), (codex,) = (
        read(PLUGIN / name)["mcpServers"].values() for name in (".mcp.json", ".codex-plugin/mcp.json")
    )
    assert shared["cwd"] == "."  # without it Copilot CLI takes the plugin's folder
    assert "cwd" not in codex  # with it Codex takes one below the plugin
    assert "tools" not in codex  # a key unknown to it, with which it would drop the entry


def test_every_package_has_the_version_of_codriver():
    for path in (
        "plugin/.claude-plugin/plugin.json",
        "plugin/gemini-extension.json",
        "mcpb/manifest.json",
        "server.json",
    ):
        assert read(f"wrapper-config/{path}")["version"] == __version__
    (package,) = read("wrapper-config/server.json")["packages"]
    assert package["version"] == __version__


def test_the_worker_has_the_version_of_the_package():
    assert __version__ == WORKER_VERSION


def test_the_plugin_page_says_that_codriver_must_be_installed():
    assert f"`{RELAY_COMMAND[0]}` has to be on the PATH" in " ".join((PLUGIN / "README.md").read_text().split())


# The subagent for failing tests

MAX_BYTES, MAX_OF_WHEN = 1_400, 200


def test_the_subagent_and_its_skill_match_in_each_clients_format():
    body = (ROOT / "wrapper-config/live-debugger.md").read_text()
    agent = (PLUGIN / "agents/live-debugger.agent.md").read_text()
    skill = (PLUGIN / "skills/debugging-live/SKILL.md").read_text()
    codex = tomllib.loads((PLUGIN / "codex-agents/live-debugger.toml").read_text())
    heads = [dict(re.findall(r"^(\w+): (.+)$", text.split("---")[1], re.MULTILINE)) for text in (agent, skill)]
    assert [head["name"] for head in heads] == ["live-debugger", "debugging-live"]
    assert {json.loads(head["description"]) for head in heads} == {codex["description"]}
    assert agent.endswith(body)
    assert skill.endswith(body)
    assert (codex["name"], codex["developer_instructions"]) == ("live-debugger", body)
    assert len(body.encode()) <= MAX_BYTES
    assert len(codex["description"]) <= MAX_OF_WHEN


def test_the_subagent_names_only_existing_tools_and_arguments():
    needs.every_feature()
    body = (ROOT / "wrapper-config/live-debugger.md").read_text()
    named = set(re.findall(r"`([a-z]+(?:_[a-z]+)*)`", body)) - {"undecided", "label", "edits", "candidates"}
    arguments = {name for tool in BY_NAME.values() for name in tool.schema["properties"]}
    assert {name for name in named if "_" in name} <= BY_NAME.keys()
    assert {name for name in named if "_" not in name} <= arguments | BY_NAME.keys()


# The MCP registry


def test_the_registry_entry_fits_its_schema():
    """The limits of server.schema.json of 2025-12-11, as far as they apply to this entry."""
    entry = read("wrapper-config/server.json")
    assert entry["$schema"].startswith("https://static.modelcontextprotocol.io/schemas/20")
    assert entry.keys() == {"$schema", "name", "title", "description", "version", "packages"}
    assert re.fullmatch(r"[a-zA-Z0-9.-]+/[a-zA-Z0-9._-]+", entry["name"])
    assert 3 <= len(entry["name"]) <= 200
    assert 1 <= len(entry["description"]) <= 100
    assert 1 <= len(entry["title"]) <= 100
    assert re.fullmatch(r"\d+\.\d+\.\d+", entry["version"])  # neither a range nor `latest`
    (package,) = entry["packages"]
    assert package["registryType"] == "pypi"
    assert package["transport"] == {"type": "stdio"}
    for argument in package["packageArguments"]:
        expected = {"positional": {"type", "value"}, "named": {"type", "name"}}[argument["type"]]
        assert expected <= argument.keys() <= {"type", "name", "value"}


def test_the_registry_name_is_in_the_readme():
    assert f"mcp-name: {read('wrapper-config/server.json')['name']} " in (ROOT / "README.md").read_text()


def test_the_command_line_in_the_registry_entry_is_that_of_the_relay():
    (package,) = read("wrapper-config/server.json")["packages"]
    words = [
        part
        for argument in package["packageArguments"]
        for part in (argument.get("name"), argument.get("value"))
        if part
    ]
    assert (package["identifier"], *words) == ("codriver", "relay", *RELAY_COMMAND[1:])


def test_the_codriver_relay_command_starts_the_relay():
    def run(*words):
        return subprocess.run([sys.executable, *words], capture_output=True, text=True, check=False, timeout=60)

    by_name = run("-m", "codriver", "relay", "--workspace", "auto", "--help")
    assert (by_name.returncode, by_name.stdout) == (0, run("-m", "codriver_relay", "--help").stdout)
    refused = run("-m", "codriver", "relay", "--none-such")
    assert (refused.returncode, refused.stderr) == (2, run("-m", "codriver_relay", "--none-such").stderr)


# Links that add the entry to a client


def test_the_vs_code_install_link_contains_the_entry():
    link = urlsplit(links()["VS Code"])
    assert link.path == "/redirect/mcp/install"
    requested = parse_qs(link.query)
    assert requested["name"] == ["codriver"]
    assert json.loads(requested["config"][0]) == ENTRY


@pytest.mark.parametrize("client", ["Cursor", "LM Studio"])
def test_install_links_of_other_clients_contain_the_entry_in_base64(client):
    link = urlsplit(links()[client])
    assert link.path.endswith("/install-mcp")
    requested = parse_qs(link.query)
    assert requested["name"] == ["codriver"]
    assert json.loads(base64.b64decode(requested["config"][0], validate=True)) == ENTRY


# The bundle for Claude Desktop


@pytest.fixture(scope="module")
def bundle(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bundle") / "laid out"
    subprocess.run([sys.executable, MAKER, "--bundle", folder], check=True, timeout=60)
    return folder


def test_the_bundle_contains_everything_its_project_file_names(bundle):
    manifest = json.loads((bundle / "manifest.json").read_text())
    assert (bundle / manifest["server"]["entry_point"]).is_file()
    for name in (
        "pyproject.toml",
        "README.md",
        "LICENSE",
        "server/codriver/__main__.py",
        "skills",
        "wrapper-config/clients.toml",
    ):
        assert (bundle / name).exists(), name
    assert not list(bundle.rglob("__pycache__"))


def test_installing_the_bundle_prompts_for_the_project_directory(bundle):
    manifest = json.loads((bundle / "manifest.json").read_text())
    words = manifest["server"]["mcp_config"]["args"]
    requested = re.findall(r"\$\{user_config\.(\w+)\}", " ".join(words))
    assert requested == list(manifest["user_config"])
    assert all(manifest["user_config"][name]["required"] for name in requested)


def test_unknown_options_of_the_package_script_are_refused():
    done = subprocess.run([sys.executable, MAKER, "--else"], check=False, timeout=60, capture_output=True, text=True)
    assert done.returncode == 2
    assert "--bundle FOLDER" in done.stderr
