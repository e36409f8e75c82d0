"""Port files that lead to a port of another user of this machine: nothing is sent there without a request."""

import json
import socket
import uuid

import other_user
import pytest
import real_repls
from live_server import Live, serving, until, user_settings_file
from other_user import needs_root

pytestmark = needs_root
WHOSE = {"code": "__import__('os').getuid()"}
FILES = [".nrepl-port", ".codriver/app.port"]
GREETING = b"\xff" + bytes(8) + b"\x7f" + b"\x03\x00NULL" + bytes(48)
"""The beginning of what ZeroMQ says at once. Source: ZMTP 3.0, `greeting`."""


def write(workspace, name, port):
    """Write a port file in a workspace, as a REPL leaves it that is gone."""
    file = workspace / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(str(port))
    return file


def the_session(live):
    """Return the row of the only REPL, once a connection was attempted."""
    with live.client() as client:

        def tried():
            rows = client.call("list_sessions")["sessions"]
            return next((row for row in rows if row["phase"] != "connecting"), None)

        return until(tried, "the REPL")


@pytest.mark.parametrize("name", FILES)
def test_a_repl_of_another_user_behind_a_port_file_is_not_used(tmp_path, name):
    with other_user.repl() as port:
        file = write(tmp_path / "workspace", name, port)
        with serving(tmp_path) as live:
            row = the_session(live)
            with live.client() as client:
                answer = client.call("evaluate_code", **WHOSE)
                reply = client.call("repl_output_log", limit=100)["result"]
    assert (row["phase"], answer["ok"]) == ("waiting", False), answer
    for words in (row["note"], *(line["text"] for line in reply if str(file) in line["text"])):
        assert f"the process belongs to another user of this machine, nobody (uid {other_user.NOBODY})" in words
        assert f"--nrepl 127.0.0.1:{port}" in words
    assert any(f"--nrepl 127.0.0.1:{port}" in line["text"] for line in reply)


@pytest.mark.parametrize("name", FILES)
def test_nothing_is_sent_to_another_user_behind_a_port_file(tmp_path, name):
    (port,) = other_user.free_ports(1)
    with other_user.listening(port) as received:
        write(tmp_path / "workspace", name, port)
        with serving(tmp_path) as live:
            assert the_session(live)["phase"] == "waiting"
            assert "another user of this machine" in live.run("doctor").stdout
        assert received() == b""


def test_doctor_names_the_other_user_and_the_option_to_allow_it(tmp_path):
    with other_user.repl() as port:
        live = Live(tmp_path, "--repl", "none")
        write(live.workspace, ".nrepl-port", port)
        output = [live.run("doctor").stdout]
        live.stop()
        output.append(live.run("doctor").stdout)
    for text in output:
        assert f"the process belongs to another user of this machine, nobody (uid {other_user.NOBODY})" in text, text
        assert f"--nrepl 127.0.0.1:{port}" in text


def test_a_repl_named_on_the_command_line_is_used_whoever_runs_it(tmp_path):
    with other_user.repl() as port:
        write(tmp_path / "workspace", ".nrepl-port", port)
        with serving(tmp_path, "--nrepl", str(port)) as live, live.client() as client:
            assert client.call("evaluate_code", **WHOSE)["result"] == str(other_user.NOBODY)


def test_a_repl_in_the_users_own_settings_is_used_whoever_runs_it(tmp_path):
    with other_user.repl() as port:
        user_settings_file(tmp_path).write_text(f"nrepl = ['{port}']\n")
        write(tmp_path / "workspace", ".nrepl-port", port)
        with serving(tmp_path) as live, live.client() as client:
            assert client.call("evaluate_code", **WHOSE)["result"] == str(other_user.NOBODY)


def test_nothing_is_sent_to_another_user_behind_a_kernel_connection_file(tmp_path):
    ports = other_user.free_ports(5)
    kernel = dict(zip(("shell_port", "iopub_port", "stdin_port", "control_port", "hb_port"), ports, strict=True))
    notebook = tmp_path / "workspace" / "a.ipynb"
    kernel |= {"ip": "127.0.0.1", "transport": "tcp", "key": uuid.uuid4().hex, "signature_scheme": "hmac-sha256"}
    kernel |= {"kernel_name": "python3", "jupyter_session": str(notebook)}
    file = tmp_path / "jupyter" / f"kernel-{uuid.uuid4()}.json"
    file.parent.mkdir()
    file.touch(0o600)
    file.write_text(json.dumps(kernel))
    with other_user.listening(*ports, says=GREETING) as received:
        with serving(tmp_path, "--repl", "none") as live:
            row = the_session(live)
            assert row["phase"] != "connected"
            assert (
                f"the process belongs to another user of this machine, nobody (uid {other_user.NOBODY})" in row["note"]
            )
            assert f"--kernel {file}" in row["note"]
        assert received() == b""


def test_a_root_listener_is_described_as_a_likely_container_proxy(tmp_path):
    file = write(tmp_path, ".nrepl-port", 1)
    code = (
        "from pathlib import Path\n"
        "from codriver.net.kernel_sockets import connection_distrust_reason\n"
        "BECOME"
        "with socket.create_connection(('127.0.0.1', int(sys.argv[1]))) as peer:\n"
        "    print(connection_distrust_reason(peer, Path(sys.argv[2])))\n"
    )
    with socket.create_server(("127.0.0.1", 0)) as listener:
        text = other_user.run(code, listener.getsockname()[1], file)
    assert text == "the process belongs to root, not to you: it may be a container's proxy\n"


@pytest.mark.parametrize("dialect", ["python", "lisp"])
def test_embedded_repls_disconnect_connections_of_another_user(tmp_path, dialect):
    mark = tmp_path / "ran"
    calls = {"python": f"open({str(mark)!r}, 'w')", "lisp": f'(python/open "{mark}" "w")'}
    code = calls[dialect].encode()
    message = b"d4:code%d:%s2:id1:12:op4:evale" % (len(code), code)
    knock = (
        "BECOME"
        "with socket.create_connection(('127.0.0.1', int(sys.argv[1])), timeout=60) as peer:\n"
        "    try:\n"
        "        peer.sendall(bytes.fromhex(sys.argv[2]))\n"
        "        print(peer.recv(100))\n"
        "    except ConnectionError:\n"
        "        print(b'')\n"
    )
    port = int(real_repls.repl(dialect).address.rpartition(":")[2])
    assert other_user.run(knock, port, message.hex()) == "b''\n"
    assert not mark.exists()
    with socket.create_connection(("127.0.0.1", port), timeout=60) as own:
        own.sendall(message)
        until(mark.exists, "the own user's evaluation")
