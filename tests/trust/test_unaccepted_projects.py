"""A project that is not yet trusted answers immediately, and uses its own environment once it is trusted."""

import contextlib
import json
import shutil
import sys
from pathlib import Path

import forked
import pytest
from linked_tree import git
from live_server import RELAY, WAIT_S, Relayed, environ, until
from needs import program

TRUST = "ask your human to run: codriver trust (in {})"


@contextlib.contextmanager
def plain_client(tmp_path, **more):
    """Return a client with a plain entry, for which the relay starts the server; nobody has trusted the workspace."""
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
    """Create a Python project with an environment whose interpreter records that it ran."""
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


def test_an_untrusted_project_names_the_python_it_uses_until_it_is_trusted(tmp_path, workspace):
    with plain_client(tmp_path) as (client, run):
        first = client.call("evaluate_code", code="import json, app; app.answer", timeoutMs=WAIT_S * 1000)
        assert first["result"] == "42"
        (note,) = [note for note in first["notes"] if "codriver trust" in note]
        assert note.startswith("this is ")
        assert note.endswith(TRUST.format(workspace))
        assert "codriver trust" not in str(client.call("evaluate_code", code="1 + 2"))
        assert client.call("load_file", filePath="app.py")["ok"]
        assert "elicitation/create" not in str(client.notifications)  # it declared to show no forms
        assert not (tmp_path / "ran").exists()
        (row,) = client.call("list_sessions")["sessions"]
        assert note in row["notes"]
        edit = {"type": "append", "filePath": "app.py", "code": "x = 1"}
        for tool, given in (("run_tests", {}), ("edit_files", {"edits": [edit], "load": True, "test": ["test_app"]})):
            refused = client.call(tool, **given)
            assert refused["reason"] == "capability-missing", refused
            assert TRUST.format(workspace) in refused["hint"]
            assert refused["message"].endswith(", so nothing was written") == (tool == "edit_files"), refused
        assert (workspace / "app.py").read_text() == "answer = 42\n"
        assert run("trust").returncode == 0
        until(lambda: client.call("list_sessions")["sessions"][0]["generation"] == 2, "the project's own REPL")
        (row,) = client.call("list_sessions")["sessions"]
        assert "codriver trust" not in str(row)
        again = client.call("evaluate_code", code="import sys, app; sys.path[0]")
        assert again["result"] == repr(str(workspace))
        assert any("was restarted" in note and "accepted" in note for note in again["notes"])
        assert (tmp_path / "ran").exists()
        (workspace / "json.py").unlink()  # as in a shell, pytest would import it
        assert client.call("run_tests", namespace="test_app", timeoutMs=60_000)["ok"]


PYPROJECT, APP = {"pyproject.toml": '[project]\nname = "shop"\n'}, {"app.py": "answer = 42\n"}
VENV = {".venv/bin/python": None}
PYTHONS = {
    "venv": {**PYPROJECT, **APP, **VENV},
    "uv": {**PYPROJECT, **APP, **VENV, "uv.lock": "version = 1\n", ".python-version": "2.7\n"},
    "poetry": {"pyproject.toml": '[tool.poetry]\nname = "shop"\n', **APP, "poetry.lock": ""},
    "conda": {"environment.yml": "name: shop\n", **APP, "env/bin/python": None, "env/conda-meta/history": ""},
    "Django": {**VENV, "manage.py": "", "shop/settings.py": "", **APP},
    "Flask": {"requirements.txt": "flask\n", **APP, "venv/bin/python": None},
    "notebooks": {"look.ipynb": '{"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}', **APP},
    "mono repo": {**PYPROJECT, **VENV, "shop/deps.edn": "{}", "shop/src/a.clj": "(ns a)", **APP},
}
CLOJURE = {"src/a.clj": "(ns a)"}
LISPS = {
    "deps.edn": ({"deps.edn": '{:deps {x/y {:local/root "x"}}}', **CLOJURE}, ["clojure", "basilisp"], "clojure"),
    "Leiningen": ({"project.clj": '(defproject a) (spit "ran" 1)', **CLOJURE}, ["clojure", "basilisp"], "lein"),
    "Hy": ({"a.hy": "(+ 1 2)"}, ["hy"], "python3"),
}
"""By kind its files, the dialects that may answer, and the program without which its own REPL never comes."""


def make(folder, files, mark):
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"#!/bin/sh\ntouch {mark}\n" if text is None else text)
        path.chmod(0o700)


@pytest.mark.parametrize("kind", PYTHONS)
def test_code_runs_in_every_new_python_project_without_user_action(tmp_path, kind):
    make(tmp_path / "workspace", PYTHONS[kind], tmp_path / "ran")
    with plain_client(tmp_path) as (client, _):
        first = client.call("evaluate_code", code="1+2", timeoutMs=WAIT_S * 1000)
        assert first.get("result") == "3", first
        assert client.call("evaluate_code", code="import app; app.answer")["result"] == "42"
        assert not (tmp_path / "ran").exists()


def test_code_runs_in_a_linked_working_tree_while_the_environment_of_its_main_checkout_is_untrusted(tmp_path):
    main, workspace = tmp_path / "main", tmp_path / "workspace"
    make(main, {**PYPROJECT, **APP}, tmp_path / "ran")
    git("init", str(main))
    git("-C", str(main), "add", "-A")
    git("-C", str(main), "commit", "-m", "first")
    git("-C", str(main), "worktree", "add", str(workspace))
    make(main, VENV, tmp_path / "ran")
    with plain_client(tmp_path) as (client, _):
        first = client.call("evaluate_code", code="import app; app.answer", timeoutMs=WAIT_S * 1000)
        assert first["result"] == "42"
        assert any(note.endswith(TRUST.format(main)) for note in first["notes"])
        assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("kind", LISPS)
def test_a_new_lisp_project_without_its_own_repl_runs_code_in_its_language(tmp_path, kind):
    files, dialects, needed = LISPS[kind]
    program(needed, install="apt-get install clojure leiningen")
    make(tmp_path / "workspace", {**files, **VENV, "node_modules/.bin/clojure": None}, tmp_path / "ran")
    with plain_client(tmp_path) as (client, _):
        first = client.call("evaluate_code", code="(+ 1 2)", timeoutMs=WAIT_S * 1000)
        assert first["result"] == "3"
        (note,) = [note for note in first["notes"] if "codriver trust" in note]
        assert note.endswith(TRUST.format(tmp_path / "workspace"))
        assert "codriver trust" not in str(client.call("evaluate_code", code="(+ 1 3)"))
        (row,) = client.call("list_sessions")["sessions"]
        assert row["dialect"] in dialects
        assert note in row["notes"]
        assert not (tmp_path / "ran").exists()
        assert not list((tmp_path / "workspace").glob("**/ran"))
        assert not list((tmp_path / "workspace").glob(".nrepl-port"))


def test_a_stand_in_lisp_repl_is_replaced_once_the_workspace_is_trusted(tmp_path):
    workspace = tmp_path / "workspace"
    make(workspace, {"a.hy": "(+ 1 2)"}, tmp_path / "ran")
    where = '(.getcwd (__import__ "os"))'
    with plain_client(tmp_path) as (client, run):
        outside = client.call("evaluate_code", code=where, timeoutMs=WAIT_S * 1000)["result"]
        assert outside.strip("'\"") != str(workspace)
        assert run("trust").returncode == 0
        until(lambda: client.call("list_sessions")["sessions"][0]["generation"] == 2, "the project's own REPL")
        assert client.call("evaluate_code", code=where, timeoutMs=WAIT_S * 1000)["result"].strip("'\"") == str(
            workspace
        )
        assert "codriver trust" not in str(client.call("list_sessions"))
        until(lambda: not Path(outside.strip("'\"")).exists(), "the empty folder to be gone")


def test_a_lisp_project_with_a_local_repl_explains_how_to_trust_it(tmp_path):
    workspace = tmp_path / "workspace"
    make(workspace, {"package.json": '{"dependencies": {"nbb": "1"}}', "node_modules/.bin/nbb": None}, tmp_path / "ran")
    with plain_client(tmp_path) as (client, _):
        refused = client.call("evaluate_code", code="(+ 1 2)", timeoutMs=2000)
        assert refused["hint"] == f"this project's REPL (nbb) runs project files: {TRUST.format(workspace)}"
        (row,) = client.call("list_sessions")["sessions"]
        assert (row["phase"], row["note"]) == ("stopped", refused["hint"])
        assert not (tmp_path / "ran").exists()


NBB = {"package.json": '{"dependencies": {"nbb": "1"}}', "node_modules/.bin/nbb": None, "a.cljs": "(ns a)"}


def accounts(client, run, workspace):
    """Return what each of the four reports says about trust and the REPL: its phase, the sentence, and whether it
    evaluates.
    """
    (row,) = client.call("list_sessions")["sessions"]
    status = json.loads(run("status", "--json").stdout)
    (reported,) = status["repls"]
    instructions = client.request("initialize", client.hello)["result"]["instructions"]
    sentences = [
        " ".join([*row.get("notes", []), row.get("note", "")]),
        " ".join([reported.get("caution", ""), reported.get("note", "")]),
        instructions,
    ]
    return [row["phase"], reported["phase"]], sentences, client.tools()


@pytest.mark.parametrize(
    ("files", "phase"), [({**PYPROJECT, **APP, **VENV}, "connected"), (NBB, "stopped")], ids=["a stand-in", "nothing"]
)
def test_all_four_reports_agree_before_and_after_trusting_the_workspace(tmp_path, files, phase):
    workspace = tmp_path / "workspace"
    make(workspace, files, tmp_path / "ran")
    with plain_client(tmp_path) as (client, run):
        client.hello = {
            "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "bare", "version": "1"},
        }  # fmt: skip
        client.tools()  # which waits for the first search
        until(lambda: client.call("list_sessions")["sessions"][0]["phase"] == phase, f"a REPL that is {phase}")
        phases, sentences, tools = accounts(client, run, workspace)
        assert phases == [phase, phase]
        assert [TRUST.format(workspace) in text for text in sentences] == [True, True, True], sentences
        assert "starting" not in sentences[2]
        assert "evaluate_code" in tools
        if phase == "stopped":
            assert TRUST.format(workspace) in client.call("evaluate_code", code="1", timeoutMs=100)["hint"]
            return
        shutil.rmtree(workspace / ".venv")
        assert run("trust").returncode == 0
        until(lambda: client.call("list_sessions")["sessions"][0]["generation"] == 2, "the project's own REPL")
        phases, sentences, tools = accounts(client, run, workspace)
        assert phases == ["connected", "connected"]
        assert ["codriver trust" in output for output in sentences] == [False, False, False], sentences
        assert "evaluate_code" in tools
