"""Background evaluations: they run alongside other code, with a value, output, interrupts and log entries of their
own.
"""

import pytest
from live_server import serving, until, until_connected, user_settings_file
from real_kernels import fresh
from real_repls import repl

ENDLESS = "import time\nwhile True: time.sleep(0.01)"
TASKS = """
import asyncio
async def consumer(queue):
    await queue.get()
async def main():
    task = asyncio.create_task(consumer(asyncio.Queue()), name="eater")
    await task
asyncio.run(main())
"""


@pytest.fixture
def busy(client):
    """Return a running evaluation of the client itself that occupies the REPL."""
    evaluation = client.call("evaluate_code", code=ENDLESS, timeoutMs=1000)["evaluationId"]
    until(lambda: client.call("get_evaluation", evaluationId=evaluation)["status"] == "running", "the loop to run")
    yield evaluation
    client.call("interrupt_evaluation", evaluationId=evaluation)


def begin(client, code, **more):
    return client.call("evaluate_code", code=code, background=True, **more)


def ended(client, answer, **more):
    return client.call("get_evaluation", evaluationId=answer["evaluationId"], waitMs=60_000, **more)


def assert_calls_are_traced(client):
    traced = client.call("evaluate_code", code="def called(): return 7\ncalled()", trace=True, timeoutMs=30_000)
    assert (traced["status"], "called() -> 7" in traced["trace"]) == ("done", True)


def test_background_code_runs_alongside_a_busy_repl(client, busy):
    answer = begin(client, "print('beside')\n6 * 7")
    if answer["status"] == "running":
        answer = ended(client, answer)
    assert (answer["status"], answer["result"], answer["stdout"]) == ("done", "42", "beside\n")
    log = client.call("repl_output_log", since=0)["result"]
    text = [e["text"] for e in log if e.get("evaluation") == answer["evaluationId"]]
    assert text == ["print('beside')\n6 * 7", "beside\n", "None", "42"]
    assert client.call("get_evaluation", evaluationId=busy)["status"] == "running"


def test_a_call_with_a_wait_of_zero_returns_at_once(client):
    answer = client.call("evaluate_code", code=ENDLESS, timeoutMs=0)
    assert answer["status"] == "running"
    assert client.call("interrupt_evaluation", evaluationId=answer["evaluationId"])["status"] == "interrupted"


def test_slow_background_code_is_reported_as_running_and_can_be_interrupted(client):
    answer = begin(client, ENDLESS)
    assert answer["status"] == "running"
    assert client.call("evaluate_code", code="1 + 1")["result"] == "2"
    assert client.call("interrupt_evaluation", evaluationId=answer["evaluationId"])["status"] == "interrupted"


def test_background_code_shares_names_but_not_the_last_value_with_the_session(client):
    client.call("evaluate_code", code="shared = [1]\n'last'")
    answer = begin(client, "shared.append(2)\nadded = 3", timeoutMs=60_000)
    assert answer["status"] == "done"
    after = client.call("evaluate_code", code="(shared, added, _)")
    assert after.get("result") == "([1, 2], 3, 'last')", after


def test_a_failure_in_background_code_is_reported_like_any_other_failure(client):
    answer = begin(client, "x = 1\n1 / 0", timeoutMs=60_000)
    assert (answer["reason"], answer["error"]["class"], answer["error"]["line"]) == (
        "evaluation-failed", "ZeroDivisionError", 2,
    )  # fmt: skip


def test_background_code_awaits_on_its_own_loop_and_reads_its_own_input(client, busy):
    assert begin(client, "import asyncio\nawait asyncio.sleep(0, 'slept')", timeoutMs=60_000)["result"] == "'slept'"
    reads = begin(client, "input()", timeoutMs=60_000)
    assert reads["status"] == "needs-input"
    assert client.call("send_input", evaluationId=reads["evaluationId"], text="hi")["result"] == "'hi'"
    assert client.call("get_evaluation", evaluationId=busy)["status"] == "running"


@pytest.mark.parametrize(
    "code",
    ["while True: pass", "input()", "import asyncio\nawait asyncio.Event().wait()"],
    ids=["a loop", "a prompt", "an await"],
)
def test_an_interrupt_ends_only_the_background_evaluation(client, busy, code):
    answer = begin(client, code, timeoutMs=500)
    done = client.call("interrupt_evaluation", evaluationId=answer["evaluationId"])
    assert (done["ok"], done["status"]) == (True, "interrupted"), done
    assert client.call("get_evaluation", evaluationId=busy)["status"] == "running"


def test_loading_an_edit_while_the_callers_own_code_runs_is_refused_before_writing(live, client, busy):
    (live.workspace / "low.py").write_text("x = 1\n")
    edits = [{"type": "append", "filePath": "low.py", "code": "y = 2\n"}]
    refused = client.call("edit_files", edits=edits, load=True)
    assert (refused["reason"], busy in refused["message"]) == ("busy", True)
    assert (live.workspace / "low.py").read_text() == "x = 1\n"


def test_stacks_of_a_hung_program_include_the_innermost_frame_of_each_task(client):
    hung = client.call("evaluate_code", code=TASKS, timeoutMs=1000)
    seen = client.call("get_evaluation", evaluationId=hung["evaluationId"], part="stacks")
    assert "eater" in seen["text"]
    assert "in consumer" in seen["text"]
    ended = client.call("interrupt_evaluation")
    assert "in consumer" in ended["stacks"]


def test_an_interrupt_names_tasks_whose_errors_were_never_retrieved(client):
    code = (
        "import asyncio\nasync def fetch(queue):\n    (await queue.get()).body\n"
        "async def main(queue):\n    workers = [asyncio.create_task(fetch(queue), name='fetcher-0')]\n"
        "    await queue.put(None)\n    await queue.join()\nawait main(asyncio.Queue())"
    )
    hung = client.call("evaluate_code", code=code, timeoutMs=2000)
    ended = client.call("interrupt_evaluation", evaluationId=hung["evaluationId"])
    error = "AttributeError: 'NoneType' object has no attribute 'body' at <eval"
    assert f"ended with an error: fetcher-0, created by evaluation {hung['evaluationId']}: {error}" in ended["stacks"]


def test_a_background_thread_that_ignores_the_interrupt_is_abandoned_and_reported(client):
    answer = begin(client, "import threading\nthreading.Event().wait()")
    done = client.call("interrupt_evaluation", evaluationId=answer["evaluationId"])
    assert done["status"] == "interrupted"
    words = str(done["notes"]) + done.get("stderr", "")
    assert "abandoned" in words
    assert "codriver background" in words
    assert client.call("evaluate_code", code="1 + 1")["result"] == "2"
    assert_calls_are_traced(client)  # this hung in Python 3.11 while an exception was pending


def test_main_thread_only_operations_fail_with_an_explanation_in_the_background(client):
    code = "import signal\nsignal.signal(signal.SIGTERM, signal.SIG_DFL)"
    answer = begin(client, code, timeoutMs=60_000)
    assert "main thread" in answer["error"]["message"]


def test_a_client_can_run_at_most_eight_background_evaluations(client):
    pending = [begin(client, ENDLESS) for _ in range(8)]
    refused = begin(client, "1")
    assert (refused["reason"], refused["most"]) == ("too-many-in-background", 8)
    for item in pending:
        client.call("interrupt_evaluation", evaluationId=item["evaluationId"])
    until(lambda: "result" in begin(client, "1", timeoutMs=5000), "room")


def test_background_code_ends_after_the_grace_period_of_its_client(tmp_path):
    user_settings_file(tmp_path).write_text("goneClientGraceMs = 100\n")
    with serving(tmp_path, "--repl", "python") as live, live.client() as stays:
        with live.client(name="leaver") as leaver:
            leaver.call("evaluate_code", code="1", timeoutMs=60_000)
            left = begin(leaver, ENDLESS)
            assert left["status"] == "running"
        until(lambda: ended(stays, left)["status"] == "interrupted", "its end")
        assert "in the background" in str(ended(stays, left)["notes"])
        until(lambda: len(stays.call("list_sessions")["sessions"]) == 1, "its session to be closed")


def test_background_code_on_the_jvm_runs_in_a_session_that_is_closed_afterwards(tmp_path):
    with serving(tmp_path, "--nrepl", str(repl("jvm").endpoint)) as live, live.client() as client:
        client.call("evaluate_code", code="(def shared 1)", timeoutMs=60_000)
        busy = client.call("evaluate_code", code="(deref (promise))", timeoutMs=1000)
        answer = begin(client, "(println 2) (+ shared 1)", timeoutMs=60_000)
        assert (answer["result"], answer["stdout"]) == ("2", "2\n")
        endless = begin(client, "(loop [] (Thread/sleep 10) (recur))")
        assert endless["status"] == "running"
        client.call("interrupt_evaluation", evaluationId=endless["evaluationId"])
        until(lambda: client.call("get_evaluation", evaluationId=endless["evaluationId"])["status"] == "interrupted",
              "the background evaluation to be interrupted")  # fmt: skip
        assert client.call("interrupt_evaluation")["evaluationId"] == busy["evaluationId"]
        until(lambda: not [item for item in client.call("list_sessions")["sessions"] if "background" in item["key"]],
              "its sessions to be closed")  # fmt: skip


@pytest.fixture
def kernel_client(tmp_path):
    """Return a client of a server with its own ipykernel, because a thread that cannot be ended stays in it."""
    with fresh("ipykernel") as kernel:
        options = ("--repl", "none", "--kernel", f"jup={kernel.file}")
        with serving(tmp_path, *options) as live, live.client() as client:
            client.call("evaluate_code", code="shared = [1]", timeoutMs=60_000)
            yield client


def test_background_code_in_a_kernel_runs_on_a_subshell(kernel_client):
    client = kernel_client
    busy = client.call("evaluate_code", code=ENDLESS, timeoutMs=1000)
    answer = begin(client, "print('beside')\nshared.append(2)\nshared", timeoutMs=60_000)
    assert (answer["status"], answer["result"], answer["stdout"]) == ("done", "[1, 2]", "beside\n")
    failed = begin(client, "x = 1\n1 / 0", timeoutMs=60_000)
    assert (failed["error"]["class"], failed["error"]["line"]) == ("ZeroDivisionError", 2), failed
    endless = begin(client, ENDLESS)
    assert endless["status"] == "running"
    assert client.call("interrupt_evaluation", evaluationId=endless["evaluationId"])["status"] == "interrupted"
    blocked = begin(client, "import threading\nthreading.Event().wait()")
    done = client.call("interrupt_evaluation", evaluationId=blocked["evaluationId"])
    assert done["status"] == "interrupted"
    assert "abandoned" in str(done["notes"])
    assert "subshell-" in str(done["notes"])
    assert client.call("get_evaluation", evaluationId=busy["evaluationId"])["status"] == "running"
    log = client.call("repl_output_log", since=0)["result"]
    assert "beside\n" in [e["text"] for e in log if e.get("evaluation") == answer["evaluationId"]]
    assert client.call("interrupt_evaluation", evaluationId=busy["evaluationId"])["status"] == "interrupted"
    assert_calls_are_traced(client)
    until(lambda: len(client.call("list_sessions")["sessions"]) == 1, "its sessions to be closed")


def test_background_code_in_a_kernel_cannot_request_input(kernel_client):
    answer = begin(kernel_client, "input()", timeoutMs=60_000)
    assert "input" in answer["error"]["message"]


@pytest.fixture(scope="module")
def lisp(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("lisp"), "--repl", "lisp") as live, live.client() as client:
        until_connected(client)
        client.call("evaluate_code", code="(def shared (atom 1))", timeoutMs=30_000)
        yield live


def test_background_code_in_basilisp_has_its_own_value_output_and_interrupt(lisp):
    with lisp.client() as client:
        loop = "(loop [] (time/sleep 0.01) (recur))"
        busy = client.call("evaluate_code", code=f"(import time) {loop}", timeoutMs=1000)
        assert busy["status"] == "running"
        answer = begin(client, "(println :beside) (swap! shared inc)", timeoutMs=60_000)
        assert (answer["status"], answer["result"], answer["stdout"]) == ("done", "2", ":beside\n")
        failed = begin(client, "1\n(/ 1 0)", timeoutMs=60_000)
        assert (failed["error"]["class"], failed["error"]["line"]) == ("ZeroDivisionError", 2)
        endless = begin(client, f"(import time) {loop}")
        assert endless["status"] == "running"
        assert client.call("interrupt_evaluation", evaluationId=endless["evaluationId"])["status"] == "interrupted"
        blocked = begin(client, "(import threading) (.wait (threading/Event))")
        done = client.call("interrupt_evaluation", evaluationId=blocked["evaluationId"])
        assert "codriver background" in str(done["notes"]) + done.get("stderr", "")
        assert client.call("get_evaluation", evaluationId=busy["evaluationId"])["status"] == "running"
        assert client.call("interrupt_evaluation", evaluationId=busy["evaluationId"])["status"] == "interrupted"


def test_background_code_in_basilisp_does_not_change_the_last_values_of_the_session(lisp):
    with lisp.client() as client:
        client.call("evaluate_code", code=":last", timeoutMs=60_000)
        begin(client, ":beside", timeoutMs=60_000)
        assert client.call("evaluate_code", code="*1")["result"] == ":last"


def test_a_repl_without_background_support_refuses_with_an_explanation(tmp_path):
    options = ("--nrepl", str(repl("nbb").endpoint))
    with serving(tmp_path, *options) as live, live.client() as client:
        client.call("evaluate_code", code="1", timeoutMs=60_000)
        refused = begin(client, "(+ 1 2)")
        assert (refused["reason"], "one evaluation at a time" in refused["hint"]) == ("capability-missing", True)
