"""Count edits after which a process differs from a new one, how many are reported, and false reports.

Run it with Codriver's own interpreter, and name one that has flask, fastapi, click, sqlalchemy, pydantic and attrs:
`python tests/bench/drift_accuracy.py --python ENV/bin/python [NAME…]`. Each case consists of two sources `m` and `n` that
use each other, an edit of `m`, a use of it, and an expression that is evaluated in the REPL and in a new process.
"""

# ruff: noqa: E501  # one case a line

import argparse
import contextlib
import json
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT / "server"), str(ROOT / "tests" / "support")]

from worker_client import Repl, text, texts  # noqa: E402  # after the path

WAIT_MS = 120_000
INVISIBLE = {"closure default", "bound method", "new hash", "old instance", "lazy global"}
"""Cases that no import can show."""


@dataclass(frozen=True)
class Case:
    """One edit: `old` becomes `new` in the source of `m`; `expression` is compared, after `use` before the edit."""

    name: str
    m: str
    old: str
    new: str
    expression: str
    n: str = ""
    use: str = "1"


FLASK = "from flask import Flask\napp = Flask('a')\n@app.route('/')\ndef index(): return 'one'\n"
ROUTES = "sorted(str(one) for one in m.app.url_map.iter_rules())"
CLICK = "import click\n@click.group()\ndef cli(): pass\n@cli.command()\ndef go(): pass\n"
FASTAPI = "from fastapi import FastAPI\napp = FastAPI(title='a')\n@app.get('/x')\ndef index(): return 1\n"
REG = "REG = {}\ndef reg(f):\n    REG[f.__name__] = f\n    return f\n@reg\ndef a(): return 1\n"
META = (
    "class T(type):\n    def __new__(k, n, b, s):\n        s['tag'] = 1\n        return super().__new__(k, n, b, s)\n"
)
CASES = [
    Case("derived value", "LIMIT = 3\n", "3", "4", "n.TWICE", "import m\nTWICE = m.LIMIT * 2\n"),
    Case("derived default", "LIMIT = 3\n", "3", "4", "n.f()", "import m\ndef f(x=m.LIMIT): return x\n"),
    Case("imported value", "LIMIT = 3\n", "3", "4", "n.LIMIT", "from m import LIMIT\n"),
    Case("value in a table", "LIMIT = 3\n", "3", "4", "n.T", "import m\nT = {'a': [m.LIMIT]}\n"),
    Case("class attribute", "LIMIT = 3\n", "3", "4", "n.C.x", "import m\nclass C: x = m.LIMIT\n"),
    Case("built by a function", "def build(): return [1]\nT = build()\n", "[1]", "[2]", "m.T"),
    Case("built elsewhere", "def build(): return [1]\n", "[1]", "[2]", "n.T", "import m\nT = m.build()\n"),
    Case("list that is filled", "X = [1]\nX.append(2)\n", "[1]", "[5]", "m.X"),
    Case("list that is added to", "X = [1]\nX += [2]\n", "[1]", "[5]", "m.X"),
    Case("what is added", "X = [1]\nX += [2]\n", "[2]", "[3]", "m.X"),
    Case("registry by a decorator", REG, "REG = {}", "REG = dict()", "sorted(m.REG)"),
    Case("filled by another", "X = {}\n", "{}", "dict()", "m.X", "import m\nm.X['n'] = 1\n"),
    Case("parser", "import argparse\np = argparse.ArgumentParser(prog='a')\np.add_argument('--x')\n", "prog='a'", "prog='b'", "m.p.format_usage()"),
    Case("logger", "import logging\nlog = logging.getLogger('one')\nlog.setLevel(10)\n", "'one'", "'two'", "m.log.level"),
    Case("guard", "FAST = True\nif FAST:\n    def f(): return 'fast'\nelse:\n    def f(): return 'slow'\n", "FAST = True", "FAST = False", "m.f()"),
    Case("attribute by a statement", "class C: pass\nC.extra = 1\n", "C.extra = 1\n", "", "hasattr(m.C, 'extra')"),
    Case("decorator's local", "def deco(f):\n    k = 10\n    def w(): return f() * k\n    return w\n@deco\ndef f(): return 2\n", "k = 10", "k = 30", "m.f()"),
    Case("metaclass", META + "class C(metaclass=T): pass\n", "= 1", "= 2", "m.C.tag"),
    Case("init_subclass", "class B:\n    def __init_subclass__(cls): cls.tag = 1\nclass C(B): pass\n", "tag = 1", "tag = 2", "m.C.tag"),
    Case("enumeration", "import enum\nclass E(enum.Enum):\n    A = enum.auto()\n    B = enum.auto()\n", "    B", "    N = enum.auto()\n    B", "[(one.name, one.value) for one in m.E]"),
    Case("singledispatch", "import functools\n@functools.singledispatch\ndef show(x): return 'any'\n@show.register\ndef s(x: int): return 'int'\n", "def show(x): return 'any'", "def show(x, y=0): return 'any'", "m.show(1)"),
    Case("second underscore", "import functools\n@functools.singledispatch\ndef show(x): return 'any'\n@show.register\ndef _(x: int): return 'int'\n", "return 'int'\n", "return 'int'\n@show.register\ndef _(x: str): return 'str'\n", "m.show(1), m.show('a')"),
    Case("abstract method", "import abc\nclass B(abc.ABC):\n    def f(self): return 1\nclass X(B): pass\n", "    def f", "    @abc.abstractmethod\n    def f", "sorted(m.X.__abstractmethods__)"),
    Case("property with setter", "class C:\n    @property\n    def v(self): return 1\n    @v.setter\n    def v(self, x): self.w = x\n", "    @property\n    def v(self): return 1", "    @property\n    def v(self, k=2): return k", "m.C.v.fset is None"),
    Case("star import", "def a(): return 1\n", "def a", "def b(): return 2\ndef a", "hasattr(n, 'b')", "from m import *\n"),
    Case("docstring", "def f():\n    'one'\n    return 1\n", "'one'", "'two'", "m.f.__doc__"),
    Case("dataclass default", "from dataclasses import dataclass\n@dataclass\nclass A:\n    x: int = 1\n", "= 1", "= 2", "m.A().x"),
    Case("dataclass base", "from dataclasses import dataclass\n@dataclass\nclass A:\n    x: int = 1\n", "x: int = 1\n", "x: int = 1\n    y: int = 2\n", "repr(n.B())", "from dataclasses import dataclass\nfrom m import A\n@dataclass\nclass B(A):\n    z: int = 3\n"),
    Case("base in another module", "class A:\n    def f(self): return 1\n", "return 1", "return 2", "n.B().f()", "from m import A\nclass B(A): pass\n"),
    Case("partial", "import functools\ndef f(a, b): return a, b\ng = functools.partial(f, 1)\n", "(f, 1)", "(f, 2)", "m.g(0)"),
    Case("named tuple", "from collections import namedtuple\nP = namedtuple('P', 'x y')\n", "'x y'", "'x y z'", "m.P._fields"),
    Case("compiled pattern", "import re\nA = 'a'\nP = re.compile(A)\n", "A = 'a'", "A = 'b'", "m.P.pattern"),
    Case("flask", FLASK, "Flask('a')", "Flask('b')", f"m.app.name, {ROUTES}"),
    Case("flask route", FLASK, "'/'", "'/x'", ROUTES),
    Case("click group", CLICK, "@click.group()", "@click.group(help='h')", "m.cli.help, sorted(m.cli.commands)"),
    Case("click option", CLICK.replace("def go", "@click.option('--a')\ndef go"), "'--a'", "'--b'", "[one.name for one in m.cli.commands['go'].params]"),
    Case("fastapi", FASTAPI, "title='a'", "title='b'", "m.app.title, [one.path for one in m.app.routes][-1]"),
    Case("pydantic base", "from pydantic import BaseModel\nclass A(BaseModel):\n    x: int = 1\n", "x: int = 1\n", "x: int = 1\n    y: int = 2\n", "sorted(n.B.model_fields)", "from m import A\nclass B(A): z: int = 1\n"),
    Case("attrs", "import attrs\n@attrs.define\nclass A:\n    x: int = 1\n", "= 1", "= 2", "m.A().x"),
    Case("sqlalchemy column", "from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column\nclass Base(DeclarativeBase): pass\nclass U(Base):\n    __tablename__ = 'u'\n    id: Mapped[int] = mapped_column(primary_key=True)\n", "primary_key=True)\n", "primary_key=True)\n    name: Mapped[str]\n", "sorted(one.name for one in m.U.__table__.columns)"),
    Case("lru_cache of a callee", "import functools\ndef low(x): return x\n@functools.lru_cache\ndef f(x): return low(x)\n", "return x\n", "return x * 2\n", "m.f(1)", use="m.f(1)"),
    Case("cached_property of a callee", "import functools\ndef low(x): return x\nclass C:\n    @functools.cached_property\n    def v(self): return low(1)\n", "return x\n", "return x * 2\n", "c.v", use="c = m.C(); c.v"),
    Case("held lambda", "F = []\ndef fill(): F.append(lambda: 1)\nfill()\n", "lambda: 1", "lambda: 2", "m.F[0]()"),
    Case("lambda in another's list", "import n\nn.F.append(lambda: 1)\n", "lambda: 1", "lambda: 2", "[f() for f in n.F]", "F = []\n"),
    Case("generator", "def g():\n    yield 1\n    yield 2\n", "yield 2", "yield 3", "next(it)", use="it = m.g(); next(it)"),
    Case("closure default", "def make():\n    def f(x=1): return x\n    return f\n", "x=1", "x=2", "f()", use="f = m.make()"),
    Case("bound method", "class C:\n    def f(self): return 1\nb = C().f\n", "def f(self): return 1", "def f(self, x=0): return 2", "m.b()"),
    Case("old instance", "class C:\n    def __init__(self): self.x = 1\n", "x = 1", "x = 2", "c.x", use="c = m.C()"),
    Case("lazy global", "X = None\ndef get():\n    global X\n    X = X or [1]\n    return X\n", "[1]", "[2]", "m.get()", use="m.get()"),
    *[
        Case(f"right: {name}", source, old, new, requested, n, use)
        for name, source, old, new, requested, n, use in (
            ("body", "def f(): return 1\n", "1", "2", "m.f()", "from m import f\n", "1"),
            ("default", "def f(x=1): return x\n", "1", "2", "m.f()", "from m import f\n", "1"),
            ("constant", "X = 1\n", "1", "2", "m.X", "", "1"),
            ("method", "class C:\n    def f(self): return 1\n", "1", "2", "c.f()", "", "c = m.C()"),
            ("counter", "N = 0\nK = 1\ndef f():\n    global N\n    N += K\n    return K\n", "K = 1", "K = 2", "m.f()", "", "m.f()"),
            ("memo", "SEEN = {}\nK = 1\ndef f(x):\n    SEEN[x] = x\n    return K\n", "K = 1", "K = 2", "m.f(1)", "", "m.f(1)"),
            ("new function", "def f(): return 1\n", "def f", "def g(): return 2\ndef f", "m.g()", "", "1"),
            ("removed function", "def f(): return 1\ndef g(): return 2\n", "def g(): return 2\n", "", "hasattr(m, 'g')", "", "1"),
            ("used flask", FLASK, "'one'", "'two'", "m.app.test_client().get('/').text", "", "m.app.test_client().get('/')"),
            ("used click", CLICK, "def go(): pass", "def go(): return 5", "m.go.callback()", "", "m.cli.commands"),
            ("lock and thread", "import threading\nL = threading.Lock()\nK = 1\n", "K = 1", "K = 2", "m.K", "", "m.L.acquire()"),
            ("queue", "import queue\nQ = queue.Queue()\nK = 1\n", "K = 1", "K = 2", "m.K", "", "m.Q.put(1)"),
            ("database in memory", "import sqlite3\nD = sqlite3.connect(':memory:')\nK = 1\n", "K = 1", "K = 2", "m.K", "", "m.D.execute('create table t (x)')"),
            ("random and time", "import random, time\nR = random.random()\nT = time.time()\nK = 1\n", "K = 1", "K = 2", "m.K", "", "1"),
            ("iterator", "import itertools\nI = itertools.count()\nK = 1\n", "K = 1", "K = 2", "m.K", "", "next(m.I)"),
            ("weak references", "import weakref\nclass C: pass\nW = weakref.WeakSet()\nK = 1\n", "K = 1", "K = 2", "m.K", "", "c = m.C(); m.W.add(c)"),
            ("mock", "def f(): return 1\nK = 1\n", "K = 1", "K = 2", "m.K", "", "from unittest import mock; mock.patch('m.f').start(); mock.patch.stopall()"),
        )
    ],
]  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--python", default=sys.executable)
    requested = parser.parse_args()
    counts = {}
    for case in CASES:
        if not requested.names or case.name in requested.names:
            verdict, reported = judged(case, requested.python)
            counts[verdict] = counts.get(verdict, 0) + 1
            sys.stdout.write(f"{verdict:12} {case.name}: {'; '.join(reported)[:160]}\n")
            sys.stdout.flush()
    sys.stdout.write(f"{counts}\n")


def judged(case, python):
    """Return the outcome of a case, and what was reported."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place).resolve()
        (folder / "m.py").write_text(case.m)
        (folder / "n.py").write_text(case.n)
        with contextlib.closing(Repl(folder, "--supervised", python=python)) as repl:
            repl.connect()
            failure = text(repl.evaluate(f"import m, n\n{case.use}"), "err")
            if failure:
                return "broken", [failure[-100:]]
            (folder / "m.py").write_text(source := case.m.replace(case.old, case.new, 1))
            failure = text(repl.ask("load-file", file=source, **{"file-path": str(folder / "m.py")}), "err")
            if failure:
                return "failed", [failure.splitlines()[-1]]
            rows = [row for item in texts(repl.ask("codriver/drift", root=place, only="old"), "rows") for row in item]
            (found,) = texts(repl.ask("codriver/fresh", wait=WAIT_MS, patient=1), "finding")
            live = text(repl.evaluate(f"print(repr(({case.expression})))"), "out")
        code = f"import m, n\n{case.use}\nprint(repr(({case.expression})))"
        ran = subprocess.run(
            [python, "-B", "-X", f"pycache_prefix={place}/none", "-c", code],
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
        )
    leaves = [
        f"{row['name']} {row.get('live')} -> {row.get('fresh')}" for row in (json.loads(found) or {"rows": []})["rows"]
    ]
    notes = [
        f"({row['name']} {row['kind']})"
        for row in rows
        if row["kind"] not in ("renewed", "removed", "emptied", "unchanged")
    ]
    is_right = live == ran.stdout
    if is_right:
        return ("FALSE" if leaves else "right"), leaves
    if leaves or notes:
        return ("found" if leaves else "noted"), leaves + notes
    return ("invisible" if case.name in INVISIBLE else "SILENT"), [
        f"{live.strip()} for {ran.stdout.strip()} {ran.stderr[-80:]}"
    ]


if __name__ == "__main__":
    main()
