"""Bugs drawn by a seed in real libraries, each found by one script of calls: a red test, its trace, one look further.

A bug is one constant, comparison or operator of a function that a test executes. It counts as found if the wrong call,
that of the mutated function, is named by at most two answers, of 1,500 bytes in all. The difference of the red run from
a green one names the right call if its first line is one of that function.

Run with `python tests/bench/trace_bugs.py LIBRARY... [--bugs 20] [--seed 1] [--python PYTHON]`; a LIBRARY is the
unpacked source of one that has its tests beside it, and PYTHON an interpreter that can import it and pytest.
"""

import argparse
import ast
import json
import random
import shutil
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))
sys.path.insert(0, str(Path(__file__).parents[2] / "server"))

from live_server import serving

MOST_BYTES = 1500
TESTS_MS = 50_000
OPERATORS = {ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add, ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE,
             ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
             ast.In: ast.NotIn, ast.And: ast.Or, ast.Or: ast.And}  # fmt: skip


def mutants(text):
    """Each change that can be made in a function of a text: its qualified name, and the new text of the file."""
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
            lines = text.splitlines(keepends=True)
            line = lines[node.lineno - 1].encode()
            put = f"({ast.unparse(new)})".encode()
            lines[node.lineno - 1] = (line[: node.col_offset] + put + line[node.end_col_offset :]).decode()
            yield name, "".join(lines)


def sources(library):
    """The files of a library that are none of its tests."""
    files = [file for file in library.rglob("*.py") if "test" not in str(file.relative_to(library))]
    skipped = {"docs", "examples", "setup.py", "conftest.py", "performance", "bench", "noxfile.py", "typing-examples"}
    return [file for file in files if not skipped & set(file.relative_to(library).parts)]


@contextmanager
def copied(library, python):
    """A server on a copy of a library."""
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(library, Path(folder) / "workspace")
        with serving(Path(folder), "--repl", "python", "--python", python) as live, live.client() as client:
            yield live.workspace, client


def drawn(client, workspace, chance, tests, before):
    """A bug that turns a test red: its file, the function, its text, and the red test; None if the draw turns none."""
    file = chance.choice(sources(workspace))
    text = file.read_text()
    found = list(mutants(text))
    if not found:
        return None
    name, wrong = chance.choice(found)
    file.write_text(wrong)
    answer = client.call("run_tests", namespace=tests, again=False, timeoutMs=TESTS_MS, onTimeout="interrupt")
    red = [
        row for row in answer.get("results", ()) if row["outcome"] == "fail" and (row["ns"], row["test"]) not in before
    ]
    if not red or answer.get("reason") != "tests-failed":
        file.write_text(text)
        client.call("run_tests", namespace=tests, match="no_such_test", again=False, timeoutMs=TESTS_MS)
        return None
    return file, name, text, red[0]


def told(name, text):
    """Whether a text names a call of a function."""
    return f".{name}(" in text or f" {name}(" in text


def look(client, bug):
    """The two answers about a red test, their bytes, whether they name the call, and whether the difference does."""
    file, name, text, row = bug
    where = {"namespace": row["ns"], "test": row["test"], "again": False, "timeoutMs": TESTS_MS}
    red = client.call("run_tests", **where, trace=True)
    size, shown = len(red.get("trace", "").encode()), red.get("trace", "")
    if not told(name, shown) and "evaluationId" in red:
        more = client.call("get_evaluation", evaluationId=red["evaluationId"], part="trace", path=[name])
        size, shown = size + len(more.get("text", "").encode()), shown + more.get("text", "")
    file.write_text(text)
    green = client.call("run_tests", **where, trace=True, detail=True)
    differs = {}
    if "trace" in green:
        green_id = green["trace"].split(":")[0].split()[1]
        differs = client.call("get_evaluation", evaluationId=red["evaluationId"], part="trace", diffWith=green_id)
    first = differs.get("text", "").partition("\n")[0]
    return size, told(name, shown), told(name, first), first


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("libraries", nargs="+", type=Path)
    parser.add_argument("--bugs", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--tests", default="tests")
    options = parser.parse_args()
    chance, rows = random.Random(options.seed), []
    each = -(-options.bugs // len(options.libraries))
    for library in options.libraries:
        with copied(library, options.python) as (workspace, client):
            tests = options.tests if (workspace / options.tests).is_dir() else "."
            first = client.call("run_tests", namespace=tests, again=False, timeoutMs=TESTS_MS, onTimeout="interrupt")
            before = {(row["ns"], row["test"]) for row in first.get("results", ())}
            for _ in range(60 * each):
                if sum(row[0] == library.name for row in rows) >= each or len(rows) >= options.bugs:
                    break
                bug = drawn(client, workspace, chance, tests, before)
                if bug is not None:
                    rows.append((library.name, bug[1], *look(client, bug)))
                    sys.stdout.write(json.dumps(rows[-1]) + "\n")
                    sys.stdout.flush()
    found = sum(row[2] <= MOST_BYTES and row[3] for row in rows)
    named = sum(row[4] for row in rows)
    sys.stdout.write(f"{len(rows)} bugs: the wrong call found in {found}, named first by the difference in {named}\n")


if __name__ == "__main__":
    main()
