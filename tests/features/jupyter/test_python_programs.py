"""The programs for Python kernels, in plain interpreters without IPython: the oldest supported and a new one."""

import json
import os
import subprocess
import sys

import needs
import pytest

from codriver.features.jupyter.kernels import python_programs
from codriver.repls.contract.test_progress import RECORD_SEPARATOR
from codriver.repls.dialects import WORKER_PYTHON

LOOP = """
import sys
__acts = {"eval": eval, "exec": exec}
sys.stdin.reconfigure(encoding="utf-8")
for line in sys.stdin:
    how, code = __acts['eval'](line)
    shown = None
    try:
        shown = __acts[how](code)
    except Exception as error:
        sys.last_value = error
        shown = type(error).__name__
    print(repr(shown), flush=True)
"""


class Interpreter:
    """An interpreter that evaluates its input line by line; `ask` returns the answer to a query."""

    def __init__(self, process):
        self._process = process

    def run(self, mode, code):
        self._process.stdin.write(ascii((mode, code)) + "\n")
        self._process.stdin.flush()
        while (line := self._process.stdout.readline()).startswith(RECORD_SEPARATOR):
            pass  # a test run reports its progress
        return line.strip()

    def query(self, function, /, **fields):
        return json.loads(self.run("eval", python_programs.call_expression(function, **fields)))


@pytest.fixture(scope="module", params=["python3.8", f"python3.{sys.version_info[1]}"])
def process(request, tmp_path_factory):
    path = needs.interpreter(request.param)
    directory = tmp_path_factory.mktemp("kernel")
    command = [path, "-u", "-c", LOOP]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, cwd=directory, stdin=pipe, stdout=pipe, text=True, encoding="utf-8") as process:
        interpreter = Interpreter(process)
        assert interpreter.run("eval", python_programs.call_expression("stacks")) == "None"
        for _ in range(2):
            assert interpreter.run("eval", python_programs.install_expression()) == "None"
        yield interpreter, directory
        process.stdin.close()


@pytest.fixture
def interpreter(process):
    return process[0]


@pytest.fixture
def directory(process):
    return process[1]


def test_queries_leave_no_name_in_the_user_namespace(interpreter):
    names = interpreter.run("eval", "[name for name in globals() if 'codriver' in name or name == 'install']")
    assert names == "[]"


def test_queries_work_even_if_the_user_redefined_their_names(interpreter):
    interpreter.run("exec", "exec = eval_ = ask = 1\njson = None")
    assert interpreter.query("lookup", name="ask", ns="")["data"]["value"] == "1"


def test_a_failing_query_is_reported_and_is_not_the_users_last_error(interpreter):
    interpreter.run("eval", "1/0")
    assert interpreter.query("lookup", wrong=1)["failed"]["type"] == "TypeError"
    assert interpreter.query("no such")["failed"]["type"] == "KeyError"
    assert interpreter.query("error", characters=0)["data"]["error"]["type"] == "ZeroDivisionError"


def test_lookup_names_and_completion_match_the_embedded_worker(interpreter):
    interpreter.run("exec", "import os.path\ndef area(r, n=2):\n    'Of a circle.'")
    symbol = interpreter.query("lookup", name="area", ns="")["data"]
    assert (symbol["doc"], symbol["arglists-str"], symbol["ns"]) == ("Of a circle.", "(r, n=2)", "__main__")
    assert interpreter.query("lookup", name="nobody", ns="")["data"] is None
    assert interpreter.query("lookup", name="nobody", ns="no.such.module")["data"] is None
    rows = interpreter.query("names", name="user", ns="")["data"]["rows"]
    assert {"name": "area", "type": "function", "args": "(r, n=2)", "doc": "Of a circle."} in rows
    assert interpreter.query("names", name="no.such", ns="")["data"] is None
    completions = interpreter.query("complete", prefix="joi", ns="os.path")["data"]["completions"]
    assert completions == [{"candidate": "join", "type": "function"}]
    source = interpreter.query("source", name="os.path.join", ns="")["data"]
    assert (source["text"][:9], source["file"].rpartition("/")[2]) == ("def join(", "posixpath.py")


def test_a_file_that_is_not_a_module_runs_in_the_user_namespace(interpreter, directory):
    path = str(directory / "circle.py")
    result = interpreter.run("eval", python_programs.loading_code(path, "radius = 3\n", None, ""))
    assert result == f"<module '__main__' from {path!r}>"
    assert interpreter.run("eval", python_programs.loading_code(path, "radius = 4\nradius + 1\n", None, "")) == "5"
    assert interpreter.run("eval", "radius") == "4"
    interpreter.run("eval", python_programs.loading_code(path, "radius = 5\nadded = 1\n", None, "batch"))
    assert interpreter.query("restore", hold="batch", keep=False)["data"]["left"] == []
    assert interpreter.run("eval", "radius, 'added' in globals()") == "(4, False)"


def test_a_file_of_an_imported_module_runs_in_it_and_updates_references(interpreter, directory):
    path = directory / "shapes.py"
    path.write_text("def sides():\n    return 3\n\ndef left():\n    pass\n")
    interpreter.run("exec", "import sys; sys.path.insert(0, '')\nfrom shapes import sides")
    path.write_text("def sides():\n    return 4\n")
    result = interpreter.run("eval", python_programs.loading_code(str(path), path.read_text(), None, "batch"))
    assert result == f"<module 'shapes' from {str(path)!r}>"
    assert interpreter.run("eval", "sides(), hasattr(sys.modules['shapes'], 'left')") == "(4, False)"
    rows = interpreter.query("drift", root=str(directory), only="old")["data"]["rows"]
    assert {(row["name"], row["kind"]) for row in rows} == {("sides", "renewed"), ("left", "removed")}
    assert interpreter.query("drift", root=str(directory), only="")["data"]["rows"] == []
    assert interpreter.query("restore", hold="batch", keep=False)["data"]["left"] == []
    assert interpreter.run("eval", "sides(), hasattr(sys.modules['shapes'], 'left')") == "(3, True)"


def test_the_last_error_includes_its_file_position_and_plain_locals(interpreter, directory):
    path = str(directory / "bad.py")
    text = "class Odd:\n    def __repr__(self):\n        raise SystemExit\n\n\n"
    text += "def boom(n, token, odd):\n    return 1 / n\n\n\nboom(0, 'hidden', Odd())\n"
    call = python_programs.loading_code(path, text, None, "")
    assert interpreter.run("eval", call) == "'ZeroDivisionError'"
    data = interpreter.query("error", characters=100)["data"]
    assert data["error"]["trace"][:2] == [f"boom ({path}:7)", f"<module> ({path}:10)"]
    assert not any("codriver" in frame for frame in data["error"]["trace"])
    (frame_locals,) = data["locals"]
    assert frame_locals == {"error": 0, "frame": f"boom ({path}:7)", "locals": {"n": "0", "odd": "<Odd>"}}


def test_the_position_of_a_syntax_error_is_reported(interpreter):
    assert interpreter.query("syntax", code="x = 1\ny = = 2")["data"]["line"] == 2
    assert interpreter.query("syntax", code="await f()")["data"] is None


def test_tests_run_in_the_project_directory_and_may_start_an_event_loop(interpreter, directory):
    (directory / "project").mkdir()
    (directory / "project" / "folder_cases.py").write_text(
        "import asyncio, os, unittest\nclass T(unittest.TestCase):\n"
        "    def test_loop(self):\n        asyncio.run(asyncio.sleep(0))\n"
        "    def test_place(self):\n        self.assertTrue(os.getcwd().endswith('project'))\n"
    )
    interpreter.run("exec", f"sys.path.insert(0, {str(directory / 'project')!r})")
    names = {"ns": "folder_cases", "name": "", "match": "", "words": [], "only": [], "root": ""}
    code = WORKER_PYTHON.program_code("test", **names)
    expression = python_programs.call_expression("test", code=code, directory=str(directory / "project"))
    interpreter.run("exec", f"import asyncio\nasync def within():\n    return {expression}")
    report = json.loads(interpreter.run("eval", "asyncio.run(within())"))["data"]
    assert (report["tests"], [row["outcome"] for row in report["results"]]) == (2, ["pass", "pass"])
    assert interpreter.run("eval", "__import__('os').getcwd()") == repr(os.path.realpath(directory))
