"""The record of an evaluation: its status, its result, and its failure if it has one."""

from __future__ import annotations

from typing import Literal

from codriver.core.records import dataclass
from codriver.core.requests import Kind, Request, execution_session_for

TEST_JOBS_REPL = "tests"
"""The id and session key of the pseudo REPL for test runs in separate processes."""
EXTERNAL_CALLER = "jupyter"
"""The `who` of code that was run in a REPL without this server, usually by a person in a document."""


EvaluationStatus = Literal["queued", "running", "needs-input", "done", "failed", "interrupted", "lost"]


UNFINISHED_STATUSES: frozenset[EvaluationStatus] = frozenset({"queued", "running", "needs-input"})
"""The statuses of an evaluation that has not finished."""
OCCUPYING_STATUSES: frozenset[EvaluationStatus] = frozenset({"running", "needs-input"})
"""The statuses in which an evaluation occupies its queue, so that no other evaluation runs in this queue."""


@dataclass(frozen=True)
class Failure:
    """The cause of a failed evaluation.

    Lines and columns are counted from 1.
    """

    type: str
    message: str
    phase: str | None = None
    file: str | None = None
    line: int | None = None
    column: int | None = None
    form: int | None = None
    """The number of the form that failed, counted from 1."""
    trace: tuple[str, ...] = ()
    locals: tuple[str, ...] = ()
    """Some plain local variables from the innermost frame of user code, each as `name=value`."""
    data: str | None = None
    """The data attached to the error, as printed."""
    notes: tuple[str, ...] = ()
    """Notes that were attached to the error."""
    relation: str = ""
    """The relation of an error in a `chain` to the failure.

    It is `cause`, `context` if the failure was raised while handling this error, `thrown around` if this error wraps
    the failure, or `member 1` if this error is the first one in a group. Relations to a member of the group follow the
    same pattern, such as `cause of member 1`. `omitted` represents errors that are left out.
    """
    chain: tuple[Failure, ...] = ()
    """The errors that are linked to the failure."""
    source_line: str = ""
    """The line that could not be read, if the REPL reports it."""


@dataclass(frozen=True)
class Lane:
    """A lane, identified by its owner: the client's name, the caller, and the conversation, if the client names one.

    A lane is the session that a caller uses by default in a REPL.
    """

    client_name: str
    who: str
    conversation: str = ""


@dataclass(frozen=True)
class Evaluation:
    """A piece of code to evaluate, from when it is accepted until its result is discarded."""

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
    """The position in the order of turns. Among clients' next evaluations, the lowest position runs first."""
    is_in_frame: bool = False
    """Whether the code ran in a frame of an error. That error stays the session's last one, even if the code fails."""
    is_background: bool = False
    """Whether the code runs concurrently with all other code and waits for none of it."""
    is_answered: bool = False
    """Whether an answer has informed the caller that the evaluation is running or waiting for input."""
    stop_requested: str | None = None
    """Who last requested that the evaluation stop, and why."""
    is_orphan: bool = False
    """Whether the client has disconnected and its grace period has passed."""
    kind: Kind = "evaluate"
    file: str | None = None
    """The file that is loaded or that the code comes from."""
    lane: Lane | None = None
    """The caller's lane, while the evaluation is not in it because the REPL is starting or has no free lane."""
    is_others: bool = False
    """Whether the code runs without this server, such as a part of a document that a person runs in an editor."""

    @property
    def execution_session(self) -> str:
        """Return the REPL session in which the code runs. Tests run in a separate session."""
        return execution_session_for(self.kind, self.session)

    @property
    def is_job(self) -> bool:
        """Return whether this is a job: a test run in its own process, or code in a frame of a failed test."""
        return self.repl == TEST_JOBS_REPL

    @property
    def is_test_job(self) -> bool:
        """Return whether this is a test run in its own process."""
        return self.is_job and self.kind == "run-tests"

    @property
    def is_finished(self) -> bool:
        """Return whether the evaluation has finished, successfully or not."""
        return self.status not in UNFINISHED_STATUSES
