"""The actions: every event and request that can change the state.

They cover the life cycle of the server, its clients, its REPLs and their evaluations.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

from codriver.core.records import ValueReference, dataclass, from_context, from_result, from_settings

if TYPE_CHECKING:
    from codriver.core.evaluations import Failure, Lane
    from codriver.core.listening_program import ListeningProgram
    from codriver.core.profiles import Capability, Profile
    from codriver.core.requests import Request
    from codriver.core.state import Origin, ReportedStatus


@dataclass(frozen=True)
class Action:
    """Base class of events that happened and of requests for a change."""


@dataclass(frozen=True)
class StartServer(Action):
    """A request to start the server. Ignored unless the server is stopped."""

    session_id: str
    process_id: int
    version: str
    workspace: str
    now: ValueReference[int] = from_context("now")


@dataclass(frozen=True)
class ListenerOpened(Action):
    """Dispatched when the listener is open.

    `requested_port` is the port from the settings, which may differ from `port`.
    """

    host: ValueReference[str] = from_result(1)
    port: ValueReference[int] = from_result(2)
    requested_port: ValueReference[int] = from_settings("mcp_socket_server_port")


@dataclass(frozen=True)
class ReplSearchChanged(Action):
    """Dispatched when the first search for REPLs starts, and when it ends.

    By then the state has every REPL it found.
    """

    is_under_way: bool


@dataclass(frozen=True)
class PortFilesScanned(Action):
    """Dispatched after a scan of the port files.

    `has_unread` is true if some were skipped for now because the REPLs that write them may still be starting.
    """

    has_unread: bool


@dataclass(frozen=True)
class StopServer(Action):
    """A request to stop the server, with the reason to report. Ignored unless the server is starting or started."""

    reason: str


@dataclass(frozen=True)
class ServerStopped(Action):
    """Dispatched when the server has closed everything."""


@dataclass(frozen=True)
class ClientConnected(Action):
    """Dispatched when a connection has been admitted."""

    client: str


@dataclass(frozen=True)
class ClientDisconnected(Action):
    """Dispatched when a connection is closed. Its sessions and streams end with it."""

    client: str


@dataclass(frozen=True)
class GracePeriodExpired(Action):
    """Dispatched when the grace period after a client's disconnect has passed.

    From then on, the client's remaining evaluations end as soon as they block another caller.
    """

    client: str


@dataclass(frozen=True)
class CallerNamed(Action):
    """Dispatched when a caller gives its name, which stays valid until it gives another.

    `formerly` is its previous name, which it gave or Codriver generated.
    """

    conversation: str
    formerly: str
    client: ValueReference[str] = from_context("client")
    who: ValueReference[str] = from_context("who")
    client_name: str = ""
    """The name of the MCP client, used to recognize the same conversation over another connection."""


@dataclass(frozen=True)
class EvaluationsReported(Action):
    """Dispatched when an answer has reported the status of other callers' evaluations to a caller.

    If the answer was also about a session, `session` is its key and `seen` the status that the answer gave.
    """

    client: ValueReference[str] = from_context("client")
    who: ValueReference[str] = from_context("who")
    session: str | None = None
    seen: ReportedStatus | None = None


@dataclass(frozen=True)
class ResourcesChanged(Action):
    """Dispatched when the list of resources (skills) has changed."""


@dataclass(frozen=True)
class ToolsChanged(Action):
    """Dispatched when the list of tools has changed for a reason other than the capabilities of REPLs."""


@dataclass(frozen=True)
class LanguagesFound(Action):
    """Dispatched after a scan of the workspace's files, with the languages that were found."""

    languages: frozenset[str]
    repl: str = ""
    """The value of the setting `repl` that the files suggest; empty if the files show no project."""
    needs_trust: bool = False
    """Whether the user has to accept the workspace before the REPL is started."""
    is_accepted: bool = True
    """Whether the user has accepted the workspace, so that its programs may be started without asking."""


@dataclass(frozen=True)
class WorkspaceAccepted(Action):
    """Dispatched when the user accepts the workspace while the server is running."""


@dataclass(frozen=True)
class ProgramsFound(Action):
    """Dispatched with all programs of the workspace that currently listen on a port."""

    programs: tuple[ListeningProgram, ...]


@dataclass(frozen=True)
class AddRepl(Action):
    """A request to connect to a REPL or to start it. Ignored if a REPL with this `id` exists and was not given up."""

    id: str
    key: str
    origin: Origin
    address: str | None = None
    keyed: bool = True
    dialect: str = "unknown"
    rewritten: bool = False
    """Whether the port file was written again.

    If so, an unreachable REPL may be listening by now, even at the same port.
    """
    notebook: str | None = None
    """The path of the notebook that uses the kernel, if any."""
    error: str | None = None
    """Why no connection is attempted. The REPL is then listed as stopped, with this text as its note."""
    aliases: tuple[str, ...] = ()
    """Other names of the REPL's main session."""
    now: ValueReference[int] = from_context("now")


@dataclass(frozen=True)
class DropRepl(Action):
    """A request to drop a REPL that is not connected and will not return, usually because its port file was deleted."""

    id: str
    cause: str = "its port file is gone"


@dataclass(frozen=True)
class ReplProgress(Action):
    """Dispatched with a progress message for people who wait for a REPL to start."""

    id: str
    note: str


@dataclass(frozen=True)
class ReplStarted(Action):
    """Dispatched when the REPL's process listens at `address`. Codriver connects next.

    `caution` is added to the first answer to each caller, and `remark` to one answer in the workspace. `awaits_trust`
    is true if accepting the workspace would start a different process.
    """

    id: str
    address: str
    caution: str | None = None
    awaits_trust: bool = False
    remark: str | None = None


@dataclass(frozen=True)
class ReplConnected(Action):
    """Dispatched when a connection to a REPL is ready. `key` becomes the REPL's key if it has none yet."""

    id: str
    profile: Profile
    address: str
    key: str = "repl"
    now: ValueReference[int] = from_context("now")


@dataclass(frozen=True)
class CapabilityFound(Action):
    """Dispatched when a connected REPL turns out to have another capability, for as long as the connection lasts."""

    id: str
    name: str
    capability: Capability


@dataclass(frozen=True)
class ReplLost(Action):
    """Dispatched when a connection is lost or cannot be established. `final` is true if retrying is pointless."""

    id: str
    cause: str
    final: bool = False
    is_unreachable: bool = False
    """Whether nothing listens at the REPL's address."""
    now: ValueReference[int] = from_context("now")


@dataclass(frozen=True)
class RetryDue(Action):
    """Dispatched when the pause before another attempt to connect has passed."""

    id: str
    failures: int
    """The number of consecutive failures when the pause began. If there are more by now, this retry is ignored."""
    now: ValueReference[int] = from_context("now")


@dataclass(frozen=True)
class RestartRepl(Action):
    """A request to end the REPL's process and start it again. `why` is included in the REPL's note."""

    id: str
    why: str


@dataclass(frozen=True)
class SessionOpened(Action):
    """Dispatched when a session was opened for a caller. It is closed when the caller's client disconnects."""

    id: str
    name: str
    who: ValueReference[str] = from_context("who")
    client: ValueReference[str | None] = from_context("client")


@dataclass(frozen=True)
class RequestLane(Action):
    """A request for a connection's lane in a REPL, which is created if it does not exist."""

    id: str
    lane: Lane
    client: ValueReference[str | None] = from_context("client")


@dataclass(frozen=True)
class SessionClosed(Action):
    """Dispatched when the REPL has closed a session whose client had disconnected."""

    id: str
    name: str


@dataclass(frozen=True)
class Evaluate(Action):
    """A request to evaluate code as soon as its queue is free. `head` is the beginning of the code, for display."""

    repl: str
    request: Request
    head: str = ""
    lane: Lane | None = None
    """The caller's lane, unless the caller named a session. Ignored by REPLs without lanes."""
    who: ValueReference[str] = from_context("who")
    client: ValueReference[str | None] = from_context("client")
    now: ValueReference[int] = from_context("now")


@dataclass(frozen=True)
class StartJob(Action):
    """A request to run a job as soon as its queue is free.

    A job is a test run in a new process, or code in the frames of a failed run. `head` is the command, for display.
    """

    request: Request
    head: str = ""
    who: ValueReference[str] = from_context("who")
    client: ValueReference[str | None] = from_context("client")
    now: ValueReference[int] = from_context("now")


@dataclass(frozen=True)
class ExternalEvaluationStarted(Action):
    """Dispatched when a REPL starts to run code that did not pass through this server, such as a cell run in an editor.

    `evaluation` is the id to give it.
    """

    repl: str
    evaluation: str
    code: str
    now: ValueReference[int] = from_context("now")


@dataclass(frozen=True)
class InputRequested(Action):
    """Dispatched when an evaluation waits for input."""

    evaluation: str


@dataclass(frozen=True)
class InputSent(Action):
    """Dispatched when input has been sent to an evaluation, which then continues."""

    evaluation: str


@dataclass(frozen=True)
class EvaluationFinished(Action):
    """Dispatched when an evaluation has finished, with its outcome."""

    evaluation: str
    status: Literal["done", "failed", "interrupted", "lost"]
    session_namespace: str | None = None
    failure: Failure | None = None
    notes: tuple[str, ...] = ()
    summary: str | None = None
    """One line for the log."""
    data: str | None = None
    """The facts behind `summary`, as a JSON object."""
    now: ValueReference[int] = from_context("now")


@dataclass(frozen=True)
class RunningReported(Action):
    """Dispatched when an answer has reported to the caller that its evaluation is running or waits for input.

    Ignored if the evaluation has finished.
    """

    evaluation: str


@dataclass(frozen=True)
class StopRequested(Action):
    """Dispatched when a running evaluation has been asked to stop.

    `why` names the requester and the reason, and is included in the answer about the evaluation's end.
    """

    evaluation: str
    why: str


@dataclass(frozen=True)
class CancelQueued(Action):
    """A request to remove an evaluation from its queue before it runs. Ignored if it has started or finished."""

    evaluation: str
    why: str
    now: ValueReference[int] = from_context("now")


@dataclass(frozen=True)
class AddServerLine(Action):
    """A request to write one of the server's messages to the output log."""

    text: str
    error: bool = False
    repl: str | None = None
    who: str | None = None
    """The `who` of the caller whose action the line reports."""
    kind: str | None = None
    """The kind of event that the line reports, such as `edit`."""
    data: str | None = None
    """The facts that the text reports, as a JSON object."""


@dataclass(frozen=True)
class LatchError(Action):
    """A request to remember an error until the server stops. Repeating a `code` increments its count."""

    code: str
    text: str
    now: ValueReference[int] = from_context("now")


@dataclass(frozen=True)
class WithdrawError(Action):
    """A request to forget the latched error with this `code` because it is resolved. Ignored if there is none."""

    code: str


ACTIONS: Final = tuple(Action.__subclasses__())
"""Every action of the core. A server must have a handler for each."""
