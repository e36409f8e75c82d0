"""Search for random bugs in a Python library: see `drawn_bugs.py`.

Only files that have a test file are changed. A bug makes a test fail that passed before. If tests are named after the
changed function, only those are considered.
"""

import ast
import re
import shutil
import sys
import tempfile
import time
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))
sys.path.insert(0, str(Path(__file__).parents[2] / "server"))

from live_server import serving, until

TESTS_MS = 30_000
"""Time limit for one run. Even with the time that an interrupt takes, it is answered before the client gives up."""
POLLS_PER_CALL = 10
TRY_MS = 30_000
DRAWS = 80
"""Maximum number of draws in one library for one bug. Many make no test fail."""
MAX_TRIED = 8
"""Maximum number of candidates in one call."""
THREE = 3
NOT_SOURCES = {"docs", "examples", "performance", "bench", "typing-examples", "build"}
OPERATORS = {ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add, ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE,
             ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
             ast.In: ast.NotIn, ast.And: ast.Or, ast.Or: ast.And}  # fmt: skip
SHOP = {
    "shop/__init__.py": "",
    "shop/prices.py": '''
REBATES = {"friend": 20, "pupil": 10}


def rate_of(customer):
    """The part of a price that a customer pays."""
    return (100 - REBATES.get(customer, 0)) / 100


def price_of(item, amount, customer=""):
    full = item["cents"] * amount
    if amount >= 10:
        full = full - full // 10
    return round(full * rate_of(customer))


def postage(weight):
    if weight == 0:
        return 0
    return 300 + 50 * (weight // 500)
''',
    "shop/carts.py": """
from .prices import postage, price_of
from .stock import item_of, take


class Cart:
    def __init__(self, customer=""):
        self.customer = customer
        self.lines = []

    def add(self, name, amount):
        if amount < 1:
            raise ValueError("amount")
        for line in self.lines:
            if line["name"] == name:
                line["amount"] = line["amount"] + amount
                return line
        line = {"name": name, "amount": amount}
        self.lines.append(line)
        return line

    def weight(self):
        return sum(item_of(one["name"])["grams"] * one["amount"] for one in self.lines)

    def goods(self):
        return sum(price_of(item_of(one["name"]), one["amount"], self.customer) for one in self.lines)

    def total(self):
        goods = self.goods()
        return goods if goods > 10_000 else goods + postage(self.weight())

    def order(self):
        for line in self.lines:
            take(line["name"], line["amount"])
        return {"total": self.total(), "count": len(self.lines)}
""",
    "shop/stock.py": """
ITEMS = {
    "pen": {"cents": 120, "grams": 20, "left": 30},
    "book": {"cents": 1450, "grams": 600, "left": 5},
    "lamp": {"cents": 5900, "grams": 2100, "left": 2},
}


class SoldOut(Exception):
    pass


def item_of(name):
    return ITEMS[name]


def left(name):
    return item_of(name)["left"]


def take(name, amount):
    if amount > left(name):
        raise SoldOut(name)
    item_of(name)["left"] = left(name) - amount


def bring(name, amount):
    item_of(name)["left"] = left(name) + amount
""",
    "shop/app.py": """
from flask import Flask, jsonify, request

from .carts import Cart
from .stock import ITEMS, SoldOut, left


def page_of(names, number, size):
    first = (number - 1) * size
    return sorted(names)[first : first + size]


def make_app():
    app = Flask("shop")

    @app.get("/items")
    def items():
        number = int(request.args.get("page", 1))
        return jsonify(page_of(ITEMS, number, 2))

    @app.get("/items/<name>")
    def item(name):
        if name not in ITEMS:
            return jsonify(error="no such item"), 404
        return jsonify(name=name, left=left(name), cents=ITEMS[name]["cents"])

    @app.post("/orders")
    def orders():
        asked = request.get_json()
        cart = Cart(asked.get("customer", ""))
        for line in asked["lines"]:
            cart.add(line["name"], line["amount"])
        try:
            return jsonify(cart.order()), 201
        except SoldOut as error:
            return jsonify(error=str(error)), 409

    return app
""",
    "tests/test_app.py": """
import copy

import pytest

from shop import stock
from shop.app import make_app


@pytest.fixture
def client(monkeypatch):
    monkeypatch.setattr(stock, "ITEMS", stock.ITEMS)
    before = copy.deepcopy(stock.ITEMS)
    yield make_app().test_client()
    stock.ITEMS.update(before)


def order(client, customer, *lines):
    told = [{"name": name, "amount": amount} for name, amount in lines]
    return client.post("/orders", json={"customer": customer, "lines": told})


def test_pages(client):
    assert client.get("/items").json == ["book", "lamp"]
    assert client.get("/items?page=2").json == ["pen"]


def test_an_item(client):
    assert client.get("/items/pen").json == {"name": "pen", "left": 30, "cents": 120}
    assert client.get("/items/cup").status_code == 404


def test_an_order(client):
    answer = order(client, "", ("pen", 2), ("book", 1))
    assert (answer.status_code, answer.json) == (201, {"total": 2040, "count": 2})
    assert client.get("/items/pen").json["left"] == 28


def test_an_order_of_a_friend(client):
    assert order(client, "friend", ("pen", 2), ("pen", 8), ("book", 1)).json["total"] == 2374
    assert order(client, "pupil", ("lamp", 2)).json == {"total": 10620, "count": 1}


def test_what_is_sold_out(client):
    assert order(client, "", ("book", 5)).status_code == 201
    assert order(client, "", ("book", 1)).status_code == 409
""",
}


@dataclass
class Result:
    """How a bug was found: by how much text, what named the call to its function, whether the right fix was kept."""

    library: str
    function: str
    test: str
    size: int
    calls: int
    is_named: bool
    differs_first: bool
    first: str
    unasked: str
    is_reported: bool
    is_kept: bool


def mutants(text):
    """Yield each possible change in a function of a source text.

    Each is a pair of the function's qualified name and the change for `mutated`.
    """
    tree = ast.parse(text)

    def functions(body, owner):
        for node in body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                yield owner + node.name, node
            elif isinstance(node, ast.ClassDef):
                yield from functions(node.body, f"{owner}{node.name}.")

    for name, function in functions(tree.body, ""):
        for node in ast.walk(function):
            new = None
            if isinstance(node, ast.BinOp) and type(node.op) in OPERATORS:
                new = ast.BinOp(node.left, OPERATORS[type(node.op)](), node.right)
            elif isinstance(node, ast.Compare) and type(node.ops[0]) in OPERATORS:
                new = ast.Compare(node.left, [OPERATORS[type(node.ops[0])](), *node.ops[1:]], node.comparators)
            elif isinstance(node, ast.BoolOp):
                new = ast.BoolOp(OPERATORS[type(node.op)](), node.values)
            elif isinstance(node, ast.Constant) and type(node.value) is int:
                new = ast.Constant(node.value + 1)
            if new is None or node.lineno != node.end_lineno:
                continue
            yield name, (node.lineno, node.col_offset, node.end_col_offset, f"({ast.unparse(new)})")


def mutated(text, change):
    """Return the text with one change."""
    number, start, end, put = change
    lines = text.splitlines(keepends=True)
    line = lines[number - 1].encode()
    lines[number - 1] = (line[:start] + put.encode() + line[end:]).decode()
    return "".join(lines)


def pairs(library):
    """Return each file of a library with its test file. In the shop, all files share one test file."""
    tests = {file.name: file for file in sorted(library.rglob("test_*.py"))}
    found = []
    for file in sorted(library.rglob("*.py")):
        parts = set(file.relative_to(library).parts)
        if parts & NOT_SOURCES or "test" in str(file.relative_to(library)) or file.name.startswith("__"):
            continue
        test = tests.get(f"test_{file.stem.lstrip('_')}.py") or (tests.get("test_app.py") if "shop" in parts else None)
        if test is not None:
            found.append((file, test))
    return found


@contextmanager
def copied(library, python):
    """Run a server on a copy of a library, or on the shop."""
    with tempfile.TemporaryDirectory() as folder:
        workspace = Path(folder) / "workspace"
        if library is None:
            for name, text in SHOP.items():
                (workspace / name).parent.mkdir(parents=True, exist_ok=True)
                (workspace / name).write_text(text)
        else:
            shutil.copytree(library, workspace)
        with serving(Path(folder), "--repl", "python", "--python", python) as live, live.client() as client:
            until(lambda: "try_code" in client.tools(), "the REPL's tools")
            yield live.workspace, client


class Hunt:
    """A search for bugs in one library."""

    def __init__(self, name, workspace, client, chance):
        self.name, self.workspace, self.client, self.chance = name, workspace, client, chance
        self.pairs = pairs(workspace)
        self.green = {}
        """The tests that pass without a bug, by test file and by the word that they match."""

    def run(self, tests, **given):
        """Run the tests of a file, or one of them, and return the answer."""
        file = str(tests.relative_to(self.workspace))
        return self.client.call("run_tests", namespace=file, again=False, timeoutMs=TESTS_MS, **given)

    def outcomes(self, test, given):
        """Return the matching tests of a file that pass in each of two runs."""
        ended = {}
        for _ in range(2):
            answer = self.run(test, passed=True, report=True, detail=True, onTimeout="interrupt", **given)
            for row in answer.get("results", ()):
                ended[row["test"]] = ended.get(row["test"], True) and row["outcome"] == "pass"
        return {name for name, is_passed in ended.items() if is_passed}

    def named_after(self, test, name):
        """Return the arguments that select the tests named after a function, and those that pass.

        If there are none, all tests of the file are selected.
        """
        word = re.sub(r"\W", "", name.rpartition(".")[2]).strip("_")
        for given in ({"match": word}, {}):
            known = test, *given.values()
            if known not in self.green:
                self.green[known] = self.outcomes(test, given)
            if self.green[known]:
                return given, self.green[known]
        return {}, set()

    def draw(self):
        """Draw a change that makes a test fail.

        Returns the file, its original text, the function, the test file and the failed test, or None if no test fails.
        """
        file, test = self.chance.choice(self.pairs)
        text = file.read_text()
        found = list(mutants(text))
        if not found:
            return None
        name, change = self.chance.choice(found)
        given, green = self.named_after(test, name)
        if not green:
            return None
        file.write_text(mutated(text, change))
        answer = self.run(test, onTimeout="interrupt", **given)
        rows = [row for row in answer.get("results", ()) if row["outcome"] != "pass"]
        red = [row["test"] for row in rows if row["test"] in green]
        if answer.get("reason") == "tests-failed" and red:
            return file, text, name, test, red[0]
        file.write_text(text)
        return None

    def find(self, bug):
        """Look for a bug that is in its file, and revert it."""
        file, text, name, test, red_test = bug
        wrong = file.read_text()
        red = self.run(test, test=red_test, trace=True)
        displayed, calls = read_trace(self.client, red, partial(is_named, name))
        file.write_text(text)
        green = self.run(test, test=red_test, trace=True, detail=True)
        first = difference(self.client, red, green)
        unasked = self.difference_note(file, wrong, test, red_test)
        is_kept = self.keeps_original(file, text, wrong, name, f"{test.relative_to(self.workspace)}::{red_test}")
        file.write_text(text)
        self.run(test, test=red_test)
        named = is_named(name, displayed), is_named(name, first)
        output = first, unasked, is_named(name, unasked)
        return Result(self.name, name, red_test, len(displayed.encode()), calls, *named, *output, is_kept)

    def difference_note(self, file, wrong, test, red_test):
        """Return the note about the difference that follows a failed test after `edit_files` changed the code."""
        name = str(file.relative_to(self.workspace))
        edit = {"type": "create", "filePath": name, "code": wrong, "overwrite": True}
        self.client.call("edit_files", edits=[edit], load=True)
        red = self.run(test, test=red_test)
        if "evaluationId" not in red:
            return ""
        for _ in range(POLLS_PER_CALL):
            answer = self.client.call("get_evaluation", evaluationId=red["evaluationId"])
            text = [note for note in answer.get("notes", ()) if note.startswith("since it was green: ")]
            if text:
                return text[0]
            time.sleep(1)
        return ""

    def keeps_original(self, file, text, wrong, name, red_test):
        """Return whether the original text is kept out of three candidates, two of which make the test fail."""
        requested = {"test": [red_test], "limitMs": TRY_MS}
        right = file, text

        def tried(fixes, **more):
            displayed = [(str(where.relative_to(self.workspace)), code) for where, code in fixes]
            edits = [{"type": "create", "filePath": name, "code": code, "overwrite": True} for name, code in displayed]
            given = [{"label": f"the {number}th", "edits": [edit]} for number, edit in enumerate(edits)]
            return self.client.call("try_code", candidates=given, **requested, **more)

        others = []
        for fixes in self.other_fixes(file, text, wrong, name):
            rows = tried(fixes).get("candidates", ()) if fixes else ()
            others += [item for item, row in zip(fixes, rows, strict=False) if row["outcome"] == "failed"]
            if len(others) > 1:
                break
        fixes = self.chance.sample([right, *others[:2]], len(others[:2]) + 1)
        answer = tried(fixes, keep="first-green")
        is_right = answer.get("kept") == f"the {fixes.index(right)}th" and file.read_text() == text
        if not (len(fixes) == THREE and is_right and answer["ok"]):
            sys.stderr.write(f"not kept: {name} {red_test} of {len(fixes)}: {answer}\n")
            return False
        return True

    def other_fixes(self, file, text, wrong, name):
        """Yield random candidates in groups: in the function, then elsewhere in its file, then in other files."""
        elsewhere = self.chance.choice([element for element, _ in self.pairs if element != file] or [file])
        beside = elsewhere.read_text()
        for where, base, is_meant in (
            (file, text, lambda of: of == name),
            (file, wrong, lambda of: of != name),
            (elsewhere, beside, bool),
        ):
            changes = [change for of, change in mutants(base) if is_meant(of)]
            drawn = self.chance.sample(changes, min(len(changes), MAX_TRIED))
            codes = dict.fromkeys(mutated(base, item) for item in drawn)
            yield [(where, code) for code in codes if code not in (text, wrong, beside)]


def hunted(library, expected, chance, python):
    """Yield the given number of bugs in a library, or in the shop if it is None, each after looking for it."""
    with copied(library, python) as (workspace, client):
        hunt = Hunt("shop" if library is None else library.name, workspace, client, chance)
        for _ in range(DRAWS * expected):
            if expected and (bug := hunt.draw()) is not None:
                yield hunt.find(bug)
                expected -= 1


def read_trace(client, red, names_it):
    """Return the trace of a failed run, and the number of answers read.

    If the trace does not contain the call, the newest call of the test itself is added.
    """
    displayed = red.get("trace", "")
    if names_it(displayed) or "evaluationId" not in red:
        return displayed, 1
    path = [int(number) for number in re.findall(r"^  #(\d+) ", displayed, re.MULTILINE)[-1:]]
    more = client.call("get_evaluation", evaluationId=red["evaluationId"], part="trace", path=path)
    return displayed + more.get("text", ""), 2


def difference(client, red, green):
    """Return the first line about the difference between two runs."""
    if "trace" not in green or "evaluationId" not in red:
        return ""
    green_id = green["trace"].partition(":")[0].removeprefix("run ")
    requested = {"evaluationId": red["evaluationId"], "part": "trace", "diffWith": green_id}
    return client.call("get_evaluation", **requested).get("text", "").partition("\n")[0]


def is_named(name, text):
    """Return whether a text contains a call to a function."""
    return re.search(rf"(^|[ .]){re.escape(name)}(\.<locals>\.\w+)?\(", text, re.MULTILINE) is not None
