"""Bugs drawn by a seed in a library of Clojure, each found by the calls by which `trace_bugs.py` finds those in Python.

A bug is one constant, comparison or operator of a function, which turns a test red. It counts as found if the wrong
call, that of the function with the bug, is named by at most two answers, of 1,500 bytes in all: that of the red run,
traced, and the look at the function's calls. The difference of the red run from a green one names the right call if its
first line is one of that function.

Run with `python tests/bench/trace_bugs_in_clojure.py LIBRARY [--bugs 20] [--seed 1]`; a LIBRARY is the unpacked source
of one that needs nothing but Clojure, with its files below `src` and `test`.
"""

import argparse
import json
import random
import re
import shutil
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))
sys.path.insert(0, str(Path(__file__).parents[2] / "server"))

from live_server import serving, until
from real_repls import fresh

from codriver.lisp.reader import top_level_forms

MOST_BYTES = 1500
TESTS_MS = 50_000
WORDS = {"+": "-", "-": "+", "*": "+", "<": "<=", "<=": "<", ">": ">=", ">=": ">", "=": "not=", "not=": "=",
         "and": "or", "or": "and", "if": "if-not", "when": "when-not", "nil?": "some?", "some?": "nil?",
         "inc": "dec", "dec": "inc", "identical?": "not="}  # fmt: skip
"""The operators, at the beginning of a form, and what stands there instead."""
DEFINED = re.compile(r"\(defn-?\s+(?:\^\S+\s+)*([^\s()\[\]]+)")
NO_CODE = re.compile(r'"(?:\\.|[^"\\])*"|;[^\n]*')
PLACE = re.compile(r"(?<=\()[^\s()\[\]{}]+(?=\s)|(?<=\s)\d+(?=[\s)\]])")


def mutants(text):
    """Each change that can be made in a function of a text: its name, and the new text of the file."""
    for form in top_level_forms(text):
        code = text[form.start : form.end]
        defined = DEFINED.match(code)
        if defined is None:
            continue
        shown = NO_CODE.sub(lambda found: " " * len(found[0]), code)
        for place in PLACE.finditer(shown, defined.end()):
            new = str(int(place[0]) + 1) if place[0].isdigit() else WORDS.get(place[0])
            if new is not None:
                start, end = form.start + place.start(), form.start + place.end()
                yield defined[1], text[:start] + new + text[end:]


def sources(folder):
    """The files of Clojure in a folder."""
    return [file for file in folder.rglob("*.clj*") if file.suffix in {".clj", ".cljc"}]


def put(client, file, text):
    """Have another text of a file take effect."""
    file.write_text(text)
    client.call("load_file", filePath=str(file), timeoutMs=TESTS_MS)


def drawn(client, workspace, chance, before):
    """A bug that turns a test red: its file, the function, its text, and the red test; None if the draw turns none."""
    file = chance.choice(sources(workspace / "src"))
    text = file.read_text()
    name, wrong = chance.choice(list(mutants(text)))
    put(client, file, wrong)
    answer = client.call("run_tests", namespace="test", timeoutMs=TESTS_MS, onTimeout="interrupt")
    failed = [row for row in answer.get("results", ()) if row["outcome"] == "fail"]
    red = [row for row in failed if (row["ns"], row["test"]) not in before]
    if not red or answer.get("reason") != "tests-failed":
        put(client, file, text)
        return None
    return file, name, text, red[0]


def told(name, text):
    """Whether a text names a call of a function."""
    return f"/{name} " in text or f"/{name})" in text


def look(client, bug):
    """The bytes of the two answers about a red test, whether they name the call, and whether the difference does."""
    file, name, text, row = bug
    where = {"namespace": row["ns"], "test": row["test"], "timeoutMs": TESTS_MS}
    red = client.call("run_tests", **where, trace=True)
    shown = red.get("trace", "")
    if not told(name, shown):
        more = client.call("get_evaluation", evaluationId=red["evaluationId"], part="trace", path=[name])
        shown += more.get("text", "")
    put(client, file, text)
    green = client.call("run_tests", **where, trace=True, detail=True)
    other = green["trace"].split(":")[0].split()[1]
    differs = client.call("get_evaluation", evaluationId=red["evaluationId"], part="trace", diffWith=other)
    first = differs.get("text", "").partition("\n")[0]
    return len(shown.encode()), told(name, shown), told(name, first), first


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("library", type=Path)
    parser.add_argument("--bugs", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    chance, rows = random.Random(options.seed), []
    with tempfile.TemporaryDirectory() as folder, fresh("jvm") as jvm:
        workspace = Path(folder) / "workspace"
        shutil.copytree(options.library, workspace)
        with serving(Path(folder), "--nrepl", f"clj={jvm.endpoint}", "--repl", "none") as live, live.client() as client:
            until(lambda: "run_tests" in client.tools(), "the REPL's tools")
            for file in [*sources(workspace / "src"), *sources(workspace / "test")]:
                put(client, file, file.read_text())
            first = client.call("run_tests", namespace="test", timeoutMs=TESTS_MS)
            before = {(row["ns"], row["test"]) for row in first.get("results", ())}
            for _ in range(60 * options.bugs):
                if len(rows) == options.bugs:
                    break
                if (bug := drawn(client, workspace, chance, before)) is not None:
                    rows.append((bug[1], *look(client, bug)))
                    sys.stdout.write(json.dumps(rows[-1]) + "\n")
                    sys.stdout.flush()
    found = sum(size <= MOST_BYTES and is_named for _, size, is_named, _, _ in rows)
    named = sum(row[3] for row in rows)
    sys.stdout.write(f"{len(rows)} bugs: the wrong call found in {found}, named first by the difference in {named}\n")


if __name__ == "__main__":
    main()
