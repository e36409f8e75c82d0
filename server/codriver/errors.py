"""Every exception Codriver raises, one class per situation.

::

    CodriverError
    ├── PeerError             the other side broke its protocol: the connection is closed
    │   └── ReplDisconnectedError
    ├── RefusedError          understood, and will not be done: becomes an ``{"ok": false}`` answer
    │   ├── (one class per `reason`)
    └── StartError            a server, REPL or command could not start: becomes a line on stderr

An exception carries the values of its situation and builds its own sentence: what happened, why, and what to do.
They become answers in one place, `codriver.tools.calls.envelope`, and are told apart by type, never by text.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

if TYPE_CHECKING:
    from collections.abc import Mapping


class CodriverError(Exception):
    """The root of the tree: catches everything that is ours and nothing that is not."""


class PeerError(CodriverError):
    """The other side of a connection broke its protocol; the connection cannot go on."""


NOT_CONNECTED: Final = "it is not connected at the moment"
"""The cause where something is asked of a REPL to which no connection stands: nothing was sent."""


class ReplDisconnectedError(PeerError):
    """The connection to a REPL ended while something waited for it. What was sent may have run."""

    def __init__(self, cause: str) -> None:
        super().__init__(f"the connection to the REPL was lost: {cause}")
        self.cause = cause


class RefusedError(CodriverError):
    """Understood, and will not be done.

    `reason` is one of the closed list of contract words; `hint` says what to do next; `details` holds further
    JSON values for the answer under camelCase keys.
    """

    reason: ClassVar[str] = "refused"

    def __init__(self, message: str, *, hint: str, details: Mapping[str, object] | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.details: Mapping[str, object] = details or {}


class StartError(CodriverError):
    """A server, a REPL or a command could not start. The message is ready for a terminal."""

    exit_status: ClassVar[int] = 1
    """The exit status of a command that fails so."""


def install_extra(extra: str) -> str:
    """The command that adds an extra to Codriver, in words: as nothing of it is published, from a checkout of it."""
    return f"`uv tool install '.[{extra}]'` in a checkout of Codriver (pipx and pip do it too: README, Install)"
