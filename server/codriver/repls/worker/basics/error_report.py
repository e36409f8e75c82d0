"""Error reports: type, message and frames of a failure, with the user's own lines and none of the worker's."""

from __future__ import annotations

import builtins
import itertools
import os
import sys
import threading
import traceback

from .connections import OWN_THREAD
from .task_stacks import task_stacks

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any, Callable

    Frames = list[traceback.FrameSummary]
    Words = Callable[[BaseException], dict[str, Any]]

OWN_FOLDER = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
LIBRARY = os.path.dirname(os.__file__) + os.sep
FRAMES = 50
TOLD_FRAMES = 2000
"""Frames told of a failure: more than its limit lets Python go deep, as the server folds those that repeat."""
LINK_FRAMES = 200
"""Frames told of each error that it comes from."""
LINKS = 10
"""Errors told that a failure comes from, or holds."""
MOST_LINKS = 1000
"""Errors counted of a chain that is longer."""
NOTES = 10
NOTE_CHARACTERS = 1000
PHASE = "codriver_phase"
"""The attribute of an error that says in which phase it came, where that was not while the code ran."""


def begin_parts(error: BaseException, words: Words | None = None) -> tuple[dict[str, Any], Frames]:
    """The parts of a failure that all dialects tell, and its frames but for the worker's own, outermost first.

    `words` gives type and message of each error of its chain, where the language has others than Python.
    """
    tell = words or words_of
    frames = users_own(traceback.extract_tb(error.__traceback__))
    parts = {**tell(error), "phase": getattr(error, PHASE, "execution"), "trace": _texts(frames)[:TOLD_FRAMES]}
    if parts["phase"] in ("execution", "print"):
        chain = [_link(relation, other, tell) for relation, other in itertools.islice(linked(error), LINKS)]
        left = sum(1 for _ in itertools.islice(linked(error), LINKS, MOST_LINKS))
        if left:
            chain.append({"relation": "omitted", "type": "…", "message": f"{left} more errors are left out"})
        if chain:
            parts["chain"] = chain
    return parts, frames


def words_of(error: BaseException) -> dict[str, Any]:
    """Type, message and notes of an error."""
    name = type(error).__name__
    if type(error).__module__ not in ("builtins", "__main__"):
        name = type(error).__module__ + "." + name
    message = str(error)
    if isinstance(error, SystemExit):
        message = f"code called exit({message}); the REPL goes on"
    words: dict[str, Any] = {"type": name, "message": message}
    notes = getattr(error, "__notes__", None)
    if isinstance(notes, (list, tuple)) and notes:
        words["notes"] = [note[:NOTE_CHARACTERS] for note in notes[:NOTES] if isinstance(note, str)]
    return words


def linked(error: BaseException) -> Iterator[tuple[str, BaseException]]:
    """The errors that another one comes from, nearest first, and those in its group; each once, with what it is to it.

    That is `cause` (raised `from` it), `context` (raised while it was handled) or `member 1`, or so `of member 1`.
    """
    seen = {id(error)}
    waiting = [("", "", error)]
    while waiting:
        relation, of, one = waiting.pop()
        if relation:
            yield relation, one
        other = one.__cause__ or (None if one.__suppress_context__ else one.__context__)
        found = [] if other is None else [(("cause" if other is one.__cause__ else "context") + of, of, other)]
        members = [(f"member {number}" + of, member) for number, member in enumerate(_members(one), 1)]
        found += [(name, " of " + name, member) for name, member in reversed(members)]
        waiting += [entry for entry in found if id(entry[2]) not in seen]
        seen.update(id(entry[2]) for entry in found)


def _members(error: BaseException) -> tuple[BaseException, ...]:
    """The errors in a group; none of any other error."""
    groups = (getattr(builtins, "BaseExceptionGroup", None), getattr(_backport(), "BaseExceptionGroup", None))
    is_group = any(isinstance(kind, type) and issubclass(type(error), kind) for kind in groups)
    return tuple(getattr(error, "exceptions", ())) if is_group else ()


def _backport() -> object:
    """The library that gives older versions of Python its groups, if the program has loaded it."""
    return sys.modules.get("exceptiongroup")


def _link(relation: str, error: BaseException, words: Words) -> dict[str, Any]:
    """One more error of a chain, with frames of its own."""
    try:
        told = words(error)
    except Exception as failure:  # the words of an error come from user code
        told = {"type": type(error).__name__, "message": "its message cannot be shown: " + type(failure).__name__}
    frames = users_own(traceback.extract_tb(error.__traceback__))
    return {"relation": relation, **told, "trace": _texts(frames)[:LINK_FRAMES]}


def _texts(frames: Frames) -> list[str]:
    """Frames in a line each, innermost first."""
    return [f"{frame.name} ({frame.filename}:{frame.lineno})" for frame in reversed(frames)]


def add_place(parts: dict[str, Any], frames: Frames) -> None:
    """Add the place of a failure: the innermost line of the user's own code, else the innermost of all."""
    own = [frame for frame in frames if not is_library(frame.filename)] or frames
    if own:
        parts.update(file=own[-1].filename, line=own[-1].lineno or 1)
        column = getattr(own[-1], "colno", None)
        if column is not None:
            parts["column"] = column + 1


def at_lines(frames: Frames) -> list[str]:
    """Frames in a line each, innermost first, one that repeats once with how often."""
    runs = [(text, sum(1 for _ in same)) for text, same in itertools.groupby(_texts(frames))]
    return [f"  at {text}" + (f" … {count} times" if count > 1 else "") for text, count in runs]


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
    while trace is not None and is_around(trace.tb_frame.f_code.co_filename):
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
    rest = itertools.dropwhile(lambda frame: is_around(frame.filename), frames)
    return [frame for frame in rest if not is_worker(frame.filename)]


def stacks() -> str:
    """A dump of all threads of user code as they are now, and of asyncio's tasks."""
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
    return "\n".join([*dumps, *task_stacks()])


def is_worker(file: str) -> bool:
    """Whether a file is of the worker."""
    return file.startswith(OWN_FOLDER)


def is_library(file: str) -> bool:
    """Whether a file is of the standard library or of an installed package."""
    return file.startswith((LIBRARY, "<frozen")) or "-packages" + os.sep in file


def is_around(file: str) -> bool:
    """Whether code that lies around the user's is of the worker, or of the event loop that it runs."""
    return is_worker(file) or ("asyncio" in file and is_library(file))
