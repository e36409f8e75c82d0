"""Everything the core asks the shell to do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

from codriver.core.records import Later, dataclass, from_context, from_settings, from_state

if TYPE_CHECKING:
    from codriver.core.actions import Action
    from codriver.core.state import AppStream, Life
    from codriver.core.values import Request


@dataclass(frozen=True, kw_only=True)
class Effect:
    """An effect on the outside. `then`: the actions to dispatch with its result, if it gives one."""

    then: tuple[Action, ...] = ()


@dataclass(frozen=True)
class Listen(Effect):
    """Open the listener. Continuation: (host, port it got)."""

    host: Later[str] = from_settings("host")
    port: Later[int] = from_settings("mcp_socket_server_port")


@dataclass(frozen=True)
class Announce(Effect):
    """Write the port file and its companion, now that the server can be reached."""

    life: Later[Life] = from_state("life")


@dataclass(frozen=True)
class WindDown(Effect):
    """Refuse new calls, interrupt what runs, answer what can be answered, close everything."""

    reason: str = ""


@dataclass(frozen=True)
class Remember(Effect):
    """Keep a document beyond this run, under its kind and its name."""

    kind: str
    name: str
    text: str
    now: Later[int] = from_context("now")


@dataclass(frozen=True)
class NotifyClients(Effect):
    """Tell every initialized client that a list changed."""

    changed: Literal["tools", "resources"] = "tools"


@dataclass(frozen=True)
class ConnectRepl(Effect):
    """Reach the REPL at its address."""

    id: str


@dataclass(frozen=True)
class StartRepl(Effect):
    """Start the REPL's process, then reach it."""

    id: str


@dataclass(frozen=True)
class EndRepl(Effect):
    """Close the connection and end the process, if it is ours."""

    id: str


@dataclass(frozen=True)
class RetryRepl(Effect):
    """Dispatch the continuation after `delay_s`."""

    id: str
    delay_s: float


@dataclass(frozen=True)
class RunEvaluation(Effect):
    """Send the code to the REPL and report its end. Whatever runs longer than `max_run_ms` is interrupted."""

    repl: str
    request: Request
    max_run_ms: Later[int] = from_settings("max_run_ms")
    max_length: Later[int] = from_settings("max_length")
    max_depth: Later[int] = from_settings("max_depth")


@dataclass(frozen=True)
class CloseSession(Effect):
    """End an isolated session in the REPL."""

    id: str
    name: str


@dataclass(frozen=True)
class StopEvaluation(Effect):
    """Interrupt an evaluation that nobody wants any more, where its REPL can."""

    evaluation: str
    why: str


@dataclass(frozen=True)
class AwaitGrace(Effect):
    """Dispatch the continuation after `grace_ms`."""

    grace_ms: Later[int] = from_settings("gone_client_grace_ms")


@dataclass(frozen=True)
class RenewAppStream(Effect):
    """Tell the application, before its lease is over, that a stream is still watched. Continuation: whether it is."""

    stream: AppStream


@dataclass(frozen=True)
class EndAppStream(Effect):
    """End a stream in the application."""

    stream: AppStream


@dataclass(frozen=True)
class TellAppStreamOver(Effect):
    """Tell whoever waits for the events of a stream that no more come, and why."""

    stream: AppStream
    why: str


@dataclass(frozen=True)
class WakeWaiters(Effect):
    """Wake whoever waits for the evaluation: it is over, or its status changed."""

    evaluation: str


@dataclass(frozen=True)
class Append(Effect):
    """Append to the output log."""

    category: Literal["evaluatedCode", "otherOutput", "otherErrorOutput"]
    text: str
    who: str | None = None
    ns: str | None = None
    session_key: str | None = None
    evaluation: str | None = None
    notebook: str | None = None
    file: str | None = None
    now: Later[int] = from_context("now")


@dataclass(frozen=True)
class LogMessage(Effect):
    """Tell the clients that asked for the server's own messages."""

    level: Literal["info", "warning"]
    text: str
    repl: str | None = None
    """The key of the REPL that it is about."""


EFFECTS: Final = tuple(Effect.__subclasses__())
"""Every effect of the core; a server needs a performer for each."""
