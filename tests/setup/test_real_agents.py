"""Whole agents over the entries that `codriver init` writes: a model of ours asks, the real client calls the tool."""

import json
import sys
from pathlib import Path

import pytest
from real_clients import Place, program
from scripted_model import SAID, serving_model

import codriver_relay
from codriver.setup.change_plan import apply, plan
from codriver.setup.clients import Environment, Launch, known_clients

pytestmark = pytest.mark.slow


def claude_code(place, url):
    variables = {"ANTHROPIC_BASE_URL": url, "ANTHROPIC_API_KEY": "none"}
    return ["claude", "-p", "go", "--allowedTools", "mcp__codriver__evaluate_code"], variables


def cline(place, url):
    place.run(program("cline"), "auth", "openai", "-k", "none", "-m", "ours", "-b", f"{url}/v1")
    return ["cline", "-P", "openai-compatible", "go on"], {}


def codex(place, url):
    settings = place.home / ".codex" / "config.toml"
    model = f'[model_providers.ours]\nname = "ours"\nbase_url = "{url}/v1"\nwire_api = "responses"\n'
    settings.write_text(f'model = "ours"\nmodel_provider = "ours"\n{model}{settings.read_text()}')
    return ["codex", "exec", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox", "go"], {}


def copilot(place, url):
    # Without an account it lives on a provider given by its variables, and only with a model whose name it knows.
    variables = {
        "COPILOT_PROVIDER_BASE_URL": f"{url}/v1",
        "COPILOT_PROVIDER_API_KEY": "none",
        "COPILOT_MODEL": "gpt-5-mini",
    }
    return ["copilot", "-p", "go", "--allow-all-tools"], variables


def gemini(place, url):
    settings = {"security": {"auth": {"selectedType": "gemini-api-key"}}, "privacy": {"usageStatisticsEnabled": False}}
    (place.home / ".gemini" / "settings.json").write_text(json.dumps(settings))
    variables = {"GEMINI_API_KEY": "none", "GOOGLE_GEMINI_BASE_URL": url}
    return ["gemini", "--model", "gemini-2.5-pro", "--yolo", "-p", "go"], variables


def qwen(place, url):
    settings = {"security": {"auth": {"selectedType": "openai"}}, "privacy": {"usageStatisticsEnabled": False}}
    (place.home / ".qwen" / "settings.json").write_text(json.dumps(settings))
    place.run(program("qwen"), "mcp", "approve", "codriver")
    # An entry of a workspace is read where the folder is trusted, and started where it is approved too.
    variables = {"OPENAI_API_KEY": "none", "OPENAI_BASE_URL": f"{url}/v1", "OPENAI_MODEL": "ours"}
    return ["qwen", "--yolo", "-p", "go"], variables


def opencode(place, url):
    folder = place.home / ".config" / "opencode"
    folder.mkdir(parents=True)
    options = {"baseURL": f"{url}/v1", "apiKey": "none"}
    ours = {"npm": "@ai-sdk/openai-compatible", "options": options, "models": {"ours": {"tool_call": True}}}
    settings = {"model": "ours/ours", "small_model": "ours/ours", "provider": {"ours": ours}}
    (folder / "opencode.json").write_text(json.dumps(settings))
    return ["opencode", "run", "go"], {}


AGENTS = {
    "claude-code": claude_code,
    "copilot": copilot,
    "cline": cline,
    "codex": codex,
    "gemini": gemini,
    "qwen": qwen,
    "opencode": opencode,
}


@pytest.mark.parametrize("name", AGENTS)
def test_the_agent_evaluates(tmp_path, name):
    place = Place(tmp_path)
    place.trust()
    (place.workspace / "module.py").write_text("")
    launch = Launch(Path(sys.executable), Path(codriver_relay.__file__), place.workspace)
    machine = Environment(place.home, "linux", place.environment)
    (change,) = plan([known_clients()[name]], launch, machine)
    apply(change)
    with serving_model({"code": "print('hé')\n6 * 7"}) as model:
        (command, *words), variables = AGENTS[name](place, model.url)
        agent = program(command)
        # An agent that is given its task at once does not wait long for servers, so this one is there before.
        place.run(sys.executable, "-m", "codriver", "eval", "--start", "0", CODRIVER_MCP_SOCKET_SERVER_PORT="0")
        try:
            shown = place.run(agent, *words, **variables)
        finally:
            stopped = place.run(sys.executable, "-m", "codriver", "stop")
    assert SAID in shown, shown
    assert model.results, f"the tool was not called: {shown}"
    (result,) = model.results
    told = json.dumps(result, ensure_ascii=False).replace("\\", "").replace('": ', '":')
    assert '"result":"42"' in told
    assert '"stdout":"hén"' in told
    assert stopped.startswith("stopped pid"), stopped
