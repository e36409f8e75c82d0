"""The Python libraries that agents are built with, as clients; each has its own environment."""

import hashlib
import json
import subprocess
import sys
from pathlib import Path

import forked
import pytest
from all_tools import DEFAULT
from live_server import RELAY, environ
from needs import expect_clients

CLIENTS = Path(__file__).parents[1] / "clients"
RUN_S = 120
LIBRARIES = {"fastmcp": "sdk2", "langchain": "sdk1", "openai_agents": "sdk2"}
"""By the script that uses the library: the requirements that it is installed from, which name its environment too."""

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_client_library_lists_every_tool_and_evaluates_code(tmp_path, library):
    venv = CLIENTS / ".venv" / LIBRARIES[library]
    if not (venv / "bin" / "python").exists():
        expect_clients(f"make {venv} and install tests/clients/{LIBRARIES[library]}.txt there")
    (tmp_path / "app" / "src").mkdir(parents=True)
    (tmp_path / "app" / "app.py").write_text("")
    (tmp_path / "app" / "src" / "core.lpy").write_text("(ns core)\n")
    port_file = tmp_path / "app" / ".calva" / "mcp-server" / "port"
    # A library hands few variables on to a server, so the server's folders are found by the home folder alone.
    shared = {key: value for key, value in environ(tmp_path).items() if not key.startswith("XDG_")}
    env = {**shared, "HOME": str(tmp_path), "OPENAI_AGENTS_DISABLE_TRACING": "1"}
    accepted = forked.run(["trust", "--workspace", str(tmp_path / "app")], env=env, timeout=RUN_S)
    assert accepted.returncode == 0, accepted  # else no tests are on offer
    start = ["env", "CODRIVER_MCP_SOCKET_SERVER_PORT=0", sys.executable, RELAY, port_file, "--start"]
    try:
        done = subprocess.run(
            [venv / "bin" / "python", CLIENTS / f"{library}_client.py", *start],
            cwd=tmp_path, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=RUN_S, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        seen = json.loads(done.stdout)
    finally:
        forked.run(["stop", "--workspace", str(tmp_path / "app")], env=env, timeout=RUN_S)
    # There is no application and no notebook; all else of the default toolset is there at the first look.
    usual = {tool.name for tool in DEFAULT}
    assert set(seen["tools"]) == usual - {"inspect_app", "change_app", "watch_app", "run_cell"}
    assert (seen["result"], seen["failed"]) == ("42", True)
    assert seen["skill"].startswith("---\nname: live-repl")
    if "digests" in seen:
        assert seen["digests"] == [f"sha256:{hashlib.sha256(seen['skill'].encode()).hexdigest()}"]
