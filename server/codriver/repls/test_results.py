"""Convert the results of test runs, as reported by Codriver's programs or cider-nrepl, to `TestRun`."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Final, Literal

from codriver.repls.contract.queries import path_or_none
from codriver.repls.contract.test_run_values import TestResult, TestRun, TestTime
from codriver.repls.stack_traces import parse_frame_maps
from codriver.wire.untrusted import int_or_none, list_or_empty, mapping_or_empty, text_or_none

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from codriver.repls.dialects.server_dialect import Dialect

COLLECTION_NAME: Final = "(collection)"
"""The name under which pytest files that could not be collected, or were skipped entirely, are listed as tests."""
_OUTCOME_RANKS: Final = {"error": 0, "fail": 1, "pass": 2}
"""The order in which outcomes are listed."""
MAX_OUTPUT_CHARS: Final = 50_000
"""Maximum number of characters at the end of a test run's output that are included in its report."""


def parse_test_run(data: object, dialect: Dialect, *, output: str) -> TestRun:
    """Convert the reply from one of Codriver's test programs to a test run."""
    fields = mapping_or_empty(data)
    results = [parse_test_result(mapping_or_empty(item), dialect) for item in list_or_empty(fields.get("results"))]
    times = tuple(time for item in list_or_empty(fields.get("times")) for time in _parse_times(item))
    run = build_test_run(results, tests=int_or_none(fields.get("tests")), output=output)
    run = replace(run, times=times, of=int_or_none(fields.get("of")))
    stopped = mapping_or_empty(fields.get("stopped"))
    return replace(run, stopped=parse_test_result(stopped, dialect)) if stopped else run


def _parse_times(item: object) -> Iterator[TestTime]:
    """Yield the time from a `[namespace, test, seconds]` row. Ignore rows of any other shape."""
    match item:
        case [str(namespace), str(test), float() | int() as seconds]:
            yield TestTime(namespace, test, float(seconds))


def build_test_run(results: list[TestResult], *, tests: int | None, output: str) -> TestRun:
    """Create a test run from its results, with errors and failures first.

    `tests` is the number of tests. By default, the distinct tests in the results are counted.
    """
    outcomes = [result.outcome for result in results]
    hows = Counter(result.how for result in results if result.test != COLLECTION_NAME)
    return TestRun(
        tests=len({(result.namespace, result.test) for result in results}) if tests is None else tests,
        passed=sum(
            finished.outcome == "pass" and finished.test != COLLECTION_NAME and not finished.how for finished in results
        ),
        failed=outcomes.count("fail"),
        errors=outcomes.count("error"),
        results=tuple(sorted(results, key=lambda result: _OUTCOME_RANKS[result.outcome])),
        output=output[-MAX_OUTPUT_CHARS:],
        skipped=hows["skipped"],
        xfailed=hows["xfailed"],
        xpassed=hows["xpassed"],
    )


def _parse_how(value: object) -> Literal["", "skipped", "xfailed", "xpassed"]:
    match value:
        case "skipped" | "xfailed" | "xpassed":
            return value
        case _:
            return ""


def parse_test_result(fields: Mapping[str, object], dialect: Dialect) -> TestResult:
    """Convert the fields of a reply to the result of one assertion."""
    outcome = text_or_none(fields.get("outcome")) or text_or_none(fields.get("type"))
    file, line = path_or_none(text_or_none(fields.get("file"))), int_or_none(fields.get("line"))
    # An error is reported where it was thrown, which may be in a library. The position of the test is more useful.
    if fields.get("var-file") and (file is None or outcome == "error"):
        file, line = path_or_none(text_or_none(fields.get("var-file"))), int_or_none(fields.get("var-line"))
    context, message = text_or_none(fields.get("context")), text_or_none(fields.get("message"))
    return TestResult(
        test=text_or_none(fields.get("test")) or text_or_none(fields.get("var")) or "?",
        namespace=text_or_none(fields.get("ns")) or "?",
        outcome="pass" if outcome == "pass" else "fail" if outcome == "fail" else "error",
        message=": ".join(part for part in (context, message) if part) or None,
        expected=(text_or_none(fields.get("expected")) or "").rstrip() or None,
        actual=(text_or_none(fields.get("actual")) or text_or_none(fields.get("error")) or "").rstrip() or None,
        file=file,
        line=line,
        frames=parse_frame_maps(fields, dialect),
        how=_parse_how(fields.get("how")),
    )
