"""Find module names, the project's files and the frames of a failure, for test runs in a Python REPL.

Interrupts are ignored between the end of a run and its report.
"""

from __future__ import annotations

import contextlib
import gc
import inspect
import json
import os
import signal
import sys
import traceback
import types
import unittest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import ModuleType
    from typing import IO, Any

    Row = dict[str, Any]


try:
    import pytest
except ImportError:
    pytest = None  # type: ignore[assignment]  # the project's interpreter may not have it
if not hasattr(pytest, "version_tuple"):
    # Versions before 7 have other hooks.
    pytest = None  # type: ignore[assignment]

TYPE_CHECKING = False

__all__ = [
    "FRAMES",
    "OUTPUT",
    "ROWS",
    "TEXT",
    "TIMES",
    "SoFar",
    "failure_frames",
    "in_directory",
    "is_project_file",
    "is_test",
    "module_display_name",
    "module_file",
    "path_in_test_ids",
    "pytest",
    "session_module",
    "store_failed",
]  # fmt: skip

TEXT, OUTPUT, ROWS, TIMES, FRAMES = 4000, 50000, 2000, 20000, 40
"""Limits for a report: characters of a result, characters of output, results, durations, and frames per failure."""
FAILED_TEST_MODULE = "_codriver_red_test"
"""The module that retains the last failed test's frames for `codriver.repls.worker.basics.frame_spaces`."""
HY_SESSION_PREFIX = "hy-nrepl-session-"
RECORD_SEPARATOR = "\x1e"
REPORTED_FIELDS = ("test", "ns", "outcome", "message", "actual", "file", "line", "frames")


def module_display_name(module: str) -> str:
    """Return a module's name for reports: `user` for `__main__`, `Hy` for a hy-nrepl session, or its own name."""
    return "user" if module == "__main__" else "Hy" if module.startswith(HY_SESSION_PREFIX) else module


def session_module(session: str) -> ModuleType | None:
    """Return the module of a hy-nrepl session, or None. All objects are searched, because no registry contains it."""
    name, module = HY_SESSION_PREFIX + session, type(os)
    found = [candidate for candidate in gc.get_objects() if type(candidate) is module] if session else []
    return next((candidate for candidate in found if vars(candidate).get("__name__") == name), None)


def module_file(module: ModuleType) -> str | None:
    """Return the resolved path of a module's file, or None if the module has no file."""
    file = getattr(module, "__file__", None)
    return os.path.realpath(file) if isinstance(file, str) and os.path.isfile(file) else None


def is_project_file(file: str | None) -> bool:
    """Return whether a file belongs to the project."""
    is_below_directory = bool(file) and file.startswith(os.path.realpath(os.getcwd()) + os.sep)  # type: ignore[union-attr]
    return is_below_directory and "site-packages" not in str(file)


def path_in_test_ids(file: str) -> str:
    """Return the path of a file as it appears in test ids, relative to the root."""
    return os.path.relpath(file).replace(os.sep, "/") if is_project_file(file) else file


@contextlib.contextmanager
def in_directory(directory: str) -> Iterator[None]:
    """Run a block in the REPL's directory, because evaluated code or a test may have changed the current one.

    Raises:
        FileNotFoundError: the directory no longer exists.
    """
    try:
        before = os.getcwd()
    except OSError:
        before = directory
    if directory and not os.path.isdir(directory):
        raise FileNotFoundError("the REPL's directory " + directory + " no longer exists")
    if directory:
        os.chdir(directory)
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            os.chdir(before or ".")


def failure_frames(frames: traceback.StackSummary) -> list[Row]:
    """Return the frames of a failure, innermost first, without frames of the test runner."""
    run_by = [os.sep + name + os.sep for name in ("_pytest", "pluggy", "unittest")]
    reported: list[Row] = [
        {"file": frame.filename, "line": frame.lineno, "function": frame.name}
        for frame in reversed(frames)
        if frame.name != "_on_signal" and not any(name in frame.filename for name in run_by)
    ]
    return reported if len(reported) <= FRAMES else reported[: FRAMES // 2] + reported[-FRAMES // 2 :]


class SoFar:
    """Writes a run's progress to its output after each test, as a JSON text sequence.

    The reader removes the records from the output. Source: RFC 7464.
    """

    def __init__(self, stream: IO[str]) -> None:
        self.stream = stream
        self.reported = self.passed = 0
        self.of: int | None = None
        """The number of tests to run, once known."""

    def report(self, tests: int, rows: list[Row]) -> None:
        """Report the number of finished tests, and new results that did not pass."""
        new, self.reported = rows[self.reported :], len(rows)
        failures = [row for row in new if row["outcome"] != "pass"]
        self.passed += sum(
            row["outcome"] == "pass" and row["test"] != "(collection)" and not row.get("how") for row in new
        )
        rows = [{name: row[name] for name in REPORTED_FIELDS if row.get(name) is not None} for row in failures]
        record = {"codriver": "tests", "tests": tests, "passed": self.passed, "rows": rows, "of": self.of}
        with contextlib.suppress(Exception):
            self.stream.write(RECORD_SEPARATOR + json.dumps(record) + "\n")


def store_failed(rows: list[Row]) -> None:
    """Keep the frames of the run's first failure until the next run, and remove tracebacks from the rows."""
    module: Any = types.ModuleType(FAILED_TEST_MODULE)
    module.frames, module.spaces = [], {}
    traces = [(row.get("frames") or [], row.pop("trace", None)) for row in rows]
    for frames, trace in traces:
        if not frames or trace is None:
            continue
        found = list(traceback.walk_tb(trace))[::-1]
        locations = [(frame.f_code.co_filename, line, frame.f_code.co_name) for frame, line in found]
        start = 0
        for described in frames:
            location = (described["file"], described["line"], described["function"])
            if location not in locations[start:]:
                break
            start = locations.index(location, start) + 1
            module.frames.append(found[start - 1][0])
        break
    sys.modules[FAILED_TEST_MODULE] = module


def is_test(name: str, value: object, module: ModuleType) -> bool:
    """Return whether a name in a module is a test that the module itself defines."""
    if getattr(value, "__module__", None) != module.__name__:
        return False
    if isinstance(value, type):
        return issubclass(value, unittest.TestCase) or name.startswith("Test")
    return inspect.isfunction(value) and name.startswith("test")


def ignore_interrupts() -> None:
    """Ignore interrupts until the results are reported. The worker accepts them again afterwards.

    An interrupt may be repeated until the run has ended, and must not prevent the tests that passed from being
    reported.
    """
    if getattr(signal.getsignal(signal.SIGINT), "__name__", "") == "_on_signal":
        signal.signal(signal.SIGINT, signal.SIG_IGN)
