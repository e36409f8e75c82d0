"""The REPL in a running program: its evaluations, streams and interrupts, and what it leaves alone."""

import subprocess
import sys

import pytest
from application import PROGRAM, SEAM, running
from needs import interpreter
from worker_client import NAMES, text, texts, wait_for_input_request, wait_for_output


@pytest.fixture(scope="module")
def process(tmp_path_factory):
    with running(tmp_path_factory.mktemp("program")) as program:
        yield program


@pytest.fixture
def program(process):
    with process.fresh_session() as repl:
        yield repl


def shared(repl, code):
    """Evaluate in the first session, which shares the program's names."""
    own, repl.session = repl.session, None
    try:
        return repl.evaluate(code)
    finally:
        repl.session = own


def test_an_evaluation_reads_and_changes_the_programs_objects(program):
    program.do("orders.append(7)")
    assert texts(program.evaluate("orders[-1], price(4), __import__('__main__').orders is orders"), "value") == [
        "(7, 8, True)"
    ]
    shared(program, "discount = 3")
    assert program.do("print(discount)") == ["3"]


def test_the_describe_op_names_the_process_and_the_program(program):
    (about,) = texts(program.ask("describe"), "codriver/app")
    assert about == {"pid": program.process.pid, "program": "shop.py", "name": "shop"}


def test_a_session_can_be_closed_and_the_repl_continues(program):
    (other,) = texts(program.ask("clone"), "new-session")
    own, program.session = program.session, other
    assert "session-closed" in program.ask("close")[-1]["status"]
    program.session = own
    assert texts(program.evaluate("price(1)"), "value") == ["2"]


def test_an_evaluation_captures_only_its_own_output(program):
    code = (
        "import sys, __main__\nprint('begun', flush=True)\n__main__.gate.wait()\n"
        "print('mine')\nprint('wrong', file=sys.stderr)\nsys.stdout.buffer.write(b'bytes')"
    )
    program.do("gate = threading.Event()")
    running_one = program.send("eval", code=code)
    assert wait_for_output(program, running_one)
    assert program.do("print('of the program'); gate.set()") == ["of the program"]
    answer = program.answer(running_one)
    assert (text(answer, "out"), text(answer, "err")) == ("begun\nmine\nbytes", "wrong\n")
    assert program.do("print('after')") == ["after"]


def test_input_is_requested_from_the_client_and_can_be_interrupted(program):
    reading = program.send("eval", code="input('how many? ')")
    assert wait_for_input_request(program, reading)
    program.ask("stdin", stdin="12\n")
    assert texts(program.answer(reading), "value") == ["'12'"]
    reading = program.send("eval", code="input()")
    assert wait_for_input_request(program, reading)
    program.ask("interrupt")
    assert "interrupted" in program.answer(reading)[-1]["status"]


def test_an_endless_loop_is_interrupted_and_the_program_continues(program):
    endless = program.send("eval", code="print('begun', flush=True)\nwhile True: pass")
    assert wait_for_output(program, endless)
    assert program.do("print(price(2))") == ["4"]
    assert "interrupted" not in program.ask("interrupt")[-1]["status"]
    assert "interrupted" in program.answer(endless)[-1]["status"]
    assert texts(program.evaluate("1 + 1"), "value") == ["2"]


def test_code_that_catches_an_interrupt_is_interrupted_again(program):
    code = "print('begun', flush=True)\ntry:\n    while True: pass\nexcept BaseException: pass\nwhile True: pass"
    stubborn = program.send("eval", code=code)
    assert wait_for_output(program, stubborn)
    program.ask("interrupt")
    assert "interrupted" in program.answer(stubborn)[-1]["status"]


def test_an_await_without_a_program_loop_can_be_interrupted(program):
    code = "import asyncio\nprint('begun', flush=True)\nawait asyncio.Event().wait()"
    waiting = program.send("eval", code=code)
    assert wait_for_output(program, waiting)
    assert not texts(program.ask("interrupt"), "codriver/note")
    assert "interrupted" in program.answer(waiting)[-1]["status"]
    assert texts(program.evaluate("await asyncio.sleep(0, 7)"), "value")[-1:] == ["7"]


# An interrupt may come before it blocks.
BLOCKS = """\
import __main__
while True:
    try:
        print('begun', flush=True)
        __main__.gate.wait()
        break
    except KeyboardInterrupt:
        pass
"""
EVALUATING = "[t.name for t in threading.enumerate()].count('codriver evaluations')"


def test_a_blocking_call_is_abandoned_and_reported(program):
    program.do("gate = threading.Event()")
    blocked = program.send("eval", code=BLOCKS)
    assert wait_for_output(program, blocked)
    (note,) = texts(program.ask("interrupt"), "codriver/note")
    answer = program.answer(blocked)
    assert "interrupted" in answer[-1]["status"]
    assert note in text(answer, "err")
    assert texts(program.evaluate("print('next')\n2 + 2"), "value")[-1] == "4"
    assert program.do(f"print({EVALUATING})") == ["2"]
    program.do("gate.set()")
    assert texts(program.evaluate(f"import threading\nwhile {EVALUATING} > 1: pass\n'it ended'"), "value")


def test_code_queued_behind_an_abandoned_call_runs(program):
    program.do("gate = threading.Event()")
    blocked = program.send("eval", code=BLOCKS)
    waiting = program.send("eval", code="'its turn'")
    assert wait_for_output(program, blocked)
    program.ask("interrupt", **{"interrupt-id": blocked})
    assert texts(program.answer(waiting), "value") == ["'its turn'"]
    program.do("gate.set()")


def test_an_error_is_reported_only_to_the_client(program):
    program.do("reported = []; sys.excepthook = lambda *error: reported.append(error)")
    (parts,) = texts(program.evaluate("def fail():\n    return price('a') / 1\nfail()"), "codriver/error")
    assert (parts["type"], parts["line"]) == ("TypeError", 2)
    assert all("codriver" not in line for line in parts["trace"])
    assert program.do("print(reported); sys.excepthook = before[3]") == ["[]"]


def test_stacks_include_the_program_and_the_evaluation(program):
    endless = program.send("eval", code="def busy():\n    print('begun', flush=True)\n    while True: pass\nbusy()")
    assert wait_for_output(program, endless)
    (stacks,) = texts(program.ask("codriver/stacks"), "stacks")
    assert "in busy" in stacks
    assert "shop.py" in stacks
    assert "codriver/repls/worker" not in stacks
    program.ask("interrupt")
    program.answer(endless)


def test_the_programs_own_file_is_loaded_in_place_without_restarting_it(program):
    source = PROGRAM.replace("n * 2", "n * 3")
    loaded = program.ask("load-file", **{"file": source, "file-path": str(program.file)})
    assert not texts(loaded, "ex"), texts(loaded, "err")
    assert program.do("print(price(2), __name__, 'shop' in sys.modules)") == ["6 __main__ False"]
    program.ask("load-file", **{"file": PROGRAM, "file-path": str(program.file)})


def test_edits_of_the_programs_own_file_are_reported_as_drift(program):
    program.file.write_text(PROGRAM.replace("n * 2", "n * 5"))
    (rows,) = texts(program.ask("codriver/drift", root=str(program.folder)), "rows")
    assert ("__main__", "price", "edited") in [(row["module"], row["name"], row["kind"]) for row in rows]
    program.file.write_text(PROGRAM)


def test_nothing_in_the_program_changes_before_the_first_evaluation(tmp_path):
    with running(tmp_path) as program:
        same = "(sys.stdout, sys.stderr, sys.stdin, sys.excepthook, threading.Thread.start, sys.meta_path) == before"
        assert program.do(f"print({same})") == ["True"]
        signals = "import signal; print(signal.getsignal(signal.SIGINT) is signal.default_int_handler)"
        assert program.do(signals) == ["True"]
        assert texts(program.evaluate("1"), "value") == ["1"]
        assert program.do(signals) == ["True"]
        assert program.do("print(threading.Thread.start is before[4], sys.meta_path == before[-1])") == ["True True"]
        assert program.do("print(sys.stdout.fileno(), sys.stdout.encoding == before[0].encoding)") == ["1 True"]
        program.do("repl.stop()")
        assert program.do("print((sys.stdout, sys.stderr, sys.stdin) == before[:3])") == ["True"]


REFUSED = f"""\
import sys, threading
sys.path.insert(0, {str(SEAM)!r})
seen = []
sys.addaudithook(lambda event, args: seen.append(event) if event.startswith(("socket.", "_thread.start")) else None)
import codriver_seam
assert codriver_seam.start_repl() is None
assert codriver_seam.start_repl(False) is None
assert not seen and threading.active_count() == 1, seen
assert not [name for name in sys.modules if "worker" in name]
"""


def test_an_endless_loop_is_interrupted_when_its_client_disconnects(tmp_path):
    with running(tmp_path) as program:
        program.do("orders.clear(); ended = threading.Event()")
        code = "import __main__\ntry:\n    print('begun', flush=True)\n    while True: pass\n"
        code += "finally: __main__.ended.set()"
        assert wait_for_output(program, program.send("eval", code=code))
        waiting = "orders.append('it waited its turn')"
        program.send("eval", code=waiting)
        program.socket.close()
        assert program.do("print(ended.wait(60))") == ["True"]
        program.connect()
        assert texts(program.evaluate("1 + 1"), "value") == ["2"]
        assert program.do("print(orders)") == ["[]"]


def test_a_stopped_repl_leaves_no_thread(tmp_path):
    with running(tmp_path) as program:
        assert texts(program.evaluate("1"), "value") == ["1"]
        program.do("repl.stop(); import time; since = time.monotonic()")
        program.do("while len(sys._current_frames()) > 1 and time.monotonic() < since + 60: time.sleep(0.01)")
        assert program.do("print(len(sys._current_frames()))") == ["1"]


def test_the_embedded_repl_does_not_start_unless_it_is_enabled(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", REFUSED], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "CODRIVER_SEAM=1" in done.stderr
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", [name for name in NAMES if name != f"python3.{sys.version_info.minor}"])
def test_the_repl_runs_on_every_installed_python(tmp_path, name):
    with running(tmp_path, python=interpreter(name)) as program:
        assert text(program.evaluate("print(price(4))"), "out") == "8\n"
        endless = program.send("eval", code="print('begun', flush=True)\nwhile True: pass")
        assert wait_for_output(program, endless)
        program.ask("interrupt")
        assert "interrupted" in program.answer(endless)[-1]["status"]
        assert texts(program.evaluate("import asyncio\nawait asyncio.sleep(0, 7)"), "value")[-1] == "7"
        assert program.do("print('still here')") == ["still here"]
        assert program.end() == 0
        assert not (tmp_path / ".nrepl-port").exists()


TRACED = PROGRAM.replace(
    "import codriver_seam\n",
    "import codriver_seam\nseen = set()\n"
    "def trace(frame, event, arg): seen.add(frame.f_code.co_filename)\n"
    "threading.settrace(trace)\n",
)


def test_profilers_and_tracers_of_the_program_exclude_the_repl(tmp_path):
    with running(tmp_path, TRACED) as program:
        assert texts(program.evaluate("__import__('__main__').price(4)"), "value") == ["8"]
        (seen,) = program.do("print([name for name in seen if not name.endswith('threading.py')])")
        assert seen == "['<codriver basics.connections>']", "each thread of the REPL ends its own trace first"
        names = "{code.co_filename for module in list(sys.modules.values()) if '_codriver_worker' in module.__name__ "
        names += "for value in vars(module).values() if (code := getattr(value, '__code__', None)) "
        names += "and value.__module__ == module.__name__}"
        (measured,) = program.do(
            f"names = {names}; print(len(names) > 9, [name for name in names if '/worker/' in name])"
        )
    assert measured == "True []"
