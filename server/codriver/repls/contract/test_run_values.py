"""Values that describe the results of a test run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

from codriver.core.records import dataclass

if TYPE_CHECKING:
    from codriver.repls.contract.stack_trace_values import StackFrame


UNKNOWN_TEST_NAME: Final = "?"
"""The name of the stopped test if the REPL does not know it, or if no test had started."""


@dataclass(frozen=True, slots=True)
class TestResult:
    """The result of one assertion in a test run."""

    test: str
    namespace: str
    outcome: Literal["pass", "fail", "error"]
    message: str | None = None
    expected: str | None = None
    actual: str | None = None
    file: str | None = None
    line: int | None = None
    frames: tuple[StackFrame, ...] = ()
    """The frames of the error that was thrown, innermost first."""
    how: Literal["", "skipped", "xfailed", "xpassed"] = ""
    """pytest's term for the result of a test whose `outcome` is `pass` although it did not simply pass."""

    @property
    def is_skipped(self) -> bool:
        """Return whether the test counts as passed because it was skipped or expected to fail."""
        return self.how in ("skipped", "xfailed")


@dataclass(frozen=True, slots=True)
class TestTime:
    """The duration of one test in seconds, without the fixtures of its namespace."""

    namespace: str
    test: str
    seconds: float


@dataclass(frozen=True, slots=True)
class TestRun:
    """The results of a test run. Assertions are counted by outcome. In `results`, failures and errors come first."""

    tests: int
    passed: int
    failed: int
    errors: int
    results: tuple[TestResult, ...]
    output: str = ""
    """The output of the tests, or its end if it is long."""
    stopped: TestResult | None = None
    """The test that was running when the run was interrupted. It is not in the counts."""
    times: tuple[TestTime, ...] = ()
    """The duration of each finished test, including tests without assertions, if reported by the REPL."""
    of: int | None = None
    """The total number of tests in a run in progress, if the REPL reports it."""
    skipped: int = 0
    xfailed: int = 0
    xpassed: int = 0
