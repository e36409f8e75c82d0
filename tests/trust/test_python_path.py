"""An untrusted checkout with a PYTHONPATH that leads into it: nothing in it runs without a request."""

import ast
import contextlib
import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from every_command import COMMANDS
from live_server import RELAY, WAIT_S, Bare, environ, until

from codriver.setup.client_entries import command_line
from codriver.setup.clients import known_clients
from codriver.setup.relay_launch import Launch
from codriver_relay.starter import CLIENT_PYTHONPATH_VARIABLE, server_environment

PLANTED = ("sitecustomize.py", "usercustomize.py", "json.py", "anyio.py", "conftest.py", "planted_plugin.py")
PLANTED_METADATA = "planted-1.0.dist-info"
"""Installed-package metadata in the checkout, whose entry points name a plugin of pytest."""
FORMS = {"relative": ".", "trailing colon": "{elsewhere}:", "its own path": "{workspace}", "a link": "{link}"}
CALLS = [
    {"method": "initialize", "id": 1, "params": {
        "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}},
    {"method": "notifications/initialized"},
    {"method": "tools/call", "id": 2, "params": {"name": "evaluate_code", "arguments": {"code": "1 + 2"}}},
]  # fmt: skip


@pytest.fixture(params=FORMS)
def planted(request, tmp_path):
    """Create a checkout, the path where one of its modules would record that it ran, and an environment that leads
    into it.
    """
    workspace, mark = tmp_path / "workspace", tmp_path / "it-ran"
    workspace.mkdir()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "link").symlink_to(workspace)
    for name in PLANTED:
        (workspace / name).write_text(f"open({str(mark)!r}, 'a').write(__file__ + ' ')\n")
    (workspace / "pytest.ini").write_text("[pytest]\naddopts = -p planted_plugin\n")
    (workspace / PLANTED_METADATA).mkdir()
    (workspace / PLANTED_METADATA / "METADATA").write_text("Metadata-Version: 2.1\nName: planted\nVersion: 1.0\n")
    (workspace / PLANTED_METADATA / "entry_points.txt").write_text("[pytest11]\nplanted = planted_plugin\n")
    path = FORMS[request.param].format(elsewhere=tmp_path / "elsewhere", workspace=workspace, link=tmp_path / "link")
    env = {**environ(tmp_path), "PYTHONPATH": path}
    yield workspace, mark, env
    if (workspace / ".calva" / "mcp-server" / "port").exists():  # a server that nobody else ends
        command(workspace, env, "stop")


def command(workspace, env, *words):
    arguments = [sys.executable, "-I", "-m", "codriver", *words]
    return subprocess.run(
        arguments, cwd=workspace, env=env, capture_output=True, text=True, timeout=WAIT_S, check=False
    )


IN_TURN = """
import atexit, gc, importlib, json, os, pkgutil, sys, traceback
import codriver.commands.cli, codriver.setup.doctor, codriver.setup.init
from codriver.__main__ import main
for module in pkgutil.iter_modules(codriver.commands.__path__):
    importlib.import_module(f"codriver.commands.{module.name}")
gc.freeze()
for words in json.loads(sys.argv[1]):
    print(words, file=sys.stderr, flush=True)
    sys.argv = ["codriver", *words]
    if not (child := os.fork()):
        try:
            main()
        except SystemExit:
            pass
        except BaseException:
            traceback.print_exc()
        atexit._run_exitfuncs()
        sys.stdout.flush()
        os._exit(0)  # to take the modules apart takes longer than most commands
    os.waitpid(child, 0)
"""
"""One command after the other, each without what all import first: that is three quarters of what each takes."""


def in_turn(workspace, env, commands):
    """Return the output of commands run by one interpreter, isolated like those that a user runs."""
    reported = json.dumps(commands)
    return subprocess.run(
        [sys.executable, "-I", "-c", IN_TURN, reported], cwd=workspace, env=env, stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, timeout=2 * WAIT_S, check=False,
    ).stderr  # fmt: skip


def untouched(mark):
    """Check that nothing of the checkout ran."""
    assert not mark.exists(), mark.read_text()


@contextlib.contextmanager
def served(workspace, env, *options):
    """Run a server that the user starts there, and return a client of it once its REPL is connected."""
    words = [sys.executable, "-I", "-m", "codriver", "serve", "--port", "0", *options]
    with subprocess.Popen(words, cwd=workspace, env=env, stdout=subprocess.DEVNULL) as server:
        try:
            file = workspace / ".calva" / "mcp-server" / "port"
            until(file.exists, "the port file")
            with Bare(socket.create_connection(("127.0.0.1", int(file.read_text())), timeout=WAIT_S)) as client:
                until(lambda: "evaluate_code" in client.tools() or "none" in options, "the REPL")
                yield client
        finally:
            server.terminate()


@pytest.mark.parametrize("kind", ["python", "lisp"])
def test_a_server_started_by_the_user_runs_nothing_before_code_is_evaluated(planted, kind):
    workspace, mark, env = planted
    with served(workspace, env, "--repl", kind) as client:
        client.call("symbol_info", symbol="sys.exit" if kind == "python" else "map")
        untouched(mark)
        if kind == "python" and env["PYTHONPATH"] not in (".", f"{workspace.parent / 'elsewhere'}:"):
            # What the user's own shell names is found by what is evaluated then, here and in its children.
            code = "import os, sys; (os.environ['PYTHONPATH'], [p for p in sys.path if 'workspace' in p][0])"
            path, found = ast.literal_eval(client.call("evaluate_code", code=code)["result"])
            assert (path, os.path.realpath(found)) == (env["PYTHONPATH"], str(workspace))


def test_no_kernel_that_would_run_checkout_code_is_started(planted):
    workspace, mark, env = planted
    (workspace / "codriver.toml").write_text("repl = ['jupyter']\n")

    def sessions():
        return command(workspace, env, "call", "--start", "list_sessions", "{}").stdout

    text = until(lambda: "" if '"starting"' in (reported := sessions()) else reported, "the end of the start")
    assert "nobody has accepted this checkout" in text
    untouched(mark)


@pytest.mark.parametrize(
    ("planted", "word"), [*((form, "python") for form in FORMS), ("relative", "lisp")], indirect=["planted"]
)
def test_export_and_replay_run_only_the_recorded_code(planted, word):
    workspace, mark, env = planted
    exported = ["export", "--format", "recording", "-o", "a.jsonl"]
    tests = ["export", "--format", "test", "-o", "test_a.clj" if word == "lisp" else "test_a.py"]
    with served(workspace, env, "--repl", word) as client:
        assert client.call("evaluate_code", code="(+ 1 2)" if word == "lisp" else "1 + 2")["result"] == "3"
        for words in (exported, ["replay", "a.jsonl", "--repl", word], tests):
            done = command(workspace, env, *words)
            assert done.returncode == 0, (words, done.stdout, done.stderr)
    untouched(mark)


def test_hooks_run_nothing_from_the_checkout(planted):
    workspace, mark, env = planted
    hook = workspace.parent / "config" / "codriver" / "codriver_hook.py"
    reported = json.dumps({"cwd": str(workspace), "tool_input": {"file_path": str(workspace / "x.py")}})
    with served(workspace, env, "--repl", "none"):
        for event in ("started", "edited", "stopping"):
            words = [sys.executable, "-I", "-S", str(hook), "claude-code", event]
            done = subprocess.run(
                words,
                cwd=workspace,
                env=env,
                input=reported,
                capture_output=True,
                text=True,
                timeout=WAIT_S,
                check=False,
            )
            assert (done.returncode, done.stdout[:1]) == (0, "{"), (event, done.stderr)
            untouched(mark)


def test_commands_run_nothing_from_the_checkout(planted):
    workspace, mark, env = planted
    (workspace / "x.py").write_text("1\n")
    commands = [
        words
        for words in COMMANDS
        if words[0] not in ("stop", "watch") and "--follow" not in words and words[:2] != ("eval", "1")
    ]
    with served(workspace, env, "--repl", "none"):
        text = in_turn(workspace, env, commands)
    assert text.count("\n[") == len(commands) - 1, text
    assert "Traceback" not in text, text
    assert not mark.exists(), (text, mark.read_text())


@pytest.mark.parametrize("planted", ["relative"], indirect=True)
def test_the_demo_runs_nothing_from_the_checkout(planted):
    workspace, mark, env = planted
    done = command(workspace, env, "demo")
    assert done.returncode == 0, done.stderr
    untouched(mark)


def test_a_command_starts_a_server_and_worker_that_run_nothing_from_the_checkout(planted):
    workspace, mark, env = planted
    done = command(workspace, env, "eval", "1 + 2", "--start")
    assert done.stdout.strip().endswith("3"), done.stderr
    assert not mark.exists(), mark.read_text()


def test_the_relay_starts_a_server_and_worker_that_run_nothing_from_the_checkout(planted):
    workspace, mark, env = planted
    entry = known_clients()["claude-code"].entry(Launch(Path(sys.executable), Path(RELAY), workspace), "codriver")
    words = command_line(entry)
    with subprocess.Popen(
        words, cwd=workspace, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as relay:
        for call in CALLS:
            relay.stdin.write(json.dumps({"jsonrpc": "2.0", **call}) + "\n")
        relay.stdin.flush()
        answers = (json.loads(line) for line in relay.stdout)
        answer = next(reported for reported in answers if reported.get("id") == 2)
        relay.stdin.close()
        relay.stdout.read()
    assert answer["result"]["structuredContent"]["result"] == "3"
    assert not mark.exists(), mark.read_text()


def test_only_path_entries_outside_all_working_trees_are_kept(tmp_path, monkeypatch):
    main, linked, outside = tmp_path / "main", tmp_path / "linked", tmp_path / "outside"
    for folder in (main / "src", outside):
        folder.mkdir(parents=True)
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b", "-C", str(main)]
    for words in (["init", "-q"], ["commit", "-q", "--allow-empty", "-m", "a"], ["worktree", "add", "-q", str(linked)]):
        subprocess.run([*git, *words], check=True, timeout=WAIT_S)
    given = os.pathsep.join([str(main / "src"), str(outside), str(linked), ""])
    monkeypatch.setenv("PYTHONPATH", given)
    env = server_environment(str(linked))
    assert (env["PYTHONPATH"], env[CLIENT_PYTHONPATH_VARIABLE]) == (str(outside), given)
