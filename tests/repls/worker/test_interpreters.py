"""The worker on every installed Python from 3.8 on, as each project has its own."""

import contextlib

import pytest
from linked_tree import linked_tree
from needs import interpreter
from worker_client import NAMES, Repl, text, texts, wait_for_input_request, wait_for_output


@pytest.fixture(scope="module", params=NAMES)
def process(request, tmp_path_factory):
    path = interpreter(request.param)
    with contextlib.closing(Repl(tmp_path_factory.mktemp("any"), "--supervised", python=path)) as repl:
        repl.connect()
        (version,) = texts(repl.evaluate("import sys\n'python%d.%d' % sys.version_info[:2]"), "value")
        assert version == repr(request.param)
        yield repl


@pytest.fixture
def python(process):
    with process.fresh_session() as repl:
        yield repl


def test_code_with_output_and_await_is_evaluated(python):
    answer = python.evaluate(
        "import asyncio, sys\nprint('out')\nprint('err', file=sys.stderr)\nawait asyncio.sleep(0, 7)"
    )
    assert (text(answer, "out"), text(answer, "err"), texts(answer, "value")[-1]) == ("out\n", "err\n", "7")


def test_errors_are_reported_and_available_to_debuggers(python):
    (parts,) = texts(python.evaluate("def boom():\n    return 1 / 0\nboom()"), "codriver/error")
    assert (parts["type"], parts["line"], parts["form"]) == ("ZeroDivisionError", 2, 2)
    assert all("codriver" not in line for line in parts["trace"])
    assert texts(python.evaluate("import sys\nsys.last_exc is sys.last_value"), "value") == ["True"]
    (parts,) = texts(python.evaluate("f("), "codriver/error")
    assert (parts["type"], parts["phase"]) == ("SyntaxError", "read")


def test_code_and_prompts_can_be_interrupted(python):
    for code, wait in (
        ("print('begun', flush=True)\nwhile True: pass", wait_for_output),
        ("breakpoint()", wait_for_input_request),
    ):
        running = python.send("eval", code=code)
        assert wait(python, running)
        python.send("interrupt")
        assert "interrupted" in python.answer(running)[-1]["status"]


LIVE = """
import enum, functools
class Status(enum.Enum):
    PAID = 1
    def label(self): return "old " + self.name
class Right(enum.IntFlag):
    READ = 1
class Base:
    def name(self): return "base"
class Cart(Base):
    limit = 5
    def total(self, n=1): return n
    def name(self): return "cart"
@functools.lru_cache(maxsize=None)
def cached(x): return x
def counted(x, /, step=1, *, more=2): return x + step + more
"""
EDITS = (
    ("PAID = 1", "PAID = 1\n    OPEN = 2"), ('"old "', '"new "'), ("READ = 1", "READ = 1\n    WRITE = 2"),
    ("limit = 5", "limit: int = 6"), ("n=1): return n", "n=3): return n"),
    ('return "cart"', "return super().name() + '!'"),
    ("cached(x): return x", "cached(x): return -x"), ("step=1, *, more=2", "step=5, *, more=6"),
)  # fmt: skip


def test_a_load_applies_changes_without_recreating_objects(python):
    file = python.folder / f"live_{python.folder.name}.py"
    file.write_text(LIVE)
    name = file.stem
    kept = f"import {name} as m\ncart, paid, kind, held = m.Cart(), m.Status.PAID, m.Status, m.cached\n(held(1), m)[0]"
    assert texts(python.evaluate(kept), "value")[-1] == "1"
    text = LIVE
    for old, new in EDITS:
        text = text.replace(old, new)
    file.write_text(text)
    assert python.ask("load-file", **{"file": text, "file-path": str(file)})[-1]["status"] == ["done"]
    code = (
        "[m.Status is kind, m.Status.PAID is paid, [one.name for one in m.Status], paid.label(), m.Status(2).label(), "
        "m.Right(3) == m.Right.READ | m.Right.WRITE, cart.limit, cart.total(), cart.name(), held(1), m.counted(1)]"
    )
    output = "[True, True, ['PAID', 'OPEN'], 'new PAID', 'new OPEN', True, 6, 3, 'base!', -1, 12]"
    assert texts(python.evaluate(code), "value") == [output]

    def rows(only):
        found = python.ask("codriver/drift", root=str(python.folder), only=only)[-1]["rows"]
        return [(row["name"], row["kind"]) for row in found if row["module"] == name]

    emptied = [("cached", "emptied")]
    # Only the query that follows a load discards what the load reported. Other callers may send the others before it.
    assert [rows(only) for only in ("edited", "", "old", "old", "")] == [[], emptied, emptied, [], []]


DOCUMENTED = """
def plain(): "old"; return 1
def bare(): return "text"
class Shape:
    def area(self): "old"; return __class__
"""


def test_a_load_updates_docstrings(python, tmp_path):
    path = tmp_path / "documented.py"
    path.write_text(DOCUMENTED, encoding="utf-8")
    python.evaluate(f"import sys; sys.path.insert(0, {str(tmp_path)!r})\nimport documented\nplain = documented.plain")
    text = DOCUMENTED.replace("old", "new").replace('"text"', '"other"')
    path.write_text(text, encoding="utf-8")
    python.answer(python.send("load-file", file=text, **{"file-path": str(path), "file-name": path.name}))
    docs = "plain.__doc__, documented.bare.__doc__, documented.bare(), documented.Shape.area.__doc__"
    assert texts(python.evaluate(docs), "value") == ["('new', None, 'other', 'new')"]


def test_files_can_be_loaded_and_names_can_be_looked_up(python):
    file = python.folder / "parcel.py"
    source = "def inc(n):\n    'One more.'\n    return n + 1\ninc(1)"
    file.write_text(source)
    loaded = python.ask("load-file", **{"file": source, "file-path": str(file)})
    assert texts(loaded, "value") == ["2"]
    python.evaluate("import parcel")
    (info,) = texts(python.ask("lookup", sym="parcel.inc"), "info")
    assert (info["arglists-str"], info["doc"], info["line"]) == ("(n)", "One more.", 1)
    (found,) = texts(python.ask("completions", prefix="parcel.i"), "completions")
    assert [item["candidate"] for item in found] == ["parcel.inc"]


def test_stacks_of_threads_are_available(python):
    running = python.send("eval", code="def busy():\n    print('begun', flush=True)\n    while True: pass\nbusy()")
    assert wait_for_output(python, running)
    (stacks,) = texts(python.ask("codriver/stacks"), "stacks")
    assert "in busy" in stacks
    assert "codriver/repls/worker" not in stacks
    python.send("interrupt")
    python.answer(running)


def test_output_of_forked_processes_is_captured(python):
    code = "import os\nif not os.fork():\n    os.write(1, b'child'); os._exit(0)\n_ = os.wait()"
    assert text(python.evaluate(code), "out") == "child"


SHARED = """\
import json
total, trail, max = 10, [], lambda *_: "mine"
gone = 1
def double(n):
    return n * 2 + total - total
class Basket:
    size = 3
"""


@pytest.fixture
def apart(process):
    """Return an isolated session next to the first one, which has names to share."""
    process.connect()
    process.evaluate(SHARED)
    with process.fresh_session() as repl:
        yield repl
    process.connect()
    process.evaluate("for name in ['json', 'total', 'trail', 'max', 'gone', 'double', 'Basket']: globals().pop(name)")
    process.socket.close()


def in_first(repl, code):
    """Evaluate in the first session, whose names are shared."""
    own, repl.session = repl.session, None
    try:
        return repl.evaluate(code)
    finally:
        repl.session = own


READINGS = {
    "at the top": "total",
    "a function": "def f(): return total\nf()",
    "a function that is called again": "def f(): return total\n[f() for _ in range(100)][-1]",
    "a closure": "def f():\n    def g(): return total\n    return g\nf()()",
    "a lambda": "(lambda: total)()",
    "a comprehension": "[total for _ in range(3)][-1]",
    "a generator in a class": "class C: found = [n + total for n in range(1)]\nC.found[0]",
    "a class body": "class C: found = total\nC.found",
    "a default": "def f(n=total): return n\nf()",
    "exec": "exec('found = total')\nfound",
    "exec with the globals": "exec('found = total', globals())\nfound",
    "eval": "eval('total')",
    "a coroutine": "import asyncio\nasync def f(): return total\nawait f()",
    "a method": "class C(Basket):\n    def f(self): return total\nC().f()",
    "a shared function": "double(5)",
    "a shared module": "json.loads('10')",
    "a subclass": "class C(Basket): pass\nC().size + 7",
    "a thread": "import threading\nfound = []\nt = threading.Thread(target=lambda: found.append(total))\n"
    "t.start(); t.join()\nfound[0]",
}


@pytest.mark.parametrize("how", READINGS)
def test_an_isolated_session_reads_shared_names(apart, how):
    answer = apart.evaluate(READINGS[how])
    assert texts(answer, "value")[-1:] == ["10"], texts(answer, "err")


def test_an_isolated_session_keeps_what_it_writes(apart):
    writes = (
        "total += 1",
        "def f():\n    global gone, new\n    gone += 1\n    new = 5\nf()",
        "for max in [3]: pass",
        "import json as trail",
        "def double(n): return 'own'",
        "class Basket: size = 'own'",
        "exec('made = 1', globals())",
    )
    for code in writes:
        assert not texts(apart.evaluate(code), "ex"), code
    own = "(total, gone, new, max, double(1), Basket.size, trail.__name__, made)"
    assert texts(apart.evaluate(own), "value") == ["(11, 2, 5, 3, 'own', 'own', 'json', 1)"]
    shared = texts(in_first(apart, "(total, gone, max(1), double(1), Basket.size, trail)"), "value")
    assert shared == ["(10, 1, 'mine', 2, 3, [])"]
    assert texts(in_first(apart, "new"), "ex") == texts(in_first(apart, "made"), "ex") == ["NameError"]


def test_an_isolated_session_can_delete_only_its_own_names(apart):
    assert texts(apart.evaluate("del total"), "ex") == ["NameError"]
    assert texts(apart.evaluate("total = 1\ndel total\ntotal"), "value") == ["10"]
    assert texts(apart.evaluate("def f():\n    global gone\n    del gone\nf()"), "ex") == ["NameError"]
    assert texts(in_first(apart, "gone"), "value") == ["1"]
    assert texts(apart.evaluate("'total' in globals(), 'total' in dir()"), "value") == ["(False, False)"]


def test_an_isolated_session_sees_builtins_and_names_that_are_shared_later(apart):
    in_first(apart, "'the last value of another'")
    assert texts(apart.evaluate("_"), "ex") == ["NameError"]
    assert texts(apart.evaluate("max(1, 2), len('ab'), __name__ != '__main__'"), "value") == ["('mine', 2, True)"]
    in_first(apart, "del max\nlater = 7\nimport builtins\nbuiltins.everywhere = 8")
    assert texts(apart.evaluate("max(1, 2), later, everywhere"), "value") == ["(2, 7, 8)"]
    assert texts(
        apart.evaluate("import fractions\nassert fractions.Fraction(1, 2)\nclass C: pass\nC().__module__ == __name__"),
        "value",
    ) == ["True"]
    in_first(apart, "max, later = 0, 0\ndel later, builtins.everywhere")
    (parts,) = texts(apart.evaluate("def f(): return everywhere\nf()"), "codriver/error")
    assert (parts["type"], parts["message"]) == ("NameError", "name 'everywhere' is not defined")
    assert len(parts["trace"]) == 2


def test_objects_of_an_isolated_session_can_be_pickled_and_looked_up(apart):
    made = "import dataclasses, pickle\n@dataclasses.dataclass\nclass Item:\n    pieces: int = total\n"
    assert texts(apart.evaluate(made + "pickle.loads(pickle.dumps(Item())).pieces"), "value") == ["10"]
    assert texts(apart.ask("lookup", sym="double"), "info")[0]["arglists-str"] == "(n)"
    (found,) = texts(apart.ask("completions", prefix="dou"), "completions")
    assert found == [{"candidate": "double", "type": "function"}]


@pytest.mark.parametrize("name", NAMES)
def test_packages_imported_from_another_working_tree_are_reported(tmp_path, name):
    path = interpreter(name)
    main, linked = tmp_path / "main", tmp_path / "linked"
    python = linked_tree(main, linked, python=path)
    with contextlib.closing(Repl(linked, "--supervised", "--checkout", str(main), python=python)) as repl:
        repl.connect()
        (found,) = texts(repl.ask("describe"), "codriver/outside")
        assert set(found) == {"shop", "stock", "wares"}
        assert found["shop"] == str(main / "packages/shop/src/shop")
        assert found["stock"] == str(main / "packages/stock/src/stock")
        assert texts(repl.evaluate("import sys\n{'shop', 'stock', 'wares'} & set(sys.modules)"), "value") == ["set()"]
        assert texts(repl.evaluate("import own\nown.__file__"), "value") == [repr(str(linked / "src/own/__init__.py"))]
