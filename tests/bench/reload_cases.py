"""What of an edited module takes effect in a process that lives: by Codriver, IPython's autoreload, and jurigged.

Run it with an interpreter that has `ipython` and `jurigged`, and `flask`, `fastapi`, `httpx` and `sqlalchemy` for the
cases about those: `python tests/bench/reload_cases.py [--only NAME]`. Each case of each tool runs in a process of its
own: a module is imported and held, edited in one place, and loaded; then the expression of the case is asked.
"""

import argparse
import importlib
import importlib.util
import json
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

SERVER = str(Path(__file__).parents[2] / "server")
TOOLS = ("codriver", "autoreload", "jurigged")
WITHIN_S = 60


@dataclass(frozen=True)
class Case:
    """One edit of a module `m`: what is `held` before it, and what is `asked` after it, which is to be true."""

    name: str
    text: str
    old: str
    new: str
    held: str
    asked: str
    needs: tuple[str, ...] = ()


KEPT = "import sys\nfound = sys.__dict__.setdefault('found', [])\n"
"""A list that outlives a second run of the module, as one of another module does."""
REGISTRY = KEPT + "def register(f):\n    found.append(f)\n    return f\n@register\ndef work():\n    return 'old'\n"
WRAPPER = (
    "import functools\ndef around(f):\n    {0}\n    def inner(*given):\n        return f(*given)\n    return inner\n"
    "@around\ndef work():\n    return 'old'\n"
)
ENUM = "import enum\nclass Status(enum.Enum):\n    PAID = 1\n    def label(self):\n        return 'old'\n"
FLASK = "from flask import Flask\napp = Flask('m')\n@app.route('/')\ndef index():\n    return 'old'\n"
FASTAPI = (
    "import sys\nfrom fastapi import FastAPI\nfrom fastapi.testclient import TestClient\n"
    "app = sys.__dict__.setdefault('app', FastAPI())\nclient = TestClient(app)\n"
    "@app.get('/')\ndef index():\n    return 'old'\n"
)
MAPPED = (
    "from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column\nclass Base(DeclarativeBase):\n    pass\n"
    "class User(Base):\n    __tablename__ = 'user'\n    id: Mapped[int] = mapped_column(primary_key=True)\n"
    "    def label(self):\n        return 'old'\n"
)
CHILD = (
    "class Base:\n    def work(self):\n        return 'new'\n"
    "class Child(Base):\n    def work(self):\n        return 'old'\n"
)
BODY = ("return 'old'", "return 'new'")
CASES = [
    Case("a function", "def work():\n    return 'old'\n", *BODY, "m.work", "held() == 'new'"),
    Case(
        "a method of a live object",
        "class A:\n    def f(self):\n        return 'old'\n",
        *BODY,
        "m.A()",
        "held.f() == 'new'",
    ),
    Case(
        "a property",
        "class A:\n    @property\n    def f(self):\n        return 'old'\n",
        *BODY,
        "m.A()",
        "held.f == 'new'",
    ),
    Case(
        "a static method held",
        "class A:\n    @staticmethod\n    def f():\n        return 'old'\n",
        *BODY,
        "m.A.f",
        "held() == 'new'",
    ),
    Case(
        "a class method held",
        "class A:\n    @classmethod\n    def f(cls):\n        return 'old'\n",
        *BODY,
        "m.A.f",
        "held() == 'new'",
    ),
    Case("a wrapper with wraps", WRAPPER.format("@functools.wraps(f)"), *BODY, "m.work", "held() == 'new'"),
    Case("a wrapper without wraps", WRAPPER.format("pass"), *BODY, "m.work", "held() == 'new'"),
    Case(
        "a partial",
        "import functools\ndef f(a):\n    return 'old'\nwork = functools.partial(f, 1)\n",
        *BODY,
        "m.work",
        "held() == 'new'",
    ),
    Case(
        "a class that its base registers",
        KEPT + "class Base:\n    def __init_subclass__(cls):\n        found.append(cls)\n"
        "class A(Base):\n    def f(self):\n        return 'old'\n",
        *BODY,
        "m.found[0]()",
        "held.f() == 'new' and len(m.found) == 1",
    ),
    Case(
        "a sentinel as default",
        "NONE = object()\ndef f(a=NONE):\n    return a is NONE and 'old'\n",
        "'old'",
        "'new'",
        "m.f",
        "held() == 'new'",
    ),
    Case("a method of an enumeration", ENUM, *BODY, "m.Status.PAID", "held.label() == 'new' and held is m.Status.PAID"),
    Case(
        "an enumeration with a comment", ENUM, "PAID = 1", "PAID = 1  # paid", "m.Status.PAID", "held is m.Status.PAID"
    ),
    Case(
        "a method of a dataclass",
        "from dataclasses import dataclass\n"
        "@dataclass\nclass A:\n    n: int = 1\n    def f(self):\n        return 'old'\n",
        *BODY,
        "m.A()",
        "held.f() == 'new'",
    ),
    Case(
        "a method with super()",
        "class B:\n    def f(self):\n        return ''\n"
        "class A(B):\n    def f(self):\n        return super().f() + 'old'\n",
        "'old'",
        "'new'",
        "m.A()",
        "held.f() == 'new'",
    ),
    Case(
        "a Flask route after a request",
        FLASK,
        *BODY,
        "(m.app.test_client(), m.app.test_client().get('/'))[0]",
        "held.get('/').text == 'new'",
        ("flask",),
    ),
    Case("a method of a SQLAlchemy model", MAPPED, *BODY, "m.User()", "held.label() == 'new'", ("sqlalchemy",)),
    Case(
        "the state of the module",
        "seen = []\ndef f():\n    return 'old'\n",
        *BODY,
        "m.seen.append(1) or m.f",
        "m.seen == [1]",
    ),
    Case(
        "a closure made before",
        "def make():\n    def f():\n        return 'old'\n    return f\n",
        *BODY,
        "m.make()",
        "held() == 'new'",
    ),
    Case(
        "a cached function",
        "import functools\n@functools.lru_cache\ndef f():\n    return 'old'\n",
        *BODY,
        "(m.f(), m.f)[1]",
        "held() == 'new'",
    ),
    Case("a registry's only entry", REGISTRY, *BODY, "m.found", "len(held) == 1 and held[0]() == 'new'"),
    Case(
        "a FastAPI route",
        FASTAPI,
        *BODY,
        "(m.client, m.client.get('/'))[0]",
        "held.get('/').json() == 'new' and len([r for r in m.app.routes if r.path == '/']) == 1",
        ("fastapi", "httpx"),
    ),
    Case(
        "lines after a move",
        "def f():\n    return 'old'\ndef g():\n    return 1\n",
        "    return 'old'",
        "    # one\n    # two\n    return 'new'",
        "m.g",
        "held.__code__.co_firstlineno == 5",
    ),
    Case("super() that is new", CHILD, "return 'old'", "return super().work()", "m.Child()", "held.work() == 'new'"),
    Case(
        "a lambda in a dict", "table = {'a': lambda: 'old'}\n", "'old'", "'new'", "m.table", "m.table['a']() == 'new'"
    ),
    Case("a constant", "LIMIT = 1\n", "LIMIT = 1", "LIMIT = 2", "m.LIMIT", "m.LIMIT == 2"),
    Case("a class attribute", "class A:\n    limit = 1\n", "limit = 1", "limit = 2", "m.A()", "held.limit == 2"),
    Case("a default", "def f(a=1):\n    return a\n", "a=1", "a=2", "m.f", "held() == 2"),
    Case(
        "a decorator that is added",
        "import functools\ndef f():\n    return []\n",
        "def f",
        "@functools.lru_cache\ndef f",
        "m.f",
        "m.f() is m.f()",
    ),
    Case(
        "a field of a dataclass",
        "from dataclasses import dataclass\n@dataclass\nclass A:\n    n: int = 1\n",
        "n: int = 1",
        "n: int = 1\n    k: int = 2",
        "m.A",
        "m.A().k == 2",
    ),
    Case(
        "a member of an enumeration",
        ENUM,
        "PAID = 1\n",
        "PAID = 1\n    OPEN = 2\n",
        "m.Status.PAID",
        "held is m.Status.PAID and [*m.Status] == [held, m.Status.OPEN] and type(m.Status.OPEN) is m.Status",
    ),
    Case(
        "a name imported elsewhere, decorated anew",
        "import functools\ndef f():\n    return []\n",
        "def f",
        "@functools.lru_cache\ndef f",
        "importer(m)",
        "held.f is m.f",
    ),
]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="")
    parser.add_argument("--run", nargs=2, metavar=("TOOL", "CASE"), help="of this program itself")
    asked = parser.parse_args()
    if asked.run:
        tool, number = asked.run
        sys.stdout.write(f"\n{json.dumps(outcome(tool, CASES[int(number)]))}\n")
        return
    sums = dict.fromkeys(TOOLS, 0)
    ran = 0
    for number, case in enumerate(CASES):
        if asked.only not in case.name:
            continue
        if not all(importlib.util.find_spec(one) for one in case.needs):
            say(f"{case.name:45} left out: needs {', '.join(case.needs)}")
            continue
        ran += 1
        told = {tool: of_process(tool, number) for tool in TOOLS}
        for tool in TOOLS:
            sums[tool] += told[tool] == "yes"
        say(f"{case.name:45} " + "  ".join(f"{tool} {told[tool]:12.12}" for tool in TOOLS))
    say(f"of {ran}: " + ", ".join(f"{tool} {count}" for tool, count in sums.items()))


def say(words):
    sys.stdout.write(f"{words}\n")
    sys.stdout.flush()


def of_process(tool, number):
    """The outcome of one case by one tool, in a process of its own."""
    asked = [sys.executable, __file__, "--run", tool, str(number)]
    try:
        told = subprocess.run(asked, capture_output=True, text=True, timeout=WITHIN_S, check=False)
        return json.loads(told.stdout.rstrip().rsplit("\n", 1)[-1])
    except (ValueError, subprocess.TimeoutExpired):
        return "no answer"


def outcome(tool, case):
    """Whether the edit has taken effect; where it has not, in the words of Codriver what it says was not renewed."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place).resolve()
        (folder / "m.py").write_text(case.text)
        (folder / "user.py").write_text("from m import *\n")
        sys.path.insert(0, str(folder))
        load = {"codriver": by_codriver, "autoreload": by_autoreload, "jurigged": by_jurigged}[tool](folder)
        m = importlib.import_module("m")
        space = {"m": m, "importer": lambda _: importlib.import_module("user")}
        held = eval(case.held, space)
        assert case.old in case.text, case.name
        (folder / "m.py").write_text(case.text.replace(case.old, case.new, 1))
        said = load() or []
        try:
            is_well = eval(case.asked, {"m": sys.modules["m"], "held": held})
        except Exception as error:  # noqa: BLE001  # of whatever kind: it is the outcome
            return "told" if said else type(error).__name__
        return "yes" if is_well else "told" if said else "no"


def by_codriver(folder):
    sys.path.insert(0, SERVER)
    worker = "codriver.repls.worker"
    holds, loaded, loads, drifts = (
        importlib.import_module(f"{worker}.{name}")
        for name in ("basics.held_definitions", "python.loaded_texts", "python.module_loads", "python.python_drift")
    )
    texts = loaded.LoadedTexts()
    texts.begin()
    drift, file = drifts.Drift(texts), folder / "m.py"

    def load():
        texts.note()
        texts.settle()
        one = loads.ModuleLoad("m", str(file), file.read_text(), holds.Holds([]).of(""), drift, home=sys, keeps=False)
        one.begin()
        for step in one.steps():
            step.act()
        one.end(has_failed=False)
        return [row for row in one.renewed if row["kind"] == "stays"] + drift.rows(str(folder))

    # A text is known that was read while its file was as it was at the load.
    importlib.import_module("m")
    importlib.import_module("user")
    texts.note()
    texts.settle()
    return load


def by_autoreload(folder):
    del folder
    shell = importlib.import_module("IPython.core.interactiveshell").InteractiveShell.instance()
    shell.run_line_magic("load_ext", "autoreload")
    shell.run_line_magic("autoreload", "2")
    shell.run_cell("import m, user")
    return lambda: shell.run_cell("pass") and None


def by_jurigged(folder):
    registry = importlib.import_module("jurigged.register").registry
    registry.auto_register(lambda name: str(name).startswith(str(folder)))
    importlib.import_module("m")
    importlib.import_module("user")
    code = registry.get(str(folder / "m.py"))
    return lambda: code.refresh() and None


if __name__ == "__main__":
    main()
