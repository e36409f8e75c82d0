"""A project that nobody has accepted answers at once, and is itself once its user has accepted it."""

import contextlib
import sys

import forked
import pytest
from linked_tree import git
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
LISPS = {
    "deps.edn": ({"deps.edn": "{}", "src/a.clj": "(ns a)"}, "clojure"),
    "Leiningen": ({"project.clj": "(defproject a)", "src/a.clj": "(ns a)"}, "lein"),
    "nbb": ({"nbb.edn": "{}", "package.json": '{"dependencies": {"nbb": "1"}}', "a.cljs": "(ns a)"}, "nbb"),
    "Hy": ({"a.hy": "(+ 1 2)"}, "hy"),
}


def make(folder, files, mark):
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"#!/bin/sh\ntouch {mark}\n" if text is None else text)
        path.chmod(0o700)


@pytest.mark.parametrize("kind", PYTHONS)
def test_every_fresh_python_project_answers_without_a_word_of_its_user(tmp_path, kind):
    make(tmp_path / "workspace", PYTHONS[kind], tmp_path / "ran")
    with plain_client(tmp_path) as (client, _):
        assert client.call("evaluate_code", code="1+2", timeoutMs=WAIT_S * 1000)["result"] == "3"
        assert client.call("evaluate_code", code="import app; app.answer")["result"] == "42"
        assert not (tmp_path / "ran").exists()


def test_a_linked_working_tree_answers_while_the_environment_of_its_main_checkout_waits(tmp_path):
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
def test_every_fresh_lisp_project_says_in_a_sentence_what_starts_its_repl(tmp_path, kind):
    files, word = LISPS[kind]
    make(tmp_path / "workspace", files, tmp_path / "ran")
    with plain_client(tmp_path) as (client, _):
        refused = client.call("evaluate_code", code="(+ 1 2)", timeoutMs=2000)
        assert f"repl = ['{word}']" in refused["hint"]
        assert "codriver trust" in refused["hint"]
