"""Interrupts end the evaluation they are sent for, also at a prompt, and nothing else."""

import contextlib
import os
import signal

import pytest
from live_server import until
from worker_client import WAIT_S, Repl, text, texts, wait_for_input_request, wait_for_output


@pytest.mark.parametrize(
    "code",
    [
        "while True: pass",
        "import time\ntime.sleep(100)",
        "import threading\nlock = threading.Lock(); lock.acquire(); lock.acquire()",
        "import threading, time\nt = threading.Thread(target=time.sleep, args=(5,)); t.start(); t.join()",
        "import subprocess\nsubprocess.run(['sleep', '100'])",
        # An interrupt that is swallowed is sent again.
        "import time\ntry: time.sleep(100)\nexcept KeyboardInterrupt: pass\nwhile True: pass",
        "import time\nclass Slow:\n    def __del__(self): time.sleep(100)\nslow = Slow()\ndel slow\nwhile True: pass",
    ],
)
def test_an_interrupt_ends_the_running_evaluation(python, code):
    running = python.send("eval", code="print('begun', flush=True)\n" + code)
    until(lambda: wait_for_output(python, running), "the code to run")
    requested = python.send("interrupt", **{"interrupt-id": running})
    ended = python.answer(running)
    assert "interrupted" in ended[-1]["status"]
    assert python.answer(requested)[-1]["status"] == ["done"]
    assert texts(python.evaluate("1 + 1"), "value") == ["2"]


def test_a_late_interrupt_ends_no_other_evaluation(python):
    code = "import signal\nsignal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})\nprint('begun', flush=True)\n"
    running = python.send("eval", code=code + "while signal.SIGINT not in signal.sigpending(): pass")
    until(lambda: wait_for_output(python, running), "the code to run")
    python.send("interrupt", **{"interrupt-id": running})
    python.answer(running)
    after = "signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})\nsum(range(1000))"
    assert texts(python.evaluate(after), "value")[-1] == "499500"


def test_a_queued_evaluation_can_be_interrupted_without_the_running_one(python):
    running = python.send("eval", code="print('begun', flush=True)\nimport time; time.sleep(100)")
    until(lambda: wait_for_output(python, running), "the code to run")
    waiting = python.send("eval", code="ran = 1")
    requested = python.send("interrupt", **{"interrupt-id": waiting})
    assert "interrupted" in python.answer(waiting)[-1]["status"]
    assert python.answer(requested)[-1]["status"] == ["done"]
    assert not any("done" in m.get("status", ()) for m in python.received if m["id"] == running)
    python.send("interrupt", **{"interrupt-id": running})
    assert "interrupted" in python.answer(running)[-1]["status"]
    assert texts(python.evaluate("ran"), "ex") == ["NameError"]


def test_an_interrupt_loses_no_output(python):
    for _ in range(5):
        running = python.send("eval", code="n = 0\nwhile True:\n    print(n)\n    n += 1")
        until(lambda running=running: wait_for_output(python, running), "the code to run")
        python.send("interrupt", **{"interrupt-id": running})
        out = text(python.answer(running), "out")
        lines = out.count("\n")
        assert out.startswith("".join(f"{n}\n" for n in range(lines)))
        assert int(texts(python.evaluate("n"), "value")[0]) in {lines, lines - 1}


def test_a_top_level_await_can_be_interrupted_and_its_loop_continues(python):
    running = python.send("eval", code="import asyncio\nprint('begun', flush=True)\nawait asyncio.sleep(100)")
    until(lambda: wait_for_output(python, running), "the code to run")
    python.send("interrupt")
    assert "interrupted" in python.answer(running)[-1]["status"]
    assert texts(python.evaluate("await asyncio.sleep(0, 'slept')"), "value") == ["'slept'"]


def test_interrupting_an_idle_session_reports_that_it_is_idle(python):
    assert "session-idle" in python.ask("interrupt")[-1]["status"]


def test_an_interrupt_with_the_id_of_another_evaluation_is_refused(python):
    running = python.send("eval", code="print('begun', flush=True)\nwhile True: pass")
    until(lambda: wait_for_output(python, running), "the code to run")
    assert "interrupt-id-mismatch" in python.ask("interrupt", **{"interrupt-id": "other"})[-1]["status"]
    python.send("interrupt")
    python.answer(running)


def test_code_cannot_disable_the_interrupt_signal_permanently(python):
    python.evaluate("import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)")
    test_an_interrupt_ends_the_running_evaluation(python, "while True: pass")


@pytest.mark.skipif(os.name != "posix", reason="sends SIGINT to a process")
def test_an_unsupervised_worker_exits_on_sigint(tmp_path):
    with contextlib.closing(Repl(tmp_path)) as repl:
        repl.connect()
        repl.evaluate("1")
        repl.process.send_signal(signal.SIGINT)
        assert repl.process.wait(WAIT_S) == 0


@pytest.mark.skipif(os.name != "posix", reason="sends signals")
@pytest.mark.parametrize("send", ["os.kill(os.getpid(), signal.SIGINT)", "signal.raise_signal(signal.SIGINT)"])
@pytest.mark.parametrize("options", [(), ("--supervised",)])
def test_an_interrupt_that_code_sends_to_itself_is_an_ordinary_error(tmp_path, send, options):
    with contextlib.closing(Repl(tmp_path, *options)) as repl:
        repl.connect()
        caught = (
            f"import os, signal, time\ntry:\n    {send}\n    time.sleep(60)\nexcept KeyboardInterrupt:\n    x = 1\nx"
        )
        assert texts(repl.evaluate(caught), "value") == ["1"]
        answer = repl.evaluate(f"{send}\ntime.sleep(60)")
        assert texts(answer, "codriver/error")[0]["type"] == "KeyboardInterrupt"
        assert "interrupted" not in answer[-1]["status"], "nobody asked for it"
        # Also after an interrupt that was handled by a signal handler of the code.
        own = (
            "signal.signal(signal.SIGINT, lambda *_: (print('taken', flush=True), exit()))\nprint('begun', flush=True)"
        )
        running = repl.send("eval", code=own + "\ntime.sleep(60)")
        until(lambda: wait_for_output(repl, running), "the code to run")
        repl.send("interrupt")
        repl.answer(running)
        assert texts(repl.evaluate(caught), "value") == ["1"]


PROMPTS = {
    "input": "input('? ')",
    "a line of standard input": "import sys\nsys.stdin.readline()",
    "input again and again": "while True:\n    try: input('? ')\n    except KeyboardInterrupt: pass",
    "breakpoint": "def f():\n    breakpoint()\n    return 1\nf()",
    "pdb": "import pdb\npdb.run('1')",
    "post mortem": "import pdb\ntry: 1 / 0\nexcept Exception: pdb.post_mortem()\npdb.pm()",
}


@pytest.mark.parametrize("code", PROMPTS.values(), ids=PROMPTS)
def test_an_interrupt_ends_a_wait_for_input(python, code):
    python.evaluate("1 / 0")
    running = python.send("eval", code=code)
    until(lambda: wait_for_input_request(python, running), "the prompt")
    requested = python.send("interrupt", **{"interrupt-id": running})
    assert "interrupted" in python.answer(running)[-1]["status"]
    assert python.answer(requested)[-1]["status"] == ["done"], "before it gave up"
    assert texts(python.evaluate("import sys\nsys.gettrace(), 1"), "value") == ["(None, 1)"]


def test_an_interrupt_ends_code_continued_by_a_debugger(python):
    running = python.send("eval", code="import pdb, time\npdb.set_trace()\nprint('on', flush=True)\ntime.sleep(100)")
    until(lambda: wait_for_input_request(python, running), "the prompt")
    python.send("stdin", stdin="c\n")
    while "on\n" not in text([m for m in python.received if m.get("id") == running], "out"):
        python.received += python.decoder.feed(python.socket.recv(65536))
    requested = python.send("interrupt")
    assert "interrupted" in python.answer(running)[-1]["status"]
    assert python.answer(requested)[-1]["status"] == ["done"]
    assert texts(python.evaluate("1"), "value") == ["1"]
