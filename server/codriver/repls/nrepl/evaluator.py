"""The evaluator of one nREPL server: sends code form by form, or as a file, and tells how it ended.

The first form is sent in the very turn of the event loop in which it is asked for, if nothing stands in its way: what
else is to be done about an evaluation is done while the REPL works.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Protocol

import anyio

from codriver.core.values import Failure, Form
from codriver.errors import ReplDisconnectedError
from codriver.net.tasks import TaskSet
from codriver.repls.adapter_values import NAMESPACE_MISSING, Ending, ValueKept
from codriver.repls.errors import RequestUnsafeError, SessionLostError
from codriver.repls.nrepl.failures import is_alone, no_namespace, placed, read_failure
from codriver.repls.nrepl.responses import KEEPS_VALUES, SEAM_OP, Reply

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from codriver.core.values import PrintLimits, Request
    from codriver.repls.adapter_values import Ended, Listener
    from codriver.repls.nrepl.connection import Exchange, NreplConnection
    from codriver.repls.nrepl.definition_holds import DefinitionHolds
    from codriver.repls.nrepl.introspection import Introspection
    from codriver.repls.nrepl.probe import ProbeResult
    from codriver.repls.nrepl.session_pool import NreplSession, SessionPool
    from codriver.wire.bencode import Value

AFTER_FAILURE_S: Final = 5.0
"""How long a failure waits for its `done`. Every server sends it at once, or not at all."""

LOST_ALONE_S: Final = 0.25
"""How soon the main connection follows one that was lost, when it is the REPL that is gone."""

TIDY_EVERY: Final = 200
"""Evaluations in one session after which what the server left behind is tidied up."""


@dataclass(frozen=True, slots=True, eq=False)
class _Sent:
    """A request that evaluates, and the reply to it as far as it came."""

    exchange: Exchange
    reply: Reply
    connection: NreplConnection


@dataclass(slots=True, eq=False)
class _Work:
    """One evaluation under way."""

    request: Request
    session: NreplSession
    ended: Ended
    limits: PrintLimits
    first: _Sent | None = None
    """Its first request, where that was sent at once."""
    told: int = 0
    """Values so far."""

    @property
    def forms(self) -> tuple[Form, ...]:
        """The forms that are sent, one after the other."""
        return self.request.forms or (Form(self.request.code, 1, 1),)


class Looks(Protocol):
    """Looks at the application in a REPL around what is evaluated. None of them raises."""

    @property
    def is_first(self) -> bool:
        """True where there is something to look at before code runs, which then is not sent at once."""

    async def before(self) -> None:
        """Look before a request is evaluated."""

    async def after(self, request: Request) -> None:
        """Look when a request was evaluated, before its end is told."""


class Evaluator:
    """Runs the evaluations of one adapter, for its life. One at a time in each session; the caller sees to that."""

    def __init__(
        self,
        sessions: SessionPool,
        probed: ProbeResult,
        listener: Listener,
        introspection: Introspection,
        holds: DefinitionHolds,
        *,
        looks: Looks,
        op_timeout_s: float,
    ) -> None:
        self._sessions = sessions
        self._main_connection = sessions.main.connection
        """Kept here, as the table is emptied before the connections are closed."""
        self._probed = probed
        self._dialect = probed.dialect
        self._listener = listener
        self._introspection = introspection
        self._holds = holds
        self._looks = looks
        self._op_timeout_s = op_timeout_s
        self._tasks = TaskSet()

    def start(self, request: Request, ended: Ended, limits: PrintLimits) -> None:
        """Send code to be run, form by form. See `Adapter.start_evaluation`."""
        work = self._work(request, ended, limits)
        if not self._looks.is_first and self._is_free(work):
            work.session.is_stopping = False
            sent = self._open(work)
            fields = {**work.session.address(), **self._form_fields(work, work.forms[0])}
            try:
                is_sent = sent.connection.send_at_once(sent.exchange, "eval", fields)
            except BaseException:
                self._finish(work, sent)
                raise
            if is_sent:
                work.first = sent
            else:
                self._finish(work, sent)
        self._tasks.start(self._run(work, self._evaluate_forms(work)))

    def start_load(self, request: Request, ended: Ended, limits: PrintLimits, op: str) -> None:
        """Send a whole file by the server's `op` for that. See `Adapter.start_evaluation`."""
        work = self._work(request, ended, limits)
        self._tasks.start(self._run(work, self._load(work, op)))

    def start_forms(self, request: Request, ended: Ended, limits: PrintLimits, op: str | None) -> None:
        """Send the forms of a file, or all of it where its namespace is missing and there is an `op` for that."""
        work = self._work(request, ended, limits)
        self._tasks.start(self._run(work, self._load_forms(work, op)))

    async def end(self) -> None:
        """End all that runs, when its connection is over."""
        await self._tasks.end()

    def _work(self, request: Request, ended: Ended, limits: PrintLimits) -> _Work:
        self._refuse_unsafe(request.code)
        work = _Work(request, self._sessions.get(request.session), ended, limits)
        self._main_connection.check_open()
        return work

    def _is_free(self, work: _Work) -> bool:
        """Whether the first form can be the next thing that its session is asked."""
        session = work.session
        is_idle = session.running is None and not session.lock.locked()
        return is_idle and session.connection.cause is None and not self._switches(work.request)

    def _switches(self, request: Request) -> bool:
        """Whether the session has to be brought into the namespace first, as a request cannot name one."""
        return bool(request.namespace) and self._dialect.namespace_by != "key"

    async def _run(self, work: _Work, act: Coroutine[object, object, Ending]) -> None:
        how: Ending | Exception = ReplDisconnectedError("it was closed by us")
        session = work.session
        try:
            async with session.lock:
                if work.first is None:
                    self._main_connection.check_open()
                    session.is_stopping = False
                    await self._sessions.renew(session)
                    await self._looks.before()
                how = await self._explain(work, await self._holding(work.request.hold, act))
                await self._looks.after(work.request)
        except ReplDisconnectedError as error:
            how = error
            if session.connection is not self._main_connection:
                with anyio.move_on_after(LOST_ALONE_S):
                    await self._main_connection.closed.wait()
                    return
                how = SessionLostError(error.cause)
        except Exception as error:  # noqa: BLE001  # it goes to who is told of the end
            how = error
        finally:
            act.close()
            if work.first is not None:  # it was ended before it could wait for the answer
                self._finish(work, work.first)
            work.ended(how)

    async def _holding(self, hold: str, act: Coroutine[object, object, Ending]) -> Ending:
        """The ending of what is held by the REPL, or noted by us around it, so that it can be put back."""
        if not hold:
            return await act
        await self._holds.note(hold, "before")
        try:
            return await act
        finally:
            with anyio.CancelScope(shield=True):
                await self._holds.note(hold, "after")

    async def _evaluate_forms(self, work: _Work) -> Ending:
        request, session = work.request, work.session
        before = session.namespace
        switches = self._switches(request)
        if switches and (failure := await self._enter(session, request.namespace or "")):
            return Ending("failed", namespace=before, failure=failure)
        try:
            for index, form in enumerate(work.forms, 1):
                if session.is_stopping and work.first is None:
                    return Ending("interrupted", namespace=before)
                sent = work.first or await self._send(work, "eval", self._form_fields(work, form))
                work.first = None
                reply = await self._settle(work, sent)
                if reply.is_failed or reply.is_interrupted or session.is_stopping:
                    return self._conclude(work, reply, index)
            return self._conclude(work, reply, None)
        finally:
            if switches and self._dialect.namespace_by in {"in-ns", "ns"}:
                with anyio.CancelScope(shield=True):
                    await self._switch(session, before or "user")

    async def _load_forms(self, work: _Work, op: str | None) -> Ending:
        session, request = work.session, work.request
        before = session.failure
        ending = await self._evaluate_forms(work)
        failure = ending.failure
        # A later form that misses it came after code that ran, which must not run again.
        is_missing = failure is not None and failure.type == NAMESPACE_MISSING and failure.form is None
        if not is_missing or op is None or session.is_stopping:
            return ending
        session.failure = before
        work.request = replace(request, kind="load-file", forms=(), namespace=None)
        ending = await self._load(work, op)
        if ending.failure is not None and ending.failure.file is None:
            ending = replace(ending, failure=replace(ending.failure, file=request.file))
        return replace(ending, notes=(*ending.notes, f"all of the file was loaded, as {request.namespace} was not"))

    async def _load(self, work: _Work, op: str) -> Ending:
        request, session = work.request, work.session
        path = request.file or ""
        fields: dict[str, Value] = {
            "file": request.code,
            "file-path": path,
            "file-name": path.rpartition("/")[2],
            **self._print_fields(work),
        }
        fields |= self._holds.fields(request.hold)
        if request.who:
            fields |= self._origin_fields(request)
        if request.lines is not None:
            fields["codriver/lines"] = list(request.lines)
        before = session.namespace
        reply = await self._settle(work, await self._send(work, op, fields))
        if self._dialect.load_moves_namespace:
            await self._switch(session, before or "user")
        return self._conclude(work, reply, None)

    # One request

    def _open(self, work: _Work) -> _Sent:
        """An exchange that counts as what runs in its session, until `_finish`."""
        tells = not self._probed.honours_print_limits or KEEPS_VALUES in self._probed.ops
        reply = Reply(work.request.id, self._listener, None if tells else work.limits)
        connection = work.session.connection
        work.session.running = exchange = connection.begin(reply.take)
        return _Sent(exchange, reply, connection)

    def _finish(self, work: _Work, sent: _Sent) -> None:
        work.session.running = None
        sent.connection.end(sent.exchange)

    async def _send(self, work: _Work, op: str, fields: dict[str, Value]) -> _Sent:
        sent = self._open(work)
        try:
            await sent.connection.send(sent.exchange, op, {**work.session.address(), **fields})
        except BaseException:
            self._finish(work, sent)
            raise
        return sent

    async def _settle(self, work: _Work, sent: _Sent) -> Reply:
        """The whole reply to what was sent, when it is over."""
        session, exchange, reply = work.session, sent.exchange, sent.reply
        try:
            await sent.connection.settle(exchange, after_failure_s=AFTER_FAILURE_S)
        finally:
            self._finish(work, sent)
        session.evaluations += 1
        if session.evaluations % TIDY_EVERY == 0:
            self._tasks.start(self._introspection.tidy(session.name))
        # An interrupt whose `done` went elsewhere marks the exchange, not the reply.
        reply.status |= exchange.status
        if reply.namespace and not work.request.namespace:
            session.namespace = reply.namespace
        work.told += len(reply.values)
        if reply.cut:
            await self._keep(work, reply.cut)
        return reply

    async def _keep(self, work: _Work, seen: str) -> None:
        """Have the REPL keep the value that was told last, before another one takes its place."""
        request = work.request
        words = await self._introspection.keep(request.id, work.told, work.session.name, seen=seen, limits=work.limits)
        if words is not None:
            self._listener(request.id, ValueKept(words))

    def _form_fields(self, work: _Work, form: Form) -> dict[str, Value]:
        request = work.request
        fields: dict[str, Value] = {"code": form.text, **self._print_fields(work)}
        if request.namespace and self._dialect.namespace_by == "key":
            fields["ns"] = request.namespace
        fields |= self._holds.fields(request.hold)
        if request.who:
            fields |= self._origin_fields(request)
        if request.file:
            fields["file"] = request.file
        elif work.session.is_in_file and self._dialect.no_file:
            fields["file"] = self._dialect.no_file
        work.session.is_in_file = bool(request.file)
        if self._probed.takes_positions:
            fields |= {"line": form.line, "column": form.column}
        else:
            fields["code"] = "\n" * (form.line - 1) + " " * (form.column - 1) + form.text
        return fields

    def _origin_fields(self, request: Request) -> dict[str, Value]:
        """Whose the code is, for the application's seam, in Codriver's worker."""
        is_ours = SEAM_OP in self._probed.ops
        return {"codriver/origin": {"who": request.who, "evaluation": request.id}} if is_ours else {}

    def _print_fields(self, work: _Work) -> dict[str, Value]:
        if not self._probed.honours_print_limits:
            return {}
        if KEEPS_VALUES not in self._probed.ops:
            return self._dialect.print_fields(work.limits)
        return {**self._dialect.print_fields(work.limits, knows_defaults=True), "codriver/keep": work.request.id}

    def _refuse_unsafe(self, code: str) -> None:
        limit = self._dialect.unsafe_bytes
        if limit is None or code.isascii():
            return
        if (size := len(code.encode("utf-8", "surrogatepass"))) > limit:
            raise RequestUnsafeError(
                f"{self._dialect.name} loses characters that are not ASCII, or never answers, when a request is longer "
                f"than {limit} bytes, and this one has {size}",
                hint="put the code in a file and load that from a short piece of code, or send it in smaller parts",
            )

    # How it ended

    def _conclude(self, work: _Work, reply: Reply, form: int | None) -> Ending:
        session = work.session
        namespace = reply.namespace or session.namespace
        if reply.is_failed:
            session.failure = reply.failure
        if reply.is_interrupted or (session.is_stopping and not reply.is_failed):
            return Ending("interrupted", namespace=namespace)
        if not reply.is_failed:
            return Ending("done", namespace=namespace)
        failure = read_failure(reply.failure, self._dialect)
        if failure.type == NAMESPACE_MISSING and work.request.namespace:
            failure = replace(no_namespace(work.request.namespace), form=form if form and form > 1 else None)
            return Ending("failed", namespace=session.namespace, failure=failure)
        failure = placed(failure, work.request, form, counts_lines=self._dialect.counts_lines)
        return Ending("failed", namespace=namespace, failure=failure)

    async def _explain(self, work: _Work, ending: Ending) -> Ending:
        """The ending with what the answer did not tell of its error: its chain, and the class behind a wrapper."""
        if ending.failure is None or work.session.failure is None or is_alone(ending.failure, work.session.failure):
            return ending
        return replace(ending, failure=await self._introspection.explained(ending.failure, work.session.name))

    # Namespaces, where a request cannot name one

    async def _enter(self, session: NreplSession, namespace: str) -> Failure | None:
        """Switch `session` to `namespace`, unless it does not exist: asking for it would make a broken one."""
        if self._dialect.namespace_by == "none":
            if namespace in {session.namespace, "user", "Hy"}:
                return None
            words = f"this REPL evaluates in one namespace only, and {namespace!r} was asked for; nothing was evaluated"
            return Failure(NAMESPACE_MISSING, words)
        code = self._dialect.json % f"(some? (find-ns (symbol {self._dialect.quote(namespace)})))"
        answer = await session.connection.ask("eval", timeout_s=self._op_timeout_s, code=code, **session.address())
        if not any("true" in (message.text("value") or "") for message in answer):
            return no_namespace(namespace)
        await self._switch(session, namespace)
        return None

    async def _switch(self, session: NreplSession, namespace: str) -> None:
        if self._dialect.namespace_by == "ns":
            code = f"(ns {namespace})"
        elif self._dialect.namespace_by == "in-ns":
            code = f"(basilisp.core/in-ns '{namespace})"
        else:
            return
        await session.connection.ask("eval", timeout_s=self._op_timeout_s, code=code, **session.address())
