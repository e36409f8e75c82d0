"""The evaluation of one request in a session of an nREPL server.

If nothing prevents it, the first form is sent in the event loop iteration in which it was requested. All further work
is done while the REPL is evaluating. A successful evaluation of one form ends in the iteration in which its reply is
received, without a task. A task is used only if more requests must be sent or more replies awaited.

Source: nREPL documentation, "Ops", `eval` and `load-file`.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import anyio

from codriver.core.evaluations import Failure
from codriver.core.records import dataclass
from codriver.errors import NOT_SENT_AGAIN, CodriverError, ReplDisconnectedError, refused
from codriver.repls.contract.events import NAMESPACE_MISSING_TYPE, Ending, ValueStored
from codriver.repls.contract.queries import LastError
from codriver.repls.evaluation_tasks import evaluate_in_order
from codriver.repls.form_positions import add_position
from codriver.repls.namespace_failures import missing_namespace_failure, single_namespace_failure
from codriver.repls.nrepl.failures import is_complete_error, parse_failure
from codriver.repls.nrepl.introspection import FOLLOW_UP_TIMEOUT_S
from codriver.repls.nrepl.replies import BACKGROUND_OP, FRAME_OP, STORED_VALUE_OP, Reply
from codriver.repls.nrepl.request_fields import defines_its_namespace, preserve_loaders

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from codriver.core.print_limits import PrintLimits
    from codriver.core.requests import Form, Request
    from codriver.repls.contract.companions import EvaluationSteps
    from codriver.repls.contract.evaluation_extensions import Programs, Rewrite
    from codriver.repls.contract.events import Listener, OnEnd
    from codriver.repls.dialects.server_dialect import Dialect
    from codriver.repls.evaluation_tasks import EvaluationTasks
    from codriver.repls.nrepl.connection import Exchange, Message, NreplConnection
    from codriver.repls.nrepl.introspection import Introspection
    from codriver.repls.nrepl.probe import ProbeResult
    from codriver.repls.nrepl.request_fields import RequestFields
    from codriver.repls.nrepl.session_pool import SessionPool
    from codriver.repls.nrepl.undo_records import UndoRecords
    from codriver.wire.bencode import Value

logger = logging.getLogger(__name__)

AFTER_FAILURE_TIMEOUT_S: Final = 5.0
"""Seconds to wait for `done` after a failure. Servers send it immediately or never."""

CONNECTION_LOSS_TIMEOUT_S: Final = 0.25
"""Seconds within which the main connection is also lost if the REPL itself has ended."""

THREAD_DEATH_CLASS: Final = "java.lang.ThreadDeath"
THREAD_STOPPED_MESSAGE: Final = (
    "the evaluation's thread was stopped: the code threw a ThreadDeath, or other code stopped the thread"
)
"""The message for a failure with a `ThreadDeath`, which nREPL does not report."""

EVALUATIONS_PER_CLEANUP: Final = 200
"""Number of evaluations in a session between clean-ups of the server, unless Codriver's printer already cleans up."""


@dataclass(frozen=True, slots=True, eq=False)
class ServerContext:
    """The objects that all evaluations of one server use."""

    sessions: SessionPool
    main_connection: NreplConnection
    """The main connection. It is stored here because the pool is emptied before its connections are closed."""
    probed: ProbeResult
    listener: Listener
    introspection: Introspection
    undo_records: UndoRecords
    programs: Programs
    fields: RequestFields
    steps: EvaluationSteps
    tasks: EvaluationTasks
    op_timeout_s: float

    @property
    def dialect(self) -> Dialect:
        """Return the dialect of the server."""
        return self.probed.dialect


@dataclass(frozen=True, slots=True, eq=False)
class SentRequest:
    """A request that was sent, and the replies received so far."""

    exchange: Exchange
    reply: Reply
    connection: NreplConnection


class Evaluation:
    """The evaluation of one request in a session.

    It is the session's current evaluation from start to end, and holds the session's turn while it is sending.
    """

    __slots__ = (
        "_first",
        "_has_turn",
        "_is_followed",
        "_limits",
        "_on_end",
        "_request",
        "_rewrite",
        "_session",
        "_shared",
        "_values",
        "is_stopping",
    )  # fmt: skip

    def __init__(self, shared: ServerContext, request: Request, on_end: OnEnd, limits: PrintLimits) -> None:
        """Prepare an evaluation. `on_end` receives its ending.

        Raises:
            RefusedError: the code would break the server.
            ReplDisconnectedError: the connection to the server is closed.
            SessionNotOpenError: the session is not open.
        """
        shared.fields.check_code(request.code)
        self._shared = shared
        self._request = request
        self._session = shared.sessions.get(request.session)
        self._on_end = on_end
        self._limits = limits
        self._first: SentRequest | None = None
        """The first request if it was sent immediately, until its reply is processed."""
        self._has_turn = False
        self._values = 0
        """The number of values received."""
        self._rewrite: Rewrite | None = None
        """The function with which features change the requests while their programs are running."""
        self._is_followed = False
        """Whether a step of a companion follows the first request."""
        self.is_stopping = False
        """Whether an interrupt was requested, in which case no further form is sent."""
        shared.main_connection.check_open()

    def start(self) -> None:
        """Start to evaluate the forms in order. The first one is sent immediately if possible."""
        self._session.evaluation = self
        try:
            was_sent = self._sends_at_once()
        except BaseException:
            self._release_session()
            raise
        if not was_sent:
            self._continue_in_task()

    def start_load(self, op: str) -> None:
        """Start to load a whole file with the server's op `op`."""
        self._session.evaluation = self
        self._shared.tasks.start_task(self._on_end, self._run(self._load(op)))

    def start_forms(self, op: str | None) -> None:
        """Start to evaluate the forms of a file. If their namespace is missing, load the whole file with `op`."""
        self._session.evaluation = self
        self._shared.tasks.start_task(self._on_end, self._run(self._load_forms(op)))

    def _sends_at_once(self) -> bool:
        """Send the first form immediately if nothing prevents that, and return whether it was sent."""
        session, request, steps = self._session, self._request, self._shared.steps
        needs_preparation = request.undo_id or request.extensions or steps.before or self._must_switch
        is_free = session.running is None and not session.is_deaf and session.connection.cause is None
        if needs_preparation or not is_free or not session.turn.try_acquire():
            return False
        self._has_turn = True
        sent = self._first = self._open(self._receive_first_answer)
        fields = {**session.address(), **self._form_fields(request.sent_forms[0])}
        is_sent = False
        try:
            is_sent = sent.connection.try_send(sent.exchange, self._op, fields)
        finally:
            if not is_sent:
                self._release_turn()
        # The REPL is already working, so these checks delay nobody.
        self._is_followed = is_sent and bool(steps.after) and steps.has_follow_ups(request)
        return is_sent

    @property
    def _op(self) -> str:
        """Return the op that evaluates in an error's frame, in the background, or as a plain `eval`."""
        if self._request.frame is not None:
            return FRAME_OP
        return BACKGROUND_OP if self._request.background and BACKGROUND_OP in self._shared.probed.ops else "eval"

    @property
    def _must_switch(self) -> bool:
        """Return whether the session must first switch to the namespace, because requests cannot name one."""
        return bool(self._request.namespace) and self._shared.dialect.namespace_by != "key"

    def _receive_first_answer(self) -> None:
        """Process the reply to a first form that was sent immediately.

        End the evaluation unless more remains to be done.
        """
        sent = self._first
        if sent is None:  # sending it failed
            return
        status = sent.exchange.status
        went_well = "done" in status and "interrupted" not in status and not sent.reply.is_failed
        has_more_to_do = len(self._request.forms) > 1 or sent.reply.cut or self._is_followed
        if not went_well or has_more_to_do or self._is_silent(sent.reply) or self.is_stopping:
            self._continue_in_task()
            return
        self._update_session(sent)
        ending = self._conclude(sent.reply, None)
        self._release_session()
        try:
            self._on_end(ending)
        except Exception:
            logger.exception("the end of the evaluation %s could not be reported", self._request.id)

    def _continue_in_task(self) -> None:
        self._shared.tasks.start_task(self._on_end, self._run(self._evaluate_forms()))

    async def _run(self, act: Coroutine[object, object, Ending]) -> Ending:
        """Run `act` while holding the session's turn, and return its ending."""
        shared, session, request = self._shared, self._session, self._request
        try:
            if not self._has_turn:
                await session.turn.acquire()
                self._has_turn = True
                shared.main_connection.check_open()
                await shared.sessions.renew(session)
                await shared.steps.prepare()
            ending = await self._explain(await self._with_undo_record(self._with_extensions(act)))
            await shared.steps.run_follow_ups(request)
        except ReplDisconnectedError as error:
            self._release_session()
            if session.connection is not shared.main_connection:
                with anyio.move_on_after(CONNECTION_LOSS_TIMEOUT_S):
                    await shared.main_connection.closed.wait()
                    raise
                raise refused(
                    "repl-disconnected",
                    f"this session's own connection was lost: {error.cause}. The code {NOT_SENT_AGAIN}. The session "
                    "gets a new connection with the next evaluation",
                    hint="check what the code did before you repeat it",
                ) from error
            raise
        finally:
            act.close()
            self._release_session()
        return ending

    async def _with_undo_record(self, act: Coroutine[object, object, Ending]) -> Ending:
        """Run `act` and return its ending. If the request has an undo id, record the definitions before and after."""
        undo_id, undo_records = self._request.undo_id, self._shared.undo_records
        if not undo_id:
            return await act
        await undo_records.record_definitions(undo_id, "before")
        try:
            return await act
        finally:
            with anyio.CancelScope(shield=True):
                await undo_records.record_definitions(undo_id, "after")

    async def _with_extensions(self, act: Coroutine[object, object, Ending]) -> Ending:
        """Run `act` together with the programs of the request's extensions, and return its ending."""
        async with self._shared.programs.run_programs(self._request.id, self._request.extensions) as self._rewrite:
            return await act

    async def _evaluate_forms(self) -> Ending:
        request, session = self._request, self._session
        before = session.namespace
        switches = self._must_switch
        failure = await self._enter(request.namespace or "") if switches else None
        is_missing = failure is not None and failure.type == NAMESPACE_MISSING_TYPE
        if failure is not None and not (is_missing and defines_its_namespace(request, self._shared.dialect)):
            return Ending("failed", namespace=before, failure=failure)
        try:
            return await evaluate_in_order(request.sent_forms, self._evaluate_form)
        finally:
            if switches and self._shared.dialect.namespace_by in {"in-ns", "ns"}:
                with anyio.CancelScope(shield=True):
                    await self._switch_to(before or "user")

    async def _evaluate_form(self, form: Form, number: int) -> Ending:
        request, session = self._request, self._session
        if self.is_stopping and self._first is None:
            return Ending("interrupted", namespace=session.namespace)
        sent = self._first or await self._send(self._op, self._form_fields(form))
        self._first = None
        reply = await self._settle(sent)
        if failure := await self._find_hidden_failure(reply):
            failure = add_position(failure, request, number, counts_lines=self._shared.dialect.counts_lines)
            return Ending("failed", namespace=session.namespace, failure=failure)
        return self._conclude(reply, number)

    async def _load_forms(self, op: str | None) -> Ending:
        session, request = self._session, self._request
        before = session.failure
        ending = await self._evaluate_forms()
        failure = ending.failure
        # If only a later form lacks its namespace, earlier forms have been run and must not be run again.
        is_missing = failure is not None and failure.type == NAMESPACE_MISSING_TYPE and failure.form is None
        if not is_missing or op is None or self.is_stopping:
            return ending
        session.failure = before
        self._request = replace(request, kind="load-file", forms=(), namespace=None)
        ending = await self._load(op)
        if ending.failure is not None and ending.failure.file is None:
            ending = replace(ending, failure=replace(ending.failure, file=request.file))
        return replace(
            ending, notes=(*ending.notes, f"the whole file was loaded, because {request.namespace} was not loaded yet")
        )

    async def _load(self, op: str) -> Ending:
        session, request = self._session, self._request
        if self.is_stopping:
            return Ending("interrupted", namespace=session.namespace)
        preserve_loaders(session, request.code)
        fields = self._shared.fields.fields_for_file(request, self._limits, session)
        before = session.namespace
        reply = await self._settle(await self._send(op, fields))
        if self._shared.dialect.load_moves_namespace:
            await self._switch_to(before or "user")
        if failure := await self._find_hidden_failure(reply):
            return Ending("failed", namespace=before, failure=failure)
        return self._conclude(reply, None)

    def _is_silent(self, reply: Reply) -> bool:
        """Return whether a reply has neither a value nor an error, as after a `ThreadDeath` in nREPL."""
        has_result = reply.values or reply.is_failed or reply.is_interrupted or self.is_stopping
        return self._shared.dialect.name == "clojure" and not has_result

    async def _find_hidden_failure(self, reply: Reply) -> Failure | None:
        """Return the failure hidden by a reply without a value or an error, if any."""
        if self._is_silent(reply):
            with anyio.move_on_after(FOLLOW_UP_TIMEOUT_S), suppress(CodriverError):
                trace = await self._shared.introspection.query(LastError(session=self._session.name))
                if trace is not None and trace.type == THREAD_DEATH_CLASS:
                    return Failure(THREAD_DEATH_CLASS, THREAD_STOPPED_MESSAGE, phase="execution")
        return None

    def _open(self, on_decided: Callable[[], None] | None = None) -> SentRequest:
        """Start an exchange for a request, and make it the session's running exchange until `_finish` is called."""
        shared = self._shared
        prints_by_itself = not shared.probed.honours_print_limits or STORED_VALUE_OP in shared.probed.ops
        reports = shared.programs.report_fields
        reply = Reply(self._request.id, shared.listener, None if prints_by_itself else self._limits, reports)
        connection = self._session.connection
        self._session.running = exchange = connection.register(reply.receive, on_decided)
        return SentRequest(exchange, reply, connection)

    def _finish(self, sent: SentRequest) -> None:
        self._session.running = None
        sent.connection.finish(sent.exchange)

    def _release_session(self) -> None:
        """Release the session. Repeated calls have no effect."""
        self._release_turn()
        if self._session.evaluation is self:
            self._session.evaluation = None

    def _release_turn(self) -> None:
        first, self._first = self._first, None
        if first is not None:
            self._finish(first)
        if self._has_turn:
            self._has_turn = False
            self._session.turn.release()

    async def _send(self, op: str, fields: dict[str, Value]) -> SentRequest:
        sent = self._open()
        try:
            await sent.connection.send(sent.exchange, op, {**self._session.address(), **fields})
        except BaseException:
            self._finish(sent)
            raise
        return sent

    async def _settle(self, sent: SentRequest) -> Reply:
        """Wait for the complete reply to a request, and return it."""
        try:
            await sent.connection.wait_settled(sent.exchange, after_failure_s=AFTER_FAILURE_TIMEOUT_S)
        finally:
            self._finish(sent)
        self._update_session(sent)
        if sent.reply.cut:
            await self._store_value(sent.reply.cut)
        return sent.reply

    def _update_session(self, sent: SentRequest) -> None:
        """Update the known state of the session, such as its namespace, from a finished reply."""
        session, reply, shared = self._session, sent.reply, self._shared
        if session.preserves_loaders or not (reply.values and shared.sessions.prints_by):
            session.unprinted += 1
            if session.unprinted % EVALUATIONS_PER_CLEANUP == 0:
                shared.tasks.start(shared.introspection.clean_up(session.name))
        # If another connection received the `done` of an interrupt, only the exchange has its status.
        reply.status |= sent.exchange.status
        if reply.namespace and not self._request.namespace:
            session.namespace = reply.namespace
        self._values += len(reply.values)
        if reply.is_interrupted:  # the session may have a new thread
            session.prints_to = None
        elif reply.values and shared.fields.remembers_limits(self._limits):
            session.prints_to = self._limits

    async def _store_value(self, seen: str) -> None:
        """Make the REPL retain the last value before the next evaluation replaces it.

        `seen` describes what was omitted from the printed value.
        """
        identity = self._request.id
        words = await self._shared.introspection.store_last_value(
            identity, self._values, self._session.name, seen=seen, limits=self._limits
        )
        if words is not None:
            self._shared.listener(identity, ValueStored(words))

    def _form_fields(self, form: Form) -> dict[str, Value]:
        session, request = self._session, self._request
        preserve_loaders(session, form.text)
        sent = request
        if form == request.sent_forms[0] and defines_its_namespace(request, self._shared.dialect):
            sent = replace(request, namespace=session.namespace or self._shared.dialect.home)
        fields = self._shared.fields.fields_for_form(sent, form, self._limits, session, self._rewrite)
        session.is_in_file = bool(request.file)
        return fields

    def _conclude(self, reply: Reply, form: int | None) -> Ending:
        session, request, dialect = self._session, self._request, self._shared.dialect
        namespace = reply.namespace or session.namespace
        if reply.is_failed and request.frame is None:
            session.failure = reply.failure
        if reply.is_interrupted or (self.is_stopping and not reply.is_failed):
            return Ending("interrupted", namespace=namespace)
        if not reply.is_failed:
            return Ending("done", namespace=namespace, notes=reply.notes)
        failure = parse_failure(reply.failure, dialect)
        if failure.type == NAMESPACE_MISSING_TYPE and request.namespace:
            failure = replace(missing_namespace_failure(request.namespace), form=form if form and form > 1 else None)
            return Ending("failed", namespace=session.namespace, failure=failure)
        failure = add_position(failure, request, form, counts_lines=dialect.counts_lines)
        return Ending("failed", namespace=namespace, failure=failure, notes=reply.notes)

    async def _explain(self, ending: Ending) -> Ending:
        """Add details to a failure that its reply lacks: the chain of errors, and the class that a wrapper hides."""
        session = self._session
        if ending.failure is None or session.failure is None or self._request.frame is not None:
            return ending
        if is_complete_error(ending.failure, session.failure):
            return ending
        return replace(ending, failure=await self._shared.introspection.add_error_details(ending.failure, session.name))

    async def _enter(self, namespace: str) -> Failure | None:
        """Switch the session to `namespace` and return None, or return the failure if the namespace does not exist.

        Switching to a missing namespace would create an unusable one.
        """
        session, dialect = self._session, self._shared.dialect
        if dialect.namespace_by == "none":
            return None if namespace in {session.namespace, "user", "Hy"} else single_namespace_failure(namespace)
        code = dialect.json_code(f"(some? (find-ns (symbol {dialect.quote(namespace)})))")
        answer = await self._evaluate_quietly(code)
        if not any("true" in (message.text("value") or "") for message in answer):
            return missing_namespace_failure(namespace)
        await self._switch_to(namespace)
        return None

    async def _switch_to(self, namespace: str) -> None:
        dialect = self._shared.dialect
        if dialect.namespace_by == "ns":
            await self._evaluate_quietly(f"{dialect.preserve_last}(ns {namespace})")
        elif dialect.namespace_by == "in-ns":
            await self._evaluate_quietly(f"(basilisp.core/in-ns '{namespace})")

    async def _evaluate_quietly(self, code: str) -> list[Message]:
        """Evaluate Codriver's own code in the session, and return the replies without reporting them."""
        session, timeout_s = self._session, self._shared.op_timeout_s
        return await session.connection.request("eval", timeout_s=timeout_s, code=code, **session.address())
