"""Errors in parts, as Codriver's own code in a REPL tells them: type, message, place, frames, locals and chain."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from codriver.core.values import Failure
from codriver.repls.contract.adapter_values import StackFrame, StackTrace
from codriver.repls.contract.stack_frames import calls, folded, function_of, read_frame, text_of
from codriver.wire.untrusted import as_int, as_list, as_map, as_text, as_texts

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from codriver.repls.dialects.server_dialect import Dialect

MESSAGE_CHARS: Final = 4000
"""Longest message kept: one that holds a printed value can have megabytes, and the whole is in the output log."""

TRACE_FRAMES: Final = 20
_OUR_CODE: Final = ("<nREPL Input>", "<string>", "<stdin>", "<REPL", "<input>", "<eval", "<repl")
_NO_FILE: Final = frozenset({"REPL", "NO_SOURCE_FILE", "NO_SOURCE_PATH", "null", "", *_OUR_CODE})


def read_parts(parts: Mapping[str, object], dialect: Dialect) -> Failure:
    """The failure that these parts tell, its trace cut to the user's frames."""
    own = folded([frame for frame in told_frames(parts, dialect) if not frame.tooling])
    return Failure(
        type=as_text(parts.get("type")) or "error",
        message=cut(as_text(parts.get("message")) or ""),
        phase=as_text(parts.get("phase")) or None,
        file=real_file(as_text(parts.get("file"))),
        line=as_int(parts.get("line")),
        column=as_int(parts.get("column")),
        form=as_int(parts.get("form")),
        trace=tuple(text_of(frame) for frame in own[:TRACE_FRAMES]),
        locals=as_texts(parts.get("locals")),
        data=as_text(parts.get("data")),
        notes=as_texts(parts.get("notes")),
        relation=as_text(parts.get("relation")) or "",
        chain=tuple(read_parts(as_map(link), dialect) for link in as_list(parts.get("chain"))),
    )


def read_trace(parts: Mapping[str, object], dialect: Dialect) -> StackTrace:
    """The stack trace that these parts tell, its chain with it; without frames where they tell none."""
    error = read_parts(parts, dialect)
    links = [as_map(link) for link in as_list(parts.get("chain"))]
    chain = [trace_of(one, told_frames(link, dialect)) for one, link in zip(error.chain, links, strict=True)]
    return whole_trace(error, told_frames(parts, dialect), chain)


def whole_trace(error: Failure, frames: tuple[StackFrame, ...], chain: Iterable[StackTrace]) -> StackTrace:
    """The stack trace of an error and of its chain; where no frame is told, the error's place is one."""
    if not frames and (error.file or error.line):
        frames = (StackFrame(f"{error.file or 'REPL'}:{error.line}", file=error.file, line=error.line),)
    return replace(trace_of(error, frames), chain=tuple(chain))


def trace_of(error: Failure, frames: tuple[StackFrame, ...]) -> StackTrace:
    """The stack trace of an error, without others of its chain."""
    return StackTrace(error.type, error.message, frames, error.data, error.notes, error.relation)


def told_frames(parts: Mapping[str, object], dialect: Dialect) -> tuple[StackFrame, ...]:
    """The frames that codriver's worker tells of an error, innermost first."""
    return tuple(read_frame(text, dialect.tooling) for text in as_texts(parts.get("trace")))


def with_locals(trace: StackTrace, rows: Iterable[object]) -> StackTrace:
    """A stack trace with the locals that a worker tells of its frames, a row each, and of those of its chain."""
    found: dict[tuple[int | None, str | None], dict[str, str]] = {}
    for told in map(as_map, rows):
        values = {name: text for name, value in as_map(told.get("locals")).items() if (text := as_text(value))}
        found[as_int(told.get("error")), as_text(told.get("frame"))] = values

    def filled(one: StackTrace, place: int) -> StackTrace:
        frames = [replace(frame, locals=found.get((place, frame.text), {})) for frame in one.frames]
        return replace(one, frames=tuple(frames))

    return replace(filled(trace, 0), chain=tuple(filled(link, n) for n, link in enumerate(trace.chain, 1)))


def frames_of(fields: Mapping[str, object], dialect: Dialect) -> tuple[StackFrame, ...]:
    """The frames that our own code tells: by class and method on the JVM, else by function."""
    told = [as_map(item) for item in as_list(fields.get("frames"))]
    if not any("class" in frame for frame in told):
        return tuple(_frame(frame, dialect) for frame in told)
    frames: list[StackFrame] = []
    for frame, owner, method in calls_of(fields.get("frames")):
        function = function_of(owner, method)
        file, line = as_text(frame.get("file")), as_int(frame.get("line"))
        frames.append(
            StackFrame(f"{function} ({file}:{line})", file, line, function, owner.startswith(dialect.tooling))
        )
    return tuple(frames)


def _frame(frame: Mapping[str, object], dialect: Dialect) -> StackFrame:
    function, file = as_text(frame.get("function")) or "?", as_text(frame.get("file"))
    line, is_tooling = as_int(frame.get("line")), any(part in (file or "") for part in dialect.tooling)
    return StackFrame(f"{function} ({file}:{line})", file, line, function, is_tooling)


def calls_of(told: object) -> list[tuple[Mapping[str, object], str, str]]:
    """The frames told that begin a call, each with its class and its method."""
    frames = [as_map(item) for item in as_list(told)]
    names = [(as_text(frame.get("class")) or "?", as_text(frame.get("method")) or "?") for frame in frames]
    return [(frames[place], *names[place]) for place in calls(names)]


def real_file(name: str | None) -> str | None:
    """The name of a file; None for the words that stand for code which is in none."""
    return None if name is None or name in _NO_FILE or name.startswith("<") else name


def cut(text: str) -> str:
    """The part of a message that is kept."""
    return text if len(text) <= MESSAGE_CHARS else f"{text[:MESSAGE_CHARS]}…"


def marked(frames: tuple[StackFrame, ...], workspace: Path | None) -> tuple[StackFrame, ...]:
    """The frames, those in files of the workspace as the user's, wherever the workspace lies."""
    if workspace is None:
        return frames
    root = f"{workspace}/"
    return tuple(
        replace(frame, tooling=False)
        if frame.file and frame.file.startswith(root) and "site-packages" not in frame.file
        else frame
        for frame in frames
    )
