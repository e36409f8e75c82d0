"""Describe tests that did not finish in time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from codriver.errors import format_count
from codriver.testing.executed_functions import without_parameters

if TYPE_CHECKING:
    from collections.abc import Sequence

    from codriver.testing.runs import RunError, TestReport

RUN_AGAIN_HINT: Final = "Run the files in notFinished with run_tests."
"""What a caller can do about unfinished tests."""


def find_unfinished_tests(report: TestReport) -> tuple[str, ...]:
    """Return the names of tests that never started or were interrupted."""
    stopped = [report.interruption.nodeid] if report.interruption is not None and report.interruption.nodeid else []
    done = {result.nodeid for result in report.results}
    found = dict.fromkeys([*stopped, *report.running, *report.not_started])
    return tuple(name for name in found if name not in done)


def stopped_run_fields(limit: str, *, is_longest: bool) -> dict[str, str]:
    """Return the fields of an answer about a run in a separate process that was stopped after the time `limit`.

    With `is_longest`, this is the limit for all runs, which callers can only shorten.
    """
    message = f"the run was stopped after {limit}"
    if is_longest:
        return _timeout_fields(f"{message}, the limit for all runs", "Run fewer tests, or raise the setting maxRunMs.")
    return _timeout_fields(message, "Pass a longer limitMs, or run fewer tests.")


def interrupted_run_fields(limit_ms: int, where: str) -> dict[str, str]:
    """Return the fields of an answer about an interrupted run in a REPL. `where` is appended to the message."""
    message = f"the tests did not finish within {limit_ms} ms and were interrupted{where}"
    return _timeout_fields(message, "Pass a longer timeoutMs, or run fewer tests.")


def unfinished_edit_fields(
    executing: frozenset[str], unfinished: Sequence[str], limit_s: float, running: str, error: RunError | None = None
) -> dict[str, str]:
    """Return the fields of an answer about an edit whose tests did not all finish. No finished test failed.

    `limit_s` is the time limit in seconds. `executing` are the test functions that executed the changed code, if they
    are known. `running` is the test that was running at the end, or empty if none was. `error` is the error that ended
    the run before its limit, if there was one.
    """
    tests = format_count(len(unfinished), "test has", "tests have")
    if error is not None:
        message = f"the edit is kept, but {tests} not finished: {error.message}"
        return {"reason": "evaluation-failed", "message": message, "hint": error.hint or RUN_AGAIN_HINT}
    message = f"the edit is kept, but {tests} not finished within {limit_s:g} s"
    if running:
        message += f": {running} was running"
    if executing and executing.isdisjoint(map(without_parameters, unfinished)):
        message += ". All tests that executed the changed code have passed. The other tests only import it"
    return _timeout_fields(message, "Pass a longer limitMs, or run the files in notFinished with run_tests.")


def _timeout_fields(message: str, hint: str) -> dict[str, str]:
    return {"reason": "timed-out", "message": message, "hint": hint}
