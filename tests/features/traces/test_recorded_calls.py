"""Calls recorded by the worker, on the oldest supported Python and on those with `sys.monitoring`."""

import contextlib
import json
from importlib.util import find_spec
from pathlib import Path

import pytest
from needs import interpreter, modules
from worker_client import Repl, text, texts

SHOP = """
import threading

class Cart:
    rate = 2
    def __init__(self, *items, **options):
        self.items = list(items)
    def total(self):
        return sum_of(self.items)

def sum_of(items):
    try:
        missing("x")
    except KeyError:
        pass
    return sum(items)

def missing(name):
    raise KeyError(name)

def numbers(count):
    for number in range(count):
        yield square(number)

def square(number):
    return number * number

async def waits(value):
    import asyncio
    await asyncio.sleep(0)
    return square(value)

def deep(count):
    return count and deep(count - 1)

def on_a_thread():
    thread = threading.Thread(target=square, args=(12,), name="helper")
    thread.start()
    thread.join()

def logs_in(user, password="", **settings):
    return {"user": user, "api_key": password}

def takes(value):
    return value

def fails():
    raise ValueError("no", 3)
"""
HOSTILE = """
import builtins
ran = []
class Meta(type):
    def __hash__(cls): ran.append("hash"); return 1
    def __eq__(cls, other): ran.append("eq"); return True
    def __instancecheck__(cls, one): ran.append("instance"); return True
class Hostile(metaclass=Meta):
    def __repr__(self): ran.append("repr"); raise OSError
    __str__ = __len__ = __iter__ = __repr__
    def __getattribute__(self, name): ran.append(name); raise OSError
class Words(str):
    def __repr__(self): ran.append("words"); return ""
    __str__ = __len__ = __getitem__ = __repr__
class Table(dict):
    def __iter__(self): ran.append("table"); raise OSError
    items = keys = __len__ = __repr__ = __iter__
class Failure(Exception):
    @property
    def args(self): ran.append("args")
    def __str__(self): ran.append("str"); return ""
    __repr__ = __str__
def hostile(*values):
    for value in values: shop.takes(value)
    try: shop.takes(raising())
    except Failure: pass
def raising(): raise Failure("x")
"""


@pytest.fixture(scope="module", params=["python3.11", "python3.12", "python3.13"])
def process(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("calls")
    (folder / "shop.py").write_text(SHOP)
    with contextlib.closing(Repl(folder, "--supervised", python=interpreter(request.param))) as repl:
        repl.connect()
        repl.evaluate("import sys, shop")
        yield repl


@pytest.fixture
def python(process):
    with process.fresh_session() as repl:
        repl.evaluate("import sys, shop")
        yield repl


def has_monitoring(python):
    return texts(python.evaluate("hasattr(sys, 'monitoring')"), "value") == ["True"]


def recorded(python, code, *names):
    """Return the recording of the calls that code makes."""
    answer = python.evaluate(code, **{"codriver/trace": list(names)})
    (reported,) = texts(answer, "codriver/run")
    return json.loads(reported)


def rows(report):
    """Return each call as its depth, name, arguments and outcome."""
    depths, found = [], []
    for function, parent, _, _, _, arguments, result, error, yields in report["calls"]:
        depths.append(depths[parent] + 1 if parent >= 0 else 0)
        ended = error if error is not None else result
        found.append(
            (depths[-1], report["functions"][function][1], arguments, f"{yields}: {ended}" if yields else ended)
        )
    return found


def test_calls_are_nested_with_arguments_and_outcomes(python):
    error = "KeyError('x')" if has_monitoring(python) else "an error"
    assert rows(recorded(python, "shop.Cart(1, 2, tax=3).total()")) == [
        (0, "Cart.__init__", ["<Cart>", "(1, 2)", "{'tax': 3}"], "Cart(items=[1, 2])"),
        (0, "Cart.total", ["Cart(items=[1, 2])"], "3"),
        (1, "sum_of", ["[1, 2]"], "3"),
        (2, "missing", ["'x'"], error),
    ]


def test_a_generator_or_coroutine_is_one_call_however_often_it_waits(python):
    assert rows(recorded(python, "list(shop.numbers(2))")) == [
        (0, "numbers", ["2"], "2: None"), (1, "square", ["0"], "0"), (1, "square", ["1"], "1"),
    ]  # fmt: skip
    assert rows(recorded(python, "await shop.waits(3)")) == [(0, "waits", ["3"], "1: 9"), (1, "square", ["3"], "9")]


def test_only_a_limited_number_of_calls_per_function_is_recorded(python):
    report = recorded(python, "sys.setrecursionlimit(20_000)\nshop.deep(10_000)\nshop.square(1)")
    assert len(report["calls"]) == 201
    assert [row[1:] for row in rows(report)[-2:]] == [("deep", ["9801"], "0"), ("square", ["1"], "1")]
    assert [(row[1], *row[5:7]) for row in report["functions"]] == [("deep", 200, True), ("square", 1, False)]
    assert len(recorded(python, "shop.deep(3)")["calls"]) == 4


def test_a_function_is_identified_by_its_code_regardless_of_its_line(python):
    defined = "def marked(n):\n    return n in {'a', 'b'} or (lambda: n + 1)()\n"

    def mark(code):
        (function,) = recorded(python, code + "marked(3)")["functions"]
        return function[7]

    assert mark(defined) == mark("\n\n" + defined) != mark(defined.replace("n + 1", "n + 2"))


def test_a_function_changed_by_a_load_is_reported_with_its_version(python):
    text = "def one(n):\n    return n + 1\n\n\ndef two(n):\n    return one(n)\n"
    file = python.folder / "changing.py"

    def changed():
        functions = recorded(python, "import changing\nchanging.two(1)")["functions"]
        return {row[1] for row in functions if row[8]}

    for loaded, names in ((text, set()), (f"\n{text}", set()), (text.replace("+ 1", "+ 2"), {"one"})):
        file.write_text(loaded)
        python.ask("load-file", **{"file": loaded, "file-path": str(file)})
        assert changed() == names


def test_calls_in_threads_are_recorded_with_their_threads(python):
    report = recorded(python, "shop.on_a_thread()")
    names = {report["functions"][call[0]][1]: call[2] for call in report["calls"]}
    assert names == {"on_a_thread": 0, "square": 1}


def test_calls_are_selected_by_name_and_library_calls_only_if_the_library_is_named(python):
    assert [row[1] for row in rows(recorded(python, "shop.Cart(1).total()", "sum_of"))] == ["sum_of"]
    assert [row[1] for row in rows(recorded(python, "shop.Cart(1).total()", "Cart"))] == ["Cart.__init__", "Cart.total"]
    assert [
        row[1] for row in rows(recorded(python, "import textwrap\nshop.takes(textwrap.dedent('x'))", "textwrap"))
    ] == ["dedent"]
    assert [row[1] for row in rows(recorded(python, "shop.takes(textwrap.dedent('x'))"))] == ["takes"]


def test_code_entered_at_the_repl_belongs_to_the_project(python):
    assert [row[1] for row in rows(recorded(python, "def mine(x): return x\nmine(4)"))] == ["mine"]


def test_describing_a_value_runs_no_user_code(python):
    python.evaluate(HOSTILE)
    reported = rows(
        recorded(python, "hostile(Hostile(), Words('a'), Table(a=1), [Hostile()], {1: Words('b')})", "takes", "raising")
    )
    assert texts(python.evaluate("ran"), "value") == ["[]"]
    assert [arguments for _, name, arguments, _ in reported if name == "takes"] == [
        ["<Hostile>"], ["Words('a')"], ["Table({'a': 1})"], ["[<Hostile>]"], ["{1: Words('b')}"],
    ]  # fmt: skip


def test_secrets_are_redacted_by_name_before_text_is_truncated(python):
    python.evaluate("import os\nos.environ['SHOP_TOKEN'] = 'correct-horse-battery'")
    report = recorded(
        python, "shop.logs_in('me', 'hush', pin=1)\nshop.takes('x' * 50 + os.environ['SHOP_TOKEN'] + 'y' * 40)"
    )
    assert rows(report) == [
        (0, "logs_in", ["'me'", "<not shown>", "{'pin': <not shown>}"], "{'user': 'me', 'api_key': <not shown>}"),
        (0, "takes", ["<not shown>"], "<not shown>"),
    ]


def test_a_recording_leaves_nothing_behind(python):
    recorded(python, "shop.square(1)")
    code = "[sys.getprofile(), [sys.monitoring.get_tool(n) for n in range(6)] if hasattr(sys, 'monitoring') else 0]"
    displayed = "[None, [None, None, None, None, None, None]]" if has_monitoring(python) else "[None, 0]"
    assert texts(python.evaluate(code), "value") == [displayed]
    assert texts(python.evaluate("shop.square(1)"), "codriver/run") == []


def test_a_failure_and_an_interrupt_end_a_recording(python):
    answer = python.evaluate("shop.fails()", **{"codriver/trace": []})
    assert texts(answer, "ex") == ["ValueError"]
    assert "recordings" not in text(answer, "err")
    (reported,) = texts(answer, "codriver/run")
    displayed = "ValueError('no', 3)" if has_monitoring(python) else "an error"
    assert rows(json.loads(reported)) == [(0, "fails", [], displayed)]


def test_another_monitoring_tool_is_not_disturbed_and_is_named_if_it_conflicts(python):
    if has_monitoring(python):
        python.evaluate("m = sys.monitoring\nfor n in (2, 3, 4, 5): m.use_tool_id(n, 'other')")
        assert "all tool ids" in recorded(python, "shop.square(1)")["refused"]
        python.evaluate("m.free_tool_id(3)")
        assert len(recorded(python, "shop.square(1)")["calls"]) == 1
        python.evaluate("for n in (2, 4, 5): m.free_tool_id(n)")
    else:
        python.evaluate("sys.setprofile(lambda *_: None)")
        assert "has set a profile function" in recorded(python, "shop.square(1)")["refused"]
        python.evaluate("sys.setprofile(None)")


def test_events_disabled_by_another_tool_stay_disabled(python):
    if not has_monitoring(python):
        return
    python.evaluate(
        "seen = []\ndef line(code, number): seen.append(code.co_name); return sys.monitoring.DISABLE\n"
        "m = sys.monitoring; m.use_tool_id(1, 'coverage'); m.register_callback(1, m.events.LINE, line)\n"
        "m.set_local_events(1, shop.square.__code__, m.events.LINE)\nshop.square(2)"
    )
    assert len(recorded(python, "shop.square(3)")["calls"]) == 1
    answer = python.evaluate("shop.square(4)\nm.set_local_events(1, shop.square.__code__, 0); m.free_tool_id(1)\nseen")
    assert texts(answer, "value")[-1] == "['square']"


TRACERS = {"pytrace": "PyTracer", "sysmon": "SysMonitor"}
COVERED = """
import os, sys
os.environ["COVERAGE_CORE"] = core
sys.path.append(coverage_at)
import coverage
lines = coverage.Coverage(include=[shop.__file__], data_file=None)
lines.start()
try:
    shop.Cart(1, 2).total()
finally:
    lines.stop()
sorted(lines.get_data().lines(shop.__file__))
"""


@pytest.mark.parametrize(
    ("name", "core"), [("python3.11", "pytrace"), ("python3.12", "sysmon"), ("python3.13", "sysmon")]
)
def test_coverage_py_records_the_same_lines_next_to_a_recording(tmp_path, name, core):
    modules("coverage")
    coverage_at = str(Path(find_spec("coverage").origin).parents[1])
    (tmp_path / "shop.py").write_text(SHOP)
    with contextlib.closing(Repl(tmp_path, python=interpreter(name))) as repl, repl.fresh_session():
        repl.evaluate(f"import shop\ncore, coverage_at = {core!r}, {coverage_at!r}")
        alone = texts(repl.evaluate(COVERED), "value")
        answer = repl.evaluate(COVERED, **{"codriver/trace": []})
        assert texts(answer, "value") == alone != []
        (reported,) = texts(answer, "codriver/run")
        assert [row[1] for row in rows(json.loads(reported))] == ["Cart.__init__", "Cart.total", "sum_of", "missing"]
        assert texts(repl.evaluate("lines._collector.tracer_name()"), "value") == [repr(TRACERS[core])]
