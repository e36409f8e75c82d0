"""Error reports: type, message and frames of a failure, with the user's own lines and none of the worker's."""

from __future__ import annotations

import itertools
import os
import sys
import threading
import traceback

from .connections import OWN_THREAD

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    Frames = list[traceback.FrameSummary]

OWN_FOLDER = os.path.dirname(os.path.abspath(__file__)) + os.sep
LIBRARY = os.path.dirname(os.__file__) + os.sep
FRAMES = 50
PHASE = "codriver_phase"
"""The attribute of an error that says in which phase it came, where that was not while the code ran."""


def begin_parts(error: BaseException) -> tuple[dict[str, Any], Frames]:
    """What all dialects tell of a failure, and its frames but for the worker's own, outermost first."""
    name = type(error).__name__
    if type(error).__module__ not in ("builtins", "__main__"):
        name = type(error).__module__ + "." + name
    message = str(error)
    if isinstance(error, SystemExit):
        message = f"code called exit({message}); the REPL goes on"
    frames = users_own(traceback.extract_tb(error.__traceback__))
    trace = [f"{frame.name} ({frame.filename}:{frame.lineno})" for frame in reversed(frames)][:FRAMES]
    parts = {"type": name, "message": message, "phase": getattr(error, PHASE, "execution"), "trace": trace}
    return parts, frames


def place(parts: dict[str, Any], frames: Frames) -> None:
    """Add the place of a failure: the innermost line of the user's own code, else the innermost of all."""
    own = [frame for frame in frames if not is_library(frame.filename)] or frames
    if own:
        parts.update(file=own[-1].filename, line=own[-1].lineno or 1)
        column = getattr(own[-1], "colno", None)
        if column is not None:
            parts["column"] = column + 1


def in_phase(error: BaseException, phase: str) -> None:
    """Remember in which phase an error came."""
    setattr(error, PHASE, phase)


def keep(error: BaseException) -> None:
    """Leave an error where post-mortem debuggers look for it. Source: Python's `sys.last_exc`, since 3.12."""
    strip_own(error)
    sys.last_type, sys.last_value, sys.last_traceback = type(error), error, error.__traceback__
    sys.last_exc = error  # type: ignore[attr-defined]  # set in all versions, as user code may ask for it


def strip_own(error: BaseException) -> None:
    """Take the worker's frames off the top of an error's traceback, as nobody wants to debug those."""
    trace = error.__traceback__
    while trace is not None and _is_around(trace.tb_frame.f_code.co_filename):
        trace = trace.tb_next
    error.__traceback__ = trace


def trim(shown: traceback.TracebackException | None, seen: tuple[int, ...] = ()) -> None:
    """Take the worker's own frames out of a traceback, and of those of its causes and of the errors in its group."""
    if shown is None or id(shown) in seen:
        return
    shown.stack[:] = users_own(shown.stack)
    for other in (shown.__cause__, shown.__context__, *(getattr(shown, "exceptions", None) or ())):
        trim(other, (*seen, id(shown)))


def users_own(frames: Iterable[traceback.FrameSummary]) -> Frames:
    """Frames without the worker's, and without those of the event loop around an `await` at the top."""
    rest = itertools.dropwhile(lambda frame: _is_around(frame.filename), frames)
    return [frame for frame in rest if not is_worker(frame.filename)]


def stacks() -> str:
    """What all threads of user code do now."""
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    dumps = []
    for ident, frame in sys._current_frames().items():  # noqa: SLF001  # there is no other way to them
        if names.get(ident) == OWN_THREAD:
            continue
        frames = list(traceback.extract_stack(frame))
        # Above the worker's own is what started it.
        first = next((number for number, one in enumerate(frames) if is_worker(one.filename)), 0)
        shown = [one for one in frames[first:] if not is_worker(one.filename)]
        if shown:
            dumps.append(names.get(ident, str(ident)) + ":\n" + "".join(traceback.format_list(shown)[-FRAMES:]))
    return "\n".join(dumps)


def is_worker(file: str) -> bool:
    """Whether a file is of the worker."""
    return file.startswith(OWN_FOLDER)


def is_library(file: str) -> bool:
    """Whether a file is of the standard library or of an installed package."""
    return file.startswith((LIBRARY, "<frozen")) or "-packages" + os.sep in file


def _is_around(file: str) -> bool:
    """Whether code that lies around the user's is of the worker, or of the event loop that it runs."""
    return is_worker(file) or ("asyncio" in file and is_library(file))
