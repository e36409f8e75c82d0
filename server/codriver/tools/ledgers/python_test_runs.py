"""Remember test runs in Python REPLs, and the results of comparing their failures."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import Final

from codriver.core.records import Recent

MAX_REMEMBERED_RUNS: Final = 200
"""Maximum number of runs that are remembered."""


@dataclass(slots=True)
class TestRunRecords:
    """Records about test runs, for the lifetime of one server."""

    __test__ = False  # or pytest would collect it as a test

    reverted: Recent[str, bool] = field(default_factory=partial(Recent, MAX_REMEMBERED_RUNS))
    """Runs of code that was tried in a REPL and then reverted. They say nothing about the current code."""
    compared: Recent[str, str] = field(default_factory=partial(Recent, MAX_REMEMBERED_RUNS))
    """Difference between the calls made by failed tests and earlier calls, or an empty string, by run."""
    unreported: Recent[str, str] = field(default_factory=partial(Recent, MAX_REMEMBERED_RUNS))
    """Most recent difference that each caller has not received yet, by caller."""

    def pop_differences(self, who: str, evaluation: str = "") -> list[str]:
        """Return the differences of the given run, and those that the caller has not received, which are cleared."""
        of_run, unreported = self.compared.get(evaluation, ""), self.unreported.pop(who, "")
        return [fromkey for fromkey in dict.fromkeys((of_run, unreported)) if fromkey] if of_run or unreported else []
