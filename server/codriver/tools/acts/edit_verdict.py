"""The verdict of an edit: each chosen test passed, failed, or did not finish.

Only a test that passed before the edit and fails twice after it speaks against the edit. A test without an outcome for
the previous files runs once against these, while the disk keeps the present ones.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from codriver.testing.runs import BAD_OUTCOMES

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from codriver.testing.runs import TestReport

PASSED: Final = frozenset({"passed", "xfailed"})
"""Outcomes of a test that is as it should be."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The outcomes of the chosen tests after an edit, and of those that failed also before it and once more."""

    passed: int = 0
    failed: tuple[str, ...] = ()
    unfinished: tuple[str, ...] = ()
    before: Mapping[str, str] = field(default_factory=dict)
    """The outcomes of failed tests with the previous files, as far as known."""
    again: Mapping[str, str] = field(default_factory=dict)
    """The outcomes of failed tests in a second run after the edit."""

    @property
    def broken(self) -> tuple[str, ...]:
        """Return the tests that the edit broke: they passed before it, and failed twice after it."""
        return tuple(
            name for name in self.failed if self.before.get(name) in PASSED and self.again.get(name) in BAD_OUTCOMES
        )

    @property
    def failed_before(self) -> tuple[str, ...]:
        """Return the failed tests that failed with the previous files, too."""
        return tuple(name for name in self.failed if self.before.get(name) in BAD_OUTCOMES)

    @property
    def flaky(self) -> tuple[str, ...]:
        """Return the failed tests that passed in the second run of the same files."""
        return tuple(name for name in self.failed if self.again.get(name) in PASSED)

    @property
    def unknown(self) -> tuple[str, ...]:
        """The failed tests that have no outcome with the previous files, such as those that the edit adds."""
        known = {*self.broken, *self.failed_before, *self.flaky}
        return tuple(name for name in self.failed if name not in known)

    @property
    def counts(self) -> dict[str, int]:
        """Return the counts of an answer."""
        return {"passed": self.passed, "failed": len(self.failed), "unfinished": len(self.unfinished)}


def unfinished_in(report: TestReport) -> tuple[str, ...]:
    """Return the tests of a run that have no outcome: those that never started, and those that were interrupted."""
    stopped = [report.interruption.nodeid] if report.interruption is not None and report.interruption.nodeid else []
    done = {one.nodeid for one in report.results}
    found = dict.fromkeys([*stopped, *report.running, *report.not_started])
    return tuple(name for name in found if name not in done)


def failed_in(report: TestReport) -> tuple[str, ...]:
    """Return the tests that failed, and the files that could not be collected, each once."""
    stopped = report.interruption.nodeid if report.interruption is not None else ""
    return tuple(dict.fromkeys(one.nodeid for one in report.failures if one.nodeid != stopped))


def outcomes_in(report: TestReport, names: Iterable[str]) -> dict[str, str]:
    """Return the outcomes of tests in a report. A file that was collected without an error passed."""
    found: dict[str, str] = {}
    for one in report.results:
        if found.get(one.nodeid) not in BAD_OUTCOMES:
            found[one.nodeid] = one.outcome
    return {name: outcome for name in names if (outcome := found.get(name) or _of_file(name, found))}


def _of_file(name: str, found: Mapping[str, str]) -> str:
    if "::" in name:
        return ""
    return "passed" if any(one.startswith(f"{name}::") for one in found) else ""


def files_of(names: Sequence[str]) -> tuple[str, ...]:
    """Return the files of tests, each once."""
    return tuple(dict.fromkeys(name.partition("::")[0] for name in names))
