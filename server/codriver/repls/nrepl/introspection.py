"""Inspect code in a REPL, with the server's ops or with Codriver's own programs.

The programs provide completion, symbols, macro expansion and stack traces. They run in one of Codriver's sessions, so
the caller's `*1`, `*e` and namespace do not change. A server that can evaluate concurrently answers even while the
caller's session is busy.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import anyio

from codriver.core.requests import MAIN_SESSION
from codriver.errors import CodriverError
from codriver.repls.contract.queries import (
    Answer,
    Complete,
    FindSource,
    LastError,
    ListNames,
    Lookup,
    Query,
    Restore,
    completion_text,
)
from codriver.repls.dialects import WORKER_OP_PREFIX
from codriver.repls.dialects.loaded_namespaces import parse_loaded_code
from codriver.repls.dialects.thread_dumps import Thread, build_thread_dump, parse_python_dump
from codriver.repls.nrepl import replies
from codriver.repls.nrepl.connection_routes import TOOL_SESSION
from codriver.repls.nrepl.failures import (
    WRAPPER_CLASS_SUFFIXES,
    failure_from_trace,
    parse_sent_trace,
)
from codriver.repls.nrepl.jvm_stack_traces import parse_cider_stacktrace, parse_program_stacktrace
from codriver.repls.nrepl.replies import parse_program_data, require_capability, require_success
from codriver.repls.stack_traces import add_locals, mark_user_frames
from codriver.wire.untrusted import EMPTY_MAPPING, int_or_none, list_or_empty, mapping_or_empty, text_or_none

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping
    from pathlib import Path

    from codriver.core.evaluations import Failure
    from codriver.core.print_limits import PrintLimits, ValuePart
    from codriver.repls.contract import events
    from codriver.repls.contract.loaded_code import LoadedCode
    from codriver.repls.contract.stack_trace_values import StackTrace, ThreadDump
    from codriver.repls.dialects.server_dialect import Words
    from codriver.repls.nrepl.connection import Message
    from codriver.repls.nrepl.probe import ProbeResult
    from codriver.repls.nrepl.session_pool import NreplSession, SessionPool
    from codriver.repls.nrepl.undo_records import UndoRecords
    from codriver.wire.bencode import Value

    Fields = Mapping[str, object]

    Way = Callable[[Any, NreplSession, str], Awaitable[Fields]]

    """A function that sends a query in a session, and resolves names in the given namespace."""

logger = logging.getLogger(__name__)

FOLLOW_UP_TIMEOUT_S: Final = 5.0
"""Maximum number of seconds to wait, at the end of an evaluation, for the causes of a failure or for a stored value."""

LOCALS_OP: Final = "codriver/locals"
"""The worker's op that returns the local variables in the last error's frames."""

VALUE_NOT_STORED_MESSAGE: Final = (
    "this REPL stores no values. Evaluate an expression for the part, or pass a larger maxLength"
)
"""The reason why parts of a value cannot be read from a REPL that does not store values."""

LOADED_OP: Final = f"{WORKER_OP_PREFIX}loaded"
"""The worker's op that returns the loaded namespaces."""


class Introspection:
    """Queries about the code in one REPL. An instance lives as long as its adapter."""

    def __init__(
        self,
        sessions: SessionPool,
        probed: ProbeResult,
        undo_records: UndoRecords,
        *,
        op_timeout_s: float,
        workspace: Path | None,
    ) -> None:
        self._ways: Mapping[type[Query[Any]], Way] = {
            Complete: self._completions,
            Lookup: self._symbol,
            ListNames: self._names,
            FindSource: self._source,
            Restore: self._restored,
            LastError: self._last_error,
        }
        """The functions for queries that need special handling. All other queries are ops of Codriver's worker."""
        self._undo_records = undo_records
        self._sessions = sessions
        self._profile = probed.profile
        self._ops = probed.ops
        self._dialect = probed.dialect
        self._op_timeout_s = op_timeout_s
        self._workspace = workspace

    async def query(self, request: Query[Answer]) -> Answer:
        """Send a query, and return its answer."""
        if request.capability:
            require_capability(self._profile, request.capability)
        target = self._sessions.get(request.session)
        where = self._namespace(target, request.namespace)
        way: Way = self._ways.get(type(request), self._query_by_op)
        return request.read(await way(request, target, where))

    async def _completions(self, query: Complete, target: NreplSession, where: str) -> Fields:
        support, prefix = require_capability(self._profile, "complete"), query.prefix
        owner, slash, start = prefix.partition("/")
        if owner and slash and "complete-in" in self._dialect.expressions:
            data = await self._evaluate("complete-in", owner=owner, name=start, ns=where)
            if data is not None:
                return {"completions": data}
        if support.adapted:
            return {"completions": await self._evaluate("complete", name=prefix, ns=where)}
        # nREPL reads `prefix` and older versions of cider-nrepl read `symbol`. Each ignores the other field.
        answer = await self._send(support.op, target, **query.request_fields(where), symbol=prefix)
        found = [row for message in answer for row in list_or_empty(message.fields.get("completions"))]
        if self._dialect.completes_within:
            found = [
                row for row in found if completion_text(row).startswith(prefix) and completion_text(row) != f"{owner}/"
            ]
        return {"completions": found}

    async def _symbol(self, query: Lookup, target: NreplSession, where: str) -> Fields:
        support, symbol = require_capability(self._profile, "lookup"), query.symbol
        if support.adapted:
            answer = mapping_or_empty(await self._evaluate("lookup", name=symbol, ns=where))
        else:
            answer = replies.parse_symbol(await self._send(support.op, target, sym=symbol, symbol=symbol, ns=where))
        if self._dialect.columns_from_zero and (column := int_or_none(answer.get("column"))) is not None:
            answer = {**answer, "column": column + 1}
        found = query.read(answer)
        is_complete = found is None or found.arglists or found.macro or "class" in found.extra
        if is_complete or "glimpse" not in self._dialect.expressions:
            return answer
        with suppress(CodriverError):
            glimpse = mapping_or_empty(
                await self._evaluate("glimpse", name=symbol, ns=where, session=target.namespace_session_id)
            )
            return {**answer, **glimpse}
        return answer

    async def _names(self, query: ListNames, target: NreplSession, where: str) -> Fields:
        if f"{WORKER_OP_PREFIX}names" in self._ops or "names" not in self._dialect.expressions:
            return await self._query_by_op(query, target, where)
        pattern = _pattern_to_regex(query.pattern) if "*" in query.pattern else ""
        fields = {"pattern": pattern, "name": query.pattern, "ns": where, "session": target.namespace_session_id}
        return mapping_or_empty(await self._evaluate("names", **fields))

    async def _source(self, query: FindSource, target: NreplSession, where: str) -> Fields:
        if f"{WORKER_OP_PREFIX}source" in self._ops or "source" not in self._dialect.expressions:
            return await self._query_by_op(query, target, where)
        return mapping_or_empty(await self._evaluate("source", name=query.symbol, ns=where))

    async def _restored(self, query: Restore, target: NreplSession, where: str) -> Fields:
        if not require_capability(self._profile, "restore").adapted:
            return await self._query_by_op(query, target, where)
        return {"left": await self._undo_records.restore(query.undo_id, is_final=query.is_final)}

    async def _query_by_op(self, query: Query[Any], target: NreplSession, where: str) -> Fields:
        """Send a query to Codriver's worker as an op of the same name, and return the reply.

        The reply is empty if the server has no such op.
        """
        if query.is_for_server:
            support = require_capability(self._profile, query.capability)
            messages = await self._send(support.op, target, **query.request_fields(where))
            return {name: value for message in messages for name, value in message.fields.items()}
        op = f"{WORKER_OP_PREFIX}{query.name}"
        if op not in self._ops:
            return EMPTY_MAPPING
        timeout_s = max(self._op_timeout_s, query.timeout_s)
        fields = {**target.address(), **query.request_fields(where)}
        answer = await target.connection.request(op, timeout_s=timeout_s, **fields)
        require_success(f"the query {query.name}", answer, self._dialect)
        return answer[0].fields

    async def changed_namespaces(self, root: Path, known: Mapping[str, tuple[str, bool]]) -> LoadedCode | None:
        """Return the loaded namespaces that have changed. See `Adapter.changed_namespaces`."""
        support = require_capability(self._profile, "drift")
        lines = "\n".join(f"{name} {mark} {int(is_within)}" for name, (mark, is_within) in known.items())
        if support.op == LOADED_OP:
            (answer, *_) = await self._send(support.op, self._sessions.get(MAIN_SESSION), root=str(root), known=lines)
            return parse_loaded_code(answer.fields)
        if not support.adapted:
            return None
        found = mapping_or_empty(await self._evaluate("drift", known=lines, root=str(root)))
        if "absent" in found:
            await self._evaluate("drift-keep")
            found = mapping_or_empty(await self._evaluate("drift", known=lines, root=str(root)))
        return parse_loaded_code(found)

    async def macroexpand(
        self, code: str, namespace: str | None, session: str = MAIN_SESSION, *, full: bool = False
    ) -> str:
        """Return the expansion of a form. See `Adapter.macroexpand`."""
        support = require_capability(self._profile, "macroexpand")
        target = self._sessions.get(session)
        where = self._namespace(target, namespace)
        if support.adapted:
            expander = self._dialect.expanders[1 if full else 0]
            return str(await self._evaluate("macroexpand", expand=expander, code=code, ns=where))
        expander = "macroexpand-all" if full else "macroexpand-1"
        answer = await self._send(support.op, target, code=code, expander=expander, ns=where)
        require_success("the expansion", answer, self._dialect)
        return next((text for message in answer if (text := message.text("expansion")) is not None), "")

    async def _last_error(self, query: LastError, target: NreplSession, where: str) -> Fields:
        del where
        support = require_capability(self._profile, "stacktrace")
        if self._dialect.sends_traceback:
            trace = parse_sent_trace(target.failure, self._dialect) if target.failure else None
            if trace and query.local_characters and LOCALS_OP in self._ops:
                answer = await self._send(LOCALS_OP, target, characters=query.local_characters)
                trace = add_locals(
                    trace, [row for message in answer for row in list_or_empty(message.fields.get("locals"))]
                )
        elif support.adapted:
            data = await self._evaluate("stacktrace", session=target.id or "")
            trace = parse_program_stacktrace(data, self._dialect)
        else:
            trace = parse_cider_stacktrace(await self._send(support.op, target))
        return {"trace": self._mark_user_frames(trace) if trace else None}

    async def add_error_details(self, error: Failure, session: str = MAIN_SESSION) -> Failure:
        """Add the class, data and chain of the last error in `session` to the failure `error`.

        Returns `error` unchanged if the REPL does not report these details, or if other code has failed since.
        """
        if "stacktrace" not in self._profile.capabilities or self._dialect.sends_traceback:
            return error
        with anyio.move_on_after(FOLLOW_UP_TIMEOUT_S), suppress(CodriverError):
            trace = await self.query(LastError(session=session))
            # Other code in the session may have failed since then.
            if trace is not None and _belongs_to(trace, error):
                kind = trace.type if error.type.endswith(WRAPPER_CLASS_SUFFIXES) else error.type
                chain = tuple(failure_from_trace(link) for link in trace.chain)
                return replace(error, type=kind, data=trace.data, chain=chain)
        return error

    async def dump_threads(self, session: str = MAIN_SESSION) -> ThreadDump | None:
        """Return the current stacks of the threads in `session`, or None if the REPL cannot provide them."""
        op = "codriver/stacks"
        try:
            target = self._sessions.get(session)
            if op in self._ops:
                answer = await self._send(op, target)
                text = next((text for message in answer if (text := message.text("stacks"))), "")
                return build_thread_dump(parse_python_dump(text), self._dialect.tooling)
            if "stacks" not in self._dialect.expressions:
                return None
            data = await self._evaluate("stacks", session=target.id or "")
        except CodriverError:
            # The stacks are requested before an interrupt, and must never delay it.
            return None
        threads = [_thread(mapping_or_empty(item)) for item in list_or_empty(data)]
        return build_thread_dump(threads, self._dialect.tooling)

    async def read_value(self, evaluation: str, part: ValuePart) -> events.Value | str:
        """Return a part of a value that was truncated when printed, or the reason why it is not available."""
        if replies.STORED_VALUE_OP not in self._ops:
            return (
                await self._read_stored(evaluation, part)
                if "kept" in self._dialect.expressions
                else VALUE_NOT_STORED_MESSAGE
            )
        tool = await self._sessions.open(TOOL_SESSION)
        fields: dict[str, Value] = {"evaluation": evaluation, "path": list(part.path), "from": part.start}
        fields |= self._dialect.print_fields(part.limits, knows_defaults=True)
        connection = tool.connection
        fields |= tool.address()
        answer = await connection.request(replies.STORED_VALUE_OP, timeout_s=self._op_timeout_s, **fields)
        require_success("the value", answer, self._dialect)
        return replies.parse_value_part(answer)

    async def store_last_value(
        self, evaluation: str, number: int, session: str, *, seen: str, limits: PrintLimits
    ) -> str | None:
        """Make the REPL retain the last value in a session, and describe what was omitted from its printed text.

        Returns None if the REPL did not retain the value.
        """
        if "keep" not in self._dialect.expressions:
            return None
        target = self._sessions.get(session)
        with anyio.move_on_after(FOLLOW_UP_TIMEOUT_S), suppress(CodriverError):
            data = await self._evaluate("keep", evaluation=evaluation, number=str(number), session=target.id or "")
            return replies.describe_stored_cuts(mapping_or_empty(data), seen, limits)
        return None

    async def _read_stored(self, evaluation: str, part: ValuePart) -> events.Value | str:
        path, first = part.path, part.path[0] if part.path else ""
        number = first[1:] if isinstance(first, str) and first[:1] == "$" and first[1:].isdigit() else ""
        path = path[1:] if number else path
        steps: list[Words] = [["i" if isinstance(step, int) else "k", str(step)] for step in path]
        bounds = {
            "length": part.limits.max_length, "depth": part.limits.max_depth, "quota": part.limits.max_value_bytes
        }  # fmt: skip
        fields = {name: "" if bound is None else str(bound) for name, bound in bounds.items()}
        where: dict[str, Words] = {"evaluation": evaluation, "number": number, "path": steps, "from": str(part.start)}
        data = await self._evaluate("kept", **where, **fields)
        return replies.parse_stored_part(mapping_or_empty(data), part)

    async def clean_up(self, session: str) -> None:
        """Free memory after evaluations in `session`, on servers that are known to leak."""
        if "tidy" not in self._dialect.expressions:
            return
        try:
            for name in (session, TOOL_SESSION):
                target = self._sessions.get(name)
                if target.id:
                    await self._evaluate("tidy", session=target.id)
        except CodriverError as error:
            logger.info("could not clean up after evaluations: %s", error)

    def _mark_user_frames(self, trace: StackTrace) -> StackTrace:
        """Mark frames in workspace files as user code."""
        chain = tuple(self._mark_user_frames(link) for link in trace.chain)
        return replace(trace, frames=mark_user_frames(trace.frames, self._workspace), chain=chain)

    def _namespace(self, session: NreplSession, namespace: str | None) -> str:
        return namespace or session.namespace or self._dialect.home

    async def _send(self, op: str, session: NreplSession, **fields: Value) -> list[Message]:
        all_fields = {**session.address(), **fields}
        return await session.connection.request(op, timeout_s=self._op_timeout_s, **all_fields)

    async def _evaluate(self, capability: str, **names: Words) -> object:
        """Run Codriver's program for `capability`, and return its data."""
        answer = await self._sessions.evaluate(TOOL_SESSION, self._dialect.program_code(capability, **names))
        return parse_program_data(capability, answer, self._dialect)


def _pattern_to_regex(pattern: str) -> str:
    """Convert a name pattern to a lower-case regular expression for Java, JavaScript and Python."""
    plain = "".join(char if char.isalnum() or char in "*_" else f"\\{char}" for char in pattern.lower())
    return ".*".join(plain.split("*"))


def _belongs_to(trace: StackTrace, error: Failure) -> bool:
    """Return whether a stack trace belongs to a failure, according to its message and type."""
    if trace.message:
        return trace.message in error.message
    return error.message in ("", "null") and (trace.type == error.type or error.type.endswith(WRAPPER_CLASS_SUFFIXES))


def _thread(fields: Mapping[str, object]) -> Thread:
    frames = tuple(f"    at {text_or_none(frame)}" for frame in list_or_empty(fields.get("frames")))
    return Thread(f"{text_or_none(fields.get('name'))} ({text_or_none(fields.get('state'))})", frames)
