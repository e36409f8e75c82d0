"""Neither side of the relay blocks the other, even if a client or a server does not read."""

import json
import os
import socket
import struct
import subprocess
import sys
import threading

import pytest
from process_states import stopped

from relay.relay_process import HASTY, RELAY, WAIT_S, Peer, answer, encode, request

BIG = 5_000_000
SIZES = [1, 4095, 4096, 4097, 65_536, 70_000, BIG]


class QuietClient:
    """A client that reads only on request. Its standard streams are pipes, or sockets as created by Node.js."""

    def __init__(self, port, ends, **variables):
        command, env = [sys.executable, "-I", "-S", str(RELAY), str(port)], os.environ | variables
        if ends == "pipes":
            self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0, env=env)
            self.write, self.out = self.process.stdin.write, self.process.stdout
        else:
            mine, its = socket.socketpair()
            mine.settimeout(WAIT_S)
            self.process = subprocess.Popen(command, stdin=its.fileno(), stdout=its.fileno(), env=env)
            its.close()
            self.write, self.out = mine.sendall, mine.makefile("rb", buffering=0)
            self.socket = mine
        self.rest = b""

    def send(self, *messages):
        self.write(b"".join(map(encode, messages)))

    def read_line(self):
        while b"\n" not in self.rest:
            data = self.out.read(1 << 16)
            assert data, "the relay has ended"
            self.rest += data
        line, _, self.rest = self.rest.partition(b"\n")
        return line + b"\n"

    def close(self):
        self.process.kill()
        self.process.wait()
        for end in (self.process.stdin, self.out, getattr(self, "socket", None)):
            if end is not None:
                end.close()


@pytest.fixture(params=["pipes", "a socket"])
def client(request, host, stack):
    client = QuietClient(host.port, request.param)
    stack.callback(client.close)
    return client


def test_a_client_that_does_not_read_can_still_send(client, host):
    client.send(request(1))
    peer = host.accept()
    peer.read()
    peer.send(answer(1, {"text": "x" * BIG}), answer(2))
    for number in range(3, 6):
        client.send(request(number))
        assert peer.read()["id"] == number
    assert len(json.loads(client.read_line())["result"]["text"]) == BIG
    assert json.loads(client.read_line()) == answer(2)


def test_a_server_that_does_not_read_can_still_send_its_answers(client, host):
    client.send(request(1))
    peer = host.accept()
    peer.read()
    client.send(*[request(number, text="x" * 1_000_000) for number in range(2, 22)])
    peer.send(answer(1))
    assert json.loads(client.read_line()) == answer(1)
    assert [peer.read()["id"] for _ in range(20)] == list(range(2, 22))


def test_messages_arrive_in_order_while_the_client_does_not_read(client, host):
    client.send(*map(request, range(200)))
    peer = host.accept()
    for _ in range(200):
        peer.read()
    sent = [encode(answer(number, {"text": "ä" * SIZES[number % len(SIZES)]})) for number in range(14)]
    sending = threading.Thread(target=lambda: (peer.send(*sent), peer.close()))
    sending.start()
    assert [client.read_line() for _ in sent] == sent
    sending.join(WAIT_S)
    lost = [json.loads(client.read_line()) for _ in range(200 - len(sent))]
    assert [error["id"] for error in lost] == list(range(14, 200))
    assert {error["error"]["data"]["reason"] for error in lost} == {"server-lost"}


def test_a_client_that_does_not_read_gets_its_answers_after_stdin_ended(host, stack):
    sent = [encode(answer(number, {"text": "x" * BIG})) for number in range(10)]
    client = QuietClient(host.port, "pipes", **HASTY)
    stack.callback(client.close)
    client.send(*map(request, range(10)))
    client.process.stdin.close()
    peer = host.accept()
    for _ in range(10):
        peer.read()
    sending = threading.Thread(target=lambda: (peer.send(*sent), peer.close()))
    sending.start()
    sending.join(4)  # longer than the relay waits for an answer
    assert [client.read_line() for _ in sent] == sent
    sending.join(WAIT_S)
    assert client.process.wait(WAIT_S) == 0


@pytest.mark.parametrize("size", SIZES)
def test_an_answer_of_any_size_arrives_whole(client, host, size):
    client.send(request(1))
    peer = host.accept()
    peer.read()
    line = encode(answer(1, {"text": "x" * size}))
    peer.send(line)
    assert client.read_line() == line


def test_everything_is_written_before_the_relay_ends(host, stack):
    client = QuietClient(host.port, "pipes")
    stack.callback(client.close)
    client.send(request(1))
    client.process.stdin.close()
    peer = host.accept()
    peer.read()
    line = encode(answer(1, {"text": "x" * BIG}))
    peer.send(line)
    peer.close()
    assert client.read_line() == line
    assert client.process.wait(WAIT_S) == 0


def test_answers_before_a_reset_are_delivered(relay, host):
    relay.send(*map(request, range(10)))
    peer = host.accept()
    for _ in range(10):
        peer.read()
    sent = [encode(answer(number, {"text": "x" * 10_000})) for number in range(10)]
    with stopped(relay.process.pid):
        relay.send(request(10))
        peer.send(*sent)
        peer.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        peer.close()
    assert [relay.receive_line() for _ in sent] == sent
    assert relay.receive()["error"]["data"] == {"reason": "server-lost"}


WRITER = """
import os, threading, time
from codriver_relay.streams import Output

class SlowLock:
    def __init__(self, lock):
        self.lock = lock

    def __enter__(self):
        self.lock.acquire()

    def __exit__(self, *_):
        self.lock.release()
        if threading.current_thread() is not threading.main_thread():
            time.sleep(0.01)

output = Output()
output.lock = SlowLock(output.lock)
for number in range(0, 60, 3):
    output.write(b"%d %s\\n" % (number, b"x" * 5_000_000))
    while output.is_busy:
        time.sleep(0)
    output.write(b"%d %s\\n" % (number + 1, b"x" * 5_000_000))
    output.write(b"%d %s\\n" % (number + 2, b"x" * 5_000_000))
    output.wait()
os._exit(0)
"""


def test_text_written_while_an_earlier_write_ends_comes_after_it():
    with subprocess.Popen([sys.executable, "-c", WRITER], stdout=subprocess.PIPE) as process:
        numbers = [line.split()[0] for line in process.stdout if len(line.split()[-1]) == 5_000_000]
    assert numbers == [b"%d" % number for number in range(60)]


def test_requests_that_a_lost_server_never_started_to_read_are_sent_to_the_next_server(relay, start_host, host):
    relay.send(request(1))
    first = host.accept()
    first.read()
    relay.send(*[request(number, text="x" * 1_000_000) for number in range(2, 42)])
    assert first.connection.recv(1, socket.MSG_PEEK)
    first.connection.close()
    lost = [relay.receive()["id"]]
    second = host.accept()
    found = Peer.read(second)["id"]
    while lost[-1] + 1 < found:
        lost.append(relay.receive()["id"])
    assert lost == list(range(1, found)), "each request is lost or sent again, never both"
    assert found < 41, "what was not sent is not lost"
    assert [second.read()["id"] for _ in range(found + 1, 42)] == list(range(found + 1, 42))


def test_an_answer_queued_for_a_lost_server_is_not_sent_to_the_next_server(relay, host):
    first = host.accept()
    relay.send(*[request(number, text="x" * 1_000_000) for number in range(20)], answer("asked by the first"))
    assert first.connection.recv(1, socket.MSG_PEEK)
    relay.send(request(20))
    first.close()
    lost = relay.receive()["id"]
    second = host.accept()
    found = second.read()
    while found.get("id") != 20:
        assert "result" not in found
        found = second.read()
    assert lost == 0
