"""`codriver run`: an agent evaluates among the live objects of programs that were not edited."""

# mypy: disable-error-code="attr-defined"
# It is skipped on systems that lack some of these functions.

import json
import multiprocessing
import os
import platform
import pty
import shlex
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path

import needs
import pytest
from live_server import CODRIVER, environ, until
from needs import interpreter
from started_programs import ARBITER, SHOP, either_process_table, program, rows

import codriver_seam
from codriver.errors import StartError
from codriver.features.run.command import run_command
from codriver.features.run.doctor_checks import check_programs
from codriver.features.run.run_directory import create_run_directory
from codriver.files.codriver_paths import server_directory
from codriver.net import server_record

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="it reads /proc")

RELOADER = """\
import os, subprocess, sys
if os.environ.get("RUN_MAIN") != "true":
    while subprocess.call([sys.executable, *sys.argv], env={**os.environ, "RUN_MAIN": "true"}) == 7: pass
    sys.exit(0)
import threading
LIVES = [os.getpid()]
print("serves", os.getpid(), flush=True)
sys.stdin.read()
"""
SUPERVISOR = """\
import os, sys
def start():
    pid = os.fork()
    if not pid:
        print("serves", os.getpid(), flush=True)
        sys.stdin.read()
        os._exit(0)
    return pid
workers = {start(), start()}
while True:
    pid, status = os.wait()
    workers.remove(pid)
    if not status: break
    workers.add(start())
"""
FAILING = """\
import os, subprocess, sys
if os.environ.get("RUN_MAIN") == "true":
    if os.path.exists(sys.argv[1]):
        raise ValueError("the shelf is missing")
    print("serves", os.getpid(), flush=True)
    while os.read(0, 1): pass
environ = {**os.environ, "RUN_MAIN": "true"}
while True:
    with subprocess.Popen([sys.executable, *sys.argv], env=environ, stdin=subprocess.PIPE) as child:
        child.wait()
    print("ended", child.pid, flush=True)
    if not sys.stdin.readline(): break
"""
NEW_FILE = {"type": "create", "filePath": "new.py", "content": "A = 1\n", "overwrite": True}
CHOOSING = {
    "evaluate_code": {"code": "ORDERS"},
    "load_file": {"filePath": "shop.py"},
    "edit_files": {"edits": [NEW_FILE], "load": True},
    "run_tests": {},
    "symbol_info": {"symbol": "ORDERS"},
    "complete_symbol": {"prefix": "ORD"},
    "what_changed": {},
    "try_code": {"candidates": [{"label": "one", "edits": [NEW_FILE]}, {"label": "two", "edits": [NEW_FILE]}]},
    "inspect_app": {"what": "state"},
}
"""Calls that choose a session if they name none."""


def wait_until_forgotten(client, name):
    """Wait until the sessions of an earlier program of this name are gone. Its workers outlive it for a moment."""
    until(lambda: not rows(client, name), f"the earlier {name} to be forgotten")


@either_process_table
def test_a_waiting_program_loads_nothing_and_exposes_live_objects_when_used(live, client):
    with program(live, SHOP) as shop:
        assert shop.first == ["starts", str(shop.process.pid)], "the process is the one that was started"
        (row,) = rows(client, "shop")
        assert (row["phase"], row["processId"], row["role"]) == ("ready", shop.process.pid, "serves")
        status = live.run("status").stdout
        assert any("REPL shop (" in line and "ready" in line for line in status.splitlines()), status
        assert shop.threads == 1
        assert shop.descriptors == {"pipe"}
        shop.do("ORDERS.append(7)")
        answer = client.call(
            "evaluate_code", code="import __main__; __main__.ORDERS.append(8); ORDERS", replSessionKey="shop"
        )
        assert answer["result"] == "[7, 8]"
        assert shop.do("print(ORDERS)") == ["[7, 8]"]
        (row,) = rows(client, "shop")
        assert (row["phase"], row["generation"]) == ("connected", 1)
        assert shop.end() == 3, "the exit status is the program's"
        until(lambda: not rows(client, "shop"), "the ended program to be forgotten")


def test_variables_of_an_interactive_prompt_are_shared(live, client):
    """The main thread of the program waits in the C function that reads a line from the terminal."""
    pid, terminal = pty.fork()
    if not pid:
        os.chdir(live.workspace)
        os.execvpe(CODRIVER[0], [*live.run_command("--name", "prompt"), sys.executable], live.environ)
    try:
        until(lambda: b">>>" in os.read(terminal, 4096), "the prompt")
        os.write(terminal, b"orders = [1, 2]\n")
        until(lambda: [row["phase"] for row in rows(client, "prompt")] == ["ready"], "the program to be listed")
        code = "import __main__, time\nwhile not hasattr(__main__, 'orders'): time.sleep(0.1)\norders"
        answer = client.call("evaluate_code", code=code, replSessionKey="prompt")
        assert answer.get("result") == "[1, 2]", answer
    finally:
        os.write(terminal, b"exit()\n")
        os.close(terminal)
        os.waitpid(pid, 0)


@either_process_table
def test_the_name_selects_the_serving_process_and_its_successor_after_a_restart(live, client):
    with program(live, RELOADER, "reloads.py") as reloads:
        first = int(reloads.first[1])
        assert first != reloads.process.pid
        answer = client.call("evaluate_code", code="import os; os.getpid(), LIVES", replSessionKey="reloads")
        assert answer["result"] == f"({first}, [{first}])"
        (row,) = [row for row in rows(client, "reloads") if row["processId"] == reloads.process.pid]
        assert row["role"] == "supervises"
        client.call("evaluate_code", code="os._exit(7)", replSessionKey="reloads")
        second = int(reloads.process.stdout.readline().split()[1])

        def is_back():
            found = rows(client, "reloads")[0]
            return (found["phase"], found.get("processId"), found["generation"]) == ("connected", second, 2)

        until(is_back, "the session of the next process")
        answer = client.call("evaluate_code", code="LIVES", replSessionKey="reloads")
        assert answer["result"] == f"[{second}]"
        assert client.call("evaluate_code", code="1", replSessionKey=str(reloads.process.pid))["result"] == "1"


TEST_ENVIRONMENT = """\
import os, sys
def test_environment():
    price = 2
    found = {name: os.environ.get(name) for name in ("RUN_MAIN", "CODRIVER_RUN", "PYTHONPATH", "GIVEN")}
    assert found == {"RUN_MAIN": None, "CODRIVER_RUN": None, "PYTHONPATH": "more", "GIVEN": "by the user"}
    assert "codriver_program" not in sys.modules
    assert price == 3
"""


def test_tests_run_with_the_interpreter_and_the_initial_variables_of_a_program(live, client):
    (live.workspace / "test_environment.py").write_text(TEST_ENVIRONMENT)
    given = {"GIVEN": "by the user", "PYTHONPATH": "more"}
    with program(live, RELOADER, "reloads.py", environ=given) as reloads:
        session = {"replSessionKey": "reloads"}
        assert client.call("evaluate_code", code="LIVES", **session)["result"] == f"[{reloads.first[1]}]"
        answer = client.call(
            "run_tests", paths=["test_environment.py"], args=["-x", "-p", "no:cacheprovider"], **session
        )
        assert answer["failed"] == 1, answer
        (failure,) = answer["results"]
        assert "assert 2 == 3" in failure["message"], answer


RELOADED_STOCK = """\
import os
A = 2
MARK = os.path.join(os.path.dirname(__file__), "restarted")
if not os.path.exists(MARK):
    open(MARK, "w").close()
    os._exit(7)
"""
"""A module whose first run ends the process, as a reloader does when it notices the edit during the load."""


def test_an_edit_whose_load_is_cut_off_by_a_reloader_needs_nothing_else(live, client):
    stock, price = live.workspace / "stock.py", live.workspace / "price.py"
    stock.write_text("A = 1\n")
    price.write_text("B = 1\n")
    with program(live, RELOADER.replace("import threading", "import stock, price"), "reloads_on_edit.py") as reloads:
        key = "reloads_on_edit"
        assert client.call("evaluate_code", code="stock.A, price.B", replSessionKey=key)["result"] == "(1, 1)"
        created = {"type": "create", "overwrite": True}
        edits = [
            {**created, "filePath": "stock.py", "content": RELOADED_STOCK},
            {
                **created,
                "filePath": "price.py",
                "content": "B = 2  # longer, so no old bytecode is used\n",
            },
        ]
        answer = client.call("edit_files", edits=edits, load=True, replSessionKey=key)
        assert answer["ok"], answer
        for row in answer["files"]:
            assert "restarted the program (generation 2)" in row["notLoaded"]
            assert "nothing else is needed" in row["notLoaded"]
        assert reloads.process.stdout.readline().startswith("serves")
        assert client.call("evaluate_code", code="stock.A, price.B", replSessionKey=key)["result"] == "(2, 2)"


@either_process_table
@pytest.mark.parametrize("server", ["gunicorn", "celery"])
def test_a_worker_that_replaces_a_killed_one_gets_its_name(live, client, server):
    with program(live, SUPERVISOR, f"{server}.py") as supervisor:
        supervisor.process.stdout.readline()
        keys = (f"{server}/1", f"{server}/2")

        def workers():
            return {row["key"]: row["processId"] for row in rows(client, server) if row.get("role") != "supervises"}

        until(lambda: sorted(workers()) == sorted(keys), "both workers")
        answers = [client.call("evaluate_code", code="import os; os.getpid()", replSessionKey=key) for key in keys]
        assert [int(answer["result"]) for answer in answers] == [workers()[key] for key in keys]
        for key, name in zip(keys[::-1], (keys[1], server), strict=True):
            before = workers()
            os.kill(before[key], signal.SIGKILL)
            supervisor.process.stdout.readline()

            def is_replaced(key=key, killed=before[key]):
                (row,) = [row for row in rows(client, server) if row["key"] == key]
                return (row["phase"], row.get("generation")) == ("connected", 2) and row["processId"] != killed

            until(is_replaced, "the worker that replaces the killed one")
            answer = client.call("evaluate_code", code="import os; os.getpid()", replSessionKey=name)
            assert int(answer["result"]) == workers()[key]
            assert {**before, key: workers()[key]} == workers(), "the other worker keeps its name"


@either_process_table
def test_new_workers_get_the_names_of_those_that_they_replace(live, client):
    """gunicorn starts new workers before it ends the old ones, when it receives SIGHUP."""
    wait_until_forgotten(client, "gunicorn")
    with program(live, ARBITER, "gunicorn.py") as arbiter:
        keys = ("gunicorn/1", "gunicorn/2")
        before = [client.call("evaluate_code", code="import os; os.getpid()", replSessionKey=key) for key in keys]
        arbiter.do("old, workers = workers, [start(), start()]")
        assert {f"gunicorn/{number}" for number in range(1, 5)} < {row["key"] for row in rows(client, "gunicorn")}
        (new,) = arbiter.do("end(*old); print(*workers)")

        def are_replaced():
            found = {row["key"]: row for row in rows(client, "gunicorn") if row.get("role") != "supervises"}
            states = [(found[key]["phase"], found[key].get("generation")) for key in keys]
            return set(found) == set(keys) and states == [("connected", 2)] * 2

        until(are_replaced, "the new workers")
        after = [client.call("evaluate_code", code="os.getpid()", replSessionKey=key) for key in keys]
        assert [answer["ok"] for answer in before] == [True, True]
        assert [answer["result"] for answer in after] == new.split()


@either_process_table
def test_a_worker_that_is_not_replaced_is_forgotten_and_another_gets_the_plain_name(live, client):
    """gunicorn ends and starts a worker when it receives SIGTTOU and SIGTTIN."""
    wait_until_forgotten(client, "gunicorn")
    with program(live, ARBITER, "gunicorn.py") as arbiter:
        for key in ("gunicorn/1", "gunicorn/2"):
            assert client.call("evaluate_code", code="import os", replSessionKey=key)["ok"]
        (left,) = arbiter.do("end(workers.pop(0)); print(*workers)")
        until(
            lambda: "gunicorn/1" not in {row["key"] for row in rows(client, "gunicorn")}, "the worker to be forgotten"
        )
        refused = client.call("evaluate_code", code="1", replSessionKey="gunicorn/1")
        assert refused["reason"] == "repl-unreachable"
        assert "has not started another" in refused["message"]
        for key in ("gunicorn", "gunicorn/2"):
            assert client.call("evaluate_code", code="os.getpid()", replSessionKey=key)["result"] == left
        (both,) = arbiter.do("workers.append(start()); print(*workers)")
        answer = client.call("evaluate_code", code="import os; os.getpid()", replSessionKey="gunicorn/1")
        assert (answer["result"], answer["generation"]) == (both.split()[1], 2)


@either_process_table
def test_a_process_that_fails_to_start_is_reported_with_its_final_output(live, client):
    broken = live.workspace / "broken"
    command = (sys.executable, str(live.workspace / "fails.py"), str(broken))
    with program(live, FAILING, "fails.py", command=command) as fails:
        (line, pid), output = fails.first, fails.process.stdout
        assert client.call("evaluate_code", code="import os; os.getpid()", replSessionKey="fails")["result"] == pid
        broken.touch()
        client.call("evaluate_code", code="os._exit(7)", replSessionKey="fails")
        assert output.readline().split() == ["ended", pid]
        fails.process.stdin.write("\n")
        fails.process.stdin.flush()
        _, failed = output.readline().split()
        row = until(
            lambda: next((row for row in rows(client, "fails") if "shelf" in row.get("note", "")), None), "the report"
        )
        assert (line, row["key"], row["phase"]) == ("serves", "fails", "waiting")
        assert f"process {failed}" in row["note"]
        assert row["note"].endswith("ValueError: the shelf is missing")
        refused = client.call("evaluate_code", code="1", replSessionKey="fails")
        assert refused["reason"] == "repl-unreachable"
        assert refused["message"] == row["note"]
        broken.unlink()
        fails.process.stdin.write("\n")
        fails.process.stdin.flush()
        _, third = output.readline().split()
        until(lambda: rows(client, "fails")[0]["phase"] == "connected", "the session of the next process")
        answer = client.call("evaluate_code", code="import os; os.getpid()", replSessionKey="fails")
        assert (answer["result"], answer["generation"]) == (third, 2)


@either_process_table
def test_a_program_that_has_ended_is_reported_with_its_final_output(live, client):
    with program(live, SHOP, "falls.py") as falls:
        assert client.call("evaluate_code", code="ORDERS", replSessionKey="falls")["ok"]
        falls.process.stdin.write("raise ValueError('the shelf is missing')\n")
        assert falls.end() == 1
        until(lambda: not rows(client, "falls"), "the program to be forgotten")
        refused = client.call("evaluate_code", code="1", replSessionKey="falls")
        assert refused["reason"] == "repl-unreachable"
        assert refused["message"].endswith("ValueError: the shelf is missing")
        assert str(falls.file) in refused["message"]


def test_error_output_is_passed_on_unchanged_and_stored_only_for_a_program_in_use(live, client):
    text = SHOP.replace("import os,", "import atexit, warnings, os,")
    with program(live, text, "prints.py") as prints:
        directory = Path(prints.do("print(os.environ['CODRIVER_RUN'])")[0], "final-output")
        # Python 3.12 and later warn of a fork in a process with several threads.
        prints.do("warnings.simplefilter('ignore', DeprecationWarning)")
        prints.do("print('before', file=sys.stderr); atexit.register(print, 'after', file=sys.stderr)")
        assert not directory.exists()
        pid = prints.do(
            "pid = os.fork() or (sys.stderr.write('child ') and sys.exit()); os.waitpid(pid, 0); print(pid)"
        )
        assert client.call("evaluate_code", code="ORDERS", replSessionKey="prints")["ok"]
        assert [*directory.iterdir()] == []
        fork = "pid = os.fork() or (sys.stderr.write('other ') and sys.exit()); os.waitpid(pid, 0); print(pid)"
        (other,) = prints.do(fork)
        assert {path.name: path.read_text() for path in directory.iterdir()} == {other: "other after\n"}
        prints.process.stdin.close()
        assert prints.process.stderr.read() == "before\nchild after\nother after\nafter\n", pid


@either_process_table
def test_the_repl_is_compiled_for_the_programs_python_before_it_is_used(live, client):
    with program(live, SHOP):
        (worker,) = Path(live.environ["XDG_CACHE_HOME"]).glob("codriver/run/*/codriver_program/worker")
        names = {file.relative_to(worker).with_suffix("") for file in worker.rglob("*.py")}
        tag = f".{sys.implementation.cache_tag}.codriver"

        def compiled():
            return {
                file.parents[1].relative_to(worker) / file.name.removesuffix(tag) for file in worker.rglob(f"*{tag}")
            }

        until(lambda: compiled() == names, "all modules to be compiled")
        code = "import sys; sys.modules['_codriver_worker.serving.embedded'].EmbeddedRepl.run.__code__.co_filename"
        answer = client.call("evaluate_code", code=code, replSessionKey="shop")
        assert answer["result"] == "'<codriver serving.embedded>'"
        path = client.call("evaluate_code", code="sys.modules['_codriver_worker'].__path__", replSessionKey="shop")
        assert path["result"] == repr([str(worker)]), "it is loaded only from the copy"


def test_code_is_evaluated_in_a_program_whose_debugger_patches_thread_creation(live, client):
    text = SHOP.replace(
        "ORDERS = []",
        "import _thread\nstart = _thread.start_new_thread\n_thread.start_new_thread = lambda *of: start(*of)",
    )
    with program(live, text, "debugged.py"):
        assert client.call("evaluate_code", code="6 * 7", replSessionKey="debugged").get("result") == "42"


@either_process_table
def test_no_repl_is_started_in_a_program_while_it_imports_a_standard_library_module(live, client):
    text = SHOP.replace(", threading", "").replace(
        "ORDERS = []",
        "from importlib.machinery import ModuleSpec\nimport types\n"
        "late = sys.modules['late'] = types.ModuleType('late')\n"
        "late.__spec__ = ModuleSpec('late', None, origin=os.path.join(os.path.dirname(os.__file__), 'late.py'))\n"
        "late.__spec__._initializing = True",
    )
    with program(live, text, "starting.py") as starting:
        call = client.begin_call("evaluate_code", code="6 * 7", replSessionKey="starting")
        (runs,) = Path(live.environ["XDG_STATE_HOME"]).glob("codriver/workspaces/*/programs")
        (request,) = until(lambda: [*runs.glob(f"{starting.process.pid}-*/*.request")], "the request")
        os.kill(starting.process.pid, signal.SIGURG)
        until(lambda: request.stat().st_mtime, "the sign that the program is importing")
        assert starting.do("print('threading' in sys.modules)") == ["False"]
        assert starting.threads == 1
        starting.do("late.__spec__._initializing = False")
        assert json.loads(client.answer(call)["result"]["content"][0]["text"])["result"] == "42"


def test_a_lazy_module_is_not_imported_by_a_request(live, client):
    text = SHOP.replace(
        "ORDERS = []",
        "import types\nclass Lazy(types.ModuleType):\n"
        "    def __getattribute__(self, name): SEEN.append(name); raise ImportError(name)\n"
        "SEEN = []\nsys.modules['lazy'] = Lazy('lazy')",
    )
    with program(live, text, "lazily.py") as lazily:
        (runs,) = Path(live.environ["XDG_STATE_HOME"]).glob("codriver/workspaces/*/programs")
        (directory,) = runs.glob(f"{lazily.process.pid}-*")
        (directory / f"{lazily.process.pid}.request").touch()
        os.kill(lazily.process.pid, signal.SIGURG)
        assert lazily.do("print(SEEN)") == ["[]"]


def test_a_program_that_cannot_open_more_files_continues_without_a_repl(live, client):
    text = SHOP.replace(", threading", "").replace(
        "ORDERS = []", "import resource\nresource.setrlimit(resource.RLIMIT_NOFILE, (3, 3))"
    )
    with program(live, text, "full.py") as full:
        answer = client.call("evaluate_code", code="1", replSessionKey="full")
        assert (answer["reason"], "run out of open files" in answer["message"]) == ("repl-unreachable", True), answer
        assert full.do("print('continues')") == ["continues"]
        assert full.end() == 3


def test_the_connection_never_becomes_a_standard_stream_of_a_program_that_closed_its_streams(live, client):
    release = live.workspace / "release"
    text = SHOP.partition("for line")[0] + (
        "def streams():\n"
        "    return [os.path.exists(f'/proc/self/fd/{number}') for number in range(3)]\n"
        f"os.closerange(0, 100)\nwhile not os.path.exists({str(release)!r}): time.sleep(0.01)\nsys.exit(3)\n"
    )
    with program(live, text, "closes.py") as closes:
        code = "import __main__; __main__.streams()"
        assert client.call("evaluate_code", code=code, replSessionKey="closes").get("result") == "[False, False, False]"
        release.touch()
        assert closes.process.wait(60) == 3


def test_code_is_evaluated_in_a_program_whose_current_directory_was_removed(live, client):
    code = "sys.path[:0] = ['']; os.mkdir('removed'); os.chdir('removed'); os.rmdir('../removed')"
    text = SHOP.replace("ORDERS = []", code)
    with program(live, text, "moves.py", cwd=live.workspace) as moves:
        assert client.call("evaluate_code", code="6 * 7", replSessionKey="moves").get("result") == "42"
        assert moves.end() == 3


def test_a_program_that_replaces_functions_of_the_standard_library_is_refused_with_the_error(live, client):
    text = SHOP.replace(
        "ORDERS = []", "def fails(*_): raise OSError('replaced')\nos.stat = os.lstat = os.rename = fails"
    )
    with program(live, text, "replaces.py") as replaces:
        answer = client.call("evaluate_code", code="1", replSessionKey="replaces")
        assert (answer["reason"], "OSError: replaced" in answer["message"]) == ("repl-unreachable", True), answer
        assert replaces.do("print('continues')") == ["continues"]


def test_the_threads_of_the_repl_are_not_profiled_or_traced(live, client):
    text = SHOP.replace(
        "ORDERS = []",
        "SEEN = set()\ndef see(frame, *_):\n"
        "    if 'codriver' in frame.f_code.co_filename: SEEN.add(frame.f_code.co_name)\n"
        "threading.setprofile(see); threading.settrace(see)",
    )
    with program(live, text, "profiled.py") as profiled:
        assert client.call("evaluate_code", code="6 * 7", replSessionKey="profiled").get("result") == "42"
        assert profiled.do("print(sorted(SEEN - {'_run_untraced'}))") == ["[]"]


def test_coverage_is_the_same_with_and_without_a_repl(live, client, tmp_path):
    needs.modules("coverage")
    data, file = f"--data-file={tmp_path / 'data'}", live.workspace / "covered.py"
    reports = []
    for is_attached in (False, True):
        command = (sys.executable, "-m", "coverage", "run", data, str(file))
        with program(live, SHOP, "covered.py", command=command) as covered:
            if is_attached:
                answer = client.call("evaluate_code", code="6 * 7", replSessionKey="covered")
                assert answer.get("result") == "42", answer
            assert covered.end() == 3
        words = [sys.executable, "-m", "coverage", "report", data]
        reports.append(subprocess.run(words, capture_output=True, text=True, check=True).stdout)
    assert reports[0] == reports[1]


def test_a_program_whose_main_thread_has_ended_is_refused_with_the_reason(live, client):
    """From Python 3.12 on, no thread can be started while the main thread waits for others to end."""
    text = "import sys, threading\nprint('starts', flush=True)\nthreading.Thread(target=sys.stdin.read).start()\n"
    file = live.workspace / "tails.py"
    with program(live, text, "tails.py", command=(interpreter("python3.12"), str(file))) as tails:
        wait = Path(f"/proc/{tails.process.pid}/task")
        until(lambda: len([*wait.iterdir()]) == 2 and "futex" in (wait.parent / "wchan").read_text(), "its last wait")
        answer = client.call("evaluate_code", code="1", replSessionKey="tails")
        assert (answer["reason"], "interpreter shutdown" in answer["message"]) == ("repl-unreachable", True), answer
        assert tails.end() == 0


@either_process_table
def test_the_program_keeps_its_own_signal_handlers(live, client):
    own = SHOP.replace(
        "ORDERS = []", "import signal\nSEEN = []\nsignal.signal(signal.SIGURG, lambda *_: SEEN.append(1))"
    )
    with program(live, SHOP) as shop:
        os.kill(shop.process.pid, signal.SIGURG)
        assert shop.do("print(threading.active_count())") == ["1"], "a stray signal starts nothing"
        assert client.call("evaluate_code", code="6 * 7", replSessionKey="shop")["result"] == "42"
        shop.process.send_signal(signal.SIGINT)
        assert shop.process.wait(60) == -signal.SIGINT
    with program(live, own, "own.py") as busy:
        answer = client.call("evaluate_code", code="1", replSessionKey="own")
        assert answer["reason"] == "repl-unreachable"
        assert "handler for SIGURG" in answer["message"]
        assert busy.do("print(len(SEEN) > 0)") == ["True"]


@either_process_table
def test_processes_that_cannot_have_a_repl_are_listed_with_a_reason(live, client):
    isolated = (sys.executable, "-I", str(live.workspace / "isolated.py"))
    with program(live, SHOP, "isolated.py", command=isolated) as alone:
        (row,) = rows(client, "isolated")
        assert (row["phase"], row["processId"]) == ("no REPL", alone.process.pid)
        assert "-I" in row["note"]
        answer = client.call("evaluate_code", code="1", replSessionKey=row["key"])
        assert (answer["reason"], "-I" in answer["message"]) == ("repl-unreachable", True)
        answer = client.call("evaluate_code", code="1", replSessionKey="isolated")
        assert (answer["reason"], "-I" in answer["message"]) == ("repl-unreachable", True), "also by its name"


def test_a_call_without_a_session_is_refused_with_the_names_of_all_running_programs(live):
    with live.client(name="opencode") as caller, program(live, SHOP):
        assert caller.call("evaluate_code", code="ORDERS", who="first")["result"] == "[]"
        with program(live, SHOP, file="bank.py"):
            for tool, arguments in CHOOSING.items():
                refused = caller.call(tool, who="second", **arguments)
                assert (refused["reason"], refused["sessions"]) == ("ambiguous-session", ["bank", "shop"]), refused
            assert not (live.workspace / "new.py").exists()
            assert caller.call("edit_files", edits=[NEW_FILE], who="second")["ok"], "an edit alone needs no session"
            assert caller.call("evaluate_code", code="ORDERS", who="first")["ok"], (
                "it goes on with the one that it used"
            )
            assert caller.call("evaluate_code", code="ORDERS", replSessionKey="bank", who="second")["ok"]
            assert caller.call("evaluate_code", code="'bank' in str(__file__)", who="second")["result"] == "True"


def test_a_caller_of_another_repl_receives_one_note_about_a_program_that_was_started_later(live):
    with live.client(name="opencode") as caller:
        assert "notes" not in caller.call("evaluate_code", code="1 + 1", replSessionKey="py", detail=False)
        with program(live, SHOP):
            evaluate = partial(caller.call, "evaluate_code", code="object() and 'ORDERS' in globals()", detail=False)
            note = "this ran in py, not in the running program shop. To use the program, pass replSessionKey shop"
            answers = [{}]
            until(lambda: answers.append(evaluate()) or note in answers[-1].get("notes", []), "the note")
            assert answers[-1]["result"] == "False"
            assert note not in evaluate().get("notes", [])


@pytest.mark.parametrize("replSessionKey", ["shop", None])
def test_an_edit_is_loaded_into_a_program_that_is_not_connected_yet(live, replSessionKey):  # noqa: N803  # an argument
    named = {"replSessionKey": replSessionKey} if replSessionKey else {}
    with live.client(name="opencode") as caller, program(live, SHOP):
        (live.workspace / "new.py").unlink(missing_ok=True)
        edit = {**NEW_FILE, "content": "import __main__\n__main__.ORDERS.append(5)\n"}
        answer = caller.call("edit_files", edits=[edit], load=True, **named)
        assert answer["ok"], answer
        loaded = caller.call("evaluate_code", code="ORDERS", replSessionKey="shop")
        assert loaded.get("result") == "[5]", (loaded, answer)


@either_process_table
def test_a_program_started_again_immediately_gets_the_same_key(live, client):
    """The server may not have noticed yet that the previous process has ended."""
    for _ in range(4):
        with program(live, SHOP) as shop:
            answer = client.call("evaluate_code", code="import os; os.getpid()", replSessionKey="shop")
            assert answer.get("result") == str(shop.process.pid), answer


def test_a_program_with_several_workers_counts_as_one_application(live):
    with live.client(name="opencode") as caller, program(live, ARBITER, "gunicorn.py"):
        until(lambda: len(rows(caller, "gunicorn/")) == 2, "both workers")
        first = caller.call("evaluate_code", code="import os; os.getpid()", who="third")
        named = caller.call("evaluate_code", code="os.getpid()", replSessionKey="gunicorn/1", who="third")
        assert (first["ok"], first["result"]) == (True, named["result"]), first


def test_a_run_can_be_named_and_the_log_has_the_callers_of_its_evaluations(live, client):
    with program(live, SHOP, options=("--name", "store")):
        assert client.call("evaluate_code", code="'tea and cake'", replSessionKey="store", who="ann")["ok"]
        assert [row["key"] for row in rows(client, "s")] == ["store"]
        entries = client.call("repl_output_log", by="ann", who="reader")["result"]
        assert [(row["category"], row["text"]) for row in entries if "cake" in row["text"]] == [
            ("evaluatedCode", "'tea and cake'"),
            ("evaluationResults", "'tea and cake'"),
        ]


@either_process_table
def test_runs_with_the_same_name_are_numbered_and_directories_of_killed_runs_are_removed(live, client):
    with program(live, SHOP), program(live, SHOP) as second:
        assert {row["key"] for row in rows(client, "shop")} == {"shop", "shop-2"}
        second.process.send_signal(signal.SIGKILL)
        second.process.wait(60)
        until(lambda: {row["key"] for row in rows(client, "shop")} == {"shop"}, "the killed run to be gone")
        (runs,) = Path(live.environ["XDG_STATE_HOME"]).glob("codriver/workspaces/*/programs")
        until(lambda: len([*runs.iterdir()]) == 1, "its directory to be removed")


def test_the_doctor_lists_running_programs_with_their_sessions(live, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", live.environ["XDG_STATE_HOME"])
    with program(live, SHOP) as shop:
        shop.do("pass")
        (check,) = check_programs(live.workspace)
        assert check.text == f"{sys.executable} {shop.file} is running; its sessions: shop"


def test_runs_that_start_at_the_same_time_get_different_names(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    forking = multiprocessing.get_context("fork")
    start, end, names = forking.Barrier(8), forking.Event(), forking.Queue()

    def run():
        start.wait(60)
        names.put(create_run_directory(tmp_path, ["shop"], "shop").name)
        end.wait(60)

    processes = [forking.Process(target=run) for _ in range(8)]
    for process in processes:
        process.start()
    found = [names.get(timeout=60) for _ in processes]
    end.set()
    for item in processes:
        item.join(60)
    assert sorted(found) == sorted(["shop", *(f"shop-{number}" for number in range(2, 9))])


def test_a_run_reports_no_failure_if_somebody_else_has_just_started_the_server(live):
    code = "import sys; from pathlib import Path; from codriver.features.run import command; "
    code += "command._run_server_starter(Path(sys.argv[1]), 1, 1)"
    words = [sys.executable, "-c", code, str(live.workspace)]
    done = subprocess.run(words, capture_output=True, text=True, env=live.environ, check=True)
    assert (done.stdout, done.stderr) == ("", "")


def test_stopping_also_stops_a_server_that_a_run_is_still_starting(tmp_path):
    workspace, fifo = tmp_path / "workspace", tmp_path / "fifo"
    workspace.mkdir()
    os.mkfifo(fifo)
    slow = f"import os, codriver.__main__ as program; open({str(tmp_path / 'pid')!r}, 'w').write(str(os.getpid())); "
    slow += f"open({str(fifo)!r}).read(); program.main()"
    settings = {
        "CODRIVER_MCP_SOCKET_SERVER_PORT": "0",
        "CODRIVER_SERVER_COMMAND": shlex.join([sys.executable, "-c", slow]),
    }
    env = environ(tmp_path) | settings
    words = [*CODRIVER, "run", "-w", str(workspace), "--", sys.executable, "-c", "print('runs')"]
    done = subprocess.run(words, capture_output=True, text=True, env=env, check=True)
    assert (done.stdout, done.stderr) == ("runs\n", ""), "its output ends with it, although the server still starts"
    stopped = subprocess.run(
        [*CODRIVER, "stop", "-w", str(workspace)], capture_output=True, text=True, env=env, check=True
    )
    assert stopped.stdout == "stopped a server that was still starting\n"
    starting = Path("/proc", until(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text(), "its pid"))
    fifo.write_text("")
    until(lambda: not starting.exists(), "the start to end")
    assert server_record.is_claimed(server_directory(workspace)) is False

    def stop():
        return subprocess.run(words, capture_output=True, text=True, env=env, check=True).stdout

    words = [*CODRIVER, "stop", "-w", str(workspace)]
    until(lambda: stop() == "no server is running for this workspace\n", "the start to be forgotten")


@either_process_table
def test_a_program_started_by_codriver_run_is_not_reported_as_lacking_a_repl(live, client):
    text = (
        f"import os, socket, sys; os.chdir({str(live.workspace)!r}); listener = socket.create_server(('127.0.0.1', 0));"
        "print(listener.getsockname()[1], flush=True); sys.stdin.read()"
    )
    with program(live, text, file="listens.py") as running:
        port = int(running.first[0])
        for phase in ("ready", "connected"):
            assert [(row["phase"], row.get("port")) for row in rows(client, "listens")] == [(phase, port)]
            assert client.call("evaluate_code", code="1", replSessionKey="listens")["ok"]
        assert f"127.0.0.1:{port}" not in str(client.call("server_health"))


def test_a_program_is_listed_with_the_applications_in_it(live, client):
    needs.modules("starlette")
    text = SHOP.replace(
        "ORDERS = []",
        "import types\nfrom starlette.applications import Starlette\napp = Starlette()\n"
        "class Factory:\n    def __init__(self): self.made = Starlette()\nfactory = Factory()\n"
        "sys.modules['django.conf'] = types.ModuleType('django.conf')\n"
        "os.environ['DJANGO_SETTINGS_MODULE'] = 'shop.settings'",
    )
    with program(live, text, "serves.py"):
        assert client.call("evaluate_code", code="1", replSessionKey="serves")["ok"]
        (row,) = rows(client, "serves")
        assert row["applications"] == [
            "Starlette __main__.app",
            "Starlette, a starlette.applications.Starlette that is not a module's variable",
            "Django settings shop.settings",
        ]


def test_calls_of_a_function_in_a_program_are_watched(live, client):
    text = SHOP.replace("ORDERS = []", "def total(prices): return sum(prices)")
    command = (interpreter("python3.12"), str(live.workspace / "sums.py"))
    with program(live, text, "sums.py", command=command) as sums:
        watched = client.call(
            "watch_calls", function="__main__.total", condition="len(prices) > 1", limit=1, replSessionKey="sums"
        )
        assert watched["ok"], watched
        sums.do("total([1]); total([2, 3])")
        waited = client.call("wait_for", query=watched["query"], since=watched["since"], timeoutMs=20_000)
        assert "total(prices=[2, 3]) returned 5 in " in str(waited["result"])


@either_process_table
def test_each_worker_is_listed_with_the_port_that_its_supervisor_opened(live, client):
    text = ARBITER.replace("workers = ", "import socket; listener = socket.create_server(('127.0.0.1', 0))\nworkers = ")
    with program(live, text, "gunicorn.py") as arbiter:
        (port,) = arbiter.do("print(listener.getsockname()[1])")
        client.call("evaluate_code", code="1", replSessionKey="gunicorn/1")
        ports = {row["key"]: row.get("port") for row in rows(client, "gunicorn")}
        supervisor = f"gunicorn:{arbiter.process.pid}"
        assert ports == {"gunicorn/1": int(port), "gunicorn/2": int(port), supervisor: None}


def test_a_program_runs_even_if_its_server_cannot_be_started(tmp_path):
    env = environ(tmp_path) | {"CODRIVER_SERVER_COMMAND": "sh -c 'echo it is broken >&2; exit 1'"}
    (tmp_path / "workspace").mkdir()
    words = [*CODRIVER, "run", "-w", str(tmp_path / "workspace"), "--", "cat"]
    with subprocess.Popen(
        words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env
    ) as running:
        line = running.stderr.readline()
        output, rest = running.communicate("still running\n")
    assert "the program is running, but no server could be started: " in line
    assert (output, rest, running.returncode) == ("still running\n", "", 0)


def test_codriver_run_is_refused_on_unsupported_systems_with_an_alternative(monkeypatch):
    monkeypatch.setattr(platform, "system", lambda: "Windows")
    with pytest.raises(StartError, match=r"works only on Linux and macOS. .* call `codriver_seam.start_repl\(True\)`"):
        run_command.main(["--", "python"], standalone_mode=False)


def test_a_missing_command_has_the_exit_status_of_a_shell(live):
    words = [*CODRIVER, "run", "-w", str(live.workspace), "--", "no-such-program-here"]
    done = subprocess.run(words, capture_output=True, text=True, env=live.environ, check=False)
    assert (done.returncode, done.stdout) == (127, "")
    assert "no-such-program-here: No such file or directory" in done.stderr


def test_start_repl_in_a_program_started_by_codriver_run_returns_its_existing_repl(live, client):
    seam = str(Path(codriver_seam.__file__).parents[1])
    text = SHOP.replace("ORDERS = []", f"sys.path.append({seam!r})\nimport codriver_seam")
    with program(live, text, "seams.py") as seams:
        assert seams.do("print(codriver_seam.start_repl(True).port, threading.active_count())") == ["0 1"]
        assert client.call("evaluate_code", code="6 * 7", replSessionKey="seams")["result"] == "42"
        (count,) = seams.do("print(threading.active_count()); repl = codriver_seam.start_repl(True)")
        assert seams.do("print(threading.active_count(), repl.is_open)") == [f"{count} True"]


def test_start_repl_in_a_program_started_by_codriver_run_sets_the_loop_for_await(live, client):
    seam = str(Path(codriver_seam.__file__).parents[1])
    text = SHOP.replace(
        "ORDERS = []",
        f"sys.path.append({seam!r})\nimport asyncio, codriver_seam\n"
        "LOOPS = [asyncio.new_event_loop() for _ in range(2)]\n"
        "for loop in LOOPS: threading.Thread(target=loop.run_forever, daemon=True).start()",
    )
    code = "await asyncio.sleep(0); LOOPS.index(asyncio.get_running_loop())"
    with program(live, text, "loops.py") as loops:
        for number in range(2):
            loops.do(f"codriver_seam.start_repl(True, loop=LOOPS[{number}])")
            answer = client.call("evaluate_code", code=code, replSessionKey="loops")
            assert answer.get("result") == str(number), answer


def test_a_program_that_shadows_a_standard_library_module_is_refused_with_the_module_name(live, client):
    hiding = live.workspace / "hiding"
    hiding.mkdir()
    (hiding / "queue.py").write_text("X = 1\n")
    with program(live, SHOP, file="hiding/hides.py") as hides:
        answer = client.call("evaluate_code", code="1", replSessionKey="hides")
        assert answer["reason"] == "repl-unreachable", answer
        assert "module 'queue' has no attribute" in answer["message"]
        assert hides.do("print(threading.active_count())") == ["1"]
