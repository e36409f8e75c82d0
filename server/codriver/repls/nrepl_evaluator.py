"""Evaluations in one nREPL server: code goes there form by form, or as a file, and how it ended is told.

The first form is sent in the very turn of the event loop in which it is asked for, if nothing stands in its way: what
else is to be done about an evaluation is done while the REPL works.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import anyio

from codriver.errors import ReplDisconnectedError
from codriver.repls.failures import WRAPPERS, read_failure
from codriver.repls.placing import no_namespace, placed
from codriver.repls.refusals import RequestUnsafeError, SessionLostError
from codriver.repls.reply import Reply
from codriver.repls.values import NAMESPACE_MISSING, Ending, EvaluationError, Form
from codriver.taskset import TaskSet

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from codriver.repls.inquiries import Inquiries
    from codriver.repls.nrepl_connection import Exchange, NreplConnection
    from codriver.repls.nrepl_sessions import NreplSession, SessionTable
    from codriver.repls.profile import Probed
    from codriver.repls.values import Ended, Evaluation, Listener, Support
    from codriver.wire.bencode import Value

AFTER_FAILURE_S: Final = 5.0
"""How long a failure waits for its `done`. Every server sends it at once, or not at all."""

LOST_ALONE_S: Final = 0.25
"""How soon the main connection follows one that was lost, when it is the REPL that is gone."""

TIDY_EVERY: Final = 200
"""Evaluations in one session after which what the server left behind is tidied up."""


@dataclass(frozen=True, slots=True, eq=False)
class _Request:
    """A request that evaluates, and the reply to it as far as it came."""

    exchange: Exchange
    reply: Reply
    connection: NreplConnection


@dataclass(slots=True, eq=False)
class _Work:
    """What one call of `begin` began."""

    evaluation: Evaluation
    session: NreplSession
    ended: Ended
    first: _Request | None = None
    """Its first request, where that was sent at once."""

    @property
    def forms(self) -> tuple[Form, ...]:
        """What is sent, one after the other."""
        return self.evaluation.forms or (Form(self.evaluation.code, 1, 1),)


class Evaluator:
    """Runs the evaluations of one adapter, for its life. One at a time in each session; the caller sees to that."""

    def __init__(
        self,
        sessions: SessionTable,
        probed: Probed,
        listener: Listener,
        inquiries: Inquiries,
        *,
        op_timeout_s: float,
    ) -> None:
        self._sessions = sessions
        self._main_connection = sessions.main.connection
        """Kept here, as the table is emptied before the connections are closed."""
        self._probed = probed
        self._dialect = probed.dialect
        self._listener = listener
        self._inquiries = inquiries
        self._op_timeout_s = op_timeout_s
        self._tasks = TaskSet()

    def begin(self, evaluation: Evaluation, ended: Ended) -> None:
        """Begin to run code, form by form. See `Adapter.begin`."""
        work = self._work(evaluation, ended)
        if self._is_free(work):
            work.session.is_stopping = False
            request = self._request(work)
            fields = {**work.session.address(), **self._form_fields(evaluation, work.forms[0])}
            try:
                is_sent = request.connection.send_at_once(request.exchange, "eval", fields)
            except BaseException:
                self._finish(work, request)
                raise
            if is_sent:
                work.first = request
            else:
                self._finish(work, request)
        self._tasks.start(self._run(work, self._evaluate_forms(work)))

    def begin_load(self, evaluation: Evaluation, ended: Ended, path: str, support: Support) -> None:
        """Begin to load the text of the file `path`, as that file. See `Adapter.begin`."""
        if support.adapted:
            self.begin(replace(evaluation, file=path, line=1, column=1), ended)
            return
        work = self._work(evaluation, ended)
        self._tasks.start(self._run(work, self._load(work, op=support.op, path=path)))

    async def end(self) -> None:
        """End all that runs, when its connection is over."""
        await self._tasks.end()

    def _work(self, evaluation: Evaluation, ended: Ended) -> _Work:
        self._refuse_unsafe(evaluation.code)
        work = _Work(evaluation, self._sessions.get(evaluation.session), ended)
        self._main_connection.check_open()
        return work

    def _is_free(self, work: _Work) -> bool:
        """Whether the first form can be the next thing that its session is asked."""
        session = work.session
        is_idle = session.running is None and not session.lock.locked()
        return is_idle and session.connection.cause is None and not self._switches(work.evaluation)

    def _switches(self, evaluation: Evaluation) -> bool:
        """Whether the session has to be brought into the namespace first, as a request cannot name one."""
        return bool(evaluation.namespace) and self._dialect.namespace_by != "key"

    async def _run(self, work: _Work, act: Coroutine[object, object, Ending]) -> None:
        how: Ending | Exception = ReplDisconnectedError("it was closed by us")
        session = work.session
        try:
            async with session.lock:
                if work.first is None:
                    self._main_connection.check_open()
                    session.is_stopping = False
                    await self._sessions.renew(session)
                how = await self._name_class(work, await act)
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

    async def _evaluate_forms(self, work: _Work) -> Ending:
        evaluation, session = work.evaluation, work.session
        before = session.namespace
        switches = self._switches(evaluation)
        if switches and (error := await self._enter(session, evaluation.namespace or "")):
            return Ending("failed", namespace=before, error=error)
        try:
            for index, form in enumerate(work.forms, 1):
                if session.is_stopping and work.first is None:
                    return Ending("interrupted", namespace=before)
                request = work.first or await self._send(work, "eval", self._form_fields(evaluation, form))
                work.first = None
                reply = await self._settle(work, request)
                if reply.is_failed or reply.is_interrupted or session.is_stopping:
                    return self._conclude(work, reply, index)
            return self._conclude(work, reply, None)
        finally:
            if switches and self._dialect.namespace_by in {"in-ns", "ns"}:
                with anyio.CancelScope(shield=True):
                    await self._switch(session, before or "user")

    async def _load(self, work: _Work, *, op: str, path: str) -> Ending:
        evaluation, session = work.evaluation, work.session
        fields: dict[str, Value] = {
            "file": evaluation.code,
            "file-path": path,
            "file-name": path.rpartition("/")[2],
            **self._print_fields(evaluation),
        }
        before = session.namespace
        reply = await self._settle(work, await self._send(work, op, fields))
        if self._dialect.load_moves_namespace:
            await self._switch(session, before or "user")
        return self._conclude(work, reply, None, path)

    # One request

    def _request(self, work: _Work) -> _Request:
        """A request that counts as what runs in its session, until `_finish`."""
        reply = Reply(work.evaluation.id, self._listener)
        connection = work.session.connection
        work.session.running = exchange = connection.begin(reply.take)
        return _Request(exchange, reply, connection)

    def _finish(self, work: _Work, request: _Request) -> None:
        work.session.running = None
        request.connection.end(request.exchange)

    async def _send(self, work: _Work, op: str, fields: dict[str, Value]) -> _Request:
        request = self._request(work)
        try:
            await request.connection.send(request.exchange, op, {**work.session.address(), **fields})
        except BaseException:
            self._finish(work, request)
            raise
        return request

    async def _settle(self, work: _Work, request: _Request) -> Reply:
        """The whole reply to what was sent, when it is over."""
        session, exchange, reply = work.session, request.exchange, request.reply
        try:
            await request.connection.settle(exchange, after_failure_s=AFTER_FAILURE_S)
        finally:
            self._finish(work, request)
        session.evaluations += 1
        if session.evaluations % TIDY_EVERY == 0:
            self._tasks.start(self._inquiries.tidy(session.name))
        # An interrupt whose `done` went elsewhere marks the exchange, not the reply.
        reply.status |= exchange.status
        if reply.namespace and not work.evaluation.namespace:
            session.namespace = reply.namespace
        return reply

    def _form_fields(self, evaluation: Evaluation, form: Form) -> dict[str, Value]:
        fields: dict[str, Value] = {"code": form.text, **self._print_fields(evaluation)}
        if evaluation.namespace and self._dialect.namespace_by == "key":
            fields["ns"] = evaluation.namespace
        if evaluation.file:
            fields["file"] = evaluation.file
        line = evaluation.line + form.line - 1
        # Only the first line of the code begins at the caller's column.
        column = form.column + (evaluation.column - 1 if form.line == 1 else 0)
        if self._probed.takes_positions:
            fields |= {"line": line, "column": column}
        else:
            fields["code"] = "\n" * (line - 1) + " " * (column - 1) + form.text
        return fields

    def _print_fields(self, evaluation: Evaluation) -> dict[str, Value]:
        if not self._probed.honours_print_limits:
            return {}
        return self._dialect.print_fields(
            max_length=evaluation.max_length,
            max_depth=evaluation.max_depth,
            max_value_bytes=evaluation.max_value_bytes,
        )

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

    def _conclude(self, work: _Work, reply: Reply, form: int | None, path: str | None = None) -> Ending:
        session = work.session
        namespace = reply.namespace or session.namespace
        if reply.is_failed:
            session.failure = reply.failure
        if reply.is_interrupted or (session.is_stopping and not reply.is_failed):
            return Ending("interrupted", namespace=namespace)
        if not reply.is_failed:
            return Ending("done", namespace=namespace)
        error = read_failure(reply.failure, self._dialect)
        if error.type == NAMESPACE_MISSING and work.evaluation.namespace:
            return Ending("failed", namespace=session.namespace, error=no_namespace(work.evaluation.namespace))
        path = path or work.evaluation.file
        error = placed(error, work.evaluation, form, path=path, counts_lines=self._dialect.counts_lines)
        return Ending("failed", namespace=namespace, error=error)

    async def _name_class(self, work: _Work, ending: Ending) -> Ending:
        """The ending with the class of what was thrown, where the server names but the compiler's wrapper of it."""
        if ending.error is None or not ending.error.type.endswith(WRAPPERS):
            return ending
        return replace(ending, error=await self._inquiries.unwrapped(ending.error, work.session.name))

    # Namespaces, where a request cannot name one

    async def _enter(self, session: NreplSession, namespace: str) -> EvaluationError | None:
        """Switch `session` to `namespace`, unless it does not exist: asking for it would make a broken one."""
        if self._dialect.namespace_by == "none":
            if namespace in {session.namespace, "user", "Hy"}:
                return None
            words = f"this REPL evaluates in one namespace only, and {namespace!r} was asked for; nothing was evaluated"
            return EvaluationError(NAMESPACE_MISSING, words)
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
