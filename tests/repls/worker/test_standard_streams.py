"""Everything that user code can print and read, by every available means."""

import pytest
from live_server import until
from worker_client import text, texts, wait_for_output


def test_output_precedes_values_printed_after_it(python):
    messages = python.evaluate("import sys\nprint('a')\nprint('b', file=sys.stderr)\n1")
    kinds = [key for message in messages for key in ("out", "err", "value") if key in message]
    assert kinds == ["out", "value", "err", "value", "value"]


def test_many_lines_are_sent_in_few_messages_without_loss(python):
    messages = python.evaluate("for n in range(100_000): print(n)")
    assert "".join(texts(messages, "out")) == "".join(f"{n}\n" for n in range(100_000))
    assert len(messages) < 2000


def test_code_that_requests_input_receives_it(python):
    running = python.send("eval", code="input('who? ') + '!'")
    while not any("need-input" in m.get("status", []) for m in python.received):
        python.received += python.decoder.feed(python.socket.recv(65536))
    python.send("stdin", stdin="Ada\n")
    messages = python.answer(running)
    assert texts(messages, "value") == ["'Ada!'"]


def test_unread_input_is_not_passed_to_the_next_evaluation(python):
    running = python.send("eval", code="input()")
    python.send("stdin", stdin="first\nsecond\n")
    assert texts(python.answer(running), "value") == ["'first'"]
    running = python.send("eval", code="input()")
    until(lambda: _needs_input(python, running), "the code to ask")
    python.send("stdin", stdin="third\n")
    assert texts(python.answer(running), "value") == ["'third'"]


def test_input_can_be_read_in_parts_up_to_its_end(python):
    running = python.send("eval", code="import sys\nsys.stdin.readline(3), sys.stdin.read(2), sys.stdin.read()")
    for part in ("abcdef\n", "ж\n", ""):
        python.send("stdin", stdin=part)
    assert texts(python.answer(running), "value") == ["('abc', 'de', 'f\\nж\\n')"]


def _needs_input(repl, identity):
    while not any(m.get("id") == identity and "need-input" in m.get("status", []) for m in repl.received):
        repl.received += repl.decoder.feed(repl.socket.recv(65536))
    return True


@pytest.mark.parametrize(
    "code", ["import sys; sys.stdout = None", "import sys; sys.stdout.close()", "import sys; sys.stdin = None"]
)
def test_code_that_breaks_its_streams_affects_no_later_evaluation(python, code):
    python.evaluate("import sys\n" + code)
    assert texts(python.evaluate("print('still')"), "out") == ["still\n"]


def test_thread_output_belongs_to_the_evaluation_that_started_it(python):
    code = "import threading, time\ndef late():\n    time.sleep(0.2)\n    print('late')\n"
    code += "threading.Thread(target=late).start()"
    cause = python.send("eval", code=code)
    python.answer(cause)
    python.evaluate("1")
    assert wait_for_output(python, cause)


def test_child_process_output_belongs_to_the_evaluation(python):
    messages = python.evaluate("import subprocess\nsubprocess.run(['sh', '-c', 'echo 1; echo 2 >&2']).returncode")
    assert (text(messages, "out"), text(messages, "err")) == ("1\n", "2\n")
    assert messages[-1]["status"] == ["done"]


def test_flushing_preserves_the_order_with_child_output(python):
    code = "import subprocess, sys\nfor n in range(20):\n    print(n, flush=True)\n"
    code += "    _ = subprocess.run(['echo', str(-n)])\n    sys.stdout.flush()"
    assert text(python.evaluate(code), "out") == "".join(f"{n}\n{-n}\n" for n in range(20))


@pytest.mark.parametrize(
    "code",
    [
        "import os; os.write(1, b'said')",
        "import ctypes; ctypes.CDLL(None).printf(b'said')",
        "import sys; sys.stdout.buffer.write(b'said')",
        "import sys; sys.__stdout__.write('said')",
        "import os; os.system('printf said')",
        "import subprocess, sys; subprocess.run(['printf', 'said'], stdout=sys.stdout)",
    ],
)
def test_output_that_bypasses_python_is_captured(python, code):
    assert text(python.evaluate(code), "out") == "said"


def test_code_that_forks_gets_exactly_one_answer(python):
    messages = python.evaluate("import os\npid = os.fork()\nprint('parent' if pid else 'child')\npid and os.wait()[1]")
    # Both print at the same time, so the end of one line may come after the word of the other.
    assert sorted(text(messages, "out").replace("parent", " parent ").split()) == ["child", "parent"]
    assert texts(messages, "value")[-1] == "0"
    assert texts(python.evaluate("'here'"), "value") == ["'here'"]
    assert python.received == []


@pytest.mark.parametrize(("ending", "status"), [("sys.exit(3)", 3), ("raise ValueError", 1), ("os._exit(4)", 4)])
def test_a_forked_child_exits_as_it_would_in_a_script(python, ending, status):
    code = f"import os, sys\nif not os.fork(): {ending}\nos.WEXITSTATUS(os.wait()[1])"
    assert texts(python.evaluate(code), "value") == [str(status)]


@pytest.mark.parametrize("method", ["spawn", "fork", "forkserver"])
def test_multiprocessing_works(python, method):
    code = f"import math, multiprocessing\nwith multiprocessing.get_context({method!r}).Pool(1) as pool:\n"
    assert texts(python.evaluate(code + "    found = pool.map(math.sqrt, [4])\nfound"), "value") == ["[2.0]"]


def test_a_forked_process_finds_definitions_of_the_session(python):
    code = "import multiprocessing\ndef inc(n):\n    print('called')\n    return n + 1\n"
    code += "with multiprocessing.get_context('fork').Pool(1) as pool:\n    found = pool.map(inc, [1])\nfound"
    messages = python.evaluate(code)
    assert (texts(messages, "value"), text(messages, "out")) == (["[2]"], "called\n")


def test_finalizers_that_print_do_not_block_the_evaluation(python):
    code = "import gc\nclass Loud:\n    def __init__(self): self.me = self\n"
    code += "    def __del__(self): print('gone', flush=True)\n"
    code += "gc.set_threshold(1)\nfor _ in range(1000): Loud(); print('made')\n"
    code += "gc.set_threshold(700, 10, 10)\n_ = gc.collect()"
    out = text(python.evaluate(code), "out")
    assert (out.count("made"), out.count("gone"), out.count("\n")) == (1000, 1000, 2000)


MOCKED = """
import time
from unittest import mock
from threading import Event
with mock.patch('time.sleep', side_effect=RuntimeError) as sleep:
    for n in range(5):
        print('printed', n)
        Event().wait(0.05)
sleep.call_count
"""


def test_mocking_sleep_affects_only_user_code(python):
    """Threads of the worker sleep, too: a mock would count their calls, and a failing one would stop all output."""
    assert texts(python.evaluate(MOCKED), "value")[-1] == "0"
    running = python.send("eval", code="print('now')\nimport time\ntime.sleep(1000)")
    until(lambda: wait_for_output(python, running), "the output of code that goes on")
    python.ask("interrupt")
    assert text(python.answer(running), "out") == "now\n"
