"""Stack traces and failures, parsed from the fields in which Codriver's programs report them.

A reported error has a type, a message, a position, frames, locals and a chain of causes. Traces are shortened to the
user's frames.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from codriver.core.evaluations import Failure
from codriver.errors import truncate
from codriver.repls.contract.events import READING_PHASES
from codriver.repls.contract.stack_frames import (
    call_start_indexes,
    clojure_function_name,
    fold_repeated_frames,
    format_frame,
    parse_frame,
)
from codriver.repls.contract.stack_trace_values import StackFrame, StackTrace
from codriver.wire.untrusted import int_or_none, list_or_empty, mapping_or_empty, strings_or_empty, text_or_none

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from codriver.repls.dialects.server_dialect import Dialect

MAX_MESSAGE_CHARS: Final = 4000
"""Maximum length of an error message in an answer. The complete message is in the output log."""

MAX_TRACE_FRAMES: Final = 20
"""Maximum number of frames of user code in a failure."""
_UNNAMED_CODE_FILES: Final = ("<nREPL Input>", "<string>", "<stdin>", "<REPL", "<input>", "<eval", "<repl")
"""Prefixes of the file names that servers assign to code sent without a file."""
_MISSING_FILE_NAMES: Final = frozenset({"REPL", "NO_SOURCE_FILE", "NO_SOURCE_PATH", "null", "", *_UNNAMED_CODE_FILES})

PHASES_BEFORE_RUNNING: Final = READING_PHASES | {"compile", "compilation", "macroexpansion"}
"""Phases of failures whose position is in the failed form. At run time, the position may be in another form's function.
"""


def parse_failure_fields(parts: Mapping[str, object], dialect: Dialect) -> Failure:
    """Create a failure from reported fields, with at most `MAX_TRACE_FRAMES` frames of user code."""
    shortened = fold_repeated_frames([frame for frame in parse_frame_lines(parts, dialect) if not frame.tooling])
    return Failure(
        type=text_or_none(parts.get("type")) or "error",
        message=shorten_message(text_or_none(parts.get("message")) or ""),
        phase=text_or_none(parts.get("phase")) or None,
        file=real_file_name(text_or_none(parts.get("file"))),
        line=int_or_none(parts.get("line")),
        column=int_or_none(parts.get("column")),
        form=int_or_none(parts.get("form")),
        trace=tuple(format_frame(frame) for frame in shortened[:MAX_TRACE_FRAMES]),
        locals=strings_or_empty(parts.get("locals")),
        data=text_or_none(parts.get("data")),
        notes=strings_or_empty(parts.get("notes")),
        relation=text_or_none(parts.get("relation")) or "",
        source_line=text_or_none(parts.get("source")) or "",
        chain=tuple(
            parse_failure_fields(mapping_or_empty(link), dialect) for link in list_or_empty(parts.get("chain"))
        ),
    )


def parse_trace_fields(parts: Mapping[str, object], dialect: Dialect) -> StackTrace:
    """Create a stack trace from the reported fields of an error and its chain of causes."""
    error = parse_failure_fields(parts, dialect)
    links = [mapping_or_empty(link) for link in list_or_empty(parts.get("chain"))]
    chain = [
        trace_without_chain(linked, parse_frame_lines(link, dialect))
        for linked, link in zip(error.chain, links, strict=True)
    ]
    return trace_with_chain(error, parse_frame_lines(parts, dialect), chain)


def trace_with_chain(error: Failure, frames: tuple[StackFrame, ...], chain: Iterable[StackTrace]) -> StackTrace:
    """Create the stack trace of an error with its chain. If there are no frames, the error's position becomes one."""
    if not frames and (error.file or error.line):
        frames = (StackFrame(f"{error.file or 'REPL'}:{error.line}", file=error.file, line=error.line),)
    return replace(trace_without_chain(error, frames), chain=tuple(chain))


def trace_without_chain(error: Failure, frames: tuple[StackFrame, ...]) -> StackTrace:
    """Create the stack trace of a single error, without its chain."""
    return StackTrace(error.type, error.message, frames, error.data, error.notes, error.relation)


def parse_frame_lines(parts: Mapping[str, object], dialect: Dialect) -> tuple[StackFrame, ...]:
    """Parse stack frames that Codriver's worker reported as lines, innermost first."""
    return tuple(parse_frame(text, dialect.tooling) for text in strings_or_empty(parts.get("trace")))


def add_locals(trace: StackTrace, rows: Iterable[object]) -> StackTrace:
    """Add local variables to the frames of a stack trace and its chain.

    Each row has the index of an error in the chain, the text of a frame, and the local variables of that frame.
    """
    found: dict[tuple[int | None, str | None], dict[str, str]] = {}
    for row in map(mapping_or_empty, rows):
        values = {
            name: text for name, value in mapping_or_empty(row.get("locals")).items() if (text := text_or_none(value))
        }
        found[int_or_none(row.get("error")), text_or_none(row.get("frame"))] = values

    def filled(linked: StackTrace, number: int) -> StackTrace:
        frames = [replace(frame, locals=found.get((number, frame.text), {})) for frame in linked.frames]
        return replace(linked, frames=tuple(frames))

    return replace(filled(trace, 0), chain=tuple(filled(link, n) for n, link in enumerate(trace.chain, 1)))


def parse_frame_maps(fields: Mapping[str, object], dialect: Dialect) -> tuple[StackFrame, ...]:
    """Parse stack frames that a program reported as maps. JVM frames that belong to one call are merged."""
    rows = [mapping_or_empty(item) for item in list_or_empty(fields.get("frames"))]
    if not any("class" in frame for frame in rows):
        return tuple(_frame(frame, dialect) for frame in rows)
    frames: list[StackFrame] = []
    for frame, owner, method in call_start_frames(fields.get("frames")):
        function = clojure_function_name(owner, method)
        file, line = text_or_none(frame.get("file")), int_or_none(frame.get("line"))
        frames.append(
            StackFrame(f"{function} ({file}:{line})", file, line, function, owner.startswith(dialect.tooling))
        )
    return tuple(frames)


def _frame(frame: Mapping[str, object], dialect: Dialect) -> StackFrame:
    function, file = text_or_none(frame.get("function")) or "?", text_or_none(frame.get("file"))
    line, is_tooling = int_or_none(frame.get("line")), any(part in (file or "") for part in dialect.tooling)
    return StackFrame(f"{function} ({file}:{line})", file, line, function, is_tooling)


def call_start_frames(rows: object) -> list[tuple[Mapping[str, object], str, str]]:
    """Return the frames that begin a call, each with its class and method."""
    frames = [mapping_or_empty(item) for item in list_or_empty(rows)]
    names = [(text_or_none(frame.get("class")) or "?", text_or_none(frame.get("method")) or "?") for frame in frames]
    return [(frames[start], *names[start]) for start in call_start_indexes(names)]


def real_file_name(name: str | None) -> str | None:
    """Return the name of a file, or None for a placeholder such as `<stdin>`, which has no file."""
    return None if name is None or name in _MISSING_FILE_NAMES or name.startswith("<") else name


def shorten_message(message: str) -> str:
    """Truncate an error message to `MAX_MESSAGE_CHARS`."""
    return truncate(message, MAX_MESSAGE_CHARS)


def mark_user_frames(frames: tuple[StackFrame, ...], workspace: Path | None) -> tuple[StackFrame, ...]:
    """Mark frames in workspace files as user code, even if the workspace is inside a tooling directory."""
    if workspace is None:
        return frames
    root = f"{workspace}/"
    return tuple(
        replace(frame, tooling=False)
        if frame.file and frame.file.startswith(root) and "site-packages" not in frame.file
        else frame
        for frame in frames
    )
