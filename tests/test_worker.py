"""The embedded REPL by itself: a plain nREPL server that any client can use."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

import codriver.worker
from codriver.wire.bencode import Decoder, encode
from live_server import until

WORKER = codriver.worker.__file__
WAIT_S = 60


class Repl:
    """The worker in a process of its own, and one client of it."""

    def __init__(self, folder, *options, stderr=subprocess.DEVNULL):
        self.folder = folder
        environ = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
        self.process = subprocess.Popen(
            [sys.executable, WORKER, "--workspace", str(folder), *options],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
            cwd=folder,
            env=environ,
            text=True,
        )
        self.line = self.process.stdout.readline()
        self.port = int(self.line.rsplit(":", 1)[1])
        self.number = 0
        self.session = None
        self.socket = socket.socket()

    def connect(self):
        self.socket.close()
        self.socket = socket.create_connection(("127.0.0.1", self.port), timeout=WAIT_S)
        self.decoder = Decoder()
        self.received = []

    @contextlib.contextmanager
    def fresh_session(self):
        """A connection and a session of one test's own: what it leaves behind reaches no other test."""
        self.connect()
        (self.session,) = texts(self.ask("clone", **{"codriver/apart": "yes"}), "new-session")
        try:
            yield self
        finally:
            if self.process.poll() is None:
                self.ask("interrupt")
                self.ask("close")
            self.session = None
            self.socket.close()

    def send(self, op, **fields):
        self.number += 1
        session = {"session": self.session} if self.session else {}
        self.socket.sendall(encode({"op": op, "id": str(self.number), **session, **fields}))
        return str(self.number)

    def answer(self, identity):
        """All messages of a request, until it is done."""
        while True:
            got = [message for message in self.received if message.get("id") == identity]
            if any("done" in message.get("status", []) for message in got):
                self.received = [message for message in self.received if message.get("id") != identity]
                return got
            data = self.socket.recv(65536)
            assert data, "the worker hung up"
            self.received += self.decoder.feed(data)

    def ask(self, op, **fields):
        return self.answer(self.send(op, **fields))

    def evaluate(self, code, **fields):
        return self.ask("eval", code=code, **fields)

    def close(self):
        self.socket.close()
        self.process.kill()
        self.process.wait(WAIT_S)
        self.process.stdin.close()
        self.process.stdout.close()


def texts(messages, key):
    return [message[key] for message in messages if key in message]


def text(messages, key):
    return "".join(texts(messages, key))


@pytest.fixture(scope="module")
def python_process(tmp_path_factory):
    with contextlib.closing(Repl(tmp_path_factory.mktemp("python"))) as repl:
        yield repl


@pytest.fixture(scope="module")
def lisp_process(tmp_path_factory):
    with contextlib.closing(Repl(tmp_path_factory.mktemp("lisp"), "--dialect", "lisp")) as repl:
        yield repl


@pytest.fixture
def python(python_process):
    with python_process.fresh_session() as repl:
        yield repl


@pytest.fixture
def lisp(lisp_process):
    with lisp_process.fresh_session() as repl:
        yield repl


def test_it_prints_the_line_that_nrepl_clients_look_for(python):
    assert (
        python.line
        == f"nREPL server started on port {python.port} on host 127.0.0.1 - nrepl://127.0.0.1:{python.port}\n"
    )


def test_every_form_gives_its_value_in_order(python):
    assert texts(python.evaluate("1\nx = 2\nx + 1\n'hé 😀'"), "value") == ["1", "3", "'hé 😀'"]


def test_output_comes_before_the_value_it_was_printed_before(python):
    messages = python.evaluate("import sys\nprint('a')\nprint('b', file=sys.stderr)\n1")
    kinds = [key for message in messages for key in ("out", "err", "value") if key in message]
    assert kinds == ["out", "value", "err", "value", "value"]


def test_many_lines_make_few_messages_and_none_is_lost(python):
    messages = python.evaluate("for n in range(100_000): print(n)")
    assert "".join(texts(messages, "out")) == "".join(f"{n}\n" for n in range(100_000))
    assert len(messages) < 2000


def test_text_that_does_not_parse_runs_nothing(python):
    messages = python.evaluate("ran = 1\n)")
    assert texts(messages, "codriver/error")[0]["phase"] == "read"
    assert texts(python.evaluate("ran"), "ex") == ["NameError"]


def test_text_that_is_no_text_of_a_program_is_an_error_of_reading(python):
    (parts,) = texts(python.evaluate("1\0"), "codriver/error")
    assert (parts["phase"], parts["trace"], parts.get("file", "<eval")[:5]) == ("read", [], "<eval")


def test_a_traceback_shows_the_users_lines_and_none_of_the_workers(python):
    (text,) = texts(python.evaluate("def boom():\n    return 1 / 0\nboom()"), "err")
    assert "return 1 / 0" in text
    assert "worker.py" not in text


@pytest.mark.parametrize(
    "code",
    [
        "while True: pass",
        "import time\ntime.sleep(100)",
        "import threading\nlock = threading.Lock(); lock.acquire(); lock.acquire()",
        "import threading, time\nt = threading.Thread(target=time.sleep, args=(5,)); t.start(); t.join()",
        "import subprocess\nsubprocess.run(['sleep', '100'])",
        # An interrupt that is swallowed comes again.
        "import time\ntry: time.sleep(100)\nexcept KeyboardInterrupt: pass\nwhile True: pass",
        "import time\nclass Slow:\n    def __del__(self): time.sleep(100)\nslow = Slow()\ndel slow\nwhile True: pass",
    ],
)
def test_an_interrupt_ends_what_runs(python, code):
    running = python.send("eval", code="print('begun', flush=True)\n" + code)
    until(lambda: _begun(python, running), "the code to run")
    asked = python.send("interrupt", **{"interrupt-id": running})
    ended = python.answer(running)
    assert "interrupted" in ended[-1]["status"]
    assert python.answer(asked)[-1]["status"] == ["done"]
    assert texts(python.evaluate("1 + 1"), "value") == ["2"]


def _begun(repl, identity):
    while not any(m.get("id") == identity and "out" in m for m in repl.received):
        repl.received += repl.decoder.feed(repl.socket.recv(65536))
    return True


def test_an_interrupt_that_comes_late_ends_no_other_evaluation(python):
    code = "import signal\nsignal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})\nprint('begun', flush=True)\n"
    running = python.send("eval", code=code + "while signal.SIGINT not in signal.sigpending(): pass")
    until(lambda: _begun(python, running), "the code to run")
    python.send("interrupt", **{"interrupt-id": running})
    python.answer(running)
    after = "signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})\nsum(range(1000))"
    assert texts(python.evaluate(after), "value")[-1] == "499500"


def test_an_evaluation_that_waits_is_interrupted_and_what_runs_is_not(python):
    running = python.send("eval", code="print('begun', flush=True)\nimport time; time.sleep(100)")
    until(lambda: _begun(python, running), "the code to run")
    waiting = python.send("eval", code="ran = 1")
    asked = python.send("interrupt", **{"interrupt-id": waiting})
    assert "interrupted" in python.answer(waiting)[-1]["status"]
    assert python.answer(asked)[-1]["status"] == ["done"]
    assert not any("done" in m.get("status", ()) for m in python.received if m["id"] == running)
    python.send("interrupt", **{"interrupt-id": running})
    assert "interrupted" in python.answer(running)[-1]["status"]
    assert texts(python.evaluate("ran"), "ex") == ["NameError"]


def test_an_interrupt_loses_nothing_that_was_printed(python):
    for _ in range(5):
        running = python.send("eval", code="n = 0\nwhile True:\n    print(n)\n    n += 1")
        until(lambda running=running: _begun(python, running), "the code to run")
        python.send("interrupt", **{"interrupt-id": running})
        out = text(python.answer(running), "out")
        lines = out.count("\n")
        assert out.startswith("".join(f"{n}\n" for n in range(lines)))
        assert int(texts(python.evaluate("n"), "value")[0]) in {lines, lines - 1}


def test_an_await_at_the_top_is_interrupted_and_its_loop_goes_on(python):
    running = python.send("eval", code="import asyncio\nprint('begun', flush=True)\nawait asyncio.sleep(100)")
    until(lambda: _begun(python, running), "the code to run")
    python.send("interrupt")
    assert "interrupted" in python.answer(running)[-1]["status"]
    assert texts(python.evaluate("await asyncio.sleep(0, 'slept')"), "value") == ["'slept'"]


@pytest.mark.parametrize("words", ["raise ValueError", "return 1", "while True: pass"])
def test_an_error_whose_words_fail_or_never_end_is_reported(python, words):
    code = (
        f"class Bad(Exception):\n    def __str__(self):\n        print('begun', flush=True)\n        {words}\nraise Bad"
    )
    running = python.send("eval", code=code)
    until(lambda: _begun(python, running), "the words to be asked for")
    python.send("interrupt")
    (parts,) = texts(python.answer(running), "codriver/error")
    assert parts["type"].endswith("Bad")
    assert texts(python.evaluate("1 + 1"), "value") == ["2"]


def test_an_interrupt_of_nothing_says_so(python):
    assert "session-idle" in python.ask("interrupt")[-1]["status"]


def test_an_interrupt_of_another_evaluation_is_refused(python):
    running = python.send("eval", code="print('begun', flush=True)\nwhile True: pass")
    until(lambda: _begun(python, running), "the code to run")
    assert "interrupt-id-mismatch" in python.ask("interrupt", **{"interrupt-id": "other"})[-1]["status"]
    python.send("interrupt")
    python.answer(running)


def test_code_that_asks_for_input_gets_it(python):
    running = python.send("eval", code="input('who? ') + '!'")
    while not any("need-input" in m.get("status", []) for m in python.received):
        python.received += python.decoder.feed(python.socket.recv(65536))
    python.send("stdin", stdin="Ada\n")
    messages = python.answer(running)
    assert texts(messages, "value") == ["'Ada!'"]


def test_input_that_was_not_read_is_not_the_next_evaluations(python):
    running = python.send("eval", code="input()")
    python.send("stdin", stdin="first\nsecond\n")
    assert texts(python.answer(running), "value") == ["'first'"]
    running = python.send("eval", code="input()")
    until(lambda: _needs_input(python, running), "the code to ask")
    python.send("stdin", stdin="third\n")
    assert texts(python.answer(running), "value") == ["'third'"]


def test_all_input_is_read_up_to_its_end(python):
    running = python.send("eval", code="import sys\nsys.stdin.readline(3), sys.stdin.read(2), sys.stdin.read()")
    for part in ("abcdef\n", "ж\n", ""):
        python.send("stdin", stdin=part)
    assert texts(python.answer(running), "value") == ["('abc', 'de', 'f\\nж\\n')"]


def _needs_input(repl, identity):
    while not any(m.get("id") == identity and "need-input" in m.get("status", []) for m in repl.received):
        repl.received += repl.decoder.feed(repl.socket.recv(65536))
    return True


def test_exit_is_an_error_and_the_repl_goes_on(python):
    assert texts(python.evaluate("exit(3)"), "ex") == ["SystemExit"]
    assert texts(python.evaluate("'here'"), "value") == ["'here'"]


@pytest.mark.parametrize(
    "code", ["import sys; sys.stdout = None", "import sys; sys.stdout.close()", "import sys; sys.stdin = None"]
)
def test_code_that_breaks_its_streams_breaks_them_for_itself_alone(python, code):
    python.evaluate("import sys\n" + code)
    assert texts(python.evaluate("print('still')"), "out") == ["still\n"]


def test_code_that_takes_the_interrupt_signal_does_not_keep_it(python):
    python.evaluate("import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)")
    test_an_interrupt_ends_what_runs(python, "while True: pass")


def test_a_name_can_be_awaited_at_the_top(python):
    assert texts(python.evaluate("import asyncio\nawait asyncio.sleep(0, 'slept')"), "value") == ["'slept'"]


def test_a_module_is_evaluated_in_by_its_name(python):
    python.evaluate("import json")
    assert texts(python.evaluate("__name__", ns="json"), "value") == ["'json'"]
    assert "namespace-not-found" in python.evaluate("1", ns="no.such")[-1]["status"]


def test_the_future_that_was_imported_holds_for_later_evaluations(python):
    python.evaluate("from __future__ import annotations")
    assert texts(python.evaluate("def f(x: unknown): pass\nf.__annotations__"), "value") == ["{'x': 'unknown'}"]


def test_the_last_value_has_a_name_that_yields_to_the_users(python):
    python.evaluate("import json\nlen\n5")
    python.evaluate("6", ns="json")
    assert texts(python.evaluate("_\n7\n_"), "value") == ["5", "7", "7"]
    assert texts(python.evaluate("_ = str.upper\n8\n_('a')"), "value") == ["8", "'A'"]


def test_sessions_that_are_apart_share_no_names(python):
    python.evaluate("mine = 1")
    (other,) = texts(python.ask("clone", **{"codriver/apart": "yes"}), "new-session")
    assert texts(python.evaluate("mine", session=other), "ex") == ["NameError"]
    (clone,) = texts(python.ask("clone"), "new-session")
    assert texts(python.evaluate("mine", session=clone), "value") == ["1"]
    code = "import pickle\nclass Own: pass\ntype(pickle.loads(pickle.dumps(Own()))) is Own"
    assert texts(python.evaluate(code, session=other), "value") == ["True"]


def test_errors_tell_the_place_in_the_file_that_the_code_is_of(python):
    where = {"file": "/no/such.py", "line": 7, "column": 5}
    (read,) = texts(python.evaluate("f(", **where), "codriver/error")
    assert (read["file"], read["line"], read["column"]) == ("/no/such.py", 7, 6)
    (ran,) = texts(python.evaluate("1\n\n(1 / 0)", **where), "codriver/error")
    assert (ran["file"], ran["line"]) == ("/no/such.py", 9)


def test_a_file_is_loaded_into_the_module_that_it_is(python):
    package = python.folder / "src" / "parcel"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "thing.py").write_text("value = 1\n")
    python.evaluate(f"import sys; sys.path.insert(0, {str(python.folder / 'src')!r})")
    assert texts(python.evaluate("import parcel.thing\nparcel.thing.value"), "value") == ["1"]
    loaded = python.ask("load-file", **{"file": "value = 2\nvalue * 2", "file-path": str(package / "thing.py")})
    assert texts(loaded, "value") == ["4"]
    assert texts(python.evaluate("parcel.thing.value"), "value") == ["2"]
    (package / "new.py").write_text("")
    python.ask("load-file", **{"file": "named = __name__", "file-path": str(package / "new.py")})
    assert texts(python.evaluate("parcel.new.named"), "value") == ["'parcel.new'"]


def test_a_file_that_fails_to_load_leaves_no_module(python):
    file = python.folder / "broken.py"
    python.ask("load-file", **{"file": "1 / 0", "file-path": str(file)})
    assert texts(python.evaluate("import sys\n'broken' in sys.modules"), "value") == ["False"]
    python.evaluate("import json")
    python.ask("load-file", **{"file": "1 / 0", "file-path": str(python.folder / "json.py")})
    assert texts(python.evaluate("sys.modules['json'] is json"), "value") == ["True"]


def test_print_limits_are_kept(python):
    options = {"nrepl.middleware.print/options": {"print-length": 3, "print-level": 2}}
    assert texts(python.evaluate("list(range(10))", **options), "value") == ["[0, 1, 2, ...]"]
    nested = "{'b': (1,), 'a': [[[]]], 'c': {1}, 'd': 0}"
    assert texts(python.evaluate(nested, **options), "value") == ["{'b': (1,), 'a': [[...]], 'c': {1}, ...}"]
    (message,) = [m for m in python.evaluate("'x' * 100", **{"nrepl.middleware.print/quota": 10}) if "value" in m]
    assert (message["value"], message["status"]) == ("'xxxxxxxxx", ["nrepl.middleware.print/truncated"])


def test_completion_and_lookup_call_nothing(python):
    python.evaluate("class Trap:\n    @property\n    def sprung(self): raise RuntimeError\ntrap = Trap()\nimport json")
    (found,) = texts(python.ask("completions", prefix="trap.spr"), "completions")
    assert [item["candidate"] for item in found] == ["trap.sprung"]
    (info,) = texts(python.ask("lookup", sym="json.dumps"), "info")
    assert info["file"].endswith("json/__init__.py")
    assert info["arglists-str"].startswith("(obj, *")
    assert "no-info" in python.ask("lookup", sym="no.such")[-1]["status"]


def test_threads_print_under_the_evaluation_that_started_them(python):
    code = "import threading, time\ndef late():\n    time.sleep(0.2)\n    print('late')\n"
    code += "threading.Thread(target=late).start()"
    cause = python.send("eval", code=code)
    python.answer(cause)
    python.evaluate("1")
    assert _begun(python, cause)


def test_what_a_child_process_prints_belongs_to_the_evaluation(python):
    messages = python.evaluate("import subprocess\nsubprocess.run(['sh', '-c', 'echo 1; echo 2 >&2']).returncode")
    assert (text(messages, "out"), text(messages, "err")) == ("1\n", "2\n")
    assert messages[-1]["status"] == ["done"]


def test_a_flush_keeps_the_order_of_what_a_child_prints(python):
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
def test_what_goes_around_python_is_not_lost(python, code):
    assert text(python.evaluate(code), "out") == "said"


def test_code_that_forks_has_one_answer_and_its_child_no_voice(python):
    messages = python.evaluate("import os\npid = os.fork()\nprint('parent' if pid else 'child')\npid and os.wait()[1]")
    assert sorted(text(messages, "out").split()) == ["child", "parent"]
    assert texts(messages, "value")[-1] == "0"
    assert texts(python.evaluate("'here'"), "value") == ["'here'"]
    assert python.received == []


@pytest.mark.parametrize(("ending", "status"), [("sys.exit(3)", 3), ("raise ValueError", 1), ("os._exit(4)", 4)])
def test_a_forked_child_ends_as_it_would_in_a_script(python, ending, status):
    code = f"import os, sys\nif not os.fork(): {ending}\nos.WEXITSTATUS(os.wait()[1])"
    assert texts(python.evaluate(code), "value") == [str(status)]


@pytest.mark.parametrize("method", ["spawn", "fork", "forkserver"])
def test_processes_of_multiprocessing_work(python, method):
    code = f"import math, multiprocessing\nwith multiprocessing.get_context({method!r}).Pool(1) as pool:\n"
    assert texts(python.evaluate(code + "    found = pool.map(math.sqrt, [4])\nfound"), "value") == ["[2.0]"]


def test_a_forked_process_finds_what_was_defined_here(python):
    code = "import multiprocessing\ndef inc(n):\n    print('called')\n    return n + 1\n"
    code += "with multiprocessing.get_context('fork').Pool(1) as pool:\n    found = pool.map(inc, [1])\nfound"
    messages = python.evaluate(code)
    assert (texts(messages, "value"), text(messages, "out")) == (["[2]"], "called\n")


def test_finalizers_that_print_block_nothing(python):
    code = "import gc\nclass Loud:\n    def __init__(self): self.me = self\n"
    code += "    def __del__(self): print('gone', flush=True)\n"
    code += "gc.set_threshold(1)\nfor _ in range(1000): Loud(); print('made')\n"
    code += "gc.set_threshold(700, 10, 10)\n_ = gc.collect()"
    out = text(python.evaluate(code), "out")
    assert (out.count("made"), out.count("gone"), out.count("\n")) == (1000, 1000, 2000)


@pytest.mark.slow
def test_a_client_that_never_reads_is_dropped_and_the_others_go_on(python):
    with socket.create_connection(("127.0.0.1", python.port), timeout=WAIT_S) as stuck:
        stuck.sendall(encode({"op": "eval", "id": "1", "code": "for _ in range(100): print('x' * 1_000_000)"}))
        assert texts(python.evaluate("'here'"), "value") == ["'here'"]


def test_a_dump_of_all_threads_shows_what_runs(python):
    running = python.send("eval", code="def busy():\n    print('begun', flush=True)\n    while True: pass\nbusy()")
    until(lambda: _begun(python, running), "the code to run")
    (stacks,) = texts(python.ask("codriver/stacks"), "stacks")
    assert "in busy" in stacks
    python.send("interrupt")
    python.answer(running)


def test_garbage_ends_its_own_connection_alone(python):
    with socket.create_connection(("127.0.0.1", python.port), timeout=WAIT_S) as other:
        other.sendall(b"garbage")
        assert other.recv(100) == b""
    assert texts(python.evaluate("1"), "value") == ["1"]


@pytest.mark.parametrize(("op", "word"), [("no-such-op", "unknown-op"), (["eval"], "unknown-op"), ("eval", "no-code")])
def test_what_cannot_be_done_is_answered(python, op, word):
    assert word in python.ask(op)[-1]["status"]


def test_an_unknown_session_is_answered(python):
    assert "unknown-session" in python.evaluate("1", session="none")[-1]["status"]
    assert "unknown-session" in python.evaluate("1", session=["none"])[-1]["status"]


def test_ten_megabytes_come_and_go(python):
    assert len(texts(python.evaluate("'v' * 10_000_000"), "value")[0]) == 10_000_002
    assert texts(python.evaluate(f"len('{'c' * 10_000_000}')"), "value") == ["10000000"]


def test_the_workers_own_folder_is_not_the_projects(python):
    code = f"import sys\n[p for p in sys.path if p == {str(Path(WORKER).parent)!r}]"
    assert texts(python.evaluate(code), "value") == ["[]"]


@pytest.mark.skipif(os.name != "posix", reason="looks for a signal's name")
def test_a_crash_of_the_interpreter_says_where_it_was(tmp_path):
    with (tmp_path / "errors").open("w+") as errors:
        with contextlib.closing(Repl(tmp_path, stderr=errors)) as repl:
            repl.connect()
            repl.send("eval", code="import ctypes\ndef crash(): ctypes.string_at(0)\ncrash()")
            assert repl.process.wait(WAIT_S) == -signal.SIGSEGV
        errors.seek(0)
        assert "in crash" in errors.read()


@pytest.mark.skipif(os.name != "posix", reason="sends SIGINT to a process")
def test_an_interrupt_by_hand_ends_what_nobody_supervises(tmp_path):
    with contextlib.closing(Repl(tmp_path)) as repl:
        repl.connect()
        repl.evaluate("1")
        repl.process.send_signal(signal.SIGINT)
        assert repl.process.wait(WAIT_S) == 0


def test_a_projects_sources_are_found_in_src(tmp_path):
    (tmp_path / "src" / "parcel").mkdir(parents=True)
    (tmp_path / "src" / "parcel" / "__init__.py").write_text("name = 'found'\n")
    with contextlib.closing(Repl(tmp_path)) as repl:
        repl.connect()
        assert texts(repl.evaluate("import parcel\nparcel.name"), "value") == ["'found'"]


@pytest.mark.parametrize("code", ["40\nx = 2", "40\nfor n in range(3): n", "40\nimport sys", "40\ndef f(): return 1"])
def test_statements_after_the_last_expression_leave_no_value(python, code):
    assert texts(python.evaluate(code), "value") == []
    assert texts(python.evaluate("_"), "value") == ["40"], "what was computed is still at hand"


def test_a_failure_is_left_where_post_mortem_debuggers_look(python):
    python.evaluate("import sys\ndef boom():\n    inner = 42\n    raise ValueError('why')\nboom()")
    said = python.evaluate("repr(sys.last_value), sys.last_exc is sys.last_value, sys.last_type is ValueError")
    assert texts(said, "value") == ["(\"ValueError('why')\", True, True)"]
    frames = "import traceback\n[f.name for f in traceback.extract_tb(sys.last_traceback)]"
    assert texts(python.evaluate(frames), "value") == ["['<module>', 'boom']"], "and none of the worker's"


def test_post_mortem_debugging_works(python):
    python.evaluate("def boom():\n    inner = 42\n    raise ValueError('why')\nboom()")
    running = python.send("eval", code="import pdb\npdb.pm()")
    until(lambda: _asked(python, running), "the prompt")
    python.send("stdin", stdin="p inner\nwhere\nq\n")
    answer = python.answer(running)
    assert "42\n" in text(answer, "out")
    assert "worker" not in text(answer, "out")


def _asked(repl, identity):
    while not any(m.get("id") == identity and "need-input" in m.get("status", ()) for m in repl.received):
        repl.received += repl.decoder.feed(repl.socket.recv(65536))
    return True


def test_the_users_displayhook_holds(python):
    try:
        python.evaluate("import sys\nsys.displayhook = lambda value: print('<', value, '>')")
        answer = python.evaluate("1 + 1\nNone")
        assert (text(answer, "out"), texts(answer, "value")) == ("< 2 >\n< None >\n", ["2", "None"])
        assert text(python.evaluate("x = 3"), "out") == ""
        python.evaluate("sys.displayhook = lambda value: 1 / 0")
        (parts,) = texts(python.evaluate("2"), "codriver/error")
        assert (parts["type"], parts["phase"]) == ("ZeroDivisionError", "print")
    finally:
        python.evaluate("sys.displayhook = sys.__displayhook__")
    assert text(python.evaluate("2"), "out") == ""


def test_the_users_excepthook_holds(python):
    try:
        hook = "lambda kind, error, tb: print(kind.__name__, error, tb.tb_frame.f_code.co_name, file=sys.stderr)"
        python.evaluate(f"import sys\nsys.excepthook = {hook}")
        answer = python.evaluate("raise ValueError('why')")
        assert text(answer, "err") == "ValueError why <module>\n"
        assert texts(answer, "codriver/error")[0]["message"] == "why"
        assert "Traceback" in text(python.evaluate("exit(3)"), "err"), "the hook is not for those"
        python.evaluate("def broken(*_): raise KeyError('hook')\nsys.excepthook = broken")
        said = text(python.evaluate("raise ValueError('why')"), "err")
        assert "Error in sys.excepthook:" in said
        assert "KeyError: 'hook'" in said
        assert said.endswith("ValueError: why\n")
        assert "worker.py" not in said
    finally:
        python.evaluate("sys.excepthook = sys.__excepthook__")
    assert "Traceback" in text(python.evaluate("raise ValueError('why')"), "err")


@pytest.mark.skipif(os.name != "posix", reason="sends signals")
@pytest.mark.parametrize("send", ["os.kill(os.getpid(), signal.SIGINT)", "signal.raise_signal(signal.SIGINT)"])
@pytest.mark.parametrize("options", [(), ("--supervised",)])
def test_an_interrupt_that_code_sends_itself_is_its_own(tmp_path, send, options):
    with contextlib.closing(Repl(tmp_path, *options)) as repl:
        repl.connect()
        caught = (
            f"import os, signal, time\ntry:\n    {send}\n    time.sleep(60)\nexcept KeyboardInterrupt:\n    x = 1\nx"
        )
        assert texts(repl.evaluate(caught), "value") == ["1"]
        answer = repl.evaluate(f"{send}\ntime.sleep(60)")
        assert texts(answer, "codriver/error")[0]["type"] == "KeyboardInterrupt"
        assert "interrupted" not in answer[-1]["status"], "nobody asked for it"
        # After an interrupt that code with a handler of its own took, too.
        own = (
            "signal.signal(signal.SIGINT, lambda *_: (print('taken', flush=True), exit()))\nprint('begun', flush=True)"
        )
        running = repl.send("eval", code=own + "\ntime.sleep(60)")
        until(lambda: _begun(repl, running), "the code to run")
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
def test_an_interrupt_ends_what_waits_for_input(python, code):
    python.evaluate("1 / 0")
    running = python.send("eval", code=code)
    until(lambda: _asked(python, running), "the prompt")
    asked = python.send("interrupt", **{"interrupt-id": running})
    assert "interrupted" in python.answer(running)[-1]["status"]
    assert python.answer(asked)[-1]["status"] == ["done"], "before it gave up"
    assert texts(python.evaluate("import sys\nsys.gettrace(), 1"), "value") == ["(None, 1)"]


def test_an_interrupt_ends_what_a_debugger_let_run_on(python):
    running = python.send("eval", code="import pdb, time\npdb.set_trace()\nprint('on', flush=True)\ntime.sleep(100)")
    until(lambda: _asked(python, running), "the prompt")
    python.send("stdin", stdin="c\n")
    while "on\n" not in text([m for m in python.received if m.get("id") == running], "out"):
        python.received += python.decoder.feed(python.socket.recv(65536))
    asked = python.send("interrupt")
    assert "interrupted" in python.answer(running)[-1]["status"]
    assert python.answer(asked)[-1]["status"] == ["done"]
    assert texts(python.evaluate("1"), "value") == ["1"]


def test_lisp_can_be_interrupted_at_a_prompt(lisp):
    running = lisp.send("eval", code="(read-line)")
    until(lambda: _asked(lisp, running), "the prompt")
    lisp.send("interrupt")
    assert "interrupted" in lisp.answer(running)[-1]["status"]
    assert texts(lisp.evaluate("(+ 1 1)"), "value") == ["2"]


PARENT = """
import subprocess, sys
command, pipe = [sys.executable, sys.argv[1], "--supervised"], subprocess.PIPE
child = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True)
print(child.pid, child.stdout.readline().rsplit(":", 1)[1].strip(), flush=True)
sys.stdin.read()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc")
@pytest.mark.parametrize("code", ["import time; time.sleep(1000)", "while True: pass", "sum(range(10**13))"])
def test_it_ends_with_a_parent_that_was_killed_whatever_it_runs(code):
    command = [sys.executable, "-c", PARENT, WORKER]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as parent:
        pid, port = map(int, parent.stdout.readline().split())
        with socket.create_connection(("127.0.0.1", port), timeout=WAIT_S) as client:
            client.sendall(encode({"op": "eval", "id": "1", "code": "print('begun', flush=True)\n" + code}))
            assert b"begun" in client.recv(1000)
            parent.send_signal(signal.SIGKILL)
            parent.wait(WAIT_S)
            until(lambda: not Path(f"/proc/{pid}").exists(), "the worker to end")


def test_lisp_gives_values_in_unicode_and_switches_its_namespace(lisp):
    messages = lisp.evaluate('(str "h\u00e9" \\😀) (in-ns \'other) *ns*')
    assert texts(messages, "value")[0] == '"hé😀"'
    assert texts(messages, "value")[-1] == "other"
    assert texts(lisp.evaluate("(in-ns 'user) *ns*"), "value") == ["user", "user"]


@pytest.mark.parametrize("code", ["(in-ns 'bare) (str 2)", "(ns few (:refer-basilisp :only [str])) (str 2)"])
def test_lisp_finds_its_way_back_from_every_namespace(lisp, code):
    assert texts(lisp.evaluate(code), "value")[-1] == '"2"'
    assert texts(lisp.evaluate("(in-ns 'user) (+ 1 1)"), "value") == ["user", "2"]


def test_lisp_evaluates_in_a_namespace_that_only_in_ns_made(lisp):
    lisp.evaluate("(do (in-ns 'made) (in-ns 'user))")
    assert texts(lisp.evaluate("(inc 1)", ns="made"), "value") == ["2"]


@pytest.mark.parametrize("code", ["(loop [] (recur))", "(count (range))"])
def test_lisp_can_be_interrupted(lisp, code):
    running = lisp.send("eval", code='(println "begun") ' + code)
    until(lambda: _begun(lisp, running), "the code to run")
    lisp.send("interrupt")
    assert "interrupted" in lisp.answer(running)[-1]["status"]
    assert texts(lisp.evaluate("(+ 1 1)"), "value") == ["2"]


def test_lisp_says_many_lines_in_few_messages(lisp):
    messages = lisp.evaluate("(dotimes [n 2000] (println n))")
    assert text(messages, "out") == "".join(f"{n}\n" for n in range(2000))
    assert len(messages) < 200


def test_lisp_prints_infinite_sequences_up_to_a_limit_of_its_own(lisp):
    (value,) = texts(lisp.evaluate("(range)"), "value")
    assert value.startswith("(0 1 2 ")
    assert value.endswith(" 9999 ...)")


def test_lisp_prints_infinite_sequences_up_to_the_limit(lisp):
    options = {"nrepl.middleware.print/options": {"print-length": 3}}
    assert texts(lisp.evaluate("(range)", **options), "value") == ["(0 1 2 ...)"]


def test_lisp_cuts_nothing_that_the_code_itself_prints(lisp):
    options = {"nrepl.middleware.print/options": {"print-length": 3}}
    for limits in ({}, options):
        messages = lisp.evaluate("(def many (vec (range 20000))) (println (count (pr-str many)))", **limits)
        assert text(messages, "out") == f"{len(' '.join(map(str, range(20000)))) + 2}\n"


def test_lisp_errors_know_their_phase_and_place(lisp):
    (read,) = texts(lisp.evaluate("(+ 1"), "codriver/error")
    assert read["phase"] == "read"
    (compiled,) = texts(lisp.evaluate("\n(no-such-thing)"), "codriver/error")
    assert (compiled["phase"], compiled["line"], compiled["column"]) == ("compile", 2, 2)
    (within,) = texts(lisp.evaluate("(let [x\n 1]\n (no-such-thing x))"), "codriver/error")
    assert (within["line"], within["message"]) == (3, "unable to resolve symbol 'no-such-thing' in this context")
    (ran,) = texts(lisp.evaluate('(throw (ex-info "sad" {}))'), "codriver/error")
    assert (ran["phase"], ran["message"]) == ("execution", "sad")


def test_lisp_expands_completes_and_looks_up(lisp):
    (expansion,) = texts(lisp.ask("macroexpand", code="(when a b)"), "expansion")
    assert expansion.startswith("(if a")
    (found,) = texts(lisp.ask("completions", prefix="map-ind"), "completions")
    assert "map-indexed" in [item["candidate"] for item in found]
    (info,) = texts(lisp.ask("lookup", sym="map"), "info")
    assert (info["ns"], "doc" in info) == ("basilisp.core", True)


def test_lisp_keeps_its_last_values(lisp):
    lisp.evaluate("41")
    assert texts(lisp.evaluate("(inc *1)"), "value") == ["42"]
