"""A project that nobody has accepted answers at once, and is itself once its user has accepted it."""

import contextlib
import sys

import forked
import pytest
from live_server import RELAY, WAIT_S, Relayed, environ, until

TRUST = "ask your human to run: codriver trust (in {})"


@contextlib.contextmanager
def plain_client(tmp_path, **more):
    """A client with a plain entry, for which the relay starts the server; nobody has said a word of the workspace."""
    workspace = tmp_path / "workspace"
    env = environ(tmp_path) | {"CODRIVER_MCP_SOCKET_SERVER_PORT": "0"} | more
    command = [sys.executable, "-I", "-S", RELAY, str(workspace / ".calva" / "mcp-server" / "port"), "--start"]
    try:
        with Relayed(command, env, folder=workspace) as client:
            yield client, lambda *words: forked.run(words, env=env, cwd=workspace, timeout=WAIT_S)
    finally:
        forked.run(("stop",), env=env, cwd=workspace, timeout=WAIT_S)


@pytest.fixture
def workspace(tmp_path):
    """A Python project with an environment, whose interpreter tells that it ran."""
    folder = tmp_path / "workspace"
    python = folder / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(f'#!/bin/sh\ntouch {tmp_path}/ran\nexec {sys.executable} "$@"\n')
    python.chmod(0o700)
    (folder / "pyproject.toml").write_text("")
    (folder / "app.py").write_text("answer = 42\n")
    (folder / "test_app.py").write_text("def test(): pass\n")
    (folder / "json.py").write_text(f"open('{tmp_path}/ran', 'w')\n")
    return folder


def test_a_project_with_an_environment_answers_says_whose_python_it_is_and_is_itself_once_accepted(tmp_path, workspace):
    with plain_client(tmp_path) as (client, run):
        first = client.call("evaluate_code", code="import json, app; app.answer", timeoutMs=WAIT_S * 1000)
        assert first["result"] == "42"
        (note,) = [note for note in first["notes"] if "codriver trust" in note]
        assert note.startswith("this is ")
        assert note.endswith(TRUST.format(workspace))
        assert "codriver trust" not in str(client.call("evaluate_code", code="1 + 2"))
        assert client.call("load_file", filePath="app.py")["ok"]
        assert not (tmp_path / "ran").exists()
        (row,) = client.call("list_sessions")["sessions"]
        assert note in row["notes"]
        assert "run_tests" not in client.tools()
        edit = {"type": "append", "filePath": "app.py", "code": "x = 1"}
        for tool, given in (("run_tests", {}), ("edit_files", {"edits": [edit], "load": True, "test": ["test_app"]})):
            refused = client.call(tool, **given)
            assert refused["reason"] == "capability-missing", refused
            assert TRUST.format(workspace) in refused["hint"]
        assert run("trust").returncode == 0
        until(lambda: "run_tests" in client.tools(), "the project's own REPL")
        (row,) = client.call("list_sessions")["sessions"]
        assert row["generation"] == 2
        assert "codriver trust" not in str(row)
        again = client.call("evaluate_code", code="import sys, app; sys.path[0]")
        assert again["result"] == repr(str(workspace))
        assert any("was started anew" in note and "accepted" in note for note in again["notes"])
        assert (tmp_path / "ran").exists()
        assert client.call("run_tests", namespace="test_app")["ok"]
