"""The parts of a comparison with fresh imports: the values of a module, the rules for comparing them, and code."""

import functools
import subprocess
import sys
import textwrap
import types
from datetime import UTC, datetime, tzinfo
from pathlib import Path

import pytest

from codriver.repls.launch import recipes
from codriver.repls.worker.fresh.code_texts import code_digest, nested_codes
from codriver.repls.worker.fresh.importers import find_importers
from codriver.repls.worker.fresh.leaf_rules import (
    OTHER,
    PREVIOUS,
    UNDONE,
    changed_leaves,
    differing_leaves,
    outermost_rows,
    stale_leaves,
)
from codriver.repls.worker.fresh.leaves import MAX_LEAVES_PER_NAME, UNKNOWN_TEXT, LeafDescriber, split_leaf_path
from codriver.repls.worker.fresh.previous_code import previous_code

LONG_S = 60


def function(text, name="f"):
    space = {}
    exec(text, space)
    return space[name]


@pytest.fixture
def module(monkeypatch):
    made = types.ModuleType("shaped")
    monkeypatch.setitem(sys.modules, "shaped", made)
    return made


def leaves(module, text=""):
    exec(textwrap.dedent(text), module.__dict__)
    return LeafDescriber((), LONG_S).describe_module("shaped")


@pytest.mark.parametrize(
    ("item", "other", "is_same"),
    [
        ("def f(n): return n", "\n\n\ndef f(n): return n", True),
        ("def f(n): click.echo(n)", "import sys as click\ndef f(n): click.echo(n)", True),
        ("def f(n):\n  'one'\n  return n", "def f(n):\n  'two'\n  return n", True),
        ("def f(n): return n in {'a', 'b'}", "def f(n): return n in {'b', 'a'}", True),
        ("def f(n): return n", "def f(n): return -n", False),
        ("def f(n): return 1", "def f(n): return True", False),
        ("def f(n): return 'one'", "def f(n): return 'two'", False),
        ("def f(n): return n.a", "def f(n): return n.b", False),
        ("def f(n, k): return n", "def f(n, *, k): return n", False),
        ("def f():\n  def g(): return 1\n  return g", "def f():\n  def g(): return 2\n  return g", False),
        ("def f(): return 10 ** 5000", "def f(): return 10 ** 5000", True),
    ],
)
def test_the_description_of_code_depends_on_its_behaviour_and_not_on_its_line_numbers(item, other, is_same):
    assert (code_digest(function(item).__code__) == code_digest(function(other).__code__)) is is_same


def test_compared_values_include_contents_of_collections_instances_closures_and_classes(module):
    found = leaves(
        module,
        """
        import enum, functools, re
        class Point:
            __slots__ = ("x",)
            def __init__(self, x): self.x = x
        class Color(enum.Enum): RED = 1
        def around(k):
            def inner(n=3): return n * k
            return inner
        TABLE = {"a": [Point(1)], (1, "b"): {2}, Color.RED: 1}
        by_two = around(2)
        half = functools.partial(around, 5)
        PATTERN = re.compile("a+")
        """,
    )
    assert found["shaped.TABLE['a'][0].x"] == "1"
    assert found["shaped.TABLE[(1, 'b')]{2}"] == "True"
    assert found["shaped.TABLE[shaped.Color.RED]"] == "1"
    assert found["shaped.TABLE.len"] == "3"
    assert found["shaped.by_two.closure.k"] == "2"
    assert found["shaped.by_two.__defaults__[0]"] == "3"
    assert "5" in {text for path, text in found.items() if path.startswith("shaped.half")}
    assert found["shaped.PATTERN"] == "pattern 'a+' 32"
    assert found["shaped.Color.RED"].startswith("a shaped.Color")


def test_descriptions_of_values_contain_nothing_that_varies_by_process(module):
    found = leaves(module, "class A: pass\nONE = A()\nBOTH = {A(): 1, A(): 2}\nSET = {'a', 'b', 'c'}\n")
    assert not [text for text in found.values() if " at 0x" in text]
    assert {path for path in found if path.startswith("shaped.BOTH")} == {"shaped.BOTH", "shaped.BOTH.len"}


def test_cyclic_values_terminate_and_oversized_values_are_unknown(module):
    found = leaves(module, "LOOP = []\nLOOP.append(LOOP)\n")
    assert found["shaped.LOOP[0]"] == UNKNOWN_TEXT
    module.LARGE = [[number] for number in range(MAX_LEAVES_PER_NAME)]
    assert leaves(module)["shaped.LARGE"] == UNKNOWN_TEXT
    assert LeafDescriber((), -1).describe_module("shaped", ["LOOP"]) == {"shaped.LOOP": UNKNOWN_TEXT}


def test_dates_and_other_plain_values_are_compared_by_value(module):
    module.DATE = datetime(2020, 1, 2, tzinfo=UTC)
    module.PATH = Path("/a/b")
    module.HUGE = 10**5000
    module.TEXT = "x" * 1000
    found = leaves(module)
    assert found["shaped.DATE"] == "datetime.datetime(2020, 1, 2, 0, 0) datetime.timezone"
    assert found["shaped.PATH"] == "PosixPath('/a/b')"
    assert found["shaped.HUGE"].startswith("0x")
    assert len(found["shaped.TEXT"]) < 200


NAMES = [
    "__repr__",
    "__str__",
    "__eq__",
    "__hash__",
    "__bool__",
    "__len__",
    "__iter__",
    "__getitem__",
    "__contains__",
    "__getattr__",
    "__lt__",
    "__call__",
    "__getattribute__",
    "__dir__",
    "__format__",
    "__index__",
    "__int__",
    "__instancecheck__",
    "__subclasscheck__",
    "__get__",
    "__missing__",
    "__reversed__",
    "__enter__",
    "__prepare__",
    "keys",
    "items",
    "values",
    "utcoffset",
    "tzname",
    "dst",
]
"""Methods that a look at a value might call."""


def test_comparing_values_runs_no_user_code(module):
    ran = []

    def recording(name):
        return lambda *_arguments, **_options: ran.append(name)

    hostile = {name: recording(name) for name in NAMES}
    meta = type("Meta", (type,), {**hostile, "__call__": type.__call__})
    kind = type.__call__(meta, "Hostile", (), {**hostile, "plain": property(recording("property"))})
    holder = type.__call__(meta, "Holder", (dict,), hostile)
    zone = type("Zone", (tzinfo,), hostile)
    module.kind, module.thing, module.mapping = kind, object.__new__(kind), dict.__new__(holder)
    dict.__setitem__(module.mapping, "key", object.__new__(kind))
    module.call = functools.partial(print, object.__new__(kind))
    module.date = datetime(2020, 1, 1, tzinfo=zone())
    ran.clear()
    found = LeafDescriber((), LONG_S).describe_module("shaped")
    assert ran == []
    assert found["shaped.mapping['key']"].endswith(".Hostile")
    assert found["shaped.date"].endswith(".Zone")
    assert "shaped.kind" in found


def test_a_definition_is_inspected_only_in_the_module_that_defines_it(module, monkeypatch):
    other = types.ModuleType("elsewhere")
    monkeypatch.setitem(sys.modules, "elsewhere", other)
    exec("def f(): return 1\nclass C: x = 1\n", other.__dict__)
    module.f, module.C = other.f, other.C
    assert {leaves(module)[path] for path in ("shaped.f", "shaped.C")} == {"is elsewhere.f", "is elsewhere.C"}
    exec("def f(): return 2\n", other.__dict__)  # the module has the previous one now
    assert leaves(module)["shaped.f"].startswith("function f ")


def test_a_nested_value_is_attributed_to_a_name_of_the_nearest_module():
    assert split_leaf_path("a.b.C.x[1]", {"a": 1, "a.b": 1}) == ("a.b", "C")
    assert split_leaf_path("a.C['x.y']", {"a": 1, "a.b": 1}) == ("a", "C")


FRESH = {"m.X": ("1", "2"), "m.Y": ("1", "1")}


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ({"m.X": "1"}, {"m.X": "2", "m.Y": "1"}, []),
        ({"m.X": "1"}, {"m.X": "1", "m.Y": "1"}, [("m.X", PREVIOUS)]),
        ({"m.X": "1"}, {"m.X": "7", "m.Y": "1"}, [("m.X", OTHER)]),
        ({"m.X": "1", "m.Y": "1"}, {"m.X": "2", "m.Y": "9"}, [("m.Y", UNDONE)]),
        ({"m.X": "1", "m.Y": "8"}, {"m.X": "2", "m.Y": "9"}, []),  # use had changed it before
        ({}, {"m.Y": "1"}, []),  # used up before the load
        ({"m.X": "1"}, {"m.X": UNKNOWN_TEXT, "m.Y": "1"}, []),
    ],
)
def test_a_value_is_stale_if_the_edit_changes_it_or_the_load_reset_it(before, after, expected):
    assert [row[:2] for row in stale_leaves(FRESH, before, after)] == expected


def test_values_nested_in_an_unknown_value_are_not_compared():
    assert differing_leaves({"m.A": UNKNOWN_TEXT}, {"m.A": "a list", "m.A[0]": "1", "m.B": "1"}) == {"m.B": (None, "1")}
    assert changed_leaves({"m.A": "a list", "m.A[0]": "1"}, {"m.A": UNKNOWN_TEXT}) == {}


def test_only_the_outermost_of_nested_differences_is_reported():
    rows = [("m.A[0].x", PREVIOUS, "1", "2"), ("m.A", PREVIOUS, "1", "2"), ("m.AB", PREVIOUS, "1", "2")]
    assert [row[0] for row in outermost_rows(rows)] == ["m.A", "m.AB"]
    sizes = [("m.A.len", UNDONE, "2", "1"), ("m.A[1]", UNDONE, "2", None)]
    assert [row[0] for row in outermost_rows(sizes)] == ["m.A[1]"]


SOURCES = {
    "pkg": b"from .low import RATE\n",
    "pkg.low": b"RATE = 1\n",
    "pkg.mid": b"from . import (\n    low,  # a comment\n)\n",
    "pkg.high": b"import os, pkg.mid as m\n",
    "pkg.lone": b"'''from pkg.low is only named'''\nimport os\n",
    "app": b"if True:\n    from pkg.high import *\n",
}


def test_importing_modules_are_found_by_their_source_nearest_first():
    modules = {name: name + ("/__init__.py" if name == "pkg" else ".py") for name in SOURCES}
    files = {file: SOURCES[name] for name, file in modules.items()}
    found = find_importers(["pkg.low"], modules, files.__getitem__)
    assert found[0] == "pkg.low"
    assert set(found) == {"pkg", "pkg.low", "pkg.mid", "pkg.high", "app"}
    assert found.index("pkg.mid") < found.index("app")
    assert find_importers(["pkg.low"], modules, files.__getitem__, most=2) == found[:2]


def digests_of(source, file):
    return map(code_digest, nested_codes(compile(source, file, "exec")))


def test_generators_threads_and_functions_that_still_use_old_source_are_found(tmp_path):
    file, text = (
        str(tmp_path / "m.py"),
        "def g():\n    yield 1\nkeep = [lambda: 1]\nclass C:\n    def f(self): return 1\n",
    )
    space = {"__name__": "m"}
    exec(compile(text, file, "exec"), space)
    running = space["g"]()
    next(running)
    digests = {source: frozenset(digests_of(source, file)) for source in (text, text.replace("1", "2"))}
    found = previous_code({file: digests[text]}, lambda: True)
    assert found == []
    edited = text.replace("1", "2")
    assert {(kind, name) for _, kind, name in previous_code({file: digests[edited]}, lambda: True)} == {
        ("function", "g"),
        ("generator", "g"),
        ("function", "<lambda>"),
    }
    assert previous_code({file: digests[edited]}, lambda: False) is None


EFFECTS = {
    "file": "open('left.txt', 'w')",
    "os.open": "os.open('left.txt', os.O_CREAT | os.O_WRONLY)",
    "directory": "os.mkdir('left')",
    "removal": "os.remove('own.txt')",
    "rename": "os.rename('own.txt', 'left.txt')",
    "connection": "socket.create_connection(('127.0.0.1', 9), 1)",
    "listener": "socket.socket().bind(('127.0.0.1', 0))",
    "look-up": "socket.getaddrinfo('localhost', 80)",
    "process": "subprocess.run([sys.executable, '-c', ''])",
    "shell": "os.system('touch left.txt')",
    "fork": "os.fork()",
    "spawn": "os.posix_spawn('/bin/touch', ['touch', 'left.txt'], {})",
    "signal": "os.kill(os.getpid(), 0)",
    "database": "sqlite3.connect('left.db')",
    "shared memory": "shared_memory.SharedMemory(create=True, size=8)",
    "pipe": "os.mkfifo('left')",
}
ALLOWED = [
    "open('own.txt').read()",
    "sqlite3.connect(':memory:').execute('create table t (x)')",
    "open(os.devnull, 'w')",
]
PROGRAM = """
import os, socket, sqlite3, subprocess, sys
from multiprocessing import shared_memory
sys.path.insert(0, {folder!r})
from worker.fresh.refused_effects import RefusedEffects
effects = RefusedEffects()
effects.install()
left = []
for code in {allowed!r}:
    exec(code)
assert not effects.refused, effects.refused
for name, code in {effects!r}.items():
    try:
        exec(code)
    except PermissionError:
        left.append(name)
print(left, len(effects.refused))
"""


def test_each_kind_of_import_side_effect_is_refused_and_leaves_nothing_behind(tmp_path):
    (tmp_path / "own.txt").write_text("own")
    program = PROGRAM.format(folder=str(recipes.WORKER_PROGRAM.parents[1]), allowed=ALLOWED, effects=EFFECTS)
    ran = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ran.stdout.strip() == f"{list(EFFECTS)} {len(EFFECTS)}", ran.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["own.txt"]
