"""Faults that end programs: each is survived and reported by what remains.

Faults of single parts are tested with those parts. The table of faults in `README.md` names each test.
"""

import contextlib
import json
import socket
import struct
import sys
import threading
import time
from functools import partial
from pathlib import Path

import posix_only
import pytest
from live_server import WAIT_S, Bare, Live, serving, until
from needs import do_without
from process_states import stopped

from codriver.net import keepalive
from codriver.repls.launch import recipes

linux = pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc, or needs what only Linux has")


@pytest.fixture(scope="module")
def live(tmp_path_factory):
    # The same command twice would be one REPL; this one is another to the server.
    second = f"{sys.executable} {recipes.WORKER_PROGRAM} --dialect python"
    with serving(tmp_path_factory.mktemp("faults"), "--repl", "python", "--repl", second) as running:
        with running.client() as client:
            ready(client)
        yield running


def ready(client, *keys):
    """Wait until each named REPL has evaluated something."""
    for key in keys or ("py", "py-2"):
        until(partial(has_session, client, key), f"the REPL {key}")
        assert client.call("evaluate_code", code="1", replSessionKey=key, timeoutMs=60_000)["status"] == "done"


def has_session(client, key):
    return key in {row["key"] for row in client.call("list_sessions")["sessions"]}


def pid_of(client, key="py"):
    """Return the process of a REPL."""
    answer = client.call("evaluate_code", code="import os\nos.getpid()", replSessionKey=key, timeoutMs=60_000)
    return int(answer["result"])


def running_code(client):
    """Return the running code by the key of its session."""
    sessions = client.call("list_sessions")["sessions"]
    return {row["key"]: row["running"]["evaluationId"] for row in sessions if "running" in row}


def client_rows(client):
    return {row["name"]: row for row in client.call("server_health")["clients"]}


# The REPL


def test_a_killed_repl_ends_running_and_queued_evaluations_with_different_reasons(live, client):
    pid = pid_of(client)
    before = client.call("evaluate_code", code="kept = 1", replSessionKey="py")
    with live.client(name="waits") as other:
        ran = client.begin_call("evaluate_code", code="while True: pass", replSessionKey="py")
        until(lambda: "py" in running_code(other), "the loop to run")
        waited = other.begin_call("evaluate_code", code="mark = 2", replSessionKey="py")
        until(lambda: client.call("server_health")["evaluations"]["queued"], "the second evaluation to queue")
        posix_only.kill(pid)
        answer = client.answer(ran)["result"]["structuredContent"]
        assert (answer["status"], answer["reason"]) == ("lost", "repl-disconnected")
        assert "may have run" in answer["error"]["message"]
        assert "check what the code did" in answer["hint"]
        answer = other.answer(waited)["result"]["structuredContent"]
        assert (answer["status"], answer["reason"]) == ("lost", "repl-disconnected")
        assert "never sent" in answer["error"]["message"]
        assert "Evaluate it again" in answer["hint"]
        after = other.call("evaluate_code", code="'mark' in dir(), 'kept' in dir()", replSessionKey="py")
        assert after["result"] == "(False, False)"
        assert after["generation"] == before["generation"] + 1


@linux
def test_a_hung_repl_blocks_no_other_session_and_can_be_replaced(live, client):
    pid = pid_of(client)
    with stopped(pid):
        stuck = client.call("evaluate_code", code="'late'", replSessionKey="py", timeoutMs=1000)
        assert stuck["status"] == "running"
        assert client.call("evaluate_code", code="'here'", replSessionKey="py-2")["result"] == "'here'"
        with live.client(name="newcomer") as newcomer:
            assert newcomer.call("server_health")["ok"]
        kept = client.call("interrupt_evaluation", evaluationId=stuck["evaluationId"])
        assert (kept["ok"], kept["status"]) == (False, "running")
        assert "allowRestart" in json.dumps(kept)
        ended = client.call("interrupt_evaluation", evaluationId=stuck["evaluationId"], allowRestart=True)
        assert (ended["ok"], ended["status"]) == (True, "interrupted")
        assert "its definitions are lost" in json.dumps(ended["notes"])
    assert pid_of(client) != pid
    until(lambda: not Path(f"/proc/{pid}").exists(), "the stopped process to be gone")


@linux
def test_a_repl_that_resumes_after_a_stop_delivers_its_result_late(client):
    pid = pid_of(client)
    with stopped(pid):
        stuck = client.call("evaluate_code", code="'late'", replSessionKey="py", timeoutMs=1000)
        assert stuck["status"] == "running"
    late = client.call("get_evaluation", evaluationId=stuck["evaluationId"], waitMs=30_000)
    assert (late["status"], late["result"]) == ("done", "'late'")


# The server


def test_every_client_survives_a_server_that_is_killed_and_restarted(tmp_path):
    killed = Live(tmp_path, "--repl", "python")
    with killed.relay() as busy, killed.relay() as queued, killed.relay() as idle:
        ready(busy, "py")
        ran = busy.begin_call("evaluate_code", code="while True: pass")
        until(lambda: "py" in running_code(idle), "the loop to run")
        waited = queued.begin_call("evaluate_code", code="open('mark', 'w').close()")
        until(lambda: idle.call("server_health")["evaluations"]["queued"], "the second evaluation to queue")
        killed.stop(posix_only.KILL)
        for client, call in ((busy, ran), (queued, waited)):
            assert "may have run" in client.answer(call)["error"]["message"]
        with serving(tmp_path, "--repl", "python") as again:
            for client in (busy, queued, idle):
                client.await_notification("notifications/tools/list_changed")
                answer = client.call("evaluate_code", code="'again'", timeoutMs=60_000)
                assert answer["result"] == "'again'"
            assert not (again.workspace / "mark").exists(), "a call was sent twice"
            with again.client() as looking:
                log = looking.call("repl_output_log", category=["evaluatedCode"])["result"]
            assert [entry["text"] for entry in log] == ["'again'"] * 3


# Clients


def hang_up(sock):
    sock.shutdown(socket.SHUT_RDWR)


def reset(sock):
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


@pytest.mark.parametrize("leave", [hang_up, reset])
def test_the_evaluation_of_a_client_that_disconnects_mid_call_is_interrupted(live, client, leave):
    gone = live.client(name="gone")
    gone.begin_call("evaluate_code", code="while True: pass", replSessionKey="py")
    evaluation = until(lambda: running_code(client).get("py"), "the loop to run")
    leave(gone.socket)
    gone.close()
    ended = client.call("get_evaluation", evaluationId=evaluation, waitMs=30_000)
    assert ended["status"] == "interrupted"
    assert client.call("evaluate_code", code="'free'", replSessionKey="py")["result"] == "'free'"
    until(lambda: "gone" not in client_rows(client), "the client to be forgotten")


def test_a_half_closed_client_still_gets_its_answer(live, client):
    gone, quiet = live.client(name="gone"), live.client(name="quiet")
    gone.begin_call("evaluate_code", code="while True: pass", replSessionKey="py")
    evaluation = until(lambda: running_code(client).get("py"), "the loop to run")
    gate = live.workspace / "gate of the quiet"
    code = f"import os, time\nwhile not os.path.exists({str(gate)!r}): time.sleep(0.01)\n'heard'"
    requested = quiet.begin_call("evaluate_code", code=code, replSessionKey="py-2")
    until(lambda: running_code(client).get("py-2"), "the other to run")
    gone.close()
    quiet.socket.shutdown(socket.SHUT_WR)
    ended = client.call("get_evaluation", evaluationId=evaluation, waitMs=30_000)
    assert ended["status"] == "interrupted"
    gate.touch()
    answer = quiet.answer(requested)["result"]["structuredContent"]
    assert answer["result"] == "'heard'"
    quiet.close()


def test_queued_code_of_a_client_that_disconnected_never_runs(live, client):
    gate = live.workspace / "gate"
    wait = f"import os, time\nwhile not os.path.exists({str(gate)!r}): time.sleep(0.01)"
    first = client.begin_call("evaluate_code", code=wait, replSessionKey="py")
    with live.client(name="looks") as looking:
        until(lambda: "py" in running_code(looking), "the first evaluation to run")
        gone = live.client(name="gone")
        gone.begin_call("evaluate_code", code="never = 1", replSessionKey="py")
        until(lambda: looking.call("server_health")["evaluations"]["queued"], "the second to queue")
        reset(gone.socket)
        gone.close()
        until(lambda: not looking.call("server_health")["evaluations"]["queued"], "the queue to be empty")
    gate.touch()
    assert client.answer(first)["result"]["structuredContent"]["status"] == "done"
    assert client.call("evaluate_code", code="'never' in dir()", replSessionKey="py")["result"] == "False"


def test_killing_a_relay_interrupts_the_evaluation_of_its_client(live, client):
    relay = live.relay()
    relay.begin_call("evaluate_code", code="while True: pass", replSessionKey="py")
    evaluation = until(lambda: running_code(client).get("py"), "the loop to run")
    relay.process.kill()
    relay.close()
    ended = client.call("get_evaluation", evaluationId=evaluation, waitMs=30_000)
    assert ended["status"] == "interrupted"
    until(lambda: set(client_rows(client)) == {"bare"}, "the relay's connection to be forgotten")


# The network

TCP_REPAIR = 19  # tcp(7) does not name it; linux/tcp.h does


@contextlib.contextmanager
def connection_to(listener):
    """Return a connected client, as `serve` sees one, and its other end."""
    with socket.create_connection(listener.getsockname()) as near:
        far, _ = listener.accept()
        with far:
            yield near, far


@linux
def test_a_half_open_connection_is_detected_without_traffic(monkeypatch):
    if not posix_only.is_root():
        pytest.skip("only root can drop one end of a connection silently: run as root to include this test")
    monkeypatch.setattr(keepalive, "KEEPALIVE_IDLE_S", 1)
    monkeypatch.setattr(keepalive, "KEEPALIVE_INTERVAL_S", 1)
    with socket.create_server(("127.0.0.1", 0)) as door, connection_to(door) as (near, far):
        keepalive.enable_keepalive(far)
        # A socket under repair is closed without a word to its peer, as when a machine loses its power.
        near.setsockopt(socket.IPPROTO_TCP, TCP_REPAIR, 1)
        near.close()
        far.settimeout(WAIT_S)
        with pytest.raises((ConnectionResetError, TimeoutError)) as noticed:
            far.recv(1)
        assert noticed.type is ConnectionResetError


@linux
def test_idle_client_connections_are_probed_within_two_minutes(live):
    """`ss` shows the timer of each connection; the kernel's table has it in the sixth column."""
    with live.client() as client:
        here = f"0100007F:{client.socket.getsockname()[1]:04X}"
        rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
        there = f"0100007F:{live.port:04X}"
        (timer,) = [row[5] for row in rows if row[1:4] == [there, here, "01"]]  # established
        kind, _, left = timer.partition(":")
        assert kind == "02", "no keepalive timer runs"
        assert int(left, 16) / posix_only.clock_ticks() <= 120


class SlowNetwork:
    """A port through which all bytes arrive late, a few at a time, as over a bad connection."""

    def __init__(self, port, *, piece_bytes, late_s):
        self.target, self.piece_bytes, self.late_s = port, piece_bytes, late_s
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.carried = 0
        self.sockets = [self.listener]
        self.threads = []
        self.begin(self.accept)

    def begin(self, target, *arguments):
        self.threads.append(threading.Thread(target=target, args=arguments, daemon=True))
        self.threads[-1].start()

    def accept(self):
        with contextlib.suppress(OSError):
            while True:
                near, _ = self.listener.accept()
                self.sockets.append(near)
                far = socket.create_connection(("127.0.0.1", self.target))
                self.sockets.append(far)
                self.begin(self.carry, near, far)
                self.begin(self.carry, far, near)

    def carry(self, source, sink):
        sink.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with contextlib.suppress(OSError):
            while piece := source.recv(self.piece_bytes):
                time.sleep(self.late_s)
                sink.sendall(piece)
                self.carried += 1
        with contextlib.suppress(OSError):
            sink.shutdown(socket.SHUT_WR)

    def close(self):
        """Close everything: a socket left to the garbage collector would make a later test fail."""
        self.shut_down()
        self.threads[0].join(WAIT_S)  # no connection comes after that
        self.shut_down()
        for thread in self.threads:
            thread.join(WAIT_S)
        for item in self.sockets:
            item.close()

    def shut_down(self):
        for item in self.sockets:
            with contextlib.suppress(OSError):
                item.shutdown(socket.SHUT_RDWR)


def test_answers_over_a_slow_network_are_complete_and_block_no_other_client(live, client):
    network = SlowNetwork(live.port, piece_bytes=97, late_s=0.002)
    with (
        contextlib.closing(network),
        # Answers to our own commands have no budget.
        Bare(socket.create_connection(("127.0.0.1", network.port), timeout=WAIT_S), name="codriver-far") as far,
    ):
        call = far.begin_call("evaluate_code", code="print('é😀' * 4000)\n'end'", replSessionKey="py")
        assert client.call("evaluate_code", code="'near'", replSessionKey="py-2")["result"] == "'near'"
        answer = far.answer(call)["result"]["structuredContent"]
        assert (answer["stdout"], answer["result"]) == ("é😀" * 4000 + "\n", "'end'")
    assert network.carried > 100


# The clock


@linux
def test_setting_the_clock_back_affects_neither_order_nor_timeouts(tmp_path, monkeypatch):
    library = next(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"), None)
    if library is None:
        do_without("libfaketime is missing: install the package faketime")
    clock = tmp_path / "clock"
    clock.write_text("+0d")
    monkeypatch.setenv("LD_PRELOAD", str(library))
    monkeypatch.setenv("FAKETIME_TIMESTAMP_FILE", str(clock))
    monkeypatch.setenv("FAKETIME_NO_CACHE", "1")
    monkeypatch.setenv("FAKETIME_DONT_FAKE_MONOTONIC", "1")
    monkeypatch.setenv("DONT_FAKE_MONOTONIC", "1")
    with serving(tmp_path, "--repl", "python") as live, live.client(name="codriver-tests") as client:
        ready(client, "py")
        client.call("evaluate_code", code="'before'")
        clock.write_text("-3650d")
        gate = live.workspace / "gate"
        code = f"import os\nwhile not os.path.exists({str(gate)!r}): pass\n'after'"
        answer = client.call("evaluate_code", code=code, timeoutMs=1000)
        assert answer["status"] == "running"
        gate.touch()
        answer = client.call("get_evaluation", evaluationId=answer["evaluationId"], waitMs=30_000)
        assert (answer["status"], answer["result"]) == ("done", "'after'")
        assert answer["elapsedMs"] >= 0
        log = client.call("repl_output_log", category=["evaluationResults"])["result"]
        texts = [entry["text"] for entry in log]
        assert texts.index("'before'") < texts.index("'after'")
        times = {entry["text"]: entry["timestamp"] for entry in log}
        assert times["'after'"] < times["'before'"] - 3600_000, "the clock was not set back"
        health = client.call("server_health")
        assert health["ok"]
        assert health["uptimeS"] >= 0
