"""Everything the core asks the shell to do, by namespace."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

from codriver.core.dispatch import Effect

if TYPE_CHECKING:
    from codriver.core.state import Request


@dataclass(frozen=True)
class Listen(Effect):
    """Open the listener. Continuation: (host, port, the port asked for)."""

    namespace: ClassVar[str] = "app"


@dataclass(frozen=True)
class Announce(Effect):
    """Write the port file and its companion, now that the server can be reached."""

    namespace: ClassVar[str] = "app"


@dataclass(frozen=True)
class WindDown(Effect):
    """Refuse new calls, interrupt what runs, answer what can be answered, close everything."""

    namespace: ClassVar[str] = "app"
    reason: str = ""


@dataclass(frozen=True)
class NotifyClients(Effect):
    """Tell every initialized client that a list changed."""

    namespace: ClassVar[str] = "mcp"
    changed: Literal["tools", "resources"] = "tools"


@dataclass(frozen=True)
class ConnectRepl(Effect):
    """Reach the REPL at its address."""

    namespace: ClassVar[str] = "repl"
    id: str


@dataclass(frozen=True)
class StartRepl(Effect):
    """Start the REPL's process, then reach it."""

    namespace: ClassVar[str] = "repl"
    id: str


@dataclass(frozen=True)
class EndRepl(Effect):
    """Close the connection and end the process, if it is ours."""

    namespace: ClassVar[str] = "repl"
    id: str


@dataclass(frozen=True)
class RetryRepl(Effect):
    """Dispatch the continuation after `delay_s`."""

    namespace: ClassVar[str] = "repl"
    id: str
    delay_s: float


@dataclass(frozen=True)
class RunEvaluation(Effect):
    """Send the code to the REPL and report its end."""

    namespace: ClassVar[str] = "repl"
    evaluation: str
    repl: str
    session: str
    generation: int
    request: Request


@dataclass(frozen=True)
class CloseSession(Effect):
    """End an isolated session in the REPL."""

    namespace: ClassVar[str] = "repl"
    id: str
    name: str


@dataclass(frozen=True)
class StopEvaluation(Effect):
    """Interrupt an evaluation that nobody wants any more, where its REPL can."""

    namespace: ClassVar[str] = "repl"
    evaluation: str
    why: str


@dataclass(frozen=True)
class AwaitGrace(Effect):
    """Dispatch the continuation after `grace_ms`."""

    namespace: ClassVar[str] = "repl"
    grace_ms: int


@dataclass(frozen=True)
class SettleEvaluation(Effect):
    """Wake whoever waits for the evaluation: it is over, or its status changed."""

    namespace: ClassVar[str] = "repl"
    evaluation: str


@dataclass(frozen=True)
class Append(Effect):
    """Append to the output log."""

    namespace: ClassVar[str] = "log"
    category: Literal["evaluatedCode", "otherOutput", "otherErrorOutput"]
    text: str
    who: str | None = None
    ns: str | None = None
    session_key: str | None = None
    evaluation: str | None = None
