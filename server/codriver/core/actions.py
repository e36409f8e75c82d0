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
    """Base class of actions: events that happened, and requests to change something."""


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
    """Dispatched when the server accepts connections.

    `requested_port` is the port in the settings. `port` is the one in use, which may differ.
    """

    host: ValueReference[str] = from_result(1)
    port: ValueReference[int] = from_result(2)
    requested_port: ValueReference[int] = from_settings("mcp_socket_server_port")


@dataclass(frozen=True)
class ReplSearchChanged(Action):
    """Dispatched when the first search for REPLs starts and when it ends.

    At its end, the state contains every REPL that was found.
    """

    is_under_way: bool


@dataclass(frozen=True)
class PortFilesScanned(Action):
    """Dispatched after a scan for port files.

    `has_unread` is true if some of them were not read yet, because the REPLs that write them may still be starting.
    """

    has_unread: bool


@dataclass(frozen=True)
class StopServer(Action):
    """A request to stop the server for the given reason. Ignored unless the server is starting or started."""

    reason: str


@dataclass(frozen=True)
class ServerStopped(Action):
    """Dispatched when the server has closed all connections and REPLs."""


@dataclass(frozen=True)
class ClientConnected(Action):
    """Dispatched when a client has connected and was admitted."""

    client: str


@dataclass(frozen=True)
class ClientDisconnected(Action):
    """Dispatched when a client has disconnected. Its sessions end."""

    client: str


@dataclass(frozen=True)
class GracePeriodExpired(Action):
    """Dispatched when the grace period after a client's disconnection is over.

    From then on, its evaluations are stopped if they block another caller.
    """

    client: str


@dataclass(frozen=True)
class CallerNamed(Action):
    """Dispatched when a caller passes its name, which remains valid until it passes another one.

    `formerly` is its previous name, which it passed itself or Codriver generated.
    """

    conversation: str
    formerly: str
    client: ValueReference[str] = from_context("client")
    who: ValueReference[str] = from_context("who")
    client_name: str = ""
    """The name of the MCP client, used to recognize the same conversation over another connection."""


@dataclass(frozen=True)
class EvaluationsReported(Action):
    """Dispatched when an answer has reported other callers' evaluations to a caller.

    If the answer was about a session, `session` is its key, and `seen` the session's status in the answer.
    """

    client: ValueReference[str] = from_context("client")
    who: ValueReference[str] = from_context("who")
    session: str | None = None
    seen: ReportedStatus | None = None


@dataclass(frozen=True)
class ResourcesChanged(Action):
    """Dispatched when the list of resources, such as skills, has changed."""


@dataclass(frozen=True)
class ToolsChanged(Action):
    """Dispatched when the list of tools has changed for a reason other than the capabilities of REPLs."""


@dataclass(frozen=True)
class LanguagesFound(Action):
    """Dispatched after a scan of the workspace's files, with the languages of the files."""

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
    """Dispatched with all programs of the workspace that are listening on a port."""

    programs: tuple[ListeningProgram, ...]


@dataclass(frozen=True)
class AddRepl(Action):
    """A request to connect to a REPL or to start one. Ignored if the REPL with this `id` is already in use."""

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
    document: str | None = None
    """The path of the document that uses the REPL, if any: see `Repl.document`."""
    error: str | None = None
    """Why no connection is attempted. The REPL is then listed as stopped, with this text as its note."""
    aliases: tuple[str, ...] = ()
    """Other names of the REPL's main session."""
    now: ValueReference[int] = from_context("now")


@dataclass(frozen=True)
class DropRepl(Action):
    """A request to remove a REPL that is not connected and will not come back.

    For example, its port file was deleted.
    """

    id: str
    cause: str = "the port file no longer exists"


@dataclass(frozen=True)
class ReplProgress(Action):
    """Dispatched with a message about the progress of a starting REPL, for people who wait for it."""

    id: str
    note: str


@dataclass(frozen=True)
class ReplStarted(Action):
    """Dispatched when a REPL's process listens at `address`, so that Codriver can connect to it.

    `caution` is added to each caller's first answer, and `remark` to a single answer in the workspace. `awaits_trust`
    is true if another process would be started after the user accepts the workspace.
    """

    id: str
    address: str
    caution: str | None = None
    awaits_trust: bool = False
    remark: str | None = None


@dataclass(frozen=True)
class ReplConnected(Action):
    """Dispatched when a REPL is connected and ready. `key` becomes its key if it has none yet."""

    id: str
    profile: Profile
    address: str
    key: str = "repl"
    now: ValueReference[int] = from_context("now")


@dataclass(frozen=True)
class CapabilityFound(Action):
    """Dispatched when another capability of a connected REPL is discovered.

    The REPL has it until the connection is lost.
    """

    id: str
    name: str
    capability: Capability


@dataclass(frozen=True)
class ReplLost(Action):
    """Dispatched when a connection is lost or cannot be established. If `final` is true, it is not retried."""

    id: str
    cause: str
    final: bool = False
    is_unreachable: bool = False
    """Whether nothing listens at the REPL's address."""
    now: ValueReference[int] = from_context("now")


@dataclass(frozen=True)
class RetryDue(Action):
    """Dispatched when it is time to try again to connect to a REPL."""

    id: str
    failures: int
    """The number of consecutive failures when the pause began. If there are more by now, this retry is ignored."""
    now: ValueReference[int] = from_context("now")


@dataclass(frozen=True)
class RestartRepl(Action):
    """A request to end the process of a REPL and start a new one. `why` becomes part of the REPL's note."""

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
    """A request for a client's lane in a REPL, which is created if necessary."""

    id: str
    lane: Lane
    client: ValueReference[str | None] = from_context("client")


@dataclass(frozen=True)
class SessionClosed(Action):
    """Dispatched when a REPL has closed a session of a disconnected client."""

    id: str
    name: str


@dataclass(frozen=True)
class Evaluate(Action):
    """A request to evaluate code as soon as its queue is free.

    `head` is the beginning of the code, for display.
    """

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

    A job is a test run in a new process, or the evaluation of code in a frame of a failed test. `head` is the beginning
    of its command, for display.
    """

    request: Request
    head: str = ""
    who: ValueReference[str] = from_context("who")
    client: ValueReference[str | None] = from_context("client")
    now: ValueReference[int] = from_context("now")


@dataclass(frozen=True)
class ExternalEvaluationStarted(Action):
    """Dispatched when a REPL runs code that was not sent through this server, such as a cell run in an editor.

    `evaluation` is a new id for it.
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
    """Dispatched when input has been sent to an evaluation, so that it continues."""

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
    """Dispatched when an answer has informed the caller that its evaluation is running or needs input.

    Ignored if the evaluation has finished.
    """

    evaluation: str


@dataclass(frozen=True)
class StopRequested(Action):
    """Dispatched when somebody has requested that a running evaluation stops.

    `why` names the requester and the reason. It is included in the answer about the evaluation.
    """

    evaluation: str
    why: str


@dataclass(frozen=True)
class CancelQueued(Action):
    """A request to remove an evaluation from its queue. Ignored if the evaluation has started or finished."""

    evaluation: str
    why: str
    now: ValueReference[int] = from_context("now")


@dataclass(frozen=True)
class AddServerLine(Action):
    """A request to write a message of the server to the output log."""

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
    """A request to remember an error until it is withdrawn or the server stops.

    Repeating it with the same `code` increases its count.
    """

    code: str
    text: str
    now: ValueReference[int] = from_context("now")


@dataclass(frozen=True)
class WithdrawError(Action):
    """A request to forget the remembered error with this `code`, because it was resolved. Ignored if there is none."""

    code: str


ACTIONS: Final = tuple(Action.__subclasses__())
"""Every action of the core. A server must have a handler for each."""
