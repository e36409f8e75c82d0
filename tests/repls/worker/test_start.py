"""How the worker starts and ends, and its working directory and path."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from live_server import until
from worker_client import WAIT_S, WORKER, Repl, texts

from codriver.wire.bencode import encode


def test_the_worker_prints_the_line_that_nrepl_clients_expect(python):
    assert (
        python.line
        == f"nREPL server started on port {python.port} on host 127.0.0.1 - nrepl://127.0.0.1:{python.port}\n"
    )


def test_the_workers_own_directory_is_not_on_the_path(python):
    code = f"import sys\n[p for p in sys.path if p == {str(Path(WORKER).parent)!r}]"
    assert texts(python.evaluate(code), "value") == ["[]"]


@pytest.mark.skipif(os.name != "posix", reason="looks for a signal's name")
def test_an_interpreter_crash_reports_its_location(tmp_path):
    with (tmp_path / "errors").open("w+") as errors:
        with contextlib.closing(Repl(tmp_path, stderr=errors)) as repl:
            repl.connect()
            repl.send("eval", code="import ctypes\ndef crash(): ctypes.string_at(0)\ncrash()")
            assert repl.process.wait(WAIT_S) == -signal.SIGSEGV
        errors.seek(0)
        assert "in crash" in errors.read()


def test_sources_in_src_are_found(tmp_path):
    (tmp_path / "src" / "parcel").mkdir(parents=True)
    (tmp_path / "src" / "parcel" / "__init__.py").write_text("name = 'found'\n")
    with contextlib.closing(Repl(tmp_path)) as repl:
        repl.connect()
        assert texts(repl.evaluate("import parcel\nparcel.name"), "value") == ["'found'"]


PARENT = """
import subprocess, sys
command, pipe = [sys.executable, sys.argv[1], "--supervised"], subprocess.PIPE
child = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True)
print(child.pid, child.stdout.readline().rsplit(":", 1)[1].strip(), flush=True)
sys.stdin.read()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc")
@pytest.mark.parametrize("code", ["import time; time.sleep(1000)", "while True: pass", "sum(range(10**13))"])
def test_the_worker_ends_when_its_parent_is_killed_whatever_it_is_running(code):
    command = [sys.executable, "-c", PARENT, WORKER]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as parent:
        pid, port = map(int, parent.stdout.readline().split())
        with socket.create_connection(("127.0.0.1", port), timeout=WAIT_S) as client:
            client.sendall(encode({"op": "eval", "id": "1", "code": "print('begun', flush=True)\n" + code}))
            assert b"begun" in client.recv(1000)
            parent.kill()
            parent.wait(WAIT_S)
            until(lambda: not Path(f"/proc/{pid}").exists(), "the worker to end")


COMMAND_NAME_PREFIX = sorted(
    {name for path in Path(WORKER).parent.rglob("*/*.py") for name in (path.parent.name, path.stem)} - {"__init__"}
)


def test_a_project_can_have_modules_of_any_name(tmp_path):
    for name in [*COMMAND_NAME_PREFIX, "worker", "queue", "bisect", "keyword"]:
        (tmp_path / f"{name}.py").write_text("whose = 'the project'\n")
    with contextlib.closing(Repl(tmp_path)) as repl:
        repl.connect()
        for name in [*COMMAND_NAME_PREFIX, "worker"]:
            assert texts(repl.evaluate(f"import {name}\n{name}.whose"), "value") == ["'the project'"], name
        assert texts(repl.evaluate("1 / 0"), "ex") == ["ZeroDivisionError"], "with Python's own modules"


@pytest.mark.parametrize("how", [[str(Path(WORKER).parent)], ["-m", "codriver.repls.worker"], ["-I", "-S", WORKER]])
def test_the_worker_can_be_started_by_file_directory_or_name(tmp_path, how):
    with contextlib.closing(Repl(tmp_path, how=how)) as repl:
        repl.connect()
        assert texts(repl.evaluate("import sys\nsys.argv, __name__"), "value") == ["([''], '__main__')"]
        (stacks,) = texts(repl.ask("codriver/stacks"), "stacks")
        assert stacks == "", "nothing runs"
