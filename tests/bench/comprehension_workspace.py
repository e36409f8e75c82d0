"""The workspace in which the calls of readers run, with Python, Clojure, a notebook, an application and a history.

Its tests write their names to a file outside of the workspace, which shows the tests that a call ran and their order.
`prepared` starts everything, and `Prepared.reset` restores the files.
"""

import json
import os
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

TESTS = Path(__file__).parents[1]
sys.path[:0] = [str(TESTS / "support")]

import real_kernels  # noqa: E402  # of the folder just added
import real_repls  # noqa: E402
from accepted import accept  # noqa: E402
from lent_servers import new_directory  # noqa: E402
from live_server import Live, environ, until, user_settings_file  # noqa: E402

SEAM = TESTS.parent / "server"
NOTEBOOK = "reports/sales.ipynb"
CELLS = ["import math\nprices = [3, 5, 8]", "total = sum(prices)\ntotal", "mean = total / len(prices)\nmean",
         "share = total / (len(prices) - 3)", "print('done')"]  # fmt: skip


def notebook() -> str:
    """Return the text of a notebook whose fourth cell fails."""
    cells = [
        {"cell_type": "code", "id": f"cell-{n}", "metadata": {}, "execution_count": None, "outputs": [], "source": code}
        for n, code in enumerate(CELLS)
    ]
    spec = {"kernelspec": {"name": "python3", "display_name": "Python 3"}}
    return json.dumps({"cells": cells, "metadata": spec, "nbformat": 4, "nbformat_minor": 5})


FILES = {
    "pyproject.toml": """\
[project]
name = "store"

[tool.pytest.ini_options]
testpaths = ["tests"]
markers = ["slow: takes long", "network: needs a connection"]
""",
    "store/__init__.py": "",
    "store/prices.py": '''\
"""Prices of the store."""

import math

RATE = 0.19
TIMEOUT = 30


def gross(net):
    """Return the price with tax, to the cent."""
    return math.floor(net * (1 + RATE))


def discount(net, percent):
    return net - net * percent / 100


def line(item):
    return discount(item["net"], item.get("percent", 0)) * item["count"]


def total(items):
    return sum(line(one) for one in items)
''',
    "store/pages.py": '''\
"""Pages of a list."""

SIZE = 10


def last_page(count):
    return count // SIZE


def is_last(page, count):
    return page >= last_page(count)
''',
    "store/names.py": '''\
"""Names in addresses."""

import hashlib


def slug(text):
    return text.strip().lower().replace(" ", "-")


def digest(text):
    return hashlib.md5(text.encode()).hexdigest()
''',
    "store/settings.py": '''\
"""Settings of the store."""


def parse(text):
    pairs = [row.split("=") for row in text.split()]
    return dict(pairs)


def read_value(name, text):
    known = parse(text)
    return known[name]


def load_settings(text):
    path = "/etc/store.ini"
    names = ("host", "port", "token")
    return {name: read_value(name, text) for name in names}
''',
    "store/cache/__init__.py": "",
    "store/cache/memory.py": "TTL = 60\n\n\ndef keep(value, ttl=TTL):\n    return value, ttl\n",
    "store/cache/disk.py": "TTL = 60\n\n\ndef path_of(key, ttl=TTL):\n    return f'{key}-{ttl}'\n",
    "tests/conftest.py": """\
from pathlib import Path

RAN = Path(__file__).parents[2] / "ran.txt"


def pytest_runtest_call(item):
    with RAN.open("a") as file:
        file.write(item.nodeid + "\\n")
""",
    "tests/test_prices.py": """\
from store.prices import discount, gross, total


def test_gross():
    assert gross(10) == 11.9


def test_discount():
    assert discount(100, 15) == 85


def test_total():
    assert total([{"net": 10, "count": 2, "percent": 50}]) == 10
""",
    "tests/test_pages.py": """\
from store.pages import is_last, last_page


def test_last_page():
    assert [last_page(n) for n in (1, 10, 11, 20)] == [1, 1, 2, 2]


def test_is_last():
    assert is_last(2, 20)
""",
    "tests/test_names.py": """\
from store.names import digest, slug


def test_slug():
    assert slug(" Red Shoes ") == "red-shoes"


def test_digest_is_stable():
    assert digest("a") == "0cc175b9c0f1b6a831c399e269772661"


def test_digest_is_hexadecimal():
    assert int(digest("b"), 16)
""",
    "tests/test_settings.py": """\
from store.settings import load_settings


def test_settings_are_complete():
    assert load_settings("host=a port=1")["port"] == "1"
""",
    "tests/test_order.py": """\
import os


def test_greeting():
    assert os.environ.get("STORE_LANG", "en") == "en"


def test_french():
    os.environ["STORE_LANG"] = "fr"
""",
    "tests/test_slow.py": """\
import time

import pytest


@pytest.mark.slow
def test_big_import():
    time.sleep(1.2)


@pytest.mark.network
def test_mirror():
    pass


def test_small_import():
    pass
""",
    "tests/cache/test_memory.py": """\
from store.cache.memory import keep


def test_keep():
    assert keep(1)[0] == 1
""",
    "tests/cache/test_disk.py": """\
from store.cache.disk import path_of


def test_path():
    assert path_of("a").startswith("a-")
""",
    "tools/slow_sum.py": """\
def pick(numbers):
    return [n for n in numbers if n % 3]


def square_all(numbers):
    found = []
    for n in numbers:
        found = [*found, n * n]
    return found


def report(count):
    return sum(square_all(pick(range(count))))
""",
    "src/shop/cart.clj": """\
(ns shop.cart)

(defn price [item] (* (:count item) (:net item)))

(defn total [items] (reduce + 1 (map price items)))
""",
    "src/shop/cart_test.clj": """\
(ns shop.cart-test
  (:require [clojure.test :refer [deftest is]] [shop.cart :as cart]))

(deftest price-test (is (= 6 (cart/price {:count 2 :net 3}))))

(deftest total-test (is (= 6 (cart/total [{:count 2 :net 3}]))))
""",
    NOTEBOOK: notebook(),
    "board.py": f'''\
"""A small server with a queue, which has a REPL in it."""

import sys, threading, time

sys.path.insert(0, {str(SEAM)!r})
import codriver_seam

sessions = {{f"user-{{n}}": n for n in range(7)}}
lock = threading.Lock()


def drain():
    with lock:
        pass


def wait_for_work():
    threading.Event().wait()


if __name__ == "__main__":
    codriver_seam.start_repl(True)
    lock.acquire()
    threading.Thread(target=drain, name="drainer", daemon=True).start()
    threading.Thread(target=wait_for_work, name="worker", daemon=True).start()
    while True:
        time.sleep(0.5)
''',
}


class Prepared:
    """The running workspace, and the address of an nREPL server that it does not know."""

    def __init__(self, live, other_nrepl):
        self.live, self.other_nrepl = live, other_nrepl
        self.ran_file = live.folder / "ran.txt"

    def reset(self):
        """Write all files as they were, and forget which tests ran."""
        for name, text in FILES.items():
            file = self.live.workspace / name
            if not file.exists() or file.read_text() != text:
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(text)
        self.ran_file.write_text("")

    def ran(self):
        """Return the ids of the tests that ran since the last reset, in order."""
        return self.ran_file.read_text().splitlines()


def history(live):
    """Let two agents work: one looks at prices and fails, the other one edits a page and tests it."""
    with live.client(name="claude-code") as ann:
        ann.call("evaluate_code", code="import store.prices as p\np.gross(10)", who="fix-prices", replSessionKey="py")
        ann.call("evaluate_code", code="p.discount('ten', 5)", who="fix-prices", replSessionKey="py")
        ann.call("run_tests", paths=["tests/test_prices.py"], who="fix-prices")
    with live.client(name="codex-mcp-client") as ben:
        edit = {"filePath": "store/pages.py", "oldText": "SIZE = 10", "newText": "SIZE = 20"}
        ben.call("edit_files", edits=[edit], load=True, who="page-size", replSessionKey="py")
        ben.call("edit_files", edits=[{**edit, "oldText": "= 20", "newText": "= 10"}], load=True, who="page-size",
                 replSessionKey="py")  # fmt: skip
        ben.call("evaluate_code", code="(require 'shop.cart) (shop.cart/price {:count 2 :net 4})", who="page-size",
                 replSessionKey="clj")  # fmt: skip


@contextmanager
def prepared(folder):
    """Start the server with its four REPLs, load the code, and let two agents work before."""
    folder = Path(folder)
    workspace = folder / "workspace"
    user_settings_file(folder).write_text("")
    for name, text in FILES.items():
        (workspace / name).parent.mkdir(parents=True, exist_ok=True)
        (workspace / name).write_text(text)
    clojure, other = real_repls.start("jvm"), real_repls.start("lisp")
    kernel_file = new_directory("kernel") / real_kernels.FILE
    from jupyter_client.connect import write_connection_file  # noqa: PLC0415  # where kernels are tested only

    write_connection_file(str(kernel_file), key=os.urandom(16).hex().encode())
    variables = {**real_kernels.environment(folder), "JPY_SESSION_NAME": str(workspace / NOTEBOOK)}
    command = real_kernels.command("ipykernel", str(kernel_file))
    kernel = subprocess.Popen(
        command, env=variables, cwd=workspace, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    with mock.patch.dict(os.environ, environ(folder)):
        accept(workspace)
    live = Live(folder, "--repl", "python", "--python", sys.executable, "--nrepl", f"clj={clojure.endpoint}",
                "--kernel", str(kernel_file))  # fmt: skip
    app = None
    try:
        with live.client(name="opencode") as client:
            until(lambda: len(connected(client)) == 3, "three REPLs")
            app = subprocess.Popen([sys.executable, "board.py"], cwd=workspace, env=live.environ)
            until(lambda: len(connected(client)) == 4, "the application")
            kernel_key = next(key for key in connected(client) if key not in ("clj", "py", "board"))
            for name in ("src/shop/cart.clj", "src/shop/cart_test.clj"):
                client.call("load_file", filePath=name)
            for name in ("prices", "pages", "names", "settings", "cache/memory", "cache/disk"):
                client.call("load_file", filePath=f"store/{name}.py", replSessionKey="py")
            client.call("load_file", filePath="tools/slow_sum.py", replSessionKey="py")
            client.call("evaluate_code", code="\n".join(CELLS[:3]), replSessionKey=kernel_key)
        history(live)
        found = Prepared(live, str(other.endpoint))
        found.reset()
        yield found
    finally:
        live.stop()
        clojure.stop()
        other.stop()
        for process in (kernel, app):
            if process is not None:
                process.kill()
                process.wait()


def connected(client):
    """Return the keys of the connected REPLs, in the order in which they connected."""
    rows = client.call("list_sessions")["sessions"]
    return [row["key"] for row in rows if row["phase"] == "connected" and "/" not in row["key"]]
