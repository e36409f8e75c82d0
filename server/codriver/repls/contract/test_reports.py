"""Format the results of test runs as text. The report of a run is the value of its evaluation."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from codriver.errors import format_count, join_first, truncate
from codriver.repls.contract.test_run_values import UNKNOWN_TEST_NAME, TestResult, TestRun

if TYPE_CHECKING:
    from codriver.repls.contract.stack_trace_values import StackFrame

MAX_TEXT_CHARS = 4000
"""Maximum length of `expected`, `actual` and the message of one result."""
MAX_NAMED_FAILURES = 10
"""Maximum number of failures named in one line."""
UNKNOWN_TEST_TEXT = "an unknown test"
"""Text used in place of a test's location if the REPL did not know which test was running when the run was stopped."""


def encode_report(run: TestRun) -> str:
    """Format a test run as JSON: the counts, the results with failures first, and the interrupted test, if any.

    `times` contains the namespace, name and duration in seconds of each finished test.
    """
    rows = [_row(result) for result in run.results]
    fields: dict[str, object] = {
        "tests": run.tests,
        "passed": run.passed,
        "failed": run.failed,
        "errors": run.errors,
        "results": rows,
    }
    hows = {"skipped": run.skipped, "xfailed": run.xfailed, "xpassed": run.xpassed}
    fields |= {name: count for name, count in hows.items() if count}
    if run.times:
        fields["times"] = [[time.namespace, time.test, round(time.seconds, 6)] for time in run.times]
    if run.of is not None:
        fields["of"] = run.of
    if run.stopped:
        fields["stopped"] = _row(run.stopped)
    return json.dumps(fields, ensure_ascii=False)


def summarize_run(run: TestRun) -> str:
    """Summarize a test run in one line with its counts and the names of failed tests."""
    tests, errors = format_count(run.tests, "test"), format_count(run.errors, "error")
    counts = f"{tests}, {run.passed} passed, {run.failed} failed, {errors}"
    names = failed_test_names(run)
    failed = f": {join_first(names, MAX_NAMED_FAILURES)}" if names else ""
    return (
        counts + failed + (f"; stopped in {stopped_test_name(run.stopped) or UNKNOWN_TEST_TEXT}" if run.stopped else "")
    )


def failed_test_names(run: TestRun) -> list[str]:
    """Return the names of tests that did not pass, without duplicates."""
    return list(dict.fromkeys(_name(result) for result in run.results if result.outcome != "pass"))


def stopped_test_name(stopped: TestResult) -> str:
    """Return the name of the test that was running when its run was interrupted, or "" if unknown."""
    return _name(stopped) if stopped.test != UNKNOWN_TEST_NAME else ""


def _name(result: TestResult) -> str:
    return f"{result.namespace}/{result.test}"


def _row(result: TestResult) -> dict[str, object]:
    pairs: dict[str, object] = {
        "test": result.test,
        "ns": result.namespace,
        "outcome": result.outcome,
        "skipped": result.is_skipped or None,
        "file": result.file,
        "line": result.line,
        "frames": [_frame(frame) for frame in result.frames] or None,
    }
    for name, text in (("message", result.message), ("expected", result.expected), ("actual", result.actual)):
        pairs[name] = truncate(text, MAX_TEXT_CHARS) if text else None
    return {key: value for key, value in pairs.items() if value is not None}


def _frame(frame: StackFrame) -> dict[str, object]:
    pairs = {"function": frame.function, "file": frame.file, "line": frame.line, "tooling": frame.tooling or None}
    return {key: value for key, value in pairs.items() if value is not None}
