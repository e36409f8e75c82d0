"""Why processes of a program cannot have a REPL."""

import contextlib
import os
import socket
import subprocess
import sys

import needs
import pytest

from codriver.features.run import linux_processes, psutil_processes
from codriver.features.run.processes import RunProcess, select_run_processes

RUN = {b"CODRIVER_RUN": b"/run"}


@pytest.mark.parametrize(
    ("words", "state", "reason"),
    [
        ("node server.js", {}, "not written in Python"),
        ("python -I shop.py", {}, "started with -I"),
        ("python -sE shop.py", {}, "started with -sE"),
        ("python -X dev -S shop.py", {}, "started with -S"),
        ("python -Wignore::Error -bE shop.py", {}, "started with -bE"),
        ("python -Xdev shop.py -S", {}, "the process is still starting"),
        ("python -W Error -m shop -I", {}, "the process is still starting"),
        ("python -Bc IES", {}, "the process is still starting"),
        ("python --version -E", {}, "the process is still starting"),
        ("python shop.py", {"environ": {}}, "a different environment"),
        ("python shop.py", {"is_ignoring": True}, "ignores SIGURG"),
        ("python shop.py", {"isolation": "runs as a different user"}, "a different user than `codriver run`"),
        ("python shop.py", {"executable": "/usr/bin/python3.7"}, "Python 3.7, but Codriver needs Python 3.8"),
        ("python shop.py", {"executable": "/usr/bin/python2"}, "Python 2, but"),
        ("python shop.py", {"executable": "/usr/bin/python3.10"}, "the process is still starting"),
    ],
)
def test_a_process_that_cannot_have_a_repl_is_reported_with_the_reason(words, state, reason):
    process = RunProcess(1, 0, 1, tuple(words.split()), is_ready=False, **{"environ": RUN, **state})
    assert reason in process.no_repl_reason


def test_a_ready_process_can_have_a_repl_whatever_its_options():
    assert not RunProcess(1, 0, 1, ("python", "shop.py", "-S"), is_ready=True, environ=RUN).no_repl_reason


@pytest.fixture
def psutil_table():
    if sys.platform == "win32":
        pytest.skip("`codriver run` refuses Windows")
    needs.modules("psutil")
    return psutil_processes


@pytest.fixture(params=["linux", "psutil"])
def table(request):
    """Return each source of information about processes."""
    if request.param == "psutil":
        return request.getfixturevalue("psutil_table")
    if sys.platform != "linux":
        pytest.skip("it reads /proc")
    return linux_processes


@contextlib.contextmanager
def waiting_process(*arguments, name=sys.executable, environ=None):
    """Run Python with arguments while the context is active. `name` is the first word of its command line."""
    words = [name, *arguments, "-c", "import sys; print(flush=True); sys.stdin.read()"]
    pipe = subprocess.PIPE
    with subprocess.Popen(words, executable=sys.executable, env=environ, stdin=pipe, stdout=pipe) as process:
        process.stdout.readline()
        try:
            yield process
        finally:
            process.kill()


def with_run(**environ):
    return {**os.environ, "CODRIVER_RUN": "/run", **environ}


def test_a_process_is_described_with_its_interpreter(table):
    process = table.find_process(os.getpid())
    assert (process.pid, process.parent) == (os.getpid(), os.getppid())
    assert os.path.realpath(process.executable) == os.path.realpath(sys.executable)
    assert process.interpreter == os.path.basename(process.executable)  # noqa: PTH119  # as above
    assert process.words
    assert not process.isolation
    assert not process.is_ignoring


def test_a_process_is_found_among_all_with_its_parent_and_environment(table):
    with waiting_process("-X", "dev", environ=with_run()) as waiting:
        process = table.find_processes()[waiting.pid]
        assert process.words[1:] == tuple(waiting.args[1:])
        assert process.parent == os.getpid()
        assert process.environ[b"CODRIVER_RUN"] == b"/run"
        assert table.find_process(waiting.pid).started == process.started
        assert table.find_process(os.getpid()).started <= process.started


def test_a_process_that_has_exited_is_not_found(table):
    with waiting_process() as waiting:
        waiting.stdin.close()
        os.waitid(os.P_PID, waiting.pid, os.WEXITED | os.WNOWAIT)
        assert table.find_process(waiting.pid) is None, "nobody has waited for it"
    assert table.find_process(waiting.pid) is None


def test_the_lowest_port_on_which_a_process_listens_is_found(table):
    with waiting_process() as waiting, contextlib.ExitStack() as sockets:
        assert table.find_ports([os.getpid(), waiting.pid]) == {}
        addresses = [(socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")]
        opened = [sockets.enter_context(socket.create_server((host, 0), family=family)) for family, host in addresses]
        sockets.enter_context(socket.create_connection(opened[0].getsockname()))
        lowest = min(listener.getsockname()[1] for listener in opened)
        assert table.find_ports([os.getpid(), waiting.pid]) == {os.getpid(): lowest}
    assert table.find_ports([waiting.pid]) == {}, "it has ended"


@pytest.mark.skipif(sys.platform != "linux", reason="it reads /proc")
def test_both_process_tables_report_the_same_start_time(psutil_table):
    pid = os.getpid()
    started = [table.started_ms(table.find_process(pid)) for table in (linux_processes, psutil_table)]
    assert abs(started[0] - started[1]) <= 2000, "Linux rounds the time at which the machine started to seconds"


@pytest.mark.parametrize(
    ("arguments", "named", "is_ready"),
    [
        ((), {"environ": with_run()}, True),
        ((), {"environ": {}}, True),
        ((), {"environ": {"PATH": ""}}, False),
        (("-I",), {"environ": with_run()}, False),
        (("-I",), {"environ": {}}, False),
        ((), {"environ": {"PATH": ""}, "name": "gunicorn: worker [shop]"}, True),
        ((), {"environ": with_run(), "name": "/Frameworks/Python.app/Contents/MacOS/Python"}, True),
    ],
    ids=[
        "prepared",
        "hidden environment",
        "other environment",
        "isolated",
        "isolated and hidden",
        "title",
        "framework",
    ],
)
def test_a_python_process_counts_as_ready_unless_started_without_the_signal_handler(
    psutil_table, arguments, named, is_ready
):
    """psutil reports no signal handlers."""
    with waiting_process(*arguments, **named) as waiting:
        assert psutil_table.find_process(waiting.pid).is_ready == is_ready


def test_a_program_that_is_not_python_is_not_considered_ready(psutil_table):
    with subprocess.Popen(["cat"], env=with_run(), stdin=subprocess.PIPE, stdout=subprocess.PIPE) as cat:
        cat.stdin.write(b"\n")
        cat.stdin.flush()
        cat.stdout.readline()
        process = psutil_table.find_process(cat.pid)
    assert not process.is_ready
    assert "not written in Python" in process.no_repl_reason


def test_the_interpreter_of_a_framework_is_recognized_by_its_name(psutil_table):
    with waiting_process(name="/Frameworks/Python.app/Contents/MacOS/Python", environ=with_run()) as waiting:
        process = psutil_table.find_process(waiting.pid)
    assert process.words[0] == "/Frameworks/Python.app/Contents/MacOS/python"
    assert process.is_python


@pytest.mark.skipif(sys.platform != "linux", reason="psutil is used on macOS")
def test_psutil_is_not_loaded_on_linux():
    code = (
        "import sys; from codriver.features.run import command, hooks, process_table, psutil_processes; "
        "print('psutil' in sys.modules, process_table.PROCESS_TABLE.__name__, process_table.find_process(1 << 30))"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout == "False codriver.features.run.linux_processes None\n"


def test_a_process_that_another_run_started_belongs_only_to_that_run():
    """A command of `codriver run` may be another `codriver run`, which becomes the program."""
    inner = RunProcess(7, 1, 3, ("python", "shop.py"), is_ready=True, environ={b"CODRIVER_RUN": b"/inner"})
    everyone = {7: inner, 8: RunProcess(8, 7, 4, ("python", "shop.py"), is_ready=True, environ={})}
    assert select_run_processes(everyone, "/outer", (7, 3)) == []
    assert [process.pid for process in select_run_processes(everyone, "/inner", (7, 3))] == [7, 8]
