"""The evaluator of one nREPL server: sends code form by form, or as a file, and tells its end.

The first form is sent in the same turn of the event loop in which it was requested, if nothing stands in its way: all
other work for an evaluation is done while the REPL works. A successful evaluation of one form, the usual case, is over
in the turn of the loop in which its answer comes: only an evaluation with more to ask, or to wait for, gets a task.
Requests have only fields that the server behind an adapter understands.

Sources: nREPL documentation, "Ops", `eval` and `load-file`; fields of Codriver's own worker begin with `codriver/`.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final

import anyio

from codriver.core.records import dataclass
from codriver.core.values import Failure
from codriver.errors import NOT_SENT_AGAIN, CodriverError, ReplDisconnectedError, refused
from codriver.repls.contract.adapter import Looks, request_unsafe
from codriver.repls.contract.adapter_values import NAMESPACE_MISSING, Ending, ValueKept
from codriver.repls.contract.questions import LastError
from codriver.repls.evaluation_tasks import Evaluations, in_order
from codriver.repls.form_positions import placed
from codriver.repls.namespace_failures import no_namespace, one_namespace
from codriver.repls.nrepl.failures import is_alone, read_failure
from codriver.repls.nrepl.introspection import AFTERWARDS_S
from codriver.repls.nrepl.responses import BESIDE, FRAME, KEEPS_VALUES, SEAM_OP, Reply
from codriver.wire.untrusted import NOTHING
from codriver_lisp.binding_forms import namespace_of
from codriver_lisp.source_text import Document

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from codriver.core.values import Form, PrintLimits, Request
    from codriver.repls.contract.adapter_values import Ended, Listener
    from codriver.repls.contract.extras import Programs, Rewrite
    from codriver.repls.nrepl.connection import Exchange, NreplConnection
    from codriver.repls.nrepl.definition_holds import DefinitionHolds
    from codriver.repls.nrepl.introspection import Introspection
    from codriver.repls.nrepl.probe import ProbeResult
    from codriver.repls.nrepl.session_pool import NreplSession, SessionPool
    from codriver.wire.bencode import Value


logger = logging.getLogger(__name__)

AFTER_FAILURE_S: Final = 5.0
"""The time that a failure waits for its `done`. Every server sends `done` at once, or not at all."""

LOST_ALONE_S: Final = 0.25
"""The time within which the main connection is lost after another, if the REPL itself is gone."""

THREAD_DEATH: Final = "java.lang.ThreadDeath"
STOPPED: Final = "its thread was stopped: the code threw a ThreadDeath, or other code stopped the thread"

TIDY_EVERY: Final = 200
"""Evaluations in one session after which the server's leftovers are tidied up, unless our printer did that."""


@dataclass(frozen=True, slots=True, eq=False)
class Sent:
    """A request that evaluates, and the reply so far."""

    exchange: Exchange
    reply: Reply
    connection: NreplConnection


@dataclass(slots=True, eq=False)
class Work:
    """One evaluation under way."""

    request: Request
    session: NreplSession
    ended: Ended
    limits: PrintLimits
    first: Sent | None = None
    """Its first request, if sent at once, until the reply is taken."""
    has_turn: bool = False
    """Whether it has its session's turn."""
    told: int = 0
    """Values so far."""
    rewrite: Rewrite | None = None
    """The change of its requests by programs of features, while these run."""
    is_looked_after: bool = False
    """Whether to look for an application when its first request is over."""


class Evaluator:
    """Runs the evaluations of one adapter, for its life. The caller sees to it that each session has one at a time."""

    def __init__(
        self,
        sessions: SessionPool,
        probed: ProbeResult,
        listener: Listener,
        introspection: Introspection,
        holds: DefinitionHolds,
        programs: Programs,
        *,
        looks: Looks,
        op_timeout_s: float,
    ) -> None:
        self._sessions = sessions
        self._main_connection = sessions.main.connection
        """The main connection, kept here, as the table is emptied before the connections are closed."""
        self._probed = probed
        self._dialect = probed.dialect
        self._listener = listener
        self._introspection = introspection
        self._holds = holds
        self._programs = programs
        self._fields = RequestFields(probed, holds, takes_origin=lambda: looks.takes_origin)
        self._looks = looks
        self._op_timeout_s = op_timeout_s
        self._tasks = Evaluations()
        self.end = self._tasks.end

    def start(self, request: Request, ended: Ended, limits: PrintLimits) -> None:
        """Send code to be run, form by form."""
        work = self._work(request, ended, limits)
        if not self._sends_at_once(work):
            self._go_on(work)

    def _sends_at_once(self, work: Work) -> bool:
        """Send the first form if nothing stands in the way; whether it was sent."""
        session, request = work.session, work.request
        has_more_to_ask = request.hold or request.extras or self._looks.is_first or self._switches(request)
        is_free = session.running is None and not session.is_deaf and session.connection.cause is None
        if has_more_to_ask or not is_free or not session.turn.take_at_once():
            return False
        work.has_turn = True
        session.is_stopping = False
        sent = work.first = self._open(work, partial(self._turned, work))
        fields = {**session.address(), **self._form_fields(work, request.sent_forms[0])}
        is_sent = False
        try:
            is_sent = sent.connection.send_at_once(sent.exchange, self._op(request), fields)
        finally:
            if not is_sent:
                self._leave(work)
        # Done while the REPL works, so that nobody waits.
        work.is_looked_after = is_sent and self._looks.is_last(request)
        return is_sent

    def _op(self, request: Request) -> str:
        """The op that evaluates: on the worker's main thread, in a frame of an error, or on a thread."""
        if request.frame is not None:
            return FRAME
        return BESIDE if request.background and BESIDE in self._probed.ops else "eval"

    def _turned(self, work: Work) -> None:
        """Take the answer of the first request: end the evaluation now, unless more is to be done."""
        sent, request = work.first, work.request
        if sent is None:  # the request was not sent after all
            return
        status = sent.exchange.status
        went_well = "done" in status and "interrupted" not in status and not sent.reply.is_failed
        has_more_to_do = len(request.forms) > 1 or sent.reply.cut or work.is_looked_after
        if not went_well or has_more_to_do or self._is_silent(work, sent.reply) or work.session.is_stopping:
            self._go_on(work)
            return
        self._take(work, sent)
        ending = self._conclude(work, sent.reply, None)
        self._leave(work)
        try:
            work.ended(ending)
        except Exception:
            logger.exception("the end of the evaluation %s could not be told", request.id)

    def _go_on(self, work: Work) -> None:
        """Do the rest in a task."""
        self._tasks.begin(work.ended, self._run(work, self._evaluate_forms(work)))

    def start_load(self, request: Request, ended: Ended, limits: PrintLimits, op: str) -> None:
        """Send a whole file by the server's `op` for files."""
        work = self._work(request, ended, limits)
        self._tasks.begin(ended, self._run(work, self._load(work, op)))

    def start_forms(self, request: Request, ended: Ended, limits: PrintLimits, op: str | None) -> None:
        """Send the forms of a file, or the whole file if its namespace is missing and there is an `op` for files."""
        work = self._work(request, ended, limits)
        self._tasks.begin(ended, self._run(work, self._load_forms(work, op)))

    def _work(self, request: Request, ended: Ended, limits: PrintLimits) -> Work:
        self._fields.check(request.code)
        work = Work(request, self._sessions.get(request.session), ended, limits)
        self._main_connection.check_open()
        return work

    def _switches(self, request: Request) -> bool:
        """Whether the session has to be brought into the namespace first, as a request cannot name one."""
        return bool(request.namespace) and self._dialect.namespace_by != "key"

    async def _run(self, work: Work, act: Coroutine[object, object, Ending]) -> Ending:
        session = work.session
        try:
            if not work.has_turn:
                await session.turn.take()
                work.has_turn = True
                self._main_connection.check_open()
                session.is_stopping = False
                await self._sessions.renew(session)
                await self._looks.before()
            ending = await self._explain(work, await self._holding(work.request.hold, self._with_extras(work, act)))
            if self._looks.is_last(work.request):
                await self._looks.after()
        except ReplDisconnectedError as error:
            self._leave(work)
            if session.connection is not self._main_connection:
                with anyio.move_on_after(LOST_ALONE_S):
                    await self._main_connection.closed.wait()
                    raise
                raise refused(
                    "repl-disconnected",
                    f"this session's own connection was lost: {error.cause}; the code {NOT_SENT_AGAIN}; the session "
                    "gets a new connection with the next evaluation",
                    hint="check what the code did before you repeat it",
                ) from error
            raise
        finally:
            act.close()
            self._leave(work)
        return ending

    async def _holding(self, hold: str, act: Coroutine[object, object, Ending]) -> Ending:
        """The ending of an evaluation whose changes the REPL holds, or we note, so that they can be put back."""
        if not hold:
            return await act
        await self._holds.note(hold, "before")
        try:
            return await act
        finally:
            with anyio.CancelScope(shield=True):
                await self._holds.note(hold, "after")

    async def _with_extras(self, work: Work, act: Coroutine[object, object, Ending]) -> Ending:
        """Return the ending of an evaluation, while the programs run that its extras need."""
        async with self._programs.running(work.request.id, work.request.extras) as work.rewrite:
            return await act

    async def _evaluate_forms(self, work: Work) -> Ending:
        request, session = work.request, work.session
        before = session.namespace
        switches = self._switches(request)
        failure = await self._enter(session, request.namespace or "") if switches else None
        if failure is not None and not (failure.type == NAMESPACE_MISSING and _makes_its_namespace(request)):
            return Ending("failed", namespace=before, failure=failure)
        try:
            return await in_order(request.sent_forms, partial(self._evaluate_form, work))
        finally:
            if switches and self._dialect.namespace_by in {"in-ns", "ns"}:
                with anyio.CancelScope(shield=True):
                    await self._switch(session, before or "user")

    async def _evaluate_form(self, work: Work, form: Form, number: int) -> Ending:
        request, session = work.request, work.session
        if session.is_stopping and work.first is None:
            return Ending("interrupted", namespace=session.namespace)
        sent = work.first or await self._send(work, self._op(request), self._form_fields(work, form))
        work.first = None
        reply = await self._settle(work, sent)
        if failure := await self._stopped(work, reply):
            failure = placed(failure, request, number, counts_lines=self._dialect.counts_lines)
            return Ending("failed", namespace=session.namespace, failure=failure)
        return self._conclude(work, reply, number)

    async def _load_forms(self, work: Work, op: str | None) -> Ending:
        session, request = work.session, work.request
        before = session.failure
        ending = await self._evaluate_forms(work)
        failure = ending.failure
        # If a later form misses the namespace, earlier code has run and must not run again.
        is_missing = failure is not None and failure.type == NAMESPACE_MISSING and failure.form is None
        if not is_missing or op is None or session.is_stopping:
            return ending
        session.failure = before
        work.request = replace(request, kind="load-file", forms=(), namespace=None)
        ending = await self._load(work, op)
        if ending.failure is not None and ending.failure.file is None:
            ending = replace(ending, failure=replace(ending.failure, file=request.file))
        return replace(ending, notes=(*ending.notes, f"all of the file was loaded, as {request.namespace} was not"))

    async def _load(self, work: Work, op: str) -> Ending:
        request, session = work.request, work.session
        _note_loaders(session, request.code)
        fields = self._fields.of_file(request, work.limits, session)
        before = session.namespace
        reply = await self._settle(work, await self._send(work, op, fields))
        if self._dialect.load_moves_namespace:
            await self._switch(session, before or "user")
        if failure := await self._stopped(work, reply):
            return Ending("failed", namespace=before, failure=failure)
        return self._conclude(work, reply, None)

    def _is_silent(self, work: Work, reply: Reply) -> bool:
        """Whether a reply has neither a value nor an error, as nREPL's reply to an unrequested `ThreadDeath`."""
        is_told = reply.values or reply.is_failed or reply.is_interrupted or work.session.is_stopping
        return self._dialect.name == "clojure" and not is_told

    async def _stopped(self, work: Work, reply: Reply) -> Failure | None:
        """The error behind a silent reply, if there is one."""
        if self._is_silent(work, reply):
            with anyio.move_on_after(AFTERWARDS_S), suppress(CodriverError):
                trace = await self._introspection.ask(LastError(session=work.session.name))
                if trace is not None and trace.type == THREAD_DEATH:
                    return Failure(THREAD_DEATH, STOPPED, phase="execution")
        return None

    def _open(self, work: Work, on_turned: Callable[[], None] | None = None) -> Sent:
        """An exchange that counts as what runs in its session, until `_finish`."""
        tells = not self._probed.honours_print_limits or KEEPS_VALUES in self._probed.ops
        reports = self._programs.reply_fields if work.request.extras else NOTHING
        reply = Reply(work.request.id, self._listener, None if tells else work.limits, reports)
        connection = work.session.connection
        work.session.running = exchange = connection.begin(reply.take, on_turned)
        return Sent(exchange, reply, connection)

    def _finish(self, work: Work, sent: Sent) -> None:
        work.session.running = None
        sent.connection.end(sent.exchange)

    def _leave(self, work: Work) -> None:
        """Leave the session. Twice is harmless."""
        first, work.first = work.first, None
        if first is not None:
            self._finish(work, first)
        if work.has_turn:
            work.has_turn = False
            work.session.turn.give_back()

    async def _send(self, work: Work, op: str, fields: dict[str, Value]) -> Sent:
        sent = self._open(work)
        try:
            await sent.connection.send(sent.exchange, op, {**work.session.address(), **fields})
        except BaseException:
            self._finish(work, sent)
            raise
        return sent

    async def _settle(self, work: Work, sent: Sent) -> Reply:
        """The whole reply to a request, once the reply is over."""
        try:
            await sent.connection.settle(sent.exchange, after_failure_s=AFTER_FAILURE_S)
        finally:
            self._finish(work, sent)
        self._take(work, sent)
        if sent.reply.cut:
            await self._keep(work, sent.reply.cut)
        return sent.reply

    def _take(self, work: Work, sent: Sent) -> None:
        """Note the facts on the session from a finished reply."""
        session, reply = work.session, sent.reply
        if session.keeps_loaders or not (reply.values and self._sessions.prints_by):
            session.unprinted += 1
            if session.unprinted % TIDY_EVERY == 0:
                self._tasks.start(self._introspection.tidy(session.name))
        # An interrupt whose `done` went elsewhere marks the exchange, not the reply.
        reply.status |= sent.exchange.status
        if reply.namespace and not work.request.namespace:
            session.namespace = reply.namespace
        work.told += len(reply.values)
        if reply.is_interrupted:  # the session may have another thread now
            session.prints_to = None
        elif reply.values and self._fields.are_kept(work.limits):
            session.prints_to = work.limits

    async def _keep(self, work: Work, seen: str) -> None:
        """Have the REPL keep the last value before another one takes its place."""
        request = work.request
        words = await self._introspection.keep(request.id, work.told, work.session.name, seen=seen, limits=work.limits)
        if words is not None:
            self._listener(request.id, ValueKept(words))

    def _form_fields(self, work: Work, form: Form) -> dict[str, Value]:
        session = work.session
        _note_loaders(session, form.text)
        request = work.request
        if form == request.sent_forms[0] and _makes_its_namespace(request):
            request = replace(request, namespace=session.namespace or self._dialect.home)
        fields = self._fields.of_form(request, form, work.limits, session, work.rewrite)
        session.is_in_file = bool(work.request.file)
        return fields

    def _conclude(self, work: Work, reply: Reply, form: int | None) -> Ending:
        session = work.session
        namespace = reply.namespace or session.namespace
        if reply.is_failed and work.request.frame is None:
            session.failure = reply.failure
        if reply.is_interrupted or (session.is_stopping and not reply.is_failed):
            return Ending("interrupted", namespace=namespace)
        if not reply.is_failed:
            return Ending("done", namespace=namespace, notes=reply.notes)
        failure = read_failure(reply.failure, self._dialect)
        if failure.type == NAMESPACE_MISSING and work.request.namespace:
            failure = replace(no_namespace(work.request.namespace), form=form if form and form > 1 else None)
            return Ending("failed", namespace=session.namespace, failure=failure)
        failure = placed(failure, work.request, form, counts_lines=self._dialect.counts_lines)
        return Ending("failed", namespace=namespace, failure=failure, notes=reply.notes)

    async def _explain(self, work: Work, ending: Ending) -> Ending:
        """The ending with the error's parts that the answer lacks: its chain, and the class behind a wrapper."""
        if ending.failure is None or work.session.failure is None or work.request.frame is not None:
            return ending
        if is_alone(ending.failure, work.session.failure):
            return ending
        return replace(ending, failure=await self._introspection.explained(ending.failure, work.session.name))

    async def _enter(self, session: NreplSession, namespace: str) -> Failure | None:
        """Switch `session` to `namespace`, if that exists: asking for a missing one would make a broken one."""
        if self._dialect.namespace_by == "none":
            if namespace in {session.namespace, "user", "Hy"}:
                return None
            return one_namespace(namespace)
        code = self._dialect.question(f"(some? (find-ns (symbol {self._dialect.quote(namespace)})))")
        answer = await session.connection.ask("eval", timeout_s=self._op_timeout_s, code=code, **session.address())
        if not any("true" in (message.text("value") or "") for message in answer):
            return no_namespace(namespace)
        await self._switch(session, namespace)
        return None

    async def _switch(self, session: NreplSession, namespace: str) -> None:
        if self._dialect.namespace_by == "ns":
            code = f"{self._dialect.keeps_last}(ns {namespace})"
        elif self._dialect.namespace_by == "in-ns":
            code = f"(basilisp.core/in-ns '{namespace})"
        else:
            return
        await session.connection.ask("eval", timeout_s=self._op_timeout_s, code=code, **session.address())


def _makes_its_namespace(request: Request) -> bool:
    """Whether the code begins with the `ns` form of the very namespace that the request names."""
    first = request.sent_forms[0].text
    return request.namespace is not None and "ns" in first and namespace_of(Document(first)) == request.namespace


def _note_loaders(session: NreplSession, code: str) -> None:
    """Have the class loaders of a session stay, from the first code on that mentions one."""
    if not session.keeps_loaders and "Loader" in code:
        session.keeps_loaders, session.prints_to = True, None


class RequestFields:
    """The fields for one server. Lives as long as its adapter.

    `takes_origin`: whether the application's events there name an evaluation by the origin in its request.
    """

    def __init__(self, probed: ProbeResult, holds: DefinitionHolds, *, takes_origin: Callable[[], bool]) -> None:
        self._probed = probed
        self._dialect = probed.dialect
        self._holds = holds
        self._takes_origin = takes_origin

    def check(self, code: str) -> None:
        """Check that the server takes such code.

        Raises:
            RefusedError: it would break on it.
        """
        limit = self._dialect.unsafe_bytes
        if limit is None or code.isascii():
            return
        if (size := len(code.encode("utf-8", "surrogatepass"))) > limit:
            raise request_unsafe(
                f"{self._dialect.name} loses characters that are not ASCII, or never answers, when a request is longer "
                f"than {limit} bytes, and this one has {size}",
                hint="put the code in a file and load that from a short piece of code, or send it in smaller parts",
            )

    def of_form(
        self,
        request: Request,
        form: Form,
        limits: PrintLimits,
        session: NreplSession,
        rewrite: Rewrite | None = None,
    ) -> dict[str, Value]:
        """Fields that evaluate one form of a request in a session, in a recording if there is one."""
        fields: dict[str, Value] = {"code": form.text, **self._of_any(request, limits, session, rewrite)}
        if request.frame is not None:
            fields["frame"] = request.frame
            if request.is_in_test:
                fields["test"] = 1
        if request.namespace and self._dialect.namespace_by == "key":
            fields["ns"] = request.namespace
        if request.file:
            fields["file"] = request.file
            if self._probed.file_evaluator:
                fields["eval"] = self._probed.file_evaluator
        elif session.is_in_file and self._dialect.no_file:
            fields["file"] = self._dialect.no_file
        if not self._probed.takes_positions:
            fields["code"] = "\n" * (form.line - 1) + " " * (form.column - 1) + form.text
        elif (form.line, form.column) != (1, 1) or not self._dialect.takes_beginning:
            fields["line"], fields["column"] = form.line, form.column
        return rewrite(fields) if rewrite is not None else fields

    def of_file(self, request: Request, limits: PrintLimits, session: NreplSession) -> dict[str, Value]:
        """Fields that load a whole file in a session."""
        path = request.file or ""
        fields: dict[str, Value] = {
            "file": request.code,
            "file-path": path,
            "file-name": path.rpartition("/")[2],
            **self._of_any(request, limits, session),
        }
        if request.lines is not None:
            fields["codriver/lines"] = list(request.lines)
        if request.how:
            fields["codriver/how"] = request.how
        return fields

    def are_kept(self, limits: PrintLimits) -> bool:
        """Whether a session remembers these limits from request to request: only defaults, never a call's own."""
        return self._probed.keeps_print_limits and not (limits.length_is_asked or limits.depth_is_asked)

    def _of_any(
        self, request: Request, limits: PrintLimits, session: NreplSession, rewrite: Rewrite | None = None
    ) -> dict[str, Value]:
        """Print limits, the hold that the request belongs to, and its origin."""
        fields: dict[str, Value] = {}
        if self._probed.honours_print_limits:
            keeps = KEEPS_VALUES in self._probed.ops
            if limits != session.prints_to or rewrite is not None:
                fields = self._dialect.print_fields(
                    limits, knows_defaults=keeps, for_session=self.are_kept(limits), keeps_loaders=session.keeps_loaders
                )
            if keeps:
                fields["codriver/keep"] = request.id
        for extra in request.extras:
            fields.update(extra.fields)
        if request.is_partial:
            fields["codriver/partial"] = 1
        if request.hold:
            fields |= self._holds.fields(request.hold)
        if request.who and (SEAM_OP in self._probed.ops or self._takes_origin()):
            fields["codriver/origin"] = {"who": request.who, "evaluation": request.id}
        return fields
