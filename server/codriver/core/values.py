"""The values that core, adapters and tools share: the abilities of a REPL, the requests to it, and their outcomes.

Each concept has one class, which travels unchanged from the adapter to the answer, or from the tool to the adapter;
`codriver.core` describes the path.
"""

from __future__ import annotations

from dataclasses import field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

from codriver.core.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping

MAIN_SESSION = "main"
"""The name of the session that callers without a session of their own share."""

TEST_SESSION = "codriver/test"
"""The session in which Codriver runs tests, so that callers' `*1`, `*e` and namespace stay unchanged."""

TEST_JOBS = "tests"
"""In place of a REPL: the owner of test runs that have their own process. It is also their session key."""

HUMAN = "jupyter"
"""The `who` of evaluations in a kernel past this server, mostly by a human in a notebook."""

CHECKPOINT = "checkpoint"
"""The prefix, before a colon, of a description that sets a checkpoint; also the kind of its document in memory."""


def checkpoint_name(description: str) -> str:
    """Return the name of the checkpoint that a description sets; empty for a description without one."""
    word, _, name = description.partition(":")
    return " ".join(name.split()) if word.strip().lower() == CHECKPOINT else ""


NO_KNOWN_TEST = "no test that the REPL knows of"
"""The text in place of a test's location, if a run was stopped while the REPL knew of no running test."""

Kind = Literal["evaluate", "load-file", "load-forms", "run-tests"]

DESCRIBED_KINDS: frozenset[Kind] = frozenset({"run-tests"})
"""The kinds whose value is a report, which the log has in words alone."""

LISP = "lisp"
"""The language family of most tools for one language; it has many dialects."""
PYTHON = "python"
NOTEBOOK = "notebook"
"""The tools of notebooks are for workspaces that have one, as a language's tools are for workspaces with its files."""
NOT_LISP = frozenset({"python", "unknown"})
"""The dialects that are no Lisp."""

EvaluationStatus = Literal["queued", "running", "needs-input", "done", "failed", "interrupted", "lost"]
LIVE: frozenset[EvaluationStatus] = frozenset({"queued", "running", "needs-input"})
OCCUPYING: frozenset[EvaluationStatus] = frozenset({"running", "needs-input"})
"""The statuses in which an evaluation occupies its queue, so that nothing else runs in it."""


@dataclass(frozen=True)
class Capability:
    """Support for one capability: by the server's op `op`, or by Codriver on top of that op (`adapted`)."""

    op: str
    adapted: bool = False


@dataclass(frozen=True)
class Profile:
    """The abilities of a connected REPL, from `describe` and probes, never from its name."""

    dialect: str = "unknown"
    """`clojure`, `clojurescript`, `babashka`, `basilisp`, `python`, `hy`, `nbb` or `unknown`."""
    versions: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    capabilities: Mapping[str, Capability] = field(default_factory=lambda: MappingProxyType({}))
    """The capabilities by name. A capability that is no key is not available."""
    missing: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """By capability name: one line on how to get the capability."""
    isolation: Literal["session", "connection", "none"] = "session"
    """Whether sessions of one connection, only separate connections, or nothing at all keep namespaces apart."""
    outside: str | None = None
    """A sentence on the project's packages that are found outside the project's working tree."""
    application: str = ""
    """The name of the running application that the REPL is part of; empty for any other REPL."""
    shares: str = ""
    """The things that an isolated session shares with the others, in words."""
    runs_concurrently: bool = False
    """Whether the REPL can run code concurrently with running code, in a session of its own."""
    is_serial: bool = False
    """Whether the REPL runs one evaluation at a time, whatever the sessions."""
    reads_itself: bool = False
    """Whether the REPL checks itself if code can be read, because it reads more than the plain language."""
    process_id: int | None = None
    project_root: str | None = None
    notebook: str | None = None
    """The path of the kernel's notebook, if the connection gives it."""
    other_tree: str | None = None
    """The other working tree of the workspace's repository in which the REPL runs; None in the workspace's own."""
    thread_output: str = ""
    """A description of where the output of threads goes; blank if Codriver receives it."""
    notes: tuple[str, ...] = ()
    """Sentences that a user should know, such as the reason why this REPL cannot be interrupted."""
    seam: str | None = None
    """The session id of the application's seam, which has the capability of that name; a new id means a new process."""


@dataclass(frozen=True)
class Form:
    """One top-level form of the code to evaluate. `line` and `column` count from 1 within the code."""

    text: str
    line: int
    column: int
    log_text: str = ""
    """The text to log, if `text` holds more than the form."""


@dataclass(frozen=True)
class TestSelection:
    """The tests to run: all of them if no field is given."""

    namespace: str | None = None
    """A namespace, a Python module, a file or directory of the workspace, or a node id of pytest."""
    test: str | None = None
    """One test of the namespace."""
    match: str | None = None
    """Words of the names to run, with `and`, `or` and `not`, as pytest's `-k` has them."""
    only: tuple[tuple[str, str], ...] = ()
    """Only these tests: namespace and name of each."""
    fresh: bool = False
    """Whether to run in a new process, which has loaded nothing yet."""
    extras: tuple[Any, ...] = ()
    """See `Request.extras`."""

    def __str__(self) -> str:
        """Return the tests in words."""
        named = "/".join(part for part in (self.namespace, self.test) if part)
        words = [named or ("what failed last" if self.only else "all tests")]
        words += [f"matching {self.match}"] if self.match else []
        return " ".join([*words, *(["in a new process"] if self.fresh else [])])


HowToLoad = Literal["", "whole"]
"""The ways to load a module again: its changes; `whole`, all of it."""


@dataclass(frozen=True)
class Request:
    """The code to evaluate and its position: made by a tool, stored while it waits, passed to the adapter.

    `forms` are the top-level forms of `code` in order, or empty when the caller did not split it. The forms are sent
    one by one, and the first failing form stops the rest: nREPL 1.0.0 continues with the next form after a failure, and
    others answer only the last value. Without `forms`, `code` is sent whole and the server decides.
    """

    id: str
    """The id of the request's evaluation."""
    code: str
    session: str = MAIN_SESSION
    namespace: str | None = None
    frame: int | None = None
    """The number of the frame in which the code is evaluated, of the session's last error or last failed test."""
    is_in_test: bool = False
    """Whether the frame is one of the test's."""
    forms: tuple[Form, ...] = ()
    file: str | None = None
    """The file that the code is from; for the kinds that load, the code is the whole file."""
    kind: Kind = "evaluate"
    """`load-file`: the code is loaded as that file.

    `load-forms`: `forms`, some of it, are evaluated in `namespace`; if the namespace does not exist yet, the whole file
    is loaded, as these forms alone would leave half of it.
    """
    lines: tuple[int, ...] | None = None
    """The statements to run alone, for a `load-file` of a module whose previous text is not known."""
    how: HowToLoad = ""
    """How a `load-file` in Python loads: see `HowToLoad`."""
    undo_id: str = ""
    """The id under which the REPL stores the values that the load changes, so that they can be restored.

    Empty for none.
    """
    cell: str | None = None
    """The id of the notebook's cell that the code is from; `file` is the notebook."""
    is_partial: bool = False
    """Whether further requests have more code of the same evaluation, so that figures wait for its end."""
    description: str | None = None
    """One line for the log."""
    background: bool = False
    """Whether the code runs next to all other code, in a session that is opened for it and closed after it."""
    who: str = ""
    """The caller, if the REPL is to attribute to it the code's effects in the application there."""
    max_length: int | None = None
    """The maximum number of printed elements of a collection, if the caller gives one."""
    max_depth: int | None = None
    default_limits: PrintLimits | None = None
    """The limits of printing if the caller gives none; None for those of the settings."""
    extras: tuple[Any, ...] = ()
    """What features add to the evaluation: see `codriver.repls.contract.extras`."""
    tests: TestSelection | None = None
    """The selection of the kind `run-tests`, whose code is the selection in words."""
    job: object = None
    """What a job does: an immutable value that only the runner of jobs understands. See `StartJob`."""

    @property
    def text(self) -> str:
        """Return the code to run, as the log shows it."""
        return (
            "\n".join([form.log_text or form.text for form in self.forms]) if self.kind == "load-forms" else self.code
        )

    @property
    def sent_forms(self) -> tuple[Form, ...]:
        """Return the forms that are sent, one after the other. A notebook's cell is sent whole."""
        return (() if self.cell else self.forms) or (Form(self.code, 1, 1),)


@dataclass(frozen=True)
class PrintLimits:
    """Limits for printed values, for a REPL that respects them; None is no limit."""

    max_length: int | None = None
    """The most items printed of a collection."""
    max_depth: int | None = None
    max_value_bytes: int | None = None
    is_length_explicit: bool = False
    """Whether the caller requested `max_length`, which then takes precedence over the user's own limit in the REPL."""
    is_depth_explicit: bool = False


NO_LIMITS = PrintLimits()


@dataclass(frozen=True)
class ValuePart:
    """A part of a value that a REPL stores: the path to the part, its first element, and how much of it to print.

    A step of the path is an index in a sequence, a key (a string unchanged, any other as printed), or a field's name. A
    first step `$2` stands for the evaluation's second value instead of its last.
    """

    path: tuple[int | str, ...] = ()
    start: int = 0
    limits: PrintLimits = NO_LIMITS


@dataclass(frozen=True)
class Failure:
    """The cause of an evaluation's failure. Lines and columns count from 1; `form` is the failing form's index, from 1.

    In a `chain`, `relation` describes how each error relates to the failure: its `cause`, the `context` in which it was
    raised, `thrown around` it, `member 1` of its group, or the same `of` another error; `omitted` stands for errors
    left out.
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
    """Some plain local variables of the innermost frame of the user's code, each as `name=value`."""
    data: str | None = None
    """The data that the error carries, printed."""
    notes: tuple[str, ...] = ()
    """Sentences that were added to the error."""
    relation: str = ""
    chain: tuple[Failure, ...] = ()
    source_line: str = ""
    """The line that could not be read, if the REPL gives it."""


def place_of(kind: Kind, session: str) -> str:
    """Return the session in which an evaluation of this kind, started in the given session, really runs."""
    return TEST_SESSION if kind == "run-tests" else session


@dataclass(frozen=True)
class ListeningProgram:
    """A program of the workspace that listens on a port: its process, and its address."""

    pid: int
    address: str


@dataclass(frozen=True)
class Lane:
    """The owner of a lane: the client by its name, the caller, and the session named by the client itself, if any."""

    client_name: str
    who: str
    conversation: str = ""


@dataclass(frozen=True)
class Evaluation:
    """One evaluation, from its acceptance on: who requested it, and its status."""

    id: str
    number: int
    repl: str
    session: str
    who: str
    client: str | None
    request: Request | None
    """The whole request until the evaluation has finished, then only the head of its code."""
    head: str
    status: EvaluationStatus
    started_at: int | None = None
    finished_at: int | None = None
    generation: int = 0
    namespace: str | None = None
    """The session's namespace at the end of the evaluation."""
    failure: Failure | None = None
    notes: tuple[str, ...] = ()
    previous: int = 0
    """The number of the same caller's previous evaluation in the same session, or else of the newest when its client
    connected.
    """
    turn: int = 0
    """The position in the order of turns: the lowest among the first waiting evaluations of all clients is next."""
    is_fresh: bool = False
    """Whether tests ran in a new process."""
    is_in_frame: bool = False
    """Whether the code ran in a frame of an error; that error stays the last one, however the code ends."""
    is_background: bool = False
    """Whether the code runs next to all other code, and waits for none."""
    is_answered: bool = False
    """Whether the caller knows that the evaluation runs, or waits for input."""
    stop_requested: str | None = None
    """The caller who last requested the end of the evaluation, and the reason."""
    is_orphan: bool = False
    """Whether the client is gone, and its grace period has passed."""
    kind: Kind = "evaluate"
    lane: Lane | None = None
    """The caller's lane, if the evaluation does not run in it because the REPL is starting or had no lane left."""
    is_others: bool = False
    """Whether another program evaluates it past this server, such as a human's notebook."""

    @property
    def execution_session(self) -> str:
        """Return the session of the REPL in which the evaluation really runs."""
        return place_of(self.kind, self.session)

    @property
    def is_job(self) -> bool:
        """Return whether this is a test run in a process of its own, or code in the frames of a failed run."""
        return self.repl == TEST_JOBS

    @property
    def is_test_job(self) -> bool:
        """Return whether this is a test run in a process of its own."""
        return self.is_job and self.kind == "run-tests"

    @property
    def over(self) -> bool:
        """Return whether the evaluation has finished."""
        return self.status not in LIVE
