"""Isolated sessions over a real server: they end with their own client, and not with any other."""

import socket
import threading

import pytest
from live_server import serving, until, until_connected
from real_repls import repl

pytestmark = pytest.mark.served(settings="goneClientGraceMs = 500\n")


@pytest.fixture(scope="module")
def live(live):
    with live.client() as first:
        first.call("evaluate_code", code="import time")
    return live


def status(client, evaluation):
    return client.call("get_evaluation", evaluationId=evaluation["evaluationId"])["status"]


def keys(client):
    return [row["key"] for row in client.call("list_sessions")["sessions"]]


def test_the_isolated_session_of_a_disconnected_client_ends_without_disturbing_others(live, client):
    leaver = live.client(name="leaver")
    endless = "import time\nwhile True: time.sleep(0.01)"
    first = leaver.begin_call("evaluate_code", code=endless, isolate=True, timeoutMs=3000)
    until(lambda: client.call("server_health")["evaluations"]["running"] == 1, "the code to run")
    second = leaver.begin_call("evaluate_code", code="1", isolate=True, timeoutMs=1000)
    running, queued = (leaver.answer(item)["result"]["structuredContent"] for item in (first, second))
    assert (running["status"], queued["status"]) == ("running", "queued")
    leaver.close()
    until(lambda: status(client, running) == "interrupted", "the end of what ran")
    assert status(client, queued) == "interrupted"
    until(lambda: keys(client) == ["py"], "the end of the session")
    assert client.call("evaluate_code", code="1 + 1")["result"] == "2"


def test_runaway_code_that_cannot_be_interrupted_stays_listed(live):
    stubborn = "import time\nwhile True:\n  try: time.sleep(0.05)\n  except BaseException: pass"
    with live.client() as client:
        leaver = live.client(name="stubborn")
        running = leaver.call("evaluate_code", code=stubborn, isolate=True, timeoutMs=1000)
        leaver.close()
        until(lambda: "note" in client.call("list_sessions")["sessions"][-1], "the session to be left")
        retained = client.call("evaluate_code", code="1", timeoutMs=1000)
        assert retained["status"] == "queued"
        assert running["evaluationId"] in str(retained["notes"])
        refused = client.call("evaluate_code", code="1", replSessionKey="py/stubborn")
        assert refused["reason"] == "unknown-session"
        ended = client.call("interrupt_evaluation", evaluationId=running["evaluationId"], allowRestart=True)
        assert ended["ok"]
        until(lambda: status(client, running) == "interrupted", "the restart")
        assert client.call("evaluate_code", code="import time\n2")["result"] == "2"


def test_two_connections_of_one_client_get_separate_isolated_sessions(live):
    item, two = live.client(name="same"), live.client(name="same")
    mine = item.call("evaluate_code", code="x = 1\nx", isolate=True)
    yours = two.call("evaluate_code", code="x", isolate=True)
    assert (mine["sessionKey"], yours["sessionKey"]) == ("py/same", "py/same-2")
    assert yours["error"]["class"] == "NameError"
    two.call("evaluate_code", code="x = 2", isolate=True)
    item.close()
    assert two.call("evaluate_code", code="x", isolate=True)["result"] == "2"
    two.close()


def test_a_caller_named_like_the_shared_session_gets_its_own_session(client):
    client.call("evaluate_code", code="shared = 1")
    answer = client.call("evaluate_code", code="shared += 1\nshared", who="main", isolate=True)
    assert (answer["sessionKey"], answer["result"]) == ("py/main-2", "2")
    assert client.call("evaluate_code", code="shared")["result"] == "1"


def test_the_first_answer_of_an_isolated_session_explains_what_is_shared(client):
    first, second = (client.call("evaluate_code", code="1", who="sharer", isolate=True) for _ in range(2))
    assert any("the names that you define are separate" in note for note in first["notes"])
    assert "this is a session of your own" not in str(second.get("notes"))


def test_code_queued_for_a_shared_thread_names_the_evaluation_that_occupies_it(live, client):
    holder = live.client(name="holder")
    running = holder.call("evaluate_code", code="import time; time.sleep(60)", timeoutMs=1000)
    waiting = client.call("evaluate_code", code="43", isolate=True, timeoutMs=1000)
    assert waiting["status"] == "queued"
    assert f"{running['evaluationId']} of holder" in str(waiting["notes"])
    assert "isolate" not in str(waiting["notes"])
    client.call("interrupt_evaluation", evaluationId=running["evaluationId"])
    until(lambda: status(client, waiting) == "done", "its turn")
    holder.close()


def test_code_of_a_disconnected_client_is_interrupted_on_the_jvm(tmp_path):
    with serving(tmp_path, "--nrepl", str(repl("jvm").endpoint.port)) as live, live.client() as client:
        until(lambda: "interrupt_evaluation" in client.tools(), "the REPL")
        leaver = live.client(name="leaver")
        running = leaver.call("evaluate_code", code="(while true (Thread/sleep 5))", isolate=True, timeoutMs=1000)
        assert "a session of your own: namespaces and their definitions are shared" in str(running["notes"])
        beside = client.call("evaluate_code", code="(+ 1 2)")
        assert (running["status"], beside["result"]) == ("running", "3")
        leaver.close()
        until(lambda: status(client, running) == "interrupted", "the end of what ran")
        until(lambda: len(keys(client)) == 1, "the end of the session")


class Tunnel:
    """Connections to a REPL that can be cut one by one."""

    def __init__(self, port):
        self._target = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._pairs = []
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    def _accept(self):
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            far = socket.create_connection(("127.0.0.1", self._target))
            self._pairs.append((near, far))
            for source, sink in ((near, far), (far, near)):
                thread = threading.Thread(target=self._pass_on, args=(source, sink))
                self._threads.append(thread)
                thread.start()

    def _pass_on(self, source, sink):
        try:
            while data := source.recv(65536):
                sink.sendall(data)
        except OSError:
            pass
        self._hang_up((source, sink))

    def _hang_up(self, pair):
        for end in pair:
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                continue

    def cut_newest(self):
        self._hang_up(self._pairs[-1])

    def close(self):
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._threads[0].join()
        for pair in self._pairs:
            self._hang_up(pair)
        for thread in self._threads:
            thread.join()
        for pair in self._pairs:
            for end in pair:
                end.close()


def test_an_isolated_session_that_loses_its_connection_reports_it_and_recovers(tmp_path):
    _lose_connections(tmp_path, Tunnel(repl("basilisp").endpoint.port))


def _lose_connections(tmp_path, tunnel):
    try:
        with serving(tmp_path, "--repl", "none", "--nrepl", f"bas={tunnel.port}") as live, live.client() as client:
            until_connected(client)
            requested = {"replSessionKey": "bas", "who": "apart", "isolate": True}
            assert client.call("evaluate_code", code="1", **requested)["ok"]
            slow = '(.sleep (python/__import__ "time") 30)'
            running = client.call("evaluate_code", code=slow, timeoutMs=1000, **requested)
            assert running["status"] == "running"
            tunnel.cut_newest()
            lost = client.call("get_evaluation", evaluationId=running["evaluationId"], waitMs=20_000)
            assert (lost["status"], lost["error"]["class"]) == ("failed", "repl-disconnected")
            assert client.call("evaluate_code", code="(+ 1 2)", **requested)["result"] == "3"
            assert client.call("evaluate_code", code="(+ 1 3)", replSessionKey="bas", who="main")["result"] == "4"
            # A REPL that other tests have used may already contain tests.
            tests = {"replSessionKey": "bas", "namespace": "lonely"}
            assert client.call("evaluate_code", code="(ns lonely) (ns user)", replSessionKey="bas")["ok"]
            assert client.call("run_tests", **tests)["reason"] == "no-tests"
            tunnel.cut_newest()
            again = "a test run on a new connection"
            until(lambda: client.call("run_tests", **tests)["reason"] == "no-tests", again)
    finally:
        tunnel.close()


def test_isolated_code_waits_for_a_repl_that_is_starting(tmp_path):
    with serving(tmp_path, "--repl", "python") as live, live.client() as client:
        answer = client.call("evaluate_code", code="1 + 1", isolate=True, timeoutMs=60_000)
        assert answer["result"] == "2"
