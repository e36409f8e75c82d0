"""What a client sees of the relay while servers start, stop and fail."""

import contextlib
import json
import os
import select
import shlex
import signal
import socket
import subprocess
import sys
import threading
import time

import pytest
from ports import closed_port

from codriver.systems.pipes import make_nonblocking
from codriver_relay.connection import Connection, Handshake
from codriver_relay.hosts import host_identity
from codriver_relay.messages import classify_line
from relay.relay_process import (
    HASTY,
    INITIALIZE,
    INITIALIZED,
    LIST_CHANGED,
    RELAY,
    TOKEN,
    WAIT_S,
    answer,
    claimed,
    encode,
    identity,
    open_session,
    polls_alone,
    reopen_session,
    request,
    waiting,
)

IDS = [7, 0, -3, "a", "0", 'say "é\n"', ""]


def test_messages_pass_through_unchanged_in_both_directions(relay, host):
    line = b'{ "params" : {"text": "\\u00e9 \xc3\xa9 \\"}{"} ,"id":1 , "method":"tools/call"}\r\n'
    relay.send(line, b"not json\n", b"[1, 2]\n", b"\n")
    peer = host.accept()
    assert [peer.read_line() for _ in range(4)] == [line, b"not json\n", b"[1, 2]\n", b"\n"]
    reply = b'{"result" : {"method":"x"}, "id": 1 }\n'
    peer.send(reply)
    assert relay.receive_line() == reply


def test_chunks_are_forwarded_as_whole_lines(relay, host):
    data = encode(request(1, text="ä" * 50)) + encode(request(2))
    for byte in data:
        relay.send(bytes([byte]))
    peer = host.accept()
    assert peer.read() == request(1, text="ä" * 50)
    assert peer.read() == request(2)
    reply = encode(answer(1, {"text": "λ" * 20})) + encode(answer(2))
    for byte in reply:
        peer.send(bytes([byte]))
    assert relay.receive() == answer(1, {"text": "λ" * 20})
    assert relay.receive() == answer(2)


def test_large_messages_arrive_completely(relay, host):
    text = 'x"\\' * 2_000_000
    relay.send(request(1))
    peer = host.accept()
    peer.read()
    peer.send({"result": {"text": text}, "jsonrpc": "2.0", "id": 1})
    assert relay.receive()["result"]["text"] == text


def test_lines_written_before_the_server_starts_arrive_in_order(start_relay, start_host, tmp_path):
    port_file = tmp_path / "port"
    relay = start_relay(port_file)
    relay.send(*[request(number) for number in range(100)])
    host = start_host()
    port_file.write_text(f"{host.port}\n")
    peer = host.accept()
    assert [peer.read()["id"] for _ in range(100)] == list(range(100))


def test_a_rewritten_port_file_leads_to_the_new_server(start_relay, start_host, tmp_path):
    old, new = start_host(), start_host()
    port_file = tmp_path / "port"
    port_file.write_text(str(old.port))
    relay = start_relay(port_file)
    peer = open_session(relay, old)
    port_file.write_text(str(new.port))
    peer.close()
    peer = reopen_session(relay, new)
    relay.send(request(5))
    assert peer.read() == request(5)


@pytest.mark.parametrize("id_", IDS)
def test_a_request_without_an_answer_gets_an_error_with_its_own_id(relay, host, id_):
    peer = open_session(relay, host)
    relay.send(request(id_ if id_ != 0 else 10))
    peer.read()
    peer.close()
    error = relay.receive()
    assert error["id"] == (id_ if id_ != 0 else 10)
    assert error["error"]["code"] == -32000
    assert error["error"]["data"] == {"reason": "server-lost"}
    for word in ("may have run", "status"):
        assert word in error["error"]["message"]


def test_a_request_with_id_zero_gets_an_error_with_that_id(relay, host):
    relay.send(request(0))
    peer = host.accept()
    peer.read()
    peer.close()
    assert relay.receive()["id"] == 0


def test_an_answer_that_escapes_the_id_differently_matches_its_request(relay, host):
    relay.send(b'{"id":"\\u00e9","method":"tools/call"}\n', request(2))
    peer = host.accept()
    peer.read()
    peer.read()
    peer.send('{"id":"é","result":{}}\n'.encode())
    relay.receive()
    peer.close()
    assert relay.receive()["id"] == 2


def test_nothing_is_sent_twice_and_a_partial_answer_is_dropped(relay, host):
    peer = open_session(relay, host)
    relay.send(request(1), request(2))
    peer.read()
    peer.read()
    peer.send(answer(1), b'{"jsonrpc":"2.0","id":2,"resu')
    assert relay.receive() == answer(1)
    peer.close()
    assert relay.receive()["error"]["data"] == {"reason": "server-lost"}
    peer = reopen_session(relay, host)
    relay.send(request(3))
    assert peer.read() == request(3)


def test_a_partially_sent_request_counts_as_sent(relay, host):
    peer = open_session(relay, host)
    relay.send(request(1, text="x" * 30_000_000))
    peer.connection.recv(10)
    peer.close()
    assert relay.receive()["id"] == 1
    peer = reopen_session(relay, host)
    relay.send(request(2))
    assert peer.read() == request(2)


def test_requests_made_while_disconnected_are_sent_later(start_relay, start_host):
    host = start_host()
    relay = start_relay(host.port)
    peer = open_session(relay, host)
    relay.send(request(1))
    peer.read()
    host.close()
    assert relay.receive()["id"] == 1
    relay.send(request(2))
    peer = reopen_session(relay, start_host(host.port))
    assert peer.read() == request(2)
    peer.send(answer(2))
    assert relay.receive() == answer(2)


def test_the_relay_survives_two_server_restarts_in_a_row(relay, host):
    peer = open_session(relay, host)
    for number in (1, 2):
        relay.send(request(number))
        peer.read()
        peer.close()
        assert relay.receive()["id"] == number
        peer = reopen_session(relay, host)


def test_a_server_that_dies_during_the_repeated_handshake_is_retried(relay, host):
    open_session(relay, host).close()
    peer = host.accept()
    peer.read()
    peer.close()
    reopen_session(relay, host)


def test_a_server_that_does_not_answer_the_repeated_handshake_is_dropped(start_relay, host):
    relay = start_relay(host.port, **waiting(handshake_s=1))
    open_session(relay, host).close()
    peer = host.accept()
    with contextlib.suppress(ConnectionError):
        end = time.monotonic() + WAIT_S
        while time.monotonic() < end:
            peer.send(LIST_CHANGED)
            if select.select([host.listener], [], [], 0.01)[0]:
                break
        else:
            pytest.fail("the relay goes on waiting for the answer")
    peer = host.accept()
    assert peer.read() == INITIALIZE
    peer.send(answer(0), request(1))
    while (message := relay.receive()) == LIST_CHANGED:
        pass
    assert message == request(1)


def test_an_unanswered_initialize_request_gets_the_answer_to_its_repetition(relay, host):
    relay.send(INITIALIZE)
    peer = host.accept()
    peer.read()
    peer.close()
    peer = host.accept()
    assert peer.read() == INITIALIZE
    peer.send(answer(0, {"second": True}))
    assert relay.receive() == answer(0, {"second": True})


def test_a_line_the_server_cannot_accept_is_refused_and_not_sent(start_relay, host, tmp_path):
    folder = tmp_path / ".calva" / "mcp-server"
    relay = start_relay(folder / "port")
    with claimed(folder):
        record = {"pid": os.getpid(), "port": host.port, "sessionId": "a1", "maxLineBytes": 2000}
        (folder / "server.json").write_text(json.dumps(record, indent=1))
        (folder / "port").write_text(str(host.port))
        peer = host.accept()
        peer.answer_introduction(tmp_path)
        longest = encode(request(2, text=""))[:-1]
        longest = encode(request(2, text="x" * (2000 - len(longest))))
        assert len(longest) == 2001, "with its newline"
        relay.send(request(1, text="x" * 2000), longest)
        error = relay.receive()
        assert (error["id"], error["error"]["data"]) == (1, {"reason": "line-too-long"})
        for part in ("this message was not sent", "maxLineBytes", "2000"):
            assert part in error["error"]["message"]
        assert peer.read_line() == longest
        relay.send({"jsonrpc": "2.0", "method": "notifications/long", "params": {"text": "x" * 2000}}, request(3))
        assert peer.read() == request(3)


@pytest.mark.skipif(not host_identity(), reason="this system has no identity of a host")
def test_a_server_on_another_host_is_named(start_relay, tmp_path):
    folder = tmp_path / ".calva" / "mcp-server"
    relay = start_relay(folder / "port")
    with claimed(folder):
        record = {"pid": os.getpid(), "port": 9, "sessionId": "a1", "hostName": "build-2", "hostId": "other net:[1]"}
        (folder / "server.json").write_text(json.dumps(record, indent=1))
        (folder / "port").write_text("9")
        relay.send(request(1))
        message = relay.receive()["error"]["message"]
        assert "in use by a server on build-2. Use it on one host only, or make a checkout for each host" in message
        assert "codriver serve" not in message


REFUSED = {"jsonrpc": "2.0", "id": 0, "error": {"code": -32022, "message": "no handshake"}}
STATELESS = request(5, "tools/list", _meta={"io.modelcontextprotocol/protocolVersion": "2026-07-28"})


@pytest.mark.parametrize("probes", [True, False])
def test_a_refused_handshake_is_never_repeated(relay, host, probes):
    probe = request("probe", "server/discover")
    relay.send(*([probe] if probes else []), INITIALIZE)
    peer = host.accept()
    if probes:
        assert peer.read() == probe
        peer.send(answer("probe"))
        assert relay.receive() == answer("probe")
    assert peer.read() == INITIALIZE
    peer.send(REFUSED)
    assert relay.receive() == REFUSED
    peer.close()
    for number in (1, 2):
        peer = host.accept()
        relay.send({**STATELESS, "id": number})
        assert peer.read() == {**STATELESS, "id": number}
        peer.send(answer(number))
        assert relay.receive() == answer(number)
        peer.close()


def test_an_earlier_session_survives_a_refused_second_handshake(relay, host):
    peer = open_session(relay, host)
    relay.send({**INITIALIZE, "id": "again"})
    assert peer.read()["id"] == "again"
    peer.send({**REFUSED, "id": "again"})
    assert relay.receive()["id"] == "again"
    peer.close()
    reopen_session(relay, host)


def test_a_cancelled_handshake_is_not_repeated(relay, host):
    relay.send(INITIALIZE, {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 0}})
    peer = host.accept()
    assert [peer.read()["method"], peer.read()["method"]] == ["initialize", "notifications/cancelled"]
    relay.send(STATELESS)
    assert peer.read() == STATELESS
    peer.close()
    assert relay.receive()["error"]["data"] == {"reason": "server-lost"}
    peer = host.accept()
    relay.send(STATELESS)
    assert peer.read() == STATELESS


def test_an_unanswered_pipelined_handshake_is_sent_whole_to_the_next_server(relay, host):
    relay.send(INITIALIZE, INITIALIZED)
    peer = host.accept()
    assert [peer.read(), peer.read()] == [INITIALIZE, INITIALIZED]
    peer.close()
    peer = host.accept()
    assert [peer.read(), peer.read()] == [INITIALIZE, INITIALIZED]
    peer.send(answer(0))
    assert relay.receive() == answer(0)
    peer.close()
    reopen_session(relay, host)


def test_a_server_that_refuses_the_repeated_handshake_is_dropped(relay, host):
    open_session(relay, host).close()
    peer = host.accept()
    assert peer.read() == INITIALIZE
    peer.send(REFUSED)
    reopen_session(relay, host)


def test_the_relay_makes_no_handshake_for_a_client_that_made_none(relay, host):
    relay.send(request(1, "subscriptions/listen"))
    peer = host.accept()
    peer.read()
    peer.close()
    assert relay.receive()["id"] == 1
    peer = host.accept()
    relay.send(request(2, "server/discover"))
    assert peer.read() == request(2, "server/discover")


def test_a_request_from_the_server_is_not_an_answer(relay, host):
    relay.send(request(1))
    peer = host.accept()
    peer.read()
    peer.send(request(1, "elicitation/create"))
    assert relay.receive() == request(1, "elicitation/create")
    relay.send(answer(1))
    assert peer.read() == answer(1)
    peer.close()
    assert relay.receive()["error"]["data"] == {"reason": "server-lost"}


def test_a_cancelled_request_gets_no_error(relay, host):
    relay.send(request(1), request(2))
    relay.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}})
    peer = host.accept()
    for _ in range(3):
        peer.read()
    peer.close()
    assert relay.receive()["id"] == 2


def test_a_relay_that_gives_up_answers_all_waiting_requests_and_retries_on_the_next_request(
    start_relay, start_host, tmp_path
):
    port_file = tmp_path / ".calva" / "mcp-server" / "port"
    relay = start_relay(port_file, CODRIVER_RELAY_GIVE_UP_S="0.3")
    relay.send(request("a"), request(0))
    for id_ in ("a", 0):
        error = relay.receive()
        assert error["id"] == id_
        assert error["error"]["data"] == {"reason": "server-unreachable"}
        for part in (str(port_file), f"codriver serve --workspace {tmp_path}", "codriver doctor", "since"):
            assert part in error["error"]["message"]
    host = start_host()
    with claimed(port_file.parent):
        port_file.write_text(str(host.port))
        relay.send(request(3))
        peer = host.accept()
        peer.answer_introduction(tmp_path)
        assert peer.read() == request(3)


def record_of(folder, process, port):
    """Return the record of an earlier server, whose process may still exist."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    (folder / "port").write_text(str(port))
    (folder / "server.json").write_text(json.dumps({"pid": process, "port": port, "sessionId": "a1"}, indent=1))


def ended_process():
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def test_requests_are_answered_immediately_if_the_server_process_is_dead(start_relay, start_host, tmp_path):
    folder = tmp_path / ".calva" / "mcp-server"
    record_of(folder, ended_process(), closed_port())
    patient = {"CODRIVER_RELAY_DURATIONS": "absent_s=3600", "CODRIVER_RELAY_GIVE_UP_S": "3600"}
    relay = start_relay(folder / "port", **patient)
    for identity_ in (1, 2):
        relay.send(request(identity_))
        error = relay.receive()
        assert (error["id"], error["error"]["data"]) == (identity_, {"reason": "server-unreachable"})
        assert "the server's process has ended. This request was not carried out" in error["error"]["message"]
    relay.send(INITIALIZE)  # this is not refused, because clients rarely retry
    host = start_host()
    with claimed(folder):
        record_of(folder, os.getpid(), host.port)
        peer = host.accept()
        peer.answer_introduction(tmp_path)
        assert peer.read() == INITIALIZE


@pytest.mark.parametrize("is_left", [True, False], ids=["a port file is left", "none was ever there"])
def test_requests_are_answered_soon_if_there_is_no_server_and_no_start_option(start_relay, tmp_path, is_left):
    folder = tmp_path / ".calva" / "mcp-server"
    folder.mkdir(parents=True, mode=0o700)
    if is_left:
        record_of(folder, ended_process(), closed_port())
    relay = start_relay(folder / "port", CODRIVER_RELAY_DURATIONS="absent_s=0.1", CODRIVER_RELAY_GIVE_UP_S="3600")
    for _ in range(2):  # the second request begins another round
        relay.send(INITIALIZE)
        error = relay.receive()
        assert error["error"]["data"] == {"reason": "server-unreachable"}
        assert "codriver serve --workspace" in error["error"]["message"]
    relay.send(request(7))
    assert relay.receive()["id"] == 7


def test_requests_are_answered_soon_if_nothing_listens_on_the_given_port(start_relay):
    relay = start_relay(closed_port(), CODRIVER_RELAY_DURATIONS="absent_s=0.1", CODRIVER_RELAY_GIVE_UP_S="3600")
    for _ in range(2):
        relay.send(INITIALIZE)
        assert relay.receive()["error"]["data"] == {"reason": "server-unreachable"}


def test_the_relay_gives_up_on_a_hung_server_before_clients_time_out(start_relay, tmp_path):
    folder = tmp_path / ".calva" / "mcp-server"
    record_of(folder, os.getpid(), closed_port())
    durations = {"CODRIVER_RELAY_DURATIONS": "silent_s=0.3", "CODRIVER_RELAY_GIVE_UP_S": "3600"}
    relay = start_relay(folder / "port", **durations)
    relay.send(request(1))
    assert relay.receive()["error"]["data"] == {"reason": "server-unreachable"}


def test_a_relay_that_gives_up_after_stdin_ended_exits_with_an_error(start_relay):
    relay = start_relay(closed_port(), CODRIVER_RELAY_GIVE_UP_S="0.3")
    relay.send(request(1))
    relay.end()
    assert relay.receive()["id"] == 1
    assert relay.wait() == 1


def test_a_server_that_only_disconnects_is_not_retried_forever(start_relay, host):
    relay = start_relay(host.port, CODRIVER_RELAY_GIVE_UP_S="0.6")
    relay.send(INITIALIZE)
    host.listener.settimeout(5)  # twenty times the pause between attempts
    is_tried = True
    while is_tried:
        try:
            host.accept().close()
        except TimeoutError:
            is_tried = False
    assert relay.receive()["id"] == 0


@pytest.mark.parametrize("text", ["", "abc", "-5", "99999", "1664 1665"])
def test_the_error_names_an_invalid_port_file(start_relay, tmp_path, text):
    (tmp_path / "port").write_text(text)
    relay = start_relay(tmp_path / "port", CODRIVER_RELAY_GIVE_UP_S="0")
    relay.send(request(1))
    assert "does not contain a port number" in relay.receive()["error"]["message"]


def test_all_answers_are_received_if_stdin_ends_before_the_relay_connects(start_relay, start_host, tmp_path):
    relay = start_relay(tmp_path / "port")
    relay.send(request(1), encode(request(2))[:-1])
    relay.end()
    host = start_host()
    (tmp_path / "port").write_text(str(host.port))
    peer = host.accept()
    assert [peer.read()["id"], peer.read()["id"]] == [1, 2]
    peer.send(answer(2), answer(1))
    assert [relay.receive()["id"], relay.receive()["id"]] == [2, 1]
    assert peer.read_line() == b""
    peer.close()
    assert relay.wait() == 0


def test_answers_to_invalid_lines_arrive_after_stdin_ended(relay, host):
    relay.send(b"nonsense\n")
    relay.end()
    peer = host.accept()
    assert peer.read_line() == b"nonsense\n"
    assert peer.read_line() == b""
    error = {"jsonrpc": "2.0", "id": None, "error": {"code": -32700, "message": "no"}}
    peer.send(error)
    peer.close()
    assert relay.receive() == error
    assert relay.wait() == 0


def test_an_open_subscription_does_not_keep_the_relay_alive(relay, host):
    relay.send(request(1, "subscriptions/listen"))
    peer = host.accept()
    peer.read()
    relay.end()
    assert peer.read_line() == b""
    peer.close()
    assert relay.wait() == 0


def test_an_answer_that_never_arrives_is_awaited_for_a_limited_time(start_relay, host):
    relay = start_relay(host.port, **waiting(answers_s=0.5))
    relay.send(request(1))
    peer = host.accept()
    peer.read()
    relay.end()
    assert relay.receive()["error"]["data"] == {"reason": "unanswered"}
    assert relay.wait() == 0


def test_a_server_that_starts_late_has_the_full_time_to_answer(start_relay, start_host):
    port = closed_port()
    relay = start_relay(port, "--verbose", **waiting(answers_s=2, retry_s=0.1, absent_s=60))
    relay.send(request(1))
    relay.end()
    for _ in range(24):  # attempts, with a pause after each: longer than it waits for an answer
        assert relay.process.stderr.readline()
    peer = start_host(port).accept()
    assert peer.read() == request(1)
    peer.send(answer(1))
    assert relay.receive() == answer(1)


def test_lines_the_server_never_read_are_answered_after_stdin_ended(start_relay, host):
    relay = start_relay(host.port, **HASTY)
    host.accept()
    relay.send(*[request(number, text="x" * 1_000_000) for number in range(20)])
    relay.end()
    errors = [relay.receive() for _ in range(20)]
    assert [error["id"] for error in errors] == list(range(20))
    assert {error["error"]["data"]["reason"] for error in errors} == {"unanswered"}
    assert relay.wait() == 0


def test_an_idle_relay_ends_with_stdin(start_relay):
    relay = start_relay(closed_port())
    relay.end()
    assert relay.wait() == 0
    assert relay.receive_line() is None


@polls_alone
def test_the_relay_ends_when_its_client_is_gone(host):
    process = subprocess.Popen(
        [sys.executable, "-I", "-S", str(RELAY), str(host.port)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    with process:
        host.accept()
        process.stdout.close()
        assert process.wait(timeout=20) == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_relay_without_a_traceback(relay, host, number):
    open_session(relay, host)
    relay.process.send_signal(number)
    assert relay.wait() != 0
    assert relay.process.stderr.read() == b""


def test_a_relay_ends_when_its_parent_is_killed(host, stack):
    program = "import subprocess, sys; relay = subprocess.Popen(sys.argv[1:], stdin=-1, stdout=-1); input()"
    parent = subprocess.Popen(
        [sys.executable, "-c", program, sys.executable, "-I", "-S", str(RELAY), str(host.port)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    with parent:
        peer = host.accept()
        parent.kill()
        assert peer.read_line() == b""


def test_the_token_next_to_the_port_file_is_sent_first(start_relay, host, tmp_path):
    (tmp_path / "port").write_text(str(host.port))
    (tmp_path / "token").write_text(f"{TOKEN}\n")
    (tmp_path / "token").chmod(0o600)
    with claimed(tmp_path):
        relay = start_relay(tmp_path / "port")
        relay.send(request(1))
        peer = host.accept()
        assert peer.read() == {"jsonrpc": "2.0", "method": "codriver/token", "params": {"token": TOKEN}}
        assert peer.read() == request(1)


def test_the_first_message_of_the_relay_names_the_server_that_it_expects(start_relay, host, tmp_path):
    (tmp_path / "port").write_text(str(host.port))
    (tmp_path / "server.json").write_text(json.dumps({"pid": 1, "port": host.port, "sessionId": "a1b2"}, indent=1))
    relay = start_relay(tmp_path / "port")
    peer = host.accept()
    assert peer.read() == {"jsonrpc": "2.0", "method": "codriver/token", "params": {"session": "a1b2"}}
    relay.send(request(1))
    assert peer.read()["id"] == 1


@pytest.mark.parametrize(
    "record",
    ["", "{}", "nonsense", '{"port": 1, "sessionId": "a1b2"}', '{"port": %d}', '{"port": %d, "sessionId": "a\\"b"}'],
)
def test_a_record_of_another_server_is_ignored(start_relay, host, tmp_path, record):
    (tmp_path / "port").write_text(str(host.port))
    (tmp_path / "server.json").write_text(record % host.port if "%d" in record else record)
    relay = start_relay(tmp_path / "port")
    relay.send(request(1))
    assert host.accept().read()["id"] == 1


def test_the_token_for_a_port_is_found_in_the_state_directory(start_relay, host, tmp_path):
    door = tmp_path / "codriver" / "doors" / str(host.port)
    door.parent.mkdir(parents=True)
    door.write_text(TOKEN)
    door.chmod(0o600)
    start_relay(host.port, XDG_STATE_HOME=str(tmp_path))
    assert host.accept().read()["params"] == {"token": TOKEN}


def test_the_token_can_be_in_the_environment(start_relay, host):
    start_relay(host.port, CODRIVER_TOKEN="secret")
    assert host.accept().read()["params"] == {"token": "secret"}


def test_stderr_is_empty_unless_verbose_and_never_contains_payloads(start_relay, host):
    for arguments in ([host.port], [host.port, "--verbose"]):
        relay = start_relay(*arguments)
        peer = open_session(relay, host)
        relay.send(request(1, secret="payload-s3cret"))
        peer.read()
        peer.close()
        relay.receive()
        peer = reopen_session(relay, host)
        relay.end()
        peer.close()
        relay.wait()
        output = relay.process.stderr.read()
        assert b"s3cret" not in output
        assert bool(output) == ("--verbose" in arguments)


def test_the_client_is_throttled_while_the_server_cannot_be_reached(start_relay, start_host):
    port = closed_port()
    relay = start_relay(port, **waiting(absent_s=60))
    line = encode(request(1, text="x" * 1_000_000))
    make_nonblocking(relay.process.stdin.fileno())
    sent = 0
    while sent < 200:
        data = memoryview(line)
        while data:
            if not select.select([], [relay.process.stdin], [], 5)[1]:
                break
            data = data[relay.process.stdin.write(data) or 0 :]
        else:
            sent += 1
            continue
        break
    assert 60 < sent < 100
    host = start_host(port)
    peer = host.accept()
    for _ in range(sent):
        assert peer.read_line() == line


def test_a_flood_of_empty_lines_throttles_the_client(start_relay):
    relay = start_relay(closed_port())
    make_nonblocking(relay.process.stdin.fileno())
    sent = 0
    while sent < 1_000_000 and select.select([], [relay.process.stdin], [], 5)[1]:
        sent += relay.process.stdin.write(b"\n" * 4096) or 0
    assert 100_000 < sent < 1_000_000


def test_a_flood_of_notifications_does_not_block_a_relay_that_gave_up(start_relay):
    relay = start_relay(closed_port(), CODRIVER_RELAY_GIVE_UP_S="0")
    relay.send(request(1))
    assert relay.receive()["id"] == 1
    notification = encode({"jsonrpc": "2.0", "method": "notifications/progress", "params": {"text": "x" * 1_000_000}})
    sending = threading.Thread(target=relay.send, args=[*[notification] * 70, request(2)], daemon=True)
    sending.start()
    assert relay.receive()["id"] == 2
    sending.join(WAIT_S)


FRUGAL = """
import resource, codriver_relay
resource.setrlimit(resource.RLIMIT_AS, (300_000_000, 300_000_000))
codriver_relay.main()
"""


def test_unanswered_requests_use_no_memory_after_they_were_sent(start_relay, host):
    relay = start_relay(host.port, program=FRUGAL)
    peer = host.accept()
    for number in range(400):
        relay.send(request(number, text="x" * 1_000_000))
        assert peer.read()["id"] == number
    peer.close()
    assert [relay.receive()["id"] for _ in range(400)] == list(range(400))


SERVER = """
import fcntl, json, os, pathlib, socket, sys
workspace = pathlib.Path(sys.argv[sys.argv.index("--workspace") + 1])
listener = socket.create_server(("127.0.0.1", 0))
(workspace / "arguments").write_text(json.dumps(sys.argv[1:]))
port_file = workspace / ".calva" / "mcp-server" / "port"
lock = port_file.with_name("lock").open("w")
fcntl.flock(lock, fcntl.LOCK_EX)
port_file.with_suffix(".new").write_text(str(listener.getsockname()[1]))
port_file.with_suffix(".new").rename(port_file)
connection = listener.accept()[0]
lines = connection.makefile("rb")
told = {"workspace": json.loads(lines.readline())["params"]["workspace"]}
connection.sendall(json.dumps({"jsonrpc": "2.0", "method": "codriver/workspace", "params": told}).encode() + b"\\n")
for line in lines:
    connection.sendall(json.dumps({"jsonrpc": "2.0", "id": json.loads(line)["id"], "result": {}}).encode() + b"\\n")
"""


def test_the_start_option_launches_a_server_for_the_workspace(start_relay, tmp_path):
    script = tmp_path / "fake server.py"
    script.write_text(SERVER)
    command = shlex.join([sys.executable, str(script)])
    relay = start_relay(tmp_path / ".calva/mcp-server/port", "--start", CODRIVER_SERVER_COMMAND=command)
    relay.send(request(1))
    assert relay.receive() == answer(1)
    arguments = json.loads((tmp_path / "arguments").read_text())
    assert arguments == ["serve", "--workspace", str(tmp_path), "--on-demand", "--detach"]


def test_a_server_that_fails_to_start_is_explained(start_relay, tmp_path):
    script = tmp_path / "broken.py"
    script.write_text("import sys; print('the config is wrong', file=sys.stderr); sys.exit(3)")
    command = shlex.join([sys.executable, str(script)])
    words = ("--workspace", tmp_path, "--start")
    relay = start_relay(*words, CODRIVER_SERVER_COMMAND=command, **waiting(start_grace_s=0.1))
    relay.send(request(1))
    message = relay.receive()["error"]["message"]
    assert "status 3" in message
    assert "the config is wrong" in message


def test_the_error_names_a_missing_server_command(start_relay, tmp_path):
    words = ("--workspace", tmp_path, "--start")
    relay = start_relay(*words, CODRIVER_SERVER_COMMAND="/nowhere/codriver", **waiting(start_grace_s=0.1))
    relay.send(request(1))
    assert "/nowhere/codriver could not be started" in relay.receive()["error"]["message"]


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ([], b"pass the server's port"),
        (["1", "2", "3"], b"pass the server's port"),
        (["0"], b"from 1 to 65535"),
        (["70000"], b"from 1 to 65535"),
        (["--strat", "1664"], b"--strat"),
        (["1664", "--workspace"], b"--workspace"),
        (["1664", "--start"], b"--start needs --workspace"),
    ],
)
def test_a_wrong_command_line_is_explained_on_stderr(start_relay, arguments, problem):
    relay = start_relay(*arguments)
    assert relay.wait() == 2
    output = relay.process.stderr.read()
    assert problem in output
    assert b"usage: codriver-relay" in output
    assert relay.receive_line() is None


@pytest.mark.parametrize(
    ("variables", "problem"),
    [
        ({"CODRIVER_RELAY_GIVE_UP_S": "soon"}, b"CODRIVER_RELAY_GIVE_UP_S must be a number of seconds"),
        (waiting(answers_s="soon"), b"CODRIVER_RELAY_DURATIONS must be a number of seconds"),
        (waiting(none_s=1), b"CODRIVER_RELAY_DURATIONS contains none_s=1, which does not set a known duration"),
        (waiting(__class__=1), b"CODRIVER_RELAY_DURATIONS contains __class__=1, which does not set a known duration"),
    ],
)
def test_an_invalid_duration_variable_is_explained_on_stderr(start_relay, variables, problem):
    relay = start_relay("1664", **variables)
    assert relay.wait() == 2
    assert problem in relay.process.stderr.read()


ELSEWHERE = "import sys; sys.platform = 'darwin'; import codriver_relay; codriver_relay.main()"
"""A relay on a system whose kernel does not tell who listens."""


def test_without_kernel_support_a_port_file_is_trusted_while_its_lock_is_held(start_relay, host, tmp_path):
    folder = tmp_path / ".calva" / "mcp-server"
    with claimed(folder):
        (folder / "port").write_text(str(host.port))
    relay = start_relay(folder / "port", program=ELSEWHERE)
    relay.send(request(1))
    assert host.accept().read_line() == b"", "nobody held the lock"
    with claimed(folder):
        while not (peer := host.accept()).connection.recv(1, socket.MSG_PEEK):
            pass  # started before the lock was acquired
        assert peer.answer_introduction(tmp_path) == {"workspace": identity(tmp_path)}
        assert peer.read() == request(1)


def test_a_server_of_another_workspace_is_dropped(start_relay, host, tmp_path):
    folder = tmp_path / ".calva" / "mcp-server"
    (tmp_path / "other").mkdir()
    with claimed(folder):
        (folder / "port").write_text(str(host.port))
        relay = start_relay(folder / "port")
        relay.send(request(1))
        peer = host.accept()
        peer.answer_introduction(tmp_path / "other")
        assert peer.read_line() == b""
        peer = host.accept()
        peer.answer_introduction(tmp_path)
        assert peer.read() == request(1)


def test_each_request_in_a_batch_is_answered_if_the_server_is_lost(relay, host):
    peer = open_session(relay, host)
    requests = [{"jsonrpc": "2.0", "id": id_, "method": "tools/call", "params": {}} for id_ in (1, "two")]
    relay.send([*requests, {"jsonrpc": "2.0", "method": "notifications/none"}])
    assert len(peer.read()) == 3
    peer.close()
    assert {relay.receive()["id"], relay.receive()["id"]} == {1, "two"}


def refusal(line, **members):
    """Return an error about a line that the server could not assign to a request."""
    return {"jsonrpc": "2.0", **members, "error": {"code": -32600, "message": "no", "data": {"line": line}}}


# The limit is longer than the test may take, so a relay that waits for it fails the test.
@pytest.mark.parametrize("first", [[], [1]], ids=["valid", "with an invalid part"])
@pytest.mark.parametrize("members", [{"id": None}, {}], ids=["null", "no id"])
def test_a_batch_that_the_server_refuses_as_a_whole_is_not_awaited(start_relay, host, members, first):
    relay = start_relay(host.port, **waiting(answers_s=600))
    peer = open_session(relay, host)
    relay.send([*first, *({"jsonrpc": "2.0", "id": id_, "method": "ping"} for id_ in (1, 2))])
    relay.end()
    peer.read()
    peer.send(refusal(3, **members))
    assert relay.receive() == refusal(3, **members)
    assert peer.read_line() == b""
    peer.close()
    assert relay.wait() == 0


PING = b'{"jsonrpc": "2.0", "id": %s, "method": "ping"%s\n'
LINES_WITHOUT_A_VALID_ID = {
    "no object": b'"no message"\n',
    "cut off": PING % (b"8", b""),
    "not UTF-8": PING % (b"8", b', "params": {"a": "\xff"}}'),
    "fraction": PING % (b"8.5", b"}"),
    "null": PING % (b"null", b"}"),
    "array": PING % (b"[8]", b"}"),
    "huge": PING % (b"8" * 5000, b"}"),
    "initialize": b'{"jsonrpc": "2.0", "id": 8.5, "method": "initialize", "params": {}}\n',
}


@pytest.mark.parametrize("line", LINES_WITHOUT_A_VALID_ID.values(), ids=LINES_WITHOUT_A_VALID_ID)
def test_an_error_without_an_id_ends_only_the_requests_in_its_line(line):
    connection, handshake = Connection(), Handshake()

    def send(line):
        message = classify_line(line)
        connection.number_line(message)
        for one in (*message.parts, message):
            handshake.record_sent(one)
            connection.record_sent(one)

    def batch(*ids):
        return json.dumps([{"jsonrpc": "2.0", "id": id_, "method": "ping"} for id_ in ids]).encode() + b"\n"

    def refuse(number):
        connection.remove_answered([json.dumps(refusal(number, id=None)).encode() + b"\n"], handshake)

    for sent in (batch(1, 2), b"  \n", line, batch(3, 4), PING % (b"5", b"}")):
        send(sent)
    refuse(2)
    assert [*connection.in_flight] == [b"1", b"2", b"3", b"4", b"5"]
    assert not handshake.pop_unanswered(), "it is not sent to the next server"
    refuse(3)
    assert [*connection.in_flight] == [b"1", b"2", b"5"]
    answers = [answer(1), refusal(1, id=None)]  # one of the requests in the batch had no valid id
    connection.remove_answered([json.dumps(answers).encode() + b"\n"], handshake)
    assert [*connection.in_flight] == [b"5"]


def test_the_relay_waits_for_the_answer_to_a_batch_and_then_exits(relay, host):
    peer = open_session(relay, host)
    relay.send([{"jsonrpc": "2.0", "id": id_, "method": "ping"} for id_ in (1, 2)])
    relay.end()
    peer.read()
    batch = [answer(1), answer(2)]
    peer.send(batch)
    assert relay.receive() == batch
    assert peer.read_line() == b""
    peer.close()
    assert relay.wait() == 0
