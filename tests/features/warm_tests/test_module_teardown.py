"""Preloaded modules are left out of the teardown of modules at exit only if nobody can notice it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from codriver.features.warm_tests import child

PROGRAM = f"""
import gc, sys, types
sys.path.insert(0, {str(Path(child.__file__).parents[1])!r})
from child.module_teardown import ModuleTeardown
teardown = ModuleTeardown(gc)
import json, socket, sqlite3
made = types.ModuleType("made")
made.__file__ = "made.py"
sys.modules["made"] = made
exec(PRELOADED, vars(made))
library = {{"json": json, "made": made}}
gc.collect()
teardown.check_preloaded(library)
gc.freeze()
exec(CREATED, {{"made": made, "__name__": "workspace"}})
teardown.remove(library)
print("json" not in sys.modules)
"""
HARMLESS = {
    "nothing": "pass",
    "containers": "made.cache = {1: [2, {3}], 'self': made}",
    "functions and classes": "made.cache = [lambda: 1, print, made, type('C', (), {'__module__': 'made'})()]",
    "a closed file": "made.cache = open(made.path); made.cache.close()",
    "files in memory": "import io; made.cache = [io.StringIO(), io.BytesIO()]",
    "a finished generator": "made.cache = made.count(); list(made.cache)",
    "objects of the standard library": (
        "import collections, datetime, functools, re, decimal, threading, enum, pathlib\n"
        "made.cache = [collections.deque([[]]), functools.partial(print, []), re.compile('a'), threading.Lock(),\n"
        "    collections.OrderedDict(a=[]), enum.Enum('E', 'A', module='made'), pathlib.Path('a'),\n"
        "    threading.local(), iter([[]])]"
    ),
    "an exception with its frames": "try: made.fail()\nexcept ZeroDivisionError as error: made.cache = error",
}
NOTICEABLE = {
    "an open file": "made.cache = open(made.path)",
    "a file that is being written": "made.cache = [open(made.path, 'a')]; made.cache[0].write('a')",
    "a socket": "import socket; made.cache = socket.socket()",
    "a method __del__": "made.cache = type('C', (), {'__del__': lambda self: None})()",
    "an inherited method __del__": "made.cache = type('D', (type('C', (), {'__del__': lambda self: None}),), {})()",
    "a suspended generator": "made.cache = made.count(); next(made.cache)",
    "a suspended coroutine": "async def wait(): await made\nmade.cache = wait()",
    "a callback of the workspace": (
        "import weakref\nmade.cache = [{1}]; made.cache.append(weakref.ref(made.cache[0], lambda _: 1))"
    ),
    "a class without a module": (
        "class M(type): pass\n"
        "made.cache = M('C', (), {})()\n"
        "import gc; del gc.get_referents(vars(type(made.cache)))[0]['__module__']"
    ),
    "a class whose metaclass fails": (
        "def fail(*_): raise ValueError\n"
        "made.cache = type('M', (type,), {'__getattribute__': fail, '__module__': 'made'})('C', (), {})()"
    ),
    "an object of a native library": "made.cache = made.Native([])",
}
LIBRARY = f"""
path = {os.devnull!r}
def count(): yield from range(3)
def fail(): 1 / 0
Native = type("Native", (list,), {{"__module__": "native"}})
"""


def removes(created, preloaded=""):
    """Return whether the modules were removed after code had created objects."""
    code = f"PRELOADED, CREATED = {LIBRARY + preloaded!r}, {created!r}\n{PROGRAM}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    return done.stdout == "True\n"


@pytest.mark.parametrize("created", HARMLESS.values(), ids=HARMLESS)
def test_the_teardown_is_skipped_after_harmless_objects(created):
    assert removes(created)


@pytest.mark.parametrize("created", NOTICEABLE.values(), ids=NOTICEABLE)
def test_modules_are_torn_down_if_deleting_an_object_may_have_an_effect(created):
    assert not removes(created)


@pytest.mark.parametrize(
    "preloaded", ["f = open(path)", "class C:\n  def __del__(self): 1\nc = C()"], ids=["file", "del"]
)
def test_modules_are_torn_down_if_a_preloaded_object_has_an_effect_when_it_is_deleted(preloaded):
    assert not removes("pass", preloaded)
