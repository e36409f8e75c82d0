"""`codriver run` starts a server if none is running, which executes nothing from an unaccepted checkout."""

import json
import sys

import forked
import pytest
from live_server import WAIT_S, environ, until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="`codriver run` refuses other systems")


@pytest.fixture
def checkout(tmp_path):
    """Create a Python project in which each file leaves a mark when it is executed."""
    folder, mark = tmp_path / "workspace", tmp_path / "executed"
    (folder / ".venv" / "bin").mkdir(parents=True)
    python = folder / ".venv" / "bin" / "python"
    python.write_text(f'#!/bin/sh\ntouch {mark}\nexec {sys.executable} "$@"\n')
    python.chmod(0o700)
    (folder / "pyproject.toml").write_text("")
    (folder / "codriver.toml").write_text(f"repl = ['touch {mark}']\npython = '{python}'\n")
    for name in ("app", "conftest", "json", "sitecustomize", "test_app", "usercustomize"):
        (folder / f"{name}.py").write_text(f"open({str(mark)!r}, 'w')\n")
    return folder


def test_the_server_started_by_a_run_executes_nothing_from_an_unaccepted_checkout(tmp_path, checkout):
    env = environ(tmp_path) | {"CODRIVER_MCP_SOCKET_SERVER_PORT": "0"}

    def run(*words):
        """Run a command from outside of the checkout, where Python would find its modules."""
        return forked.run([words[0], "-w", str(checkout), *words[1:]], env=env, cwd=tmp_path, timeout=WAIT_S)

    def connected():
        answer = run("call", "list_sessions")
        rows = json.loads(answer.stdout)["sessions"] if answer.returncode == 0 else []
        return [row for row in rows if row["phase"] == "connected"]

    try:
        assert run("run", "--", "true").returncode == 0
        until(connected, "a REPL of the server that the run started")
        value = run("call", "evaluate_code", json.dumps({"code": "40 + 2", "timeoutMs": WAIT_S * 1000}))
        assert json.loads(value.stdout)["result"] == "42", value.stderr
        assert not (tmp_path / "executed").exists()
        assert run("trust").returncode == 0
        until((tmp_path / "executed").exists, "the files to be executed once the user has accepted them")
    finally:
        assert run("stop").returncode == 0
