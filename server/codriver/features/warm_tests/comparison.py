"""Compare the results of warm and plain runs.

A difference counts only after each side has shown it three times out of three.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

    from codriver.testing.runs import TestReport

REQUIRED_OUTCOMES: Final = 3
"""Number of runs of each kind in which a test must have a different outcome before the difference counts.

A flaky test rarely differs this consistently.
"""

Outcomes = tuple[str, ...]


def outcomes_by_test(report: TestReport) -> dict[str, str]:
    """Return the outcome of each test. For a failure, it includes the phase and the class of the error."""
    found = {}
    for result in report.results:
        failure = result.failure
        details = f" {failure.phase} {failure.type}" if failure is not None else ""
        found[result.nodeid] = f"{result.outcome}{details}"
    return found


@dataclass(frozen=True, slots=True)
class Comparison:
    """The outcomes of tests in warm and in plain runs of the same files.

    A warm run uses a fork of a process that has preloaded modules. A plain run uses a new process.
    """

    stamp: str
    """A digest of the source files with which the tests ran."""
    plain: Mapping[str, Outcomes] = field(default_factory=dict)
    warm: Mapping[str, Outcomes] = field(default_factory=dict)

    def with_outcomes(self, outcomes: Mapping[str, str], *, is_warm: bool) -> Comparison:
        """Return a copy with the outcomes of another run added."""
        side = dict(self.warm if is_warm else self.plain)
        for test, outcome in outcomes.items():
            side[test] = (*side.get(test, ()), outcome)[-REQUIRED_OUTCOMES:]
        return replace(self, warm=side) if is_warm else replace(self, plain=side)

    def suspects(self) -> tuple[str, ...]:
        """Return the tests that have always had one outcome in plain runs and another in warm runs."""
        return tuple(
            test
            for test, warm in self.warm.items()
            if (plain := self.plain.get(test)) and len({*plain}) == len({*warm}) == 1 and plain[0] != warm[0]
        )

    def differences(self) -> tuple[str, ...]:
        """Return the suspects with enough runs of both kinds for the difference to be certain."""
        return tuple(
            test
            for test in self.suspects()
            if len(self.plain[test]) >= REQUIRED_OUTCOMES and len(self.warm[test]) >= REQUIRED_OUTCOMES
        )

    def needs_plain_run(self) -> bool:
        """Return whether the next run must be plain, to confirm or to refute a suspected difference."""
        return any(
            len(self.plain[test]) < REQUIRED_OUTCOMES and len(self.plain[test]) <= len(self.warm[test])
            for test in self.suspects()
        )
