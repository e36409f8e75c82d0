"""Rank the functions that a failed test executed by how likely they are to have caused the failure.

A function that failing tests execute and passing tests do not execute is suspicious. So is a line. The measure is
Ochiai's coefficient. Source: Abreu, Zoeteweij and van Gemund, "On the Accuracy of Spectrum-based Fault Localization",
2007. Functions in the call stack of the failure and those that the failed statement called are more likely than others.
The factors were fitted to random bugs, see `tests/bench/fault_ranking.py`.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from pathlib import PurePath
from typing import TYPE_CHECKING, Final

from codriver.testing.runs import FAILING_OUTCOMES

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from codriver.testing.recordings import ExecutedFunctions, Function
    from codriver.testing.runs import TestFinished

TEST_DIRECTORY_NAMES: Final = frozenset({"test", "tests"})
"""Names of directories in which all files belong to the tests, including helpers and data."""
INSTRUCTION_BYTES: Final = 8
"""Approximate size of one operation's bytecode, in bytes, with its operands and caches."""
CALLED_FACTOR: Final = 3.0
"""How much more likely a function is to have caused the failure if the failed statement called it."""
STACK_FACTOR: Final = 5.0
"""How much more likely a function is to have caused the failure if it is in the call stack of the failure."""
LIKELIHOOD_EXPONENT: Final = 3
"""Power of the coefficients to which the likelihood of a function is proportional."""
REPRESENTATION_METHODS: Final = frozenset({"__repr__", "__str__"})
"""Methods that pytest calls to describe a failure."""


@dataclass(frozen=True, slots=True)
class Suspect:
    """A function that a failed test executed, and that may have caused the failure."""

    function: Function
    coefficient: float
    """From 0 to 1, where 1 means that all failing tests executed the function, and no passing test did."""
    line_coefficient: float = 1.0
    """The highest coefficient of the lines in the function that the test executed, from 0 to 1."""
    factor: float = 1.0
    """How much more likely the function is because of the call stack or the failed statement."""
    size: int = 0
    """Size of the function's bytecode, in bytes."""
    is_after_import: bool = True
    """Whether the function ran in the test or its fixtures, and not only while files were imported."""

    @property
    def weight(self) -> float:
        """Return a number that is proportional to the likelihood that the function caused the failure.

        If the rest is equal, larger functions are more likely to contain the error.
        """
        size_factor = math.sqrt(math.log(8 + self.size / INSTRUCTION_BYTES))
        return self.factor * float((self.coefficient * self.line_coefficient * size_factor) ** LIKELIHOOD_EXPONENT)


def rank_suspects(
    test: TestFinished, executed: ExecutedFunctions, results: Iterable[TestFinished], *, root: Path
) -> list[Suspect]:
    """Return the functions outside of test files that a failed test executed, most suspicious first.

    Return an empty list if the test was not recorded, or if no test passed, because then nothing distinguishes the
    functions. `root` is the project's directory.
    """
    outcomes = {result.nodeid: result.outcome for result in results}
    failing = [nodeid for nodeid, outcome in outcomes.items() if outcome in FAILING_OUTCOMES]
    passing = [nodeid for nodeid, outcome in outcomes.items() if outcome == "passed"]
    in_failing = Counter(
        executed_function for nodeid in failing for executed_function in executed.by_test.get(nodeid, ())
    )
    in_passing = Counter(
        executed_function for nodeid in passing for executed_function in executed.by_test.get(nodeid, ())
    )
    if not in_passing:
        return []
    recorded = sum(nodeid in executed.by_test for nodeid in failing)
    called = test.failure.called if test.failure is not None else ()
    order = {(frame.file, frame.line): index for index, frame in enumerate(called)}
    after_import = executed.after_import.get(test.nodeid, frozenset())
    test_files = {file for nodeid, file in executed.file_of.items() if not is_doctest(nodeid)}
    found = [
        Suspect(
            executed_function,
            in_failing[executed_function]
            / math.sqrt(recorded * (in_failing[executed_function] + in_passing[executed_function])),
            _line_coefficient(executed_function, test.nodeid, executed),
            (CALLED_FACTOR if (executed_function.file, executed_function.line) in order else 1.0)
            * (STACK_FACTOR if _is_in_stack(executed_function, test) else 1.0),
            executed.sizes.get(executed_function, 0),
            executed_function in after_import,
        )
        for executed_function in executed.by_test.get(test.nodeid, ())
        if executed_function.file not in test_files
        and not is_test_file(executed_function.file, root)
        and (
            (executed_function.file, executed_function.line) in order
            or REPRESENTATION_METHODS.isdisjoint(executed_function.name.split("."))
        )
    ]
    last = len(order)

    def rank(executed_function: Suspect) -> tuple[float, int, str, int]:
        function = executed_function.function
        return -executed_function.weight, order.get((function.file, function.line), last), function.file, function.line

    return sorted(found, key=rank)


def _line_coefficient(function: Function, nodeid: str, executed: ExecutedFunctions) -> float:
    """Return the highest coefficient of the lines in a function that a failed test executed.

    Return 1 if its lines were not recorded.
    """
    lines = executed.failed_lines.get(nodeid, {}).get(function, frozenset())
    counts: Mapping[int, int] = executed.line_counts.get(function, {})
    of_failed = [found[function] for found in executed.failed_lines.values() if function in found]
    coefficients = [
        sum(line in found for found in of_failed) / math.sqrt(len(executed.failed_lines) * counts[line])
        for line in lines
        if counts.get(line)
    ]
    return min(1.0, max(coefficients, default=1.0))


def _is_in_stack(function: Function, test: TestFinished) -> bool:
    """Return whether a function is in the call stack of a failure."""
    name = function.name.rpartition(".")[2]
    frames = test.failure.frames if test.failure is not None else ()
    return any(
        frame.file == function.file and frame.function == name and frame.line >= function.line for frame in frames
    )


def is_doctest(nodeid: str) -> bool:
    """Return whether a test is a doctest. A doctest's id contains the name of the module, as in `a/b.py::a.b.f`."""
    file, _, name = nodeid.partition("::")
    path = PurePath(file)
    return (path.parent.name if path.stem == "__init__" else path.stem) in name.split(".")


def is_test_file(file: str, root: Path) -> bool:
    """Return whether a file belongs to a project's tests, according to pytest's naming conventions or its directory."""
    path = PurePath(file)
    path = path.relative_to(root) if path.is_relative_to(root) else path
    return (
        path.name == "conftest.py"
        or path.name.startswith("test_")
        or path.stem.endswith("_test")
        or not TEST_DIRECTORY_NAMES.isdisjoint(path.parts[:-1])
    )
