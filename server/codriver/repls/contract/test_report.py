"""The report of a test run: as text, which is the value of its evaluation, and as one line for the log."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from codriver.core.values import NO_KNOWN_TEST
from codriver.repls.contract.adapter_values import UNKNOWN_TEST

if TYPE_CHECKING:
    from codriver.repls.contract.adapter_values import StackFrame, TestResult, TestRun

TEXT_CHARS = 4000
"""Longest text of one result's `expected` or `actual`."""
NAMED = 10
"""Failures that one line names."""


def report_text(run: TestRun, *, is_fresh: bool = False, is_again: bool = False) -> str:
    """The report as JSON: the counts, the results that failed, then those that passed, and the test it stopped in.

    `times` has the namespace, the name and the seconds of each test that ended; `fresh` is there when they ran in a
    new process, `again` when they ran there because they were red in the REPL.
    """
    rows = [_row(result) for result in run.results]
    fields: dict[str, object] = {
        "tests": run.tests,
        "passed": run.passed,
        "failed": run.failed,
        "errors": run.errors,
        "results": rows,
    }
    if run.times:
        fields["times"] = [[time.namespace, time.test, round(time.seconds, 6)] for time in run.times]
    if run.of is not None:
        fields["of"] = run.of
    if run.stopped:
        fields["stopped"] = _row(run.stopped)
    if is_fresh:
        fields["fresh"] = True
    if is_again:
        fields["again"] = True
    return json.dumps(fields, ensure_ascii=False)


def words_of(run: TestRun) -> str:
    """The counts, and the names of what failed."""
    counts = f"{_counted(run.tests, 'test')}, {run.passed} passed, {run.failed} failed, {_counted(run.errors, 'error')}"
    names = list(dict.fromkeys(_name(result) for result in run.results if result.outcome != "pass"))
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    failed = f": {', '.join(names[:NAMED])}{more}" if names else ""
    where = _name(run.stopped) if run.stopped and run.stopped.test != UNKNOWN_TEST else NO_KNOWN_TEST
    return counts + failed + (f"; stopped in {where}" if run.stopped else "")


def _counted(count: int, thing: str) -> str:
    return f"{count} {thing}" if count == 1 else f"{count} {thing}s"


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
        pairs[name] = (text if len(text) <= TEXT_CHARS else f"{text[:TEXT_CHARS]}…") if text else None
    return {key: value for key, value in pairs.items() if value is not None}


def _frame(frame: StackFrame) -> dict[str, object]:
    pairs = {"function": frame.function, "file": frame.file, "line": frame.line, "tooling": frame.tooling or None}
    return {key: value for key, value in pairs.items() if value is not None}
