"""What a checkout puts into `.calva/mcp-server`, or who listens on a server's port: nothing is sent, read or killed."""

import contextlib
import json
import os
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import forked
import posix_only
import pytest
from live_server import RELAY, WAIT_S, Live, environ, serving
from needs import do_without
from other_user import listening
from ports import listen_on_unusual_port

from codriver_relay import safe_files

KEY = "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXktdjEAAAAABG5vbmUA\n"
TOKEN = "aB3_-" * 8 + "xyz"
COMMANDS = [
    ["status"], ["log"], ["history"], ["tools"], ["eval", "1"], ["doctor"],
]  # fmt: skip
CALL = b'{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "evaluate_code"}}\n'
NAMES = ("port", "server.json", "token", "serve.log", "lock", ".gitignore")
linux = pytest.mark.skipif(sys.platform != "linux", reason="only Linux identifies the listener")
as_root = pytest.mark.skipif(not posix_only.is_root(), reason="only root can act as a second user: run this as root")


class Listener:
    """An attacker's server: it accepts every connection and records all that it receives."""

    def __init__(self, port=0):
        self.socket = socket.create_server(("127.0.0.1", port)) if port else listen_on_unusual_port()
        self.port = self.socket.getsockname()[1]
        self.heard = b""
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self):
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self.socket.accept()
                threading.Thread(target=self._receive, args=(connection,), daemon=True).start()

    def _receive(self, connection):
        with connection, contextlib.suppress(OSError):
            while data := connection.recv(1 << 16):
                self.heard += data

    def close(self):
        with contextlib.suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)
        self.socket.close()


@pytest.fixture
def stranger():
    listener = Listener()
    yield listener
    listener.close()


@pytest.fixture
def workspace(tmp_path):
    directory = tmp_path / "workspace"
    directory.mkdir()
    return directory


@pytest.fixture
def directory(workspace):
    """Return where a checkout puts its files: a directory as `git` creates it."""
    directory = workspace / ".calva" / "mcp-server"
    directory.mkdir(parents=True)
    directory.chmod(0o755)
    return directory


@pytest.fixture
def secret(tmp_path):
    (tmp_path / "id_ed25519").write_text(KEY)
    (tmp_path / "id_ed25519").chmod(0o600)
    return tmp_path / "id_ed25519"


def plant(directory, port, *, host="127.0.0.1", pid=None):
    """Write what a checkout claims: a server on any port of any host."""
    about = {
        "pid": pid or os.getpid(), "port": port, "host": host, "sessionId": "a1",
        "startedAt": "2026-01-01T00:00:00+00:00",
    }  # fmt: skip
    (directory / "server.json").write_text(json.dumps(about))
    (directory / "port").write_text(str(port))


def run(workspace, *arguments, **variables):
    env = environ(workspace.parent) | {"CODRIVER_MCP_SOCKET_SERVER_PORT": "0"} | variables
    return forked.run([*arguments, "--workspace", str(workspace)], env=env, timeout=WAIT_S)


def relay(workspace, *options, given=None, **variables):
    given = given or workspace / ".calva" / "mcp-server" / "port"
    env = environ(workspace.parent) | {"CODRIVER_RELAY_GIVE_UP_S": "0.5"} | variables
    return subprocess.run(
        [sys.executable, "-I", "-S", RELAY, str(given), *options], env=env, input=CALL,
        capture_output=True, timeout=WAIT_S, check=False,
    )  # fmt: skip


@pytest.mark.parametrize("mode", [0o755, 0o700])
@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[0])
def test_no_command_sends_anything_to_a_server_named_by_a_checkout(
    workspace, directory, secret, stranger, command, mode
):
    """This includes a private directory, such as an archive may contain: the listener does not hold the workspace's
    lock.
    """
    plant(directory, stranger.port)
    (directory / "token").symlink_to(secret)
    directory.chmod(mode)
    run(workspace, *command, CODRIVER_TOKEN=TOKEN)
    assert stranger.heard == b""


@pytest.mark.parametrize("mode", [0o755, 0o700])
def test_the_relay_sends_nothing_to_a_server_named_by_a_checkout(workspace, directory, secret, stranger, mode):
    plant(directory, stranger.port)
    (directory / "token").symlink_to(secret)
    directory.chmod(mode)
    answer = json.loads(relay(workspace, CODRIVER_TOKEN=TOKEN).stdout)
    assert answer["error"]["data"] == {"reason": "server-unreachable"}
    assert stranger.heard == b""


def test_a_host_named_by_a_checkout_is_not_even_resolved(workspace, directory, stranger):
    """The address is on loopback, but not where a server of this workspace announces itself."""
    directory.chmod(0o700)
    for host in ("codriver.invalid", "192.0.2.1", "2001:db8::1"):
        plant(directory, stranger.port, host=host)
        done = run(workspace, "status")
        assert (done.returncode, "codriver.invalid" in done.stdout) == (3, False), done.stdout
    assert stranger.heard == b""


def test_a_process_id_planted_in_a_checkout_is_not_killed(workspace, directory, stranger):
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as victim:
        for mode in (0o755, 0o700):
            plant(directory, stranger.port, pid=victim.pid)
            directory.chmod(mode)
            assert "no server is running" in run(workspace, "stop").stdout
            assert victim.poll() is None
        victim.communicate(b"\n", timeout=WAIT_S)
        assert victim.returncode == 0
    assert stranger.heard == b""


def test_stop_ends_its_own_server_whatever_pid_is_in_the_files(tmp_path):
    with (
        subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as victim,
        serving(tmp_path, "--repl", "none") as live,
    ):
        file = live.port_file.with_name("server.json")
        file.write_text(json.dumps(json.loads(file.read_text()) | {"pid": victim.pid}))
        done = live.run("stop")
        assert victim.poll() is None
        victim.communicate(b"\n", timeout=WAIT_S)
        if sys.platform == "linux":
            assert f"stopped pid {live.process.pid}" in done.stdout, done.stderr


def test_planted_files_do_not_prevent_a_server_from_starting(tmp_path, workspace, directory, stranger):
    plant(directory, stranger.port)
    (directory / "token").write_text("x")
    with serving(tmp_path, "--repl", "none") as live:
        assert live.greeting.startswith("codriver listens"), live.greeting
        assert stat.S_IMODE(directory.stat().st_mode) == 0o700
        assert not (directory / "token").exists()
        assert json.loads(live.run("status", "--json").stdout)["pid"] == live.process.pid
    assert stranger.heard == b""


@pytest.mark.parametrize("where", [".calva", ".calva/mcp-server"])
def test_a_link_in_place_of_the_state_directory_is_not_followed(tmp_path, workspace, stranger, where):
    outside = tmp_path / "outside"
    (outside / "mcp-server").mkdir(parents=True)
    (outside / "mcp-server").chmod(0o700)
    plant(outside / "mcp-server", stranger.port)
    before = names(outside)
    link = workspace / where
    link.parent.mkdir(exist_ok=True)
    link.symlink_to(outside if where == ".calva" else outside / "mcp-server")
    for command in (["status"], ["stop"], ["eval", "--start", "1"]):
        run(workspace, *command)
    relay(workspace, "--start")
    live = Live(tmp_path, "--repl", "none")
    live.stop()
    assert "the path is a link" in live.greeting
    assert names(outside) == before
    assert stranger.heard == b""


@pytest.mark.parametrize("name", NAMES)
def test_a_link_in_place_of_a_state_file_is_neither_read_nor_written(tmp_path, workspace, directory, secret, name):
    (directory / name).symlink_to(secret)
    live = Live(tmp_path, "--repl", "none")
    run(workspace, "eval", "--start", "1")
    relay(workspace, "--start")
    live.stop()
    run(workspace, "stop")
    assert secret.read_text() == KEY


def strange(path, shape):
    if shape == "fifo":
        posix_only.make_pipe(path)
    elif shape == "huge":
        with path.open("wb") as file:
            file.truncate(1 << 40)
    elif shape == "folder":
        path.mkdir()
    else:
        path.symlink_to(shape)


MAX_BYTES = 1 << 30
USED_BYTES = 150 << 20
"""What a command takes at most that reads the beginning of such a file."""
LIMITED = ["/bin/sh", "-c", f'ulimit -v {MAX_BYTES >> 10}; exec "$@"', "sh"]


def limited_codriver(words, env):
    """Run a command with limited memory, and return its output."""
    if not forked.can_fork(env):
        command = [*LIMITED, sys.executable, "-m", "codriver", *words]
        return subprocess.run(
            command, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            timeout=WAIT_S, check=False,
        ).stdout  # fmt: skip
    process = forked.Forked(words, env=env)
    posix_only.limit_memory(process.pid, MAX_BYTES)
    output, _ = process.communicate(WAIT_S)
    assert process.memory < USED_BYTES
    return output


@pytest.mark.parametrize("shape", ["fifo", "huge", "folder", "/dev/zero", "/dev/ptmx"])
@pytest.mark.parametrize("name", ["port", "server.json", "token", "serve.log", "lock"])
def test_special_and_huge_files_neither_block_nor_use_memory(workspace, directory, stranger, name, shape):
    """Each is limited by the test's own timeout, and by 1 GiB of address space."""
    plant(directory, stranger.port)
    directory.chmod(0o700)
    (directory / name).unlink(missing_ok=True)
    strange(directory / name, shape)
    env = environ(workspace.parent) | {"CODRIVER_RELAY_GIVE_UP_S": "0.2", "CODRIVER_SERVER_COMMAND": "/bin/false"}
    for command in ("status", "stop"):
        text = limited_codriver([command, "--workspace", str(workspace)], env)
        assert "Traceback" not in text, text
    for options in ([], ["--start"]):
        relay = [sys.executable, "-I", "-S", RELAY, str(directory / "port"), *options]
        done = subprocess.run([*LIMITED, *relay], input=CALL, env=env, capture_output=True, timeout=WAIT_S, check=False)
        assert b"Traceback" not in done.stderr + done.stdout, done.stderr
    assert stranger.heard == b""


def test_a_relay_that_makes_the_directory_private_removes_planted_files(workspace, directory, stranger):
    """Otherwise they would be trusted from then on, even if the start fails."""
    plant(directory, stranger.port)
    (directory / "token").write_text("A" * 43)
    env = environ(workspace.parent) | {"CODRIVER_RELAY_GIVE_UP_S": "0.2", "CODRIVER_SERVER_COMMAND": "/bin/false"}
    subprocess.run(
        [sys.executable, "-I", "-S", RELAY, str(directory / "port"), "--start"],
        input=CALL, env=env, capture_output=True, timeout=WAIT_S, check=False,
    )  # fmt: skip
    assert directory.stat().st_mode & 0o777 == 0o700
    assert sorted(path.name for path in directory.iterdir()) == ["serve.log"]
    assert stranger.heard == b""


def test_a_log_that_is_a_pipe_blocks_neither_start_nor_signals(workspace, directory):
    posix_only.make_pipe(directory / "serve.log")
    done = run(workspace, "eval", "--start", "1")
    assert (done.returncode, "a pipe" in done.stderr) == (3, True), done.stderr
    waiting = subprocess.Popen(
        [sys.executable, "-I", "-S", RELAY, str(directory / "port"), "--start"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environ(workspace.parent),
    )  # fmt: skip
    with waiting:
        waiting.stdin.write(CALL)
        waiting.stdin.flush()
        assert b"serve.log" in waiting.stdout.readline()
        waiting.send_signal(signal.SIGTERM)
        assert waiting.wait(WAIT_S) == -signal.SIGTERM


@pytest.mark.parametrize("text", [KEY, "x", TOKEN + "x", TOKEN[:-1] + "\n" + "x", TOKEN[:-1] + "é"])
def test_a_token_file_without_a_valid_token_is_not_used(tmp_path, text):
    with serving(tmp_path, "--repl", "none") as live:
        (live.port_file.with_name("token")).write_text(text)
        (live.port_file.with_name("token")).chmod(0o600)
        listener = sniffed(live)
        assert text.strip() not in listener


def sniffed(live):
    """Return what a command and the relay would send as a token."""
    from codriver.net.server_record import read_token  # noqa: PLC0415  # the fixture's own process asks

    descriptor = os.open(live.port_file.parent, os.O_RDONLY)
    try:
        return f"{read_token(live.port_file.parent) or ''} {safe_files.read_token(descriptor)}"
    finally:
        os.close(descriptor)


@pytest.mark.parametrize("host", ["0.0.0.0", "::"])
def test_commands_and_relay_connect_with_a_token(tmp_path, host):
    with serving(tmp_path, "--repl", "none", "--host", host) as live:  # the point
        assert json.loads(live.run("status", "--json").stdout)["ok"]
        with live.relay() as client:
            assert client.call("server_health")["ok"]


def test_commands_and_relay_connect_to_the_loopback_address_of_ipv6(tmp_path):
    with serving(tmp_path, "--repl", "none", "--host", "::1") as live:
        assert f"codriver listens on [::1]:{live.port};" in live.greeting
        assert f" on [::1]:{live.port}, since" in live.run("status").stdout
        doctor = live.run("doctor").stdout
        assert f" listens on [::1]:{live.port}, since" in doctor
        assert "codriver_relay.py reaches the server" in doctor
        with live.relay() as client:
            assert client.call("server_health")["ok"]


def test_the_relay_connects_to_no_other_machine_that_a_record_names(tmp_path):
    with serving(tmp_path, "--repl", "none") as live:
        record = live.port_file.with_name("server.json")
        record.write_text(record.read_text().replace('"127.0.0.1"', '"192.0.2.77"'))
        with live.relay() as client:
            assert client.call("server_health")["ok"]


@linux
@as_root
@pytest.mark.parametrize("command", [*COMMANDS, None], ids=lambda command: command[0] if command else "relay")
def test_nothing_is_sent_to_another_user_on_the_port_of_a_killed_server(tmp_path, command):
    live = Live(tmp_path, "--repl", "none", "--host", "127.0.0.1")
    port = live.port
    live.stop(posix_only.KILL)
    with listening(port) as received:
        if command is None:
            answer = json.loads(relay(live.workspace, CODRIVER_TOKEN=TOKEN).stdout)
            assert "error" in answer
            answer = json.loads(relay(live.workspace, given=port, CODRIVER_TOKEN=TOKEN).stdout)
            assert "another user of this machine" in answer["error"]["message"]
        else:
            run(live.workspace, *command, CODRIVER_TOKEN=TOKEN)
        assert received() == b""


@as_root
def test_a_directory_of_another_user_is_refused(tmp_path, workspace, directory):
    posix_only.give_away(directory)
    live = Live(tmp_path, "--repl", "none")
    live.stop()
    assert "another user" in live.greeting
    assert stat.S_IMODE(directory.stat().st_mode) == 0o755
    assert "another user" in run(workspace, "status").stdout


def test_a_port_file_naming_another_workspaces_server_connects_no_client(tmp_path):
    with serving(tmp_path / "a", "--repl", "none") as mine, serving(tmp_path / "b", "--repl", "none") as other:
        mine.port_file.write_text(str(other.port))
        answer = json.loads(relay(mine.workspace).stdout)
        assert answer["error"]["data"] == {"reason": "server-unreachable"}
        done = mine.run("status")
        assert (done.returncode, "the server of another workspace" in done.stdout) == (3, True)
        with other.client() as client:
            assert len(client.call("server_health")["clients"]) == 1


def test_a_server_disconnects_peers_that_expect_another_workspace(tmp_path):
    with serving(tmp_path, "--repl", "none") as live:
        status = live.workspace.stat()
        ours = f"{status.st_dev}:{status.st_ino}"
        for meant, is_let_in in ((ours, True), ("1:2", False), (17, False)):
            with socket.create_connection(("127.0.0.1", live.port), timeout=WAIT_S) as peer:
                line = {"jsonrpc": "2.0", "method": "codriver/token", "params": {"workspace": meant}}
                ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
                peer.sendall(f"{json.dumps(line)}\n".encode())
                lines = peer.makefile("rb")
                assert json.loads(lines.readline())["params"] == {"workspace": ours}
                with contextlib.suppress(ConnectionError):
                    peer.sendall(f"{json.dumps(ping)}\n".encode())
                    assert bool(lines.readline()) is is_let_in
        with live.client() as client:  # which tells none
            assert client.call("server_health")["ok"]


def test_starting_a_server_imports_no_module_from_the_workspace(workspace):
    """`python -m` searches the current directory first."""
    (workspace / "codriver.py").write_text(f"open({str(workspace / 'run')!r}, 'w').close()\n")
    subprocess.run(
        [sys.executable, "-P", "-m", "codriver", "eval", "--start", "1"], cwd=workspace, capture_output=True,
        env=environ(workspace.parent) | {"CODRIVER_MCP_SOCKET_SERVER_PORT": "0"}, timeout=WAIT_S, check=False,
    )  # fmt: skip
    subprocess.run(
        [sys.executable, RELAY, ".calva/mcp-server/port", "--start"], cwd=workspace, input=CALL,
        env=environ(workspace.parent) | {"CODRIVER_MCP_SOCKET_SERVER_PORT": "0"}, capture_output=True,
        timeout=WAIT_S, check=False,
    )  # fmt: skip
    assert not (workspace / "run").exists()
    assert "stopped" in run(workspace, "stop").stdout


@linux
@as_root
def test_the_server_the_commands_and_the_relay_work_for_a_user_other_than_root(request):
    """A server, a command and the relay run as a different user than the tests."""
    home = Path(tempfile.mkdtemp(prefix="codriver-"))  # below a folder that every user can reach
    request.addfinalizer(lambda: shutil.rmtree(home))
    (home / "workspace").mkdir(parents=True)
    for path in (home, home / "workspace"):
        posix_only.give_away(path)
    become = [
        "setpriv", "--reuid=12345", "--regid=12345", "--clear-groups",
        # It need not be able to read the interpreter, which may lie in the home of root.
        "--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search",
    ]  # fmt: skip
    if shutil.which("setpriv") is None or subprocess.run([*become, "true"], check=False).returncode:
        do_without("there is no setpriv here that makes a second user: install util-linux", is_expected=False)
    env = environ(home) | {"HOME": str(home), "CODRIVER_RELAY_DURATIONS": f"answers_s={WAIT_S}"}
    command = [*become, sys.executable, "-m", "codriver"]
    place = ["--workspace", str(home / "workspace")]
    serve = [*command, "serve", *place, "--port", "0", "--repl", "none"]
    with (
        subprocess.Popen(serve, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=env) as server,
        contextlib.ExitStack() as stack,
    ):
        stack.callback(server.kill)
        greeting = server.stdout.readline()
        assert greeting.startswith(b"codriver listens"), greeting + server.stdout.read()
        done = subprocess.run([*command, "status", *place], env=env, capture_output=True, timeout=WAIT_S, check=False)
        assert done.returncode == 0, done.stdout
        relayed = [*become, sys.executable, "-I", "-S", RELAY]
        port_file = str(home / "workspace" / ".calva" / "mcp-server" / "port")
        given = b'{"jsonrpc": "2.0", "id": 1, "method": "ping"}\n'
        done = subprocess.run(
            [*relayed, port_file], input=given, env=env, capture_output=True, timeout=WAIT_S, check=False
        )
        assert json.loads(done.stdout)["result"] == {}
        done = subprocess.run([*command, "stop", *place], env=env, capture_output=True, timeout=WAIT_S, check=False)
        assert b"stopped pid" in done.stdout


def names(directory):
    return sorted(str(path.relative_to(directory)) for path in directory.rglob("*"))
