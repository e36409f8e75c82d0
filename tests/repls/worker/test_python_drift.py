"""What is loaded is compared with the files: by what code does, and without running any of it."""

import importlib
import sys

import pytest

from codriver.repls.worker.python_drift import Drift

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
    """Modules in a folder, imported and forgotten again."""

    def __init__(self, folder):
        self.folder = folder
        self.drift = Drift()
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
        return importlib.import_module(name)

    def rows(self, only=""):
        return {(row["module"], row["name"], row["kind"]) for row in self.drift.rows(str(self.folder), only)}


@pytest.fixture
def project(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    made = Project(tmp_path)
    yield made
    for name in made.names:
        sys.modules.pop(name, None)


def test_what_is_as_its_file_is_no_difference(project):
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


def test_what_the_file_or_a_metaclass_takes_out_again_is_no_difference(project):
    """As the `Meta` of each model of Django, and a method that is there but to be called by other names."""
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
def test_an_edit_of_the_file_is_told_by_name(project, change, name, kind):
    project.load("low_b", LOW)
    assert project.rows() == set()
    project.edit("low_b", change)
    found = project.rows()
    assert ("low_b", name, kind) in found
    assert {kind for _, _, kind in found} <= {"edited", "gone", "missing"}
    assert len(found) <= 2


def test_what_was_evaluated_is_redefined_or_only_there(project):
    low = project.load("low_c", LOW)
    exec(compile("def rate(x): return 5\ndef extra(): return 1", "<eval 7>", "exec"), low.__dict__)
    assert project.rows() == {("low_c", "rate", "redefined"), ("low_c", "extra", "gone")}


def test_a_name_that_was_imported_before_a_reload_is_old(project):
    low = project.load("low_d", LOW)
    project.load("high_d", "from low_d import rate, Shape, decorated\nmade = [Shape(), Shape()]\n")
    assert project.rows() == set()
    importlib.reload(low)
    old = {("high_d", name, "old") for name in ("rate", "Shape", "decorated")} | {("low_d", "Shape", "instances")}
    assert project.rows() == old
    assert project.rows("old") == old
    counted = next(row for row in project.drift.rows(str(project.folder)) if row["kind"] == "instances")
    assert counted["of"] == "2"


def test_no_user_code_is_run(project):
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
def test_a_file_that_cannot_be_read_is_no_difference(project, text):
    project.load("low_f", LOW)
    project.write("low_f", text)
    assert project.rows() == set()
    (project.folder / "low_f.py").unlink()
    assert project.rows() == set()


def test_what_a_decorator_hides_is_not_judged(project):
    hidden = "def hide(f):\n    def inner(): return f()\n    return inner\n@hide\ndef secret(): return 1\n"
    project.load("low_g", hidden)
    project.edit("low_g", ("return 1", "return 2"))
    assert project.rows() == set()


def test_modules_elsewhere_are_none_of_the_projects(project, tmp_path_factory):
    assert Drift().rows(str(tmp_path_factory.mktemp("empty"))) == []
    assert project.rows() == set()


def test_files_that_were_written_before_the_worker_began_are_not_read_for_their_edits(project):
    low = project.load("low_h", LOW)
    exec(compile("def rate(x): return 5", "<eval 7>", "exec"), low.__dict__)
    assert project.rows("edited") == {("low_h", "rate", "redefined")}
    project.drift._began_ns += 60 * 10**9
    assert project.rows("edited") == set()
    assert project.rows() == {("low_h", "rate", "redefined")}
