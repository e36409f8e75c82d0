"""The bytes of a server's answers that a model reads, and those on the wire, counted the same way on every machine.

Ids, elapsed times, line numbers, the client's name and the workspace's path are normalized to one length first: the
count depends only on the server's texts and is the same in every run. Tokens are bytes / 4.
"""

import json
import re
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from live_server import serving, until, user_settings_file

PROFILES = {
    "unknown": "some-client",
    "claude": "claude-code",
    "copilot": "copilot-cli",
    "codex": "codex-mcp-client",
    "gemini": "gemini-cli-mcp-client",
    "opencode": "opencode",
    "qwen": "qwen-cli-mcp-client-codriver",
    "cline": "@cline/core",
}
"""Clients by the name that they give themselves, `clientInfo.name`."""

SEEN_BY_MODELS = ("name", "description", "inputSchema")
"""The fields of a listed tool that models see. The others are for the client."""

PYTHON_SOURCE = """\
def receive(order):
    return total(order)


def total(order):
    return sum(prices(order))


def prices(order):
    return [price(item) for item in order["items"]]


def price(item):
    return share(item["cents"], item["pieces"])


def share(cents, pieces):
    return ratio(cents, pieces)


def ratio(cents, pieces):
    return cents / pieces
"""
"""A module whose failure comes six frames deep."""

PYTHON_TEST = """\
import orders


def test_total():
    assert orders.total({"items": [{"cents": 6, "pieces": 3}]}) == 18
"""

CLOJURE_SOURCE = """\
(ns shop.orders)

(defn ratio [cents pieces] (/ cents pieces))

(defn share [cents pieces] (inc (ratio cents pieces)))

(defn price [item] (inc (share (:cents item) (:pieces item))))

(defn prices [order] (mapv price (:items order)))

(defn total [order] (reduce + (prices order)))

(defn receive [order] (inc (total order)))
"""


@dataclass(frozen=True)
class Cost:
    """One answer: the bytes of its line, and of the text that the model reads."""

    wire: int
    read: int


@dataclass(frozen=True)
class Language:
    """The files of a workspace, the code to evaluate first, and the code of each row; `options` start the server."""

    name: str
    files: dict[str, str]
    before: str
    rows: dict[str, str]
    options: tuple[str, ...]
    calls: tuple[tuple[str, str, dict], ...] = ()
    """The rows of other tools, in this order: the name of each, its tool and its arguments."""


def python():
    """Create the Python workspace."""
    rows = {
        "1+2": "1+2",
        "1/0": "1/0",
        "exception six frames deep": '__import__("orders").receive({"items": [{"cents": 5, "pieces": 0}]})',
        "10 MB printed": "print('x' * 10_000_000)",
        "200,000 lines": "for n in range(200_000): print(n)",
        "list of 1,000,000": "list(range(1_000_000))",
    }
    before = "import sys; sys.path.insert(0, '.')"
    files = {"orders.py": PYTHON_SOURCE, "pyproject.toml": '[project]\nname = "shop"\n', "test_orders.py": PYTHON_TEST}
    edit = {"filePath": "orders.py", "oldText": "cents / pieces", "newText": "cents * pieces"}
    calls = (
        ("a test that fails", "run_tests", {"namespace": "test_orders.py"}),
        ("a fix, loaded and tested", "edit_files", {"edits": [edit], "load": True, "test": ["affected"]}),
    )
    return Language("python", files, before, rows, ("--repl", "python", "--python", sys.executable), calls)


def clojure(address):
    """Create the Clojure workspace, whose nREPL listens at `address`."""
    rows = {
        "1+2": "(+ 1 2)",
        "1/0": "(/ 1 0)",
        "exception six frames deep": "(shop.orders/receive {:items [{:cents 5 :pieces 0}]})",
        "10 MB printed": '(println (apply str (repeat 10000000 "x")))',
        "200,000 lines": '(println (clojure.string/join "\\n" (range 200000)))',
        "list of 1,000,000": "(range 1000000)",
    }
    files = {"src/shop/orders.clj": CLOJURE_SOURCE, "deps.edn": '{:paths ["src"]}\n'}
    return Language(
        "clojure", files, "(require 'clojure.string)", rows, ("--nrepl", f"clj={address}", "--repl", "none")
    )


VARYING = tuple(
    (re.compile(pattern), instead)
    for pattern, instead in (
        (rb'^(\{"jsonrpc":"2.0","id":)\d+', rb"\g<1>1"),
        # Only a slow machine makes these worth reporting.
        (rb',\\*"load\\*":\{\\*"elapsedMs\\*": ?\d+\}', b""),
        (rb',\\*"elapsedMs\\*": ?\d+', b""),
        (rb'(\\*"(?:first|last|firstLine|lastLine|line|timestamp|pid|port)\\*": ?)[\d.]+', rb"\g<1>1"),
        (rb'(\\*"who\\*": ?\\*")[a-z0-9-]+', rb"\g<1>some-client"),
        (rb"\b[0-9a-f]{4}-\d+\b", rb"0000-1"),
        (rb"<(eval|string|ipython-input-)[^<>]*>", rb"<eval 1>"),
        (rb"REPL:\d+|NO_SOURCE_FILE:\d+|user/eval\d+|user\$eval\d+(?:\$fn__\d+)?|__\d+", rb"eval1"),
        (rb"(?:127\.0\.0\.1|localhost):\d+", rb"127.0.0.1:1"),
    )
)  # fmt: skip


def normalized(data, *folders):
    """Return the bytes with everything that varies between runs, including paths, normalized to one length."""
    for folder in folders:
        for path in (Path(folder).resolve(), Path(folder)):
            data = data.replace(str(path).encode(), b"/w")
    for pattern, instead in VARYING:
        data = pattern.sub(instead, data)
    return data


def text_of(result):
    """Return the text of a result that a model reads."""
    return "".join(block["text"] for block in result.get("content", ()) if block["type"] == "text")


def compact(value):
    """Return the value as the shortest JSON."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


class CountingClient:
    """A client that counts. `read` is the total that a model has read through it; `folders` may occur in it."""

    def __init__(self, client, *folders):
        self.client, self.folders, self.read = client, folders, 0

    def request(self, method, params=None):
        """Return the answer and its line."""
        line = self.client.line(method, params)
        return json.loads(line), normalized(line, *self.folders)

    def call(self, tool, **arguments):
        """Return the cost of one tool call, and whether it succeeded."""
        message, line = self.request("tools/call", {"name": tool, "arguments": arguments})
        result = message["result"]
        cost = Cost(len(line), len(normalized(text_of(result).encode(), *self.folders)))
        self.read += cost.read
        return cost, not result.get("isError", False)

    def listing(self):
        """Return the cost of the tool list with the instructions, and of the output schemas alone."""
        message, line = self.request("tools/list")
        tools = message["result"]["tools"]
        seen = compact([{key: tool[key] for key in SEEN_BY_MODELS if key in tool} for tool in tools])
        words = normalized(self.client.about.get("instructions", "").encode(), *self.folders)
        schemas = sum(len(compact(tool["outputSchema"])) for tool in tools if "outputSchema" in tool)
        cost = Cost(len(line), len(seen) + len(words))
        self.read += cost.read
        return cost, Cost(schemas, 0)

    def resources(self, *uris):
        """Return the cost of reading these resources completely."""
        answers = [self.request("resources/read", {"uri": uri}) for uri in uris]
        texts = [found["text"] for message, _ in answers for found in message["result"]["contents"]]
        return Cost(sum(len(line) for _, line in answers), sum(len(text.encode()) for text in texts))


@contextmanager
def workspace_of(language, folder):
    """Return a server whose REPL of this language is ready, with its module loaded."""
    for name, text in language.files.items():
        file = Path(folder) / "workspace" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    user_settings_file(folder).write_text("")
    with serving(folder, *language.options) as live:
        with live.client(name="set-up") as client:
            until(lambda: {"evaluate_code", "interrupt_evaluation"} <= set(client.tools()), "the REPL's tools")
            assert client.call("evaluate_code", code=language.before)["ok"]
            for name in language.files:
                if name.endswith(".clj"):
                    assert client.call("load_file", filePath=name)["ok"]
        yield live


SKILLS = ("skill://live-repl/SKILL.md", "skill://editing-lisp-files/SKILL.md")
SKILL_OF_APPS = "skill://live-app/SKILL.md"
PAGES_OF_SKILLS = (*SKILLS, "skill://live-repl/REFERENCE.md", "skill://editing-lisp-files/REFERENCE.md")
OTHER_PROFILES = tuple(PROFILES)[1:]
OF_EVERY_PROFILE = ("1+2", "1/0")
LISTING, SCHEMAS = "tools/list and instructions", "output schemas"
FIRST = "0, a client's first call"
"""Its answer may say what later ones leave out."""


def skills_of(live):
    """Return the cost of the skills, which does not depend on the language."""
    with live.client(name=PROFILES["unknown"]) as client:
        counting = CountingClient(client, live.workspace)
        costs = {"the two skills": counting.resources(*SKILLS)}
        costs["the skill of applications"] = counting.resources(SKILL_OF_APPS)
        return costs | {"the skills with all their pages": counting.resources(*PAGES_OF_SKILLS)}


def answers_of(language, live):
    """Return the cost of every row of this language, by `language, row`; of other clients by `language, row,
    profile`.
    """
    costs = {}
    with live.client(name=PROFILES["unknown"]) as client:
        counting = CountingClient(client, live.workspace)
        costs[LISTING], costs[SCHEMAS] = counting.listing()
        costs[FIRST], _ = counting.call("evaluate_code", code="0")
        costs |= {row: counting.call("evaluate_code", code=code)[0] for row, code in language.rows.items()}
        costs |= {row: counting.call(tool, **arguments)[0] for row, tool, arguments in language.calls}
    for number, profile in enumerate(OTHER_PROFILES, 1):
        with live.client(name=PROFILES[profile]) as client:
            counting = CountingClient(client, live.workspace)
            costs[f"{LISTING}, {profile}"], costs[f"{SCHEMAS}, {profile}"] = counting.listing()
            counting.call("evaluate_code", code="0")
            for row in OF_EVERY_PROFILE:
                # The spaces make this different code from the last client's, because "the same result" is worth a note.
                costs[f"{row}, {profile}"], _ = counting.call("evaluate_code", code=language.rows[row] + " " * number)
    return {f"{language.name}, {row}": cost for row, cost in costs.items()}
