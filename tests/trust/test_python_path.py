"""A checkout that nobody has accepted, and a PYTHONPATH that leads into it: nothing of it runs unasked."""

import json
import os
import subprocess
import sys

import pytest
from live_server import RELAY, WAIT_S, environ

from codriver_relay.starter import CLIENTS_PATH, server_environment

PLANTED = ("sitecustomize.py", "usercustomize.py", "json.py", "anyio.py")
FORMS = {"relative": ".", "trailing colon": "{elsewhere}:", "its own path": "{workspace}", "a link": "{link}"}
CALLS = [
    {"method": "initialize", "id": 1, "params": {
        "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}},
    {"method": "notifications/initialized"},
    {"method": "tools/call", "id": 2, "params": {"name": "evaluate_code", "arguments": {"code": "1 + 2"}}},
]  # fmt: skip


@pytest.fixture(params=FORMS)
def planted(request, tmp_path):
    """A checkout, the place where a module of it would tell that it ran, and an environment that leads into it."""
    workspace, mark = tmp_path / "workspace", tmp_path / "it-ran"
    workspace.mkdir()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "link").symlink_to(workspace)
    for name in PLANTED:
        (workspace / name).write_text(f"open({str(mark)!r}, 'a').write(__file__ + ' ')\n")
    path = FORMS[request.param].format(elsewhere=tmp_path / "elsewhere", workspace=workspace, link=tmp_path / "link")
    env = {**environ(tmp_path), "PYTHONPATH": path}
    yield workspace, mark, env
    command(workspace, env, "stop")


def command(workspace, env, *words):
    arguments = [sys.executable, "-I", "-m", "codriver", *words]
    return subprocess.run(
        arguments, cwd=workspace, env=env, capture_output=True, text=True, timeout=WAIT_S, check=False
    )


def test_a_command_starts_a_server_and_a_worker_that_run_nothing_of_it(planted):
    workspace, mark, env = planted
    done = command(workspace, env, "eval", "1 + 2", "--start")
    assert done.stdout.strip().endswith("3"), done.stderr
    assert not mark.exists(), mark.read_text()


def test_the_relay_starts_a_server_and_a_worker_that_run_nothing_of_it(planted):
    workspace, mark, env = planted
    words = [sys.executable, "-I", "-S", RELAY, "--workspace", str(workspace), "--start"]
    with subprocess.Popen(
        words, cwd=workspace, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as relay:
        for call in CALLS:
            relay.stdin.write(json.dumps({"jsonrpc": "2.0", **call}) + "\n")
        relay.stdin.flush()
        answers = (json.loads(line) for line in relay.stdout)
        answer = next(told for told in answers if told.get("id") == 2)
        relay.stdin.close()
        relay.stdout.read()
    assert answer["result"]["structuredContent"]["result"] == "3"
    assert not mark.exists(), mark.read_text()


def test_a_path_outside_stays_and_the_main_checkout_of_a_linked_tree_is_inside(tmp_path, monkeypatch):
    main, linked, outside = tmp_path / "main", tmp_path / "linked", tmp_path / "outside"
    for folder in (main / "src", outside):
        folder.mkdir(parents=True)
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b", "-C", str(main)]
    for words in (["init", "-q"], ["commit", "-q", "--allow-empty", "-m", "a"], ["worktree", "add", "-q", str(linked)]):
        subprocess.run([*git, *words], check=True, timeout=WAIT_S)
    given = os.pathsep.join([str(main / "src"), str(outside), str(linked), ""])
    monkeypatch.setenv("PYTHONPATH", given)
    env = server_environment(str(linked))
    assert (env["PYTHONPATH"], env[CLIENTS_PATH]) == (str(outside), given)
