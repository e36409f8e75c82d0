"""Test runs in Python REPLs, with what comparisons of their failures found."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import Final

from codriver.core.records import Recent

MOST_RUNS: Final = 200


@dataclass(slots=True)
class TestsRun:
    """The runs of tests in REPLs of Python, by evaluation, for the life of one server."""

    __test__ = False  # for pytest: the class is no test

    taken_back: Recent[str, bool] = field(default_factory=partial(Recent, MOST_RUNS))
    """Runs in a REPL of code that an act tried and took back: they tell nothing of the present code."""
    compared: Recent[str, str] = field(default_factory=partial(Recent, MOST_RUNS))
    """By run whose red tests were compared with their former calls: the difference in words, empty for none."""
    untold: Recent[str, str] = field(default_factory=partial(Recent, MOST_RUNS))
    """By caller the newest difference that is news to the caller."""

    def take_differences(self, who: str, evaluation: str = "") -> list[str]:
        """Return the differences found for a caller since its last answer, and that of this run."""
        of_run, untold = self.compared.get(evaluation, ""), self.untold.pop(who, "")
        return [one for one in dict.fromkeys((of_run, untold)) if one] if of_run or untold else []
