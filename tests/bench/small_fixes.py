"""Small fixes in real libraries: by Codriver's shortest way and by a shell's, calls and bytes side by side.

Run it with `python tests/bench/small_fixes.py FOLDER INTERPRETER [--seed N] [--fixes N]`: FOLDER holds the unpacked
source distributions of boltons, marshmallow, more-itertools, attrs and networkx; INTERPRETER is one that has pytest and
what their tests need. A seed draws mutations of one line that turn some tests red. The shell runs pytest, looks at the
function, edits the line, and runs pytest again; Codriver runs the tests, the agent looks at the function in the same
way, and one call edits, loads and tests. Before that a wrong fix is tried, which is to be taken back.

Whatever an answer says is held against a new process that has an empty cache of compiled code.
"""

import argparse
import ast
import json
import os
import random
import re
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ET
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

from live_server import EVALUATING, serving  # found beside this folder

LIBRARIES = {
    "boltons": [(f"boltons/{name}.py", f"tests/test_{name}.py") for name in
                ("iterutils", "strutils", "dictutils", "statsutils", "cacheutils", "setutils", "urlutils")],
    "marshmallow": [("src/marshmallow/fields.py", "tests/test_deserialization.py"),
                    ("src/marshmallow/validate.py", "tests/test_validate.py"),
                    ("src/marshmallow/utils.py", "tests/test_utils.py"),
                    ("src/marshmallow/schema.py", "tests/test_schema.py")],
    "more_itertools": [("more_itertools/recipes.py", "tests/test_recipes.py")],
    "attrs": [("src/attr/validators.py", "tests/test_validators.py"), ("src/attr/_funcs.py", "tests/test_funcs.py"),
              ("src/attr/converters.py", "tests/test_converters.py"), ("src/attr/_make.py", "tests/test_dunders.py")],
    "networkx": [("networkx/algorithms/dag.py", "networkx/algorithms/tests/test_dag.py"),
                 ("networkx/classes/function.py", "networkx/classes/tests/test_function.py"),
                 ("networkx/algorithms/core.py", "networkx/algorithms/tests/test_core.py")],
}  # fmt: skip
"""By library: a module, and a file of tests that run it."""
SLOW = {"more_itertools": (
    "tests/test_recipes.py",
    ("test_primes", "test_nth_prime_approximate", "test_large", "test_vs_statistics_median",
     "test_nth_prime_tightened_bound"),
)}  # fmt: skip
"""Tests that take seconds each and are left out, for both ways."""
SWAPS = [(" + ", " - "), (" - ", " + "), (" < ", " <= "), (" > ", " >= "), (" == ", " != "), (" and ", " or "),
         (" is not ", " is "), (" not in ", " in "), ("True", "False"), ("0", "1"), ("1", "2"), ("[0]", "[-1]"),
         (" is None", " is not None"), ("if not ", "if ")]  # fmt: skip
MOST_FAILED, TAIL, SHORT = 25, 30, 5
WITHIN_S = 300
CPU_S = 30
"""Processor time that a run of tests may take, or another mutation is drawn: which, no other load decides."""


@dataclass(frozen=True)
class Bug:
    """A mutation of one line of a library: the texts of the file before and after it, and the line in both."""

    source: str
    tests: str
    right: str
    wrong: str
    line: int
    function: tuple[int, int]
    """The first and last line of the function."""

    def lines(self, text):
        """The line, with some before it where the wrong one is not the only one of its kind."""
        one = self.wrong.splitlines(keepends=True)[self.line - 1]
        lines = text.splitlines(keepends=True)
        return "".join(lines[self.line - 1 if self.wrong.count(one) == 1 else max(0, self.line - 4) : self.line])


@dataclass
class Way:
    """What one way took."""

    calls: int = 0
    read: int = 0
    said: list = field(default_factory=list)
    texts: list = field(default_factory=list)

    def take(self, text):
        self.calls += 1
        self.texts.append(text)
        self.read += len(text.encode())
        return text


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("interpreter")
    parser.add_argument("--seed", type=int, default=20)
    parser.add_argument("--fixes", type=int, default=20)
    parser.add_argument("--library", choices=LIBRARIES, action="append", help="these alone: each has draws of its own")
    parser.add_argument("--texts", type=Path, help="a folder for the texts that each way read")
    parser.add_argument("--test", choices=("file", "affected"), default="affected")
    asked = parser.parse_args()
    rows, untrue = [], []
    names = list(LIBRARIES)
    for place, name in enumerate(names):
        if name not in (asked.library or names):
            continue
        count, chance = len(range(place, asked.fixes, len(names))), random.Random(f"{asked.seed} {name}")
        with tempfile.TemporaryDirectory() as folder:
            lay(
                next(asked.folder.glob(f"{name}-*/")),
                Path(folder) / "workspace",
                asked.interpreter,
                *SLOW.get(name, ()),
            )
            with serving(folder, "--repl", "python") as live, live.client() as client:
                client.call("evaluate_code", code="1", timeoutMs=120_000)
                for _ in range(count):
                    bug, red = drawn(live.workspace, LIBRARIES[name], chance)
                    shell, codriver = Way(), Way()
                    by_codriver(live, client, bug, red, codriver, asked.test)
                    by_shell(live.workspace, bug, shell)
                    rows.append((shell, codriver))
                    if asked.texts:
                        asked.texts.mkdir(parents=True, exist_ok=True)
                        for kind, way in (("shell", shell), ("codriver", codriver)):
                            (asked.texts / f"{name}-{len(rows):02}-{kind}.txt").write_text("\n\n".join(way.texts))
                    untrue += codriver.said
                    say(f"{name:15} {bug.source}:{bug.line:<5} {len(red):3} red   shell {shell.calls} calls"
                        f" {shell.read:6} bytes   codriver {codriver.calls} calls {codriver.read:6} bytes  "
                        + "; ".join(codriver.said))  # fmt: skip
    ratios = [codriver.read / shell.read for shell, codriver in rows]
    more = max(codriver.calls - shell.calls for shell, codriver in rows)
    say(f"{len(rows)} fixes: at most {more:+} calls, {statistics.median(ratios):.2f} of the bytes at the median "
        f"({min(ratios):.2f} to {max(ratios):.2f}), {len(untrue)} untrue answers")  # fmt: skip


def say(words):
    sys.stdout.write(f"{words}\n")
    sys.stdout.flush()


def lay(source, workspace, interpreter, slow_file=None, slow=()):
    """Lay a library out as a workspace whose environment has what the interpreter's has, but not that library."""
    shutil.copytree(source, workspace)
    for name in slow:
        file = workspace / slow_file
        file.write_text(file.read_text().replace(f"def {name}(", f"def left_out_{name}("))
    subprocess.run([interpreter, "-m", "venv", "--without-pip", workspace / ".venv"], check=True)
    ask = "import sysconfig; print(sysconfig.get_path('purelib'))"
    home = subprocess.check_output([interpreter, "-c", ask], text=True).strip()
    library = next((workspace / ".venv" / "lib").glob("python3*")) / "site-packages"
    (library / "all.pth").write_text(f"{home}\n")


def drawn(workspace, modules, chance):
    """A mutation that turns some tests red, and those. A file of tests that has red ones before is left out."""
    red_before = [tests for tests in {tests: 0 for _, tests in modules} if failing(workspace, tests)]
    while True:
        source, tests = chance.choice(modules)
        if tests in red_before:
            continue
        text = (workspace / source).read_text()
        functions = [one for one in ast.walk(ast.parse(text)) if isinstance(one, ast.FunctionDef)]
        one = chance.choice(functions)
        number = chance.randrange(one.body[0].lineno, one.end_lineno + 1)
        lines = text.splitlines(keepends=True)
        if re.search(r'"""|>>>|#', lines[number - 1]) or number <= end_of_docstring(one):
            continue
        made = [lines[number - 1].replace(old, new, 1) for old, new in SWAPS if old in lines[number - 1]]
        if not made:
            continue
        lines[number - 1] = chance.choice(made)
        wrong = "".join(lines)
        try:
            ast.parse(wrong)
        except SyntaxError:
            continue
        bug = Bug(source, tests, text, wrong, number, (one.lineno, one.end_lineno))
        if wrong.count(bug.lines(wrong)) != 1:
            continue
        (workspace / source).write_text(wrong)
        red = failing(workspace, tests)
        # A test that minds the time may fail of the machine's load.
        is_stable = red is not None and 0 < len(red) <= MOST_FAILED and failing(workspace, tests) == red
        (workspace / source).write_text(text)
        if is_stable:
            return bug, red


def end_of_docstring(function):
    """The last line of a function's docstring; 0 where it has none."""
    return function.body[0].end_lineno if ast.get_docstring(function) is not None else 0


def pytest(workspace, *options):
    """The output of pytest in a new process that has compiled nothing before; None where it takes too long."""
    with tempfile.TemporaryDirectory() as cache:
        environ = {**os.environ, "PYTHONPYCACHEPREFIX": cache, "PYTHONPATH": f"{workspace}:{workspace / 'src'}"}
        command = [workspace / ".venv" / "bin" / "python", "-m", "pytest", "-q", "-p", "no:cacheprovider", *options]
        try:
            done = subprocess.run(
                command, cwd=workspace, env=environ, capture_output=True, text=True, timeout=WITHIN_S, check=False,
                preexec_fn=bound,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return None
        return None if done.returncode < 0 else done.stdout


def bound():
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_S, CPU_S))


def failing(workspace, tests):
    """The names of the tests that fail in a new process; None where it takes too long, or none is collected."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        if pytest(workspace, tests, f"--junitxml={report}") is None or not report.exists():
            return None
        cases = list(ET.parse(report).iter("testcase"))
        names = [case.get("name") for case in cases if case.find("failure") is not None]
        return None if any(case.find("error") is not None for case in cases) or not cases else sorted(names)


def by_shell(workspace, bug, way):
    """The fix by a shell and an editor, which answers with the lines around the edit."""
    file = workspace / bug.source
    file.write_text(bug.wrong)
    way.take("\n".join(pytest(workspace, bug.tests).splitlines()[-TAIL:]))
    way.take(looked_at(bug))
    file.write_text(bug.right)
    lines = bug.right.splitlines()
    shown = [
        f"{number}\t{lines[number - 1]}" for number in range(max(1, bug.line - 4), min(len(lines), bug.line + 4) + 1)
    ]
    way.take(f"The file {file} has been updated.\n" + "\n".join(shown))
    way.take("\n".join(pytest(workspace, bug.tests).splitlines()[-SHORT:]))


def looked_at(bug):
    first, last = bug.function
    return "\n".join(bug.wrong.splitlines()[first - 1 : min(last, first + 80)])


def by_codriver(live, client, bug, red, way, test):
    """The fix through Codriver, whose answers are held against new processes."""
    file = live.workspace / bug.source
    ask(client, Way(), "run_tests", namespace=bug.tests)  # the REPL has been at work here
    file.write_text(bug.wrong)
    told = ask(client, way, "run_tests", namespace=bug.tests)
    rows = told.get("results", ())
    names = [bare(row["test"]) for row in rows] + [
        bare(one.rpartition(":")[0]) for row in rows for one in row.get("alike", ())
    ]
    only = [bare(name) for name in told.get("onlyInThisRepl", ())]
    beside = [bare(name) for name in told.get("redInNewProcess", ())]
    # Of a test of several parts each that fails is told.
    parts = len(names) - len({*names}) if len(names) == told.get("failed", 0) + told.get("errors", 0) else 0
    count = told.get("failed", 0) + told.get("errors", 0) + len(beside) - parts
    is_said = not told["ok"] and {*names, *beside} <= {*red, *only} and count == len(red) + len(only)
    check(way, is_said, f"red are {len(red)}, told were {count}: {sorted({*names} - {*red})}")
    check(way, not {*only} & {*red}, f"red in this REPL alone, which is not so: {only}")
    way.take(looked_at(bug))
    edit = {"filePath": bug.source, "oldText": bug.lines(bug.wrong)}
    act = {"load": True, "test": ["affected"] if test == "affected" else [bug.tests], "onFailure": "restore"}
    still = bug.lines(bug.wrong).rstrip("\n") + "  # mended\n"
    refused = ask(client, Way(), "edit_files", edits=[{**edit, "newText": still}], **act)
    is_back = file.read_text() == bug.wrong
    check(way, not refused["ok"] and "restored" in refused and is_back, f"a wrong fix was kept: {refused}")
    file.write_text(bug.wrong)
    done = ask(client, way, "edit_files", edits=[{**edit, "newText": bug.lines(bug.right)}], **act)
    is_kept = done["ok"] and file.read_text() == bug.right
    check(way, is_kept, f"the right fix was taken back: {json.dumps(done)[:600]}")
    drift = ask(client, Way(), "what_changed")["differences"]
    check(way, drift == [], f"drift that is none: {drift}")
    file.write_text(bug.right)
    check(way, failing(live.workspace, bug.tests) == [], "the fix of the script is none")


def ask(client, way, tool, **arguments):
    """The answer of a tool, each that had to be waited for counted, as a model reads them."""
    began = time.monotonic()
    answer = answered(client, way, tool, arguments)
    identity = answer.get("evaluationId")
    while answer.get("status") == "running" and time.monotonic() < began + WITHIN_S:
        answer = answered(client, way, "get_evaluation", {"evaluationId": identity, "waitMs": 60_000})
    return answer


def answered(client, way, tool, arguments):
    lean = {"detail": False} if tool in EVALUATING else {}  # which the small client asks for else
    answer = client.call(tool, **arguments, **lean)
    way.take(json.dumps(answer, ensure_ascii=False, separators=(",", ":")))
    return answer


def bare(name):
    """A test's name without its class."""
    plain, bracket, rest = name.partition("[")
    return plain.rpartition(".")[2] + bracket + rest


def check(way, holds, words):
    if not holds:
        way.said.append(words)


if __name__ == "__main__":
    main()
