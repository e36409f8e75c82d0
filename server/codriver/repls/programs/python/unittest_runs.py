"""Tests run by `unittest`: those in no file, and all of them where there is no pytest."""

from __future__ import annotations

import inspect
import sys
import time
import traceback
import unittest

from .run_values import SoFar, be_deaf, frames_of, is_test, pytest, shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from types import ModuleType
    from typing import Any

    from .run_values import Row

    Test = Any  # a case of unittest, whose inner names are read
    Error = Any  # what `sys.exc_info` gives
    Outcome = tuple[int, list[list[object]], list[Row], "Row | None"]


class Recorder(unittest.TestResult):
    """The rows of the tests that ended, and how long each took."""

    def __init__(self) -> None:
        super().__init__()
        self.rows: list[Row] = []
        self.times: list[list[object]] = []
        self.running: Test = None
        self.so_far = SoFar(sys.stdout)

    def startTest(self, test: Test) -> None:  # noqa: N802  # unittest's name
        """Note which test runs, and since when."""
        super().startTest(test)
        self.running, self.began = test, time.perf_counter()

    def stopTest(self, test: Test) -> None:  # noqa: N802  # unittest's name
        """Note how long a test took."""
        super().stopTest(test)
        name, module, _ = self.place(test)
        self.times.append([module, name, time.perf_counter() - self.began])
        self.so_far.tell(len(self.times), self.rows)

    def place(self, test: Test) -> tuple[str, str, Any]:
        """A test's name, its module, and its code."""
        function = inspect.unwrap(getattr(test, "_testFunc", None) or getattr(type(test), test._testMethodName))
        owner = "" if hasattr(test, "_testFunc") else type(test).__qualname__ + "."
        return owner + function.__name__, shown(function.__module__), getattr(function, "__code__", None)

    def row(
        self, test: Test, outcome: str, error: Error = None, message: str | None = None, *, skipped: bool = False
    ) -> None:
        """Add the row of a test."""
        name, module, code = self.place(test)
        row: Row = {
            "test": name,
            "ns": module,
            "outcome": outcome,
            "skipped": skipped,
            "message": message,
            "file": code and code.co_filename,
            "line": code and code.co_firstlineno,
        }
        if error:
            kind, value, trace = error
            row["actual"] = "".join(traceback.format_exception_only(kind, value)).strip()
            frames = traceback.extract_tb(trace)
            row.update(frames=frames_of(frames), trace=trace)
            for frame in frames:
                if frame.filename == row["file"]:
                    row["line"] = frame.lineno
        self.rows.append(row)

    def addSuccess(self, test: Test) -> None:  # noqa: N802  # unittest's name
        """Add a test that passed."""
        self.row(test, "pass")

    def addFailure(self, test: Test, err: Error) -> None:  # noqa: N802  # unittest's name
        """Add a test whose assertion failed."""
        self.row(test, "fail", err)

    def addError(self, test: Test, err: Error) -> None:  # noqa: N802  # unittest's name
        """Add a test that raised, or what was to prepare a class or module of tests."""
        if hasattr(test, "_testMethodName"):
            self.row(test, "error", err)
            return
        actual = "".join(traceback.format_exception_only(*err[:2])).strip()
        self.rows.append({"test": str(test), "ns": "", "outcome": "error", "actual": actual})

    def addSkip(self, test: Test, reason: str) -> None:  # noqa: N802  # unittest's name
        """Add a test that was skipped."""
        if hasattr(test, "_testMethodName"):
            self.row(test, "pass", message="skipped: " + reason, skipped=True)

    def addExpectedFailure(self, test: Test, err: Error) -> None:  # noqa: N802, ARG002  # unittest's name
        """Add a test that failed as it was to."""
        self.row(test, "pass", message="failed as expected", skipped=True)

    def addUnexpectedSuccess(self, test: Test) -> None:  # noqa: N802  # unittest's name
        """Add a test that was to fail and passed."""
        self.row(test, "fail", message="was expected to fail and passed")

    def addSubTest(self, test: Test, subtest: Test, err: Error) -> None:  # noqa: N802  # unittest's name
        """Add a part of a test that failed."""
        if err is not None:
            is_wrong = issubclass(err[0], test.failureException)
            self.row(test, "fail" if is_wrong else "error", err, subtest._subDescription())


def tests_of(module: ModuleType) -> Iterator[tuple[str, str, Test]]:
    """Each test of a module: its whole name, that of the class or function, and the case."""
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
        if any(one.default is one.empty for one in parameters) or inspect.iscoroutinefunction(value):
            how = "save it, as pytest runs files" if pytest else "install pytest 7 or later in this REPL's environment"
            print("not run: " + module.__name__ + "." + name + " takes arguments or is async; " + how)
        else:
            yield name, name, unittest.FunctionTestCase(value)


def by_unittest(modules: Iterable[ModuleType], wanted: str, words: list[list[str]], only: list[list[str]]) -> Outcome:
    """The number of tests that ran, the time of each, their rows, and the row of one that was stopped in."""
    seen, suite = set(), unittest.TestSuite()
    for module in modules:
        for full, short, case in tests_of(module):
            home = shown(module.__name__)
            is_meant = [home, full] in only if only else not wanted or wanted in (full, short)
            if is_meant and matches(words, home + "/" + full) and (module.__name__, full) not in seen:
                seen.add((module.__name__, full))
                suite.addTest(case)
    recorder = Recorder()
    recorder.so_far.of = len(seen)
    try:
        suite.run(recorder)
    except KeyboardInterrupt as error:
        be_deaf()
        if recorder.running is None:
            raise
        recorder.row(recorder.running, "error", (type(error), error, error.__traceback__))
        return len(seen), recorder.times, recorder.rows[:-1], recorder.rows[-1]
    return len(seen), recorder.times, recorder.rows, None


def matches(words: list[list[str]], text: str) -> bool:
    """True where one of the alternatives holds: all its words are in the text, and none after an exclamation mark."""
    text = text.lower()
    return not words or any(all((one.lstrip("!") in text) != one.startswith("!") for one in every) for every in words)
