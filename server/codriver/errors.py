"""Every exception Codriver raises, every word by which it refuses, and helpers for its sentences.

::

    CodriverError
    ├── PeerError             the other side broke its protocol: the connection is closed
    │   └── ReplDisconnectedError
    ├── RefusedError          understood, and will not be done: becomes an ``{"ok": false}`` answer
    │   ├── (a class where somebody tells it from others; else raised by its reason, see `refused`)
    └── StartError            a server, REPL or command could not start: becomes a line on stderr

An exception says what happened, why, and what to do, with the values of its situation; one with a class carries them
and builds its own sentence. They become answers in one place, `codriver.tools.calls.gate`, and are told apart by
type, never by text.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


class CodriverError(Exception):
    """The root of the tree: catches all of Codriver's exceptions and no others."""


class PeerError(CodriverError):
    """The other side of a connection broke its protocol; the connection cannot go on."""


NOT_CONNECTED: Final = "it is not connected at the moment"
"""The cause of a request to a REPL without a connection: nothing was sent."""
MAY_HAVE_RUN: Final = "may have run, in part or whole"
"""The words on code with an unknown end."""
NOT_SENT_AGAIN: Final = f"{MAY_HAVE_RUN}, and is not sent again"
"""The words on code whose REPL, or whose connection to it, was lost."""


class ReplDisconnectedError(PeerError):
    """The connection to a REPL ended while something waited for it. The sent code may have run."""

    def __init__(self, cause: str) -> None:
        super().__init__(f"the connection to the REPL was lost: {cause}")
        self.cause = cause


Reason = Literal[
    "ambiguous-session",
    "bad-arguments",
    "bad-query",
    "bad-who",
    "busy",
    "capability-missing",
    "docs-unavailable",
    "edits-refused",
    "evaluation-failed",
    "file-changed",
    "file-unreadable",
    "file-unwritable",
    "forgotten",
    "internal-error",
    "interrupted",
    "no-code",
    "no-frame",
    "no-kernel",
    "no-repl",
    "no-such-skill",
    "no-tests",
    "not-a-repl",
    "not-interrupted",
    "not-waiting-for-input",
    "notebook-open",
    "nothing-to-undo",
    "other-worktree",
    "path-refused",
    "repl-busy",
    "repl-disconnected",
    "repl-not-answering",
    "repl-stopped",
    "repl-unreachable",
    "request-unsafe",
    "stopping",
    "switched-off",
    "syntax-error",
    "tests-failed",
    "timed-out",
    "too-many-forms",
    "too-many-in-background",
    "too-many-waits",
    "too-much-code",
    "unbalanced",
    "unknown-cell",
    "unknown-evaluation",
    "unknown-namespace",
    "unknown-session",
    "unknown-symbol",
    "wrong-language",
]
"""The closed list: every word by which Codriver refuses. Those of an application's seam stand beside the envelope."""


class RefusedError(CodriverError):
    """Understood, and will not be done. A refusal that callers catch has a class of its own; for others see `refused`.

    `hint` says what to do next; `details` holds further JSON values for the answer under camelCase keys.
    """

    reason: Reason

    def __init__(self, message: str, *, hint: str, details: Mapping[str, object] | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.details: Mapping[str, object] = details or {}


def refused(reason: Reason, message: str, *, hint: str, details: Mapping[str, object] | None = None) -> RefusedError:
    """A refusal that nobody catches by its type, to be raised."""
    error = RefusedError(message, hint=hint, details=details)
    error.reason = reason
    return error


class StartError(CodriverError):
    """A server, a REPL or a command could not start. The message is ready for a terminal."""

    exit_status: ClassVar[int] = 1
    """The exit status of a command that fails in this way."""


def cut(text: str, most: int) -> str:
    """At most `most` characters of a text; the last one marks a cut."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def cut_counted(text: str, most: int) -> str:
    """The first `most` characters of a text, with the number of all for a longer one."""
    return text if len(text) <= most else f"{text[:most]}… ({len(text)} characters)"


def few(names: Sequence[str], most: int = 5) -> str:
    """Some of the names, and the number of further ones."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def install_extra(extra: str) -> str:
    """The command that adds an extra to Codriver, in words: as nothing of it is published, from a checkout of it."""
    return f"`uv tool install '.[{extra}]'` in a checkout of Codriver (pipx and pip do it too: README, Install)"
