"""Count how many random edits of loaded libraries are reported as drift, and how many unchanged libraries are.

Run it with an interpreter that has the libraries: `python tests/bench/drift_edits.py [--edits N] [--seed N] NAME…`.
Each library is copied into a directory of its own, imported from there and used. Then the syntax tree of one file at a
time is changed, compared and restored. The interpreter's own libraries are never written.
"""

import argparse
import ast
import copy
import gc
import importlib
import importlib.util
import random
import shutil
import sys
import tempfile
import time
import types
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "server"))

from codriver.repls.worker.basics.undo_records import UndoRecords
from codriver.repls.worker.python.live_functions import FileCodes
from codriver.repls.worker.python.loaded_sources import MAX_CLOCK_DIFFERENCE_NS, LoadedSources
from codriver.repls.worker.python.module_loads import ModuleLoad
from codriver.repls.worker.python.python_drift import Drift
from codriver.repls.worker.python.renewal import is_same_code
from codriver.repls.worker.python.statements import SourceText

USES = {
    "django": """
import django; from django.conf import settings
settings.configure(INSTALLED_APPS=["django.contrib.contenttypes", "django.contrib.auth", "django.contrib.admin",
    "django.contrib.sessions", "django.contrib.messages"], SECRET_KEY="x", ALLOWED_HOSTS=["*"],
    DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}})
django.setup()
from django.core.management import call_command; call_command("migrate", verbosity=0)
from django.contrib.auth.models import User; User.objects.create(username="a"); list(User.objects.filter(username="a"))
from django.test import Client, RequestFactory; import django.contrib.admin.sites; RequestFactory().get("/")
from django import forms; forms.CharField().clean("a")""",
    "sqlalchemy": """
from sqlalchemy import *; from sqlalchemy.orm import *
class Base(DeclarativeBase): pass
class User(Base):
    __tablename__ = "user"; id = mapped_column(Integer, primary_key=True); name = mapped_column(String)
engine = create_engine("sqlite://"); Base.metadata.create_all(engine)
with Session(engine) as session: session.add(User(name="a")); session.commit(); session.scalars(select(User)).all()""",
    "sympy": """
from sympy import *; x = symbols("x"); solve(x**2 - 2, x)
integrate(sin(x), x); Dummy("a"); Matrix([[1, 2], [3, 4]]).inv()
latex(x**2); series(cos(x), x); simplify(sin(x)**2 + cos(x)**2)""",
    "networkx": """
import networkx as nx; g = nx.karate_club_graph(); nx.pagerank; nx.shortest_path(g, 0, 33)
nx.betweenness_centrality(g)
list(nx.connected_components(g)); nx.minimum_spanning_tree(g); nx.to_dict_of_dicts(g)""",
    "matplotlib": """
import matplotlib; matplotlib.use("Agg"); import matplotlib.pyplot as plt, io
plt.plot([1, 2, 3]); plt.title("a"); plt.legend(["x"])
plt.savefig(io.BytesIO()); plt.hist([1, 2, 2]); plt.close("all")""",
    "pandas": """
import pandas as pd; d = pd.DataFrame({"a": [1, 2, 2], "b": list("xyz")})
d.groupby("a").sum(); d.describe(); repr(d)
d.merge(d, on="a"); pd.to_datetime(["2020-01-01"]); d.to_csv(); d.pivot_table(index="a", aggfunc="count")""",
    "pytest": """
import pytest, _pytest, tempfile, os; f = tempfile.mkdtemp()
file = open(f + "/test_a.py", "w")
file.write("def test_a(tmp_path): assert 1"); file.close()
pytest.main(["-q", "-p", "no:cacheprovider", f])""",
    "flask": """
from flask import Flask, jsonify; app = Flask("a")
@app.route("/")
def index(): return jsonify(a=1)
app.test_client().get("/")""",
    "jinja2": 'from jinja2 import Environment\n'
    'Environment().from_string("{% for a in b %}{{ a|upper }}{% endfor %}").render(b="ab")',
    "marshmallow": """
from marshmallow import Schema, fields
class A(Schema): a = fields.Int(required=True)
A().load({"a": 1}); A().dump({"a": 1})""",
    "click": """
import click; from click.testing import CliRunner
@click.command()
@click.option("--a", default=1)
def main(a): click.echo(a)
CliRunner().invoke(main, ["--a", "2"])""",
    "aiohttp": "import aiohttp, aiohttp.web, asyncio; app = aiohttp.web.Application(); app.router.add_get('/', print)",
    "attr": "import attr, attrs\n@attrs.define\nclass A: a: int = 1\nA(2) == A(3); attrs.asdict(A())",
    "boltons": "from boltons import iterutils, strutils, cacheutils, dictutils\n"
    "iterutils.chunked(range(9), 2); cacheutils.LRU(max_size=2)['a'] = 1",
    "more_itertools": "import more_itertools as m; list(m.chunked(range(9), 2)); list(m.windowed(range(4), 2))",
    "fastapi": "from fastapi import FastAPI; app = FastAPI()\n@app.get('/')\n"
    "def index(a: int = 1): return a\napp.openapi()",
    "pydantic": "from pydantic import BaseModel\nclass A(BaseModel): a: int = 1\nA(a='2'); A.model_json_schema()",
    "starlette": "from starlette.applications import Starlette; from starlette.routing import Route\n"
    "Starlette(routes=[Route('/', print)])",
    "werkzeug": "from werkzeug.test import Client, EnvironBuilder; from werkzeug.wrappers import Request\n"
    "Request(EnvironBuilder().get_environ()).args",
    "httpx": "import httpx; httpx.Request('GET', 'http://a/'); httpx.Client()",
}  # fmt: skip
CHILDREN = ("body", "orelse", "finalbody")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="+")
    parser.add_argument("--edits", type=int, default=0)
    parser.add_argument("--loads", type=int, default=0)
    parser.add_argument("--seed", type=int, default=7)
    requested = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        root = Path(place).resolve()
        for name in [*requested.names, *({"_pytest"} if "pytest" in requested.names else ())]:
            lay(name, root)
        sys.path.insert(0, place)
        texts = LoadedSources()
        texts.start_recording()
        drift = Drift(texts)
        # Compiled modules count by their age.
        time.sleep(MAX_CLOCK_DIFFERENCE_NS / 10**9 + 0.5)
        texts.record_names()
        for name in requested.names:
            space = {"__name__": f"use_of_{name}"}
            for statement in ast.parse(USES.get(name, f"import {name}")).body:
                exec(compile(ast.Module([statement], []), "<eval 1>", "exec"), space)
                texts.record_names()
            texts.read_recent_sources()
        report(drift, texts, root)
        if requested.edits:
            edit(drift, texts, root, random.Random(requested.seed), requested.edits)
        if requested.loads:
            load(drift, texts, root, random.Random(requested.seed), requested.loads)


def print_line(words):
    sys.stdout.write(words + "\n")


def lay(name, root):
    """Copy a package, or a module, into the folder."""
    spec = importlib.util.find_spec(name)
    if spec.submodule_search_locations:
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(spec.submodule_search_locations[0], root / name, ignore=ignored)
    else:
        shutil.copy(spec.origin, root)


def loads_below(texts, root):
    return {name: load for name, load in texts.loads.items() if load.file.startswith(str(root))}


def report(drift, texts, root):
    rows = drift.find_differences(str(root))
    loads = loads_below(texts, root)
    began = time.perf_counter()
    drift.find_differences(str(root))
    took = (time.perf_counter() - began) * 1000
    began = time.perf_counter()
    drift.find_differences(str(root), "edited")
    took_text = (time.perf_counter() - began) * 1000
    size = sum(len(load.data or b"") for load in loads.values())
    kept = sum(load.stored_bytes for load in loads.values())
    print_line(f"untouched: {len(rows)} rows of {len(loads)} files ({size >> 10} KiB, kept as {kept >> 10});"
          f" asked again: {took:.1f} ms, the texts alone {took_text:.1f} ms")  # fmt: skip
    for row in rows[:20]:
        print_line(f"    {row}")
    for load in loads.values():
        if load.data is None and load.file.endswith(".py"):
            print_line(f"    no text: {load.file}")


def edit(drift, texts, root, chance, edits):
    files = sorted({load.file for load in loads_below(texts, root).values() if load.data and len(load.data) < 2**18})
    found, kinds, one_row = 0, {}, 0
    slow = []
    for _ in range(edits):
        file = Path(chance.choice(files))
        before = file.read_bytes()
        made = mutated(before, chance)
        if made is None:
            continue
        kind, text = made
        file.write_text(text, encoding="utf-8")
        began = time.perf_counter()
        rows = [row for row in drift.find_differences(str(root), "edited") if row["kind"] not in ("unbound", "unknown")]
        slow.append(time.perf_counter() - began)
        file.write_bytes(before)
        kinds.setdefault(kind, [0, 0])[0] += 1
        kinds[kind][1] += bool(rows)
        found += bool(rows)
        one_row += len(rows) == 1
        if not rows:
            print_line(f"missed: {kind} {file}")
    drift.find_differences(str(root), "edited")
    total = sum(made for made, _ in kinds.values())
    print_line(
        f"found {found} of {total} edits, {len(kinds)} kinds, {one_row} by one row;"
        f" {1000 * sum(slow) / len(slow):.1f} ms each"
    )
    for kind, (made, reported) in sorted(kinds.items()):
        print_line(f"    {kind}: {reported} of {made}")


def load(drift, texts, root, chance, loads):
    """Edit a body, load the file and revert the edit.

    Return how many loads left a function with code from an earlier text.
    """
    names = sorted({name for name, item in loads_below(texts, root).items() if item.data and len(item.data) < 2**18})
    done, left, ran, slow = 0, 0, 0, []
    while done < loads:
        name = chance.choice(names)
        file = Path(texts.find_load(name).file)
        before = file.read_text(encoding="utf-8")
        text = with_another_body(before, chance)
        if text is None:
            continue
        for now in (text, before):
            file.write_text(now, encoding="utf-8")
            began = time.perf_counter()
            item = ModuleLoad(name, str(file), now, UndoRecords([]).record_for(""), drift, home=sys)
            item.prepare()
            steps = item.plan_steps()
            ran += len(steps)
            item.finish(has_failed=False)
            slow.append(time.perf_counter() - began)
        done += 1
        left += stale(str(file), now)
    print_line(f"{2 * done} loads of another body: {left} left a former code, {ran} statements ran;"
        f" {1000 * sorted(slow)[len(slow) // 2]:.1f} ms at the median;"
        f" {len(drift.find_differences(str(root)))} rows afterwards")  # fmt: skip


def with_another_body(text, chance):
    """Return the text with a constant of a function replaced, without moving any line, or None if it has none."""
    tree = ast.parse(text)
    functions = [node for node in ast.walk(tree) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))]
    if not functions:
        return None
    inner = [item for body in chance.choice(functions).body[1:] for item in ast.walk(body)]
    found = [item for item in inner if isinstance(item, ast.Constant) and type(item.value) is int and item.value < 9]
    if not found:
        return None
    node, lines = chance.choice(found), text.splitlines(keepends=True)
    line = lines[node.lineno - 1].encode()
    lines[node.lineno - 1] = (line[: node.col_offset] + b"7" + line[node.end_col_offset :]).decode()
    return "".join(lines)


def stale(file, text):
    """Return whether a function of the file still has code that the text does not contain."""
    codes = FileCodes(SourceText(text, file), file).read_all
    places = {(item.co_name, item.co_firstlineno): item for item in codes}
    for found_object in gc.get_objects():
        if type(found_object) is types.FunctionType and found_object.__code__.co_filename == file:
            code = places.get((found_object.__code__.co_name, found_object.__code__.co_firstlineno))
            if code is None or not any(is_same_code(found_object.__code__, other) for other in codes):
                return True
    return False


def mutated(data, chance):
    """Return the kind of an edit and the edited text. Some edits change only layout and comments."""
    tree = ast.parse(data)
    plain = ast.dump(tree)
    for _ in range(40 if tree.body else 0):
        copied = copy.deepcopy(tree)
        kind = chance.choice(EDITS)(copied, chance)
        if kind is None or ast.dump(copied) == plain:
            continue
        try:
            text = ast.unparse(ast.fix_missing_locations(copied))
            compile(text, "edited", "exec", dont_inherit=True)
            if ast.dump(ast.parse(text)) != plain:
                return kind, text
        except (SyntaxError, ValueError):
            continue
    return None


def some(tree, chance, expected):
    found = [node for node in ast.walk(tree) if isinstance(node, expected)]
    return chance.choice(found) if found else None


def bodies(tree):
    return [
        (node, getattr(node, field)) for node in ast.walk(tree) for field in CHILDREN
        if isinstance(getattr(node, field, None), list) and getattr(node, field)
    ]  # fmt: skip


def constant(tree, chance):
    node = some(tree, chance, ast.Constant)
    if node is None or node.value is Ellipsis:
        return None
    node.value = node.value + "x" if isinstance(node.value, str) else 41 if node.value != 41 else 40
    node.kind = None
    return "constant"


def comparison(tree, chance):
    node = some(tree, chance, ast.Compare)
    if node is not None:
        node.ops[0] = ast.NotEq() if isinstance(node.ops[0], ast.Eq) else ast.Eq()
    return node and "comparison"


def dropped(tree, chance):
    owner, body = chance.choice(bodies(tree))
    body[chance.randrange(len(body))] = ast.Pass()
    return f"statement dropped in {type(owner).__name__}"


def swapped(tree, chance):
    owner, body = chance.choice(bodies(tree))
    if len(body) < 2:
        return None
    place = chance.randrange(len(body) - 1)
    body[place], body[place + 1] = body[place + 1], body[place]
    return f"statements swapped in {type(owner).__name__}"


def added(tree, chance):
    _, body = chance.choice(bodies(tree))
    new = chance.choice(
        ["added = 1", "def added(self): return 1", "added: int", "import os as added", "print()", "class Added: pass"]
    )
    body.insert(chance.randrange(len(body) + 1), ast.parse(new).body[0])
    return f"added: {new.split()[0]}"


def guarded(tree, chance):
    _, body = chance.choice(bodies(tree))
    place = chance.randrange(len(body))
    body[place] = ast.If(ast.Name("TYPE_CHECKING", ast.Load()), [body[place]], [])
    return "moved under a guard"


def decorated(tree, chance):
    node = some(tree, chance, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))
    if node is None:
        return None
    if node.decorator_list and chance.random() < 0.5:
        node.decorator_list.pop()
        return "decorator removed"
    node.decorator_list.append(ast.Name("added", ast.Load()))
    return "decorator added"


def based(tree, chance):
    node = some(tree, chance, ast.ClassDef)
    if node is None:
        return None
    if chance.random() < 0.3:
        node.keywords.append(ast.keyword("added", ast.Constant(1)))
        return "class keyword added"
    node.bases.append(ast.Name("added", ast.Load()))
    return "base added"


def signed(tree, chance):
    node = some(tree, chance, (ast.FunctionDef, ast.AsyncFunctionDef))
    if node is None:
        return None
    way = chance.choice(["argument", "annotation", "return", "default"])
    if way == "argument":
        node.args.kwonlyargs.append(ast.arg("added"))
        node.args.kw_defaults.append(None)
    elif way == "return":
        node.returns = ast.Constant("added")
    elif way == "annotation" and node.args.args:
        node.args.args[0].annotation = ast.Constant("added")
    elif node.args.defaults:
        node.args.defaults[-1] = ast.Constant("added")
    return f"signature: {way}"


def imported(tree, chance):
    node = some(tree, chance, (ast.Import, ast.ImportFrom))
    if node is not None and getattr(node, "module", "") != "__future__":
        node.names[0].name += "_added"
    return node and "import"


def renamed(tree, chance):
    node = some(tree, chance, (ast.FunctionDef, ast.ClassDef, ast.AsyncFunctionDef))
    if node is not None:
        node.name += "_renamed"
    return node and "renamed"


def excepted(tree, chance):
    node = some(tree, chance, ast.ExceptHandler)
    if node is not None:
        node.type = ast.Name("AddedError", ast.Load())
    return node and "except type"


def tested(tree, chance):
    node = some(tree, chance, (ast.If, ast.While))
    if node is not None:
        node.test = ast.UnaryOp(ast.Not(), node.test)
    return node and "guard's test"


def unasync(tree, chance):
    for _, body in bodies(tree):
        for place, node in enumerate(body):
            if isinstance(node, ast.FunctionDef) and chance.random() < 0.2:
                body[place] = ast.AsyncFunctionDef(**{name: getattr(node, name, None) for name in node._fields})
                return "async"
    return None


def moved_out(tree, chance):
    node = some(tree, chance, ast.ClassDef)
    if node is None or len(node.body) < 2:
        return None
    tree.body.append(node.body.pop())
    return "moved out of its class"


EDITS = (
    constant, constant, constant, comparison, dropped, swapped, swapped, added, added, guarded, decorated,
    based, signed, imported, renamed, excepted, tested, unasync, moved_out,
)  # fmt: skip


if __name__ == "__main__":
    main()
