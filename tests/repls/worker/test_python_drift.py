"""Loaded code is compared with its files by what the code does, without running any of it."""

import importlib
import sys

import pytest
from project_texts import ProjectTexts

from codriver.repls.worker.python.python_drift import Drift

LOW = '''
import functools

LIMIT = 3
PAIR = (1, "a")
count = 0
table = {}

def rate(x, step=2, *, base=1):
    # a comment
    return x * 2

@functools.lru_cache
def cached(x):
    return x

def traced(f):
    @functools.wraps(f)
    def inner(*args):
        return f(*args)
    return inner

@traced
def decorated():
    return {part for part in ("a", "b")}

def counted():
    global count
    count += 1

if LIMIT:
    def chosen(): return 1
else:
    def chosen(): return 2

class Shape:
    """A shape."""
    sides = 4
    def area(self): return 1
    @property
    def size(self): return 2
    @staticmethod
    def unit(): return 3
    @classmethod
    def made(cls): return cls()
    def __hidden(self): return 4
'''


class Project:
    """Modules in a directory that are imported and removed again."""

    def __init__(self, folder):
        self.folder = folder
        self.texts = ProjectTexts(folder)
        self.drift = Drift(self.texts)
        self.names = []

    def write(self, name, text):
        (self.folder / f"{name}.py").write_text(text)

    def edit(self, name, *changes):
        text = (self.folder / f"{name}.py").read_text()
        for old, new in changes:
            assert old in text
            text = text.replace(old, new)
        self.write(name, text)

    def load(self, name, text):
        self.write(name, text)
        self.names.append(name)
        importlib.invalidate_caches()
        module = importlib.import_module(name)
        self.texts.record_names()
        self.texts.read_recent_sources()
        return module

    def rows(self, only=""):
        return {
            (row["module"], row["name"], row["kind"]) for row in self.drift.find_differences(str(self.folder), only)
        }

    def parts(self):
        return {(row["name"], row["kind"], row.get("of", "")) for row in self.drift.find_differences(str(self.folder))}


@pytest.fixture
def project(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    made = Project(tmp_path)
    made.texts.start_recording()
    yield made
    made.texts.stop_recording()
    for name in made.names:
        sys.modules.pop(name, None)


def test_code_that_equals_its_file_is_not_reported_as_a_difference(project):
    low = project.load("low_a", LOW)
    low.counted(), low.cached(1), low.table.update(a=1)
    assert project.rows() == set()
    project.edit("low_a", ("# a comment\n", "# another, longer one\n\n"), ("def rate", "\n\n\ndef rate"))
    assert project.rows() == set()


REMOVED = """
class Taker(type):
    def __new__(cls, name, bases, space):
        space.pop("Meta", None)
        return super().__new__(cls, name, bases, space)

class Model(metaclass=Taker):
    class Meta:
        ordering = 1
    def kept(self): return 1

class Session:
    def _fail(self): raise RuntimeError
    pop = clear = _fail
    del _fail

def helper(): return 1
made = helper()
del helper
"""


def test_names_removed_by_the_file_or_a_metaclass_are_not_reported_as_a_difference(project):
    """For example the `Meta` of a Django model, and a method that is only called under other names."""
    project.load("low_r", REMOVED)
    assert project.rows() == set()
    project.edit("low_r", ("def kept", "def other"))
    assert ("low_r", "Model.other", "missing") in project.rows()


@pytest.mark.parametrize(
    ("change", "name", "kind"),
    [
        (("x * 2", "x * 3"), "rate", "edited"),
        (("step=2", "step=3"), "rate", "edited"),
        (("base=1", "base=2"), "rate", "edited"),
        (("LIMIT = 3", "LIMIT = 4"), "LIMIT", "edited"),
        (('(1, "a")', '(1.0, "a")'), "PAIR", "edited"),
        (("return x\n", "return x + 1\n"), "cached", "edited"),
        (('("a", "b")', '("a", "c")'), "decorated", "edited"),
        (("return f(*args)", "return f(*args) or 1"), "traced", "edited"),
        (("def chosen(): return 1", "def chosen(): return 9"), "chosen", "edited"),
        (("self): return 1", "self): return 9"), "Shape.area", "edited"),
        (("return 2\n    @static", "return 9\n    @static"), "Shape.size", "edited"),
        (("return 3", "return 9"), "Shape.unit", "edited"),
        (("return cls()", "return cls"), "Shape.made", "edited"),
        (("return 4", "return 9"), "Shape.__hidden", "edited"),
        (("def rate", "def price"), "rate", "gone"),
        (("def rate", "def price"), "price", "missing"),
        (("def area", "def extent"), "Shape.area", "gone"),
        (("def area", "def extent"), "Shape.extent", "missing"),
        (("def rate(x, step=2, *, base=1):\n    # a comment\n    return x * 2", "rate = None"), "rate", "edited"),
        (("class Shape", "class Form"), "Shape", "gone"),
        (("class Shape", "class Form"), "Form", "missing"),
    ],
)
def test_each_name_changed_by_an_edit_of_the_file_is_reported(project, change, name, kind):
    project.load("low_b", LOW)
    assert project.rows() == set()
    project.edit("low_b", change)
    found = project.rows()
    assert ("low_b", name, kind) in found
    assert {kind for _, _, kind in found} <= {"edited", "gone", "missing"}
    assert len(found) <= 2


def test_evaluated_definitions_are_reported_as_redefined_or_as_only_in_the_repl(project):
    low = project.load("low_c", LOW)
    exec(compile("def rate(x): return 5\ndef extra(): return 1", "<eval 7>", "exec"), low.__dict__)
    assert project.rows() == {("low_c", "rate", "redefined"), ("low_c", "extra", "gone")}


def test_a_name_imported_before_a_reload_is_reported_as_old(project):
    low = project.load("low_d", LOW)
    project.load("high_d", "from low_d import rate, Shape, decorated\nmade = [Shape(), Shape()]\n")
    assert project.rows() == set()
    importlib.reload(low)
    old = {("high_d", name, "old") for name in ("rate", "Shape", "decorated")} | {("low_d", "Shape", "instances")}
    assert project.rows() == old
    assert project.rows("old") == old
    counted = next(row for row in project.drift.find_differences(str(project.folder)) if row["kind"] == "instances")
    assert counted["of"] == "2"


def test_drift_detection_runs_no_user_code(project):
    text = """
class Loud(type):
    def __subclasses__(cls): raise SystemExit
    def __getattribute__(cls, name):
        if name in ("__qualname__", "__module__"): return type.__getattribute__(cls, name)
        raise SystemExit(name)
class Mute:
    def __getattribute__(self, name): raise SystemExit(name)
    def __eq__(self, other): raise SystemExit
    __hash__ = None
class Made(metaclass=Loud): pass
mute = Mute()
"""
    project.load("loud_e", text)
    assert project.rows() == set()


@pytest.mark.parametrize("text", ["def broken(:\n", "\0", "x = " + "(" * 500])
def test_an_unparsable_or_deleted_file_is_reported(project, text):
    project.load("low_f", LOW)
    project.write("low_f", text)
    assert project.rows() == {("low_f", "low_f.py", "unparsable")}
    (project.folder / "low_f.py").unlink()
    assert project.rows() == {("low_f", "low_f.py", "deleted")}


def test_a_change_hidden_by_a_decorator_is_reported(project):
    hidden = "def hide(f):\n    def inner(): return f()\n    return inner\n@hide\ndef secret(): return 1\n"
    project.load("low_g", hidden)
    project.edit("low_g", ("return 1", "return 2"))
    assert project.rows() == {("low_g", "secret", "edited")}


def test_modules_outside_the_project_are_ignored(project, tmp_path_factory):
    assert Drift().find_differences(str(tmp_path_factory.mktemp("empty"))) == []
    assert project.rows() == set()


def test_loaded_objects_are_not_inspected_if_only_files_are_compared(project):
    low = project.load("low_h", LOW)
    exec(compile("def rate(x): return 5", "<eval 7>", "exec"), low.__dict__)
    assert project.rows("edited") == set()
    assert project.rows() == {("low_h", "rate", "redefined")}


SHOP = """
import os
from dataclasses import dataclass
from enum import Enum
from functools import cached_property, partial
from math import ceil

TAX = {"a": 19, "b": 7}
HALF = 1 / 2
halve = lambda x: x / 2
twice = partial(max, 2)

class Status(Enum):
    PAID = 1
    OPEN = 2

@dataclass
class Line:
    price: int
    count: int = 1

class Base: pass

class Cart(Base):
    limit = 5
    __slots__ = ("a",)
    @property
    def size(self): return 1
    @size.setter
    def size(self, value): self.a = value
    @staticmethod
    def made(): return 1
    def total(self, lines=[]): return sum(lines)

if HALF:
    try:
        import json
    except ImportError:
        json = None

for one in TAX:
    TAX[one] += 1
"""


@pytest.mark.parametrize(
    ("old", "new", "row"),
    [
        ("19", "20", ("TAX", "edited", "")),
        ("1 / 2", "1 / 3", ("HALF", "edited", "")),
        ("x / 2", "x / 3", ("halve", "edited", "")),
        ("partial(max", "partial(min", ("twice", "edited", "")),
        ("PAID = 1", "PAID = 3", ("Status.PAID", "edited", "")),
        ("OPEN = 2", "OPEN = 2\n    GONE = 3", ("Status.GONE", "missing", "")),
        ("price: int", "price: float", ("Line.price", "edited", "")),
        ("count: int = 1", "count: int = 2", ("Line.count", "edited", "")),
        ("@dataclass", "@dataclass(frozen=True)", ("Line", "edited", "decorators")),
        ("Cart(Base)", "Cart", ("Cart", "edited", "bases")),
        ("Cart(Base)", "Cart(Base, metaclass=type)", ("Cart", "edited", "bases")),
        ("limit = 5", "limit = 6", ("Cart.limit", "edited", "")),
        ('("a",)', '("a", "b")', ("Cart.__slots__", "edited", "")),
        ("self.a = value", "self.a = 2", ("Cart.size", "edited", "")),
        ("@property", "@cached_property", ("Cart.size", "edited", "decorators")),
        ("@staticmethod", "@classmethod", ("Cart.made", "edited", "decorators")),
        ("lines=[]", "lines=()", ("Cart.total", "edited", "signature")),
        ("def total(self", "@partial\n    def total(self", ("Cart.total", "edited", "decorators")),
        ("import ceil", "import floor as ceil", ("ceil", "edited", "")),
        ("import os\n", "", ("os", "gone", "")),
        ("if HALF", "if not HALF", ("if not HALF:", "missing", "")),
        ("except ImportError", "except OSError", ("json", "edited", "the guard around it")),
        ("TAX[one] += 1", "TAX[one] += 2", ("TAX[one] += 2", "missing", "")),
        ("PAID = 1\n    OPEN = 2", "OPEN = 2\n    PAID = 1", ("Status.OPEN", "order", "")),
        ("class Base: pass", 'class Base: "A base."', ("Base", "docstring", "")),
        ("class Base: pass", "class Base: pass  # more", None),
    ],
)
def test_every_kind_of_statement_is_compared(project, old, new, row):
    project.load("shop_i", SHOP)
    assert project.parts() == set()
    project.edit("shop_i", (old, new))
    assert (row is None and not project.parts()) or row in project.parts()


def test_a_wrapped_function_under_a_second_name_is_not_reported_as_old(project):
    text = """
import functools
def gettext(x): return x
def lazy(f):
    @functools.wraps(f)
    def inner(*args): return f(*args)
    return inner
gettext_lazy = lazy(gettext)
def renamed(f):
    return type(f.__name__, (), {"__module__": __name__})
@renamed
class Made: pass
if False:
    class Typed:
        def only_for_types(self): ...
"""
    project.load("low_j", text)
    project.load("high_j", "from low_j import gettext_lazy, Made\nmade = Made()\n")
    assert project.rows() == set()


def test_names_rebound_by_other_code_are_reported_but_not_those_rebound_by_their_own_module(project):
    low = project.load("low_k", LOW + "\nclass Once:\n    _made = None\n    def make(self): Once._made = self\n")
    low.counted(), low.Once().make()
    assert project.rows() == set()
    high = project.load("high_k", "import low_k\ndef set_limit(): low_k.LIMIT = 9\n")
    high.set_limit()
    assert project.rows() == set(), "a function of another module does it"
    low.PAIR = (2, "b")
    low.Shape.sides = 5
    low.rate = lambda x: x
    low.Shape.area = lambda self: 7
    del low.cached
    names = {"PAIR", "Shape.sides", "rate", "Shape.area"}
    assert project.rows() == {*(("low_k", name, "redefined") for name in names), ("low_k", "cached", "missing")}


def test_an_imported_name_that_its_module_no_longer_defines_is_reported(project):
    project.load("low_l", LOW)
    project.load(
        "high_l", "from low_l import rate as price\ntry:\n    from low_l import rate\nexcept ImportError: ...\n"
    )
    project.edit("low_l", ("def rate", "def the_rate"))
    assert {("high_l", "price", "unbound")} < project.rows()
    project.edit("low_l", ("def the_rate", "def rate"))
    assert project.rows() == set()


def test_a_source_that_was_not_read_in_time_is_reported_as_unknown(project):
    project.write("low_m", LOW)
    importlib.invalidate_caches()
    project.names.append("low_m")
    importlib.import_module("low_m")
    project.texts.record_names()
    project.edit("low_m", ("x * 2", "x * 3"))
    assert project.rows() == {("low_m", "low_m.py", "unknown")}
