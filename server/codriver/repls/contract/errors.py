"""The refusals of adapters: errors after which the connection lives on or never was.

Which call raises which stands in `codriver.repls.contract.adapter`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from codriver.errors import RefusedError, StartError, install_extra

if TYPE_CHECKING:
    from codriver.core.values import Failure


class ReplUnreachableError(RefusedError):
    """A REPL could not be reached: nobody listens at its address."""

    reason = "repl-unreachable"

    def __init__(self, place: object, cause: str) -> None:
        super().__init__(
            f"no REPL could be reached at {place}: {cause}",
            hint="start the REPL, or correct its host and port; a port file may be left over from one that ended",
            details={"endpoint": str(place)},
        )
        self.place = place
        self.cause = cause


class StrangeListenerError(RefusedError):
    """The port that a file names may be another user's by now, so that nothing was sent there."""

    reason = "repl-unreachable"

    def __init__(self, place: object, file: object, why: str, *, way: str) -> None:
        """`way`: how the user names the REPL, if it is meant."""
        super().__init__(
            f"nothing was sent to {place}, to which {file} leads: {why}; if you mean that REPL, name it: {way}",
            hint=f"name the REPL if it is meant; else remove {file}, and start your own REPL again",
            details={"endpoint": str(place)},
        )
        self.place = place


class NotAnReplError(RefusedError):
    """Something listens and does not speak the protocol."""

    reason = "not-a-repl"

    def __init__(self, place: object, cause: str, *, protocol: str = "nREPL") -> None:
        super().__init__(
            f"what listens at {place} is no {protocol} server that can be used: {cause}",
            hint="check the port: a REPL prints it when it starts; a single-threaded REPL may also be stuck in an "
            "endless loop, or serve one client at a time, and then a restart helps",
            details={"endpoint": str(place)},
        )
        self.place = place
        self.cause = cause


class PackageMissingError(StartError):
    """A REPL needs packages that are not installed beside Codriver. Trying again changes nothing."""

    def __init__(self, place: object, extra: str, missing: str) -> None:
        super().__init__(
            f"the REPL at {place} cannot be connected to, as {missing} is not installed where Codriver runs: "
            f"{install_extra(extra)}, and restart the server"
        )
        self.extra = extra


class RequestUnsafeError(RefusedError):
    """A request that this server is known to break on, and so was not sent."""

    reason = "request-unsafe"

    def __init__(self, problem: str, *, hint: str) -> None:
        super().__init__(f"the code was not sent: {problem}", hint=hint)


class OpTimedOutError(RefusedError):
    """A REPL did not answer an op in time. The connection lives on."""

    reason = "repl-not-answering"

    def __init__(self, op: str, timeout_s: float) -> None:
        super().__init__(
            f"the REPL did not answer the op {op!r} within {timeout_s:g} s",
            hint="it may be busy or stuck: look at list_sessions and server_health, interrupt what runs, or restart it",
        )
        self.op = op


class SessionNotOpenError(RefusedError):
    """A session was named that is not open."""

    reason = "unknown-session"

    def __init__(self, name: str) -> None:
        super().__init__(f"there is no session {name!r} on this REPL", hint="open it first, or use the main session")


class SessionLostError(RefusedError):
    """A session lost the connection of its own, and the REPL goes on. What was sent may have run."""

    reason = "repl-disconnected"

    def __init__(self, cause: str) -> None:
        super().__init__(
            f"this session's own connection was lost: {cause}; the code may have run, in part or whole, and is not "
            "sent again; the session gets a new connection with the next evaluation",
            hint="check what the code did before you repeat it",
        )


class EvaluationFailedError(RefusedError):
    """An operation that is done by evaluation failed in it."""

    reason = "evaluation-failed"

    def __init__(self, what: str, error: Failure) -> None:
        super().__init__(f"{what} failed: {error.type}: {error.message}", hint="correct what was given and call again")
        self.error = error


class NamespaceMissingError(RefusedError):
    """The namespace that was named is neither loaded nor in any file that the REPL would load."""

    reason = "unknown-namespace"

    def __init__(self, namespace: str) -> None:
        super().__init__(
            f"there is no namespace {namespace!r}: it is not loaded, and no file of that name is on the REPL's path",
            hint="load its file with load_file, or correct the name",
        )


class CapabilityMissingError(RefusedError):
    """The REPL cannot do what was asked."""

    reason = "capability-missing"

    def __init__(self, capability: str, provider: str | None = None, *, message: str | None = None) -> None:
        super().__init__(
            message or f"this REPL has no capability {capability!r}",
            hint=provider or "use a REPL that has it: list_sessions shows what each can do",
            details={"capability": capability},
        )
        self.capability = capability
