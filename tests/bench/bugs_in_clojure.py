"""Search for random bugs in a Clojure library: see `drawn_bugs.py`. Its directories are `src` and `test`."""

import re
import shutil
import sys
import tempfile
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))
sys.path.insert(0, str(Path(__file__).parents[2] / "server"))

from bugs_in_python import DRAWS, Result, difference, read_trace
from live_server import serving, until
from real_repls import fresh

from codriver_lisp.reader import top_level_forms

TESTS_MS = 50_000
MAX_NEARBY_PROGRAMS = 4
"""Maximum number of candidates with the bug and one more change."""
WORDS = {"+": "-", "-": "+", "*": "+", "<": "<=", "<=": "<", ">": ">=", ">=": ">", "=": "not=", "not=": "=",
         "and": "or", "or": "and", "if": "if-not", "when": "when-not", "nil?": "some?", "some?": "nil?",
         "inc": "dec", "dec": "inc", "identical?": "not="}  # fmt: skip
"""Operators at the beginning of a form, and their replacements."""
DEFINED = re.compile(r"\(defn-?\s+(?:\^\S+\s+)*([^\s()\[\]]+)")
NO_CODE = re.compile(r'"(?:\\.|[^"\\])*"|;[^\n]*')
PLACE = re.compile(r"(?<=\()[^\s()\[\]{}]+(?=\s)|(?<=\s)\d+(?=[\s)\]])")


def mutants(text):
    """Yield each possible change in a function of a source text: the function's name and the new text of the file."""
    for form in top_level_forms(text):
        code = text[form.start : form.end]
        defined = DEFINED.match(code)
        if defined is None:
            continue
        displayed = NO_CODE.sub(lambda found: " " * len(found[0]), code)
        for place in PLACE.finditer(displayed, defined.end()):
            new = str(int(place[0]) + 1) if place[0].isdigit() else WORDS.get(place[0])
            if new is not None:
                start, end = form.start + place.start(), form.start + place.end()
                yield defined[1], text[:start] + new + text[end:]


def sources(folder):
    """Return the Clojure files in a directory."""
    return [file for file in folder.rglob("*.clj*") if file.suffix in {".clj", ".cljc"}]


def put(client, file, text):
    """Write a new text to a file and load it."""
    file.write_text(text)
    client.call("load_file", filePath=str(file), timeoutMs=TESTS_MS)


def contains_call(name, text):
    """Return whether a text contains a call to a function."""
    return f"/{name} " in text or f"/{name})" in text


class Hunt:
    """A search for bugs in one library. `before` are the tests that fail without any."""

    def __init__(self, name, workspace, client, chance):
        self.name, self.workspace, self.client, self.chance = name, workspace, client, chance
        for file in [*sources(workspace / "src"), *sources(workspace / "test")]:
            put(client, file, file.read_text())
        self.before = set()
        self.before = {(row["ns"], row["test"]) for row in self.failed_tests("test")}

    def failed_tests(self, namespace, **given):
        """Return the failed tests that do not fail without a bug, or none if the run was interrupted."""
        answer = self.client.call("run_tests", namespace=namespace, timeoutMs=TESTS_MS, onTimeout="interrupt", **given)
        failed = answer.get("results", ()) if answer.get("reason") == "tests-failed" else ()
        return [row for row in failed if row["outcome"] == "fail" and (row["ns"], row["test"]) not in self.before]

    def draw(self):
        """Draw a change that makes a test fail.

        Returns the file, the texts before and after, the function and the failed test, or None if no test fails.
        """
        file = self.chance.choice(sources(self.workspace / "src"))
        text = file.read_text()
        name, wrong = self.chance.choice(list(mutants(text)))
        put(self.client, file, wrong)
        if failed_tests := self.failed_tests("test"):
            return file, text, wrong, name, failed_tests[0]
        put(self.client, file, text)
        return None

    def find(self, bug):
        """Look for a bug that is loaded, and revert it."""
        file, text, wrong, name, row = bug
        where = {"namespace": row["ns"], "test": row["test"], "timeoutMs": TESTS_MS}
        failed_answer = self.client.call("run_tests", **where, trace=True)
        displayed, calls = read_trace(self.client, failed_answer, partial(contains_call, name))
        put(self.client, file, text)
        green = self.client.call("run_tests", **where, trace=True, detail=True)
        first = difference(self.client, failed_answer, green)
        put(self.client, file, wrong)
        is_kept = self.keeps_original(file, text, wrong, name, row["ns"])
        put(self.client, file, text)
        named = contains_call(name, displayed), contains_call(name, first)
        size = len(displayed.encode())
        return Result(self.name, name, row["test"], size, calls, *named, first, "", is_reported=False, is_kept=is_kept)

    def keeps_original(self, file, text, wrong, name, tests):
        """Return whether the original text is kept out of three candidates, two of which make a test fail."""
        own = [code for of, code in mutants(text) if of == name]
        beside = [code for of, code in mutants(wrong) if of != name]
        drawn = [*self.chance.sample(own, len(own)), *self.chance.sample(beside, MAX_NEARBY_PROGRAMS)]
        others = []
        for code in [code for code in dict.fromkeys(drawn) if code not in (text, wrong)]:
            put(self.client, file, code)
            others += [code] if self.failed_tests(tests) else []
            if len(others) > 1:
                break
        put(self.client, file, wrong)
        for code in self.chance.sample([text, *others], len(others) + 1):
            edit = {"type": "create", "filePath": str(file), "code": code, "overwrite": True}
            requested = {"load": True, "test": [tests], "onFailure": "restore"}
            if self.client.call("edit_files", edits=[edit], **requested)["ok"]:
                break
        return len(others) > 1 and file.read_text() == text


def hunted_in_clojure(library, expected, chance, _python):
    """Yield the given number of bugs in a library, each after looking for it."""
    with tempfile.TemporaryDirectory() as folder, fresh("jvm") as jvm:
        workspace = Path(folder) / "workspace"
        shutil.copytree(library, workspace)
        with serving(Path(folder), "--nrepl", f"clj={jvm.endpoint}", "--repl", "none") as live, live.client() as client:
            until(lambda: "run_tests" in client.tools(), "the REPL's tools")
            hunt = Hunt(library.name, workspace, client, chance)
            for _ in range(DRAWS * expected):
                if expected and (bug := hunt.draw()) is not None:
                    yield hunt.find(bug)
                    expected -= 1
