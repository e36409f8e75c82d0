"""A port file left by a killed server may name the port of another workspace's server."""

import json
import socket
import subprocess
import sys

import pytest
from live_server import RELAY, WAIT_S, Live, Relayed, serving

from codriver.net.client import WrongWorkspaceError, request_stop
from codriver.net.server_record import NotTheServerError, read_record

WHERE = "import os\nos.getcwd()"


@pytest.fixture
def workspaces(tmp_path):
    """Return a workspace whose server was killed, and the server of another workspace that now has its port."""
    killed = Live(tmp_path / "killed", "--repl", "python")
    port = killed.port
    killed.process.kill()
    killed.process.wait(WAIT_S)
    killed.process.stdout.close()
    assert killed.port_file.exists()
    with serving(tmp_path / "other", "--repl", "python", "--port", str(port)) as other:
        assert other.port == port
        yield killed, other
        killed.run("stop")


def test_a_command_does_not_use_the_server_of_another_workspace(workspaces):
    killed, other = workspaces
    for name, *arguments in (["eval", WHERE], ["status"], ["tools"]):
        done = killed.run(name, *arguments)
        assert done.returncode == 3
        assert "the server of another workspace" in done.stdout + done.stderr
    assert other.run("eval", WHERE).stdout == f"'{other.workspace}'\n"


def test_a_command_starts_its_own_server_instead_of_using_that_of_another_workspace(workspaces):
    killed, _ = workspaces
    done = killed.run("eval", "--start", WHERE)
    assert (done.returncode, done.stdout) == (0, f"'{killed.workspace}'\n"), done.stderr


def test_a_relay_connects_only_to_the_server_of_its_own_workspace(workspaces):
    killed, other = workspaces
    command = [sys.executable, "-I", "-S", RELAY, str(killed.port_file), "--start"]
    with Relayed(command, killed.environ) as client:
        assert client.call("server_health")["workspace"] == str(killed.workspace)
    with other.relay() as client:
        assert client.call("server_health")["workspace"] == str(other.workspace)


def test_a_relay_that_may_not_start_a_server_gives_up_and_forwards_nothing(workspaces):
    killed, other = workspaces
    command = [sys.executable, "-I", "-S", RELAY, str(killed.port_file)]
    call = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "tools/call",
        "params": {"name": "evaluate_code", "arguments": {"code": "stranger = 1"}},
    }
    done = subprocess.run(
        command, input=json.dumps(call) + "\n", capture_output=True, text=True, timeout=WAIT_S, check=False,
        env={**killed.environ, "CODRIVER_RELAY_GIVE_UP_S": "1"},
    )  # fmt: skip
    assert json.loads(done.stdout.splitlines()[0])["error"]
    assert other.run("eval", "'stranger' in globals()").stdout == "False\n"


def test_doctor_reports_a_left_over_port_file(workspaces):
    killed, _ = workspaces
    report = json.loads(killed.run("doctor", "--json").stdout)
    (check,) = [check for check in report["checks"] if check["area"] == "port file"]
    assert "left by a server that has stopped" in check["text"]


@pytest.mark.parametrize("pieces", [1, 10, 1000])
def test_an_introduction_is_recognized_however_it_is_split(tmp_path, pieces):
    with serving(tmp_path, "--repl", "none") as live:
        session = json.loads((live.port_file.parent / "server.json").read_text())["sessionId"]
        for named, is_let_in in ((session, True), ("another", False)):
            line = {"jsonrpc": "2.0", "method": "codriver/token", "params": {"session": named}}
            ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
            data = f"{json.dumps(line)}\n{json.dumps(ping)}\n".encode()
            with socket.create_connection(("127.0.0.1", live.port), timeout=WAIT_S) as connection:
                size = -(-len(data) // pieces)
                try:
                    for start in range(0, len(data), size):
                        connection.sendall(data[start : start + size])
                    answer = connection.makefile("rb").readline()
                except ConnectionError:
                    answer = b""
            assert bool(answer) is is_let_in


def test_a_message_that_only_resembles_an_introduction_is_answered(tmp_path):
    with serving(tmp_path, "--repl", "none") as live:
        for line in (
            b'{"jsonrpc": "2.0", "method": "codriver/token", broken\n',
            b'{"jsonrpc": "2.0", "method": "codriver/tokens", "id": 1}\n',
        ):
            with socket.create_connection(("127.0.0.1", live.port), timeout=WAIT_S) as connection:
                connection.sendall(line)
                assert "error" in json.loads(connection.makefile("rb").readline())


def test_a_server_can_be_stopped_through_its_socket(tmp_path):
    with serving(tmp_path, "--repl", "none") as live:
        request_stop(live.workspace, read_record(live.port_file.parent))
        assert live.process.wait(WAIT_S) == 0
        assert not live.port_file.exists()


def test_the_server_of_another_workspace_is_not_stopped(workspaces):
    killed, other = workspaces
    with pytest.raises((NotTheServerError, WrongWorkspaceError)):
        request_stop(killed.workspace, read_record(killed.port_file.parent))
    assert other.run("status").returncode == 0
