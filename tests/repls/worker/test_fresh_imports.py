"""A load is compared with a fresh import: values that differ in this process are found, and nothing else."""

import contextlib
import itertools
import json
import subprocess
import sys
from pathlib import Path

import pytest
from worker_client import Repl, text, texts

import codriver

WAIT_MS = 60_000
SERVER = str(Path(codriver.__file__).parents[1])
"""The folder of the package."""

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere modules are compared on request alone")


@pytest.fixture(scope="module")
def process(tmp_path_factory):
    with contextlib.closing(Repl(tmp_path_factory.mktemp("fresh"), "--supervised")) as repl:
        repl.connect()
        yield repl


NUMBERS = itertools.count()
HIDDEN = "import <m>\nDOUBLE = eval('<m>.LIMIT * 2')\n"
"""A module that computes a value from another one in a way that no load follows."""


class Project:
    """Modules of one test in the worker's directory: `m` and `n` in sources stand for their names."""

    def __init__(self, repl):
        number = next(NUMBERS)
        self.repl = repl
        self.names = {"m": f"mod{number}", "n": f"other{number}"}

    def named(self, source):
        for short, name in self.names.items():
            source = source.replace(f"<{short}>", name)
        return source

    def path(self, short):
        return self.repl.folder / f"{self.names[short]}.py"

    def write(self, **sources):
        for short, source in sources.items():
            self.path(short).write_text(self.named(source))
        code = "import sys\n" + "".join(f"import {self.names[short]}\n" for short in sources)
        assert text(self.evaluate(code), "err") == ""

    def evaluate(self, code):
        return self.repl.evaluate(self.named(code))

    def edit(self, short, old, new, **fields):
        path = self.path(short)
        source = path.read_text()
        assert old in source
        path.write_text(source.replace(old, new, 1))
        answer = self.repl.ask("load-file", file=path.read_text(), **{"file-path": str(path)}, **fields)
        assert text(answer, "err") == ""

    def rows(self):
        """Return the rows of the finding, with the names used in the sources."""
        (found,) = texts(self.repl.ask("codriver/fresh", wait=WAIT_MS, patient=1), "finding")
        for short, name in self.names.items():
            found = (found or "null").replace(name, f"<{short}>")
        return [tuple(row.values()) for row in (json.loads(found) or {"rows": []})["rows"]]


@pytest.fixture
def project(process):
    return Project(process)


def test_a_requested_comparison_covers_every_reloaded_module(project):
    project.write(m="LIMIT = 3\n", n=HIDDEN)
    project.edit("m", "3", "4")
    project.rows()
    (found,) = texts(project.repl.ask("codriver/fresh", demand=1), "finding")
    assert project.named("<n>.DOUBLE") in {row["name"] for row in json.loads(found)["rows"]}


def test_a_module_whose_import_has_side_effects_is_not_compared(project):
    project.write(m="K = 1\nopen('left.txt', 'w').close()\n", n="import <m>\nN = <m>.K * 2\n")
    left = project.repl.folder / "left.txt"
    left.unlink()
    project.edit("m", "K = 1", "K = 2")
    assert project.rows() == []
    (found,) = texts(project.repl.ask("codriver/fresh", demand=1), "finding")
    assert "open for writing left.txt" in json.loads(found)["why"]
    assert not left.exists()


def test_a_module_whose_import_ends_its_process_is_not_compared(project):
    project.write(m="import os\nK = 1\nif 'ENDS' in os.environ:\n    os._exit(3)\n")
    project.edit("m", "K = 1", "K = 2")
    assert project.rows() == []
    project.evaluate("import os\nos.environ['ENDS'] = '1'")
    (found,) = texts(project.repl.ask("codriver/fresh", demand=1), "finding")
    project.evaluate("del os.environ['ENDS']")
    name = project.names["m"]
    assert json.loads(found)["why"].split("; ")[-1] == f"the import of {name} ended the importing process"


OUTLIVES = """
import sys
sys.path.insert(0, sys.argv.pop())
from codriver.repls.worker.fresh import import_program
import_program._die_with_parent = lambda: None
import_program.main()
"""


def test_importing_the_previous_source_changes_no_earlier_result(tmp_path):
    file = str(tmp_path / "slow.py")
    spec = {
        "cwd": str(tmp_path), "argv": [""], "path": [str(tmp_path), *sys.path], "hashSeed": None, "django": False,
        "folders": [], "needsShield": False, "modules": {"slow": file}, "edited": ["slow"], "watched": [],
        "texts": {file: "open('left.txt', 'w')\n"}, "former": {file: "import time\ntime.sleep(0.5)\n"},
        "roots": {}, "forks": True, "shapeSeconds": 1,
    }  # fmt: skip
    Path(file).write_text(spec["texts"][file])
    done = subprocess.run(
        [sys.executable, "-c", OUTLIVES, SERVER],
        input=json.dumps(spec),
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert json.loads(done.stdout) == {"refused": "open for writing left.txt"}


def test_a_failed_comparison_is_reported(project):
    project.write(m="LIMIT = 3\n", n=HIDDEN)
    project.evaluate("import sys\npython, sys.executable = sys.executable, '/no/such/python'")
    project.edit("m", "3", "4")
    [(kind, name, of)] = project.rows()
    project.evaluate("sys.executable = python")
    assert (kind, name) == ("failed", "<m>")
    assert of.startswith("FileNotFoundError in __init__, line ")


def test_a_stale_value_computed_from_an_edited_module_is_found(project):
    project.write(m="LIMIT = 3\n", n=HIDDEN + "SAME = 1\n")
    project.edit("m", "3", "4")
    assert project.rows() == [("leaf", "<n>.DOUBLE", "previous", "8", "6")]


def test_state_lost_by_a_reload_is_found(project):
    project.write(m="X = {}\nK = 1\n", n="import <m>\n<m>.X['n'] = 1\n")
    project.edit("m", "K = 1", "K = 2", **{"codriver/how": "whole"})
    assert project.rows() == [("leaf", "<m>.X['n']", "undone", "1")]


@pytest.mark.parametrize(
    ("source", "use", "old", "new"),
    [
        ("SEEN = []\nK = 1\ndef f():\n    SEEN.append(K)\n", "<m>.f()", "K = 1", "K = 2"),
        ("COUNT = 0\nK = 1\ndef f():\n    global COUNT\n    COUNT += K\n", "<m>.f()", "K = 1", "K = 2"),
        ("import itertools\nIDS = itertools.count()\nK = 1\n", "next(<m>.IDS)", "K = 1", "K = 2"),
        ("import time, os\nAT = time.time_ns()\nPID = os.getpid()\nK = 1\n", "1", "K = 1", "K = 2"),
        ("NAMES = list({'a', 'b', 'c', 'd', 'e'})\nK = 1\n", "1", "K = 1", "K = 2"),
        ("import re\nA = re.compile('a')\ndef f(x=1):\n    '''doc'''\n    return x\n", "<m>.f()", "x=1", "x=2"),
    ],
)
def test_runtime_state_and_values_that_differ_between_imports_are_not_reported(project, source, use, old, new):
    project.write(m=source)
    project.evaluate(use)
    project.edit("m", old, new)
    assert project.rows() == []


def test_generators_and_functions_that_still_use_old_source_are_found(project):
    project.write(m="import sys\nsys.lambdas = [lambda: 1]\ndef g():\n    yield 1\n    yield 2\n")
    project.evaluate("suspended = <m>.g()\nnext(suspended)\nheld = sys.lambdas[:]")
    project.edit("m", "yield 2", "yield 3")
    project.edit("m", "lambda: 1", "lambda: 2")
    assert {row[:2] for row in project.rows()} >= {("code", "<m>.g"), ("code", "<m>.<lambda>")}
    project.evaluate("del suspended, held, sys.lambdas")


def test_filled_caches_whose_functions_call_changed_code_are_reported(project):
    source = (
        "import functools\ndef low(x): return x\n"
        "@functools.lru_cache\ndef f(x): return low(x)\n"
        "@functools.lru_cache\ndef other(x): return x\n"
        "class C:\n    @functools.cached_property\n    def v(self): return [low(1)]\n"
        "    @functools.cached_property\n    def w(self): return low(1)\n"
    )
    project.write(m=source)
    project.evaluate("<m>.f(1), <m>.other(1)\ninstance = <m>.C()\ninstance.v, instance.w")
    project.edit("m", "def low(x): return x\n", "def low(x): return x * 2\n")
    project.edit("m", "return x\n", "return (x)\n")  # a load that no caller waits for is also compared
    project.edit("m", "import functools\n", "import functools\nK = 1\n")
    found = project.rows()
    assert ("cache", "<m>.C.v", "<m>.low", "1") in found
    assert not {"<m>.f", "<m>.other", "<m>.C.w"} & {row[1] for row in found}
    assert texts(project.evaluate("<m>.f(1), instance.w"), "value") == ["(2, 2)"], "whose caches the load has cleared"
    project.evaluate("del instance")


def test_a_failed_import_is_not_reported(project):
    data = project.repl.folder / "data.txt"
    data.write_text("data")
    project.write(m="K = 1\nopen('data.txt').close()\n", n="import <m>\nN = <m>.K * 2\n")
    data.unlink()
    project.edit("m", "K = 1", "K = 2")
    assert project.rows() == []


def test_a_difference_found_late_is_included_once_in_the_next_answer(project):
    project.write(m="LIMIT = 3\n", n=HIDDEN)
    project.edit("m", "3", "4")
    found = next(item for _ in range(10_000) if (item := texts(project.evaluate("1"), "codriver/fresh")))
    assert json.loads(found[0])["rows"][0]["name"] == project.named("<n>.DOUBLE")
    assert texts(project.evaluate("1"), "codriver/fresh") == []


def test_successive_loads_are_compared_as_one_load(project):
    project.write(m="LIMIT = 3\n", n=HIDDEN)
    for number in range(4, 8):
        project.edit("m", f"{number - 1}", f"{number}")
    assert project.rows() == [("leaf", "<n>.DOUBLE", "previous", "14", "6")]
    project.edit("n", "* 2", "* 2 + 0")
    assert project.rows() == []
