import contextlib
import dis
import json
import os
import socket
import subprocess
import sys
import threading

import anyio
import posix_only
import pytest
from anyio.abc import SocketAttribute
from hypothesis import given
from hypothesis import strategies as st
from live_server import WAIT_S, until
from needs import program

from codriver.net.admission import Admission, classify_first_bytes, find_peer_user, is_loopback, token_matches
from codriver.net.kernel_sockets import (
    GONE_USER_ID,
    TABLES_DIRECTORY,
    LocalSocket,
    UnsupportedQueryError,
    _query_listeners,
    _read_listeners,
    listening_hosts,
    listening_sockets,
    query_kernel,
    search_tables,
)
from codriver_relay.peer import find_lock_holder, try_lock

FOREIGN = [
    b"POST / HTTP/1.1\r\n",
    b"GET /",
    b"OPTIONS * HTTP/1.1",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    b"CONNECT localhost:1 HTTP/1.1",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    b"SSH-2.0-OpenSSH_9.2\r\n",
    b"PROXY TCP4 127.0.0.1 127.0.0.1 1 2\r\n",
    b"\x00\x00",
    b"\xff\xfe{",
    b"\r\nGET / HTTP/1.0",
    b"patch / HTTP/1.1\r\nHost: rebound.example\r\n\r\n",  # a page may choose any token as its method
    b"null / HTTP/1.1\r\n",
    b"1 / http/1.1\r\n",
    b"-!#$%&'*+.^_`|~ /%7B HTTP/1.1\r\n",
    b"a" * 3000 + b" / HTTP/1.1\r\n",
    b"DESCRIBE rtsp://x RTSP/1.0\r\n",
    b"EHLO localhost\r\n",
    b"*1 RTSP/1.0\n",
    b"\x05\x01\x00",  # SOCKS
    b"\r\n\r\n\x00\r\nQUIT\n",  # PROXY v2
    b"\x00\x01\x00\x00\x21\x12\xa4\x42",  # STUN
    b"\xef\xbb\xbfGET / HTTP/1.1\r\n",
    b"\xef\xbb{}",
    b"\xef\xbb\xbf\xef\xbb\xbf{}",
]


@pytest.mark.parametrize("data", FOREIGN)
def test_a_peer_that_speaks_another_protocol_is_refused(data):
    assert classify_first_bytes(data) == "refuse"


@pytest.mark.parametrize("data", FOREIGN)
def test_a_peer_that_speaks_another_protocol_is_refused_however_its_bytes_are_split(data):
    verdicts = [classify_first_bytes(data[:size]) for size in range(len(data) + 1)]
    assert "json" not in verdicts


@pytest.mark.parametrize("data", [b'{"jsonrpc"', b"[", b" \r\n{", b"nonsense\n", b'"text"', b"1\n", b"not json\r\n"])
def test_json_and_invalid_lines_are_not_mistaken_for_another_protocol(data):
    assert classify_first_bytes(data) == "json"


@pytest.mark.parametrize("data", [b"", b"\n", b"P", b"POST", b"1", b"nonsense", b"patch / HTT"])
def test_the_protocol_is_undecided_after_too_few_bytes(data):
    assert classify_first_bytes(data) == "wait"


TOKEN = st.text("!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ", min_size=1)


@given(
    method=TOKEN,
    target=st.text(st.characters(min_codepoint=0x21, max_codepoint=0x7E)),
    rest=st.binary(),
)
def test_every_http_request_line_is_refused(method, target, rest):
    data = f"{method} /{target} HTTP/1.1\r\n".encode() + rest
    assert classify_first_bytes(data) == "refuse"
    assert "json" not in {classify_first_bytes(data[:size]) for size in range(len(data) - len(rest))}


@given(st.binary(), st.binary())
def test_a_protocol_once_recognized_is_not_reconsidered(first, more):
    verdict = classify_first_bytes(first)
    assert verdict == "wait" or classify_first_bytes(first + more) == verdict


@pytest.mark.parametrize(
    "host",
    ["127.0.0.1", "127.1.2.3", "::1", "::1%lo", "[::1]", "::ffff:127.0.0.1", "::ffff:7f00:1", "localhost", "LocalHost"],
)
def test_loopback_addresses_are_recognized(host):
    assert is_loopback(host)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.1", "::ffff:10.0.0.1", "example.org", ""])
def test_other_addresses_are_not_loopback(host):
    assert not is_loopback(host)


def test_only_the_same_token_matches():
    assert token_matches("secret", "secret")
    assert not token_matches("secret", "secreT")
    assert not token_matches("secret", "")
    assert not token_matches("secret", "\udcff")
    assert not token_matches("", "")


def test_tokens_are_compared_in_constant_time():
    """No comparison in Codriver stops at the first byte that differs."""
    steps = list(dis.get_instructions(token_matches))
    assert "compare_digest" in token_matches.__code__.co_names
    assert not [step for step in steps if step.opname in ("COMPARE_OP", "IS_OP", "CONTAINS_OP")]


linux = pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells the user of a TCP peer")


@contextlib.contextmanager
def pair(host):
    """Return both ends of a connection over `host`: accepted and connecting."""
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as listener:
        try:
            listener.bind((host, 0))
        except OSError:
            pytest.skip(f"this machine has no {host}: give its loopback an IPv6 address")
        listener.listen()
        with socket.create_connection(listener.getsockname()[:2]) as connecting:
            accepted, _ = listener.accept()
            with accepted:
                yield accepted, connecting


@linux
@pytest.mark.parametrize("host", ["127.0.0.1", "127.9.8.7", "::1"])
def test_the_user_at_the_other_end_is_identified(host):
    with pair(host) as (accepted, _):
        assert find_peer_user(accepted) == posix_only.user()


@linux
@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_both_ways_to_identify_the_user_agree(host):
    with pair(host) as (accepted, connecting):
        there, here = accepted.getpeername()[:2], accepted.getsockname()[:2]
        expected = LocalSocket(posix_only.user(), os.fstat(connecting.fileno()).st_ino)
        assert query_kernel(there, here) == expected
        assert search_tables(there, here) == expected
        assert query_kernel(there, (here[0], 9)) is None
        assert search_tables(there, (here[0], 9)) is None


class SeamChecks:
    """A table that is a different file each time it is read."""

    def __init__(self, *files):
        self.files = iter(files)

    def __fspath__(self):
        return str(next(self.files))


@linux
def test_a_file_lock_is_found_even_if_its_table_row_moved_during_reading(tmp_path):
    empty, full = tmp_path / "empty", tmp_path / "full"
    with socket.create_server(("127.0.0.1", 0)) as listener, (tmp_path / "lock").open("wb") as file:
        assert try_lock(file.fileno())
        lock, inode = os.fstat(file.fileno()), os.fstat(listener.fileno()).st_ino
        empty.touch()
        full.write_text(f"1: FLOCK  ADVISORY  WRITE {os.getpid()} 08:01:{lock.st_ino} 0 EOF\n")
        assert find_lock_holder(lock, inode, None, table=SeamChecks(empty, empty, full)) == os.getpid()
        assert find_lock_holder(lock, inode, None, table=SeamChecks(empty, empty, empty)) is None
        assert find_lock_holder(lock, 0, None, table=full) is None


@linux
def test_an_ipv4_client_of_an_ipv6_listener_is_found():
    with socket.socket(socket.AF_INET6) as listener:
        try:
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
            listener.bind(("::", 0))
        except OSError:
            pytest.skip("this machine has no IPv6")
        listener.listen()
        with socket.create_connection(("127.0.0.1", listener.getsockname()[1])):
            accepted, _ = listener.accept()
            with accepted:
                assert accepted.getpeername()[0] == "::ffff:127.0.0.1"
                assert find_peer_user(accepted) == posix_only.user()


@linux
def test_a_peer_that_closed_its_socket_is_not_mistaken_for_root():
    with pair("127.0.0.1") as (accepted, connecting):
        connecting.sendall(b"{}")
        connecting.close()
        assert find_peer_user(accepted) == GONE_USER_ID


@linux
def test_a_half_closed_peer_is_still_identified():
    with pair("127.0.0.1") as (accepted, connecting):
        connecting.shutdown(socket.SHUT_WR)
        assert find_peer_user(accepted) == posix_only.user()


@linux
@pytest.mark.anyio
async def test_the_users_own_closed_connection_is_not_reported_as_another_user(tmp_path, caplog):
    admission, admitted, done = Admission(token=None, session_id="x", workspace=tmp_path), [], anyio.Event()

    async def admit(stream):
        async with stream:
            admitted.append(await admission.admit(stream))
        done.set()

    async with await anyio.create_tcp_listener(local_host="127.0.0.1") as listener, anyio.create_task_group() as tasks:
        with socket.create_connection(("127.0.0.1", listener.extra(SocketAttribute.local_port))):
            pass
        tasks.start_soon(listener.serve, admit)
        with anyio.fail_after(WAIT_S):
            await done.wait()
        tasks.cancel_scope.cancel()
    assert (admitted, caplog.text) == ([None], "")


def test_missing_kernel_tables_are_distinguished_from_a_peer_not_in_them(tmp_path):
    with pytest.raises(FileNotFoundError):
        search_tables(("127.0.0.1", 1), ("127.0.0.1", 2), directory=tmp_path)
    (tmp_path / "tcp").write_text("  sl  local_address rem_address\n")
    assert search_tables(("127.0.0.1", 1), ("127.0.0.1", 2), directory=tmp_path) is None


# A real server


@pytest.fixture(scope="module")
def live(live):
    with live.client() as client:
        until(lambda: "evaluate_code" in client.tools(), "the REPL")
    return live


def evaluation(live, mark):
    """Return everything that a client sends to create the file `mark`."""
    client = {"name": "stranger", "version": "1"}
    params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client}
    call = {"name": "evaluate_code", "arguments": {"code": f"open({str(mark)!r}, 'w').close()"}}
    messages = [
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": call},
    ]
    return live.token_line() + b"".join(json.dumps(message).encode() + b"\n" for message in messages)


def unanswered(live, data):
    """Return what the server answers to `data` before it disconnects, which should be nothing."""
    address = ("127.0.0.1", live.port)
    with (
        contextlib.suppress(ConnectionResetError, BrokenPipeError),
        socket.create_connection(address, timeout=WAIT_S) as stranger,
    ):
        stranger.sendall(data)
        return stranger.recv(1000)
    return b""


def evaluated(live):
    """Return all code evaluated so far. One more evaluation runs first, so that all earlier ones are included."""
    with live.client() as client:
        answer = client.call("evaluate_code", code="'marker'")
        assert answer["ok"], answer
        return [e["text"] for e in client.call("repl_output_log", category=["evaluatedCode"], limit=1000)["result"]]


@pytest.mark.parametrize("data", [data for data in FOREIGN if b"\n" in data], ids=repr)
def test_json_after_the_bytes_of_another_protocol_is_not_evaluated(live, tmp_path, data):
    before = evaluated(live)
    assert unanswered(live, data + evaluation(live, tmp_path / "mark")) == b""
    assert evaluated(live) == [*before, "'marker'"]


@linux
def test_a_server_listens_only_on_loopback(live):
    assert listening_hosts(live.port) == ["127.0.0.1"]


def test_json_without_preceding_bytes_of_another_protocol_is_evaluated(live, tmp_path):
    with socket.create_connection(("127.0.0.1", live.port), timeout=WAIT_S) as client:
        client.sendall(evaluation(live, tmp_path / "mark"))
        until((tmp_path / "mark").exists, "the evaluation")


@pytest.mark.parametrize(
    ("scheme", "options"),
    [
        ("http", ["--data-binary", "@-"]),
        ("http", ["--request", "patch", "--data-binary", "@-"]),
        ("http", ["--http2-prior-knowledge", "--data-binary", "@-"]),
        ("https", ["--insecure", "--data-binary", "@-"]),
        ("dict", []),
    ],
)
def test_curl_gets_no_answer_and_evaluates_nothing(live, tmp_path, scheme, options):
    curl = program("curl", install="install the package curl")
    before = evaluated(live)
    command = [curl, "--silent", "--max-time", "20", *options, f"{scheme}://127.0.0.1:{live.port}/x"]
    given = evaluation(live, tmp_path / "mark")
    done = subprocess.run(command, input=given, capture_output=True, timeout=WAIT_S, check=False)
    assert done.returncode != 28, "curl's own time limit"
    assert done.stdout == b""
    assert evaluated(live) == [*before, "'marker'"]


SEND_AND_READ = """
try:
    peer.sendall(sys.stdin.buffer.read())
    print(peer.recv(1000))
except OSError:
    print(b"")
"""
SEND_AND_CLOSE = """
peer.sendall(sys.stdin.buffer.read())
peer.close()
"""


@linux
def test_another_local_user_is_disconnected(live, tmp_path):
    before = evaluated(live)
    done = as_nobody(SEND_AND_READ, live, evaluation(live, tmp_path / "mark"))
    assert done.stdout == b"b''\n", done.stderr
    assert evaluated(live) == [*before, "'marker'"]


@linux
def test_another_user_who_disconnects_immediately_is_not_mistaken_for_root(live, tmp_path):
    before = evaluated(live)
    for _ in range(5):
        assert as_nobody(SEND_AND_CLOSE, live, evaluation(live, tmp_path / "mark")).returncode == 0
    assert evaluated(live) == [*before, "'marker'"]


@linux
def test_the_servers_own_user_is_accepted(live, tmp_path):
    done = as_user(0, SEND_AND_READ, live, evaluation(live, tmp_path / "mark"))
    assert b'"result"' in done.stdout, done.stderr


@pytest.mark.skipif(sys.byteorder != "little", reason="the tables below are a little-endian machine's")
def test_listening_addresses_of_a_port_are_read_from_the_kernel_tables(tmp_path):
    head = "  sl  local_address rem_address   st\n"
    (tmp_path / "tcp").write_text(
        f"{head}   0: 0100007F:1EC8 00000000:0000 0A 0\n"
        "   1: 00000000:1EC8 00000000:0000 0A 0\n"
        "   2: 00000000:1EC8 00000000:0000 01 0\n"
        "   3: 00000000:1EC9 00000000:0000 0A 0\n"
    )
    assert listening_hosts(7880, directory=tmp_path) == ["127.0.0.1", "0.0.0.0"]
    zero = "0" * 32
    (tmp_path / "tcp6").write_text(f"{head}   4: {'0' * 24}01000000:1EC8 {zero}:0000 0A 0\n")
    assert listening_hosts(7880, directory=tmp_path) == ["127.0.0.1", "0.0.0.0", "::1"]


@linux
def test_sock_diag_and_the_tables_agree_on_listeners():
    with contextlib.ExitStack() as opened:
        own = {}
        for family, host in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET, "0.0.0.0"), (socket.AF_INET6, "::1")):
            with contextlib.suppress(OSError if ":" in host else ()):  # this machine has no IPv6
                listener = opened.enter_context(socket.create_server((host, 0), family=family))
                own[os.fstat(listener.fileno()).st_ino] = (host, listener.getsockname()[1])
        # A connected socket and a socket that is only bound are not listeners.
        port = next(iter(own.values()))[1]
        opened.enter_context(socket.create_connection(("127.0.0.1", port)))
        opened.enter_context(socket.socket()).bind(("127.0.0.1", 0))
        mine = {(posix_only.user(), inode, *address) for inode, address in own.items()}
        reported = [
            {row for row in rows if row[1] in own} for rows in (_query_listeners(), _read_listeners(TABLES_DIRECTORY))
        ]
        assert reported == [mine, mine]
        assert listening_sockets()[next(iter(own))] == f"127.0.0.1:{port}"


def test_missing_kernel_tables_are_distinguished_from_tables_without_listeners(tmp_path):
    with pytest.raises(UnsupportedQueryError):
        listening_hosts(7880, directory=tmp_path)


def as_nobody(code, live, data):
    """Run Python code as the user nobody, with `data` as its input and its connection to the server as `peer`."""
    if not posix_only.is_root():
        pytest.skip("only root can take another user's place: run the tests as root to include this one")
    return as_user(65534, code, live, data)


def as_user(user, code, live, data):
    """Do the same as `as_nobody` for any user; user 0 stands for whoever runs the tests."""
    become = f"os.setgroups([]); os.setgid({user}); os.setuid({user})\n" if user else ""
    connect = f"peer = socket.create_connection(('127.0.0.1', {live.port}), timeout=30)\n"
    command = [sys.executable, "-I", "-S", "-c", f"import encodings.idna, os, socket, sys\n{become}{connect}{code}"]
    return subprocess.run(command, input=data, capture_output=True, timeout=WAIT_S, check=False)


def test_two_hundred_simultaneous_connections_are_accepted(live):
    answers = []

    def ping():
        with live.client(handshake=False) as client:
            answers.append(client.request("ping")["result"])

    threads = [threading.Thread(target=ping) for _ in range(200)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WAIT_S)
    assert answers == [{}] * 200
