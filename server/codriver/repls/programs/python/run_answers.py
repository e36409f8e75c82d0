"""The program that runs tests in a Python REPL, with pytest if the interpreter has it, or with `unittest`.

It runs in the project's interpreter, and uses only the standard library and the project's pytest. Its answer is JSON in
the format that `codriver.repls.test_results.parse_test_run` reads. pytest runs files. `unittest` runs tests defined
without a file or, if there is no pytest, all tests: test cases, and plain functions whose names start with `test`.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import json
import os
import sys
import time
import traceback
import unittest

from .pytest_runs import run_pytest
from .run_values import (
    FRAMES,
    ROWS,
    TIMES,
    SoFar,
    failure_frames,
    ignore_interrupts,
    in_directory,
    is_project_file,
    is_test,
    module_display_name,
    module_file,
    pytest,
    session_module,
    store_failed,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from types import ModuleType
    from typing import Any

    from .run_values import Row

    Test = Any  # a `unittest` case; its private attributes are read
    Error = Any  # the value of `sys.exc_info`
    Outcome = tuple[int, list[list[object]], list[Row], "Row | None"]
    Chosen = tuple[list[str], dict[str, str], list[str], list[ModuleType]]


class Recorder(unittest.TestResult):
    """A `unittest` result that stores the results as rows, and measures the duration of each test."""

    def __init__(self) -> None:
        super().__init__()
        self.rows: list[Row] = []
        self.times: list[list[object]] = []
        self.running: Test = None
        self.so_far = SoFar(sys.stdout)

    def startTest(self, test: Test) -> None:  # noqa: N802  # unittest's name
        """Store which test is running, and when it started."""
        super().startTest(test)
        self.running, self.started = test, time.perf_counter()

    def stopTest(self, test: Test) -> None:  # noqa: N802  # unittest's name
        """Record the duration of a test, and report progress."""
        super().stopTest(test)
        name, module, _ = self.location(test)
        self.times.append([module, name, time.perf_counter() - self.started])
        self.so_far.report(len(self.times), self.rows)

    def location(self, test: Test) -> tuple[str, str, Any]:
        """Return the name of a test, its module, and its code object."""
        function = inspect.unwrap(getattr(test, "_testFunc", None) or getattr(type(test), test._testMethodName))
        owner = "" if hasattr(test, "_testFunc") else type(test).__qualname__ + "."
        return owner + function.__name__, module_display_name(function.__module__), getattr(function, "__code__", None)

    def row(self, test: Test, outcome: str, error: Error = None, message: str | None = None, *, how: str = "") -> None:
        """Add a result for a test."""
        name, module, code = self.location(test)
        row: Row = {
            "test": name,
            "ns": module,
            "outcome": outcome,
            "how": how,
            "message": message,
            "file": code and code.co_filename,
            "line": code and code.co_firstlineno,
        }
        if error:
            kind, value, trace = error
            row["actual"] = "".join(traceback.format_exception_only(kind, value)).strip()
            frames = traceback.extract_tb(trace)
            row.update(frames=failure_frames(frames), trace=trace)
            for frame in frames:
                if frame.filename == row["file"]:
                    row["line"] = frame.lineno
        self.rows.append(row)

    def addSuccess(self, test: Test) -> None:  # noqa: N802  # unittest's name
        """Add a passed test."""
        self.row(test, "pass")

    def addFailure(self, test: Test, err: Error) -> None:  # noqa: N802  # unittest's name
        """Add a test whose assertion failed."""
        self.row(test, "fail", err)

    def addError(self, test: Test, err: Error) -> None:  # noqa: N802  # unittest's name
        """Add a test that raised an error, or a test class or module whose set-up failed."""
        if hasattr(test, "_testMethodName"):
            self.row(test, "error", err)
            return
        actual = "".join(traceback.format_exception_only(*err[:2])).strip()
        self.rows.append({"test": str(test), "ns": "", "outcome": "error", "actual": actual})

    def addSkip(self, test: Test, reason: str) -> None:  # noqa: N802  # unittest's name
        """Add a skipped test."""
        if hasattr(test, "_testMethodName"):
            self.row(test, "pass", message="skipped: " + reason, how="skipped")

    def addExpectedFailure(self, test: Test, err: Error) -> None:  # noqa: N802, ARG002  # unittest's name
        """Add a test that failed as expected."""
        self.row(test, "pass", message="failed as expected", how="xfailed")

    def addUnexpectedSuccess(self, test: Test) -> None:  # noqa: N802  # unittest's name
        """Add a test that passed unexpectedly."""
        self.row(test, "fail", message="was expected to fail but passed")

    def addSubTest(self, test: Test, subtest: Test, err: Error) -> None:  # noqa: N802  # unittest's name
        """Add a failed subtest."""
        if err is not None:
            is_wrong = issubclass(err[0], test.failureException)
            self.row(test, "fail" if is_wrong else "error", err, subtest._subDescription())


def module_tests(module: ModuleType) -> Iterator[tuple[str, str, Test]]:
    """Yield each test in a module as its full name, the name of its class or function, and a test case."""
    for name, value in sorted(vars(module).items()):
        if not is_test(name, value, module):
            continue
        if isinstance(value, type):
            if issubclass(value, unittest.TestCase):
                for case in unittest.defaultTestLoader.loadTestsFromTestCase(value):
                    method = getattr(case, "_testMethodName", "")
                    yield name + "." + method, name, case
            continue
        parameters = inspect.signature(value).parameters.values()
        if any(parameter.default is parameter.empty for parameter in parameters) or inspect.iscoroutinefunction(value):
            how = "save it, as pytest runs files" if pytest else "install pytest 7 or later in this REPL's environment"
            print("not run: " + module.__name__ + "." + name + " takes arguments or is async; " + how)
        else:
            yield name, name, unittest.FunctionTestCase(value)


def run_unittest(
    modules: Iterable[ModuleType], selected: str, words: list[list[str]], only: list[list[str]]
) -> Outcome:
    """Run tests with `unittest`.

    Return their number, their durations, the results, and the interrupted test, if any.
    """
    seen, suite = set(), unittest.TestSuite()
    for module in modules:
        for full, short, case in module_tests(module):
            home = module_display_name(module.__name__)
            is_selected = [home, full] in only if only else not selected or selected in (full, short)
            if is_selected and matches_any(words, home + "/" + full) and (module.__name__, full) not in seen:
                seen.add((module.__name__, full))
                suite.addTest(case)
    recorder = Recorder()
    recorder.so_far.of = len(seen)
    try:
        suite.run(recorder)
    except KeyboardInterrupt as error:
        ignore_interrupts()
        if recorder.running is None:
            raise
        recorder.row(recorder.running, "error", (type(error), error, error.__traceback__))
        return len(seen), recorder.times, recorder.rows[:-1], recorder.rows[-1]
    return len(seen), recorder.times, recorder.rows, None


def matches_any(words: list[list[str]], text: str) -> bool:
    """Return whether a string matches at least one alternative.

    An alternative matches if the text contains all of its words, except that words starting with `!` must be absent.
    """
    text = text.lower()
    return not words or any(
        all((marker.lstrip("!") in text) != marker.startswith("!") for marker in every) for every in words
    )


def module_exists(ns: str) -> bool:
    """Return whether a module is loaded or can be imported."""
    if ns in sys.modules:
        return True
    try:
        return importlib.util.find_spec(ns) is not None
    except ModuleNotFoundError as error:
        if (ns + ".").startswith((error.name or "?") + "."):
            return False
        raise
    except ValueError:
        return False


def select_targets(ns: str, home: ModuleType | None, only: Sequence[Sequence[str]]) -> Chosen:
    """Return the paths to pass to pytest, module names by file, additional files, and modules without files."""
    if home and ns in ("Hy", "__main__"):
        return [], {}, [], [home]
    if not ns and only:
        files: list[str] = []
        names: dict[str, str] = {}
        modules: list[ModuleType] = []
        for name in dict.fromkeys(test_name for test_name, _ in only):
            if not is_path(name) and not module_exists(name):
                continue
            more = select_targets("__main__" if name == "user" else name, home, ())
            files += more[0]
            names.update(more[1])
            modules += more[3]
        return files, names, [], modules
    if not ns:
        return _select_loaded_modules(home)
    if pytest and is_path(ns):
        return [ns], {}, [], []
    module = sys.modules.get(ns)
    spec = None if module else importlib.util.find_spec(ns)
    file = module_file(module) if module else spec and spec.origin
    file = os.path.realpath(file) if file else ""
    if pytest and is_project_file(file) and os.path.isfile(file):
        if os.path.basename(file) == "__init__.py":
            return [os.path.dirname(file)], {}, [], []
        return [file], {file: module_display_name(ns)}, [], []
    return [], {}, [], [module or importlib.import_module(ns)]


def _select_loaded_modules(home: ModuleType | None) -> Chosen:
    """Select pytest's default targets and all loaded test modules."""
    loaded = [candidate for _, candidate in sorted(sys.modules.items()) if isinstance(candidate, type(sys))]
    modules = [
        candidate for candidate in loaded if is_project_file(module_file(candidate)) or candidate.__name__ == "__main__"
    ]
    modules += [home] if home else []
    modules = [
        module for module in modules if any(is_test(name, value, module) for name, value in list(vars(module).items()))
    ]
    files = {module.__name__: file for module in modules if pytest and (file := module_file(module)) is not None}
    names = {file: module_display_name(name) for name, file in files.items()}
    return [], names, list(names), [module for module in modules if module_file(module) not in names]


def missing_pytest_message() -> str:
    """Return the message for a project without pytest."""
    return "pytest 7 or later is not installed in this REPL's environment (" + sys.executable + ")"


def is_path(ns: str) -> bool:
    """Return whether a namespace is the path of a file or directory."""
    is_directory = os.path.isdir(ns) and not os.path.isfile(os.path.join(ns, "__init__.py"))
    return is_directory or os.path.isfile(ns) or (os.path.isdir(ns) and "/" in ns)


def answer(
    ns: str, selected: str, match: str, words: list[list[str]], only: list[list[str]], session: str = "", root: str = ""
) -> str:
    """Run tests in the directory `root`, and return the report as JSON.

    If a module is unknown, the report contains the key `missing`.
    """
    with in_directory(root):
        return run_in_process(ns, selected, match, words, only, session)


def run_in_process(
    ns: str, selected: str, match: str, words: list[list[str]], only: list[list[str]], session: str
) -> str:
    """Run tests in the current directory, and return the report as JSON."""
    store_failed([])
    home = session_module(session)
    ns, _, node = ns.partition("::")
    if node:
        selected = node
    if session and not is_path(ns):
        ns = ns.replace("-", "_")
    ns = "__main__" if ns == "user" else ns.rstrip("/")
    # Hy names may contain hyphens, but Python names cannot.
    name, bracket, parameters = selected.partition("[")
    selected = name.replace("-", "_") + bracket + parameters
    if ns and not (home and ns == "Hy") and not is_path(ns) and not module_exists(ns):
        return json.dumps({"missing": True})
    if is_path(ns) and not pytest:
        raise LookupError(
            missing_pytest_message() + ": test files need it; install it there, or pass a module as namespace"
        )
    try:
        targets, names, extra, modules = select_targets(ns, home, only)
    except ModuleNotFoundError as error:
        if error.name == "pytest":
            raise LookupError(missing_pytest_message() + ", and the tests import it: install it there") from error
        raise
    count, stopped = 0, None
    times: list[list[object]] = []
    rows: list[Row] = []
    if pytest and (targets or not (ns or only)):
        count, times, rows, stopped = run_pytest(targets, names, extra, selected, match, only)
    if modules and not stopped:
        if match and not words:
            raise ValueError(
                repr(match) + (" is a pytest expression; without pytest, write match as: word and not other or word")
            )
        more, others_times, others, stopped = run_unittest(modules, selected, words, only)
        count, times, rows = count + more, times + others_times, rows + others
    if not pytest and not rows:
        print(missing_pytest_message() + ": only the loaded modules were searched for tests, with unittest")
    if selected and not count and not (rows or stopped):
        raise LookupError("there is no test " + selected + " in " + (module_display_name(ns) or "the loaded modules"))
    return _report(count, times, rows, stopped)


def _report(count: int, times: list[list[object]], rows: list[Row], stopped: Row | None) -> str:
    worst = {"error": 0, "fail": 1, "pass": 2}
    results = sorted(rows, key=lambda row: worst[row["outcome"]])[:ROWS]
    if stopped:
        stopped.pop("trace", None)
    store_failed(results)
    for row in results[FRAMES:]:
        row.pop("frames", None)
    return json.dumps({"tests": count, "times": times[:TIMES], "results": results, "stopped": stopped})
