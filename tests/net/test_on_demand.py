"""Servers that commands and relays start on demand, and that end by themselves."""

import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import forked
import pytest
from live_server import RELAY, WAIT_S, Relayed, environ, serving, until

from codriver.files.codriver_paths import server_directory
from codriver.net.registration import (
    allow_start,
    is_stopped_for_good,
    mark_start,
    record_stop,
    stop_for_good,
    was_stopped_since,
)
from codriver.net.server_record import STOPPED_WHILE_STARTING_STATUS, is_claimed
from codriver.protocol.calls import NEW_SERVER_NOTE


@pytest.fixture
def workspace(tmp_path):
    (tmp_path / "workspace").mkdir()
    return tmp_path / "workspace"


@pytest.fixture
def run(workspace):
    def run(*arguments, **variables):
        env = environ(workspace.parent) | {"CODRIVER_MCP_SOCKET_SERVER_PORT": "0"} | variables
        return forked.run(arguments, env=env, cwd=workspace, timeout=WAIT_S)

    yield run
    run("stop")


def test_the_start_option_launches_a_server_that_also_serves_the_next_command(run):
    first = run("eval", "--start", "x = 20\nx + 1")
    assert (first.returncode, first.stdout) == (0, "21\n"), first.stderr
    again = run("eval", "x * 2")
    assert (again.returncode, again.stdout) == (0, "40\n"), again.stderr
    assert run("stop").stdout.startswith("stopped pid")


def test_a_workspace_with_only_settings_gets_a_repl(run, workspace):
    (workspace / "codriver.toml").write_text("watch = false\n")
    (workspace / "opencode.json").write_text("{}")
    done = run("eval", "--start", "6 * 7")
    assert (done.returncode, done.stdout) == (0, "42\n"), done.stderr


def test_a_setting_starts_a_server_without_the_start_option(run):
    assert run("eval", "1 + 1").returncode == 3
    done = run("eval", "1 + 1", CODRIVER_AUTO_START_MCP_SERVER="true")
    assert (done.returncode, done.stdout) == (0, "2\n"), done.stderr


def test_a_server_that_fails_to_start_is_explained_by_its_own_message(run, workspace):
    (workspace / "codriver.toml").write_text("maxDepth = 'deep'\n")
    done = run("eval", "--start", "1")
    assert done.returncode == 3
    assert "exited with status 1" in done.stderr
    assert 'maxDepth = "deep" is invalid. Use a whole number from 1 to 1000' in done.stderr
    assert "serve.log" in done.stderr


def processes(*words):
    """Return the directories in `/proc` of processes that were started with these words."""
    return [file.parent for file in Path("/proc").glob("[0-9]*/cmdline") if {*words} <= words_of(file)]


def words_of(file):
    try:
        return {*file.read_text().split("\0")}
    except OSError:  # it has ended
        return set()


@pytest.mark.skipif(sys.platform != "linux", reason="it reads /proc")
def test_the_start_option_waits_for_a_server_that_another_process_is_starting(run, workspace):
    """`codriver run` starts one in the background, and a command with `--start` may follow immediately."""
    release = workspace.parent / "release"
    slow = f"""
import os, time
from codriver.net import registration
publish = registration.Claim.publish
def wait(*arguments):
    while not os.path.exists({str(release)!r}): time.sleep(0.01)
    publish(*arguments)
registration.Claim.publish = wait
from codriver.__main__ import main
main()
"""
    env = environ(workspace.parent) | {"CODRIVER_MCP_SOCKET_SERVER_PORT": "0"}
    words = [sys.executable, "-c", slow, "serve", "--workspace", str(workspace)]
    with subprocess.Popen(words, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as starting:
        try:
            until(lambda: is_claimed(server_directory(workspace)), "the claim")
            found = []
            waiting = threading.Thread(target=lambda: found.append(run("eval", "--start", "6 * 7")))
            waiting.start()
            (second,) = until(lambda: processes("--on-demand", str(workspace)), "the second start")
            until(lambda: not second.exists(), "the second start to fail, and to be noticed")
            release.touch()
            waiting.join(WAIT_S)
            assert (found[0].returncode, found[0].stdout) == (0, "42\n"), found[0].stderr
        finally:
            starting.terminate()


def test_stop_ends_servers_that_have_not_claimed_the_workspace_yet(run, workspace):
    release = workspace.parent / "release"
    slow = f"""
import os, time
from codriver.commands import serve
load = serve._load_server
def wait():
    print("starting", flush=True)
    while not os.path.exists({str(release)!r}): time.sleep(0.01)
    load()
serve._load_server = wait
from codriver.__main__ import main
main()
"""
    env = environ(workspace.parent) | {"CODRIVER_MCP_SOCKET_SERVER_PORT": "0"}
    given = {"env": env, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    words = [sys.executable, "-c", slow, "serve", "--workspace", str(workspace)]
    with subprocess.Popen(words, **given) as first, subprocess.Popen(words, **given) as second:
        assert [first.stdout.readline(), second.stdout.readline()] == ["starting\n"] * 2
        assert run("stop").stdout == "stopped a server that was still starting\n"
        release.touch()
        for server in (first, second):
            output, errors = server.communicate(timeout=WAIT_S)
            assert "listens" not in output
            assert "was stopped with `codriver stop` while it was starting" in errors
            assert server.returncode == STOPPED_WHILE_STARTING_STATUS
    assert run("status").returncode == 3


def test_a_stop_recorded_before_the_clock_was_set_back_is_ignored(workspace, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(workspace.parent / "state"))
    os.close(mark_start(workspace))  # creates the state directory
    requested_ms = time.time_ns() // 10**6
    record_stop(workspace)
    assert was_stopped_since(workspace, requested_ms)
    monkeypatch.setattr(time, "time_ns", lambda: (requested_ms - 3_600_000) * 10**6)
    assert not was_stopped_since(workspace, requested_ms - 3_600_000)


def test_a_server_started_by_a_relay_outlives_the_relay(tmp_path):
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    port_file = workspace / ".calva" / "mcp-server" / "port"
    env = environ(tmp_path) | {"CODRIVER_MCP_SOCKET_SERVER_PORT": "0"}
    with Relayed([sys.executable, RELAY, str(port_file), "--start"], env) as client:
        server = client.call("server_health")["pid"]
        # Some clients, such as opencode, end all descendants of the processes they started.
        until(lambda: client.process.pid not in ancestors(server), "the server's way out")
        client.process.kill()
    try:
        done = forked.run(["status", "--json"], cwd=workspace, env=env, timeout=WAIT_S)
        assert json.loads(done.stdout)["pid"] == server
    finally:
        stopped = forked.run(["stop"], cwd=workspace, env=env, timeout=WAIT_S)
    assert (done.returncode, stopped.returncode) == (0, 0)


@pytest.fixture
def relayed(tmp_path, workspace):
    port_file = workspace / ".calva" / "mcp-server" / "port"
    env = environ(tmp_path) | {"CODRIVER_MCP_SOCKET_SERVER_PORT": "0"}
    with Relayed([sys.executable, RELAY, str(port_file), "--start"], env, name="ann") as client:
        yield client


def call(relayed, tool):
    """Return the outcome of a call on the next server: a relay that has not noticed the end of the previous one
    loses it first.
    """
    while True:
        answer = relayed.request("tools/call", {"name": tool, "arguments": {}})
        if answer.get("error", {}).get("data") != {"reason": "server-lost"}:
            return answer


def test_the_status_and_stop_commands_name_the_clients_that_keep_a_server_alive(run, relayed):
    server = relayed.call("server_health")["pid"]
    assert (
        "kept alive by 1 relay with --start (ann). To stop the server anyway, run `codriver stop --for-good`"
        in run("status").stdout
    )
    stopped = run("stop")
    assert stopped.stdout == f"stopped pid {server}\n"
    assert stopped.stderr.startswith(
        "1 relay with --start (ann) may start another server immediately. To prevent that, run "
        "`codriver stop --for-good`"
    )
    assert call(relayed, "server_health")["result"]["structuredContent"]["pid"] != server


def test_a_server_stopped_for_good_stays_stopped_until_it_is_started(run, relayed, workspace):
    relayed.call("server_health")
    stopped = run("stop", "--for-good")
    assert stopped.stdout.endswith(
        "no server will be started in this workspace until you run `codriver serve` or a command with --start\n"
    )
    refused = call(relayed, "server_health")["error"]["message"]
    assert f"the server of {workspace} was stopped for good" in refused
    assert f"`codriver serve --workspace {workspace}`" in refused
    status = run("status")
    assert (status.returncode, "the server was stopped with --for-good" in status.stdout) == (3, True)
    refused = run("eval", "1 + 1", CODRIVER_AUTO_START_MCP_SERVER="true")
    assert (
        refused.returncode,
        "`codriver stop --for-good`, so none is started automatically. Start" in refused.stderr,
    ) == (
        3,
        True,
    )
    assert run("eval", "--start", "1 + 1").stdout == "2\n"
    assert "result" in call(relayed, "server_health")
    run("stop")
    assert "result" in call(relayed, "server_health")


def test_starting_a_server_by_hand_cancels_an_earlier_stop_for_good(tmp_path, run):
    assert run("stop", "--for-good").stdout.startswith("no server is running")
    assert run("eval", "1 + 1", CODRIVER_AUTO_START_MCP_SERVER="true").returncode == 3
    with serving(tmp_path, "--repl", "none") as live:
        assert live.greeting.startswith("codriver listens")
    assert run("eval", "1 + 1", CODRIVER_AUTO_START_MCP_SERVER="true").stdout == "2\n"


def test_only_a_marker_written_by_codriver_keeps_a_server_stopped(tmp_path, workspace, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    stop_for_good(workspace)
    assert is_stopped_for_good(workspace)
    assert not is_stopped_for_good(tmp_path)
    (mark,) = tmp_path.rglob("stopped-for-good")
    assert not mark.is_relative_to(workspace)
    allow_start(workspace)
    allow_start(workspace)
    assert not is_stopped_for_good(workspace)
    mark.mkdir()
    allow_start(workspace)
    assert not is_stopped_for_good(workspace)


def ancestors(process_id):
    """Return the ids of the parent processes."""
    found = []
    while process_id > 1:
        done = subprocess.run(["ps", "-o", "ppid=", "-p", str(process_id)], capture_output=True, text=True, check=True)
        process_id = int(done.stdout)
        found.append(process_id)
    return found


def test_a_server_started_on_demand_ends_when_it_is_idle(tmp_path):
    (tmp_path / "workspace").mkdir()
    (tmp_path / "workspace" / "codriver.toml").write_text("idleExitSeconds = 1\n")
    with serving(tmp_path, "--on-demand", "--repl", "none") as live:
        until(lambda: live.process.poll() is not None, "its end")
        assert live.process.returncode == 0
        assert not live.port_file.exists()


def test_the_idle_time_can_be_changed_while_the_server_runs(tmp_path):
    with serving(tmp_path, "--on-demand", "--repl", "none") as live:
        (live.workspace / "codriver.toml").write_text("idleExitSeconds = 1\n")
        until(lambda: live.process.poll() is not None, "its end")
        assert live.process.returncode == 0


def test_a_server_started_by_hand_ignores_the_idle_time(tmp_path):
    (tmp_path / "workspace").mkdir()
    (tmp_path / "workspace" / "codriver.toml").write_text("idleExitSeconds = 1\n")
    with serving(tmp_path, "--repl", "none") as stays, serving(tmp_path / "b", "--idle-exit", "1") as goes:
        # The exit of the server with `--idle-exit` proves that there was enough time.
        until(lambda: goes.process.poll() is not None, "the end of the other")
        assert stays.process.poll() is None
        assert json.loads(stays.run("status", "--json").stdout)["ok"]


def test_a_server_started_on_demand_starts_no_program_from_an_untrusted_workspace(run, workspace):
    python = workspace / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(f'#!/bin/sh\ntouch {workspace}/run\nexec {sys.executable} "$@"\n')
    python.chmod(0o700)
    answered = run("eval", "--start", "6 * 7")
    assert answered.stdout == "42\n"
    reported = (
        f"not the project's own environment: to use that one, ask your human to run: codriver trust (in {workspace})"
    )
    assert reported in answered.stderr
    assert reported in run("status").stdout
    assert not (workspace / "run").exists()
    assert run("trust").returncode == 0
    until((workspace / "run").exists, "the project's own REPL, with no restart of the server")
    until(lambda: run("eval", "6 * 7").stdout == "42\n", "its answer")
    assert "codriver trust" not in run("status").stdout


def test_a_client_is_notified_once_that_its_server_was_replaced(tmp_path):
    with serving(tmp_path, "--repl", "python") as live:
        client = live.relay()
        assert "notes" not in client.call("evaluate_code", code="x = 7", timeoutMs=60_000, detail=False)
        live.process.kill()
        live.process.wait()
    with serving(tmp_path, "--repl", "python") as live, live.client() as other:
        answers = [client.call("evaluate_code", code="1", timeoutMs=60_000, detail=False) for _ in range(2)]
        assert [NEW_SERVER_NOTE in answer.get("notes", ()) for answer in answers] == [True, False]
        assert NEW_SERVER_NOTE not in other.call("evaluate_code", code="1", detail=False).get("notes", ())
        client.close()
