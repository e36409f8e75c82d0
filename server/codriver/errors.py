"""Base classes of Codriver's exceptions, and helpers for their messages.

    CodriverError
    ├── PeerError             the peer violated its protocol, and the connection is closed
    │   └── ReplDisconnectedError
    ├── RefusedError          the request was understood and refused, and becomes an ``{"ok": false}`` answer
    │   ├── (a subclass if callers catch it; otherwise raised with its reason, see `refused`)
    └── StartError            a server, REPL or command could not start, and the message is printed to stderr

A message says what happened, why, and what to do, with the specific values. Subclasses store these values and build the
message. Refusals become answers in a single place, `codriver.tools.calls.gate`. Code distinguishes errors by type and
never by text.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


class CodriverError(Exception):
    """Base class of all exceptions raised by Codriver."""


class PeerError(CodriverError):
    """Raised when the peer violates the protocol. The connection must be closed."""


NOT_CONNECTED: Final = "it is not connected at the moment"
"""The cause of an error for a request to a REPL without a connection. Nothing was sent."""
MAY_HAVE_RUN: Final = "may have run partly or completely"
"""The clause for code whose outcome is unknown."""
NOT_SENT_AGAIN: Final = f"{MAY_HAVE_RUN}, and is not sent again"
"""The clause for code that was running when its REPL, or the connection to it, was lost."""


class ReplDisconnectedError(PeerError):
    """Raised when the connection to a REPL is lost during a request. Code that was sent may have run."""

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
"""All reasons for refusals by Codriver. Answers from applications have their own reasons."""


class RefusedError(CodriverError):
    """Raised when a valid request is refused. Subclasses exist for refusals that callers catch.

    `hint` describes what to do next. `details` contains additional JSON values for the answer, with camelCase keys.
    """

    reason: Reason

    def __init__(self, message: str, *, hint: str, details: Mapping[str, object] | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.details: Mapping[str, object] = details or {}


def refused(reason: Reason, message: str, *, hint: str, details: Mapping[str, object] | None = None) -> RefusedError:
    """Create a `RefusedError` with the given reason, for the caller to raise."""
    error = RefusedError(message, hint=hint, details=details)
    error.reason = reason
    return error


class StartError(CodriverError):
    """Raised when a server, a REPL or a command cannot be started. Its message can be printed as it is."""

    exit_status: ClassVar[int] = 1
    """The exit status of a command that fails this way."""


def truncate(text: str, most: int) -> str:
    """Truncate a string to `most` characters. A truncated text ends with an ellipsis."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def truncate_with_length(text: str, most: int) -> str:
    """Truncate a string to `most` characters. A truncated text is followed by an ellipsis and the original length."""
    return text if len(text) <= most else f"{text[:most]}… ({len(text)} characters)"


def join_first(names: Sequence[str], most: int = 5) -> str:
    """Join the first `most` names with commas, followed by the number of remaining ones."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def format_count(count: int, noun: str, plural: str = "") -> str:
    """Return a count followed by its noun. The plural is the noun with an `s`, unless a different one is passed."""
    return f"{count} {noun if count == 1 else plural or f'{noun}s'}"


def install_command(extra: str) -> str:
    """Return the command that installs Codriver with an extra, formatted for a message."""
    return f"`uv tool install '.[{extra}]'` in a checkout of Codriver (with pipx or pip: docs/get-started/install.md)"
