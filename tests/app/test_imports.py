"""Modules needed later or never are not imported before the server listens, as each costs memory and time."""

import subprocess
import sys

from live_server import WAIT_S, environ

LATER = (
    "regex",
    "transit",
    "tomlkit",
    "codriver_relay.messages",
    "codriver_relay.streams",
    "codriver_relay.server_verification",
    "codriver.features.page.page_server",
    "codriver.features.page.watch_options",
    "codriver.setup",
    "codriver_datalog.query_parser",
    "codriver.commands.watch",
    "codriver.features.jupyter.kernels.jupyter_adapter",
    "cryptography",
    "h11",
    "httpx2",
    "mcp",
    "tomllib",
    "urllib.request",
    "yaml",
)


def test_a_server_listens_before_it_imports_modules_that_it_needs_only_later(tmp_path):
    (tmp_path / "workspace").mkdir()
    command = [sys.executable, "-X", "importtime", "-m", "codriver", "serve", "--repl", "none", "--port", "0"]
    with (
        (tmp_path / "imports").open("w") as reported,
        subprocess.Popen(
            command,
            cwd=tmp_path / "workspace",
            env=environ(tmp_path),
            stdout=subprocess.PIPE,
            stderr=reported,
            text=True,
        ) as server,
    ):
        try:
            assert "listens" in server.stdout.readline()
            lines = (tmp_path / "imports").read_text().splitlines()
        finally:
            server.terminate()
            server.communicate(timeout=WAIT_S)
    imported = {line.rpartition("|")[2].strip() for line in lines if line.startswith("import time:")}
    assert "codriver.app.serve" in imported
    assert [name for name in sorted(imported) if name.startswith(LATER)] == []
