"""The values that core, adapters and tools share: what a REPL can do, what is asked of it, and how that went.

Each concept has one class here, which travels unchanged from the adapter to the answer, or from the tool to the
adapter; `codriver.core` says by which way.
"""

from __future__ import annotations

from base64 import b64encode
from dataclasses import field
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal

from codriver.core.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping

MAIN_SESSION = "main"
"""The name of the session that all callers of a REPL share who have none of their own."""

TEST_SESSION = "codriver/test"
"""Our own session for test runs: callers' `*1`, `*e` and namespace stay as they are."""

HUMAN = "jupyter"
"""The `who` of what is evaluated in a kernel past this server, mostly by a human in a notebook."""

CHECKPOINT = "checkpoint"
"""The word before a colon by which a description sets one; the kind of its document in the workspace's memory."""


def checkpoint_name(description: str) -> str:
    """The name of the checkpoint that a description sets; empty for a description without one."""
    word, _, name = description.partition(":")
    return " ".join(name.split()) if word.strip().lower() == CHECKPOINT else ""


NO_KNOWN_TEST = "no test that the REPL knows of"
"""The place of a test in words, where a run of tests was stopped while the REPL knew of none that ran."""

Kind = Literal["evaluate", "load-file", "load-forms", "run-tests", "try-code"]

TOLD_IN_WORDS: frozenset[Kind] = frozenset({"run-tests", "try-code"})
"""The kinds whose value is a report, of which the log has words alone."""

LISP = "lisp"
"""The language family that most tools of a language are for; its dialects are many."""
PYTHON = "python"
NOTEBOOK = "notebook"
"""The tools of notebooks are for workspaces that have one, as those of a language are."""
NOT_LISP = frozenset({"python", "unknown"})
"""The dialects that are none of Lisp."""

EvaluationStatus = Literal["queued", "running", "needs-input", "done", "failed", "interrupted", "lost"]
LIVE: frozenset[EvaluationStatus] = frozenset({"queued", "running", "needs-input"})
HELD: frozenset[EvaluationStatus] = frozenset({"running", "needs-input"})
"""The statuses in which an evaluation holds its queue: nothing else runs there meanwhile."""


@dataclass(frozen=True)
class Capability:
    """Support for one capability: by the server's op `op`, or by us on top of that op (`adapted`)."""

    op: str
    adapted: bool = False


@dataclass(frozen=True)
class Profile:
    """The abilities of a connected REPL: from `describe` and probes, never from what its name promises."""

    dialect: str = "unknown"
    """`clojure`, `clojurescript`, `babashka`, `basilisp`, `python`, `hy`, `nbb`, `squint` or `unknown`."""
    versions: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    capabilities: Mapping[str, Capability] = field(default_factory=lambda: MappingProxyType({}))
    """By name. What is not a key cannot be had."""
    missing: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """By capability name: one line that says what would provide it."""
    isolation: Literal["session", "connection", "none"] = "session"
    """Whether sessions of one connection, only separate connections, or nothing at all keep namespaces apart."""
    outside: str | None = None
    """A sentence on the packages of its project that are found outside the project's working tree."""
    shares: str = ""
    """The things that a session apart shares with the others, in words."""
    runs_beside: bool = False
    """True of a REPL that can run code beside running code, in a session of its own."""
    is_serial: bool = False
    """True of a REPL that runs one evaluation at a time, whatever their sessions."""
    reads_itself: bool = False
    """True of a REPL that says itself whether it can read code, as it reads more than its language."""
    process_id: int | None = None
    project_root: str | None = None
    notebook: str | None = None
    """The path of the notebook whose kernel it is, where the connection tells."""
    other_tree: str | None = None
    """The other working tree of the workspace's repository in which the REPL runs; None in the workspace's own."""
    notes: tuple[str, ...] = ()
    """Sentences a user should know, such as why this REPL cannot be interrupted."""
    seam: str | None = None
    """The session id of the application's seam, which has the capability of that name; another one, another process."""


@dataclass(frozen=True)
class Form:
    """One top-level form of the code to evaluate. `line` and `column` count from 1 within the code."""

    text: str
    line: int
    column: int
    said: str = ""
    """The text that the log shows, if `text` holds more than the form."""


@dataclass(frozen=True)
class FormerFile:
    """A file that a new process sees as it was, while the disk keeps the file as it is."""

    path: str
    content: bytes | None
    """The content before; None where there was no file."""
    digest: str
    """The SHA-256 of the content that is on the disk, so that a REPL that sees other files is found out."""

    def words(self) -> list[str]:
        """The path, the digest, and the content, if there is one, in base 64."""
        return [self.path, self.digest, *([] if self.content is None else [b64encode(self.content).decode()])]


@dataclass(frozen=True)
class TestSelection:
    """The tests to run: all that are found where nothing is given."""

    namespace: str | None = None
    """A namespace, a Python module, a file or folder of the workspace, or a node id of pytest."""
    test: str | None = None
    """One test of the namespace."""
    match: str | None = None
    """Words of the names to run, with `and`, `or` and `not`, as pytest's `-k` has them."""
    only: tuple[tuple[str, str], ...] = ()
    """Nothing but these: namespace and name of each."""
    fresh: bool = False
    """In a new process, which has loaded nothing yet."""
    again: bool = False
    """True of tests that ran in the REPL just now and failed."""
    trace: tuple[str, ...] | None = None
    """See `Request.trace`."""
    covers: bool = False
    """Whether the changed lines are told that no test ran."""
    said: str = ""
    """The tests in `only` in words; empty for those that failed last."""
    former: tuple[FormerFile, ...] = ()
    """The files that a new process sees as they were before an edit."""

    def __str__(self) -> str:
        """The tests in words."""
        named = "/".join(part for part in (self.namespace, self.test) if part)
        chosen = "what failed" if self.again else "what failed last" if self.only else "all tests"
        words = [named or self.said or chosen]
        words += [f"matching {self.match}"] if self.match else []
        return " ".join([*words, *(["in a new process"] if self.fresh else [])])


HowToLoad = Literal["", "whole", "keep"]
"""A load of a module that is there runs what changed; `whole`, all of it; `keep`, but no name that was bound anew."""


@dataclass(frozen=True)
class Request:
    """The code to evaluate and where: made by a tool, kept while it waits, given to the adapter.

    `forms` are the top-level forms of `code` in order, or empty when the caller did not split it. They are sent one by
    one and the first that fails stops the rest: nREPL 1.0.0 goes on with the next form after a failure, and others
    answer only the last value. Without `forms`, `code` is sent whole and the server decides.
    """

    id: str
    """The id of its evaluation."""
    code: str
    session: str = MAIN_SESSION
    namespace: str | None = None
    frame: int | None = None
    """The number of the frame in which it is evaluated, of the session's last error or of its last red test."""
    is_in_test: bool = False
    """The frame is one of the test's."""
    forms: tuple[Form, ...] = ()
    file: str | None = None
    """The file that the code is from; with the kinds that load, the code is all of it."""
    kind: Kind = "evaluate"
    """`load-file`: the code is loaded as that file. `load-forms`: `forms`, some of it, are evaluated in `namespace`;
    if that is not there yet, the whole is loaded as that file, as forms without the others would leave half of it.
    """
    lines: tuple[int, ...] | None = None
    """Of the kind `load-file`: of a module whose former text is not known, the statements that are run alone."""
    how: HowToLoad = ""
    """Of the kind `load-file`, in Python: see `HowToLoad`."""
    hold: str = ""
    """The id under which the REPL keeps what the load changes, so that it can be put back; empty: it need not."""
    cell: str | None = None
    """The id of the notebook's cell that the code is from; `file` is the notebook."""
    description: str | None = None
    """One line for the log."""
    background: bool = False
    """True of code that runs beside all other code, in a session that is opened for it and closed after it."""
    who: str = ""
    """The caller, where the REPL is to tell that of what the code causes in the application there."""
    max_length: int | None = None
    """Elements that are printed of a collection, where the caller says how many."""
    max_depth: int | None = None
    default_limits: PrintLimits | None = None
    """How much is printed where the caller does not say; None: as much as the settings say."""
    trace: tuple[str, ...] | None = None
    """The names whose calls are recorded, without any those of all the project's own; None: no call is recorded."""
    trial: str = ""
    """The candidates of the kind `try-code` as JSON; its code is the candidates in words."""
    profiles: bool = False
    """Whether the slowest functions are told."""
    tests: TestSelection | None = None
    """The selection of the kind `run-tests`, whose code is the selection in words."""

    @property
    def text(self) -> str:
        """The code that is to run, as the log shows it."""
        return "\n".join([form.said or form.text for form in self.forms]) if self.kind == "load-forms" else self.code

    @property
    def sent_forms(self) -> tuple[Form, ...]:
        """The forms that are sent, one after the other. A notebook's cell is sent as it is."""
        return (() if self.cell else self.forms) or (Form(self.code, 1, 1),)


@dataclass(frozen=True)
class PrintLimits:
    """Bounds for printed values, for a REPL that honours them; None bounds nothing."""

    max_length: int | None = None
    """Items of a collection."""
    max_depth: int | None = None
    max_value_bytes: int | None = None
    length_is_asked: bool = False
    """The caller asked for `max_length`, so that it wins over what the user has set in the REPL."""
    depth_is_asked: bool = False


NO_LIMITS = PrintLimits()


@dataclass(frozen=True)
class ValuePart:
    """A place in a value that a REPL keeps: the path to a part, from which element on, and how much of it to print.

    A step of the path is a place in a sequence, a key as it is if that is a text or as it is printed, or a field's
    name. A first step `$2` stands for the evaluation's second value, where the last is not meant.
    """

    path: tuple[int | str, ...] = ()
    start: int = 0
    limits: PrintLimits = NO_LIMITS


@dataclass(frozen=True)
class Failure:
    """Why an evaluation failed. Lines and columns count from 1; `form` is the index, from 1, of the failing form.

    One of a `chain` says by `relation` what it is to the failure: its `cause`, the `context` in which it was raised,
    `thrown around` it, `member 1` of its group, or so `of` another link; `omitted` stands for those left out.
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
    """Some plain ones of the innermost frame of the user's code, each as `name=value`."""
    data: str | None = None
    """The data that the error carries, printed."""
    notes: tuple[str, ...] = ()
    """Sentences that were added to it."""
    relation: str = ""
    chain: tuple[Failure, ...] = ()


def place_of(kind: Kind, session: str) -> str:
    """The session in which an evaluation of this kind really runs that was begun in a session."""
    return TEST_SESSION if kind == "run-tests" else session


@dataclass(frozen=True)
class ListeningProgram:
    """A program of the workspace that listens on a port: its process, and the address at which it is reached."""

    pid: int
    address: str


@dataclass(frozen=True)
class Lane:
    """Whose a lane is: the client by its name, the caller, and the session that the client names for itself, if any."""

    client_name: str
    who: str
    conversation: str = ""


@dataclass(frozen=True)
class Evaluation:
    """One evaluation, from the moment it was accepted: who asked for it, and how it stands."""

    id: str
    number: int
    repl: str
    session: str
    who: str
    client: str | None
    request: Request | None
    """Kept until the evaluation is over, then only the head of its code."""
    head: str
    status: EvaluationStatus
    started_at: int | None = None
    ended_at: int | None = None
    generation: int = 0
    namespace: str | None = None
    """The session's namespace when it was over."""
    failure: Failure | None = None
    notes: tuple[str, ...] = ()
    previous: int = 0
    """The number of the same caller's evaluation before this one in the same session; without one, of the newest when
    its client connected."""
    turn: int = 0
    """Its place in the order of turns: of the first that waits of each client, the lowest is next."""
    is_fresh: bool = False
    """Of tests: they ran in a new process."""
    runs_again: bool = False
    """Of tests: they are the red ones of a run before, which were run again unasked."""
    is_in_frame: bool = False
    """True of code that ran in a frame of an error; that error stays the last one, however the code ends."""
    is_background: bool = False
    """True of code that runs beside all other code, and waits for none."""
    is_answered: bool = False
    """Its caller was told that it runs, or waits for input."""
    stop_asked: str | None = None
    """The caller who last wanted the evaluation to end, and why."""
    is_orphan: bool = False
    """Its client is gone, and the grace after that is over."""
    kind: Kind = "evaluate"
    lane: Lane | None = None
    """The caller's lane, of one that does not run in it: its REPL is on its way, or had no lane left."""
    is_others: bool = False
    """Somebody evaluates it past this server, such as a human in a notebook."""

    @property
    def place(self) -> str:
        """The session of the REPL in which it really runs."""
        return place_of(self.kind, self.session)

    @property
    def over(self) -> bool:
        """Whether nothing more will happen to it."""
        return self.status not in LIVE
