"""Decide whether an edit broke a test.

An edit broke a test only if the test passed before the edit and failed twice after it. A test without a known outcome
for the previous files runs once against copies of them, while the new ones are on disk.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from codriver.testing.executed_functions import without_parameters
from codriver.testing.runs import FAILING_OUTCOMES, ChosenTests

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
    """Outcomes of the tests that were run for an edit.

    `passed` is a count. `failed` and `unfinished` contain the names of tests that failed or did not finish after the
    edit.
    """

    passed: int = 0
    failed: tuple[str, ...] = ()
    unfinished: tuple[str, ...] = ()
    before: Mapping[str, str] = field(default_factory=dict)
    """Outcomes of the failed tests with the previous files, where known."""
    again: Mapping[str, str] = field(default_factory=dict)
    """Outcomes of the failed tests in a second run after the edit."""

    @property
    def broken(self) -> tuple[str, ...]:
        """Return the tests that the edit broke: they passed before it, and failed twice after it."""
        return tuple(
            name
            for name in self.failed
            if self.before.get(name) in EXPECTED_OUTCOMES and self.again.get(name) in FAILING_OUTCOMES
        )

    @property
    def failed_before(self) -> tuple[str, ...]:
        """Return the failed tests that also failed before the edit."""
        return tuple(name for name in self.failed if self.before.get(name) in FAILING_OUTCOMES)

    @property
    def flaky(self) -> tuple[str, ...]:
        """Return the failed tests that passed when they were repeated."""
        return tuple(name for name in self.failed if self.again.get(name) in EXPECTED_OUTCOMES)

    @property
    def failing(self) -> tuple[str, ...]:
        """Return the failed tests, except those that passed when they were repeated."""
        return tuple(name for name in self.failed if name not in self.flaky)

    @property
    def has_known_failures_only(self) -> bool:
        """Return whether all failing tests also failed before the edit."""
        return {*self.failing} <= {*self.failed_before}

    @property
    def counts(self) -> dict[str, int]:
        """Return the numbers of passed, failed and unfinished tests as fields of an answer."""
        return {"passed": self.passed, "failed": len(self.failed), "unfinished": len(self.unfinished)}


def find_failed_tests(report: TestReport) -> tuple[str, ...]:
    """Return the names of failed tests and of files that could not be collected, without duplicates."""
    stopped = report.interruption.nodeid if report.interruption is not None else None
    return tuple(dict.fromkeys(failure.nodeid for failure in report.failures if failure.nodeid != stopped))


def find_outcomes(report: TestReport, names: Iterable[str]) -> dict[str, str]:
    """Return the outcomes of the given tests or files by name, where known.

    If a test ran more than once, a failure counts. A file that was collected without an error has passed.
    """
    found: dict[str, str] = {}
    for result in report.results:
        if found.get(result.nodeid) not in FAILING_OUTCOMES:
            found[result.nodeid] = result.outcome
    return {name: outcome for name in names if (outcome := found.get(name) or _file_outcome(name, found))}


def _file_outcome(name: str, found: Mapping[str, str]) -> str:
    """Return "passed" for a file with test results in `found`, and an empty string otherwise."""
    if "::" in name:
        return ""
    return "passed" if any(nodeid.startswith(f"{name}::") for nodeid in found) else ""


def test_files(names: Sequence[str]) -> tuple[str, ...]:
    """Return the files of the given tests, without duplicates."""
    return tuple(dict.fromkeys(name.partition("::")[0] for name in names))


def previous_sources(outcome: Outcome) -> dict[str, bytes | None]:
    """Return the contents of the edited files before the edit, by path."""
    return {str(file.change.path): file.change.before.data for file in outcome.files}


def verification_jobs(
    job: TestJob, names: Sequence[str], sources: Mapping[str, bytes | None] | None = None
) -> Iterator[TestJob]:
    """Yield jobs that run tests from `job` again. The caller stops at the first one with results.

    `sources` replaces the contents of files by path. pytest runs nothing if one of the names does not exist, such as a
    test that the edit adds, so the second job runs the complete test files.
    """
    for paths in (names, test_files(names)):
        spec = replace(
            job.spec,
            arguments=tuple(paths),
            sources=sources or {},
            retains_failed_process=False,
            chosen=_select(paths) if job.spec.chosen is not None else None,
            recorders={},
        )
        yield replace(
            job, spec=spec, limit_s=CHECK_TIME_LIMIT_S, purpose="check" if job.purpose == "tests" else job.purpose
        )


def _select(names: Sequence[str]) -> ChosenTests:
    """Return the selection of tests and files by name, which may be in different packages."""
    functions = tuple(dict.fromkeys(without_parameters(name) for name in names if "::" in name))
    return ChosenTests(functions, tuple(name for name in names if "::" not in name))
