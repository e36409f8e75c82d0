"""Fix drawn bugs in real libraries with Codriver and with a shell, and compare calls, bytes and waiting.

Run it with `python tests/bench/small_fixes.py FOLDER INTERPRETER...`. FOLDER holds the unpacked sources of the
libraries of `LIBRARIES`. Each INTERPRETER has pytest and what the tests need; the bugs of a library use them in turn.
`--results FILE` writes one line of JSON for each bug, and a second run with the same file continues where the first one
stopped.

A seed draws changes of one line that make some tests fail. The shell runs `pytest -x -q --tb=short FILE`, prints the
function, edits the line and runs the tests again. Codriver runs the tests and edits the line with `affected` tests; a
line that no answer showed costs a call of `symbol_info` first. New processes check what the answers say: which tests
fail, whether the fix was kept, and whether an edit that breaks them was taken back.
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

from live_server import EVALUATING, serving, user_settings_file

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
    "sortedcontainers": [(f"src/sortedcontainers/sorted{name}.py", f"tests/test_coverage_sorted{name}.py") for name in
                         ("list", "dict", "set")],
    "h11": [("h11/_connection.py", "h11/tests/test_connection.py"), ("h11/_events.py", "h11/tests/test_events.py"),
            ("h11/_headers.py", "h11/tests/test_headers.py"), ("h11/_state.py", "h11/tests/test_state.py"),
            ("h11/_readers.py", "h11/tests/test_io.py"), ("h11/_writers.py", "h11/tests/test_io.py"),
            ("h11/_receivebuffer.py", "h11/tests/test_receivebuffer.py")],
    "tornado": [(f"tornado/{name}.py", f"tornado/test/{name}_test.py") for name in
                ("escape", "httputil", "template", "options", "routing", "locks", "queues", "util")],
    "rich": [(f"rich/{name}.py", f"tests/test_{name}.py") for name in
             ("text", "table", "segment", "style", "cells", "color", "columns", "markup", "padding", "panel")]
            + [("rich/_ratio.py", "tests/test_ratio.py")],
    "docutils": [("docutils/utils/__init__.py", "test/test_utils/test__init__.py"),
                 ("docutils/nodes.py", "test/test_nodes.py"), ("docutils/statemachine.py", "test/test_statemachine.py"),
                 ("docutils/io.py", "test/test_io.py")],
    "humanize": [("src/humanize/number.py", "tests/test_number.py"), ("src/humanize/time.py", "tests/test_time.py"),
                 ("src/humanize/filesize.py", "tests/test_filesize.py"),
                 ("src/humanize/lists.py", "tests/test_lists.py")],
    "sqlparse": [("sqlparse/engine/grouping.py", "tests/test_grouping.py"), ("sqlparse/sql.py", "tests/test_parse.py"),
                 ("sqlparse/filters/reindent.py", "tests/test_format.py"),
                 ("sqlparse/engine/statement_splitter.py", "tests/test_split.py")],
    "tinydb": [("tinydb/table.py", "tests/test_tables.py"), ("tinydb/queries.py", "tests/test_queries.py"),
               ("tinydb/utils.py", "tests/test_utils.py"), ("tinydb/database.py", "tests/test_tinydb.py")],
}  # fmt: skip
"""Modules of each library, with a test file that runs them."""
SLOW = {"more_itertools": (
    "tests/test_recipes.py",
    ("test_primes", "test_nth_prime_approximate", "test_large", "test_vs_statistics_median",
     "test_nth_prime_tightened_bound"),
)}  # fmt: skip
"""Tests that take seconds each. Neither way runs them."""
LEFT_OUT = {"humanize": ("tests/test_benchmarks.py",)}
"""Test files that need packages that the interpreters lack. They fail without any bug."""
SWAPS = [(" + ", " - "), (" - ", " + "), (" < ", " <= "), (" > ", " >= "), (" == ", " != "), (" and ", " or "),
         (" is not ", " is "), (" not in ", " in "), ("True", "False"), ("0", "1"), ("1", "2"), ("[0]", "[-1]"),
         (" is None", " is not None"), ("if not ", "if ")]  # fmt: skip
CLIENT = "claude-code"
MAX_FAILING = 25
CONTEXT_LINES = 4
"""Lines that a shell agent's edit tool shows before and after an edit."""
FUNCTION_LINES = 80
"""Maximum number of lines of a function that the shell prints."""
MAX_TRIED = 3
"""Maximum number of tests that are run again to check that they fail without the bug."""
RUN_S = 300
CPU_S = 30
"""Processor time of one run of tests. A bug whose tests need more is not used."""


@dataclass(frozen=True)
class Bug:
    """A changed line of a library, with the file before (`right`) and after (`wrong`) the change."""

    source: str
    tests: str
    right: str
    wrong: str
    line: int
    function: str
    """The qualified name of the function, as `Class.method`."""
    span: tuple[int, int]
    """The first and the last line of the function."""

    def changed_lines(self, text):
        """Return the changed line of a text, with lines before it if it is not unique."""
        lines = text.splitlines(keepends=True)
        wrong = self.wrong.splitlines(keepends=True)
        for before in range(CONTEXT_LINES * 2):
            first = max(0, self.line - 1 - before)
            if self.wrong.count("".join(wrong[first : self.line])) == 1:
                return "".join(lines[first : self.line])
        return ""

    def is_displayed_in(self, texts):
        """Return whether the texts show the wrong line."""
        line = json.dumps(self.wrong.splitlines()[self.line - 1].strip(), ensure_ascii=False)[1:-1]
        return any(line in text for text in texts)


@dataclass
class Way:
    """What one way of fixing took."""

    calls: int = 0
    bytes: int = 0
    waited_s: float = 0.0
    texts: list = field(default_factory=list)
    untrue: list = field(default_factory=list)

    def read(self, text):
        self.calls += 1
        self.texts.append(text)
        self.bytes += len(text.encode())
        return text


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("interpreters", nargs="+")
    parser.add_argument("--seed", type=int, default=20)
    parser.add_argument("--fixes", type=int, default=20, help="bugs of each library")
    parser.add_argument("--library", choices=LIBRARIES, action="append")
    parser.add_argument("--setting", action="append", default=[], help="a line for codriver.toml of the user")
    parser.add_argument("--results", type=Path, help="a file of JSON lines; bugs that it has are not tried again")
    parser.add_argument("--texts", type=Path, help="a folder for the texts that each way read")
    given = parser.parse_args()
    rows = []
    if given.results and given.results.exists():
        rows = [json.loads(line) for line in given.results.read_text().splitlines()]
    for library in given.library or LIBRARIES:
        for number, interpreter in enumerate(given.interpreters):
            numbers = range(number, given.fixes, len(given.interpreters))
            done = {row["number"] for row in rows if row["library"] == library and row["seed"] == given.seed}
            if {*numbers} - done:
                rows += fixes_of(given, library, interpreter, [item for item in numbers if item not in done])
    summarize(rows)


def fixes_of(given, library, interpreter, numbers):
    """Fix bugs of one library with one interpreter, and return a row for each."""
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        source = next(given.folder.glob(f"{library}-*/"))
        copy_library(source, Path(folder) / "workspace", interpreter, *SLOW.get(library, ()))
        for name in LEFT_OUT.get(library, ()):
            (Path(folder) / "workspace" / name).unlink()
        if given.setting:
            user_settings_file(Path(folder)).write_text("\n".join(given.setting) + "\n")
        with serving(folder, "--repl", "python") as live, live.client(name=CLIENT) as client:
            ask(client, Way(), "evaluate_code", code="1", timeoutMs=120_000)
            failing_before = [
                tests for tests in dict.fromkeys(tests for _, tests in LIBRARIES[library])
                if failing(live.workspace, tests)
            ]  # fmt: skip
            modules = [pair for pair in LIBRARIES[library] if pair[1] not in failing_before]
            for number in numbers:
                bug, failed = draw(live.workspace, modules, random.Random(f"{given.seed} {library} {number}"))
                shell, codriver = Way(), Way()
                fix_with_codriver(live, client, bug, failed, codriver)
                fix_with_shell(live.workspace, bug, shell)
                row = {
                    "library": library, "seed": given.seed, "number": number, "python": Path(interpreter).parts[-3],
                    "bug": f"{bug.source}:{bug.line}", "failed": len(failed), "untrue": codriver.untrue,
                    "calls": [shell.calls, codriver.calls], "bytes": [shell.bytes, codriver.bytes],
                    "seconds": [round(shell.waited_s, 2), round(codriver.waited_s, 2)],
                    "first": len(codriver.texts[0].encode()),
                }  # fmt: skip
                rows.append(row)
                save(given, row, {"shell": shell, "codriver": codriver})
    return rows


def save(given, row, ways):
    line = json.dumps(row)
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()
    if given.results:
        with given.results.open("a") as file:
            file.write(f"{line}\n")
    if given.texts:
        given.texts.mkdir(parents=True, exist_ok=True)
        for name, way in ways.items():
            (given.texts / f"{row['library']}-{row['number']:02}-{name}.txt").write_text("\n\n".join(way.texts))


def summarize(rows):
    if not rows:
        return
    ratios = {name: [row[name][1] / max(row[name][0], 0.01) for row in rows] for name in ("bytes", "seconds")}
    untrue = sum(bool(row["untrue"]) for row in rows)
    sys.stdout.write(
        f"{len(rows)} fixes: {statistics.median(row['calls'][1] for row in rows)} calls at the median"
        f" (shell {statistics.median(row['calls'][0] for row in rows)}),"
        f" {sum(row['calls'][1] == 2 for row in rows)} in two; "
        f"{statistics.median(ratios['bytes']):.2f} of the bytes"
        f" ({min(ratios['bytes']):.2f} to {max(ratios['bytes']):.2f}), "
        f"{statistics.median(ratios['seconds']):.2f} of the waiting; {untrue} with untrue answers\n"
    )


def copy_library(source, workspace, interpreter, slow_file=None, slow=()):
    """Copy a library as a workspace, whose environment has the packages of the interpreter's."""
    shutil.copytree(source, workspace, ignore=shutil.ignore_patterns(".git"))
    for name in slow:
        file = workspace / slow_file
        file.write_text(file.read_text().replace(f"def {name}(", f"def left_out_{name}("))
    subprocess.run([interpreter, "-m", "venv", "--without-pip", workspace / ".venv"], check=True)
    query = "import sysconfig; print(sysconfig.get_path('purelib'))"
    packages = subprocess.check_output([interpreter, "-c", query], text=True).strip()
    site = next((workspace / ".venv" / "lib").glob("python3*")) / "site-packages"
    sources = workspace / "src" if (workspace / "src").is_dir() else workspace
    (site / "sources.pth").write_text(f"{sources}\n")
    for entry in Path(packages).iterdir():
        if not (sources / entry.name).exists() and entry.name != "__pycache__":
            (site / entry.name).symlink_to(entry)


def functions_in(text):
    """Return the functions of a module, as pairs of a qualified name and a node."""

    def walk(node, names):
        for child in ast.iter_child_nodes(node):
            if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef)):
                yield ".".join([*names, child.name]), child
            elif isinstance(child, ast.ClassDef):
                yield from walk(child, [*names, child.name])

    return list(walk(ast.parse(text), []))


def draw(workspace, modules, chance):
    """Draw a change of one line that makes some tests fail, the same ones twice. Return it with their names."""
    while True:
        source, tests = chance.choice(modules)
        text = (workspace / source).read_text()
        function, node = chance.choice(functions_in(text))
        number = chance.randrange(node.body[0].lineno, node.end_lineno + 1)
        lines = text.splitlines(keepends=True)
        if re.search(r'"""|>>>|#', lines[number - 1]) or number <= end_of_docstring(node):
            continue
        changes = [lines[number - 1].replace(old, new, 1) for old, new in SWAPS if old in lines[number - 1]]
        if not changes:
            continue
        lines[number - 1] = chance.choice(changes)
        wrong = "".join(lines)
        try:
            ast.parse(wrong)
        except SyntaxError:
            continue
        bug = Bug(source, tests, text, wrong, number, function, (node.lineno, node.end_lineno))
        if not bug.changed_lines(wrong):
            continue
        (workspace / source).write_text(wrong)
        failed = failing(workspace, tests)
        is_stable = failed is not None and 0 < len(failed) <= MAX_FAILING and failing(workspace, tests) == failed
        (workspace / source).write_text(text)
        if is_stable:
            return bug, failed


def end_of_docstring(function):
    """Return the last line of a function's docstring, or 0 if it has none."""
    return function.body[0].end_lineno if ast.get_docstring(function) is not None else 0


def pytest(workspace, *options, cache=None):
    """Return the output of pytest in a new process, or None if it takes too long."""
    environ = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    environ.pop("PYTHONDONTWRITEBYTECODE", None)
    if cache is not None:
        environ["PYTHONPYCACHEPREFIX"] = cache
    command = [workspace / ".venv" / "bin" / "python", "-m", "pytest", "-q", *options]
    try:
        done = subprocess.run(
            command, cwd=workspace, env=environ, capture_output=True, text=True, timeout=RUN_S, check=False,
            preexec_fn=limit_processor_time,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return None
    return None if done.returncode < 0 else done.stdout


def limit_processor_time():
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_S, CPU_S))


def failing(workspace, tests):
    """Return the tests that fail in a new process that compiles everything, or None if it gives no report."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        options = (tests, "-p", "no:cacheprovider", f"--junitxml={report}")
        if pytest(workspace, *options, cache=folder) is None or not report.exists():
            return None
        cases = list(ET.parse(report).iter("testcase"))
        names = [case.get("name") for case in cases if case.find("failure") is not None]
        return None if any(case.find("error") is not None for case in cases) or not cases else sorted(names)


def fix_with_shell(workspace, bug, way):
    """Fix a bug with a shell and an edit tool that answers with the lines around the edit."""
    file = workspace / bug.source
    file.write_text(bug.wrong)
    shell_test(workspace, bug, way)
    first, last = bug.span
    way.read("\n".join(bug.wrong.splitlines()[first - 1 : min(last, first + FUNCTION_LINES)]))
    file.write_text(bug.right)
    lines = bug.right.splitlines()
    numbers = range(max(1, bug.line - CONTEXT_LINES), min(len(lines), bug.line + CONTEXT_LINES) + 1)
    way.read(f"The file {file} has been updated.\n" + "\n".join(f"{number}\t{lines[number - 1]}" for number in numbers))
    shell_test(workspace, bug, way)


def shell_test(workspace, bug, way):
    start = time.monotonic()
    output = pytest(workspace, "-x", "--tb=short", bug.tests)
    way.waited_s += time.monotonic() - start
    way.read(output or "")


def fix_with_codriver(live, client, bug, failed, way):
    """Fix a bug with Codriver, and check its answers against new processes."""
    file = live.workspace / bug.source
    ask(client, Way(), "run_tests", paths=[bug.tests])  # the REPL has been used before
    file.write_text(bug.wrong)
    check_failures(way, ask(client, way, "run_tests", paths=[bug.tests]), failed)
    if not bug.is_displayed_in(way.texts):
        ask(client, way, "symbol_info", symbol=f"{bug.source}:{bug.line}")
    if not bug.is_displayed_in(way.texts):
        module = bug.source.removeprefix("src/").removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        ask(client, way, "symbol_info", symbol=f"{module}.{bug.function}")
    if not bug.is_displayed_in(way.texts):
        way.untrue.append("no answer showed the line")
    edit = {"filePath": bug.source, "oldText": bug.changed_lines(bug.wrong)}
    act = {"load": True, "test": ["affected"], "onFailure": "restore"}
    still_wrong = bug.changed_lines(bug.wrong).rstrip("\n") + "  # fixed\n"
    if is_python(bug.wrong.replace(bug.changed_lines(bug.wrong), still_wrong)):
        answer = ask(client, Way(), "edit_files", edits=[{**edit, "newText": still_wrong}], **act)
        is_named = bool(answer.get("failedBefore") or answer.get("results"))
        expect(way, not answer["ok"] and is_named, f"an edit that fixes nothing is said to pass: {answer}")
    file.write_text(bug.wrong)
    answer = ask(client, way, "edit_files", edits=[{**edit, "newText": bug.changed_lines(bug.right)}], **act)
    is_kept = file.read_text() == bug.right and (answer["ok"] or fail_always(live.workspace, answer))
    expect(way, is_kept, f"the right fix was not accepted: {json.dumps(answer)[:900]}")
    drift = ask(client, Way(), "what_changed")["differences"]
    expect(way, drift == [], f"untrue drift: {drift}")
    file.write_text(bug.right)
    edit = {"filePath": bug.source, "oldText": bug.changed_lines(bug.right), "newText": bug.changed_lines(bug.wrong)}
    if bug.right.count(edit["oldText"]) == 1:
        answer = ask(client, Way(), "edit_files", edits=[edit], **act)
        is_back = not answer["ok"] and file.read_text() == bug.right
        expect(way, is_back, f"an edit that breaks tests was kept: {json.dumps(answer)[:900]}")
    file.write_text(bug.right)
    expect(way, failing(live.workspace, bug.tests) == [], "tests fail with the right file")


def is_python(text):
    try:
        ast.parse(text)
    except SyntaxError:
        return False
    return True


def fail_always(workspace, answer):
    """Return whether an edit was kept because only tests fail that fail in a new process too, which tries some."""
    names = [name for name in answer.get("failedBefore", ()) if "::" in name]
    if not names or answer.get("results") or answer.get("reason") != "tests-failed":
        return False
    return all(bare(name) in (failing(workspace, name) or ()) for name in names[:MAX_TRIED])


def check_failures(way, answer, failed):
    """Compare the failures of an answer with those of a new process."""
    rows = answer.get("results", ())
    alike = [name for row in rows for name in row.get("alike", ()) if not re.fullmatch(r"\d+ more", name)]
    names = {bare(name) for name in (*(row["test"] for row in rows), *alike)}
    names |= {bare(name) for name in answer.get("failedAlso", ())}
    expect(way, not answer["ok"], f"run_tests is ok, but {failed} fail")
    expect(way, names <= {*failed}, f"failed only in the answer: {sorted(names - {*failed})}")
    count = answer.get("failed", 0) + answer.get("errors", 0)
    expect(way, count == len(failed), f"{len(failed)} tests fail, the answer counts {count}")


def ask(client, way, tool, **arguments):
    """Call a tool, wait for its evaluation, and return the last answer."""
    start = time.monotonic()
    answer = call(client, way, tool, arguments)
    while answer.get("status") == "running" and time.monotonic() < start + RUN_S:
        identity = answer["evaluationId"]
        answer = call(client, way, "get_evaluation", {"evaluationId": identity, "waitMs": 60_000})
    way.waited_s += time.monotonic() - start
    return answer


def call(client, way, tool, arguments):
    lean = {"detail": False} if tool in EVALUATING else {}  # the test client would ask for details
    answer = client.call(tool, **arguments, **lean)
    way.read(json.dumps(answer, ensure_ascii=False, separators=(",", ":")))
    return answer


def bare(name):
    """Return a test's name without its file and class."""
    plain, bracket, rest = name.partition("[")
    return re.split(r"[.:]", plain)[-1] + bracket + rest


def expect(way, holds, text):
    if not holds:
        way.untrue.append(text)


if __name__ == "__main__":
    main()
