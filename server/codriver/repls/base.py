"""The contract between Codriver and one REPL connection.

An *adapter* is our side of one REPL. What every adapter guarantees, whatever the server behind it does:

* **Order.** Events of one evaluation reach the listener in the order the server sent them, and all that came before
  the evaluation was over reach it before the end is told.
* **The end.** An evaluation ends once, at the first `done` that concerns the evaluation. Later messages with
  its id still reach the listener under the same evaluation; a second `done` is ignored.
* **Never twice.** An adapter sends a request once. After a lost connection nothing is sent again: the caller gets
  `ReplDisconnectedError` and the code may or may not have run.
* **Draining.** The adapter always reads, also when nobody waits, so a flooding REPL cannot stall on us.
* **Time.** Every op but evaluation has a time limit of its own; a server that does not answer raises
  `OpTimedOutError`, and the connection lives on.
* **Closing.** Leaving the context that opened the adapter closes its sessions and sockets; leaving twice is harmless.

One evaluation at a time per session: the caller queues, and the adapter holds back what comes all the same.
Different sessions may run side by side.

Failures are types: `ReplUnreachableError` (nobody listens), `NotAnReplError` (what answers is no nREPL),
`CapabilityMissingError`, `OpTimedOutError`, `RequestUnsafeError` (this server is known to break on it), all of them
refusals after which the connection lives on or never was; and `ReplDisconnectedError`, after which it is over.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, Protocol

from codriver.errors import RefusedError

if TYPE_CHECKING:
    from codriver.repls.stacks import ThreadDump

MAIN_SESSION = "main"
"""The adapter's name of the session that all callers share unless they ask for their own."""

NAMESPACE_MISSING = "namespace-not-found"
"""The type of the failure of an evaluation in a namespace that is not there; nothing was evaluated then."""

CAPABILITIES = (
    "evaluate",
    "load-file",
    "interrupt",
    "restart",
    "complete",
    "lookup",
    "clojuredocs",
    "stdin",
    "sessions",
    "print-limits",
    "macroexpand",
    "test",
    "stacktrace",
)
"""All capability names, in the order they are shown. `restart` is given by whoever supervises the process."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where a REPL listens."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class Support:
    """How one capability is provided: by the server's op `op`, or by us on top of it (`adapted`)."""

    op: str
    adapted: bool = False


@dataclass(frozen=True, slots=True)
class Profile:
    """What a REPL showed that it can do, from `describe` and probes and never from what its name promises."""

    dialect: str
    """`clojure`, `clojurescript`, `babashka`, `basilisp`, `python`, `hy`, `nbb`, `squint` or `unknown`."""
    versions: Mapping[str, str]
    ops: frozenset[str]
    support: Mapping[str, Support]
    """By capability name. What is not a key cannot be had."""
    missing: Mapping[str, str] = field(default_factory=dict)
    """By capability name: one line that says what would provide it."""
    isolation: Literal["session", "connection", "none"] = "session"
    """Whether sessions of one connection, only separate connections, or nothing at all keep namespaces apart."""
    is_serial: bool = False
    """It runs one evaluation at a time, whatever their sessions."""
    process_id: int | None = None
    project_root: str | None = None
    notes: tuple[str, ...] = ()
    """Sentences a user should know, such as why this REPL cannot be interrupted."""


@dataclass(frozen=True, slots=True)
class Form:
    """One top-level form of the code to evaluate. `line` and `column` count from 1 within the code."""

    text: str
    line: int
    column: int


@dataclass(frozen=True, slots=True)
class Evaluation:
    """A request to evaluate.

    `forms` are the top-level forms of `code` in order, or empty when the caller did not split it. They are sent one by
    one and the first that fails stops the rest: nREPL 1.0.0 goes on with the next form after a failure, and others
    answer only the last value. Without `forms`, `code` is sent whole and the server decides.
    """

    id: str
    code: str
    session: str = MAIN_SESSION
    namespace: str | None = None
    forms: tuple[Form, ...] = ()
    file: str | None = None
    line: int = 1
    column: int = 1
    max_length: int | None = None
    max_depth: int | None = None
    max_value_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Output:
    """Text the program printed. `evaluation` events carry it as it comes; it may hold part of a line."""

    stream: Literal["out", "err"]
    text: str


@dataclass(frozen=True, slots=True)
class Value:
    """A form's printed value, as opaque text. `truncated`: the server itself cut it."""

    text: str
    namespace: str | None = None
    truncated: bool = False


@dataclass(frozen=True, slots=True)
class InputNeeded:
    """The evaluation reads from stdin and waits; `Adapter.send_input` serves it."""


Event = Output | Value | InputNeeded

Listener = Callable[[str | None, Event], None]
"""Called on the event loop with (evaluation id, event). The id is None for output that no evaluation of ours caused.
It must return quickly and not raise."""


@dataclass(frozen=True, slots=True)
class EvaluationError:
    """Why an evaluation failed. Lines and columns count from 1; `form` is the index, from 1, of the failing form."""

    type: str
    message: str
    phase: str | None = None
    file: str | None = None
    line: int | None = None
    column: int | None = None
    form: int | None = None
    trace: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Ending:
    """How an evaluation ended."""

    status: Literal["done", "failed", "interrupted"]
    namespace: str | None = None
    error: EvaluationError | None = None
    notes: tuple[str, ...] = ()


Ended = Callable[[Ending | Exception], None]
"""Called once, on the event loop: how an evaluation ended, or why nobody knows. Must return quickly and not raise."""


@dataclass(frozen=True, slots=True)
class Interruption:
    """What an interrupt did.

    `interrupted`: the server said so. `requested`: asked for, and the server's answer does not prove that the code
    stopped (a JVM keeps a busy thread for seconds). `idle`: nothing ran.
    """

    outcome: Literal["interrupted", "requested", "idle"]
    note: str | None = None


@dataclass(frozen=True, slots=True)
class Symbol:
    """What is known of a symbol. Keys of `extra` are those the server gave, for what has no field here."""

    name: str
    namespace: str | None = None
    doc: str | None = None
    arglists: tuple[str, ...] = ()
    file: str | None = None
    line: int | None = None
    column: int | None = None
    macro: bool = False
    extra: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Completion:
    """One candidate. `type` is the server's word for what it is (`function`, `macro`, `var`, `module`, …)."""

    candidate: str
    type: str | None = None
    namespace: str | None = None


@dataclass(frozen=True, slots=True)
class StackFrame:
    """One frame of a stack trace. `tooling`: it belongs to the language or its tools, not to the user's program."""

    text: str
    file: str | None = None
    line: int | None = None
    function: str | None = None
    tooling: bool = False


@dataclass(frozen=True, slots=True)
class StackTrace:
    """The last error of a session: the cause that says most (the innermost), and its frames, innermost first."""

    type: str
    message: str
    frames: tuple[StackFrame, ...]
    data: str | None = None
    """What `ex-data` holds, printed."""


@dataclass(frozen=True, slots=True)
class TestResult:
    """One assertion of a test run."""

    test: str
    namespace: str
    outcome: Literal["pass", "fail", "error"]
    message: str | None = None
    expected: str | None = None
    actual: str | None = None
    file: str | None = None
    line: int | None = None


@dataclass(frozen=True, slots=True)
class TestRun:
    """What a test run gave: assertions counted by outcome, and each result, failures and errors first."""

    tests: int
    passed: int
    failed: int
    errors: int
    results: tuple[TestResult, ...]
    output: str = ""
    """What the tests printed, from its end when it was long."""


@dataclass(frozen=True, slots=True)
class ClojureDocs:
    """What the community wrote on ClojureDocs about a var."""

    name: str
    namespace: str
    examples: tuple[str, ...] = ()
    see_alsos: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    doc: str | None = None
    href: str | None = None
    """The path of its page on the site."""


class ReplUnreachableError(RefusedError):
    """Nobody listens where a REPL should be."""

    reason = "repl-unreachable"

    def __init__(self, endpoint: Endpoint, cause: str) -> None:
        super().__init__(
            f"no REPL could be reached at {endpoint}: {cause}",
            hint="start the REPL, or correct its host and port; a port file may be left over from one that ended",
            details={"endpoint": str(endpoint)},
        )
        self.endpoint = endpoint
        self.cause = cause


class NotAnReplError(RefusedError):
    """Something listens and does not speak nREPL."""

    reason = "not-a-repl"

    def __init__(self, endpoint: Endpoint, cause: str) -> None:
        super().__init__(
            f"what listens at {endpoint} is no nREPL server that can be used: {cause}",
            hint="check the port: a REPL prints it when it starts; a single-threaded REPL may also be stuck in an "
            "endless loop, or serve one client at a time, and then a restart helps",
            details={"endpoint": str(endpoint)},
        )
        self.endpoint = endpoint
        self.cause = cause


class RequestUnsafeError(RefusedError):
    """A request that this server is known to break on, and so was not sent."""

    reason = "request-unsafe"

    def __init__(self, problem: str, *, hint: str) -> None:
        super().__init__(f"the code was not sent: {problem}", hint=hint)


class OpTimedOutError(RefusedError):
    """A REPL did not answer an op in time. The connection lives on."""

    reason = "repl-not-answering"

    def __init__(self, op: str, timeout_s: float) -> None:
        super().__init__(
            f"the REPL did not answer the op {op!r} within {timeout_s:g} s",
            hint="it may be busy or stuck: look at list_sessions and server_health, interrupt what runs, or restart it",
        )
        self.op = op


class SessionLostError(RefusedError):
    """A session lost the connection of its own, and the REPL goes on. What was sent may have run."""

    reason = "repl-disconnected"

    def __init__(self, cause: str) -> None:
        super().__init__(
            f"this session's own connection was lost: {cause}; the code may have run, in part or whole, and is not "
            "sent again; the session gets a new connection with the next evaluation",
            hint="check what the code did before you repeat it",
        )


class EvaluationFailedError(RefusedError):
    """What was asked for is done by evaluation, and that failed."""

    reason = "evaluation-failed"

    def __init__(self, what: str, error: EvaluationError) -> None:
        super().__init__(f"{what} failed: {error.type}: {error.message}", hint="correct what was given and call again")
        self.error = error


class NamespaceMissingError(RefusedError):
    """The namespace that was named is neither loaded nor in any file that the REPL would load."""

    reason = "unknown-namespace"

    def __init__(self, namespace: str) -> None:
        super().__init__(
            f"there is no namespace {namespace!r}: it is not loaded, and no file of that name is on the REPL's path",
            hint="load its file with load_file, or correct the name",
        )


class CapabilityMissingError(RefusedError):
    """The REPL cannot do what was asked."""

    reason = "capability-missing"

    def __init__(self, capability: str, provider: str | None = None) -> None:
        super().__init__(
            f"this REPL has no capability {capability!r}",
            hint=provider or "use a REPL that has it: list_sessions shows what each can do",
            details={"capability": capability},
        )
        self.capability = capability


class Adapter(Protocol):
    """Our side of one REPL connection. See the module's docstring for what it guarantees."""

    @property
    def profile(self) -> Profile:
        """What the REPL can do. Constant for the life of the connection."""

    def begin(self, evaluation: Evaluation, ended: Ended, *, path: str | None = None) -> None:
        """Begin to run code; events reach the listener meanwhile, and after them `ended` is told once how it ended.

        With `path`, the code is the text of that file, and is loaded as that file.

        Raises:
            ReplDisconnectedError: the connection is over; nothing was sent. So it is after every refusal.
        """

    async def evaluate(self, evaluation: Evaluation, *, path: str | None = None) -> Ending:
        """Run code and return when it is over, otherwise like `begin`. Cancelling stops the waiting, not the work.

        Raises:
            ReplDisconnectedError: the connection ended first; the code may have run.
        """

    async def interrupt(self, session: str = MAIN_SESSION) -> Interruption:
        """Ask the server to stop what runs in `session`.

        Raises:
            CapabilityMissingError: this REPL cannot interrupt.
            OpTimedOutError: it did not answer.
        """

    async def send_input(self, text: str, session: str = MAIN_SESSION) -> None:
        """Give `text` to code that reads from stdin in `session`; the caller adds the newline."""

    async def complete(self, prefix: str, namespace: str | None, session: str = MAIN_SESSION) -> tuple[Completion, ...]:
        """Completions of `prefix`, in the server's order."""

    async def lookup(self, symbol: str, namespace: str | None, session: str = MAIN_SESSION) -> Symbol | None:
        """What is known of `symbol`; None when it does not resolve."""

    async def macroexpand(
        self, code: str, namespace: str | None, session: str = MAIN_SESSION, *, full: bool = False
    ) -> str:
        """The expansion of the form `code`, once; with `full`, until it is no macro call any more.

        With `full`, the forms inside are expanded too where the dialect has a function for that.

        Raises:
            EvaluationFailedError: the form cannot be read or expanded.
        """

    async def run_tests(
        self, namespace: str | None, test: str | None, session: str = MAIN_SESSION, *, timeout_s: float = 600.0
    ) -> TestRun:
        """Run `test` of `namespace`, or all its tests, or with no namespace those of all that are loaded.

        Raises:
            EvaluationFailedError: there is no such namespace or test, or it does not load.
        """

    async def last_stacktrace(self, session: str = MAIN_SESSION) -> StackTrace | None:
        """The last error of `session`; None when there was none."""

    async def stacks(self, session: str = MAIN_SESSION) -> ThreadDump | None:
        """What the threads of `session` are doing now; None where the REPL cannot tell. Never raises."""

    async def clojuredocs(self, symbol: str) -> ClojureDocs | None:
        """What ClojureDocs says of the qualified `symbol`; None when it knows nothing of it."""

    async def open_session(self, name: str) -> None:
        """Make a session of its own under `name` (namespace, `*1`). `MAIN_SESSION` is always there.

        Raises:
            CapabilityMissingError: this REPL keeps nothing apart.
        """

    async def close_session(self, name: str) -> None:
        """End a session made by `open_session`; an unknown name is ignored."""

    async def wait_closed(self) -> str:
        """Wait until the connection is over and give the cause in words."""
