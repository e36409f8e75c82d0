"""Actions: all events and requests that change the state: the server's life cycle, clients, REPLs, evaluations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

from codriver.core.records import Later, dataclass, from_context, from_result, from_settings

if TYPE_CHECKING:
    from codriver.core.state import AppStream, Origin, Seen
    from codriver.core.values import Failure, Lane, ListeningProgram, Profile, Request


@dataclass(frozen=True)
class Action:
    """An event that happened, or a request to change something."""


@dataclass(frozen=True)
class Start(Action):
    """Begin to start. Harmless unless stopped."""

    session_id: str
    process_id: int
    version: str
    workspace: str
    now: Later[int] = from_context("now")


@dataclass(frozen=True)
class Listening(Action):
    """The listener is open on `port`; `requested_port` is the port that the settings ask for."""

    host: Later[str] = from_result(1)
    port: Later[int] = from_result(2)
    requested_port: Later[int] = from_settings("mcp_socket_server_port")


@dataclass(frozen=True)
class Searching(Action):
    """The first search for REPLs started, or ended with all that it found in the state."""

    is_under_way: bool


@dataclass(frozen=True)
class PortFilesSeen(Action):
    """All port files were read; with `has_unread`, some not yet, whose REPLs may still be starting."""

    has_unread: bool


@dataclass(frozen=True)
class Stop(Action):
    """Begin to stop, for `reason`. Harmless unless starting or started."""

    reason: str


@dataclass(frozen=True)
class Stopped(Action):
    """The server has closed everything."""


@dataclass(frozen=True)
class ClientConnected(Action):
    """A connection was let in."""

    client: str


@dataclass(frozen=True)
class ClientGone(Action):
    """A connection was closed; everything that belonged to it is released."""

    client: str


@dataclass(frozen=True)
class GraceOver(Action):
    """The grace period of a client that left has passed: its remaining evaluations may no longer block others."""

    client: str


@dataclass(frozen=True)
class CallerNamed(Action):
    """A caller gave its name, which is valid until it gives another.

    `formerly` is the previous name, given or generated.
    """

    conversation: str
    formerly: str
    client: Later[str] = from_context("client")
    who: Later[str] = from_context("who")
    client_name: str = ""
    """The client's name, by which the same conversation is recognised over another connection."""


@dataclass(frozen=True)
class EvaluationsReported(Action):
    """The caller received the status of other callers' evaluations, and of a session of its own.

    `session` is the session's key and `seen` its status; None for an answer about no session.
    """

    client: Later[str] = from_context("client")
    who: Later[str] = from_context("who")
    session: str | None = None
    seen: Seen | None = None


@dataclass(frozen=True)
class ResourcesChanged(Action):
    """The list of resources (skills) has changed."""


@dataclass(frozen=True)
class ToolsChanged(Action):
    """The list of tools has changed, for another reason than the abilities of the REPLs."""


@dataclass(frozen=True)
class LanguagesSeen(Action):
    """The files of the workspace were scanned; these are their languages."""

    languages: frozenset[str]
    repl: str = ""
    """The value of the setting `repl` that the files suggest; empty if the files show no project."""
    needs_trust: bool = False
    """Whether the user has to accept the workspace before the REPL is started."""
    is_accepted: bool = True
    """Whether the user has accepted the workspace, so that programs of it may run by themselves."""


@dataclass(frozen=True)
class WorkspaceAccepted(Action):
    """The user accepted the workspace while the server runs."""


@dataclass(frozen=True)
class ProgramsSeen(Action):
    """These programs of the workspace listen on a port now."""

    programs: tuple[ListeningProgram, ...]


@dataclass(frozen=True)
class ReplFound(Action):
    """A REPL to connect to or to start. Harmless for an `id` that is known and not given up."""

    id: str
    key: str
    origin: Origin
    address: str | None = None
    keyed: bool = True
    dialect: str = "unknown"
    rewritten: bool = False
    """Whether the port file was written again: an unreachable REPL may listen now, also at the same port."""
    notebook: str | None = None
    """The notebook of a kernel."""
    error: str | None = None
    """The reason why no connection is tried: the REPL is listed as stopped, with this note."""
    aliases: tuple[str, ...] = ()
    """Other names of its main session."""
    now: Later[int] = from_context("now")


@dataclass(frozen=True)
class ReplForgotten(Action):
    """A REPL that is not connected is gone for good, by default with its port file: drop the REPL."""

    id: str
    cause: str = "its port file is gone"


@dataclass(frozen=True)
class ReplProgress(Action):
    """Progress of a REPL that is starting, for a person who waits for it."""

    id: str
    note: str


@dataclass(frozen=True)
class ReplStarted(Action):
    """The process runs and listens at `address`; connecting is next.

    `caution` is included in the first answer to each caller, `remark` in one answer of the workspace. `awaits_trust`:
    an accepted workspace would get another process.
    """

    id: str
    address: str
    caution: str | None = None
    awaits_trust: bool = False
    remark: str | None = None


@dataclass(frozen=True)
class ReplConnected(Action):
    """The connection is established, with this profile; `key` is the REPL's key if it had none."""

    id: str
    profile: Profile
    address: str
    key: str = "repl"
    now: Later[int] = from_context("now")


@dataclass(frozen=True)
class SeamSeen(Action):
    """The application in the REPL shows itself by its seam, which has this session id."""

    id: str
    seam: str
    provider: str | None = None
    """The provider, for a seam that is queried by evaluation."""


@dataclass(frozen=True)
class AppStreamStarted(Action):
    """The application's seam pushes the events that a client requested."""

    stream: AppStream


@dataclass(frozen=True)
class AppStreamRenewed(Action):
    """The renewal of a stream: whether the application still has the stream."""

    stream: AppStream
    is_active: Later[bool] = from_result()


@dataclass(frozen=True)
class AppStreamStopped(Action):
    """A client ended a stream."""

    stream: AppStream


@dataclass(frozen=True)
class ReplLost(Action):
    """The connection, or an attempt to connect, ended. `final`: another attempt is useless."""

    id: str
    cause: str
    final: bool = False
    is_unreachable: bool = False
    """Whether no one listens at the REPL's address."""
    now: Later[int] = from_context("now")


@dataclass(frozen=True)
class RetryDue(Action):
    """The pause after a failure has finished."""

    id: str
    failures: int
    """The number of the failure; a later failure makes this retry stale."""
    now: Later[int] = from_context("now")


@dataclass(frozen=True)
class RestartRepl(Action):
    """End the process and start it again. `why` enters the note."""

    id: str
    why: str


@dataclass(frozen=True)
class SessionOpened(Action):
    """A session was opened for the caller; it closes with the caller's client."""

    id: str
    name: str
    who: Later[str] = from_context("who")
    client: Later[str | None] = from_context("client")


@dataclass(frozen=True)
class LaneRequested(Action):
    """A connection evaluates in a lane, which is created if it does not exist."""

    id: str
    lane: Lane
    client: Later[str | None] = from_context("client")


@dataclass(frozen=True)
class SessionClosed(Action):
    """A session that was left is closed in the REPL."""

    id: str
    name: str


@dataclass(frozen=True)
class Evaluate(Action):
    """Accept an evaluation, to be run when its queue is free. `head` is the beginning of its code, for display."""

    repl: str
    request: Request
    head: str = ""
    lane: Lane | None = None
    """The caller's lane, if the request is not for the caller's session. It is used if the REPL supports lanes."""
    who: Later[str] = from_context("who")
    client: Later[str | None] = from_context("client")
    now: Later[int] = from_context("now")


@dataclass(frozen=True)
class StartJob(Action):
    """Accept a job, to start when its queue is free: a test run in a new process, or code in a failed one.

    `head` is its command, for display.
    """

    request: Request
    head: str = ""
    who: Later[str] = from_context("who")
    client: Later[str | None] = from_context("client")
    now: Later[int] = from_context("now")


@dataclass(frozen=True)
class OthersEvaluation(Action):
    """Another program already evaluates in a REPL, bypassing this server. `evaluation` is the id that it gets."""

    repl: str
    evaluation: str
    code: str
    now: Later[int] = from_context("now")


@dataclass(frozen=True)
class InputRequested(Action):
    """The evaluation waits for input."""

    evaluation: str


@dataclass(frozen=True)
class InputGiven(Action):
    """Input was sent; the evaluation continues."""

    evaluation: str


@dataclass(frozen=True)
class EvaluationFinished(Action):
    """The evaluation has finished."""

    evaluation: str
    status: Literal["done", "failed", "interrupted", "lost"]
    session_namespace: str | None = None
    failure: Failure | None = None
    notes: tuple[str, ...] = ()
    summary: str | None = None
    """One line for the log."""
    data: str | None = None
    """The facts that the line reports, as a JSON object."""
    now: Later[int] = from_context("now")


@dataclass(frozen=True)
class RunningReported(Action):
    """The caller was answered that the evaluation runs, or waits for input. Harmless for one that has finished."""

    evaluation: str


@dataclass(frozen=True)
class StopRequested(Action):
    """A running evaluation was requested to stop. `why` says by whom, and is included in the answer about its end."""

    evaluation: str
    why: str


@dataclass(frozen=True)
class CancelQueued(Action):
    """Remove an evaluation from its queue; it never runs. Harmless for one that is not queued."""

    evaluation: str
    why: str
    now: Later[int] = from_context("now")


@dataclass(frozen=True)
class AddServerLine(Action):
    """Add a line of the server's own to the output log."""

    text: str
    error: bool = False
    repl: str | None = None
    who: str | None = None
    """The `who` of the caller whose act the line reports."""
    kind: str | None = None
    """What the line reports, such as `edit`."""
    data: str | None = None
    """The facts that the text reports, as a JSON object."""


@dataclass(frozen=True)
class LatchError(Action):
    """Remember an error until the server stops; the same `code` again is counted."""

    code: str
    text: str
    now: Later[int] = from_context("now")


@dataclass(frozen=True)
class WithdrawError(Action):
    """Forget the latched error with this `code`, as it has finished; harmless for an unknown code."""

    code: str


ACTIONS: Final = tuple(Action.__subclasses__())
"""Every action of the core; a server needs a handler for each."""
