"""Introspection of code: completion, symbols, expansion, stack traces; by the server's op, else by evaluation.

What is evaluated runs in a session of ours, so the caller's `*1`, `*e` and namespace stay as they are, and it is
answered while the caller's session is busy wherever the server can do two things at once.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import anyio

from codriver.core.values import MAIN_SESSION, Capability, Failure, ValuePart
from codriver.errors import CodriverError
from codriver.repls.contract.adapter_values import Source
from codriver.repls.contract.errors import (
    CapabilityMissingError,
    EvaluationFailedError,
)
from codriver.repls.dialects import WORKER_OPS
from codriver.repls.dialects.loaded_code import read_loaded
from codriver.repls.dialects.thread_dump import Thread, dump_of, read_python
from codriver.repls.nrepl import responses
from codriver.repls.nrepl.failures import WRAPPERS, read_failure
from codriver.repls.nrepl.responses import Reply
from codriver.repls.nrepl.session_pool import TOOL_SESSION
from codriver.repls.nrepl.stack_traces import failure_of, read_stacktrace, stack_of, stacktrace_of
from codriver.repls.shared import code_answers
from codriver.repls.shared.code_answers import read_file
from codriver.repls.shared.error_parts import marked, with_locals
from codriver.wire.untrusted import as_int, as_list, as_map, as_text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from codriver.core.values import PrintLimits, Profile
    from codriver.repls.contract import adapter_values
    from codriver.repls.contract.adapter_values import (
        ClojureDocs,
        Completion,
        Names,
        StackTrace,
        Symbol,
        ThreadDump,
    )
    from codriver.repls.contract.drift_values import Difference, Loaded, OnlyOf
    from codriver.repls.dialects.server_dialect import Dialect, Words
    from codriver.repls.nrepl.message import Message
    from codriver.repls.nrepl.probe import ProbeResult
    from codriver.repls.nrepl.session_pool import NreplSession, SessionPool
    from codriver.wire.bencode import Value

logger = logging.getLogger(__name__)

AFTERWARDS_S: Final = 5.0
"""How long the end of an evaluation waits for what its REPL is asked about it: a failure's chain, a value to keep."""

LOCALS: Final = "codriver/locals"
"""The op of codriver's worker that tells the locals of the last error's frames."""

NOT_KEPT: Final = "this REPL keeps no values: evaluate the part that is wanted, or with a larger maxLength"

NAMES_OP: Final = f"{WORKER_OPS}names"
SOURCE_OP: Final = f"{WORKER_OPS}source"
LOADED_OP: Final = f"{WORKER_OPS}loaded"


class Introspection:
    """The introspection of one REPL. Lives as long as its adapter."""

    def __init__(
        self, sessions: SessionPool, probed: ProbeResult, *, op_timeout_s: float, workspace: Path | None
    ) -> None:
        self._sessions = sessions
        self._profile = probed.profile
        self._ops = probed.ops
        self._dialect = probed.dialect
        self._op_timeout_s = op_timeout_s
        self._workspace = workspace

    async def complete(self, prefix: str, namespace: str | None, session: str = MAIN_SESSION) -> tuple[Completion, ...]:
        """Completions of `prefix`. See `Adapter.complete`."""
        support = require(self._profile, "complete")
        target = self._sessions.get(session)
        where = self._namespace(target, namespace)
        owner, slash, start = prefix.partition("/")
        if owner and slash and "complete-in" in self._dialect.ask:
            data = await self._ask("complete-in", owner=owner, name=start, ns=where)
            if data is not None:
                return code_answers.read_completions(as_list(data))
        if support.adapted:
            data = await self._ask("complete", name=prefix, ns=where)
            return code_answers.read_completions(as_list(data))
        # nREPL reads `prefix`, older cider-nrepl `symbol`; each ignores the other.
        answer = await self._send(support.op, target, prefix=prefix, symbol=prefix, ns=where)
        found = tuple(
            completion
            for message in answer
            for completion in code_answers.read_completions(as_list(message.fields.get("completions")))
        )
        if self._dialect.completes_within:
            return tuple(one for one in found if one.candidate.startswith(prefix) and one.candidate != f"{owner}/")
        return found

    async def lookup(self, symbol: str, namespace: str | None, session: str = MAIN_SESSION) -> Symbol | None:
        """The description of `symbol`. See `Adapter.lookup`."""
        support = require(self._profile, "lookup")
        target = self._sessions.get(session)
        where = self._namespace(target, namespace)
        if support.adapted:
            data = await self._ask("lookup", name=symbol, ns=where)
            found = code_answers.symbol_of(symbol, as_map(data))
        else:
            answer = await self._send(support.op, target, sym=symbol, symbol=symbol, ns=where)
            found = responses.read_symbol(symbol, answer)
        if found is not None and found.column is not None and self._dialect.columns_from_zero:
            found = replace(found, column=found.column + 1)
        if found is None or found.arglists or found.macro or "class" in found.extra:
            return found
        if "glimpse" not in self._dialect.ask:
            return found
        with suppress(CodriverError):
            glimpse = as_map(await self._ask("glimpse", name=symbol, ns=where, session=target.names_id))
            told = {key: text for key, value in glimpse.items() if (text := as_text(value))}
            return replace(found, extra={**found.extra, **told})
        return found

    async def names(self, wanted: str, namespace: str | None, session: str = MAIN_SESSION) -> Names | None:
        """The names in a namespace, or those that match. See `Adapter.names`."""
        target = self._sessions.get(session)
        where = self._namespace(target, namespace)
        if NAMES_OP in self._ops:
            (answer, *_) = await self._send(NAMES_OP, target, name=wanted, ns=where)
            return code_answers.read_names(answer.fields)
        if "names" not in self._dialect.ask:
            return None
        pattern = _expression_of(wanted) if "*" in wanted else ""
        names = {"pattern": pattern, "name": wanted, "ns": where, "session": target.names_id}
        return code_answers.read_names(as_map(await self._ask("names", **names)))

    async def source(self, symbol: str, namespace: str | None, session: str = MAIN_SESSION) -> Source | None:
        """The text that defines a symbol. See `Adapter.source`."""
        target = self._sessions.get(session)
        where = self._namespace(target, namespace)
        fields: Mapping[str, object] = {}
        if SOURCE_OP in self._ops:
            (answer, *_) = await self._send(SOURCE_OP, target, name=symbol, ns=where)
            fields = answer.fields
        elif "source" in self._dialect.ask:
            fields = as_map(await self._ask("source", name=symbol, ns=where))
        text = as_text(fields.get("text"))
        return Source(text, read_file(as_text(fields.get("file"))), as_int(fields.get("line"))) if text else None

    async def drift(self, root: Path, only: OnlyOf = "") -> tuple[Difference, ...]:
        """The differences of the loaded modules from their files. See `Adapter.drift`."""
        support = require(self._profile, "drift")
        target = self._sessions.get(MAIN_SESSION)
        (answer, *_) = await self._send(support.op, target, root=str(root), only=only)
        return code_answers.read_drift(answer.fields)

    async def loaded(self, root: Path, known: Mapping[str, tuple[str, bool]]) -> Loaded | None:
        """The namespaces that are loaded of files below `root`. See `Adapter.loaded`."""
        support = require(self._profile, "drift")
        lines = "\n".join(f"{name} {mark} {int(is_within)}" for name, (mark, is_within) in known.items())
        if support.op == LOADED_OP:
            (answer, *_) = await self._send(support.op, self._sessions.get(MAIN_SESSION), root=str(root), known=lines)
            return read_loaded(answer.fields)
        if not support.adapted:
            return None
        found = as_map(await self._ask("drift", known=lines, root=str(root)))
        if "absent" in found:
            await self._ask("drift-keep")
            found = as_map(await self._ask("drift", known=lines, root=str(root)))
        return read_loaded(found)

    async def macroexpand(
        self, code: str, namespace: str | None, session: str = MAIN_SESSION, *, full: bool = False
    ) -> str:
        """The expansion of a form. See `Adapter.macroexpand`."""
        support = require(self._profile, "macroexpand")
        target = self._sessions.get(session)
        where = self._namespace(target, namespace)
        if support.adapted:
            expander = self._dialect.expanders[1 if full else 0]
            return str(await self._ask("macroexpand", expand=expander, code=code, ns=where))
        expander = "macroexpand-all" if full else "macroexpand-1"
        answer = await self._send(support.op, target, code=code, expander=expander, ns=where)
        check("the expansion", answer, self._dialect)
        return next((text for message in answer if (text := message.text("expansion")) is not None), "")

    async def last_stacktrace(self, session: str = MAIN_SESSION, *, local_characters: int = 0) -> StackTrace | None:
        """The last error of `session`. See `Adapter.last_stacktrace`."""
        support = require(self._profile, "stacktrace")
        target = self._sessions.get(session)
        if self._dialect.sends_traceback:
            trace = stack_of(target.failure, self._dialect) if target.failure else None
            if trace and local_characters and LOCALS in self._ops:
                answer = await self._send(LOCALS, target, characters=local_characters)
                trace = with_locals(trace, [row for one in answer for row in as_list(one.fields.get("locals"))])
        elif support.adapted:
            data = await self._ask("stacktrace", session=target.id or "")
            trace = stacktrace_of(data, self._dialect)
        else:
            trace = read_stacktrace(await self._send(support.op, target))
        return self._mark(trace) if trace else None

    async def explained(self, error: Failure, session: str = MAIN_SESSION) -> Failure:
        """`error`, the last one of `session`, with what its REPL tells when it is asked: its class, data and chain."""
        if "stacktrace" not in self._profile.capabilities or self._dialect.sends_traceback:
            return error
        with anyio.move_on_after(AFTERWARDS_S), suppress(CodriverError):
            trace = await self.last_stacktrace(session)
            # What else ran in the session may have failed since.
            if trace is not None and _is_of(trace, error):
                kind = trace.type if error.type.endswith(WRAPPERS) else error.type
                chain = tuple(failure_of(link) for link in trace.chain)
                return replace(error, type=kind, data=trace.data, chain=chain)
        return error

    async def stacks(self, session: str = MAIN_SESSION) -> ThreadDump | None:
        """A dump of the threads of `session` as they are now. See `Adapter.stacks`."""
        op = "codriver/stacks"
        try:
            target = self._sessions.get(session)
            if op in self._ops:
                answer = await self._send(op, target)
                text = next((text for message in answer if (text := message.text("stacks"))), "")
                return dump_of(read_python(text), self._dialect.tooling)
            if "stacks" not in self._dialect.ask:
                return None
            data = await self._ask("stacks", session=target.id or "")
        except CodriverError:
            # This is asked before an interrupt, to keep what can be learnt: it must never be in its way.
            return None
        threads = [_thread(as_map(item)) for item in as_list(data)]
        return dump_of(threads, self._dialect.tooling)

    async def read_value(self, evaluation: str, part: ValuePart) -> adapter_values.Value | str:
        """A part of a value that was cut. See `Adapter.read_value`."""
        if responses.KEEPS_VALUES not in self._ops:
            return await self._read_kept(evaluation, part) if "kept" in self._dialect.ask else NOT_KEPT
        tool = await self._sessions.open(TOOL_SESSION)
        fields: dict[str, Value] = {"evaluation": evaluation, "path": list(part.path), "from": part.start}
        fields |= self._dialect.print_fields(part.limits, knows_defaults=True)
        connection = tool.connection
        fields |= tool.address()
        answer = await connection.ask(responses.KEEPS_VALUES, timeout_s=self._op_timeout_s, **fields)
        check("the value", answer, self._dialect)
        return responses.read_part(answer)

    async def keep(self, evaluation: str, number: int, session: str, *, seen: str, limits: PrintLimits) -> str | None:
        """Let the REPL keep the last value of a session, which was cut; in words what is left out, if it does."""
        if "keep" not in self._dialect.ask:
            return None
        target = self._sessions.get(session)
        with anyio.move_on_after(AFTERWARDS_S), suppress(CodriverError):
            data = await self._ask("keep", evaluation=evaluation, number=str(number), session=target.id or "")
            return responses.read_cut(as_map(data), seen, limits)
        return None

    async def _read_kept(self, evaluation: str, part: ValuePart) -> adapter_values.Value | str:
        path, first = part.path, part.path[0] if part.path else ""
        number = first[1:] if isinstance(first, str) and first[:1] == "$" and first[1:].isdigit() else ""
        path = path[1:] if number else path
        steps: list[Words] = [["i" if isinstance(step, int) else "k", str(step)] for step in path]
        bounds = {
            "length": part.limits.max_length, "depth": part.limits.max_depth, "quota": part.limits.max_value_bytes
        }  # fmt: skip
        asked = {name: "" if bound is None else str(bound) for name, bound in bounds.items()}
        where: dict[str, Words] = {"evaluation": evaluation, "number": number, "path": steps, "from": str(part.start)}
        data = await self._ask("kept", **where, **asked)
        return responses.read_kept(as_map(data), part)

    async def tidy(self, session: str) -> None:
        """Mend what the server leaves behind with every evaluation in `session`, where one is known to."""
        if "tidy" not in self._dialect.ask:
            return
        try:
            for name in (session, TOOL_SESSION):
                target = self._sessions.get(name)
                if target.id:
                    await self._ask("tidy", session=target.id)
        except CodriverError as error:
            logger.info("what evaluations leave behind could not be tidied up: %s", error)

    async def clojuredocs(self, symbol: str) -> ClojureDocs | None:
        """The entry of ClojureDocs. See `Adapter.clojuredocs`."""
        support = require(self._profile, "clojuredocs")
        namespace, _, name = symbol.rpartition("/")
        target = self._sessions.get(MAIN_SESSION)
        answer = await self._send(support.op, target, ns=namespace or "clojure.core", sym=name or symbol)
        return responses.read_clojuredocs(answer)

    def _mark(self, trace: StackTrace) -> StackTrace:
        """`trace` with the frames in files of the workspace as the user's, wherever the workspace lies."""
        chain = tuple(self._mark(link) for link in trace.chain)
        return replace(trace, frames=marked(trace.frames, self._workspace), chain=chain)

    def _namespace(self, session: NreplSession, namespace: str | None) -> str:
        return namespace or session.namespace or self._dialect.home

    async def _send(
        self, op: str, session: NreplSession, *, timeout_s: float | None = None, **fields: Value
    ) -> list[Message]:
        limit = self._op_timeout_s if timeout_s is None else timeout_s
        return await session.connection.ask(op, timeout_s=limit, **session.address(), **fields)

    async def _ask(self, capability: str, **names: Words) -> object:
        """The data that our code for `capability` gives."""
        answer = await self._sessions.ask(TOOL_SESSION, self._dialect.expression(capability, **names))
        return read_data(capability, answer, self._dialect)


def require(profile: Profile, capability: str) -> Capability:
    """The REPL's support of `capability`.

    Raises:
        CapabilityMissingError: not at all.
    """
    if (support := profile.capabilities.get(capability)) is None:
        raise CapabilityMissingError(capability, profile.missing.get(capability))
    return support


def read_data(what: str, answer: Sequence[Message], dialect: Dialect) -> object:
    """The data that an answer to our own code gives.

    Raises:
        EvaluationFailedError: the code failed, or what it printed is no data.
    """
    check(what, answer, dialect)
    printed = [value for message in answer if (value := message.text("value")) is not None]
    try:
        return dialect.read(printed[-1]) if printed else None
    except (ValueError, SyntaxError) as error:
        shown = printed[-1][:200]
        fault = Failure("unreadable", f"the REPL printed {shown!r} where JSON was expected")
        raise EvaluationFailedError(what, fault) from error


def check(what: str, answer: Sequence[Message], dialect: Dialect) -> None:
    """Refuse an answer that says that it failed.

    Raises:
        EvaluationFailedError: it says so.
    """
    if not any(message.is_failed for message in answer):
        return
    reply = Reply(None, lambda _evaluation, _event: None)
    for message in answer:
        reply.take(message)
    raise EvaluationFailedError(what, read_failure(reply.failure, dialect))


def _expression_of(pattern: str) -> str:
    """The regular expression of a pattern in lower case, as Java, JavaScript and Python all read it."""
    plain = "".join(char if char.isalnum() or char in "*_" else f"\\{char}" for char in pattern.lower())
    return ".*".join(plain.split("*"))


def _is_of(trace: StackTrace, error: Failure) -> bool:
    """Whether a stack trace is that of a failure, by what both say."""
    if trace.message:
        return trace.message in error.message
    return error.message in ("", "null") and (trace.type == error.type or error.type.endswith(WRAPPERS))


def _thread(fields: Mapping[str, object]) -> Thread:
    frames = tuple(f"    at {as_text(frame)}" for frame in as_list(fields.get("frames")))
    return Thread(f"{as_text(fields.get('name'))} ({as_text(fields.get('state'))})", frames)
