"""Error reports: the type, message, frames and locals of a failure, without the worker's own frames.

Only plain local variables are printed: numbers, strings, None, and short collections of these. Other values are
described by their type, because their `repr` may be user code. Variables whose names suggest a secret are left out.
Nothing is retained beyond the session's last error.
"""

from __future__ import annotations

import builtins
import itertools
import os
import sys
import traceback

from .plain_values import SECRET_NAME_PATTERN

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any, Callable

    Frames = list[traceback.FrameSummary]

    from .plain_values import PlainPrinter

    Words = Callable[[BaseException], dict[str, Any]]


CODRIVER_DIRECTORY = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
STANDARD_LIBRARY_DIRECTORY = os.path.dirname(os.__file__) + os.sep
"""The directory of the standard library."""
MAX_TEXT_FRAMES = 50
"""Maximum number of frames in the text of a failure."""
MAX_REPORTED_FRAMES = 2000
"""Maximum number of frames in a failure report.

It exceeds Python's recursion limit, because the server folds repeated frames.
"""
MAX_LINK_FRAMES = 200
"""Maximum number of frames for each error linked to a failure."""
MAX_REPORTED_LINKS = 10
"""Maximum number of linked or grouped errors that are reported with a failure."""
MAX_COUNTED_LINKS = 1000
"""Maximum number of linked errors that are counted."""
MAX_NOTES_PER_ERROR = 10
"""Maximum number of notes reported for an error."""
MAX_NOTE_CHARACTERS = 1000
"""Maximum length of a note."""
PHASE_ATTRIBUTE = "codriver_phase"
"""The attribute of an error that contains its phase. Errors raised by running code have none."""


def common_error_fields(error: BaseException, words: Words | None = None) -> tuple[dict[str, Any], Frames]:
    """Return the fields of a failure that are common to all dialects, and its frames, outermost first.

    The worker's own frames are omitted. `words` returns the type and message of an error, for languages with their own
    kinds of error.
    """
    describe = words or error_summary
    frames = select_user_frames(traceback.extract_tb(error.__traceback__))
    parts = {
        **describe(error),
        "phase": getattr(error, PHASE_ATTRIBUTE, "execution"),
        "trace": _lines(frames)[:MAX_REPORTED_FRAMES],
    }
    if parts["phase"] in ("execution", "print"):
        chain = [
            _link(relation, other, describe)
            for relation, other in itertools.islice(linked_errors(error), MAX_REPORTED_LINKS)
        ]
        left = sum(1 for _ in itertools.islice(linked_errors(error), MAX_REPORTED_LINKS, MAX_COUNTED_LINKS))
        if left:
            chain.append({"relation": "omitted", "type": "…", "message": f"{left} more errors are left out"})
        if chain:
            parts["chain"] = chain
    return parts, frames


def error_summary(error: BaseException) -> dict[str, Any]:
    """Return the type, message and notes of an error."""
    name = type(error).__name__
    if type(error).__module__ not in ("builtins", "__main__"):
        name = type(error).__module__ + "." + name
    message = str(error)
    if isinstance(error, SystemExit):
        message = f"code called exit({message}); the REPL keeps running"
    words: dict[str, Any] = {"type": name, "message": message}
    notes = getattr(error, "__notes__", None)
    if isinstance(notes, (list, tuple)) and notes:
        words["notes"] = [note[:MAX_NOTE_CHARACTERS] for note in notes[:MAX_NOTES_PER_ERROR] if isinstance(note, str)]
    return words


def linked_errors(error: BaseException) -> Iterator[tuple[str, BaseException]]:
    """Yield the errors that are linked to an error or are in its group, nearest first and without duplicates.

    Each error has a relation: `cause` (raised `from` it), `context` (raised while handling it), `member 1`, or one of
    these followed by `of member 1`.
    """
    seen = {id(error)}
    waiting = [("", "", error)]
    while waiting:
        relation, of, item = waiting.pop()
        if relation:
            yield relation, item
        other = item.__cause__ or (None if item.__suppress_context__ else item.__context__)
        found = [] if other is None else [(("cause" if other is item.__cause__ else "context") + of, of, other)]
        members = [(f"member {number}" + of, member) for number, member in enumerate(_members(item), 1)]
        found += [(name, " of " + name, member) for name, member in reversed(members)]
        waiting += [entry for entry in found if id(entry[2]) not in seen]
        seen.update(id(entry[2]) for entry in found)


def _members(error: BaseException) -> tuple[BaseException, ...]:
    """Return the errors in an exception group, or () for any other error."""
    groups = (
        getattr(builtins, "BaseExceptionGroup", None),
        getattr(_exceptiongroup_backport(), "BaseExceptionGroup", None),
    )
    is_group = any(isinstance(kind, type) and issubclass(type(error), kind) for kind in groups)
    return tuple(getattr(error, "exceptions", ())) if is_group else ()


def _exceptiongroup_backport() -> object:
    """Return the module that backports exception groups to older versions of Python, if it is loaded."""
    return sys.modules.get("exceptiongroup")


def _link(relation: str, error: BaseException, words: Words) -> dict[str, Any]:
    """Return the fields of a linked error, including its frames."""
    try:
        parts = words(error)
    except Exception as failure:  # the message may come from user code
        parts = {"type": type(error).__name__, "message": "the message cannot be displayed: " + type(failure).__name__}
    frames = select_user_frames(traceback.extract_tb(error.__traceback__))
    return {"relation": relation, **parts, "trace": _lines(frames)[:MAX_LINK_FRAMES]}


def _lines(frames: Frames) -> list[str]:
    """Format each frame as a line, innermost first."""
    return [f"{frame.name} ({frame.filename}:{frame.lineno})" for frame in reversed(frames)]


def add_position(parts: dict[str, Any], frames: Frames) -> None:
    """Add the position of a failure: that of the innermost frame of user code, or else of any code."""
    user_frames = [frame for frame in frames if not is_library_file(frame.filename)] or frames
    if user_frames:
        parts.update(file=user_frames[-1].filename, line=user_frames[-1].lineno or 1)
        column = getattr(user_frames[-1], "colno", None)
        if column is not None:
            parts["column"] = column + 1


def format_trace(frames: Frames) -> list[str]:
    """Format each frame as a line, innermost first. Repeated lines are replaced with a count."""
    runs = [(text, sum(1 for _ in same)) for text, same in itertools.groupby(_lines(frames))]
    return [f"  at {text}" + (f" … {count} times" if count > 1 else "") for text, count in runs]


def set_phase(error: BaseException, phase: str) -> None:
    """Set the phase in which an error occurred, such as `compilation`."""
    setattr(error, PHASE_ATTRIBUTE, phase)


def store_error(error: BaseException) -> None:
    """Store an error for post-mortem debuggers.

    Source: Python's `sys.last_exc`, since 3.12.
    """
    strip_codriver_frames(error)
    sys.last_type, sys.last_value, sys.last_traceback = type(error), error, error.__traceback__
    sys.last_exc = error  # type: ignore[attr-defined]  # set in all versions because user code may read it


def strip_codriver_frames(error: BaseException) -> None:
    """Remove the worker's frames from the start of a traceback, so that debuggers start in user code."""
    trace = error.__traceback__
    while trace is not None and is_worker_or_loop(trace.tb_frame.f_code.co_filename):
        trace = trace.tb_next
    error.__traceback__ = trace


def trim_traceback(report: traceback.TracebackException | None, seen: tuple[int, ...] = ()) -> None:
    """Remove the worker's frames from a formatted traceback, including those of linked errors."""
    if report is None or id(report) in seen:
        return
    report.stack[:] = select_user_frames(report.stack)
    for other in (report.__cause__, report.__context__, *(getattr(report, "exceptions", None) or ())):
        trim_traceback(other, (*seen, id(report)))


def select_user_frames(frames: Iterable[traceback.FrameSummary]) -> Frames:
    """Return all frames except those of the worker and of the event loop that runs a top-level `await`."""
    rest = itertools.dropwhile(lambda frame: is_worker_or_loop(frame.filename), frames)
    return [frame for frame in rest if not is_worker_file(frame.filename)]


def is_worker_file(file: str) -> bool:
    """Return whether a file belongs to the worker. `loading` explains names in angle brackets."""
    return file.startswith((CODRIVER_DIRECTORY, "<codriver "))


def is_library_file(file: str) -> bool:
    """Return whether a file belongs to the standard library or an installed package."""
    return file.startswith((STANDARD_LIBRARY_DIRECTORY, "<frozen")) or "-packages" + os.sep in file


def is_worker_or_loop(file: str) -> bool:
    """Return whether a file belongs to the worker or to asyncio."""
    return is_worker_file(file) or ("asyncio" in file and is_library_file(file))


MAX_FRAMES_WITH_LOCALS = 20
"""Maximum number of frames in each error whose locals are reported."""
MAX_LOCALS = 20
"""Maximum number of locals that are reported for a frame. Arguments come first."""
AT_ONCE, AT_ONCE_CHARACTERS = 3, 60
"""The number and maximum length of locals that are reported with an error even if not requested."""


def user_frame_locals(
    error: BaseException, most: int, printer: PlainPrinter, name: Callable[[str], str]
) -> list[dict[str, Any]]:
    """Return rows with the local variables in frames of user code.

    Each row has the index of the `error` in its chain, the `frame`, and the `locals`. Frames are formatted as in the
    report. Of repeated calls, only the innermost is included. Values are printed with at most `most` characters. `name`
    returns the name that a variable has in the source, or "" if it is not in the source.
    """
    parts: list[dict[str, Any]] = []
    errors = itertools.chain(
        [error], (other for _, other in itertools.islice(linked_errors(error), MAX_REPORTED_LINKS))
    )
    for number, item in enumerate(errors):
        report: dict[str, dict[str, str]] = {}
        for text, values in _frames(item):
            if text not in report and len(report) < MAX_FRAMES_WITH_LOCALS:
                report[text] = dict(itertools.islice(_locals(values, most, printer, name), MAX_LOCALS))
        parts += [{"error": number, "frame": text, "locals": found} for text, found in report.items() if found]
    return parts


def plain_frame_locals(error: BaseException, printer: PlainPrinter, name: Callable[[str], str]) -> list[str]:
    """Return the first plain local variables of the innermost frame of user code as `name=value`, never truncated."""
    for _, values in _frames(error)[:1]:
        named = (
            (report, key) for key in list(values) if (report := name(key)) and not SECRET_NAME_PATTERN.search(report)
        )
        parts = (
            f"{report}={text}"
            for report, key in named
            if (text := printer.print_complete(values[key], AT_ONCE_CHARACTERS))
        )
        return list(itertools.islice(parts, AT_ONCE))
    return []


def _frames(error: BaseException) -> list[tuple[str, dict[str, Any]]]:
    """Return the frames of user functions, innermost first, each as a line and its variables."""
    found: list[tuple[str, dict[str, Any]]] = []
    trace = error.__traceback__
    while trace is not None:
        frame = trace.tb_frame
        file = frame.f_code.co_filename
        if not is_worker_file(file) and not is_library_file(file) and frame.f_locals is not frame.f_globals:
            found.append((f"{frame.f_code.co_name} ({file}:{trace.tb_lineno})", frame.f_locals))
        trace = trace.tb_next
    return found[::-1]


def _locals(
    values: dict[str, Any], most: int, printer: PlainPrinter, name: Callable[[str], str]
) -> Iterator[tuple[str, str]]:
    """Yield the names and printed values of variables that are in the source."""
    for key in list(values):
        report = name(key)
        if report and not SECRET_NAME_PATTERN.search(report):
            yield report, printer.text(values[key], most)
