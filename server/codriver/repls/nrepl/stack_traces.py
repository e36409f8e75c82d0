"""Stack traces: those that come with a failure, and the JVM's, told by cider-nrepl or by our own question.

On the JVM Clojure reports the root cause, as its own prompt does; the errors that were thrown around it are the links
of its chain, nearest first. Wrappers that only say where something was thrown are left out.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from codriver.core.values import Failure
from codriver.repls.contract.adapter_values import AROUND, StackFrame, StackTrace
from codriver.repls.contract.stack_frames import folded, of_its_own, read_frame, text_of
from codriver.repls.nrepl.failures import (
    LINK_FRAMES,
    WRAPPERS,
    last_of,
    read_failure,
    read_traceback_frames,
    tracebacks,
)
from codriver.repls.shared.error_parts import calls_of, cut, frames_of, read_trace, trace_of, whole_trace
from codriver.wire.untrusted import as_int, as_list, as_map, as_text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from codriver.repls.dialects.server_dialect import Dialect
    from codriver.repls.nrepl.failures import SentFailure
    from codriver.repls.nrepl.message import Message

PHASE: Final = ("#:clojure.error{:phase ", "{:clojure.error/phase ")
"""How the data begins of an error that Clojure's own tools made to say where another was thrown."""
_TOOLING_FLAGS: Final = frozenset({"tooling", "java", "dependency"})


def stack_of(failure: SentFailure, dialect: Dialect) -> StackTrace:
    """The stack trace that came with a failure; without frames where the server sends none."""
    if failure.parts:
        return read_trace(failure.parts, dialect)
    error = read_failure(failure, dialect)
    said = [read_traceback_frames(last_of(text), dialect) for _, text in reversed(tracebacks(failure.traceback))]
    chain = [trace_of(one, frames) for one, frames in zip(error.chain, said[1:], strict=False)]
    frames = said[0] or tuple(read_frame(text, dialect.tooling) for text in error.trace)
    return whole_trace(error, frames, chain)


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
    links = as_list(as_map(data).get("links"))
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


def _trace(fields: Mapping[str, object], frames: Sequence[StackFrame]) -> StackTrace:
    return StackTrace(
        type=as_text(fields.get("type")) or as_text(fields.get("class")) or "error",
        message=as_text(fields.get("message")) or "",
        frames=tuple(frames),
        data=as_text(fields.get("data")) or None,
    )


def _cider_trace(fields: Mapping[str, object]) -> StackTrace:
    """A link as cider-nrepl tells it: its own words for functions, and flags for whose they are."""
    frames: list[StackFrame] = []
    for frame, owner, method in calls_of(fields.get("stacktrace")):
        name = as_text(frame.get("var")) or as_text(frame.get("name")) or f"{owner}/{method}"
        file, line = as_text(frame.get("file")), as_int(frame.get("line"))
        flags = {as_text(flag) for flag in as_list(frame.get("flags"))}
        is_tooling = not _TOOLING_FLAGS.isdisjoint(flags)
        frames.append(StackFrame(f"{name} ({file}:{line})", file, line, name, is_tooling))
    return _trace(fields, frames)
