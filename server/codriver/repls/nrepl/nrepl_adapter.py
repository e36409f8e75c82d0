"""The adapter for nREPL servers, which exchange bencode over TCP.

`codriver.repls.contract.adapter` lists the guarantees of an adapter. Source: nREPL documentation, "Ops".
"""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, TypeVar

import anyio

from codriver.core.print_limits import NO_PRINT_LIMITS
from codriver.core.requests import MAIN_SESSION, TEST_SESSION
from codriver.errors import ReplDisconnectedError
from codriver.net.task_set import task_group_cancelled_on_exit
from codriver.repls.contract.adapter import (
    NO_ANSWER,
    Adapter,
    CapabilityMissingError,
    OpTimedOutError,
    SharedReplOperations,
)
from codriver.repls.contract.companions import EvaluationSteps, create_companions, with_companions
from codriver.repls.contract.endpoints import Endpoint
from codriver.repls.contract.evaluation_extensions import NO_HOOKS, AdapterHooks, Programs
from codriver.repls.contract.events import Interruption
from codriver.repls.nrepl.companion_access import NreplAccess
from codriver.repls.nrepl.connection_routes import CODRIVER_SESSIONS
from codriver.repls.nrepl.evaluator import Evaluator
from codriver.repls.nrepl.heartbeat import Heartbeat, send_heartbeats
from codriver.repls.nrepl.introspection import Introspection
from codriver.repls.nrepl.probe import ProbeResult, parse_ops, probe
from codriver.repls.nrepl.replies import (
    NEED_INPUT_STATUS,
    OUTPUT_OPS,
    SENSITIVE_OP,
    STORED_VALUE_OP,
    Reply,
    parse_sensitive_values,
    require_success,
)
from codriver.repls.nrepl.session_pool import SessionPool
from codriver.repls.nrepl.test_runner import TestRunner
from codriver.repls.nrepl.undo_records import UndoRecords

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
    from contextlib import AbstractAsyncContextManager
    from pathlib import Path

    from codriver.core.print_limits import PrintLimits
    from codriver.core.profiles import Capability, Profile
    from codriver.core.requests import Request
    from codriver.repls.contract.endpoints import AcceptedStream
    from codriver.repls.contract.events import Listener, OnEnd
    from codriver.repls.nrepl.connection import Message
    from codriver.repls.nrepl.session_record import SessionRecord
    from codriver.wire.bencode import Value

T = TypeVar("T")

AFTER_INTERRUPT_TIMEOUT_S: Final = 2.0
"""Seconds to wait for an interrupted evaluation's own `done`, which another connection may have received."""

IDLE_DISTRUST_S: Final = 5.0
"""Seconds after the start of an evaluation during which the REPL's reply that it is idle is ignored.

A busy server may not have started to run the code yet.
"""

DESCRIBE_TIMEOUT_S: Final = 600.0
"""Seconds to wait for a busy server to describe itself.

Giving up earlier may kill the REPL: nbb answers once its running code ends, and exits if the connection is gone.
"""

ALREADY_FINISHED: Final = Interruption("idle", note="the evaluation had finished before the interrupt was received")
"""The outcome of an interrupt that arrived after the evaluation had ended."""


def connect_nrepl(
    address: str,
    *,
    listener: Listener,
    workspace: Path | None,
    is_remote: bool,
    found_by: Path | None = None,
    record: SessionRecord | None = None,
    hooks: AdapterHooks = NO_HOOKS,
) -> AbstractAsyncContextManager[Adapter]:
    """Connect to the nREPL server at `address`, which has the form `host:port`. See `Connector`.

    `record` is the record of open sessions. Sessions left open by an earlier connection are closed.
    """
    beat = Heartbeat() if is_remote else None
    endpoint = Endpoint.parse(address, found_by)
    return connect(endpoint, listener=listener, workspace=workspace, beat=beat, record=record, hooks=hooks)


@asynccontextmanager
async def connect_accepted(
    address: str,
    *,
    listener: Listener,
    workspace: Path | None,
    is_remote: bool,
    found_by: Path | None = None,
    accept: Callable[[str], Awaitable[AcceptedStream]],
    hooks: AdapterHooks = NO_HOOKS,
) -> AsyncIterator[Adapter]:
    """Wait for a REPL to connect to Codriver, and yield its adapter. See `Connector`.

    `accept` requests that the REPL at `address` connect, and verifies the peer.
    """
    del is_remote, found_by  # the stream is local, and `accept` has checked its peer
    stream = await accept(address)
    async with connect(stream, listener=listener, workspace=workspace, hooks=hooks) as adapter:
        yield adapter


@asynccontextmanager
async def connect(  # all but the first are optional
    endpoint: Endpoint | AcceptedStream,
    *,
    listener: Listener,
    connect_timeout_s: float = 5.0,
    op_timeout_s: float = 10.0,
    workspace: Path | None = None,
    beat: Heartbeat | None = None,
    record: SessionRecord | None = None,
    hooks: AdapterHooks = NO_HOOKS,
) -> AsyncIterator[Adapter]:
    """Connect to the nREPL server at `endpoint` or over an accepted stream, and yield its adapter.

    `op_timeout_s` limits every op except evaluations and the first `describe`. Stack frames in files below `workspace`
    count as user code. With `beat`, heartbeats detect that a remote REPL is gone even if a tunnel or proxy keeps the
    connection open. `hooks` contains the additions made by features.

    Raises:
        ReplUnreachableError: nothing is listening at the address.
        UntrustedListenerError: the endpoint was read from a file, and the listener may belong to another user.
        NotAReplError: the server does not speak nREPL.
    """
    adapter: NreplAdapter | None = None
    reports = tuple(hooks.reply_fields.items())
    async with task_group_cancelled_on_exit() as tasks:

        def on_stray(message: Message) -> None:
            if SENSITIVE_OP in message.fields:
                listener(None, parse_sensitive_values(message))
            else:
                Reply(None, listener, reports=reports).receive(message)

        sessions = SessionPool(endpoint, tasks, on_stray, op_timeout_s=op_timeout_s, record=record)
        try:
            probed = await _shake_hands(
                sessions, connect_timeout_s=connect_timeout_s, op_timeout_s=op_timeout_s, hooks=hooks
            )
            adapter = NreplAdapter(
                sessions, probed, listener, op_timeout_s=op_timeout_s, workspace=workspace, hooks=hooks
            )
            await adapter.subscribe_output()
            await adapter.attach_companions()
            if beat is not None:
                while_busy = probed.dialect.answers_while_busy
                tasks.start_soon(partial(send_heartbeats, sessions.get(MAIN_SESSION), beat, while_busy=while_busy))
            yield adapter
        finally:
            with anyio.CancelScope(shield=True):
                await sessions.close_all()
                if adapter is not None:
                    await adapter.end_evaluations()


async def _shake_hands(
    sessions: SessionPool, *, connect_timeout_s: float, op_timeout_s: float, hooks: AdapterHooks
) -> ProbeResult:
    main = await sessions.open_main(connect_timeout_s=connect_timeout_s)
    connection = main.connection
    try:
        answer = await connection.request("describe", timeout_s=DESCRIBE_TIMEOUT_S)
        ops = parse_ops(answer)
        if "eval" not in ops:
            raise sessions.not_a_repl_error("the answer to `describe` does not include the op `eval`")
        if STORED_VALUE_OP in ops:  # Codriver's worker sets TCP_NODELAY
            connection.disable_immediate_acknowledgements()
        if SENSITIVE_OP in ops:
            # The sensitive values must be known before anything can be displayed.
            await connection.request(SENSITIVE_OP, timeout_s=op_timeout_s)
        if "close" in ops:
            await sessions.close_leftover_sessions()
        probed = await probe(connection, answer, sessions.opened, ops=ops, added=hooks.capabilities)
        sessions.dialect = probed.dialect
        if probed.honours_print_limits:
            sessions.prints_by = probed.dialect.print_fields(NO_PRINT_LIMITS)
        if probed.dialect.isolates == "connection":
            await sessions.reconnect_main(connect_timeout_s=connect_timeout_s)
        main.connection.send_gap_s = probed.dialect.send_gap_s
        if "clone" in ops:
            main.id = await sessions.clone(main.connection)
    except ReplDisconnectedError as error:
        raise sessions.not_a_repl_error(error.cause) from error
    except OpTimedOutError as error:
        raise sessions.not_a_repl_error(
            f"the program accepted the connection but did not answer {error.op!r} in time"
        ) from error
    return probed


class NreplAdapter(SharedReplOperations):
    """An adapter for one nREPL server. `Adapter` describes the operations."""

    def __init__(
        self,
        sessions: SessionPool,
        probed: ProbeResult,
        listener: Listener,
        *,
        op_timeout_s: float,
        workspace: Path | None,
        hooks: AdapterHooks,
    ) -> None:
        self._sessions = sessions
        self._probed = probed
        self._dialect = probed.dialect
        self._profile = probed.profile
        self._listener = listener
        self._op_timeout_s = op_timeout_s
        self._hooks = hooks
        self._main = sessions.main
        self._steps = EvaluationSteps()
        self._companions: Mapping[type, Any] = {}
        undo_records = UndoRecords(sessions, probed)
        made = {kind: make(sessions, probed, listener, workspace) for kind, make in hooks.around.items()}
        programs = Programs(tuple(hooks.reply_fields.items()), made)
        introspection = Introspection(sessions, probed, undo_records, op_timeout_s=op_timeout_s, workspace=workspace)
        self.query = introspection.query
        self.changed_namespaces = introspection.changed_namespaces
        self.macroexpand = introspection.macroexpand
        self._tests = TestRunner(sessions, probed, listener, programs, op_timeout_s=op_timeout_s, workspace=workspace)
        self.run_tests = self._tests.run_tests
        self.finished_tests = self._tests.finished_tests
        self.dump_threads = introspection.dump_threads
        self.read_value = introspection.read_value
        self._evaluator = Evaluator(
            sessions,
            probed,
            listener,
            introspection,
            undo_records,
            programs,
            steps=self._steps,
            op_timeout_s=op_timeout_s,
        )

    async def end_evaluations(self) -> None:
        """End all running evaluations after the connection was closed."""
        await self._evaluator.end()
        await self._tests.end()

    @property
    def profile(self) -> Profile:
        """Return the dialect and capabilities found by the probe and the companions."""
        return self._profile

    def start_evaluation(self, request: Request, on_end: OnEnd, limits: PrintLimits = NO_PRINT_LIMITS) -> None:
        """Start an evaluation of forms, a load of a file, or a test run."""
        if request.file and self._steps.loads:
            request = self._steps.rewrite_load(request)
        if request.kind == "run-tests":
            self._tests.start(request, on_end)
        elif request.kind == "load-file" and not (support := self._require("load-file")).adapted:
            self._evaluator.start_load(request, on_end, limits, support.op)
        elif request.kind == "load-forms":
            load = self.profile.capabilities.get("load-file")
            self._evaluator.start_forms(request, on_end, limits, load.op if load and not load.adapted else None)
        else:
            self._evaluator.start(request, on_end, limits)

    async def interrupt(self, session: str = MAIN_SESSION) -> Interruption:
        """Interrupt the evaluation in `session`."""
        if session == TEST_SESSION and self._tests.stop_waiting():
            return Interruption(
                "requested", note="the test run was abandoned. A test that never ends may still be running"
            )
        support = self._require("interrupt")
        target = self._sessions.get(session)
        if target.evaluation is not None:
            target.evaluation.is_stopping = True
        if (running := target.running) is None:
            if target.evaluation is None:
                return Interruption("idle")
            return Interruption("requested", note="the evaluation was between two forms, and no more forms are sent")
        if not self._dialect.interrupts_reads and NEED_INPUT_STATUS in running.status:
            await self.send_input("", session)  # end of input
        fields: dict[str, Value] = {**target.address(), "interrupt-id": running.id}
        answer = await target.connection.request(support.op, timeout_s=self._op_timeout_s, **fields)
        status = frozenset().union(*(message.status for message in answer))
        is_idle = "session-idle" in status and monotonic() - running.started_at >= IDLE_DISTRUST_S
        if "interrupt-id-mismatch" in status or ("session-idle" in status and not is_idle):
            return ALREADY_FINISHED
        with anyio.move_on_after(AFTER_INTERRUPT_TIMEOUT_S):
            await running.wait_finished()
        if not running.is_finished:
            running.status.add("interrupted")
            target.connection.finish(running)
            note = "the REPL confirmed the interrupt but did not end the evaluation. Its code may still be running"
            if is_idle:
                # An nREPL session may lose its thread and then accept code without ever running it.
                target.is_deaf = bool(target.id) and not self._dialect.joins
                note = (
                    "the REPL reports that nothing is running, but not that the evaluation has ended. Its code may "
                    "still be running"
                )
                note += ". A new session replaces this one" if target.is_deaf else ""
            return Interruption("requested", note=note)
        if is_idle:
            return ALREADY_FINISHED
        if self._dialect.interrupt_note:
            return Interruption("requested", note=self._dialect.interrupt_note)
        return Interruption("interrupted", note=next(filter(None, (m.text("codriver/note") for m in answer)), None))

    async def send_input(self, text: str, session: str = MAIN_SESSION) -> None:
        """Send text to code that reads stdin in `session`."""
        support = self._require("stdin")
        target = self._sessions.get(session)
        if target.running is not None:
            target.running.status.discard(NEED_INPUT_STATUS)
        receive = target.running.on_message if target.running else Reply(None, _ignore_event).receive

        def on_message(message: Message) -> None:
            # Servers answer immediately or after the text was read, and one sends the value of the evaluation with this
            # id. `done` of this op does not end the evaluation.
            receive(replace(message, status=message.status - {"done"}))

        exchange = target.connection.register(on_message)
        target.connection.finish(exchange)
        with anyio.move_on_after(self._op_timeout_s) as scope:
            await target.connection.send(exchange, support.op, {**target.address(), "stdin": text})
        if scope.cancelled_caught:
            raise OpTimedOutError(support.op, self._op_timeout_s)

    def companion(self, kind: type[T]) -> T | None:
        """Return the companion of this type, or None if the REPL has none."""
        return self._companions.get(kind)

    async def call_op(self, op: str, fields: Mapping[str, str]) -> str:
        """Call an op that a feature adds to Codriver's worker, and return its `answer`."""
        if op not in self._probed.ops:
            raise CapabilityMissingError(op)
        main = self._main
        answer = await main.connection.request(op, timeout_s=self._op_timeout_s, **{**fields, **main.address()})
        require_success(op, answer, self._probed.dialect)
        for message in answer:
            Reply(None, self._listener, reports=tuple(self._hooks.reply_fields.items())).receive(message)
        return next((text for message in answer if (text := message.text("answer"))), NO_ANSWER)

    async def open_session(self, name: str, *, shares_names: bool = False) -> None:
        """Open a separate session with this name."""
        self._require("sessions")
        await self._sessions.open(name, shares_names=shares_names)

    async def close_session(self, name: str) -> None:
        """Close a session opened by `open_session`. Unknown names are ignored."""
        if name not in CODRIVER_SESSIONS:
            await self._sessions.close(name)

    async def wait_closed(self) -> str:
        """Wait until the connection is closed, and return the reason as text."""
        connection = self._main.connection
        await connection.closed.wait()
        return connection.cause or "the connection ended"

    async def attach_companions(self) -> None:
        """Create the companions of the REPL and add their capabilities to the profile."""
        access = NreplAccess(
            self._sessions, self._probed, self._listener, self.call_op, op_timeout_s=self._op_timeout_s
        )
        self._companions = await create_companions(self._hooks.companions, access, self._steps)
        self._profile = with_companions(self._profile, self._companions.values())

    async def subscribe_output(self) -> None:
        """Subscribe to output from threads outside evaluations, if the server supports it."""
        op = next((op for op in OUTPUT_OPS if op in self._probed.ops), None)
        if op is None:
            return
        connection = self._main.connection
        exchange = connection.register(Reply(None, self._listener).receive)
        with anyio.move_on_after(self._op_timeout_s):
            await connection.send(exchange, op, self._main.address())
            await exchange.wait_finished()
        connection.finish(exchange)

    def _require(self, capability: str) -> Capability:
        if (support := self.profile.capabilities.get(capability)) is None:
            raise CapabilityMissingError(capability, self.profile.missing.get(capability))
        return support


def _ignore_event(_evaluation: str | None, _event: object) -> None:
    """Ignore an event from a reply that nobody is waiting for."""
