"""Lookups of attributes and source files delay no evaluation and run no user code."""

import os
import textwrap

import posix_only
import pytest
from worker_client import Repl, texts

LOOK_UPS = ("completions", "lookup", "codriver/names", "codriver/source", "codriver/drift")


@pytest.fixture
def repl(tmp_path):
    started = Repl(tmp_path)
    started.connect()
    yield started
    started.close()


def ask_all(repl, name):
    """Return the answers of all lookups of a name."""
    return {op: repl.ask(op, prefix=name, sym=name, name=name, root=str(repl.folder)) for op in LOOK_UPS}


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs a pipe")
def test_a_source_file_replaced_by_a_pipe_does_not_block(repl):
    file = repl.folder / "amod.py"
    file.write_text("def f():\n    return 1\n\n\nclass A:\n    x = 1\n")
    repl.evaluate("import amod, linecache; linecache.clearcache()")
    file.unlink()
    posix_only.make_pipe(file)
    for name in ("amod", "amod.f", "amod.A", "amod.A.x"):
        ask_all(repl, name)
    repl.ask("codriver/stacks")
    assert texts(repl.evaluate("1 + 1"), "value") == ["2"]


def test_a_source_file_replaced_by_a_huge_one_is_not_read(repl):
    file = repl.folder / "amod.py"
    file.write_text("def f():\n    return 1\n")
    repl.evaluate("import amod")
    file.unlink()
    with file.open("wb") as made:
        made.truncate(1 << 40)
    assert texts(ask_all(repl, "amod.f")["codriver/source"], "text") == []
    assert texts(repl.evaluate("1 + 1"), "value") == ["2"]


MADE_UP = """
import sys, time, types
ran = []
def wait(*words): ran.append(words); time.sleep(1e6)
m = sys.modules["m"] = types.ModuleType("m")
m.__dir__ = m.__getattr__ = wait
m.known = 1
class Meta(type):
    __dir__ = __getattr__ = wait
    def __getattribute__(cls, name): wait(cls, name)
class C(metaclass=Meta):
    known = 1
class D:
    __dir__ = __getattr__ = wait
    __class__ = property(wait)
    __dict__ = property(wait)
    known = 1
    def __getattribute__(self, name): wait(name)
d = D()
class Late(types.ModuleType):
    def __getattribute__(self, name): wait(name)
late = sys.modules["late"] = Late("late")
vars(types.ModuleType)["__dict__"].__get__(late)["known"] = 1
"""


@pytest.mark.parametrize("holder", ["m", "C", "d", "late"])
def test_completion_runs_no_user_code(repl, holder):
    repl.evaluate(MADE_UP)
    (found,) = texts(repl.ask("completions", prefix=holder + ".kn"), "completions")
    assert [item["candidate"] for item in found] == [holder + ".known"]
    for op, name in (("completions", holder + ".kn.own."), ("codriver/names", "*kn*"), ("codriver/names", holder)):
        repl.ask(op, prefix=name, name=name)
    assert texts(repl.evaluate("ran"), "value") == ["[]"]


WAITS = """
import time
class K:
    def __call__(self): return 1
    @property
    def __signature__(self): time.sleep(1e6)
k = K()
"""


def test_an_endless_lookup_delays_neither_evaluations_nor_interrupts(repl):
    repl.evaluate(WAITS)
    repl.send("lookup", sym="k")
    assert texts(repl.evaluate("1 + 1"), "value") == ["2"]
    running = repl.send("eval", code="print('begun', flush=True)\ntime.sleep(1e6)")
    repl.ask("interrupt", **{"interrupt-id": running})
    assert "interrupted" in repl.answer(running)[-1]["status"]


SOURCE = '''
import functools

if True:
    class Nested:
        """Nested."""
        class Inner:
            def method(self):
                return 1

@functools.lru_cache(None)
def cached(a, *, b=2):
    """Cached.

    In two parts.
    """
    return a


def plain(): pass
short = lambda x: x + 1
'''


@pytest.mark.parametrize(
    ("name", "line", "first", "last"),
    [
        ("cached", 11, "@functools.lru_cache(None)", "    return a"),
        ("plain", 20, "def plain(): pass", "def plain(): pass"),
        ("short", 21, "short = lambda x: x + 1", "short = lambda x: x + 1"),
        ("Nested", 5, "class Nested:", "            return 1"),
        ("Nested.Inner", 7, "class Inner:", "        return 1"),
        ("Nested.Inner.method", 8, "def method(self):", "    return 1"),
    ],
)
def test_definitions_are_found_in_their_files(repl, name, line, first, last):
    (repl.folder / "amod.py").write_text(SOURCE)
    repl.evaluate("import amod")
    (answer,) = repl.ask("codriver/source", name="amod." + name)
    lines = textwrap.dedent(answer["text"]).rstrip("\n").split("\n")
    assert (answer["line"], answer["file"], lines[0], lines[-1]) == (line, str(repl.folder / "amod.py"), first, last)
    info = texts(repl.ask("lookup", sym="amod." + name), "info")[0]
    assert (info["line"], info["file"]) == (line, str(repl.folder / "amod.py"))


def test_symbols_are_described(repl):
    (repl.folder / "amod.py").write_text(SOURCE)
    repl.evaluate("import amod, string\nclass P:\n    '''Of P.'''\nclass Q(P): pass\nq = Q()\np = P()")
    known = {name: texts(repl.ask("lookup", sym=name), "info")[0] for name in ("amod.cached", "Q", "p", "len", "amod")}
    assert known["amod.cached"]["doc"] == "Cached.\n\nIn two parts."
    assert (known["amod.cached"]["ns"], known["amod.cached"]["arglists-str"]) == ("amod", "(a, *, b=2)")
    assert ("doc" in known["Q"], known["p"]["doc"]) == (False, "Of P.")
    assert (known["len"]["ns"], known["len"]["doc"][:10]) == ("builtins", "Return the")
    assert known["amod"]["file"] == str(repl.folder / "amod.py")
    assert texts(repl.ask("lookup", sym="nothing.there"), "status") == [["done", "no-info"]]
