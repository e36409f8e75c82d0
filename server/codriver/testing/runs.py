"""The values of a test run: what to run, the events while it runs, and the report about it.

A run is started by a `StartRun`, of which there may be several: a plain new process, or a copy of a process that has
already imported what the tests need. They differ in how long a start takes, and in nothing else.
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
"""What runs the tests: `python -m pytest`, `python -m unittest`, or `python manage.py test`."""
Outcome = Literal["passed", "failed", "error", "skipped", "xfailed", "xpassed"]
"""The outcome of a test, in pytest's words. A test whose setup or teardown failed is an `error`."""
Phase = Literal["collect", "setup", "call", "teardown"]

BAD_OUTCOMES: Final = frozenset({"failed", "error"})
INTERRUPTED_STATUS: Final = 2
"""pytest's exit status for an interrupted run, and for one whose collection failed."""
NO_TESTS_STATUS: Final = 5
"""pytest's exit status for a run that collected no tests."""


@dataclass(frozen=True, slots=True)
class ChosenTests:
    """Tests chosen among those that the arguments of a run collect, by ids as pytest prints them."""

    functions: tuple[str, ...] = ()
    """Test functions, without parameters, in the order in which they run first."""
    files: tuple[str, ...] = ()
    """Files whose other tests run after them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSpec:
    """A test run to start."""

    python: str
    """The absolute path of the interpreter."""
    directory: Path
    """The working directory."""
    arguments: tuple[str, ...] = ()
    """The runner's own arguments, as after `python -m pytest`."""
    environment: Mapping[str, str]
    """All environment variables of the process."""
    runner: Runner = "pytest"
    chosen: ChosenTests | None = None
    """The tests to run, each once, if not all that are collected. pytest alone understands it."""
    sources: Mapping[str, bytes | None] = field(default_factory=dict)
    """Contents that the tests and their child processes see in place of files, by absolute path; None for no file."""
    recorders: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Recorders by name, each with its options: a `Recorded` event of each. `functions` records the project's functions
    that each test executes. `calls` records the calls of the functions in `names`, of all of the project's if it is
    empty. `lines` records those of `lines`, by absolute path, that do not run; None stands for all of a file's."""
    roots: tuple[str, ...] = ()
    """The directories whose functions are recorded; the working directory if empty."""
    keeps_failed_process: bool = False
    """Keep the process after a failed run, so that code can be evaluated in the frames of the first failure."""


@dataclass(frozen=True, slots=True)
class FailureFrame:
    """A frame of a failure."""

    file: str
    line: int
    function: str
    locals: Mapping[str, str] = field(default_factory=dict)
    """Short texts of the variables at the failure, of the project's frames only. No code of the project made them."""


@dataclass(frozen=True, slots=True)
class LinkedError:
    """An error behind a failure. `relation` is `cause`, `context` or `member`, as in Python's tracebacks."""

    relation: str
    type: str
    message: str
    frames: tuple[FailureFrame, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TestFailure:
    """Why a test failed, in one of its phases."""

    __test__ = False

    phase: Phase
    type: str
    """The exception's class; empty if there was none."""
    message: str
    """The exception as pytest prints it: for an assertion with the values that it compared."""
    text: str = ""
    """The whole failure as pytest prints it."""
    frames: tuple[FailureFrame, ...] = ()
    """Innermost first, without those of the test runner. The last line of each is where it failed."""
    sections: tuple[tuple[str, str], ...] = ()
    """The captured output, each with its title."""
    chain: tuple[LinkedError, ...] = ()
    part: str = ""
    """The description of the subtest that failed; empty for the test itself."""
    called: tuple[FailureFrame, ...] = ()
    """The project's functions that the innermost statement called, the last called first; their first lines."""


@dataclass(frozen=True, slots=True)
class Output:
    """Text that the process printed, to either stream."""

    text: str


@dataclass(frozen=True, slots=True)
class Collected:
    """The end of the collection. `nodeids` are the tests that will run, in order."""

    count: int
    """The tests found, including the deselected ones."""
    deselected: int
    nodeids: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TestStarted:
    """A test starts."""

    __test__ = False

    nodeid: str


@dataclass(frozen=True, slots=True)
class TestFinished:
    """A test finished, or a file could not be collected or was skipped as a whole (`is_collector`)."""

    __test__ = False

    nodeid: str
    """As pytest prints it, relative to the working directory: it can be passed back as an argument."""
    outcome: Outcome
    seconds: float = 0.0
    failures: tuple[TestFailure, ...] = ()
    """One for each phase and subtest that failed."""
    reason: str = ""
    """Why it was skipped or expected to fail."""
    file: str | None = None
    line: int | None = None
    """The place of its definition. Lines start at 1."""
    is_collector: bool = False
    worker: str = ""
    """The worker process of pytest-xdist that ran it."""
    reruns: int = 0

    @property
    def failure(self) -> TestFailure | None:
        """The first failure."""
        return self.failures[0] if self.failures else None


@dataclass(frozen=True, slots=True)
class Recorded:
    """What a recorder recorded: `functions`, `calls` or `lines`. `problem` says why it could not record."""

    recorder: str
    data: Any
    problem: str = ""


@dataclass(frozen=True, slots=True)
class SecretsSeen:
    """Values that the run's environment and settings have under the names of secrets."""

    named: tuple[tuple[str, str], ...]
    """Names and values."""


@dataclass(frozen=True, slots=True)
class Counts:
    """The counts of a run, as in pytest's own summary: a test that passed and whose teardown failed is in both."""

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
    """Where a run was interrupted: the test, if one was running, and the stack, innermost first."""

    nodeid: str
    frames: tuple[FailureFrame, ...] = ()
    reason: str = ""
    """The text that a test gave to `pytest.exit`; empty for an interrupt."""


ProblemKind = Literal[
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
class RunProblem:
    """Why a run did not run its tests as requested, or not to its end, and what to do about it."""

    kind: ProblemKind
    message: str
    hint: str = ""
    failure: TestFailure | None = None
    """The exception, if there was one: in a conftest that cannot be imported, or in a plugin."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFinished:
    """The end of a run: always the last event."""

    exit_status: int | None
    """The runner's exit status; negative for the signal that ended the process; None if it did not end by itself."""
    counts: Counts = field(default_factory=Counts)
    seconds: float = 0.0
    interruption: Interruption | None = None
    problem: RunProblem | None = None
    warnings: tuple[str, ...] = ()
    """The first warnings of pytest's summary."""
    is_kept: bool = False
    """Whether the process waits for code to evaluate in the frames of the first failure: see `TestProcess.keep`."""
    not_kept: str = ""
    """Why the process was not kept, if it was to be."""
    hash_seed: int | None = None
    """The hash seed of a process that was copied from another; a plain process draws its own, which nobody knows."""


Event = Output | Collected | TestStarted | TestFinished | Recorded | SecretsSeen | RunFinished


class KeptProcess(Protocol):
    """The process of a failed run, which is stopped while nobody evaluates code in it."""

    @property
    def pid(self) -> int:
        """Its process id."""
        ...

    @property
    def nodeid(self) -> str:
        """The test that failed first."""
        ...

    @property
    def frames(self) -> tuple[FailureFrame, ...]:
        """The frames of that failure, innermost first."""
        ...

    async def evaluate(self, code: str, frame: int, *, timeout_s: float) -> Mapping[str, Any]:
        """Evaluate code in a frame, 0 being the innermost; `value` or `error`, and `output`, as texts."""
        ...

    async def interrupt(self) -> None:
        """Interrupt the code that is evaluated; the process is ended if that takes too long."""
        ...

    async def aclose(self) -> None:
        """End the process and everything that it started."""
        ...


class TestProcess(Protocol):
    """A test run under way."""

    @property
    def pid(self) -> int:
        """The process id of the runner."""
        ...

    def events(self) -> AsyncIterator[Event]:
        """The events, once; the last one is `RunFinished`."""
        ...

    async def interrupt(self) -> None:
        """Interrupt the run as Ctrl-C does, so that fixtures are torn down; kill it 5 s later if it still runs."""
        ...

    async def kill(self) -> None:
        """Kill the process group, and wait for the end."""
        ...

    def keep(self) -> KeptProcess | None:
        """The process of a failed run, which from now on belongs to the caller; None if it is not kept."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class StartState:
    """How the runs of an interpreter in a directory start."""

    is_warm: bool
    """Whether they are copies of a process that has imported what the tests need."""
    python: str = ""
    directory: str = ""
    reason: str = ""
    """Why runs are plain new processes, or why the last one was."""
    pid: int | None = None
    """That process, with what it takes and has imported."""
    memory_mb: int = 0
    hash_seed: int | None = None
    modules: int = 0
    runs: int = 0
    """The runs that it has served."""
    differences: tuple[str, ...] = ()
    """Tests whose outcome differs between copies and plain new processes."""


class StartRun(Protocol):
    """A way to start runs. Leaving the context ends the run, and removes its files."""

    def __call__(self, spec: RunSpec) -> AbstractAsyncContextManager[TestProcess]:
        """Start a run."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class TestReport:
    """A finished run, or one under way."""

    __test__ = False

    counts: Counts
    results: tuple[TestFinished, ...]
    """In the order in which the tests finished."""
    exit_status: int | None = None
    seconds: float = 0.0
    running: tuple[str, ...] = ()
    """Tests that have started and not finished."""
    not_started: tuple[str, ...] = ()
    """Selected tests that have not started, or never did."""
    interruption: Interruption | None = None
    problem: RunProblem | None = None
    warnings: tuple[str, ...] = ()
    recorded: tuple[Recorded, ...] = ()
    """Of each process that recorded: see `codriver.testing.recordings`."""
    finished: RunFinished | None = None

    @property
    def passed(self) -> bool:
        """Whether the runner itself calls the run a success."""
        return self.exit_status == 0 and self.problem is None

    @property
    def failures(self) -> tuple[TestFinished, ...]:
        """The tests that failed or have errors."""
        return tuple(one for one in self.results if one.outcome in BAD_OUTCOMES)


class ReportBuilder:
    """Collects the events of one run into a report, which can be read at any time."""

    def __init__(self) -> None:
        self._collected: Collected | None = None
        self._running: dict[str, None] = {}
        self._started: set[str] = set()
        self._results: list[TestFinished] = []
        self._recorded: list[Recorded] = []
        self._finished: RunFinished | None = None

    def add(self, event: Event) -> None:
        """Add an event. Output and secrets are not kept."""
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
            case Output() | SecretsSeen():
                pass

    def report(self) -> TestReport:
        """The report so far."""
        finished, collected = self._finished, self._collected
        nodeids = collected.nodeids if collected is not None else ()
        counts = finished.counts if finished is not None else self._counts()
        return TestReport(
            counts=counts,
            results=tuple(self._results),
            exit_status=finished.exit_status if finished is not None else None,
            seconds=finished.seconds if finished is not None else 0.0,
            running=tuple(self._running),
            not_started=tuple(one for one in nodeids if one not in self._started),
            interruption=finished.interruption if finished is not None else None,
            problem=finished.problem if finished is not None else None,
            warnings=finished.warnings if finished is not None else (),
            recorded=tuple(self._recorded),
            finished=finished,
        )

    def _counts(self) -> Counts:
        """The counts of a run under way, by the outcomes of its tests."""
        outcomes = Counter(one.outcome for one in self._results)
        return Counts(
            passed=outcomes["passed"],
            failed=outcomes["failed"],
            errors=outcomes["error"],
            skipped=outcomes["skipped"],
            xfailed=outcomes["xfailed"],
            xpassed=outcomes["xpassed"],
            deselected=self._collected.deselected if self._collected is not None else 0,
            collected=self._collected.count if self._collected is not None else 0,
            reruns=sum(one.reruns for one in self._results),
        )
