"""Real MCP clients: the programs of `tests/clients/package.json`, run in their own home directory.

None of them has an account, and none may use the network: reports, updates and downloads are switched off.
"""

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
from pathlib import Path

import forked
from needs import expect_clients

HERE = Path(__file__).parents[1] / "clients"
RUN_S = 300

# Variables that stop the clients from contacting anyone.
QUIET = {
    "NO_COLOR": "1",
    "DO_NOT_TRACK": "1",
    "CLINE_NO_AUTO_UPDATE": "1",
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "DISABLE_AUTOUPDATER": "1",
    "DISABLE_TELEMETRY": "1",
    "GEMINI_TELEMETRY_ENABLED": "false",
    # They start themselves again, with more memory than tests need, which takes half of the processor time.
    "GEMINI_CLI_NO_RELAUNCH": "true",
    "QWEN_CODE_NO_RELAUNCH": "true",
    "COPILOT_AUTO_UPDATE": "false",
    "COPILOT_OFFLINE": "true",
    "OPENCODE_DISABLE_AUTOUPDATE": "1",
    "OPENCODE_DISABLE_MODELS_FETCH": "1",
    "OPENCODE_DISABLE_DEFAULT_PLUGINS": "1",
}


def program(name):
    """Return the client's program; if missing, skip the test, or fail on CI."""
    found = shutil.which(name, path=str(HERE / "node_modules" / ".bin"))
    if found is None:
        expect_clients(f"{name} is not installed: npm install --prefix tests/clients")
    return found


def plain_output(done):
    """Return printed text as one line without colors."""
    return " ".join(re.sub(r"\x1b\[[0-9;]*m", "", done.stdout + done.stderr).split())


class ClientHome:
    """A home directory and a workspace, and the clients that run there."""

    def __init__(self, folder):
        self.home, self.workspace = folder / "home", folder / "app"
        self.home.mkdir()
        self.workspace.mkdir()
        self.environment = {"PATH": os.environ["PATH"], "HOME": str(self.home), **QUIET}

    def run(self, *words, **more):
        """Return what a program prints there, without colors and with all white space collapsed."""
        done = subprocess.run(
            words, cwd=self.workspace, env={**self.environment, **more}, capture_output=True, text=True,
            timeout=RUN_S, check=False, stdin=subprocess.DEVNULL,
        )  # fmt: skip
        return plain_output(done)

    def stop_leftovers(self):
        """End what a client left running, as Cline does: all processes with this home directory, if the system
        reports them.
        """
        home = os.fsencode(f"HOME={self.home}")
        for process in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):  # another user's, or gone meanwhile
                if home in (process / "environ").read_bytes().split(b"\0"):
                    os.kill(int(process.name), signal.SIGTERM)

    def codriver(self, *words, **more):
        """Return what a command of `codriver` prints there, in the same form."""
        return plain_output(forked.run(words, env={**self.environment, **more}, cwd=self.workspace, timeout=RUN_S))

    def trust(self):
        """Tell clients that read workspace files only in trusted directories that this one is trusted."""
        approved = {"hasTrustDialogAccepted": True, "enabledMcpjsonServers": ["codriver"]}
        (self.home / ".claude.json").write_text(json.dumps({"projects": {str(self.workspace): approved}}))
        (self.home / ".codex").mkdir()
        trusted = f'[projects."{self.workspace}"]\ntrust_level = "trusted"\n'
        (self.home / ".codex" / "config.toml").write_text(trusted)
        (self.home / ".copilot").mkdir()
        (self.home / ".copilot" / "config.json").write_text(json.dumps({"trustedFolders": [str(self.workspace)]}))
        for folder in (".gemini", ".qwen"):
            (self.home / folder).mkdir()
            (self.home / folder / "trustedFolders.json").write_text(json.dumps({str(self.workspace): "TRUST_FOLDER"}))


# How each agent is started with a task, given a place and the address of its model: its command line, and variables.


def claude_code(place, url):
    variables = {"ANTHROPIC_BASE_URL": url, "ANTHROPIC_API_KEY": "none"}
    return ["claude", "-p", "go", "--allowedTools", "mcp__codriver__evaluate_code"], variables


def cline(place, url):
    # As `cline auth openai` writes it, which takes a second of processor.
    settings = place.home / ".cline" / "data" / "settings" / "providers.json"
    settings.parent.mkdir(parents=True, exist_ok=True)
    provider = {"provider": "openai-compatible", "apiKey": "none", "model": "ours", "baseUrl": f"{url}/v1"}
    ours = {"settings": provider, "updatedAt": "2026-01-01T00:00:00.000Z", "tokenSource": "manual"}
    message = {"version": 1, "lastUsedProvider": "openai-compatible", "modes": {}}
    settings.write_text(json.dumps({**message, "providers": {"openai-compatible": ours}}))
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
