"""The values that the core, adapters and tools share: a REPL's abilities, requests to it, and their outcomes.

Each concept has one class, whose instances pass unchanged from the adapter to the answer, or from the tool to the
adapter. `codriver.core` describes these paths.
"""

from __future__ import annotations

from dataclasses import field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

from codriver.core.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping

MAIN_SESSION = "main"
"""The name of the session that callers share unless they have one of their own."""

TEST_SESSION = "codriver/test"
"""The session in which Codriver runs tests, so that callers' `*1`, `*e` and namespace stay unchanged."""

TEST_JOBS_REPL = "tests"
"""The pseudo REPL, and session key, of test runs that have a process of their own."""

NOTEBOOK_CALLER = "jupyter"
"""The `who` of code that was run in a kernel without this server, usually by a person in a notebook."""

CHECKPOINT_PREFIX = "checkpoint"
"""Prefix of descriptions that set a checkpoint, followed by a colon. Also the kind of the stored document."""


def checkpoint_name(description: str) -> str:
    """Return the name of the checkpoint that a description sets, or an empty string if it sets none."""
    word, _, name = description.partition(":")
    return " ".join(name.split()) if word.strip().lower() == CHECKPOINT_PREFIX else ""


UNKNOWN_TEST_TEXT = "an unknown test"
"""Text in place of a test's location if a run was stopped while the REPL did not know of a running test."""

Kind = Literal["evaluate", "load-file", "load-forms", "run-tests"]

SUMMARIZED_KINDS: frozenset[Kind] = frozenset({"run-tests"})
"""The kinds of evaluation whose value is a report. The log contains only a summary of it."""

LISP = "lisp"
"""The language family of tools that work for every Lisp dialect."""
PYTHON = "python"
NON_LISP_DIALECTS = frozenset({"python", "unknown"})
"""The dialects that are not Lisps."""

EvaluationStatus = Literal["queued", "running", "needs-input", "done", "failed", "interrupted", "lost"]
UNFINISHED_STATUSES: frozenset[EvaluationStatus] = frozenset({"queued", "running", "needs-input"})
"""The statuses of an evaluation that has not finished."""
OCCUPYING_STATUSES: frozenset[EvaluationStatus] = frozenset({"running", "needs-input"})
"""The statuses in which an evaluation occupies its queue, so that nothing else runs in it."""


@dataclass(frozen=True)
class Capability:
    """A capability of a REPL: provided by the server's op `op`, or `adapted` by Codriver on top of that op."""

    op: str
    adapted: bool = False


@dataclass(frozen=True)
class Profile:
    """The abilities of a connected REPL, determined by `describe` and probes and never by its name."""

    dialect: str = "unknown"
    """`clojure`, `clojurescript`, `babashka`, `basilisp`, `python`, `hy`, `nbb` or `unknown`."""
    versions: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    capabilities: Mapping[str, Capability] = field(default_factory=lambda: MappingProxyType({}))
    """The available capabilities by name."""
    missing: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """A line on how to get each capability that is not available, by name."""
    queued: frozenset[str] = frozenset({"test"})
    """The capabilities for which calls wait while the REPL restarts, as evaluations do."""
    isolation: Literal["session", "connection", "none"] = "session"
    """What keeps namespaces apart: sessions of one connection, only separate connections, or nothing."""
    outside: str | None = None
    """A sentence about packages of the project that are imported from outside its working tree."""
    application: str = ""
    """The name of the running application that the REPL is part of, or empty if it is not part of one."""
    shares: str = ""
    """A description of what an isolated session shares with the others."""
    runs_concurrently: bool = False
    """Whether the REPL can run code in a session of its own while other code is running."""
    is_serial: bool = False
    """Whether the REPL runs only one evaluation at a time across all sessions."""
    reads_itself: bool = False
    """Whether the REPL itself checks that code can be read, because it accepts more than the plain language."""
    process_id: int | None = None
    project_root: str | None = None
    notebook: str | None = None
    """The path of the kernel's notebook, if the connection reports it."""
    other_tree: str | None = None
    """The other working tree of the workspace's repository that the REPL runs in, or None if it runs in this one."""
    thread_output: str = ""
    """A description of where output of threads goes, or empty if Codriver receives it."""
    notes: tuple[str, ...] = ()
    """Sentences that users should know, such as why this REPL cannot be interrupted."""


@dataclass(frozen=True)
class Form:
    """A top-level form of the code to evaluate. `line` and `column` count from 1 within the code."""

    text: str
    line: int
    column: int
    log_text: str = ""
    """The text to log, if `text` contains more than the form."""


@dataclass(frozen=True)
class TestSelection:
    """A selection of tests. An empty one selects all tests."""

    namespace: str | None = None
    """A namespace, a Python module, a file or directory of the workspace, or a node id of pytest."""
    test: str | None = None
    """The name of a single test of the namespace."""
    match: str | None = None
    """An expression of name parts with `and`, `or` and `not`, as for pytest's `-k`."""
    only: tuple[tuple[str, str], ...] = ()
    """Restricts the run to these tests, each given by namespace and name."""
    extras: tuple[Any, ...] = ()
    """See `Request.extras`."""

    def __str__(self) -> str:
        """Describe the selection in words."""
        named = "/".join(part for part in (self.namespace, self.test) if part)
        words = [named or ("what failed last" if self.only else "all tests")]
        return " ".join([*words, *([f"matching {self.match}"] if self.match else [])])


HowToLoad = Literal["", "whole"]
"""How to load a module again: empty for only its changes, `whole` for all of it."""


@dataclass(frozen=True)
class Request:
    """The code to evaluate and its context, created by a tool, stored while it waits, and passed to the adapter.

    `forms` are the top-level forms of `code` in order, or empty if the caller did not split it. They are sent one by
    one, and the first failure skips the rest. This is because nREPL 1.0.0 continues with the next form after a failure,
    and other servers return only the last value. Without `forms`, `code` is sent as a whole and the server decides.
    """

    id: str
    """The id of the request's evaluation."""
    code: str
    session: str = MAIN_SESSION
    namespace: str | None = None
    frame: int | None = None
    """The number of the frame to evaluate in, counted in the session's last error or last failed test."""
    is_in_test: bool = False
    """Whether `frame` belongs to the last failed test."""
    forms: tuple[Form, ...] = ()
    file: str | None = None
    """The file that the code is from. For the kinds that load, `code` is the whole file."""
    kind: Kind = "evaluate"
    """`load-file`: load the code as that file.

    `load-forms`: evaluate `forms`, a part of the file, in `namespace`. If the namespace does not exist yet, the whole
    file is loaded, as these forms alone would define only half of it.
    """
    lines: tuple[int, ...] | None = None
    """The lines of the statements to run, for a `load-file` of a module whose previous source is unknown."""
    how: HowToLoad = ""
    """How a `load-file` loads Python: see `HowToLoad`."""
    undo_id: str = ""
    """The id under which the REPL stores the values that a load replaces, so that they can be restored.

    Empty for none.
    """
    part: str | None = None
    """The id of the part of `file` that the code is, for a file with parts that run separately."""
    is_partial: bool = False
    """Whether more requests of the same evaluation follow, so that figures must be shown only at its end."""
    description: str | None = None
    """One line for the log."""
    background: bool = False
    """Whether to run the code concurrently with all other code, in a session that exists only for it."""
    who: str = ""
    """The caller, for companions of the REPL that attribute effects of the code to it."""
    max_length: int | None = None
    """The maximum number of elements of a collection to print, if the caller gives one."""
    max_depth: int | None = None
    default_limits: PrintLimits | None = None
    """The print limits that apply if the caller gives none, or None for those of the settings."""
    extras: tuple[Any, ...] = ()
    """Data that features attach to the evaluation: see `codriver.repls.contract.extras`."""
    tests: TestSelection | None = None
    """The tests to run, for the kind `run-tests`. `code` then describes the selection."""
    job: object = None
    """What a job does, as an immutable value that only the runner of jobs interprets. See `StartJob`."""

    @property
    def text(self) -> str:
        """Return the code to run as it should be logged."""
        return (
            "\n".join([form.log_text or form.text for form in self.forms]) if self.kind == "load-forms" else self.code
        )

    @property
    def sent_forms(self) -> tuple[Form, ...]:
        """Return the forms that are sent one after the other."""
        return self.forms or (Form(self.code, 1, 1),)


@dataclass(frozen=True)
class PrintLimits:
    """Limits for printed values, for REPLs that respect them. None means no limit."""

    max_length: int | None = None
    """Maximum number of elements to print per collection."""
    max_depth: int | None = None
    max_value_bytes: int | None = None
    is_length_explicit: bool = False
    """Whether the caller gave `max_length`, which then overrides the limit that the user configured in the REPL."""
    is_depth_explicit: bool = False


NO_PRINT_LIMITS = PrintLimits()


@dataclass(frozen=True)
class ValuePart:
    """A selected part of a stored value: the path to it, the first element, and the limits for printing it.

    A step of the path is an index in a sequence, a key (strings unchanged, others as printed), or the name of a field.
    A first step `$2` refers to the evaluation's second value instead of its last.
    """

    path: tuple[int | str, ...] = ()
    start: int = 0
    limits: PrintLimits = NO_PRINT_LIMITS


@dataclass(frozen=True)
class Failure:
    """The cause of a failed evaluation. Lines and columns count from 1; `form` is the failing form's number, from 1.

    In a `chain`, `relation` describes how each error relates to the failure: its `cause`, the `context` in which it was
    raised, `thrown around` it, `member 1` of its group, or the same `of` another error. The relation
    `omitted` is that of errors that were left out.
    """

    type: str
    message: str
    phase: str | None = None
    file: str | None = None
    line: int | None = None
    column: int | None = None
    form: int | None = None
    trace: tuple[str, ...] = ()
    locals: tuple[str, ...] = ()
    """Some plain local variables of the innermost frame of user code, each as `name=value`."""
    data: str | None = None
    """The printed data that the error carries."""
    notes: tuple[str, ...] = ()
    """Notes that were attached to the error."""
    relation: str = ""
    chain: tuple[Failure, ...] = ()
    source_line: str = ""
    """The line that could not be read, if the REPL reports it."""


def execution_session_of(kind: Kind, session: str) -> str:
    """Return the session in which an evaluation of this kind actually runs: tests have one of their own."""
    return TEST_SESSION if kind == "run-tests" else session


@dataclass(frozen=True)
class ListeningProgram:
    """A program of the workspace that listens on a port, by its process id and address."""

    pid: int
    address: str
    can_connect: bool = False
    """Whether the program gives Codriver a REPL when asked, because `codriver run` started it."""


@dataclass(frozen=True)
class Lane:
    """The owner of a lane: the client's name, the caller, and the conversation if the client names it."""

    client_name: str
    who: str
    conversation: str = ""


@dataclass(frozen=True)
class Evaluation:
    """An evaluation, from its acceptance until its result is dropped."""

    id: str
    number: int
    repl: str
    session: str
    who: str
    client: str | None
    request: Request | None
    """The request, or None once the evaluation has finished."""
    head: str
    status: EvaluationStatus
    started_at: int | None = None
    finished_at: int | None = None
    generation: int = 0
    namespace: str | None = None
    """The namespace of the session when the evaluation finished."""
    failure: Failure | None = None
    notes: tuple[str, ...] = ()
    previous: int = 0
    """The number of the same caller's previous evaluation in this session.

    If there is none, the number of the latest evaluation when its client connected.
    """
    turn: int = 0
    """The position in the order of turns. Among the next evaluations of all clients, the lowest one runs first."""
    is_in_frame: bool = False
    """Whether the code ran in a frame of an error. That error stays the session's last one, however the code ends."""
    is_background: bool = False
    """Whether the code runs concurrently with all other code and waits for none of it."""
    is_answered: bool = False
    """Whether an answer has informed the caller that the evaluation is running or waits for input."""
    stop_requested: str | None = None
    """Who last requested the end of the evaluation, and why."""
    is_orphan: bool = False
    """Whether the client has disconnected and its grace period has passed."""
    kind: Kind = "evaluate"
    file: str | None = None
    """The file that is loaded or that the code comes from."""
    lane: Lane | None = None
    """The caller's lane, while the evaluation is not in it because the REPL is starting or has no free lane."""
    is_others: bool = False
    """Whether the code runs without this server, such as a cell that a person runs in a notebook."""

    @property
    def execution_session(self) -> str:
        """Return the session of the REPL in which the evaluation actually runs."""
        return execution_session_of(self.kind, self.session)

    @property
    def is_job(self) -> bool:
        """Return whether this is a test run in its own process, or code in the frames of a failed run."""
        return self.repl == TEST_JOBS_REPL

    @property
    def is_test_job(self) -> bool:
        """Return whether this is a test run in its own process."""
        return self.is_job and self.kind == "run-tests"

    @property
    def is_finished(self) -> bool:
        """Return whether the evaluation has finished, with whatever outcome."""
        return self.status not in UNFINISHED_STATUSES
