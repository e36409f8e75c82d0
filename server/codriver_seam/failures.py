"""Failures: exceptions by their identity, so that one that several sources see is one event, and their places.

An exception that was noted carries a mark. It holds the event and nothing of the application's, goes with no pickle
of the exception to another process, and is set and read without code of the application's.
"""

from __future__ import annotations

import functools
import os
import sys
import time

from .recording import (
    CAUSE,
    EVENT,
    FRAME,
    HANDLER,
    ID,
    NAME,
    ORIGIN,
    SOURCE,
    TAG,
    TAGS,
    cause,
    is_reading,
    origin,
    seam,
    tag,
)
from .values import cut, words_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

    from .recording import Event, Json

CAUSES = 20
"""Exceptions of one failure, each the cause of the one before, that are looked through."""
ATTRIBUTE = "__codriver_seam__"
"""The attribute of an exception that was noted."""


class Mark:
    """The event of a noted exception, carried by the exception itself."""

    __slots__ = ("event",)

    def __init__(self, event: list[Any]) -> None:
        self.event = event

    def __reduce__(self) -> tuple[Any, tuple[()]]:
        """In a pickle the mark is the number 0, as another process has other events."""
        return int, ()


def event_of(error: BaseException) -> list[Any] | None:
    """The event of an exception, or of one that is its cause, if any was noted."""
    marks = (_attributes(one).get(ATTRIBUTE) for one in _of_one_failure(error))
    return next((one.event for one in marks if type(one) is Mark), None)


def mark(error: BaseException, event: list[Any]) -> None:
    """Note the event of an exception."""
    _attributes(error)[ATTRIBUTE] = Mark(event)


def unmark(error: BaseException) -> None:
    """Make the next sighting of an exception a failure of its own, as after its thread has ended."""
    for one in _of_one_failure(error):
        _attributes(one).pop(ATTRIBUTE, None)


def _attributes(error: BaseException) -> dict[str, Any]:
    found: dict[str, Any] = BaseException.__getattribute__(error, "__dict__")
    return found


def _of_one_failure(error: BaseException) -> Iterator[BaseException]:
    """An exception, and what it was raised from; a group of one is raised from that."""
    one: BaseException | None = error
    for _ in range(CAUSES):
        if one is None:
            return
        yield one
        inner = getattr(one, "exceptions", None) if type(one).__name__ in GROUPS else None
        one = inner[0] if isinstance(inner, tuple) and len(inner) == 1 else one.__cause__


GROUPS = ("ExceptionGroup", "BaseExceptionGroup")
"""From Python 3.11 on, or as the library `exceptiongroup` has them."""


def note_error(
    error: BaseException,
    *,
    source: str | None = None,
    frame: str | None = None,
    event_id: str | None = None,
    **facts: Any,
) -> int:
    """Note an exception, with the innermost place in the application's own code that it came through; its event's id.

    One that was noted in the same dispatch, or was raised from one that was, is the same failure: what is told of it
    now is added to its event.
    """
    if seam.session_id is None or is_reading.get():
        return 0
    now, place, known = cause.get(), place_of(error), event_of(error)
    number = now[0] if now else None
    # A library that tells of it has no frame of the application in its traceback yet.
    at = place[0] or own_place(sys._getframe(1)) or place[1]  # noqa: SLF001  # it is how a frame is had
    kept = {name: tag(value) for name, value in {"message": words_of(error), "at": at, **facts}.items()}
    if known is not None and _is_kept(known) and (number is None or known[CAUSE] in (None, number)):
        _join(known, type(error).__name__, kept, ((FRAME, frame), (EVENT, event_id), (SOURCE, source), (CAUSE, number)))
        event = known
    else:
        event = [next(seam.ids), time.time(), "error", type(error).__name__, frame, event_id, None, source,
                 origin.get(), number, None, kept]  # fmt: skip
        seam.events.append(event)
    mark(error, event)
    for offer in seam.offers:
        offer(event)
    return int(event[ID])


def _is_kept(event: Event) -> bool:
    """True until an event has fallen out of the ring."""
    oldest = seam.events[0] if seam.events else None
    return oldest is not None and bool(oldest[ID] <= event[ID])


def _join(event: list[Any], name: str, tags: Json, fields: Iterable[tuple[int, Any]]) -> None:
    """Add to the event of a failure what another source tells of it; what is told first stays."""
    for place, value in fields:
        if event[place] is None:
            event[place] = value
        elif place == EVENT and value not in (None, event[place]):
            tags["within"] = value
    if (name, tags["message"]) != (event[NAME], event[TAGS]["message"]):
        tags["raised"] = cut(f"{name}: {tags['message']}", TAG)
    if event[ORIGIN] is None:
        event[ORIGIN] = origin.get()
    first = event[TAGS]
    better = {"at": tags["at"]} if not is_own(first["at"].rpartition(":")[0]) else {}
    # Replaced whole, as others read it meanwhile.
    event[TAGS] = {**first, **{name: value for name, value in tags.items() if name not in first}, **better}


def failure_in(dispatch_id: int) -> list[Any] | None:
    """The event of the newest exception of a dispatch, if any was noted."""
    found = [one for one in tuple(seam.events) if type(one) is list and one[CAUSE] == dispatch_id]
    return found[-1] if found else None


def add_facts(event: list[Any], handler_id: str | None = None, **tags: Any) -> None:
    """Add what came of a failure to its event."""
    event[HANDLER] = event[HANDLER] or handler_id
    event[TAGS] = {**event[TAGS], **{name: value for name, value in tags.items() if name not in event[TAGS]}}


# Places


def place_of(error: BaseException) -> tuple[str, str]:
    """The innermost place in the application's own code that an exception came through, and the innermost of all."""
    place, inner, trace = "", "", error.__traceback__
    while trace is not None:
        name = trace.tb_frame.f_code.co_filename
        inner = f"{name}:{trace.tb_lineno}"
        if is_own(name):
            place = inner
        trace = trace.tb_next
    return place, inner


def own_place(frame: Any) -> str:
    """The innermost place in the application's own code from a frame outwards; nothing where there is none."""
    while frame is not None:
        if is_own(frame.f_code.co_filename):
            return f"{frame.f_code.co_filename}:{frame.f_lineno}"
        frame = frame.f_back
    return ""


@functools.lru_cache(maxsize=4096)
def is_own(file: str) -> bool:
    """True for a file of the application's: no library's, and not ours."""
    return not file.startswith(OTHERS) and "site-packages" not in file and "dist-packages" not in file


HERE = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120  # `pathlib` would be loaded for it
OTHERS = ("<frozen", HERE, os.path.dirname(os.__file__), *([sys.prefix] if sys.prefix != sys.base_prefix else []))  # noqa: PTH120  # as above
"""Where others' code lies. Of a Python without an environment of its own it is the library alone: an application may
lie beside that, as in /usr/src."""
