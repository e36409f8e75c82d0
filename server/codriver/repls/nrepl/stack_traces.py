"""Stack traces: those that come with a failure, and the JVM's, told by cider-nrepl or by our own question.

On the JVM Clojure reports the root cause, as its own prompt does; the errors that were thrown around it are the links
of its chain, nearest first. Wrappers that only say where something was thrown are left out.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final, cast

from codriver.core.values import Failure
from codriver.repls.contract.adapter_values import AROUND, StackFrame, StackTrace
from codriver.repls.contract.stack_frames import calls, folded, function_of, of_its_own, read_frame, text_of
from codriver.repls.nrepl.failures import (
    LINK_FRAMES,
    WRAPPERS,
    cut,
    last_of,
    read_failure,
    read_traceback_frames,
    told_frames,
    tracebacks,
)
from codriver.repls.nrepl.message import as_int, as_list, as_map, as_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from codriver.repls.dialects.server_dialect import Dialect
    from codriver.repls.nrepl.failures import SentFailure
    from codriver.repls.nrepl.message import Message
    from codriver.wire.bencode import Value

PHASE: Final = ("#:clojure.error{:phase ", "{:clojure.error/phase ")
"""How the data begins of an error that Clojure's own tools made to say where another was thrown."""
_TOOLING_FLAGS: Final = frozenset({"tooling", "java", "dependency"})


def stack_of(failure: SentFailure, dialect: Dialect) -> StackTrace:
    """The stack trace that came with a failure; without frames where the server sends none."""
    error = read_failure(failure, dialect)
    if failure.parts:
        links = [as_map(link) for link in as_list(failure.parts.get("chain"))]
        chain = [_trace_of(one, told_frames(link, dialect)) for one, link in zip(error.chain, links, strict=True)]
        frames = told_frames(failure.parts, dialect)
    else:
        said = [read_traceback_frames(last_of(text), dialect) for _, text in reversed(tracebacks(failure.traceback))]
        chain = [_trace_of(one, frames) for one, frames in zip(error.chain, said[1:], strict=False)]
        frames = said[0] or tuple(read_frame(text, dialect.tooling) for text in error.trace)
    if not frames and (error.file or error.line):
        frames = (StackFrame(f"{error.file or 'REPL'}:{error.line}", file=error.file, line=error.line),)
    return replace(_trace_of(error, frames), chain=tuple(chain))


def _trace_of(error: Failure, frames: tuple[StackFrame, ...]) -> StackTrace:
    return StackTrace(error.type, error.message, frames, error.data, error.notes, error.relation)


def with_locals(trace: StackTrace, rows: Iterable[Value]) -> StackTrace:
    """A stack trace with the locals that a worker tells of its frames, a row each, and of those of its chain."""
    found: dict[tuple[int | None, str | None], dict[str, str]] = {}
    for told in map(as_map, rows):
        values = {name: text for name, value in as_map(told.get("locals")).items() if (text := as_text(value))}
        found[as_int(told.get("error")), as_text(told.get("frame"))] = values

    def filled(one: StackTrace, place: int) -> StackTrace:
        frames = [replace(frame, locals=found.get((place, frame.text), {})) for frame in one.frames]
        return replace(one, frames=tuple(frames))

    return replace(filled(trace, 0), chain=tuple(filled(link, n) for n, link in enumerate(trace.chain, 1)))


def failure_of(trace: StackTrace) -> Failure:
    """A link of a chain as a failure has it, with the frames that are the user's."""
    own = folded([frame for frame in trace.frames if not frame.tooling])[:LINK_FRAMES]
    return Failure(
        type=trace.type,
        message=cut(trace.message),
        trace=tuple(text_of(frame) for frame in own),
        data=trace.data,
        notes=trace.notes,
        relation=trace.relation,
    )


def read_stacktrace(answer: Sequence[Message]) -> StackTrace | None:
    """The error that cider-nrepl's stacktrace ops report, one message a link; None without an error."""
    told = [_cider_trace(message.fields) for message in answer if message.text("class")]
    return _chained(told)


def stacktrace_of(data: object, dialect: Dialect) -> StackTrace | None:
    """The error that our own question reports, its links from the one that was caught inwards; None without one."""
    links = as_list(as_map(cast("Value", data)).get("links"))
    return _chained([_trace(as_map(link), frames_of(as_map(link), dialect)) for link in links])


def _chained(told: list[StackTrace]) -> StackTrace | None:
    """The root cause, with the links around it; they come outermost first."""
    if not told:
        return None
    *around, root = told
    chain: list[StackTrace] = []
    inner = root
    for trace in reversed(around):
        if not trace.type.endswith(WRAPPERS) and not (trace.data or "").startswith(PHASE):
            own = of_its_own(trace.frames, inner.frames)
            chain.append(replace(trace, frames=own, relation=AROUND))
        inner = trace
    return replace(root, chain=tuple(chain))


def _trace(fields: Mapping[str, Value], frames: Sequence[StackFrame]) -> StackTrace:
    return StackTrace(
        type=as_text(fields.get("type")) or as_text(fields.get("class")) or "error",
        message=as_text(fields.get("message")) or "",
        frames=tuple(frames),
        data=as_text(fields.get("data")) or None,
    )


def frames_of(fields: Mapping[str, Value], dialect: Dialect) -> tuple[StackFrame, ...]:
    """The frames that our own code tells: by class and method on the JVM, else by function."""
    told = [as_map(item) for item in as_list(fields.get("frames"))]
    if not any("class" in frame for frame in told):
        return tuple(_frame(frame, dialect) for frame in told)
    frames: list[StackFrame] = []
    for frame, owner, method in _calls(fields.get("frames")):
        function = function_of(owner, method)
        file, line = as_text(frame.get("file")), as_int(frame.get("line"))
        frames.append(
            StackFrame(f"{function} ({file}:{line})", file, line, function, owner.startswith(dialect.tooling))
        )
    return tuple(frames)


def _frame(frame: Mapping[str, Value], dialect: Dialect) -> StackFrame:
    function, file = as_text(frame.get("function")) or "?", as_text(frame.get("file"))
    line, is_tooling = as_int(frame.get("line")), any(part in (file or "") for part in dialect.tooling)
    return StackFrame(f"{function} ({file}:{line})", file, line, function, is_tooling)


def _cider_trace(fields: Mapping[str, Value]) -> StackTrace:
    """A link as cider-nrepl tells it: its own words for functions, and flags for whose they are."""
    frames: list[StackFrame] = []
    for frame, owner, method in _calls(fields.get("stacktrace")):
        name = as_text(frame.get("var")) or as_text(frame.get("name")) or f"{owner}/{method}"
        file, line = as_text(frame.get("file")), as_int(frame.get("line"))
        flags = {as_text(flag) for flag in as_list(frame.get("flags"))}
        is_tooling = not _TOOLING_FLAGS.isdisjoint(flags)
        frames.append(StackFrame(f"{name} ({file}:{line})", file, line, name, is_tooling))
    return _trace(fields, frames)


def _calls(told: Value | None) -> list[tuple[Mapping[str, Value], str, str]]:
    """The frames told that begin a call, each with its class and its method."""
    frames = [as_map(item) for item in as_list(told)]
    names = [(as_text(frame.get("class")) or "?", as_text(frame.get("method")) or "?") for frame in frames]
    return [(frames[place], *names[place]) for place in calls(names)]
