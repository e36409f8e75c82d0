"""The contract of an adapter: our side of one REPL, whatever its protocol; its refusals; the connector that makes one.

What every adapter guarantees, whatever the server behind it does:

* **Order.** Events of one evaluation reach the listener in the order the server sent them, and all that came before
  the evaluation was over reach it before the end is told.
* **The end.** An evaluation ends once, at the first sign of its end. Later messages about the evaluation still reach
  the listener under its id; a second end is ignored.
* **Never twice.** An adapter sends a request once. After a lost connection nothing is sent again: the caller gets
  `ReplDisconnectedError` and the code may or may not have run.
* **Draining.** The adapter always reads, also when nobody waits, so a flooding REPL cannot stall on us.
* **Time.** Every op but evaluation has a time limit of its own; a server that does not answer raises
  `OpTimedOutError`, and the connection lives on. Cancelling a call stops the waiting, and of a test run the run.
* **Closing.** Leaving the context that opened the adapter closes its sessions and sockets, tells every evaluation that
  was not over its end, and leaves the REPL alive; leaving twice is harmless.

One evaluation at a time per session: the caller queues, and the adapter holds back what comes all the same.
Different sessions may run side by side.

Values in and out are in `codriver.core.values` and, beside this file, in `adapter_values` and `questions`; errors here
and in `codriver.errors`. Every operation that asks the REPL may raise two errors, not repeated below:
`ReplDisconnectedError`, after which the adapter is over, and `OpTimedOutError`. All others are refusals, after which
the connection lives on or never was. An operation on a `session` that is not open raises `SessionNotOpenError`. An
operation without its capability in the profile raises `CapabilityMissingError` with the profile's line on how to get
the capability. The listener at a port named by a file is checked over each connection, before a byte is sent.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn, Protocol

import anyio

from codriver.core.values import MAIN_SESSION, NO_LIMITS, Failure, PrintLimits, Profile, Request, ValuePart
from codriver.errors import RefusedError, StartError, install_extra, refused
from codriver.net.kernel_sockets import objection_to

if TYPE_CHECKING:
    import socket
    from collections.abc import Mapping
    from contextlib import AbstractAsyncContextManager
    from pathlib import Path

    from codriver.repls.contract.adapter_values import (
        CellRun,
        Endpoint,
        Interruption,
        Listener,
        OnEnd,
        SyntaxIssue,
        TestRun,
        ThreadDump,
        Value,
    )
    from codriver.repls.contract.questions import Answer, Loaded, Query


class ReplUnreachableError(RefusedError):
    """Raised when nothing listens at the address of a REPL."""

    reason = "repl-unreachable"

    def __init__(self, address: object, cause: str) -> None:
        super().__init__(
            f"no REPL could be reached at {address}: {cause}",
            hint="start the REPL, or correct its host and port; a port file may be left over from one that ended",
            details={"endpoint": str(address)},
        )
        self.address = address
        self.cause = cause


class StrangeListenerError(RefusedError):
    """The port named by a file may be another user's by now, so nothing was sent there."""

    reason = "repl-unreachable"

    def __init__(self, address: object, file: object, why: str, *, way: str) -> None:
        """`way`: the way to name the REPL, if the user means this one."""
        super().__init__(
            f"nothing was sent to {address}, to which {file} leads: {why}; if you mean that REPL, name it: {way}",
            hint=f"name the REPL if it is meant; else remove {file}, and start your own REPL again",
            details={"endpoint": str(address)},
        )
        self.address = address


class NotAnReplError(RefusedError):
    """Something listens and does not speak the protocol."""

    reason = "not-a-repl"

    def __init__(self, address: object, cause: str, *, protocol: str = "nREPL") -> None:
        super().__init__(
            f"what listens at {address} is no {protocol} server that can be used: {cause}",
            hint="check the port: a REPL prints it when it starts; a single-threaded REPL may also be stuck in an "
            "endless loop, or serve one client at a time, and then a restart helps",
            details={"endpoint": str(address)},
        )
        self.address = address
        self.cause = cause


class PackageMissingError(StartError):
    """Raised when Codriver's environment lacks packages that a REPL needs. Trying again does not help."""

    def __init__(self, address: object, extra: str, missing: str) -> None:
        super().__init__(
            f"the REPL at {address} cannot be connected to, as {missing} is not installed where Codriver runs: "
            f"{install_extra(extra)}, and restart the server"
        )
        self.extra = extra


def request_unsafe(cause: str, *, hint: str) -> RefusedError:
    """Return the refusal of a request that this server is known to break on, and so was not sent."""
    return refused("request-unsafe", f"the code was not sent: {cause}", hint=hint)


class OpTimedOutError(RefusedError):
    """Raised when a REPL does not answer an op in time. The connection stays open."""

    reason = "repl-not-answering"

    def __init__(self, op: str, timeout_s: float) -> None:
        super().__init__(
            f"the REPL did not answer the op {op!r} within {timeout_s:g} s",
            hint="it may be busy or stuck: look at list_sessions and server_health, interrupt what runs, or restart it",
        )
        self.op = op


class SessionNotOpenError(RefusedError):
    """The named session is not open."""

    reason = "unknown-session"

    def __init__(self, name: str) -> None:
        super().__init__(f"there is no session {name!r} on this REPL", hint="open it first, or use the main session")


class EvaluationFailedError(RefusedError):
    """An operation failed in its evaluation."""

    reason = "evaluation-failed"

    def __init__(self, what: str, error: Failure) -> None:
        super().__init__(f"{what} failed: {error.type}: {error.message}", hint="correct what was given and call again")
        self.error = error


def namespace_missing(namespace: str) -> RefusedError:
    """Return the refusal of a namespace that is neither loaded nor in any file that the REPL would load."""
    return refused(
        "unknown-namespace",
        f"there is no namespace {namespace!r}: it is not loaded, and no file of that name is on the REPL's path",
        hint="load its file with load_file, or correct the name",
    )


class CapabilityMissingError(RefusedError):
    """The REPL lacks the capability for an operation."""

    reason = "capability-missing"

    def __init__(self, capability: str, provider: str | None = None, *, message: str | None = None) -> None:
        super().__init__(
            message or f"this REPL has no capability {capability!r}",
            hint=provider or "use a REPL that has it: list_sessions shows what each can do",
            details={"capability": capability},
        )
        self.capability = capability


# ruff: noqa: ARG002 # a refused operation needs none of its arguments


class KernelOperations(Protocol):
    """The operations that only kernels have: others' evaluations, notebook cells, syntax checks and restarts.

    Each default implementation refuses or returns nothing.
    """

    @property
    def profile(self) -> Profile:
        """Return the dialect and capabilities of the REPL. They do not change while the connection is open."""
        ...

    async def interrupt_others(self) -> Interruption:
        """Interrupt an evaluation that another client started. `interrupt` never affects such evaluations.

        Raises:
            CapabilityMissingError: this REPL cannot interrupt.
        """
        _refuse(self.profile, "interrupt")

    async def check_syntax(self, code: str) -> SyntaxIssue | None:
        """Return the syntax error in `code`; None if it is valid, or the REPL cannot check it. Nothing is run."""
        del code  # other REPLs read code only to run it
        return None

    def cell_run(self, evaluation: str) -> CellRun | None:
        """Return and forget the outputs so far of an evaluation that was requested for a notebook cell."""
        del evaluation  # no outputs are kept
        return None

    async def restart(self) -> None:
        """Ask the REPL's owner to restart it. The connection ends and is re-established to the new REPL.

        Raises:
            CapabilityMissingError: Codriver may not restart this REPL, or nobody can.
        """
        _refuse(self.profile, "restart")


class Adapter(KernelOperations, Protocol):
    """One connection to a REPL. The module's docstring lists what every operation guarantees.

    A subclass must implement `profile`, `start_evaluation` and `wait_closed`. By default every other operation refuses
    because its capability is missing, or returns nothing.
    """

    def start_evaluation(self, request: Request, on_end: OnEnd, limits: PrintLimits = NO_LIMITS) -> None:
        """Send code to be run, and return at once; events reach the listener, and `on_end` gets the end, once.

        With `forms` one is run after the other, with the values told in order; the first failing form ends the rest,
        and the failure names the form. In the kind `load-file`, the code is the text of a file, and is loaded as that
        file. The kind `load-forms` does the same if the namespace is missing, and otherwise runs `forms` in it. With
        both, the session stays in its namespace. Code for a missing namespace does not run: the failure's type is then
        `NAMESPACE_MISSING`. Limits are honoured where the profile has `print-limits`.

        `on_end` gets an error instead of an ending if the end is unknown: `ReplDisconnectedError`, or a `RefusedError`
        when the session's own connection broke and the REPL continues.

        Raises:
            ReplDisconnectedError: the connection has finished.
            SessionNotOpenError: the session is not open.
            RefusedError: this server is known to break on it.
            CapabilityMissingError: the code is a file, and the REPL loads none. After each of these errors nothing was
                sent, and `on_end` is not called.
        """
        ...

    async def wait_closed(self) -> str:
        """Wait until the connection is closed and return a description of the cause. Never raises."""
        ...

    async def interrupt(self, session: str = MAIN_SESSION) -> Interruption:
        """Ask the server to stop the evaluation in `session`, and send none of its remaining forms.

        If nothing runs, the outcome is `idle`, and no later evaluation is stopped.

        Raises:
            CapabilityMissingError: this REPL cannot interrupt.
        """
        _refuse(self.profile, "interrupt")

    async def send_input(self, text: str, session: str = MAIN_SESSION) -> None:
        """Send `text` to code that reads from stdin in `session`. An empty text means end of input.

        The caller adds the newline.

        Raises:
            CapabilityMissingError: code cannot read input in this REPL.
        """
        _refuse(self.profile, "stdin")

    async def query(self, query: Query[Answer]) -> Answer:
        """Return the answer to a query of `codriver.repls.contract.questions`.

        Raises:
            CapabilityMissingError: this REPL lacks the capability that the query needs.
            EvaluationFailedError: the REPL failed to answer.
        """
        if query.capability:
            _refuse(self.profile, query.capability)
        return query.read({})

    async def loaded(self, root: Path, known: Mapping[str, tuple[str, bool]]) -> Loaded | None:
        """Return the loaded namespaces of files below `root`, without `known` ones that are unchanged.

        `known`: by name the mark, and whether the namespace is of a file there. None: this REPL compares by itself, see
        `Drift`.

        Raises:
            EvaluationFailedError: the REPL failed in answering.
        """
        return None

    async def call_seam(self, accessor: str, arguments: str) -> str:
        """Call an accessor of the application's seam, and return its answer as JSON.

        It only reads, and works while code runs.

        Raises:
            CapabilityMissingError: no application in the REPL has installed the seam.
            EvaluationFailedError: the REPL failed to answer.
        """
        _refuse(self.profile, "seam")

    async def macroexpand(
        self, code: str, namespace: str | None, session: str = MAIN_SESSION, *, full: bool = False
    ) -> str:
        """Return the expansion of the form `code`: one step, or with `full` until it is no longer a macro call.

        With `full`, inner forms are expanded too if the dialect has a function for that.

        Raises:
            CapabilityMissingError: this REPL has no macros, or cannot expand them.
            EvaluationFailedError: the form cannot be read or expanded.
        """
        _refuse(self.profile, "macroexpand")

    async def run_tests(
        self, namespace: str | None, test: str | None, session: str = MAIN_SESSION, *, timeout_s: float = 600.0
    ) -> TestRun:
        """Run `test` of `namespace`, or all its tests, or without a namespace all tests found.

        A run that is cancelled, or takes longer than `timeout_s`, is interrupted if the REPL can interrupt. An
        evaluation of the kind `run-tests` chooses tests more closely; its value is the run in the form of
        `report_text`.

        Raises:
            CapabilityMissingError: this REPL cannot run tests.
            RefusedError: there is no such namespace.
            EvaluationFailedError: no such test exists, or its namespace does not load.
        """
        _refuse(self.profile, "test")

    async def tests_so_far(self, evaluation: str) -> TestRun | None:
        """Return the finished tests of a run in progress, with only the `results` that did not pass.

        None if the REPL reports no progress, or if no test has finished yet. Never raises.
        """
        del evaluation
        return None

    async def stacks(self, session: str = MAIN_SESSION) -> ThreadDump | None:
        """Return the current stacks of the threads of `session`; None if the REPL cannot report them. Never raises."""
        return None

    async def read_value(self, evaluation: str, part: ValuePart) -> Value | str:
        """Return a part of a value that was cut when it was printed, or the reason why it is not available.

        Raises:
            EvaluationFailedError: the value cannot be printed.
        """
        return "this REPL keeps no values: evaluate the part that is wanted, or with a larger maxLength"

    async def open_session(self, name: str, *, shares_names: bool = False) -> None:
        """Open a separate session under `name` (namespace, `*1`). `MAIN_SESSION` always exists; twice is harmless.

        A session that `shares_names` has the main session's definitions, also if the REPL's other sessions do not.

        Raises:
            CapabilityMissingError: this REPL keeps nothing apart.
            ReplUnreachableError: the session needs a connection of its own, and gets none.
        """
        _refuse(self.profile, "sessions")

    async def close_session(self, name: str) -> None:
        """End a session made by `open_session`. An unknown name and the main session are left alone. Never raises."""
        del name  # no such session can be open


def _refuse(profile: Profile, capability: str) -> NoReturn:
    raise CapabilityMissingError(capability, profile.missing.get(capability))


class Connector(Protocol):
    """A way to connect to the REPLs of one protocol: `codriver.repls.connectors` has one for each protocol."""

    def __call__(
        self, address: str, *, listener: Listener, workspace: Path | None, is_remote: bool, found_by: Path | None = None
    ) -> AbstractAsyncContextManager[Adapter]:
        """Return a context manager for the adapter of the REPL at `address`, connected and with a known profile.

        `address` has no protocol: it is `host:port`, or what the protocol uses instead. Stack frames in files under
        `workspace` count as the user's. `is_remote`: the REPL may be behind a tunnel whose other end may disappear
        unnoticed, so the connection is checked regularly. `found_by`: the file that led to a REPL that the user did not
        name.

        Raises:
            StrangeListenerError: the port belongs to another user, or its owner cannot be determined. Nothing was sent.
            ReplUnreachableError: nothing listens there.
            NotAnReplError: the server does not speak the protocol.
        """
        ...


class SeamChecks(Protocol):
    """Checks of the application in a REPL that run before and after evaluations. No check raises."""

    @property
    def accepts_origin(self) -> bool:
        """Return true if the application's events identify an evaluation by the origin in its request."""

    @property
    def is_first(self) -> bool:
        """Return true if a check must run before the code, which is then not sent immediately."""

    async def before(self) -> None:
        """Run the check before a request is evaluated."""

    def is_last(self, request: Request) -> bool:
        """Return true if a check must run after the evaluation of this request, before its end is reported."""

    async def after(self) -> None:
        """Run the check after the evaluation of a request, if `is_last` requires it."""


async def check_listener(connection: socket.socket, endpoint: Endpoint) -> None:
    """Make sure that a connection to an endpoint found through a file leads to a process of the current user.

    Raises:
        StrangeListenerError: the process belongs to another user, or its owner cannot be determined.
    """
    file = endpoint.found_by
    if file is None:
        return
    if why := await anyio.to_thread.run_sync(objection_to, connection, file):
        raise StrangeListenerError(endpoint, file, why, way=f"--nrepl {endpoint}, or nrepl in your own settings")
