"""Do tasks in which state matters with Codriver and with a shell, and compare calls, bytes and waiting.

Run it with `python tests/bench/stateful_tasks.py INTERPRETER`. The INTERPRETER has pytest, Flask, Django, ipykernel and
nbclient. The two tasks in Clojure need a JVM and Clojure with nREPL. `--results FILE` writes one line of JSON for each
task, and a second run with the same file continues where the first one stopped. `--texts FOLDER` writes what was read.

Each task is a script of calls for each way, as short as an agent could make them without knowing the answer: an edit
changes only lines that an earlier answer showed. The tasks end with a check that does not depend on the way. Codriver
is used through its relay, and the shell with an edit tool that answers with the lines around an edit.
"""

import argparse
import contextlib
import csv
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

from live_server import EVALUATING, serving, user_settings_file

CLIENT = "claude-code"
LIMIT_S = 300
CONTEXT_LINES = 4
"""Lines that a shell agent's edit tool shows before and after an edit."""
SHOP = """\
from flask import Flask, jsonify

app = Flask(__name__)
stock = {"tea": 8}
sold = []


@app.get("/buy/<name>")
def buy(name):
    left = stock.pop(name)
    if left > 1:
        stock[name] = left - 1
    sold.append(name)
    return jsonify(left=left - 1)


@app.get("/sold")
def count():
    return jsonify(count=len(sold))
"""
BUY = "buyer = {}.test_client()\nfor _ in range(10):\n    answer = buyer.get('/buy/tea')\n    print(answer.status_code)"
HANGING = """\
import asyncio


async def fetch(queue, number):
    await asyncio.sleep(0.01)
    await queue.put(number)


async def collect(queue, count):
    return [await queue.get() for _ in range(count)]


async def main():
    queue = asyncio.Queue()
    numbers = range(5)
    for number in numbers:
        if number % 2:
            asyncio.create_task(fetch(queue, number))
    return sum(await collect(queue, len(numbers)))
"""
LEAK = """\
class Page:
    def __init__(self, number):
        self.text = "x" * 1000 + str(number)


class Cache:
    def __init__(self):
        self.recent = []
        self.by_number = {}

    def page(self, number):
        page = self.by_number.get(number) or Page(number)
        self.by_number[number] = page
        self.recent.append(page)
        if len(self.recent) > 10:
            self.recent.pop(0)
        return page


cache = Cache()


def serve(number):
    return len(cache.page(number).text)
"""
COUNT_PAGES = (
    "import gc\nfor number in range(1000):\n    leak.serve(number)\n"
    "pages = [one for one in gc.get_objects() if isinstance(one, leak.Page)]\nprint(len(pages))\n"
    "holders = [one for one in gc.get_referrers(pages[0]) if one is not pages]\n"
    "print([(type(one).__name__, len(one)) for one in holders])"
)
SLOW = """\
def words(text):
    return text.split()


def unique(items):
    found = []
    for item in items:
        if item not in found:
            found.append(item)
    return found


def report(text):
    return {word: len(word) for word in unique(words(text))}
"""
TEXT = "' '.join(str(number) for number in range(6000))"
CSV_QUESTIONS = [
    "len(rows)",
    "round(sum(float(one['amount']) for one in rows), 2)",
    "collections.Counter(one['city'] for one in rows).most_common(1)",
    "max(float(one['amount']) for one in rows)",
    "sum(not one['name'] for one in rows)",
]


SETTINGS = """\
SECRET_KEY = "of a bench"
INSTALLED_APPS = ["shop"]
DATABASES = {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": "shop.sqlite3"}}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
DEBUG = True
"""
MANAGE = """\
import os
import sys

from django.core.management import execute_from_command_line

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "settings")
execute_from_command_line(sys.argv)
"""
MODELS = """\
from django.db import models


class Customer(models.Model):
    name = models.CharField(max_length=40)


class Order(models.Model):
    customer = models.ForeignKey(Customer, models.CASCADE, related_name="orders")
    amount = models.IntegerField()
    is_paid = models.BooleanField(default=True)
"""
QUERIES = '''\
from shop.models import Customer, Order


def unpaid():
    """Return the names of customers with unpaid orders."""
    return sorted({order.customer.name for order in Order.objects.filter(is_paid=False).select_related("customer")})


def totals():
    """Return the total of the paid orders of each customer who has any, by name."""
    found = {}
    for customer in Customer.objects.all():
        paid = [order for order in customer.orders.all() if order.is_paid]
        if paid:
            found[customer.name] = sum(order.amount for order in paid)
    return found
'''
FILL = """\
from shop.models import Customer, Order

customers = Customer.objects.bulk_create(Customer(name=f"customer {number}") for number in range(300))
Order.objects.bulk_create(
    Order(customer=customer, amount=number, is_paid=number % 3 > 0) for customer in customers for number in range(1, 5)
)
"""
COUNT_QUERIES = (
    "from django.db import connection\nfrom django.test.utils import CaptureQueriesContext\n"
    "with CaptureQueriesContext(connection) as captured:\n    totals = queries.totals()\n"
    "print(len(captured), captured[-1]['sql'][:80], list(totals.items())[:2])"
)
DATA = "city,amount\\nOslo,12.50\\nBonn,7.25\\nOslo,3.75\\nLima,9.00\\n"
CELLS = [
    f"import csv, io\nDATA = '{DATA}'",
    """\
rows = [
    {'city': row['city'], 'amount': int(float(row['amount']))}
    for row in csv.DictReader(io.StringIO(DATA))
]""",
    "by_city = {}\nfor row in rows:\n    by_city.setdefault(row['city'], []).append(row['amount'])",
    "totals = {city: sum(amounts) for city, amounts in by_city.items()}",
    "totals['Oslo']",
    "print(max(totals, key=totals.get))",
]
CLOJURE = """\
(ns shop.core)

(defn net
  "Return the price of an order after its discount."
  [order]
  (- (:amount order) (:discount order)))

(defn total
  "Return the sum of the prices of orders."
  [orders]
  (reduce + (map net orders)))
"""
CLOJURE_TESTS = """\
(ns shop.core-test
  (:require [clojure.test :refer [deftest is]]
            [shop.core :as core]))

(def orders
  [{:city "Oslo" :amount 10 :discount 2} {:city "Bonn" :amount 5 :discount 0} {:city "Oslo" :amount 4 :discount 1}])

(deftest totals
  (is (= 16 (core/total orders))))
"""


@dataclass
class Way:
    """One way of doing a task in a workspace, with what it took."""

    workspace: Path
    calls: int = 0
    bytes: int = 0
    seconds: float = 0.0
    texts: list = field(default_factory=list)

    def read(self, text, started):
        self.seconds += time.monotonic() - started
        self.calls += 1
        self.bytes += len(text.encode())
        self.texts.append(text)
        return text

    def has_read(self, text):
        """Return whether an answer showed a line, which an edit may then change."""
        line = json.dumps(text.strip(), ensure_ascii=False)[1:-1]
        return any(line in item or text.strip() in item for item in self.texts)


class Shell(Way):
    """A shell, and an edit tool."""

    python = ""

    def run(self, command, limit_s=LIMIT_S):
        started = time.monotonic()
        environ = {**os.environ, "PATH": f"{Path(self.python).parent}{os.pathsep}{os.environ['PATH']}"}
        environ.pop("PYTHONDONTWRITEBYTECODE", None)
        done = subprocess.run(
            ["bash", "-c", command], cwd=self.workspace, env=environ, text=True, timeout=limit_s, check=False,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        return self.read(done.stdout, started)

    def edit(self, file, old, new):
        started = time.monotonic()
        path = self.workspace / file
        text = path.read_text()
        require(self.has_read(old.splitlines()[0]) and text.count(old) == 1, f"{old!r} was not read")
        path.write_text(text.replace(old, new))
        lines = path.read_text().splitlines()
        at = text[: text.index(old)].count("\n")
        numbers = range(max(0, at - CONTEXT_LINES), min(len(lines), at + new.count("\n") + 1 + CONTEXT_LINES))
        displayed = "\n".join(f"{number + 1}\t{lines[number]}" for number in numbers)
        return self.read(f"The file {path} has been updated.\n{displayed}", started)


class Codriver(Way):
    """A client of Codriver's relay."""

    client = None

    def call(self, tool, **arguments):
        started = time.monotonic()
        lean = {"detail": False} if tool in EVALUATING else {}  # the test client would ask for details
        answer = self.client.call(tool, **arguments, **lean)
        self.read(json.dumps(answer, ensure_ascii=False, separators=(",", ":")), started)
        return answer

    def evaluate(self, code, **arguments):
        return self.call("evaluate_code", code=code, **arguments)

    def edit(self, file, old, new, **act):
        require(self.has_read(old.splitlines()[0]), f"{old!r} was not read")
        return self.call("edit_files", edits=[{"filePath": file, "oldText": old, "newText": new}], load=True, **act)


def require(holds, text):
    if not holds:
        raise AssertionError(text)


# The tasks: files, a script for each way, and a check of the workspace.


def flask_files(workspace, _size):
    (workspace / "shop.py").write_text(SHOP)


FLASK_OLD, FLASK_NEW = (
    "    left = stock.pop(name)\n",
    "    left = stock.pop(name, 0)\n    if not left:\n        return jsonify(left=0)\n",
)


def flask_shell(way):
    program = f"import shop\n{BUY.format('shop.app')}"
    require("KeyError" in way.run(f"python - <<'END'\n{program}\nEND"), "the shop does not fail")
    way.run("sed -n '8,18p' shop.py")
    way.edit("shop.py", FLASK_OLD, FLASK_NEW)
    require("500" not in way.run(f"python - <<'END'\n{program}\nEND"), "the shop still fails")


def flask_codriver(way):
    program = f"import shop\nshop.app.testing = True\n{BUY.format('shop.app')}"
    require(way.evaluate(program)["error"]["class"] == "KeyError", "the shop does not fail")
    way.edit("shop.py", FLASK_OLD, FLASK_NEW)
    answer = way.evaluate("print(*[buyer.get('/buy/tea').status_code for _ in range(10)])")
    require(answer["ok"] and "500" not in answer["stdout"], f"the live shop still fails: {answer}")


def flask_check(workspace, python):
    code = "import shop; c = shop.app.test_client(); print({c.get('/buy/tea').status_code for _ in range(20)})"
    require(output(workspace, python, code) == "{200}", "the shop fails")


def hanging_files(workspace, _size):
    (workspace / "job.py").write_text(HANGING)


HANGING_OLD = "        if number % 2:\n            asyncio.create_task(fetch(queue, number))\n"
HANGING_NEW = "        asyncio.create_task(fetch(queue, number))\n"


def hanging_shell(way):
    way.run("timeout -s INT 5 python -c 'import asyncio, job; print(asyncio.run(job.main()))'")
    way.run("cat job.py")
    way.edit("job.py", HANGING_OLD, HANGING_NEW)
    require(
        "10" in way.run("timeout -s INT 5 python -c 'import asyncio, job; print(asyncio.run(job.main()))'"), "hangs"
    )


def hanging_codriver(way):
    answer = way.evaluate("import job, asyncio\nasyncio.run(job.main())", timeoutMs=3000, onTimeout="interrupt")
    require(not answer["ok"], f"it does not hang: {answer}")
    if not way.has_read(HANGING_OLD.splitlines()[0]):
        way.evaluate("import inspect; print(inspect.getsource(job.main))")
    way.edit("job.py", HANGING_OLD, HANGING_NEW)
    require(way.evaluate("asyncio.run(job.main())", timeoutMs=10_000)["result"] == "10", "it still hangs")


def hanging_check(workspace, python):
    require(output(workspace, python, "import asyncio, job; print(asyncio.run(job.main()))") == "10", "it hangs")


def leak_files(workspace, _size):
    (workspace / "leak.py").write_text(LEAK)


LEAK_OLD = "            self.recent.pop(0)\n"
LEAK_NEW = "            self.recent.pop(0)\n            self.by_number.pop(min(self.by_number), None)\n"


def leak_shell(way):
    program = f"python - <<'END'\nimport leak\n{COUNT_PAGES}\nEND"
    require("1000" in way.run(program), "nothing leaks")
    way.run("cat leak.py")
    way.edit("leak.py", LEAK_OLD, LEAK_NEW)
    require("1000" not in way.run(program), "it still leaks")


def leak_codriver(way):
    require("1000" in way.evaluate(f"import leak\n{COUNT_PAGES}")["stdout"], "nothing leaks")
    way.evaluate("import inspect; print(inspect.getsource(leak.Cache))")
    way.edit("leak.py", LEAK_OLD, LEAK_NEW)
    again = f"leak.cache = leak.Cache(); del pages, holders\n{COUNT_PAGES}"
    require("1000" not in way.evaluate(again)["stdout"], "it still leaks")


def leak_check(workspace, python):
    code = "import leak; [leak.serve(n) for n in range(1000)]; print(len(leak.cache.by_number) < 20)"
    require(output(workspace, python, code) == "True", "it leaks")


def slow_files(workspace, _size):
    (workspace / "slow.py").write_text(SLOW)


SLOW_OLD = (
    "    found = []\n    for item in items:\n        if item not in found:\n            found.append(item)\n"
    "    return found\n"
)
SLOW_NEW = "    return list(dict.fromkeys(items))\n"


def slow_shell(way):
    profile = f"import cProfile, slow; text = {TEXT}; cProfile.run('slow.report(text)', sort='cumulative')"
    require("unique" in way.run(f'python -c "{profile}" | head -15'), "no profile")
    way.run("sed -n '/def unique/,/return found/p' slow.py")
    way.edit("slow.py", SLOW_OLD, SLOW_NEW)
    way.run(f'python -c "{profile}" | head -3')


def slow_codriver(way):
    profile = (
        f"import cProfile, pstats, slow\ntext = {TEXT}\nrun = cProfile.Profile()\nrun.runcall(slow.report, text)\n"
        "pstats.Stats(run).sort_stats('cumulative').print_stats(4)"
    )
    require("unique" in way.evaluate(profile)["stdout"], "no profile")
    way.evaluate("import inspect; print(inspect.getsource(slow.unique))")
    way.edit("slow.py", SLOW_OLD, SLOW_NEW)
    require(way.evaluate("import timeit; timeit.timeit(lambda: slow.report(text), number=1)")["ok"], "it fails")


def slow_check(workspace, python):
    code = f"import slow, time; t = time.process_time(); slow.report({TEXT}); print(time.process_time() - t < 0.2)"
    require(output(workspace, python, code) == "True", "it is slow")


def csv_files(workspace, megabytes):
    chance = random.Random(7)
    with (workspace / "sales.csv").open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["name", "city", "amount", "note"])
        while file.tell() < megabytes * 1_000_000:
            for _ in range(1000):
                name = chance.choice(["ann", "bob", "eve", ""])
                rows.writerow([name, chance.choice(["Oslo", "Bonn", "Lima"]), chance.randrange(10_000) / 100, "x" * 60])


LOAD_CSV = "import collections, csv\nwith open('sales.csv') as file:\n    rows = list(csv.DictReader(file))\n"


def csv_shell(way):
    for code in CSV_QUESTIONS:
        require(way.run(f"python - <<'END'\n{LOAD_CSV}print({code})\nEND").strip(), "no answer")


def csv_codriver(way):
    for number, code in enumerate(CSV_QUESTIONS):
        answer = way.evaluate(f"{'' if number else LOAD_CSV}{code}", timeoutMs=120_000)
        require(answer["ok"], f"no answer: {answer}")


def csv_check(_workspace, _python):
    pass


def django_files(workspace, _size):
    for name, content in (
        ("settings.py", SETTINGS), ("manage.py", MANAGE), ("shop/__init__.py", ""), ("shop/models.py", MODELS),
        ("shop/queries.py", QUERIES),
    ):  # fmt: skip
        (workspace / name).parent.mkdir(exist_ok=True)
        (workspace / name).write_text(content)
    python = workspace / ".venv" / "bin" / "python"
    for words in (["migrate", "--run-syncdb", "-v0"], ["shell", "-v0", "-c", FILL]):
        subprocess.run([python, "manage.py", *words], cwd=workspace, check=True)


DJANGO_OLD = (
    "    for customer in Customer.objects.all():\n"
    "        paid = [order for order in customer.orders.all() if order.is_paid]\n"
)
DJANGO_NEW = (
    '    for customer in Customer.objects.prefetch_related("orders"):\n'
    "        paid = [order for order in customer.orders.all() if order.is_paid]\n"
)


def django_shell(way):
    program = f"python manage.py shell -v0 -c \"$(cat <<'END'\nfrom shop import queries\n{COUNT_QUERIES}\nEND\n)\""
    require("301" in way.run(program), "the query set is not slow")
    way.run("sed -n '/def totals/,$p' shop/queries.py")
    way.edit("shop/queries.py", DJANGO_OLD, DJANGO_NEW)
    require("2 SELECT" in way.run(program), "it is still slow")


def django_codriver(way):
    setup = "import os, django\nos.environ['DJANGO_SETTINGS_MODULE'] = 'settings'\ndjango.setup()\n"
    measure = "\n    ".join(["def measure():", *COUNT_QUERIES.splitlines()])
    found = way.evaluate(f"{setup}from shop import queries\n{measure}\nmeasure()")
    require("301" in found["stdout"], "the query set is not slow")
    way.call("symbol_info", symbol="shop.queries.totals", source=True)
    way.edit("shop/queries.py", DJANGO_OLD, DJANGO_NEW)
    require("2 SELECT" in way.evaluate("measure()")["stdout"], "it is still slow")


def django_check(workspace, python):
    setup = "import os, django; os.environ['DJANGO_SETTINGS_MODULE'] = 'settings'; django.setup(); "
    code = setup + "from shop import queries; print(sum(queries.totals().values()), len(queries.totals()))"
    require(output(workspace, python, code) == "2100 300", "the totals are wrong")


def notebook_files(workspace, _size):
    cells = [
        {"cell_type": "code", "execution_count": None, "id": f"c{number}", "metadata": {}, "outputs": [],
         "source": text.splitlines(keepends=True)}
        for number, text in enumerate(CELLS, 1)
    ]  # fmt: skip
    about = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    notebook = {"cells": cells, "metadata": about, "nbformat": 4, "nbformat_minor": 5}
    (workspace / "sales.ipynb").write_text(f"{json.dumps(notebook, indent=1)}\n")
    subprocess.run([workspace / ".venv" / "bin" / "python", "-c", EXECUTE], cwd=workspace, check=True)


EXECUTE = (
    "import nbformat, nbclient\nbook = nbformat.read('sales.ipynb', 4)\nnbclient.NotebookClient(book).execute()\n"
    "nbformat.write(book, 'sales.ipynb')"
)
NOTEBOOK_OLD, NOTEBOOK_NEW = "int(float(row['amount']))", "float(row['amount'])"


def notebook_shell(way):
    require("'15'" in way.run("cat sales.ipynb").replace('"', "'"), "the result of cell 5 is not wrong")
    code = "; ".join(f"exec(''.join(cells[{number}]['source']))" for number in range(4))
    look = f"import json\ncells = json.load(open('sales.ipynb'))['cells']\n{code}\nprint(rows, by_city)"
    way.run(f"python - <<'END'\n{look}\nEND")
    line = f"    \"    {{'city': row['city'], 'amount': {NOTEBOOK_OLD}}}\\n\",\n"
    way.edit("sales.ipynb", line, line.replace(NOTEBOOK_OLD, NOTEBOOK_NEW))
    result = "import json; print(json.load(open('sales.ipynb'))['cells'][4]['outputs'])"
    require("16.25" in way.run(f"python - <<'END'\n{EXECUTE}\n{result}\nEND"), "the result is still wrong")


def notebook_codriver(way):
    way.call("status", about="cells", file="sales.ipynb")
    require(way.call("run_cell", filePath="sales.ipynb", cells="all", timeoutMs=60_000)["ok"], "a cell fails")
    require("12" in way.evaluate("rows, by_city")["result"], "cell 2 is right")
    edit = {"filePath": "sales.ipynb", "cell": "c2", "oldText": NOTEBOOK_OLD, "newText": NOTEBOOK_NEW}
    require(way.has_read(NOTEBOOK_OLD), "the cell was not read")
    way.call("edit_files", edits=[edit])
    way.call("run_cell", filePath="sales.ipynb", cells="all", timeoutMs=60_000)
    require("16.25" in way.texts[-1], "the result is still wrong")


def notebook_check(workspace, python):
    code = "import json; print(json.load(open('sales.ipynb'))['cells'][4]['outputs'][0]['data']['text/plain'])"
    require("16.25" in output(workspace, python, code), "the saved result is wrong")


def clojure_files(workspace, _size):
    for name, content in (
        ("deps.edn", '{:paths ["src" "test"]}\n'), ("src/shop/core.clj", CLOJURE),
        ("test/shop/core_test.clj", CLOJURE_TESTS),
    ):  # fmt: skip
        (workspace / name).parent.mkdir(parents=True, exist_ok=True)
        (workspace / name).write_text(content)


def broken_clojure_files(workspace, size):
    clojure_files(workspace, size)
    tests = workspace / "test" / "shop" / "core_test.clj"
    tests.write_text(tests.read_text().replace(" :discount 0", ""))


CLOJURE_RUN = (
    "CLASSPATH=src:test clojure -e \"(require 'shop.core-test) "
    "(let [found (clojure.test/run-tests 'shop.core-test)] (System/exit (+ (:fail found) (:error found))))\""
)
CLOJURE_OLD, CLOJURE_NEW = "(:discount order)", "(:discount order 0)"
BY_CITY = """\
(defn by-city
  "Return the sum of the prices of orders by city."
  [orders]
  (into {} (for [[city found] (group-by :city orders)] [city (total found)])))
"""
BY_CITY_TEST = """\
(deftest cities
  (is (= {"Oslo" 11 "Bonn" 5} (core/by-city orders))))
"""


def clojure_fix_shell(way):
    require("NullPointerException" in way.run(CLOJURE_RUN), "no test fails")
    way.run("cat src/shop/core.clj")
    way.edit("src/shop/core.clj", f"  (- (:amount order) {CLOJURE_OLD}))", f"  (- (:amount order) {CLOJURE_NEW}))")
    require("0 failures, 0 errors" in way.run(CLOJURE_RUN), "a test still fails")


def clojure_fix_codriver(way):
    answer = way.call("run_tests", paths=["test/shop/core_test.clj"], timeoutMs=60_000)
    require("NullPointerException" in way.texts[-1], f"no test fails: {answer}")
    if not way.has_read(CLOJURE_OLD):
        way.call("symbol_info", symbol="shop.core/net", source=True)
    answer = way.edit("src/shop/core.clj", CLOJURE_OLD, CLOJURE_NEW, test=["affected"], onFailure="restore")
    require(answer["tests"] == {"passed": 1, "failed": 0, "unfinished": 0}, f"a test still fails: {answer}")


def clojure_feature_shell(way):
    way.run("cat src/shop/core.clj test/shop/core_test.clj")
    way.edit("src/shop/core.clj", "  (reduce + (map net orders)))", f"  (reduce + (map net orders)))\n\n{BY_CITY}")
    last = "  (is (= 16 (core/total orders))))"
    way.edit("test/shop/core_test.clj", last, f"{last}\n\n{BY_CITY_TEST}")
    require("Ran 2 tests" in way.run(CLOJURE_RUN) and "0 failures, 0 errors" in way.texts[-1], "a test fails")


def clojure_feature_codriver(way):
    answer = way.evaluate('(doseq [file ["src/shop/core.clj" "test/shop/core_test.clj"]] (print (slurp file)))')
    require(way.has_read("(ns shop.core)"), f"the files were not read: {answer}")
    files = [("src/shop/core.clj", BY_CITY), ("test/shop/core_test.clj", BY_CITY_TEST)]
    edits = [{"filePath": file, "type": "append", "code": code} for file, code in files]
    answer = way.call("edit_files", edits=edits, load=True, test=["affected"], onFailure="restore")
    require(answer["tests"] == {"passed": 2, "failed": 0, "unfinished": 0}, f"a test fails: {answer}")


def clojure_check(workspace, _python):
    done = subprocess.run(
        ["bash", "-c", CLOJURE_RUN], cwd=workspace, capture_output=True, text=True, timeout=LIMIT_S, check=False
    )
    require("0 failures, 0 errors" in done.stdout, "a test fails")


TASKS = {
    "a Flask shop that goes wrong after eight requests": (flask_files, flask_shell, flask_codriver, flask_check),
    "a Django query set that is slow": (django_files, django_shell, django_codriver, django_check),
    "an asyncio program that hangs": (hanging_files, hanging_shell, hanging_codriver, hanging_check),
    "a leak": (leak_files, leak_shell, leak_codriver, leak_check),
    "a slow function": (slow_files, slow_shell, slow_codriver, slow_check),
    "a notebook whose second cell makes the fifth wrong": (
        notebook_files, notebook_shell, notebook_codriver, notebook_check,
    ),
    "five questions about a CSV file": (csv_files, csv_shell, csv_codriver, csv_check),
    "a Clojure fix": (broken_clojure_files, clojure_fix_shell, clojure_fix_codriver, clojure_check),
    "a Clojure feature": (clojure_files, clojure_feature_shell, clojure_feature_codriver, clojure_check),
}  # fmt: skip
REPLS = {
    "a notebook whose second cell makes the fifth wrong": "jupyter", "a Clojure fix": "clojure",
    "a Clojure feature": "clojure",
}  # fmt: skip
"""The REPLs of tasks that do not use Python's."""


def output(workspace, python, code):
    command = [python, "-c", code]
    return subprocess.run(
        command, cwd=workspace, capture_output=True, text=True, timeout=LIMIT_S, check=False
    ).stdout.strip()


def environment_of(workspace, interpreter):
    """Make an environment of the workspace that has the packages of an interpreter, and return its Python."""
    subprocess.run([interpreter, "-m", "venv", "--without-pip", workspace / ".venv"], check=True)
    query = "import sysconfig; print(sysconfig.get_path('purelib'))"
    packages = subprocess.check_output([interpreter, "-c", query], text=True).strip()
    (next((workspace / ".venv" / "lib").glob("python3*")) / "site-packages" / "all.pth").write_text(f"{packages}\n")
    return str(workspace / ".venv" / "bin" / "python")


def do_task(name, interpreter, megabytes, texts=None):
    """Do a task in both ways, each in a workspace of its own, and return a row."""
    files, shell_script, codriver_script, check = TASKS[name]
    with tempfile.TemporaryDirectory() as folder:
        workspace = Path(folder) / "workspace"
        workspace.mkdir()
        python = environment_of(workspace, interpreter)
        files(workspace, megabytes)
        shell = Shell(workspace)
        shell.python = python
        shell_script(shell)
        check(workspace, python)
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        workspace = Path(folder) / "workspace"
        workspace.mkdir()
        python = environment_of(workspace, interpreter)
        files(workspace, megabytes)
        user_settings_file(folder).write_text('toolset = "default"\n')
        live = stack.enter_context(serving(folder, "--repl", REPLS.get(name, "python")))
        codriver = Codriver(workspace)
        codriver.client = stack.enter_context(live.relay(name=CLIENT))
        codriver.client.call("evaluate_code", code="1", timeoutMs=LIMIT_S * 1000)  # the REPL has started
        codriver_script(codriver)
        check(workspace, python)
    if texts is not None:
        texts.mkdir(parents=True, exist_ok=True)
        for kind, way in (("shell", shell), ("codriver", codriver)):
            (texts / f"{name}, {kind}.txt").write_text("\n\n".join(way.texts))
    return {
        "task": name, "calls": [shell.calls, codriver.calls], "bytes": [shell.bytes, codriver.bytes],
        "seconds": [round(shell.seconds, 2), round(codriver.seconds, 2)],
    }  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("interpreter")
    parser.add_argument("--task", choices=TASKS, action="append")
    parser.add_argument("--megabytes", type=int, default=150, help="size of the CSV file")
    parser.add_argument("--results", type=Path, help="a file of JSON lines; tasks that it has are not done again")
    parser.add_argument("--texts", type=Path, help="a folder for the texts that each way read")
    given = parser.parse_args()
    rows = []
    if given.results and given.results.exists():
        rows = [json.loads(line) for line in given.results.read_text().splitlines()]
    for name in given.task or TASKS:
        if name in {row["task"] for row in rows}:
            continue
        row = do_task(name, given.interpreter, given.megabytes, given.texts)
        rows.append(row)
        line = f"{json.dumps(row)}\n"
        sys.stdout.write(line)
        sys.stdout.flush()
        if given.results:
            with given.results.open("a") as file:
                file.write(line)
    for what in ("calls", "bytes", "seconds"):
        shell, codriver = (sum(row[what][way] for row in rows) for way in (0, 1))
        sys.stdout.write(f"{what}: shell {shell:g}, Codriver {codriver:g}, ratio {codriver / max(shell, 0.01):.2f}\n")


if __name__ == "__main__":
    main()
