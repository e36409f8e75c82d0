"""Everything that can happen to the state, by namespace: `app`, `mcp`, `repl`, `log`, `db`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Literal

from codriver.core.dispatch import Action, from_context

if TYPE_CHECKING:
    from codriver.core.state import Failure, Origin, Profile, Request


@dataclass(frozen=True)
class AppAction(Action):
    """About the server's life."""

    namespace: ClassVar[str] = "app"


@dataclass(frozen=True)
class Start(AppAction):
    """Begin to start. Harmless unless stopped."""

    session_id: str
    process_id: int
    version: str
    workspace: str
    now: int = field(default_factory=lambda: from_context("now"))


@dataclass(frozen=True)
class Listening(AppAction):
    """The listener is open on `port`; `asked_port` is the one wanted."""

    host: str
    port: int
    asked_port: int


@dataclass(frozen=True)
class Stop(AppAction):
    """Begin to stop, for `reason`. Harmless unless starting or started."""

    reason: str


@dataclass(frozen=True)
class Stopped(AppAction):
    """All is closed."""


@dataclass(frozen=True)
class McpAction(Action):
    """About the clients."""

    namespace: ClassVar[str] = "mcp"


@dataclass(frozen=True)
class ClientConnected(McpAction):
    """A connection was let in."""

    client: str
    now: int = field(default_factory=lambda: from_context("now"))


@dataclass(frozen=True)
class ClientIntroduced(McpAction):
    """A client said who it is; from now on it gets notifications."""

    client: str
    name: str
    version: str
    protocol: str


@dataclass(frozen=True)
class ClientGone(McpAction):
    """A connection is over; what it held is freed."""

    client: str


@dataclass(frozen=True)
class GraceOver(McpAction):
    """A client has been gone for as long as what it left may hold up others."""

    client: str


@dataclass(frozen=True)
class ClientTold(McpAction):
    """The caller `who` of a client has been told how the others' evaluations stand."""

    client: str
    who: str


@dataclass(frozen=True)
class ResourcesChanged(McpAction):
    """The list of resources (skills) is another one now."""


@dataclass(frozen=True)
class ToolsChanged(McpAction):
    """The list of tools is another one now, for another reason than what the REPLs can do."""


@dataclass(frozen=True)
class ReplAction(Action):
    """About REPLs, their sessions and their evaluations."""

    namespace: ClassVar[str] = "repl"


@dataclass(frozen=True)
class ReplFound(ReplAction):
    """A REPL to connect to or to start. Harmless when `id` is known and not given up."""

    id: str
    key: str
    origin: Origin
    address: str | None = None
    keyed: bool = True
    dialect: str = "unknown"
    rewritten: bool = False
    """Its port file was written again: a REPL that could not be reached may listen now, also at the same port."""
    now: int = field(default_factory=lambda: from_context("now"))


@dataclass(frozen=True)
class ReplForgotten(ReplAction):
    """Its port file is gone and it is not connected: drop it."""

    id: str


@dataclass(frozen=True)
class ReplProgress(ReplAction):
    """Something a person waiting for this REPL would want to know."""

    id: str
    note: str


@dataclass(frozen=True)
class ReplStarted(ReplAction):
    """The process runs and listens at `address`; connecting is next."""

    id: str
    address: str


@dataclass(frozen=True)
class ReplConnected(ReplAction):
    """The connection stands and shows this profile."""

    id: str
    profile: Profile
    address: str
    now: int = field(default_factory=lambda: from_context("now"))


@dataclass(frozen=True)
class ReplLost(ReplAction):
    """The connection, or the try to make one, ended. `final`: no use in trying again."""

    id: str
    cause: str
    final: bool = False
    now: int = field(default_factory=lambda: from_context("now"))


@dataclass(frozen=True)
class RetryDue(ReplAction):
    """The pause after a failure is over."""

    id: str
    failures: int
    """Of which failure; a later one makes this retry stale."""
    now: int = field(default_factory=lambda: from_context("now"))


@dataclass(frozen=True)
class RestartRepl(ReplAction):
    """End the process and start it anew. `why` enters the note."""

    id: str
    why: str


@dataclass(frozen=True)
class SessionOpened(ReplAction):
    """A session of its own for `who`, which ends with `client`."""

    id: str
    name: str
    who: str
    client: str | None


@dataclass(frozen=True)
class SessionClosed(ReplAction):
    """A session that was left is closed in the REPL."""

    id: str
    name: str


@dataclass(frozen=True)
class Evaluate(ReplAction):
    """Accept an evaluation under the id `evaluation`; it runs when its lane is free. `head`: its code, to be shown."""

    evaluation: str
    repl: str
    session: str
    who: str
    client: str | None
    request: Request
    head: str = ""
    now: int = field(default_factory=lambda: from_context("now"))


@dataclass(frozen=True)
class InputWanted(ReplAction):
    """The evaluation waits for input."""

    evaluation: str


@dataclass(frozen=True)
class InputGiven(ReplAction):
    """Input was sent; the evaluation goes on."""

    evaluation: str


@dataclass(frozen=True)
class EvaluationEnded(ReplAction):
    """The evaluation is over."""

    evaluation: str
    status: Literal["done", "failed", "interrupted", "lost"]
    session_namespace: str | None = None
    failure: Failure | None = None
    notes: tuple[str, ...] = ()
    now: int = field(default_factory=lambda: from_context("now"))


@dataclass(frozen=True)
class StopAsked(ReplAction):
    """Somebody wants a running evaluation to end: `why` says who, and is told with its end."""

    evaluation: str
    why: str


@dataclass(frozen=True)
class CancelQueued(ReplAction):
    """Take a queued evaluation out of its queue; it never runs. Harmless when it is not queued."""

    evaluation: str
    why: str
    now: int = field(default_factory=lambda: from_context("now"))


@dataclass(frozen=True)
class LogAction(Action):
    """About what the server says of itself."""

    namespace: ClassVar[str] = "log"


@dataclass(frozen=True)
class Say(LogAction):
    """Put a line of the server's own into the output log."""

    text: str
    error: bool = False
    repl: str | None = None


@dataclass(frozen=True)
class LatchError(LogAction):
    """Remember an error until the server stops; the same `code` again is counted."""

    code: str
    text: str
    now: int = field(default_factory=lambda: from_context("now"))


@dataclass(frozen=True)
class DbAction(Action):
    """About what survives a restart."""

    namespace: ClassVar[str] = "db"


@dataclass(frozen=True)
class HistoryRestored(DbAction):
    """The history was read; `problem` says what was wrong with it, if anything."""

    count: int
    problem: str | None = None
