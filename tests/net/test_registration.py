import json
import os
import subprocess
import sys

import posix_only
import pytest
from click.testing import CliRunner
from live_server import Live, serving

from codriver.commands.stop import stop_command
from codriver.net.client import NoServerError, RemoteServerError, connect
from codriver.net.registration import (
    AlreadyRunningError,
    ClaimError,
    claim_workspace,
)
from codriver.net.server_record import ServerRecord, read_record, remote_server_host
from codriver_relay.hosts import host_identity
from codriver_relay.safe_files import read_token_for_port

ALIVE = ServerRecord(os.getpid(), 1234, "127.0.0.1", "session-a", 1_700_000_000_123, "1.0", "port 1664 was taken")

NEXT = "n" * 43

GONE_RECORD = {
    "pid": 1, "port": 4711, "host": "127.0.0.1", "sessionId": "x", "startedAt": "2026-01-01T00:00:00+00:00"
}  # fmt: skip


def nobody(record):
    return False


@pytest.fixture(autouse=True)
def state(monkeypatch, tmp_path_factory):
    """Return a directory for the user's state of all programs."""
    folder = tmp_path_factory.mktemp("state")
    monkeypatch.setenv("XDG_STATE_HOME", str(folder))
    return folder / "codriver"


def test_a_published_record_can_be_read(tmp_path):
    with claim_workspace(tmp_path / "p", is_alive=nobody) as retained:
        retained.publish(ALIVE)
        assert (tmp_path / "p" / "port").read_bytes() == b"1234"
        assert read_record(tmp_path / "p") == ALIVE


def test_registration_files_are_private(tmp_path):
    with claim_workspace(tmp_path, is_alive=nobody) as retained:
        retained.create_token()
        retained.publish(ALIVE)
        for name in ("port", "server.json", "token", ".gitignore"):
            assert (tmp_path / name).stat().st_mode & 0o777 == 0o600


def test_releasing_a_workspace_removes_the_registration_files(tmp_path):
    with claim_workspace(tmp_path, is_alive=nobody) as retained:
        retained.create_token()
        retained.publish(ALIVE)
    assert {path.name for path in tmp_path.iterdir()} == {"lock", ".gitignore"}


def test_releasing_a_workspace_keeps_files_that_another_server_has_written(tmp_path):
    with claim_workspace(tmp_path, is_alive=nobody) as retained:
        retained.publish(ALIVE)
        other = json.loads((tmp_path / "server.json").read_text()) | {"sessionId": "session-b"}
        (tmp_path / "server.json").write_text(json.dumps(other))
    assert (tmp_path / "port").exists()
    assert read_record(tmp_path).session_id == "session-b"


def test_releasing_a_workspace_keeps_files_that_no_longer_name_this_server(tmp_path):
    with claim_workspace(tmp_path, is_alive=nobody) as retained:
        retained.create_token()
        retained.publish(ALIVE)
        for name in ("server.json", "port", "token"):
            (tmp_path / name).write_text("somebody's")
    assert {(tmp_path / name).read_text() for name in ("server.json", "port", "token")} == {"somebody's"}


def test_each_start_has_a_new_token(tmp_path):
    tokens = set()
    for _ in range(2):
        with claim_workspace(tmp_path, is_alive=nobody) as retained:
            tokens.add(retained.create_token())
            assert (tmp_path / "token").read_text() in tokens
    assert len(tokens) == 2


def test_a_client_that_knows_only_the_port_finds_the_token_in_the_state_directory(tmp_path, state):
    with claim_workspace(tmp_path, is_alive=nobody) as retained:
        token = retained.create_token()
        retained.publish(ALIVE)
        assert read_token_for_port(ALIVE.port) == token
        (state / "doors" / str(ALIVE.port)).chmod(0o644)
        assert read_token_for_port(ALIVE.port) == ""
        (state / "doors" / str(ALIVE.port)).chmod(0o600)
    assert read_token_for_port(ALIVE.port) == ""
    assert not list((state / "doors").iterdir())


def test_a_stopping_server_keeps_the_token_of_the_next_server_on_its_port(tmp_path, state):
    with claim_workspace(tmp_path, is_alive=nobody) as retained:
        retained.create_token()
        retained.publish(ALIVE)
        (state / "doors" / str(ALIVE.port)).write_text(NEXT)
    assert read_token_for_port(ALIVE.port) == NEXT


def test_without_a_token_nothing_is_stored_for_the_port(tmp_path, state):
    with claim_workspace(tmp_path, is_alive=nobody) as retained:
        retained.publish(ALIVE)
        assert not (state / "doors").exists()


def test_a_stale_claim_to_a_workspace_is_replaced(tmp_path):
    with claim_workspace(tmp_path, is_alive=nobody) as retained:
        retained.publish(ALIVE)
        saved = {name: (tmp_path / name).read_text() for name in ("port", "server.json")}
    for name, text in saved.items():
        (tmp_path / name).write_text(text)
    with claim_workspace(tmp_path, is_alive=nobody):
        assert not (tmp_path / "port").exists()


def test_a_record_does_not_prevent_a_start_while_the_lock_is_free(tmp_path):
    """The process that gets the lock claims the workspace, even if the record names a running process."""
    (tmp_path / "server.json").write_text(json.dumps(GONE_RECORD))
    with claim_workspace(tmp_path, is_alive=lambda found: True) as retained:
        retained.publish(ALIVE)
        assert read_record(tmp_path) == ALIVE


HOLD = """
import sys, pathlib
from codriver.net.registration import claim_workspace
with claim_workspace(pathlib.Path(sys.argv[1]), is_alive=lambda record: False):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_only_one_of_two_simultaneous_starts_succeeds(tmp_path):
    command = [sys.executable, "-c", HOLD, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout.readline() == "held\n"
        with (
            pytest.raises(AlreadyRunningError, match="it is starting or stopping"),
            claim_workspace(tmp_path, is_alive=nobody, lock_s=0.1),
        ):
            pass
        holder.kill()
    with claim_workspace(tmp_path, is_alive=nobody):
        pass


def test_a_start_waiting_for_the_lock_names_the_server_that_appeared(tmp_path):
    requests = []
    up = {"pid": 1, "port": 4711, "host": "127.0.0.1", "sessionId": "x", "startedAt": "2026-01-01T00:00:00+00:00"}

    def is_alive(record):
        requests.append(record)
        return True

    command = [sys.executable, "-c", HOLD, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout.readline() == "held\n"
        (tmp_path / "server.json").write_text(json.dumps(up))
        with (
            pytest.raises(AlreadyRunningError, match="pid 1 on port 4711"),
            claim_workspace(tmp_path, is_alive=is_alive, lock_s=60),
        ):
            pass
        holder.kill()
    assert requests


def test_a_start_waiting_for_the_lock_continues_when_the_other_server_has_ended(tmp_path):
    command = [sys.executable, "-c", HOLD, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout.readline() == "held\n"
        (tmp_path / "server.json").write_text(json.dumps(GONE_RECORD))
        looked = []

        def is_alive(record):
            looked.append(record)
            holder.kill()
            return False

        with claim_workspace(tmp_path, is_alive=is_alive, lock_s=60):
            assert looked


def test_a_lock_that_is_a_link_is_not_followed(tmp_path):
    folder, elsewhere = tmp_path / "p", tmp_path / "elsewhere"
    folder.mkdir()
    (folder / "lock").symlink_to(elsewhere)
    with pytest.raises(ClaimError, match="the path is a link"), claim_workspace(folder, is_alive=nobody):
        pass
    assert not elsewhere.exists()


def test_a_port_file_that_is_a_link_is_replaced_and_not_followed(tmp_path):
    folder, elsewhere = tmp_path / "p", tmp_path / "elsewhere"
    folder.mkdir()
    elsewhere.write_text("kept")
    with claim_workspace(folder, is_alive=nobody) as retained:
        (folder / "port").symlink_to(elsewhere)
        retained.publish(ALIVE)
        assert (folder / "port").read_text() == "1234"
    assert elsewhere.read_text() == "kept"


def test_a_file_in_place_of_the_directory_is_reported(tmp_path):
    (tmp_path / "p").write_text("")
    with (
        pytest.raises(ClaimError, match="choose another --workspace"),
        claim_workspace(tmp_path / "p", is_alive=nobody),
    ):
        pass


@pytest.mark.parametrize(
    "wrong", [{"pid": 0}, {"pid": -1}, {"pid": 10**30}, {"port": 0}, {"port": 65536}, {"startedAt": "x"}, {"host": 5}]
)
def test_a_registration_record_with_an_invalid_value_is_harmless(tmp_path, wrong):
    (tmp_path / "server.json").write_text(json.dumps(GONE_RECORD | wrong))
    with claim_workspace(tmp_path, is_alive=nobody):
        assert not (tmp_path / "server.json").exists()


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"pid": "x"}', '{"pid": 1}', "\udcff", "[" * 100_000])
def test_an_unusable_record_is_treated_as_missing(tmp_path, text):
    (tmp_path / "server.json").write_bytes(text.encode("utf-8", "surrogateescape"))
    assert read_record(tmp_path) is None


# With real servers


def test_only_one_of_several_real_servers_runs_and_the_others_name_it(tmp_path):
    servers = [Live(tmp_path, "--repl", "none") for _ in range(1)]
    command = servers[0].command("serve", "--port", "0", "--repl", "none")
    racers = [
        subprocess.Popen(command, env=servers[0].environ, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        for _ in range(3)
    ]
    try:
        for racer in racers:
            output, _ = racer.communicate(timeout=60)
            assert racer.returncode == 1
            assert f"pid {servers[0].process.pid} on port {servers[0].port}" in output
    finally:
        servers[0].stop()


def test_a_stale_port_file_with_a_reused_pid_is_replaced(tmp_path):
    live = Live(tmp_path, "--repl", "none")
    folder = live.port_file.parent
    live.stop(posix_only.KILL)
    record = json.loads((folder / "server.json").read_text())
    (folder / "server.json").write_text(json.dumps(record | {"pid": os.getppid() or 1}))
    with serving(tmp_path, "--repl", "none") as again, again.client() as client:
        assert client.call("server_health")["pid"] == again.process.pid
        assert read_record(folder).session_id == client.call("server_health")["sessionId"]


@pytest.mark.skipif(not host_identity(), reason="this system has no identity of a host")
def test_a_server_on_another_host_is_named_until_it_releases_its_lock(tmp_path):
    directory = tmp_path / ".calva" / "mcp-server"
    command = [sys.executable, "-c", HOLD, str(directory)]
    record = {**GONE_RECORD, "port": 9, "hostName": "build-2", "hostId": "another-boot net:[1]"}
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout.readline() == "held\n"
        (directory / "server.json").write_text(json.dumps(record))
        (directory / "port").write_text("9")
        in_use = "in use by a server on build-2. Use it on one host only, or make a checkout for each host"
        with pytest.raises(AlreadyRunningError, match=in_use), claim_workspace(directory, is_alive=nobody, lock_s=0.1):
            pass
        with pytest.raises(RemoteServerError, match=in_use):
            connect(tmp_path, start=True)
        stopped = CliRunner().invoke(stop_command, ["--workspace", str(tmp_path)])
        assert stopped.exit_code == 1
        assert in_use in " ".join(stopped.output.split())
        assert "kill" not in stopped.output
        renamed = {**record, "hostId": host_identity()}
        (directory / "server.json").write_text(json.dumps(renamed))
        assert remote_server_host(directory) == "", "the host was renamed"
        (directory / "server.json").write_text(json.dumps(record))
        holder.kill()
    assert remote_server_host(directory) == "", "the container was restarted"
    with claim_workspace(directory, is_alive=nobody) as claim:
        claim.publish(ALIVE)
        assert read_record(directory) == ALIVE


@pytest.mark.skipif(not host_identity(), reason="this system has no identity of a host")
def test_a_server_records_its_host(tmp_path):
    with serving(tmp_path, "--repl", "none") as live:
        directory = live.workspace / ".calva" / "mcp-server"
        assert read_record(directory).host_id == host_identity()
        assert remote_server_host(directory) == ""


def test_the_error_for_a_missing_server_names_the_commands_that_start_one(tmp_path):
    with pytest.raises(NoServerError, match="or pass --start to eval, load, test, call or tools"):
        connect(tmp_path)
