"""Values of a test run in a Python REPL: names of modules, the project's files, the frames of a failure.

No interrupt is taken between the end of a run and its report.
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
    pytest = None  # type: ignore[assignment]  # the project's interpreter may have none
if not hasattr(pytest, "version_tuple"):
    # Before version 7 pytest had other hooks.
    pytest = None  # type: ignore[assignment]

TYPE_CHECKING = False

__all__ = [
    "FRAMES",
    "OUTPUT",
    "ROWS",
    "TEXT",
    "TIMES",
    "SoFar",
    "beneath",
    "display_name",
    "file_of",
    "frames_of",
    "home_of",
    "in_directory",
    "is_project_file",
    "is_test",
    "pytest",
    "store_failed",
]  # fmt: skip

TEXT, OUTPUT, ROWS, TIMES, FRAMES = 4000, 50000, 2000, 20000, 40
FAILED_TEST = "_codriver_red_test"
"""The module that keeps the frames of the last red test, as `codriver.repls.worker.basics.frame_spaces` finds them."""
HY_SESSION = "hy-nrepl-session-"
RECORD = "\x1e"
REPORTED_FIELDS = ("test", "ns", "outcome", "message", "actual", "file", "line", "frames")


def display_name(module: str) -> str:
    """A module's name, in the users' form."""
    return "user" if module == "__main__" else "Hy" if module.startswith(HY_SESSION) else module


def home_of(session: str) -> ModuleType | None:
    """The module of a session of hy-nrepl: the module is looked for among all objects, as no table has it."""
    name, module = HY_SESSION + session, type(os)
    found = [one for one in gc.get_objects() if type(one) is module] if session else []
    return next((one for one in found if vars(one).get("__name__") == name), None)


def file_of(module: ModuleType) -> str | None:
    """The real path of a module's file; None for a module without one."""
    file = getattr(module, "__file__", None)
    return os.path.realpath(file) if isinstance(file, str) and os.path.isfile(file) else None


def is_project_file(file: str | None) -> bool:
    """True if a file is the project's."""
    is_below_directory = bool(file) and file.startswith(os.path.realpath(os.getcwd()) + os.sep)  # type: ignore[union-attr]
    return is_below_directory and "site-packages" not in str(file)


def beneath(file: str) -> str:
    """A file's path in the form of a test's id."""
    return os.path.relpath(file).replace(os.sep, "/") if is_project_file(file) else file


@contextlib.contextmanager
def in_directory(directory: str) -> Iterator[None]:
    """The context of a run in the REPL's folder: evaluated code may have changed the folder, or a test may."""
    try:
        before = os.getcwd()
    except OSError:
        before = directory
    if directory and not os.path.isdir(directory):
        raise FileNotFoundError("the REPL's folder " + directory + " is gone")
    if directory:
        os.chdir(directory)
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            os.chdir(before or ".")


def frames_of(frames: traceback.StackSummary) -> list[Row]:
    """The frames of a failure, innermost first, without those of the test runner."""
    run_by = [os.sep + name + os.sep for name in ("_pytest", "pluggy", "unittest")]
    reported: list[Row] = [
        {"file": one.filename, "line": one.lineno, "function": one.name}
        for one in reversed(frames)
        if one.name != "_on_signal" and not any(name in one.filename for name in run_by)
    ]
    return reported if len(reported) <= FRAMES else reported[: FRAMES // 2] + reported[-FRAMES // 2 :]


class SoFar:
    """The record of a run under way: JSON text sequences in its output, one at the end of each test.

    The caller takes the records out of the output. Source: RFC 7464.
    """

    def __init__(self, stream: IO[str]) -> None:
        self.stream = stream
        self.reported = self.passed = 0
        self.of: int | None = None
        """The number of tests to run, once known."""

    def report(self, tests: int, rows: list[Row]) -> None:
        """Tell the number of ended tests, and the new rows of tests that did not pass."""
        new, self.reported = rows[self.reported :], len(rows)
        failures = [row for row in new if row["outcome"] != "pass"]
        self.passed += sum(
            row["outcome"] == "pass" and row["test"] != "(collection)" and not row.get("how") for row in new
        )
        rows = [{name: row[name] for name in REPORTED_FIELDS if row.get(name) is not None} for row in failures]
        record = {"codriver": "tests", "tests": tests, "passed": self.passed, "rows": rows, "of": self.of}
        with contextlib.suppress(Exception):
            self.stream.write(RECORD + json.dumps(record) + "\n")


def store_failed(rows: list[Row]) -> None:
    """Keep the frames of a run's first failure, as in its row, until the next run.

    The traceback leaves the row here, as it cannot be told.
    """
    module: Any = types.ModuleType(FAILED_TEST)
    module.frames, module.spaces = [], {}
    traces = [(row.get("frames") or [], row.pop("trace", None)) for row in rows]
    for frames, trace in traces:
        if not frames or trace is None:
            continue
        found = list(traceback.walk_tb(trace))[::-1]
        locations = [(frame.f_code.co_filename, line, frame.f_code.co_name) for frame, line in found]
        start = 0
        for one in frames:
            location = (one["file"], one["line"], one["function"])
            if location not in locations[start:]:
                break
            start = locations.index(location, start) + 1
            module.frames.append(found[start - 1][0])
        break
    sys.modules[FAILED_TEST] = module


def is_test(name: str, value: object, module: ModuleType) -> bool:
    """True if a name of a module is a test of its own."""
    if getattr(value, "__module__", None) != module.__name__:
        return False
    if isinstance(value, type):
        return issubclass(value, unittest.TestCase) or name.startswith("Test")
    return inspect.isfunction(value) and name.startswith("test")


def be_deaf() -> None:
    """Ignore interrupts until the run is told; the worker takes them again afterwards.

    An interrupter repeats its signal until all is over, and the passed tests are yet to be told.
    """
    if getattr(signal.getsignal(signal.SIGINT), "__name__", "") == "_on_signal":
        signal.signal(signal.SIGINT, signal.SIG_IGN)
