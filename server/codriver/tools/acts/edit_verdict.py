"""Decide whether an edit broke a test.

An edit broke a test only if the test passed before the edit and failed twice after it. A test without a known outcome
for the previous files runs once against copies of these, while the disk has the new ones.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from codriver.testing.runs import FAILING_OUTCOMES

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from codriver.editing import Outcome
    from codriver.testing.runs import TestReport
    from codriver.testing.test_jobs import TestJob

CHECK_TIME_LIMIT_S: Final = 25.0
"""Time limit for repeating failed tests and for running them with the previous files, in seconds."""
EXPECTED_OUTCOMES: Final = frozenset({"passed", "xfailed"})
"""Outcomes of tests that behave as expected."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """Outcomes of the chosen tests after an edit, and for failed tests also before the edit and in a second run."""

    passed: int = 0
    failed: tuple[str, ...] = ()
    unfinished: tuple[str, ...] = ()
    before: Mapping[str, str] = field(default_factory=dict)
    """Outcomes of the failed tests with the previous files, where known."""
    again: Mapping[str, str] = field(default_factory=dict)
    """Outcomes of the failed tests in a second run after the edit."""

    @property
    def broken(self) -> tuple[str, ...]:
        """Return the tests that passed before the edit and failed twice after it."""
        return tuple(
            name
            for name in self.failed
            if self.before.get(name) in EXPECTED_OUTCOMES and self.again.get(name) in FAILING_OUTCOMES
        )

    @property
    def failed_before(self) -> tuple[str, ...]:
        """Return the failed tests that also failed with the previous files."""
        return tuple(name for name in self.failed if self.before.get(name) in FAILING_OUTCOMES)

    @property
    def flaky(self) -> tuple[str, ...]:
        """Return the failed tests that passed when repeated."""
        return tuple(name for name in self.failed if self.again.get(name) in EXPECTED_OUTCOMES)

    @property
    def failing(self) -> tuple[str, ...]:
        """Return the failed tests that did not pass when repeated."""
        return tuple(name for name in self.failed if name not in self.flaky)

    @property
    def has_known_failures_only(self) -> bool:
        """Return whether all failing tests are known to have failed with the previous files."""
        return {*self.failing} <= {*self.failed_before}

    @property
    def counts(self) -> dict[str, int]:
        """Return the counts for an answer."""
        return {"passed": self.passed, "failed": len(self.failed), "unfinished": len(self.unfinished)}


def unfinished_in(report: TestReport) -> tuple[str, ...]:
    """Return the tests of a run without an outcome, because they never started or were interrupted."""
    stopped = [report.interruption.nodeid] if report.interruption is not None and report.interruption.nodeid else []
    done = {result.nodeid for result in report.results}
    found = dict.fromkeys([*stopped, *report.running, *report.not_started])
    return tuple(name for name in found if name not in done)


def failed_tests_in(report: TestReport) -> tuple[str, ...]:
    """Return the tests that failed and the files that could not be collected, without duplicates."""
    stopped = report.interruption.nodeid if report.interruption is not None else ""
    return tuple(dict.fromkeys(failure.nodeid for failure in report.failures if failure.nodeid != stopped))


def outcomes_in(report: TestReport, names: Iterable[str]) -> dict[str, str]:
    """Return the outcomes of tests or files in a report. A file that was collected without an error passed."""
    found: dict[str, str] = {}
    for result in report.results:
        if found.get(result.nodeid) not in FAILING_OUTCOMES:
            found[result.nodeid] = result.outcome
    return {name: outcome for name in names if (outcome := found.get(name) or _of_file(name, found))}


def _of_file(name: str, found: Mapping[str, str]) -> str:
    """Return `passed` for a file with results in `found`, or an empty string for tests and other files."""
    if "::" in name:
        return ""
    return "passed" if any(nodeid.startswith(f"{name}::") for nodeid in found) else ""


def test_files(names: Sequence[str]) -> tuple[str, ...]:
    """Return the files of tests, without duplicates."""
    return tuple(dict.fromkeys(name.partition("::")[0] for name in names))


def previous_sources(outcome: Outcome) -> dict[str, bytes | None]:
    """Return the contents that the files of an edit had before it, by path."""
    return {str(file.change.path): file.change.before.data for file in outcome.files}


def verification_jobs(
    job: TestJob, names: Sequence[str], sources: Mapping[str, bytes | None] | None = None
) -> Iterator[TestJob]:
    """Yield the jobs that run tests of a job again, with the given contents of files if any, until one has results.

    pytest runs nothing if one of the names does not exist, such as a test that the edit adds. In that case the test
    files run whole.
    """
    for paths in (names, test_files(names)):
        spec = replace(
            job.spec,
            arguments=tuple(paths),
            sources=sources or {},
            retains_failed_process=False,
            chosen=None,
            recorders={},
        )
        yield replace(
            job, spec=spec, limit_s=CHECK_TIME_LIMIT_S, purpose="check" if job.purpose == "tests" else job.purpose
        )
