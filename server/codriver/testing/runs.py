"""Values that describe a test run: what to run, the events during the run, and the report.

A `StartRun` starts a run, either in a new process or in a fork of a process that has already imported what the tests
need. The two differ only in how long the start takes.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping
    from contextlib import AbstractAsyncContextManager
    from pathlib import Path

Runner = Literal["pytest", "unittest", "django"]
"""The program that runs the tests: `python -m pytest`, `python -m unittest`, or `python manage.py test`."""
Outcome = Literal["passed", "failed", "error", "skipped", "xfailed", "xpassed"]
"""Outcome of a test in pytest's terms. A test whose setup or teardown failed is an `error`."""
Phase = Literal["collect", "setup", "call", "teardown"]
"""The phases of a test, and the collection that precedes all tests."""

FAILING_OUTCOMES: Final = frozenset({"failed", "error"})
"""Test outcomes that make a run fail."""
INTERRUPTED_STATUS: Final = 2
"""pytest's exit status for an interrupted run, and for one whose collection failed."""
NO_TESTS_STATUS: Final = 5
"""Exit status of a run that found no tests, as in pytest. Runs with other runners get it, too."""


@dataclass(frozen=True, slots=True)
class ChosenTests:
    """The tests to run among those that are collected, identified by the ids that pytest prints."""

    functions: tuple[str, ...] = ()
    """Ids of test functions, without parameters. They run before all other tests, in this order."""
    files: tuple[str, ...] = ()
    """Files whose remaining tests run after `functions`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSpec:
    """The specification of a test run."""

    python: str
    """Absolute path of the interpreter."""
    directory: Path
    """Working directory of the process."""
    arguments: tuple[str, ...] = ()
    """Arguments of the runner, as after `python -m pytest`."""
    environment: Mapping[str, str]
    """All environment variables of the process."""
    runner: Runner = "pytest"
    chosen: ChosenTests | None = None
    """Tests to run, each once, instead of all that are collected. Only supported by pytest."""
    sources: Mapping[str, bytes | None] = field(default_factory=dict)
    """Content that the tests and their child processes see in place of files on disk, by absolute path. None means that
    the file does not exist.
    """
    recorders: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Options of recorders by name. Each recorder results in a `Recorded` event.

    `functions` records the project's functions that each test executes. `calls` records the calls to the functions in
    `names`, or to all of the project's functions if `names` is empty. `lines` records which lines do not run. The
    option `lines` maps absolute paths to line numbers, or to None for all lines in a file.
    """
    roots: tuple[str, ...] = ()
    """Directories whose functions are recorded. The default is the working directory."""
    is_isolated: bool = False
    """Whether modules in the working directory are found after all others, as in a workspace that is not accepted.

    The process then ignores PYTHONPATH and Python's other environment variables, and the user's site-packages.
    """
    retains_failed_process: bool = False
    """Whether to retain the process of a failed run, for evaluating code in the frames of its first failure."""


@dataclass(frozen=True, slots=True)
class FailureFrame:
    """A stack frame of a failure."""

    file: str
    line: int
    function: str
    locals: Mapping[str, str] = field(default_factory=dict)
    """Short representations of the variables at the time of the failure. Only frames in the project's code have them.

    They are created without running that code.
    """


@dataclass(frozen=True, slots=True)
class LinkedError:
    """An exception linked to a failure. `relation` is `cause`, `context` or `member`, as in Python's tracebacks."""

    relation: str
    type: str
    message: str
    frames: tuple[FailureFrame, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TestFailure:
    """The failure of a test in one of its phases."""

    __test__ = False

    phase: Phase
    type: str
    """Class of the exception, or empty if there was none."""
    message: str
    """The exception as pytest prints it, including the values that an assertion compared."""
    text: str = ""
    """The whole failure as pytest prints it."""
    frames: tuple[FailureFrame, ...] = ()
    """Frames, innermost first, excluding those of the test runner. The line of each frame is the one at which it
    failed."""
    sections: tuple[tuple[str, str], ...] = ()
    """Captured output, each with its title."""
    chain: tuple[LinkedError, ...] = ()
    part: str = ""
    """Description of the subtest that failed, or empty for the test itself."""
    called: tuple[FailureFrame, ...] = ()
    """The project's functions that the innermost statement called, last call first, with their first lines."""
    assigned: tuple[FailureFrame, ...] = ()
    """The project's methods that assign the attribute that is missing or None, with their first lines."""


@dataclass(frozen=True, slots=True)
class Output:
    """Emitted when the process prints text to stdout or stderr."""

    text: str


@dataclass(frozen=True, slots=True)
class Collected:
    """Emitted when the tests have been collected. `nodeids` are the tests that will run, in order."""

    count: int
    """Number of tests found, including deselected ones."""
    deselected: int
    nodeids: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TestStarted:
    """Emitted when a test starts."""

    __test__ = False

    nodeid: str


@dataclass(frozen=True, slots=True)
class TestFinished:
    """Emitted when a test has finished.

    If `is_collector` is true, it is instead emitted for a file that could not be collected or was skipped.
    """

    __test__ = False

    nodeid: str
    """Id of the test as pytest prints it, relative to the working directory. It can be passed as an argument."""
    outcome: Outcome
    seconds: float = 0.0
    failures: tuple[TestFailure, ...] = ()
    """One failure for each phase and subtest that failed."""
    reason: str = ""
    """The reason why the test was skipped or expected to fail."""
    file: str | None = None
    line: int | None = None
    """Line of the test's definition, starting at 1."""
    is_collector: bool = False
    worker: str = ""
    """Worker process of pytest-xdist that ran the test."""
    reruns: int = 0

    @property
    def failure(self) -> TestFailure | None:
        """Return the first failure of the test, or None if it has none."""
        return self.failures[0] if self.failures else None


@dataclass(frozen=True, slots=True)
class Recorded:
    """Emitted when a recorder has finished. If it could not record anything, `error` is the reason."""

    recorder: str
    data: Any
    error: str = ""


@dataclass(frozen=True, slots=True)
class SecretsFound:
    """Emitted when the run has environment variables or settings whose names indicate that their values are secret."""

    named: tuple[tuple[str, str], ...]
    """Pairs of a name and the secret value."""


@dataclass(frozen=True, slots=True)
class OutcomeCounts:
    """The number of tests with each outcome, as in pytest's summary.

    A test that passed but whose teardown failed is counted twice.
    """

    passed: int = 0
    failed: int = 0
    errors: int = 0
    skipped: int = 0
    xfailed: int = 0
    xpassed: int = 0
    deselected: int = 0
    collected: int = 0
    warnings: int = 0
    reruns: int = 0
    subtests_passed: int = 0
    subtests_failed: int = 0


@dataclass(frozen=True, slots=True)
class Interruption:
    """The point at which a run was interrupted: the running test, if any, and the stack, innermost frame first."""

    nodeid: str
    frames: tuple[FailureFrame, ...] = ()
    reason: str = ""
    """Text that a test passed to `pytest.exit`, or empty for an interrupt."""


RunErrorKind = Literal[
    "no-python",
    "no-pytest",
    "old-pytest",
    "no-django",
    "no-sources",
    "usage",
    "internal",
    "died",
    "lingers",
    "preloaded",
]


@dataclass(frozen=True, slots=True)
class RunError:
    """An error that prevented tests from running or finishing. `hint` suggests a fix."""

    kind: RunErrorKind
    message: str
    hint: str = ""
    failure: TestFailure | None = None
    """The exception, if there was one, such as in a plugin or a conftest that cannot be imported."""


@dataclass(frozen=True, slots=True)
class UnawaitedCoroutine:
    """Python's warning about a coroutine that was never awaited, with the line at which Python noticed it.

    That is usually the line without `await`, because nothing else refers to the coroutine.
    """

    message: str
    file: str
    line: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFinished:
    """Emitted at the end of the run, as its last event."""

    exit_status: int | None
    """Exit status of the runner, negative for the signal that ended it, or None if it did not end by itself."""
    counts: OutcomeCounts = field(default_factory=OutcomeCounts)
    seconds: float = 0.0
    interruption: Interruption | None = None
    error: RunError | None = None
    unawaited: tuple[UnawaitedCoroutine, ...] = ()
    is_retained: bool = False
    """Whether the process was retained for evaluating code in the frames of the first failure.

    See `TestProcess.detach`.
    """
    why_not_retained: str = ""
    """The reason why the process was not retained although requested."""
    hash_seed: int | None = None
    """Hash seed of a process that was forked from another process. The seed of a new process is unknown."""


Event = Output | Collected | TestStarted | TestFinished | Recorded | SecretsFound | RunFinished


class RetainedProcess(Protocol):
    """The retained process of a failed run. It is suspended except while it evaluates code."""

    @property
    def pid(self) -> int:
        """Return the process id."""
        ...

    @property
    def nodeid(self) -> str:
        """Return the id of the first test that failed."""
        ...

    @property
    def frames(self) -> tuple[FailureFrame, ...]:
        """Return the frames of the failure, innermost first."""
        ...

    async def evaluate(self, code: str, frame: int, *, timeout_s: float) -> Mapping[str, Any]:
        """Evaluate code in a frame, where 0 is the innermost. Return `output` and either `value` or `error`."""
        ...

    async def interrupt(self) -> None:
        """Interrupt the code that is being evaluated. If it does not stop in time, end the process."""
        ...

    async def aclose(self) -> None:
        """End the process and its child processes."""
        ...


class TestProcess(Protocol):
    """A test run in progress."""

    @property
    def pid(self) -> int:
        """Return the process id of the test runner."""
        ...

    def events(self) -> AsyncIterator[Event]:
        """Yield the events of the run. May be iterated only once. The last event is `RunFinished`."""
        ...

    async def interrupt(self) -> None:
        """Interrupt the run as with Ctrl-C, so that fixtures are torn down. Kill it if the teardown takes over 5 s."""
        ...

    async def kill(self) -> None:
        """Kill the process group and wait until the process has exited."""
        ...

    def detach(self) -> RetainedProcess | None:
        """Return the retained process of a failed run, or None if it is not retained.

        The caller becomes responsible for closing it.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class StartState:
    """How test runs with an interpreter in a directory are currently started."""

    is_warm: bool
    """Whether runs use forks of a process that has imported what the tests need."""
    python: str = ""
    directory: str = ""
    reason: str = ""
    """The reason why runs use new processes, or why the last run did."""
    pid: int | None = None
    """Id of the process that is forked. The following fields describe this process."""
    memory_mb: int = 0
    hash_seed: int | None = None
    modules: int = 0
    runs: int = 0
    """Number of runs that used a fork of the process."""
    differences: tuple[str, ...] = ()
    """Tests whose outcome differs between forks and new processes."""


class StartRun(Protocol):
    """A function that starts a test run. Exiting the context ends the run and removes its files."""

    def __call__(self, spec: RunSpec) -> AbstractAsyncContextManager[TestProcess]:
        """Start a run."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class TestReport:
    """The report of a finished or running test run."""

    __test__ = False

    counts: OutcomeCounts
    results: tuple[TestFinished, ...]
    """Results in the order in which the tests finished."""
    exit_status: int | None = None
    seconds: float = 0.0
    running: tuple[str, ...] = ()
    """Tests that have started but not finished."""
    not_started: tuple[str, ...] = ()
    """Selected tests that have not started."""
    interruption: Interruption | None = None
    error: RunError | None = None
    recorded: tuple[Recorded, ...] = ()
    """Data recorded by each process. See `codriver.testing.recordings`."""
    finished: RunFinished | None = None

    @property
    def passed(self) -> bool:
        """Return whether the test runner reported success."""
        return self.exit_status == 0 and self.error is None

    @property
    def failures(self) -> tuple[TestFinished, ...]:
        """Return the tests with failures or errors."""
        return tuple(result for result in self.results if result.outcome in FAILING_OUTCOMES)


class ReportBuilder:
    """Collects the events of a run. A report can be created at any time."""

    def __init__(self) -> None:
        self._collected: Collected | None = None
        self._running: dict[str, None] = {}
        self._started: set[str] = set()
        self._results: list[TestFinished] = []
        self._recorded: list[Recorded] = []
        self._finished: RunFinished | None = None

    def add(self, event: Event) -> None:
        """Add an event. Output and secrets are ignored."""
        match event:
            case Collected():
                self._collected = event
            case TestStarted():
                self._running[event.nodeid] = None
                self._started.add(event.nodeid)
            case TestFinished():
                self._running.pop(event.nodeid, None)
                self._started.add(event.nodeid)
                self._results.append(event)
            case Recorded():
                self._recorded.append(event)
            case RunFinished():
                self._finished = event
            case Output() | SecretsFound():
                pass

    def report(self) -> TestReport:
        """Create a report from the events added so far."""
        finished, collected = self._finished, self._collected
        nodeids = collected.nodeids if collected is not None else ()
        counts = finished.counts if finished is not None else self._counts()
        return TestReport(
            counts=counts,
            results=tuple(self._results),
            exit_status=finished.exit_status if finished is not None else None,
            seconds=finished.seconds if finished is not None else 0.0,
            running=tuple(self._running),
            not_started=tuple(nodeid for nodeid in nodeids if nodeid not in self._started),
            interruption=finished.interruption if finished is not None else None,
            error=finished.error if finished is not None else None,
            recorded=tuple(self._recorded),
            finished=finished,
        )

    def _counts(self) -> OutcomeCounts:
        """Count the outcomes of a run that has not finished."""
        outcomes = Counter(result.outcome for result in self._results)
        return OutcomeCounts(
            passed=outcomes["passed"],
            failed=outcomes["failed"],
            errors=outcomes["error"],
            skipped=outcomes["skipped"],
            xfailed=outcomes["xfailed"],
            xpassed=outcomes["xpassed"],
            deselected=self._collected.deselected if self._collected is not None else 0,
            collected=self._collected.count if self._collected is not None else 0,
            reruns=sum(result.reruns for result in self._results),
        )
