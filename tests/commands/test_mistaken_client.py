"""`codriver serve` as the command of an MCP client ends with one line that says what to run instead."""

import json
import subprocess

import pytest
from live_server import CODRIVER, serving, until, user_settings_file

from codriver.commands.mistaken_client import is_json_rpc

INITIALIZE = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": "2025-11-25"}}


@pytest.mark.parametrize(
    ("line", "is_one"),
    [
        (json.dumps(INITIALIZE), True),
        (json.dumps([INITIALIZE]), True),
        ('{"id": 1}', False),
        ("[]", False),
        ("1 + 2", False),
        ("", False),
        ("[" * 5000, False),
        ("\xff", False),
    ],
)
def test_json_rpc_lines_are_recognized(line, is_one):
    assert is_json_rpc(line.encode("latin-1")) == is_one


@pytest.mark.parametrize("is_late", [False, True], ids=["at once", "once it serves"])
def test_a_client_that_starts_the_server_directly_gets_one_line_and_exit_status_2(tmp_path, is_late):
    with serving(tmp_path, "--repl", "none") as live:
        command, env = live.command("serve", "--port", "0", "--repl", "none"), live.environ
        live.run("stop")
    user_settings_file(tmp_path)
    with subprocess.Popen(
        command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        if is_late:
            until(lambda: live.run("status").returncode == 0, "the server")
        process.stdin.write("\n" + json.dumps(INITIALIZE) + "\n")
        process.stdin.flush()  # it stays open, as a client that waits for an answer keeps it
        assert process.wait(60) == 2
        output = process.stderr.read()
    assert output.count("\n") == 1
    assert "codriver-relay --workspace auto --start" in output
    assert live.run("status").returncode == 3


@pytest.mark.parametrize("given", [subprocess.DEVNULL, subprocess.PIPE], ids=["nothing", "other text"])
def test_a_server_whose_input_is_not_json_rpc_serves_normally(tmp_path, given):
    with serving(tmp_path, "--repl", "none") as live:
        command, env = live.command("serve", "--port", "0", "--repl", "none"), live.environ
        live.run("stop")
    with subprocess.Popen(command, env=env, stdin=given, stdout=subprocess.PIPE, text=True) as process:
        if process.stdin:
            process.stdin.write("some list of files\n{}\n")
            process.stdin.close()
        assert "codriver" in process.stdout.readline()
        until(lambda: live.run("status").returncode == 0, "the server")
        assert live.run("stop").returncode == 0
        assert process.wait(60) == 0


def test_a_deleted_current_directory_is_named_as_the_cause(tmp_path):
    (tmp_path / "gone").mkdir()
    script = 'cd gone && rmdir ../gone && exec "$@"'
    done = subprocess.run(
        ["sh", "-c", script, "sh", *CODRIVER, "status"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (1, "codriver: the current directory has been deleted\n")
