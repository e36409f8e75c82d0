"""Five tasks of agents as scripts of calls, so that what a model has to read for each can be counted.

A script uses nothing of an answer except whether the call succeeded: it works with any version of the server that
has the tools, whatever its answers look like. Python files are edited without the server, as agents do.
"""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Call:
    """One call. `ok` is the expected outcome, None if versions differ; `writes` are files to edit before it."""

    tool: str
    arguments: dict = field(default_factory=dict)
    ok: bool | None = True
    writes: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Task:
    """A task. `before` is another agent's work, whose cost does not count."""

    name: str
    language: str
    calls: tuple[Call, ...]
    files: dict[str, str] = field(default_factory=dict)
    before: tuple[Call, ...] = ()


def evaluate(code, *, ok=True, **more):
    """Return a call that evaluates code."""
    return Call("evaluate_code", {"code": code, **more}, ok)


def load(path, text=None, *, ok=True):
    """Return a call that loads a file, after replacing its text if a new one is given."""
    return Call("load_file", {"filePath": path}, ok, {} if text is None else {path: text})


SLUG = """\
import re


def words(title):
    return re.split(r"[^a-z0-9]", title.lower())


def slug(title):
    return "-".join(words(title))
"""
TEST_SLUG = """\
from slug import slug


def test_a_slug_is_lower_case():
    assert slug("Hello World") == "hello-world"


def test_a_slug_has_no_empty_words():
    assert slug("Hello,  World!") == "hello-world"


def test_a_slug_keeps_numbers():
    assert slug("Top 10") == "top-10"
"""
FIX_A_TEST = Task(
    "fix a failing test", "python",
    (
        Call("list_sessions"),
        load("slug.py"),
        load("test_slug.py"),
        Call("run_tests", {"namespace": "test_slug"}, ok=None),
        evaluate("from slug import words, slug\nwords('Hello,  World!')"),
        Call("symbol_info", {"symbol": "words", "namespace": "slug"}),
        evaluate("import re\nre.findall(r'[a-z0-9]+', 'Hello,  World!'.lower())"),
        load("slug.py", SLUG.replace('re.split(r"[^a-z0-9]", ', 're.findall(r"[a-z0-9]+", ')),
        evaluate("from slug import slug\nslug('Hello,  World!')"),
        load("test_slug.py"),
        Call("run_tests", {"namespace": "test_slug"}),
    ),
    {"slug.py": SLUG, "test_slug.py": TEST_SLUG},
)  # fmt: skip

REPORT = """\
def distinct(rows):
    seen = []
    for row in rows:
        if row not in seen:
            seen.append(row)
    return seen


def totals(rows):
    sums = {}
    for name, amount in rows:
        sums[name] = sums.get(name, 0) + amount
    return sums


def report(rows):
    return sorted(totals(distinct(rows)).items())
"""
PROFILE = """\
import cProfile, io, pstats
rows = [(f"n{n % 50}", n) for n in range(2000)]
with cProfile.Profile() as profile:
    report(rows)
out = io.StringIO()
pstats.Stats(profile, stream=out).sort_stats("tottime").print_stats(8)
print(out.getvalue())
"""
FIND_A_SLOW_FUNCTION = Task(
    "find a slow function", "python",
    (
        Call("list_sessions"),
        load("report.py"),
        evaluate("from report import *\nreport([('a', 1), ('b', 2), ('a', 1)])"),
        evaluate("rows = [(f'n{n % 50}', n) for n in range(2000)]\nfor row in rows: print(row)"),
        evaluate(PROFILE),
        evaluate("import inspect\nprint(inspect.getsource(distinct))"),
        evaluate("list(dict.fromkeys(rows)) == distinct(rows)"),
        load("report.py", REPORT[REPORT.index("\n\ndef totals"):].join(
            ["def distinct(rows):\n    return list(dict.fromkeys(rows))\n", ""]
        )),
        evaluate("from report import *\n" + PROFILE),
        evaluate("report(rows)"),
    ),
    {"report.py": REPORT},
)  # fmt: skip

TEST_PARSER = """\
(ns calc.parser-test
  (:require [clojure.test :refer [deftest is]]
            [calc.parser :as parser]))

(deftest a-number-is-itself
  (is (= 42 (parser/parse "42"))))

(deftest a-sum-is-a-list
  (is (= '(+ 1 2) (parser/parse "1 + 2"))))
"""
PARSER = """\
(ns calc.parser
  (:require [clojure.string :as string]))

(defn tokens [text]
  (string/split text #" "))

(defn parse [text]
  (first (tokens text)))
"""
TEST_OF_REFUSAL = """\
(deftest what-is-no-number-is-refused
  (is (thrown? NumberFormatException (parser/parse "x"))))"""


def edit(*edits):
    """Return a call that edits a file."""
    return Call("edit_files", {"edits": list(edits)})


BUILD_A_PARSER = Task(
    "build a parser test-first", "clojure",
    (
        Call("list_sessions"),
        edit({"type": "create", "filePath": "test/calc/parser_test.clj", "content": TEST_PARSER}),
        load("test/calc/parser_test.clj", ok=False),
        edit({"type": "create", "filePath": "src/calc/parser.clj", "content": PARSER}),
        load("src/calc/parser.clj"),
        load("test/calc/parser_test.clj"),
        Call("run_tests", {"namespace": "calc.parser-test"}, ok=None),
        evaluate('(tokens "1 + 2")', namespace="calc.parser"),
        evaluate('(Long/parseLong (tokens "42"))', namespace="calc.parser", ok=False),
        evaluate('(map parse-number (tokens "1 + 2"))', namespace="calc.parser", ok=False),
        evaluate("(defn parse-number [token] (Long/parseLong token))", namespace="calc.parser"),
        evaluate('(let [[a op b] (tokens "1 + 2")] (list (symbol op) (parse-number a) (parse-number b)))',
                 namespace="calc.parser"),
        edit({"type": "replace", "filePath": "src/calc/parser.clj", "line": 7, "targetLineText": "(defn parse [text]",
              "newForm": "(defn parse-number [token]\n  (Long/parseLong token))\n\n(defn parse [text]\n"
                      "  (let [[a op b] (tokens text)]\n    (if op\n"
                      "      (list (symbol op) (parse-number a) (parse-number b))\n      (parse-number a))))"}),
        load("src/calc/parser.clj"),
        Call("run_tests", {"namespace": "calc.parser-test"}),
        edit({"type": "append", "filePath": "test/calc/parser_test.clj",
              "code": TEST_OF_REFUSAL}),
        load("test/calc/parser_test.clj"),
        Call("run_tests", {"namespace": "calc.parser-test"}),
    ),
)  # fmt: skip

LOOP = """\
def collatz(n):
    steps = 0
    while n != 1:
        n = n // 2 if n % 2 else 3 * n + 1
        n = n % 999_983 + 2
        steps += 1
        print("step", steps, "n", n)
    return steps


collatz(27)
"""
CORRECTED = """\
def collatz(n):
    steps = 0
    while n != 1:
        n = 3 * n + 1 if n % 2 else n // 2
        steps += 1
    return steps


collatz(27)
"""
RECOVER_FROM_A_LOOP = Task(
    "recover after an endless loop", "python",
    (
        Call("list_sessions"),
        evaluate(LOOP, ok=None, timeoutMs=1000),
        evaluate("1 + 1", ok=None, timeoutMs=1000),
        Call("list_sessions"),
        Call("interrupt_evaluation", {"replSessionKey": "py"}),
        Call("stacktrace", ok=None),
        evaluate("collatz"),
        evaluate(CORRECTED),
        Call("repl_output_log", {"limit": 10}),
    ),
)  # fmt: skip

STOCK = """\
stock = {"apple": 3, "pear": 0, "plum": 7}


def price(fruit):
    return {"apple": 50, "pear": 70}[fruit]


def value(stock):
    return sum(price(fruit) * pieces for fruit, pieces in stock.items())
"""
TAKE_OVER = Task(
    "take over from another agent", "python",
    (
        Call("list_sessions"),
        Call("repl_output_log"),
        Call("repl_output_log", {"limit": 20}),
        evaluate("sorted(name for name in globals() if not name.startswith('_'))"),
        evaluate("stock"),
        Call("symbol_info", {"symbol": "value"}, ok=None),
        evaluate("value(stock)", ok=False),
        load("stock.py", STOCK.replace('"pear": 70}', '"pear": 70, "plum": 20}')),
        evaluate("from stock import *\nvalue(stock)"),
        evaluate("for fruit in stock: print(fruit, price(fruit))"),
    ),
    {"stock.py": STOCK},
    (
        load("stock.py"),
        evaluate("from stock import *\nstock"),
        *(evaluate(f"for n in range(300): print('checked', n, 'of batch', {batch})") for batch in range(6)),
        evaluate("price('apple')"),
        evaluate("value(stock)", ok=False),
        evaluate("value({'apple': 3})"),
        evaluate("[price(fruit) for fruit in stock if fruit != 'plum']"),
    ),
)  # fmt: skip

TASKS = (FIX_A_TEST, FIND_A_SLOW_FUNCTION, BUILD_A_PARSER, RECOVER_FROM_A_LOOP, TAKE_OVER)


def run_calls(reader, calls, workspace):
    """Make the calls; an `AssertionError` names the one with an unexpected outcome."""
    for call in calls:
        for name, text in call.writes.items():
            (workspace / name).write_text(text)
        _, is_ok = reader.call(call.tool, **call.arguments)
        assert call.ok is None or is_ok is call.ok, f"{call.tool} {call.arguments}: ok is {is_ok}"
