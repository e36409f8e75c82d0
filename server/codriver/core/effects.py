"""The effects: every instruction of the core to the code outside it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

from codriver.core.records import ValueReference, dataclass, from_context, from_settings, from_state

if TYPE_CHECKING:
    from codriver.core.actions import Action
    from codriver.core.requests import Request
    from codriver.core.state import Lifecycle


@dataclass(frozen=True, kw_only=True)
class Effect:
    """Base class of effects, which are instructions for code outside the core.

    `then` contains the actions to dispatch afterwards. They can refer to the effect's result, if it has one.
    """

    then: tuple[Action, ...] = ()


@dataclass(frozen=True)
class OpenListener(Effect):
    """An instruction to listen for connections. Its result is the host and the port in use."""

    host: ValueReference[str] = from_settings("host")
    port: ValueReference[int] = from_settings("mcp_socket_server_port")


@dataclass(frozen=True)
class PublishAddress(Effect):
    """An instruction to write the port file and the server's record, so that clients can find the server."""

    lifecycle: ValueReference[Lifecycle] = from_state("lifecycle")


@dataclass(frozen=True)
class ShutDownServer(Effect):
    """An instruction to shut the server down.

    New calls are refused, running code is interrupted, pending calls are answered, and connections are closed.
    """

    reason: str = ""


@dataclass(frozen=True)
class StoreDocument(Effect):
    """An instruction to store a document under its kind and name, so that it outlives this server."""

    kind: str
    name: str
    text: str
    data: str = ""
    """The data that the text describes, as a JSON object."""
    now: ValueReference[int] = from_context("now")


@dataclass(frozen=True)
class NotifyClients(Effect):
    """An instruction to notify all initialized clients that a list has changed."""

    changed: Literal["tools", "resources"] = "tools"


@dataclass(frozen=True)
class ConnectRepl(Effect):
    """An instruction to connect to a REPL at its address."""

    id: str


@dataclass(frozen=True)
class StartRepl(Effect):
    """An instruction to start a REPL's process and then connect to it."""

    id: str


@dataclass(frozen=True)
class EndRepl(Effect):
    """An instruction to close the connection of a REPL, and to end its process if Codriver started it."""

    id: str


@dataclass(frozen=True)
class RetryRepl(Effect):
    """An instruction to retry a connection after `delay_s` seconds, by dispatching `then`."""

    id: str
    delay_s: float


@dataclass(frozen=True)
class RunEvaluation(Effect):
    """An instruction to send code to a REPL and to report its outcome. The code is interrupted after `max_run_ms`."""

    repl: str
    request: Request
    max_run_ms: ValueReference[int] = from_settings("max_run_ms")
    max_length: ValueReference[int] = from_settings("max_length")
    max_depth: ValueReference[int] = from_settings("max_depth")


@dataclass(frozen=True)
class RunJob(Effect):
    """An instruction to run a job and to report its outcome. The job is interrupted after `max_run_ms`."""

    request: Request
    max_run_ms: ValueReference[int] = from_settings("max_run_ms")


@dataclass(frozen=True)
class CloseSession(Effect):
    """An instruction to close an isolated session in the REPL."""

    id: str
    name: str


@dataclass(frozen=True)
class StopEvaluation(Effect):
    """An instruction to interrupt an evaluation that nobody needs any more, if its REPL supports interrupts."""

    evaluation: str
    why: str


@dataclass(frozen=True)
class StartGracePeriod(Effect):
    """An instruction to dispatch `then` after `grace_ms` milliseconds."""

    grace_ms: ValueReference[int] = from_settings("gone_client_grace_ms")


@dataclass(frozen=True)
class WakeWaiters(Effect):
    """An instruction to wake the callers waiting for an evaluation, because its status has changed."""

    evaluation: str


@dataclass(frozen=True)
class AppendEntry(Effect):
    """An instruction to append an entry to the output log."""

    category: Literal["evaluatedCode", "otherOutput", "otherErrorOutput"]
    text: str
    who: str | None = None
    ns: str | None = None
    session_key: str | None = None
    evaluation: str | None = None
    document: str | None = None
    file: str | None = None
    kind: str | None = None
    data: str | None = None
    now: ValueReference[int] = from_context("now")


@dataclass(frozen=True)
class SendLogMessage(Effect):
    """An instruction to send a message to the clients that have subscribed to log messages."""

    level: Literal["info", "warning"]
    text: str
    repl: str | None = None
    """The key of the REPL that the message is about."""


EFFECTS: Final = tuple(Effect.__subclasses__())
"""Every effect of the core. A server must have a performer for each."""
