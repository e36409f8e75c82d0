"""What is recorded of an evaluation before it is interrupted, and what is reported of the session afterwards."""

import socket
import struct

import pytest
from anyio.from_thread import start_blocking_portal
from live_server import serving, until, until_connected
from real_repls import NODE_MODULES, fresh, need, repl
from scripted_nrepl import OPS, scripted

LOOPS = {
    "py": ("import time\ndef spin():\n    print('before')\n    while True: time.sleep(0.01)\nspin()", "in spin"),
    "lpy": ('(do (println :before) (loop [] (.sleep (python/__import__ "time") 0.01) (recur)))', "(loop [] (.sleep"),
}
"""Loops that take no processor for as long as they are waited for; those of `ENDLESS` end as soon as they run."""


pytestmark = pytest.mark.served("python", "lisp", durations="stacks_s=60")


@pytest.mark.parametrize("key", list(LOOPS))
def test_the_answer_to_a_timed_out_call_includes_the_stack_and_the_output(client, key):
    code, place = LOOPS[key]
    assert client.call("evaluate_code", code="1", replSessionKey=key, timeoutMs=120_000)["ok"]
    answer = client.call("evaluate_code", code=code, replSessionKey=key, timeoutMs=1000, onTimeout="interrupt")
    assert (answer["ok"], answer["reason"], answer["status"]) == (False, "timed-out", "interrupted")
    assert "before" in answer["stdout"]
    assert place in answer["stacks"]
    assert "site-packages" not in answer["stacks"]
    assert "the evaluation has ended and the session accepts new ones" in answer["notes"]
    assert client.call("evaluate_code", code="1", replSessionKey=key)["result"] == "1"
    whole = client.call("get_evaluation", evaluationId=answer["evaluationId"], part="stacks")
    assert place in whole["text"]
    assert ("site-packages" in whole["text"]) is (key == "lpy"), "Basilisp's own frames are in the whole alone"
    uri = f"codriver://evaluation/{answer['evaluationId']}/stacks"
    assert client.request("resources/read", {"uri": uri})["result"]["contents"][0]["text"] == whole["text"]


def test_the_answer_about_a_requested_interrupt_includes_the_stack_and_names_the_caller(client):
    began = client.call("evaluate_code", code=LOOPS["py"][0], replSessionKey="py", timeoutMs=1000)
    ended = client.call("interrupt_evaluation", evaluationId=began["evaluationId"], who="stopper", detail=False)
    assert "stopper" not in str(ended), "it knows"
    assert (ended["status"], "in spin" in ended["stacks"]) == ("interrupted", True)
    answer = client.call("get_evaluation", evaluationId=began["evaluationId"], detail=False)
    assert "the code was interrupted: stopper called interrupt_evaluation" in answer["notes"]


READS = {
    "python": ["input()", "import pdb; pdb.set_trace()"],
    "lisp": ["(read-line)"],
    "jvm": ["(read-line)"],
    "tools.nrepl": ["(read-line)"],
    "leiningen": ["(read-line)"],
    "hy": ["(input)"],
}


@pytest.mark.parametrize(("name", "code"), [(name, code) for name, codes in READS.items() for code in codes])
def test_code_waiting_for_input_can_be_interrupted(tmp_path, name, code):
    address = repl(name).endpoint
    with serving(tmp_path, "--nrepl", f"r={address}", "--repl", "none") as live, live.client() as client:
        until_connected(client)
        began = client.call("evaluate_code", code=code, timeoutMs=60_000)
        assert began["status"] == "needs-input"
        ended = client.call("interrupt_evaluation", evaluationId=began["evaluationId"])
        # In Hy, the code reads the end of its input and fails.
        assert (ended["ok"], ended["status"]) == (True, "failed" if name == "hy" else "interrupted")
        after = client.call("evaluate_code", code="2" if name == "python" else "(+ 1 1)", timeoutMs=60_000)
        assert after["result"] == "2"


def test_an_evaluation_whose_input_was_refused_still_waits_for_it(tmp_path):
    without_input = [op for op in OPS if op != "stdin"]
    answers = {("eval", "(read)"): [{"status": ["need-input"]}]}
    with (
        start_blocking_portal() as portal,
        portal.wrap_async_context_manager(scripted(answers, ops=without_input)) as server,
    ):
        options = ("--nrepl", f"n={server.endpoint}", "--repl", "python")
        with serving(tmp_path, *options) as live, live.client() as client:
            until_connected(client, 2)
            began = client.call("evaluate_code", code="(read)", replSessionKey="n")
            assert began["status"] == "needs-input"
            refused = client.call("send_input", evaluationId=began["evaluationId"], text="x")
            assert (refused["reason"], refused["capability"]) == ("capability-missing", "stdin")
            now = client.call("get_evaluation", evaluationId=began["evaluationId"])
            assert now["status"] == "needs-input"


def test_the_answer_about_an_evaluation_that_was_not_interrupted_includes_no_stacks(client):
    answer = client.call("evaluate_code", code="1", replSessionKey="py")
    assert "stacks" not in answer
    assert client.call("get_evaluation", evaluationId=answer["evaluationId"], part="stacks")["text"] == ""


def test_the_answer_about_an_evaluation_ended_by_its_run_limit_also_includes_a_stack(tmp_path):
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    (workspace / "codriver.toml").write_text("maxRunMs = 2000\n")
    with serving(tmp_path, "--repl", "python") as live, live.client() as client:
        answer = client.call("evaluate_code", code=LOOPS["py"][0], timeoutMs=60_000)
        assert answer["status"] == "interrupted"
        assert any("run limit" in note for note in answer["notes"])
        assert "in spin" in answer["stacks"]


def test_an_interrupted_jvm_evaluation_reports_where_its_code_was(tmp_path):
    address = repl("jvm").endpoint
    with serving(tmp_path, "--nrepl", f"clj={address}", "--repl", "none") as live, live.client() as client:
        until_connected(client)
        code = "(defn nap [] (println :before) (Thread/sleep 600000)) (nap)"
        answer = client.call("evaluate_code", code=code, timeoutMs=1000, onTimeout="interrupt")
        assert (answer["reason"], answer["stdout"]) == ("timed-out", ":before\n")
        assert "user$nap" in answer["stacks"]
        assert "clojure.lang" not in answer["stacks"]
        assert "the evaluation has ended and the session accepts new ones" in answer["notes"]
        assert client.call("evaluate_code", code="1")["result"] == "1"


def test_a_repl_that_cannot_be_interrupted_is_reported_as_still_running(tmp_path):
    with (
        fresh("nbb") as running,
        serving(tmp_path, "--nrepl", f"n={running.endpoint}", "--repl", "none") as live,
        live.client() as client,
        live.client(name="next") as other,
    ):
        until_connected(client)
        answer = client.call("evaluate_code", code="(loop [] (recur))", timeoutMs=300, onTimeout="interrupt")
        assert (answer["ok"], answer["reason"], answer["status"]) == (False, "timed-out", "running")
        assert any("no op `interrupt`" in note for note in answer["notes"])
        assert any(
            ("the evaluation is still running") in note and "only its owner can restart it" in note
            for note in answer["notes"]
        )
        queued = other.call("evaluate_code", code="1", timeoutMs=300)
        assert queued["status"] == "queued"
        for reported in (answer["notes"], queued["notes"]):
            assert "restarting n, which cannot interrupt, with the program that started it" in str(reported)
            assert "interrupt_evaluation" not in str(reported)


def test_an_uninterruptible_repl_started_by_codriver_is_ended_by_a_restart(tmp_path):
    need("nbb")
    (tmp_path / "workspace").mkdir()
    (tmp_path / "workspace" / "node_modules").symlink_to(NODE_MODULES)
    with serving(tmp_path, "--repl", "nbb") as live, live.client() as client, live.client(name="next") as other:
        client.call("evaluate_code", code="1")  # once the REPL is ready
        answer = client.call("evaluate_code", code="(loop [] (recur))", timeoutMs=300)
        assert "restart_repl (nbb cannot interrupt) stops it" in str(answer["notes"])
        queued = other.call("evaluate_code", code="1", timeoutMs=300)
        assert "stop it with restart_repl (nbb cannot interrupt)" in str(queued["notes"])
        assert "interrupt_evaluation" not in str([answer, queued])


def start_and_disconnect(live, client, code, **arguments):
    """Return the id of a running evaluation and its client, which then disconnects."""
    mark = live.workspace / "mark"
    mark.unlink(missing_ok=True)
    gone = live.client(name="gone")
    call = gone.begin_call("evaluate_code", code=code.format(mark=str(mark)), **arguments)
    until(mark.exists, "the code to run")
    rows = client.call("list_sessions")["sessions"]
    (evaluation,) = [row["running"]["evaluationId"] for row in rows if row.get("running", {}).get("who") == "gone"]
    return evaluation, gone, call


ENDLESS = {
    "py": "open('{mark}', 'w').close()\nwhile True: pass",
    "lpy": '(do (spit "{mark}" "") (loop [] (recur)))',
}


def reset(sock):
    """Disconnect like a process that is killed while data is being sent to it."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


@pytest.mark.parametrize("leave", [lambda _sock: None, reset], ids=["closed", "reset"])
@pytest.mark.parametrize("key", list(ENDLESS))
def test_an_evaluation_reports_that_it_ended_because_its_client_disconnected(live, client, key, leave):
    evaluation, gone, _ = start_and_disconnect(live, client, ENDLESS[key], replSessionKey=key, timeoutMs=600_000)
    leave(gone.socket)
    gone.close()
    ended = client.call("get_evaluation", evaluationId=evaluation, waitMs=60_000)
    assert (ended["status"], ended["who"]) == ("interrupted", "gone")
    assert "the code was interrupted: its client gone disconnected while the code was running" in ended["notes"]


def test_an_evaluation_reports_that_it_ended_because_its_call_was_cancelled(live, client):
    evaluation, gone, call = start_and_disconnect(live, client, ENDLESS["py"], replSessionKey="py", timeoutMs=600_000)
    gone.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": call}})
    ended = client.call("get_evaluation", evaluationId=evaluation, waitMs=60_000)
    assert "the code was interrupted: its client gone cancelled the call that waited for it" in ended["notes"]
    gone.close()


def test_an_evaluation_ended_by_another_client_names_that_client(live, client):
    evaluation, gone, call = start_and_disconnect(live, client, ENDLESS["py"], replSessionKey="py", timeoutMs=600_000)
    with live.client(name="Ada Reviewer") as other:
        assert other.call("interrupt_evaluation", evaluationId=evaluation)["status"] == "interrupted"
    answer = gone.answer(call)["result"]["structuredContent"]
    assert "the code was interrupted: ada-reviewer called interrupt_evaluation" in answer["notes"]
    gone.close()


def test_an_evaluation_reports_that_it_exceeded_the_callers_limit(live, client):
    answer = client.call(
        "evaluate_code",
        code="import time\nwhile True: time.sleep(0.01)",
        replSessionKey="py",
        timeoutMs=300,
        onTimeout="interrupt",
    )
    assert "the code was interrupted: the code ran longer than 300 ms" in answer["notes"]


def test_an_evaluation_reports_that_it_ended_with_its_isolated_session(tmp_path):
    address = repl("jvm").endpoint
    with serving(tmp_path, "--nrepl", f"clj={address}", "--repl", "none") as live, live.client() as client:
        until_connected(client)
        with live.client(name="gone") as gone:
            nap = gone.call("evaluate_code", code="(Thread/sleep 600000)", isolate=True, timeoutMs=1000)
            assert nap["status"] == "running", nap
        ended = client.call("get_evaluation", evaluationId=nap["evaluationId"], waitMs=60_000)
        why = "its client disconnected, and the session belonged to that client"
        assert f"the code was interrupted: {why}" in ended["notes"]
