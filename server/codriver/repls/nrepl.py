"""The adapter for nREPL servers: our side of one REPL that speaks bencode over TCP.

`connect` gives it; `codriver.repls.base` says what it guarantees. Source: nREPL documentation, "Ops".
"""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Final

import anyio

from codriver.errors import ReplDisconnectedError
from codriver.repls.base import (
    MAIN_SESSION,
    NAMESPACE_MISSING,
    CapabilityMissingError,
    Ending,
    Endpoint,
    EvaluationError,
    Form,
    Interruption,
    OpTimedOutError,
    RequestUnsafeError,
    SessionLostError,
)
from codriver.repls.failures import WRAPPERS, read_failure
from codriver.repls.heartbeat import watch
from codriver.repls.inquiries import Inquiries
from codriver.repls.nrepl_sessions import OURS, NreplSession, SessionTable
from codriver.repls.placing import no_namespace, placed
from codriver.repls.profile import Probed, probe, read_ops
from codriver.repls.reply import Reply

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable
    from pathlib import Path

    from anyio.abc import TaskGroup

    from codriver.repls.base import Adapter, Ended, Evaluation, Listener, Profile, Support
    from codriver.repls.heartbeat import Beat
    from codriver.repls.message import Message
    from codriver.wire.bencode import Value

AFTER_FAILURE_S: Final = 5.0
"""How long a failure waits for its `done`. Every server sends it at once, or not at all."""

AFTER_INTERRUPT_S: Final = 2.0
"""How long an interrupted evaluation waits for its own `done`, which may have gone to another connection."""

LOST_ALONE_S: Final = 0.25
"""How soon the main connection follows one that was lost, when it is the REPL that is gone."""

TIDY_EVERY: Final = 200
"""Evaluations in one session after which what the server left behind is tidied up."""

OUTPUT_OPS: Final = ("forward-system-output", "out-subscribe", "cider/out-subscribe")
"""Ops that give the output of threads that belong to no evaluation, the best first."""


@dataclass(frozen=True, slots=True, eq=False)
class _Work:
    """What one call of `begin` began."""

    evaluation: Evaluation
    session: NreplSession
    ended: Ended


@asynccontextmanager
async def connect(
    endpoint: Endpoint,
    *,
    listener: Listener,
    connect_timeout_s: float = 5.0,
    op_timeout_s: float = 10.0,
    workspace: Path | None = None,
    beat: Beat | None = None,
) -> AsyncIterator[Adapter]:
    """An adapter for the nREPL server at `endpoint`, connected and probed; leaving the context closes it.

    `op_timeout_s` bounds every op but an evaluation. Stack frames in files under `workspace` count as the user's. With
    `beat`, a REPL that does not answer any more is noticed also where the connection to what is in between stands.

    Raises:
        ReplUnreachableError: nobody listens there.
        NotAnReplError: what listens does not answer as an nREPL server does.
    """
    failure: Exception | None = None
    async with anyio.create_task_group() as tasks:

        def on_stray(message: Message) -> None:
            Reply(None, listener).take(message)

        sessions = SessionTable(endpoint, tasks, on_stray, op_timeout_s=op_timeout_s)
        try:
            probed = await _shake_hands(sessions, connect_timeout_s=connect_timeout_s, op_timeout_s=op_timeout_s)
            adapter = NreplAdapter(sessions, probed, listener, tasks, op_timeout_s=op_timeout_s, workspace=workspace)
            await adapter.subscribe_output()
            if beat is not None:
                while_busy = probed.dialect.answers_while_busy
                tasks.start_soon(partial(watch, sessions.get(MAIN_SESSION), beat, while_busy=while_busy))
            yield adapter
        except Exception as error:  # noqa: BLE001 - raised again below: a task group would wrap it in a group
            failure = error
        finally:
            with anyio.CancelScope(shield=True):
                await sessions.close_all()
            tasks.cancel_scope.cancel()
    if failure is not None:
        raise failure


async def _shake_hands(sessions: SessionTable, *, connect_timeout_s: float, op_timeout_s: float) -> Probed:
    main = await sessions.open_main(connect_timeout_s=connect_timeout_s)
    connection = main.connection
    try:
        answer = await connection.ask("describe", timeout_s=op_timeout_s)
        ops = read_ops(answer)
        if "eval" not in ops:
            raise sessions.refuse("it answers `describe` without naming an op `eval`")
        probed = await probe(connection, answer, ops=ops)
        sessions.dialect = probed.dialect
        connection.send_gap_s = probed.dialect.send_gap_s
        if "clone" in ops:
            main.id = await sessions.clone(connection)
    except ReplDisconnectedError as error:
        raise sessions.refuse(error.cause) from error
    except OpTimedOutError as error:
        raise sessions.refuse(f"it took the connection and did not answer {error.op!r} in time") from error
    return probed


class NreplAdapter:
    """Our side of one nREPL server. Lives as long as the context of `connect`."""

    def __init__(
        self,
        sessions: SessionTable,
        probed: Probed,
        listener: Listener,
        tasks: TaskGroup,
        *,
        op_timeout_s: float,
        workspace: Path | None,
    ) -> None:
        self._sessions = sessions
        self._probed = probed
        self._dialect = probed.dialect
        self._listener = listener
        self._tasks = tasks
        self._op_timeout_s = op_timeout_s
        self._main = sessions.get(MAIN_SESSION)
        inquiries = Inquiries(sessions, probed, op_timeout_s=op_timeout_s, workspace=workspace)
        self.complete = inquiries.complete
        self.lookup = inquiries.lookup
        self.macroexpand = inquiries.macroexpand
        self.run_tests = inquiries.run_tests
        self.last_stacktrace = inquiries.last_stacktrace
        self.stacks = inquiries.stacks
        self.clojuredocs = inquiries.clojuredocs
        self._inquiries = inquiries

    @property
    def profile(self) -> Profile:
        """What the REPL can do."""
        return self._probed.profile

    def begin(self, evaluation: Evaluation, ended: Ended, *, path: str | None = None) -> None:
        """Begin to run code, form by form, or the file `path`. See `Adapter.begin`."""
        self._refuse_unsafe(evaluation.code)
        act = self._evaluate_forms
        if path is not None and (support := self._require("load-file")):
            if support.adapted:
                evaluation = replace(evaluation, file=path, line=1, column=1)
            else:
                act = partial(self._load, op=support.op, path=path)
        work = _Work(evaluation, self._sessions.get(evaluation.session), ended)
        self._main.connection.check_open()
        self._tasks.start_soon(self._work, work, act)

    async def evaluate(self, evaluation: Evaluation, *, path: str | None = None) -> Ending:
        """Run code, and return when it is over. See `Adapter.evaluate`."""
        over, endings = anyio.Event(), list[Ending | Exception]()

        def ended(how: Ending | Exception) -> None:
            endings.append(how)
            over.set()

        self.begin(evaluation, ended, path=path)
        await over.wait()
        if isinstance(endings[0], Exception):
            raise endings[0]
        return endings[0]

    async def interrupt(self, session: str = MAIN_SESSION) -> Interruption:
        """Ask the server to stop what runs in `session`. See `Adapter.interrupt`."""
        support = self._require("interrupt")
        target = self._sessions.get(session)
        if (running := target.running) is None:
            if not target.lock.locked():
                return Interruption("idle")
            target.is_stopping = True
            return Interruption("requested", note="it was between two forms, and no further one is sent")
        target.is_stopping = True
        fields: dict[str, Value] = {**target.address(), "interrupt-id": running.id}
        answer = await target.connection.ask(support.op, timeout_s=self._op_timeout_s, **fields)
        status = frozenset().union(*(message.status for message in answer))
        if "session-idle" in status or "interrupt-id-mismatch" in status:
            return Interruption("idle", note="it was over before the interrupt came")
        with anyio.move_on_after(AFTER_INTERRUPT_S):
            await running.over.wait()
        if not running.over.is_set():
            running.status.add("interrupted")
            target.connection.end(running)
            note = "the REPL confirmed the interrupt and did not end the evaluation: its code may still run"
            return Interruption("requested", note=note)
        if self._dialect.interrupt_note:
            return Interruption("requested", note=self._dialect.interrupt_note)
        return Interruption("interrupted")

    async def send_input(self, text: str, session: str = MAIN_SESSION) -> None:
        """Give `text` to code that reads from stdin in `session`. See `Adapter.send_input`."""
        support = self._require("stdin")
        target = self._sessions.get(session)
        # Some servers answer at once, some when the text was read, and one sends the evaluation's value under this id.
        exchange = target.connection.begin(target.running.on_message if target.running else Reply(None, _drop).take)
        target.connection.end(exchange)
        with anyio.move_on_after(self._op_timeout_s) as scope:
            await target.connection.send(exchange, support.op, {**target.address(), "stdin": text})
        if scope.cancelled_caught:
            raise OpTimedOutError(support.op, self._op_timeout_s)

    async def open_session(self, name: str) -> None:
        """Make a session of its own under `name`. See `Adapter.open_session`."""
        self._require("sessions")
        await self._sessions.open(name)

    async def close_session(self, name: str) -> None:
        """End a session made by `open_session`; an unknown name is ignored."""
        if name not in OURS:
            await self._sessions.close(name)

    async def wait_closed(self) -> str:
        """Wait until the connection is over and give the cause in words."""
        connection = self._main.connection
        await connection.closed.wait()
        return connection.cause or "the connection ended"

    async def subscribe_output(self) -> None:
        """Ask for the output of threads that no evaluation owns, where the server offers it."""
        op = next((op for op in OUTPUT_OPS if op in self.profile.ops), None)
        if op is None:
            return
        connection = self._main.connection
        exchange = connection.begin(Reply(None, self._listener).take)
        with anyio.move_on_after(self._op_timeout_s):
            await connection.send(exchange, op, self._main.address())
            await exchange.over.wait()
        connection.end(exchange)

    async def _work(self, work: _Work, act: Callable[[_Work], Awaitable[Ending]]) -> None:
        how: Ending | Exception = ReplDisconnectedError("it was closed by us")
        try:
            async with work.session.lock:
                work.session.is_stopping = False
                await self._sessions.renew(work.session)
                how = await self._name_class(work, await act(work))
        except ReplDisconnectedError as error:
            how = error
            if work.session.connection is not self._main.connection:
                with anyio.move_on_after(LOST_ALONE_S):
                    await self.wait_closed()
                    return
                how = SessionLostError(error.cause)
        except Exception as error:  # noqa: BLE001  # it goes to who is told of the end
            how = error
        finally:
            work.session.running = None
            work.ended(how)

    async def _load(self, work: _Work, *, op: str, path: str) -> Ending:
        evaluation, session = work.evaluation, work.session
        fields: dict[str, Value] = {
            "file": evaluation.code,
            "file-path": path,
            "file-name": path.rpartition("/")[2],
            **self._print_fields(evaluation),
        }
        before = session.namespace
        reply = await self._run_one(work, op, fields)
        if self._dialect.load_moves_namespace:
            await self._switch(session, before or "user")
        return self._conclude(work, reply, None, path)

    async def _name_class(self, work: _Work, ending: Ending) -> Ending:
        """The ending with the class of what was thrown, where the server names but the compiler's wrapper of it."""
        if ending.error is None or not ending.error.type.endswith(WRAPPERS):
            return ending
        return replace(ending, error=await self._inquiries.unwrapped(ending.error, work.session.name))

    async def _evaluate_forms(self, work: _Work) -> Ending:
        evaluation, session = work.evaluation, work.session
        forms = evaluation.forms or (Form(evaluation.code, 1, 1),)
        address = self._dialect.namespace_by
        before = session.namespace
        if evaluation.namespace and address != "key" and (error := await self._enter(session, evaluation.namespace)):
            return Ending("failed", namespace=before, error=error)
        try:
            for index, form in enumerate(forms, 1):
                if session.is_stopping:
                    return Ending("interrupted", namespace=before)
                fields = self._form_fields(evaluation, form)
                reply = await self._run_one(work, "eval", fields)
                if reply.is_failed or reply.is_interrupted or session.is_stopping:
                    return self._conclude(work, reply, index)
            return self._conclude(work, reply, None)
        finally:
            if evaluation.namespace and address in {"in-ns", "ns"}:
                with anyio.CancelScope(shield=True):
                    await self._switch(session, before or "user")

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

    async def _run_one(self, work: _Work, op: str, fields: dict[str, Value]) -> Reply:
        """Send one request that evaluates and wait for its end."""
        session = work.session
        reply = Reply(work.evaluation.id, self._listener)
        exchange = session.connection.begin(reply.take)
        session.running = exchange
        try:
            await session.connection.send(exchange, op, {**session.address(), **fields})
            await session.connection.settle(exchange, after_failure_s=AFTER_FAILURE_S)
        finally:
            session.running = None
            session.connection.end(exchange)
        session.evaluations += 1
        if session.evaluations % TIDY_EVERY == 0:
            self._tasks.start_soon(self._inquiries.tidy, session.name)
        # An interrupt whose `done` went elsewhere marks the exchange, not the reply.
        reply.status |= exchange.status
        if reply.namespace and not work.evaluation.namespace:
            session.namespace = reply.namespace
        return reply

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

    def _require(self, capability: str) -> Support:
        if (support := self.profile.support.get(capability)) is None:
            raise CapabilityMissingError(capability, self.profile.missing.get(capability))
        return support


def _drop(_evaluation: str | None, _event: object) -> None:
    """Nobody reads what a server says about input that nobody waited for."""
