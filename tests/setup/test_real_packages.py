"""The packages with the programs they are for: each validates, installs and starts its own."""

import contextlib
import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import needs
import pytest
from lent_servers import run_directory
from live_server import environ
from real_clients import AGENTS, ClientHome, program
from scripted_model import SAID, serving_model

from relay.relay_process import INITIALIZED, RelayProcess, request

ROOT = Path(__file__).parents[2]
PLUGIN = ROOT / "wrapper-config" / "plugin"

INSTALLED = {
    "claude-code": (["plugin", "install", "codriver@codriver"], "Successfully installed plugin: codriver@codriver"),
    "copilot": (["plugin", "install", "codriver@codriver"], "Installed 4 skills"),
    "codex": (["plugin", "add", "codriver@codriver"], "Added plugin `codriver` from marketplace `codriver`"),
}
EXTENDED = ["gemini", "qwen"]

pytestmark = pytest.mark.slow


@pytest.fixture
def home(tmp_path):
    """Create a home directory and a workspace with the relay on the search path, as after an installation."""
    home = ClientHome(tmp_path)
    home.trust()
    (home.workspace / "pyproject.toml").write_text("")  # by which the relay knows it for a project
    beside = Path(sys.executable).parent
    assert (beside / "codriver-relay").is_file()
    home.environment["PATH"] = f"{beside}{os.pathsep}{home.environment['PATH']}"
    home.environment["CODRIVER_MCP_SOCKET_SERVER_PORT"] = "0"
    return home


@contextlib.contextmanager
def stopping(home):
    """End the server that a client started there."""
    try:
        yield
    finally:
        home.codriver("stop", "--for-good")


@pytest.mark.parametrize("folder", [ROOT, PLUGIN], ids=["marketplace", "plugin"])
def test_claude_code_validates_the_plugin(home, folder):
    displayed = home.run(program("claude"), "plugin", "validate", str(folder), "--strict")
    assert "✔ Validation passed" in displayed, displayed


def test_the_claude_code_directory_profile_accepts_the_plugin(home):
    displayed = home.run(program("claude"), "plugin", "validate", str(PLUGIN), "--profile", "directory")
    assert "✔ Validation passed" in displayed, displayed


@pytest.mark.parametrize("name", INSTALLED)
def test_the_plugin_is_installed_and_its_server_evaluates(home, name):
    words, text = INSTALLED[name]
    # Each starts it in a folder of its own choice, and the server is to be that of the project.
    with stopping(home), serving_model({"code": "__import__('os').getcwd()"}) as model:
        (command, *task), variables = AGENTS[name](home, model.url)
        agent = program(command)
        home.run(agent, "plugin", "marketplace", "add", str(ROOT))
        installed = home.run(agent, *words)
        assert text in installed, installed
        # An agent that is given its task at once does not wait long for servers, so this one is there before.
        home.codriver("eval", "--start", "0")
        task = [word.replace("mcp__codriver__", "mcp__plugin_codriver_codriver__") for word in task]
        displayed = home.run(agent, *task, **variables)
    assert SAID in displayed, displayed
    assert model.results, f"the tool was not called: {displayed}"
    (result,) = model.results
    reported = json.dumps(result, ensure_ascii=False).replace("\\", "").replace('": ', '":')
    assert f'"result":"\'{home.workspace}\'"' in reported


@pytest.mark.parametrize("name", EXTENDED)
def test_the_plugin_directory_can_be_installed_as_an_extension_of_other_clients(home, name):
    agent = program(name)
    if name == "gemini":
        displayed = home.run(agent, "extensions", "validate", str(PLUGIN))
        assert "has been successfully validated" in displayed, displayed
        trusted = home.home / ".gemini" / "trustedFolders.json"
        trusted.write_text(json.dumps({str(home.workspace): "TRUST_FOLDER", str(PLUGIN): "TRUST_FOLDER"}))
    installed = home.run(agent, "extensions", "install", str(PLUGIN), "--consent")
    assert "installed successfully" in installed, installed
    with stopping(home):
        displayed = home.run(agent, "mcp", "list")
    assert "✓ codriver" in displayed, displayed
    assert "codriver-relay --workspace auto --start --no-skills (stdio) - Connected" in displayed, displayed


# The bundle for Claude Desktop


@pytest.fixture
def bundle(tmp_path):
    folder = tmp_path / "bundle"
    maker = [sys.executable, ROOT / "wrapper-config" / "make_packages.py"]
    subprocess.run([*maker, "--bundle", folder], check=True, timeout=60)
    return folder


def test_the_bundle_is_valid_and_packed(home, bundle):
    mcpb = program("mcpb")
    displayed = home.run(mcpb, "validate", str(bundle / "manifest.json"))
    assert "Manifest schema validation passes" in displayed, displayed
    packed = bundle.parent / "codriver.mcpb"
    displayed = home.run(mcpb, "pack", str(bundle), str(packed))
    assert packed.is_file(), displayed
    with zipfile.ZipFile(packed) as archive:
        names = set(archive.namelist())
    assert names == {path.relative_to(bundle).as_posix() for path in bundle.rglob("*") if path.is_file()}


def test_uv_can_run_the_bundle(home, bundle):
    needs.program("uv", install="pip install uv", is_expected=False)
    config = json.loads((bundle / "manifest.json").read_text())["server"]["mcp_config"]
    filled = {"${__dirname}": str(bundle), "${user_config.workspace}": str(home.workspace)}
    words = [filled.get(word, word) for word in config["args"]]
    environment = {**environ(bundle.parent), **home.environment, "UV_CACHE_DIR": str(run_directory() / "uv")}
    fetched = subprocess.run(
        [config["command"], *words[: words.index("codriver-relay")], "true"],
        env=environment, capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    if fetched.returncode:
        needs.do_without(f"uv cannot build here: {fetched.stderr[-300:]}", is_expected=False)
    with contextlib.ExitStack() as stack:
        stack.enter_context(stopping(home))
        client = RelayProcess(*words, command=config["command"], cwd=home.home, environment=environment)
        stack.callback(client.close)
        about = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "desktop", "version": "1"}}
        client.send(request(1, "initialize", **about), INITIALIZED)
        client.send(request(2, name="evaluate_code", arguments={"code": "__import__('os').getcwd()"}))
        answer = next(line for line in iter(client.receive, None) if line.get("id") == 2)
    assert str(home.workspace) in json.dumps(answer), answer
