"""Stack traces of the JVM, as reported by cider-nrepl or by one of Codriver's programs.

As in Clojure's own prompt, the root cause is the reported error, and the errors that wrap it are its chain, nearest
first. Wrappers that only add a position are left out.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from codriver.repls.contract.stack_frames import unshared_frames
from codriver.repls.contract.stack_trace_values import WRAPPER_RELATION, StackFrame, StackTrace
from codriver.repls.nrepl.failures import WRAPPER_CLASS_SUFFIXES
from codriver.repls.stack_traces import call_start_frames, parse_frame_maps
from codriver.wire.untrusted import int_or_none, list_or_empty, mapping_or_empty, text_or_none

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from codriver.repls.dialects.server_dialect import Dialect
    from codriver.repls.nrepl.connection import Message

PHASE_DATA_PREFIXES: Final = ("#:clojure.error{:phase ", "{:clojure.error/phase ")
"""Prefixes of the printed data of errors with which Clojure's tools wrap other errors."""
_TOOLING_FLAGS: Final = frozenset({"tooling", "java", "dependency"})
"""Flags that cider-nrepl sets on frames outside the project."""


def parse_cider_stacktrace(answer: Sequence[Message]) -> StackTrace | None:
    """Parse the reply to cider-nrepl's stacktrace ops, which has a message for each error.

    Returns None if there are no errors.
    """
    traces = [_cider_trace(message.fields) for message in answer if message.text("class")]
    return _build_chain(traces)


def parse_program_stacktrace(data: object, dialect: Dialect) -> StackTrace | None:
    """Parse the reply from Codriver's stacktrace program, which lists the outermost error first.

    Returns None if there are no errors.
    """
    links = list_or_empty(mapping_or_empty(data).get("links"))
    return _build_chain(
        [_trace(mapping_or_empty(link), parse_frame_maps(mapping_or_empty(link), dialect)) for link in links]
    )


def _build_chain(traces: list[StackTrace]) -> StackTrace | None:
    """Return the stack trace of the root cause, with the errors that wrap it as its chain.

    `traces` starts with the outermost error. The result is None if `traces` is empty.
    """
    if not traces:
        return None
    *around, root = traces
    chain: list[StackTrace] = []
    inner = root
    for trace in reversed(around):
        if not trace.type.endswith(WRAPPER_CLASS_SUFFIXES) and not (trace.data or "").startswith(PHASE_DATA_PREFIXES):
            unshared = unshared_frames(trace.frames, inner.frames)
            chain.append(replace(trace, frames=unshared, relation=WRAPPER_RELATION))
        inner = trace
    return replace(root, chain=tuple(chain))


def _trace(fields: Mapping[str, object], frames: Sequence[StackFrame]) -> StackTrace:
    return StackTrace(
        type=text_or_none(fields.get("type")) or text_or_none(fields.get("class")) or "error",
        message=text_or_none(fields.get("message")) or "",
        frames=tuple(frames),
        data=text_or_none(fields.get("data")) or None,
    )


def _cider_trace(fields: Mapping[str, object]) -> StackTrace:
    """Parse an error in cider-nrepl's format, which names functions and marks tool frames."""
    frames: list[StackFrame] = []
    for frame, owner, method in call_start_frames(fields.get("stacktrace")):
        name = text_or_none(frame.get("var")) or text_or_none(frame.get("name")) or f"{owner}/{method}"
        file, line = text_or_none(frame.get("file")), int_or_none(frame.get("line"))
        flags = {text_or_none(flag) for flag in list_or_empty(frame.get("flags"))}
        is_tooling = not _TOOLING_FLAGS.isdisjoint(flags)
        frames.append(StackFrame(f"{name} ({file}:{line})", file, line, name, is_tooling))
    return _trace(fields, frames)
