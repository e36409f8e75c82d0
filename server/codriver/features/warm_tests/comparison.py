"""Compare the results of warm and plain runs.

A difference only counts after each side has shown it three times out of three.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

    from codriver.testing.runs import TestReport

REQUIRED_OUTCOMES: Final = 3
"""How often each side has to show its outcome before a difference counts. A flaky test rarely differs this often."""

Outcomes = tuple[str, ...]


def outcomes_by_test(report: TestReport) -> dict[str, str]:
    """Return the outcome of each test, with the class and the message of its failure."""
    found = {}
    for result in report.results:
        failure = result.failure
        details = f" {failure.phase} {failure.type}" if failure is not None else ""
        found[result.nodeid] = f"{result.outcome}{details}"
    return found


@dataclass(frozen=True, slots=True)
class Comparison:
    """The outcomes of plain and warm runs of unchanged files, by test."""

    stamp: str
    """A digest of the files."""
    plain: Mapping[str, Outcomes] = field(default_factory=dict)
    warm: Mapping[str, Outcomes] = field(default_factory=dict)

    def with_outcomes(self, found: Mapping[str, str], *, is_warm: bool) -> Comparison:
        """Add the outcomes of a run."""
        side = dict(self.warm if is_warm else self.plain)
        for test, outcome in found.items():
            side[test] = (*side.get(test, ()), outcome)[-REQUIRED_OUTCOMES:]
        return replace(self, warm=side) if is_warm else replace(self, plain=side)

    def suspects(self) -> tuple[str, ...]:
        """Return the tests for which the two sides have differed consistently so far."""
        return tuple(
            test
            for test, warm in self.warm.items()
            if (plain := self.plain.get(test)) and len({*plain}) == len({*warm}) == 1 and plain[0] != warm[0]
        )

    def differences(self) -> tuple[str, ...]:
        """Return the tests for which the two sides differ, each having had the same outcome three times."""
        return tuple(
            test
            for test in self.suspects()
            if len(self.plain[test]) >= REQUIRED_OUTCOMES and len(self.warm[test]) >= REQUIRED_OUTCOMES
        )

    def needs_plain_run(self) -> bool:
        """Return whether the next run has to be plain to confirm or refute a suspected difference."""
        return any(
            len(self.plain[test]) < REQUIRED_OUTCOMES and len(self.plain[test]) <= len(self.warm[test])
            for test in self.suspects()
        )
