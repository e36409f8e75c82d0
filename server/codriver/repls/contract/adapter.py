"""The interface of an adapter (a connection to one REPL), and the errors that it raises.

Every adapter guarantees the following, whatever its server does:

- **Order.** The listener receives the events of an evaluation in the order in which the server sent them. All events
  that precede the end are delivered before the end is reported.
- **One end.** An evaluation ends once, at the first sign of its end. Later messages about it still reach the listener
  under its id, but a second end is ignored.
- **At most once.** A request is sent once and never repeated after a lost connection. In that case, the caller gets
  `ReplDisconnectedError`, and the code may or may not have run.
- **Draining.** The adapter always reads, even if nobody is waiting for a reply, so a REPL that floods it never blocks.
- **Time limits.** Every operation except an evaluation has a time limit, after which it raises `OpTimedOutError` and
  the connection stays open. Cancelling a call stops waiting for it. Cancelling a test run also interrupts the run.
- **Closing.** Leaving the context manager closes the adapter's sessions and sockets, reports the end of every running
  evaluation, and does not stop the REPL. Leaving it twice is harmless.

A session runs one evaluation at a time. The caller queues evaluations, and the adapter delays any that it receives too
early. Different sessions may run concurrently.

Arguments are defined in `codriver.core.requests` and `queries`, results in the other modules of this package, errors
in this module and in `codriver.errors`. Every operation that contacts the REPL may raise `ReplDisconnectedError`, after
which the adapter is closed, and `OpTimedOutError`. An operation on a session that is not open raises
`SessionNotOpenError`. An operation whose capability the profile lacks raises `CapabilityMissingError` with the
profile's hint on how to get it. All other errors are refusals and leave the connection as it was. If a port was read
from a file, the owner of the listener is checked on each connection, before anything is sent.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NoReturn, Protocol, TypeVar

import anyio

from codriver.core.print_limits import NO_PRINT_LIMITS, PrintLimits, ValuePart
from codriver.core.requests import MAIN_SESSION, Request
from codriver.errors import RefusedError, StartError, install_command, refused
from codriver.net.kernel_sockets import connection_distrust_reason

if TYPE_CHECKING:
    import socket
    from collections.abc import Mapping
    from contextlib import AbstractAsyncContextManager
    from pathlib import Path

    from codriver.core.evaluations import Failure
    from codriver.core.profiles import Profile
    from codriver.repls.contract.endpoints import Endpoint
    from codriver.repls.contract.events import Interruption, Listener, OnEnd, Value
    from codriver.repls.contract.loaded_code import LoadedCode
    from codriver.repls.contract.queries import Answer, Query
    from codriver.repls.contract.stack_trace_values import ThreadDump
    from codriver.repls.contract.symbols import SyntaxIssue
    from codriver.repls.contract.test_run_values import TestRun

T = TypeVar("T")

NO_ANSWER: Final = "{}"
"""The result of calling an op if its reply has no field `answer`: an empty JSON object."""


class ReplUnreachableError(RefusedError):
    """Raised when nothing is listening at a REPL's address."""

    reason = "repl-unreachable"

    def __init__(self, address: object, cause: str) -> None:
        super().__init__(
            f"no REPL could be reached at {address}: {cause}",
            hint="start the REPL, or correct its host and port. Its port file may be left over from an earlier REPL",
            details={"endpoint": str(address)},
        )
        self.address = address
        self.cause = cause


class UntrustedListenerError(RefusedError):
    """Raised when a port that was read from a file may belong to another user. Nothing was sent to it."""

    reason = "repl-unreachable"

    def __init__(self, address: object, file: object, why: str, *, remedy: str) -> None:
        """Create the error. `remedy` states how the user can connect to this REPL anyway."""
        super().__init__(
            f"nothing was sent to {address}, the address in {file}: {why}. To use that REPL anyway, {remedy}",
            hint=f"to use the REPL anyway, name it. Otherwise, remove {file} and start your own REPL again",
            details={"endpoint": str(address)},
        )
        self.address = address


class NotAReplError(RefusedError):
    """Raised when a server does not speak the expected protocol."""

    reason = "not-a-repl"

    def __init__(self, address: object, cause: str, *, protocol: str = "nREPL") -> None:
        super().__init__(
            f"the program at {address} is not a usable {protocol} server: {cause}",
            hint="check the port, which a REPL prints when it starts. If the REPL serves only one client at a time "
            "or is stuck in an endless loop, restart it",
            details={"endpoint": str(address)},
        )
        self.address = address
        self.cause = cause


class PackageMissingError(StartError):
    """Raised when Codriver's environment lacks packages that a REPL needs. Retrying does not help."""

    def __init__(self, address: object, extra: str, missing: str) -> None:
        super().__init__(
            f"cannot connect to the REPL at {address}, because {missing} is not installed in Codriver's environment. "
            f"Run {install_command(extra)}, and restart the server"
        )
        self.extra = extra


def unsafe_request_error(cause: str, *, hint: str) -> RefusedError:
    """Create the error for a request that was not sent because it would break the server."""
    return refused("request-unsafe", f"the code was not sent: {cause}", hint=hint)


class OpTimedOutError(RefusedError):
    """Raised when a REPL does not answer an operation in time. The connection stays open."""

    reason = "repl-not-answering"

    def __init__(self, op: str, timeout_s: float) -> None:
        super().__init__(
            f"the REPL did not answer the op {op!r} within {timeout_s:g} s",
            hint="the REPL may be busy or stuck. See list_sessions and server_health, interrupt its code, or restart "
            "it",
        )
        self.op = op


class SessionNotOpenError(RefusedError):
    """Raised when an operation names a session that is not open."""

    reason = "unknown-session"

    def __init__(self, name: str) -> None:
        super().__init__(f"there is no session {name!r} in this REPL", hint="open the session, or use the main session")


class EvaluationFailedError(RefusedError):
    """Raised when an operation fails while being evaluated in the REPL."""

    reason = "evaluation-failed"

    def __init__(self, what: str, error: Failure) -> None:
        super().__init__(f"{what} failed: {error.type}: {error.message}", hint="correct the arguments and call again")
        self.error = error


def missing_namespace_error(namespace: str) -> RefusedError:
    """Create the error for a namespace that is neither loaded nor in a file on the REPL's path."""
    return refused(
        "unknown-namespace",
        f"there is no namespace {namespace!r}. It is not loaded, and no file of that name is on the REPL's path",
        hint="load its file with load_file, or correct the name",
    )


class CapabilityMissingError(RefusedError):
    """Raised when a REPL lacks the capability for an operation."""

    reason = "capability-missing"

    def __init__(self, capability: str, provider: str | None = None, *, message: str | None = None) -> None:
        super().__init__(
            message or f"this REPL does not support {capability!r}",
            hint=provider or "use a REPL that supports it. list_sessions shows what each REPL can do",
            details={"capability": capability},
        )
        self.capability = capability


# ruff: noqa: ARG002 # operations that refuse do not use their arguments


class SharedReplOperations(Protocol):
    """Operations on REPLs that other programs use or own as well, such as interrupting other clients' evaluations.

    By default, each operation raises `CapabilityMissingError` or returns None.
    """

    @property
    def profile(self) -> Profile:
        """Return the dialect and capabilities of the REPL. They do not change while the connection is open."""
        ...

    async def interrupt_others(self) -> Interruption:
        """Interrupt the running evaluation of another client, which `interrupt` never does.

        Raises:
            CapabilityMissingError: this REPL cannot interrupt.
        """
        _refuse(self.profile, "interrupt")

    async def check_syntax(self, code: str) -> SyntaxIssue | None:
        """Return the syntax error in `code` without running it, or None if it is valid or the REPL cannot check it."""
        del code  # other REPLs only read code to run it
        return None

    async def restart(self) -> None:
        """Request that the REPL's owner restart it.

        The connection is closed and then established again with the new process.

        Raises:
            CapabilityMissingError: Codriver may not restart this REPL, or the REPL has no owner that can.
        """
        _refuse(self.profile, "restart")


class Adapter(SharedReplOperations, Protocol):
    """A connection to a REPL. The guarantees of every operation are in the module's docstring.

    A subclass must implement `profile`, `start_evaluation` and `wait_closed`. By default, every other operation raises
    `CapabilityMissingError` or returns an empty result.
    """

    def start_evaluation(self, request: Request, on_end: OnEnd, limits: PrintLimits = NO_PRINT_LIMITS) -> None:
        """Send code to be evaluated, and return immediately. Events go to the listener, and `on_end` is called once.

        With `forms`, the forms run in order and their values are reported in order. The first failing form ends the
        evaluation, and the failure includes its number. The kind `load-file` loads the code as the content of a file.
        The kind `load-forms` does the same if the namespace is missing, and otherwise runs `forms` in it. Neither
        changes the namespace of the session. Code for a missing namespace does not run, and fails with the type
        `NAMESPACE_MISSING`. Print limits apply if the profile has `print-limits`.

        If the outcome is unknown, `on_end` receives an error instead of an ending: `ReplDisconnectedError`, or a
        `RefusedError` if only the session's connection was lost.

        If any of the errors below is raised, nothing was sent and `on_end` is not called.

        Raises:
            ReplDisconnectedError: the connection is closed.
            SessionNotOpenError: the session is not open.
            RefusedError: the request would break this server.
            CapabilityMissingError: the code is a file, and the REPL cannot load files.
        """
        ...

    async def wait_closed(self) -> str:
        """Wait until the connection is closed, and return the reason as text. Never raises."""
        ...

    async def interrupt(self, session: str = MAIN_SESSION) -> Interruption:
        """Interrupt the evaluation in `session` and discard its remaining forms.

        If nothing is running, the outcome is `idle`, and later evaluations are not affected.

        Raises:
            CapabilityMissingError: this REPL cannot interrupt.
        """
        _refuse(self.profile, "interrupt")

    async def send_input(self, text: str, session: str = MAIN_SESSION) -> None:
        """Send `text` to code that reads stdin in `session`. An empty string means end of input.

        No newline is added.

        Raises:
            CapabilityMissingError: code cannot read input in this REPL.
        """
        _refuse(self.profile, "stdin")

    async def query(self, query: Query[Answer]) -> Answer:
        """Send a query and return its answer.

        Raises:
            CapabilityMissingError: this REPL lacks the capability that the query needs.
            EvaluationFailedError: the REPL failed to answer.
        """
        if query.capability:
            _refuse(self.profile, query.capability)
        return query.read({})

    async def changed_namespaces(self, root: Path, known: Mapping[str, tuple[str, bool]]) -> LoadedCode | None:
        """Return the namespaces that were loaded from files below `root` and have changed since an earlier answer.

        `known` maps the name of each namespace in that answer to its mark, and to whether it belongs to a file below
        `root`. Namespaces with the same mark are omitted. Returns None if the REPL itself answers the query `Drift`.

        Raises:
            EvaluationFailedError: the REPL failed to answer.
        """
        return None

    def companion(self, kind: type[T]) -> T | None:
        """Return the companion of this type attached to the REPL by a feature, or None."""
        return None

    async def call_op(self, op: str, fields: Mapping[str, str]) -> str:
        """Call an op that a feature adds to Codriver's worker, and return its `answer`, or `NO_ANSWER`.

        The op can be called while other code is running. Reports in its reply, and in later messages with the id of
        this request, are passed to the listener.

        Raises:
            CapabilityMissingError: the REPL has no such op.
            EvaluationFailedError: the REPL failed to answer.
        """
        raise CapabilityMissingError(op)

    async def macroexpand(
        self, code: str, namespace: str | None, session: str = MAIN_SESSION, *, full: bool = False
    ) -> str:
        """Expand a macro call by one step, or with `full` until the result is no longer a macro call.

        With `full`, inner forms are expanded too if the dialect has a function for that.

        Raises:
            CapabilityMissingError: this REPL has no macros, or cannot expand them.
            EvaluationFailedError: the form cannot be read or expanded.
        """
        _refuse(self.profile, "macroexpand")

    async def run_tests(
        self, namespace: str | None, test: str | None, session: str = MAIN_SESSION, *, timeout_s: float = 600.0
    ) -> TestRun:
        """Run a single test, all tests in a namespace, or all loaded tests.

        A run that is cancelled or exceeds `timeout_s` is interrupted if the REPL supports it. For a finer selection,
        start an evaluation of the kind `run-tests`, whose value is the run as formatted by `encode_report`.

        Raises:
            CapabilityMissingError: this REPL cannot run tests.
            RefusedError: there is no such namespace.
            EvaluationFailedError: no such test exists, or its namespace does not load.
        """
        _refuse(self.profile, "test")

    async def finished_tests(self, evaluation: str) -> TestRun | None:
        """Return the results so far of a test run in progress. `results` contains only tests that did not pass.

        Returns None if the REPL does not report progress, or if no test has finished yet. Never raises.
        """
        del evaluation
        return None

    async def dump_threads(self, session: str = MAIN_SESSION) -> ThreadDump | None:
        """Return the current stacks of the threads in `session`, or None if the REPL cannot provide them.

        Never raises.
        """
        return None

    async def read_value(self, evaluation: str, part: ValuePart) -> Value | str:
        """Return a part of a value that was truncated when printed, or the reason why it is not available.

        Raises:
            EvaluationFailedError: the value cannot be printed.
        """
        return "this REPL stores no values. Evaluate an expression for the part, or pass a larger maxLength"

    async def open_session(self, name: str, *, shares_names: bool = False) -> None:
        """Open a session with its own namespace and `*1`, unless it is already open. The main session always exists.

        With `shares_names`, the session uses the main session's definitions, even if other sessions in this REPL do
        not.

        Raises:
            CapabilityMissingError: this REPL has a single session.
            ReplUnreachableError: the session needs another connection, which cannot be established.
        """
        _refuse(self.profile, "sessions")

    async def close_session(self, name: str) -> None:
        """Close a session opened by `open_session`. Ignore unknown names and the main session. Never raises."""
        del name  # no such session can be open


def _refuse(profile: Profile, capability: str) -> NoReturn:
    raise CapabilityMissingError(capability, profile.missing.get(capability))


class Connector(Protocol):
    """A function that connects to REPLs of one protocol."""

    def __call__(
        self, address: str, *, listener: Listener, workspace: Path | None, is_remote: bool, found_by: Path | None = None
    ) -> AbstractAsyncContextManager[Adapter]:
        """Return a context manager that connects to the REPL at `address` and yields its adapter.

        `address` is `host:port`, or whatever the protocol uses instead, without the prefix `PROTOCOL://`. Stack frames
        in files below `workspace` count as the user's. With `is_remote`, the REPL may be behind a tunnel that can
        disappear unnoticed, so the connection is checked regularly. `found_by` is the file in which the address was
        found, if the user did not name it.

        Raises:
            UntrustedListenerError: the port belongs to another user, or its owner is unknown. Nothing was sent.
            ReplUnreachableError: nothing is listening at the address.
            NotAReplError: the server does not speak the protocol.
        """
        ...


async def check_listener(connection: socket.socket, endpoint: Endpoint) -> None:
    """Check that the listener at an endpoint that was read from a file belongs to the current user.

    Raises:
        UntrustedListenerError: the process belongs to another user, or its owner cannot be determined.
    """
    file = endpoint.found_by
    if file is None:
        return
    if why := await anyio.to_thread.run_sync(connection_distrust_reason, connection, file):
        raise UntrustedListenerError(
            endpoint, file, why, remedy=f"start the server with --nrepl {endpoint}, or set `nrepl` in your own settings"
        )
