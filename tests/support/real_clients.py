"""Real MCP clients for tests: the programs of `tests/clients/package.json`, run in a home folder of their own.

None has an account, and none may reach for the network: what would report, update or fetch is switched off.
"""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

HERE = Path(__file__).parents[1] / "clients"
RUN_S = 120

# What the clients read so as to keep to themselves.
QUIET = {
    "NO_COLOR": "1",
    "DO_NOT_TRACK": "1",
    "CLINE_NO_AUTO_UPDATE": "1",
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "DISABLE_AUTOUPDATER": "1",
    "DISABLE_TELEMETRY": "1",
    "GEMINI_TELEMETRY_ENABLED": "false",
    "COPILOT_AUTO_UPDATE": "false",
    "COPILOT_OFFLINE": "true",
    "OPENCODE_DISABLE_AUTOUPDATE": "1",
    "OPENCODE_DISABLE_MODELS_FETCH": "1",
    "OPENCODE_DISABLE_DEFAULT_PLUGINS": "1",
}


def program(name):
    """The client's program; without it the test is skipped, and fails on CI."""
    found = shutil.which(name, path=str(HERE / "node_modules" / ".bin"))
    if found is None:
        words = f"{name} is not installed: npm install --prefix tests/clients"
        is_expected = os.environ.get("CI") and not os.environ.get("CODRIVER_TESTS_WITHOUT_CLIENTS")
        pytest.fail(words) if is_expected else pytest.skip(words)
    return found


class Place:
    """A home folder and a workspace, and the clients run there."""

    def __init__(self, folder):
        self.home, self.workspace = folder / "home", folder / "app"
        self.home.mkdir()
        self.workspace.mkdir()
        self.environment = {"PATH": os.environ["PATH"], "HOME": str(self.home), **QUIET}

    def run(self, *words, **more):
        """What a program prints there, without colours, and with every run of white space as one space."""
        done = subprocess.run(
            words, cwd=self.workspace, env={**self.environment, **more}, capture_output=True, text=True,
            timeout=RUN_S, check=False, stdin=subprocess.DEVNULL,
        )  # fmt: skip
        return " ".join(re.sub(r"\x1b\[[0-9;]*m", "", done.stdout + done.stderr).split())

    def trust(self):
        """Tell the clients that read workspace files only in trusted folders that this one is."""
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
