"""The first hour: what a new user types, and what the answer must not hide."""

import re
import sys

import forked
import pytest
from live_server import WAIT_S, environ, serving, until
from needs import program
from terminal import Terminal


@pytest.fixture
def workspace(tmp_path):
    (tmp_path / "workspace").mkdir()
    return tmp_path / "workspace"


def run(workspace, *words, **variables):
    return forked.run(words, cwd=workspace, env=environ(workspace.parent) | variables, timeout=WAIT_S)


def test_init_can_remove_what_it_wrote(workspace):
    (workspace / "pyproject.toml").touch()
    assert run(workspace, "init", "--client", "claude-code").returncode == 0
    assert {"codriver.toml", ".mcp.json"} <= {file.name for file in workspace.iterdir()}
    assert str(workspace) in run(workspace, "trust", "--list").stdout
    done = run(workspace, "init", "--remove")
    assert (done.returncode, "no longer accepted" in done.stdout) == (0, True), done.stdout
    assert [file.name for file in workspace.iterdir()] == ["pyproject.toml"]
    listed = run(workspace, "trust", "--list")
    assert (listed.returncode, listed.stdout) == (0, "")


def test_removing_the_entries_keeps_settings_that_the_user_wrote(workspace):
    (workspace / "pyproject.toml").touch()
    (workspace / "codriver.toml").write_text('repl = ["python"]\nmaxLength = 9\n')
    run(workspace, "init", "--client", "claude-code")
    run(workspace, "init", "--remove")
    assert (workspace / "codriver.toml").read_text() == 'repl = ["python"]\nmaxLength = 9\n'


def test_init_reports_settings_that_prevent_a_server_from_starting(workspace):
    (workspace / "codriver.toml").write_text("repl = [")
    done = run(workspace, "init", "--client", "claude-code")
    assert done.returncode == 1
    assert "no server can start in this workspace until this is fixed: " in done.stderr
    assert "codriver.toml" in done.stderr


def test_doctor_reports_a_server_stopped_for_good(workspace):
    run(workspace, "stop", "--for-good")
    assert "it was stopped with --for-good" in run(workspace, "doctor").stdout


def test_a_server_starts_with_an_unwritable_home(workspace):
    (workspace / "a.py").touch()
    nowhere = dict.fromkeys(("HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME"), "/proc/nowhere")
    try:
        done = run(workspace, "eval", "--start", "1 + 1", **nowhere)
        assert (done.stdout, done.returncode) == ("2\n", 0), done.stderr
    finally:
        run(workspace, "stop", **nowhere)


def test_forget_deletes_everything_but_nothing_while_a_server_runs(workspace):
    with serving(workspace.parent, "--repl", "python") as live:
        live.run("eval", "'a secret'")
        for what in ("--all", "runs", "history"):
            done = live.run("forget", what)
            assert (done.returncode, done.stdout) == (1, "")
            assert "nothing was deleted, because the running server is using the history and its log" in done.stderr
        assert "a secret" in live.run("history").stdout
        live.run("stop")
        assert re.search(r"^history: 1 evaluations$", live.run("forget").stdout, re.MULTILINE)
        done = live.run("forget", "--all")
        assert (done.returncode, "forgotten: history" in done.stdout) == (0, True)
        assert live.run("history").stdout == ""


@pytest.mark.parametrize(("file", "needed"), [("deps.edn", "clojure"), ("a.hy", "python3")])
def test_code_is_evaluated_with_advice_in_a_project_without_its_own_repl(workspace, file, needed):
    program(needed, install="apt-get install clojure")
    (workspace / file).write_text("{}" if file.endswith("edn") else "(print 1)")
    with serving(workspace.parent) as live:
        done = live.run("eval", "(+ 1 2)")
        assert (done.stdout, done.returncode) == ("3\n", 0), done.stderr
        assert "ask your human to run: codriver trust" in done.stderr


def test_a_server_in_a_terminal_prints_the_repls_and_clients_it_finds(workspace):
    command = [sys.executable, "-m", "codriver", "serve", "--port", "0", "--repl", "python"]
    with Terminal([*command, "--workspace", str(workspace)], environ(workspace.parent), columns=200) as terminal:
        terminal.shows("REPL py is connected (python, python)")
        terminal.press("\x03")
        until(lambda: terminal.read(0.1) or terminal.process.poll() is not None, "its end")
