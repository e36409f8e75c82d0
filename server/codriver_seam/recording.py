"""Record an application's events, their origins, exceptions, and registered handlers.

Everything is stored in bounded buffers in the process. Recording never locks, writes, or raises into the application,
and without `install` only the positions of handlers are stored. Values are stored according to their exact types,
without calling the application's code.

Exceptions are identified by object, so one that is seen by several sources is one event. A recorded exception carries a
mark that refers to its event. The mark keeps none of the application's objects alive, is not pickled, and is set and
read without running the application's code.
"""

from __future__ import annotations

import collections
import contextvars
import functools
import itertools
import os
import sys
import time
import uuid

from .values import safe_message, truncate

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from typing import Any

    Json = dict[str, Any]
    Event = Sequence[Any]
    """The fields of an event, as a tuple. For an exception, it is a list, because facts may be added to it later."""
    Accessor = Callable[[Json], Json]
    """An operation that agents can request, with JSON objects as its arguments and answer."""

MAX_STORED_EVENTS = 2000
"""Maximum number of stored events."""
TAG, PARTS = 300, 8
"""Maximum length of a tag, and maximum number of elements of a collection in a tag."""
MAX_UNWRAPPED_DECORATORS = 20
"""Maximum number of nested decorators that are unwrapped."""
SCALAR_TYPES = (int, float, bool, type(None))
"""Types whose values are stored unchanged in tags."""
ID, TIME, OP, NAME, FRAME, EVENT, HANDLER, SOURCE, ORIGIN, CAUSE, MS, TAGS = range(12)
"""The indexes of the fields in an event."""

origin: contextvars.ContextVar[Json | None] = contextvars.ContextVar("codriver_seam_origin", default=None)
"""The caller and the evaluation that cause the current events, or None if the application causes them."""
cause: contextvars.ContextVar[tuple[int, frozenset[str]] | None] = contextvars.ContextVar(
    "codriver_seam_cause", default=None
)
"""The current dispatch: its id, and the names of the frames that record an epoch for it."""
is_reading = contextvars.ContextVar("codriver_seam_reading", default=False)
"""Whether the seam is reading state for an agent in this context, in which case no events are recorded."""
APP_ORIGIN = "app"
"""The origin of events that no agent caused."""
MAX_SEARCHED_CAUSES = 20
"""Maximum length of a chain of causes that is searched for a recorded exception."""
MARK_ATTRIBUTE = "__codriver_seam__"
"""The attribute of an exception that refers to its event."""


class Seam:
    """The recorded events and registered handlers, frames and predicates of this process."""

    def __init__(self) -> None:
        self.session_id: str | None = None
        """The id of the session, which is created when the seam is installed and never changes."""
        self.installed_ms = 0
        self.ids, self.dispatches = itertools.count(1), itertools.count(1)
        self.events: collections.deque[Event] = collections.deque(maxlen=MAX_STORED_EVENTS)
        self.frames: dict[str, Any] = {}
        """The frames by name. Their class is defined in a module that imports this one."""
        self.handlers: dict[tuple[str, str], Json] = {}
        self.routes: list[Callable[[], list[Json]]] = []
        """Functions that return the routes of each watched application, as handlers."""
        self.machines: dict[str, Callable[[], Any]] = {}
        self.predicates: dict[str, Callable[[Json], Any]] = {}
        self.offers: tuple[Callable[[Event], object], ...] = ()
        """The functions that receive each event. The tuple is replaced as a whole, so `emit` needs no lock."""
        self.streams: Any = None
        """The subscriptions, once the first one has been created."""
        self.queued: dict[int, tuple[float, contextvars.Context, str, str]] = {}
        """Events that agents queued and that have no epoch yet, by dispatch id: time, context, frame and event."""
        self.probes = self.loads = 0
        self.changes, self.sensitive_version = itertools.count(1), 0
        """The numbers for new versions of the values at sensitive paths, and the current version."""

    def last_id(self) -> int:
        """Return the id of the newest event, or 0."""
        return int(self.events[-1][ID]) if self.events else 0


seam = Seam()
"""The events, handlers, frames and predicates of this process."""


def reset() -> None:
    """Reset the seam to its state after import. This is for tests of applications."""
    if seam.streams is not None:
        seam.streams.clear()
    vars(seam).update(vars(Seam()))


def install(enabled: bool | None = None) -> bool:  # noqa: FBT001  # it is all that it takes
    """Enable the seam, and return whether it is enabled.

    By default, this depends on whether CODRIVER_SEAM=1 is set.
    """
    if seam.session_id is None and (os.environ.get("CODRIVER_SEAM") == "1" if enabled is None else enabled):
        seam.installed_ms = int(time.time() * 1000)
        seam.session_id = str(uuid.uuid4())
    return seam.session_id is not None


def loaded() -> None:
    """Record that the application's code was loaded again."""
    seam.loads += 1


def machine(name: str, get: Callable[[], Any]) -> None:
    """Register a state machine. `get` returns its current state."""
    if seam.session_id is not None:
        seam.machines[name] = get


def predicate(name: str, test: Callable[[Json], Any]) -> None:
    """Register a function that tests events. Filters refer to it by name in the field `pred`."""
    if seam.session_id is not None:
        seam.predicates[name] = test


def handler(kind: str, name: str, **more: Any) -> Callable[[Any], Any]:
    """Return a decorator that registers a function as a handler, with its position in the source.

    `kind` is the type of handler, for example `event`.
    """

    def note(function: Any) -> Any:
        # Handlers are also registered before `install`, which is called after the imports.
        if row := describe_handler(kind, name, function):
            seam.handlers[kind, name] = {**row, **more}
        return function

    return note


def describe_handler(kind: str, name: str, function: Any) -> Json:
    """Return a handler's name, position and first line of documentation, or {} if the function has no code."""
    code = getattr(_unwrap(function), "__code__", None)
    if code is None:
        return {}
    doc = (getattr(function, "__doc__", None) or "").strip().split("\n")[0]
    position = {"ns": function.__module__, "file": code.co_filename, "line": code.co_firstlineno, "column": 1}
    return {"kind": kind, "id": name, **position, **({"doc": doc} if doc else {})}


def _unwrap(function: Any) -> Any:
    """Return the innermost function inside decorators that set `__wrapped__`."""
    for _ in range(MAX_UNWRAPPED_DECORATORS):
        function = getattr(function, "__wrapped__", function)
    return function


def emit(
    op_type: str,
    operation: str,
    *,
    frame: str | None = None,
    event_id: str | None = None,
    handler_id: str | None = None,
    source: str | None = None,
    ms: float | None = None,
    **tags: Any,
) -> int:
    """Record an event and return its id, or 0 if nothing was recorded.

    Nothing is recorded while the seam is disabled, or while it is reading state for an agent.
    """
    if seam.session_id is None or is_reading.get():
        return 0
    now = cause.get()
    tag_values = {name: storable_tag(value) for name, value in tags.items()} if tags else None
    number = next(seam.ids)
    event = (number, time.time(), op_type, operation, frame, event_id, handler_id, source, origin.get(),
             now[0] if now else None, ms, tag_values)  # fmt: skip
    seam.events.append(event)
    for offer in seam.offers:
        offer(event)
    return number


def storable_tag(value: Any) -> Any:
    """Convert a tag to a short value that does not refer to any of the application's objects."""
    kind = type(value)
    if kind is str:
        return truncate(value, TAG)
    if kind in SCALAR_TYPES:
        return value
    if kind in (list, tuple) and len(value) <= PARTS:
        return tuple([_storable_item(part) for part in value])
    return f"<{kind.__name__}>"


def _storable_item(value: Any) -> Any:
    """Convert an element of a collection in a tag to a short value."""
    kind = type(value)
    return truncate(value, TAG // PARTS) if kind is str else value if kind in SCALAR_TYPES else f"<{kind.__name__}>"


def origin_who(event_origin: Mapping[str, Any] | None) -> str:
    """Return the name of the caller in an event's origin, or `APP_ORIGIN` for an event of the application itself."""
    return APP_ORIGIN if event_origin is None else str(event_origin.get("who", APP_ORIGIN))


def bind(function: Callable[..., Any], *arguments: Any) -> Callable[..., Any]:
    """Return a function that runs with the current origin and dispatch id when it is called later.

    Use this for functions passed to queues or other threads.
    """
    member, now = origin.get(), cause.get()
    # The current epochs will have ended by then.
    none: frozenset[str] = frozenset()
    later = (now[0], none) if now else None

    def bound(*more: Any, **named: Any) -> Any:
        first, second = origin.set(member), cause.set(later)
        try:
            return function(*arguments, *more, **named)
        finally:
            cause.reset(second)
            origin.reset(first)

    return bound


class Mark:
    """A reference from a recorded exception to its event, stored as an attribute of the exception."""

    __slots__ = ("event",)

    def __init__(self, event: list[Any]) -> None:
        self.event = event

    def __reduce__(self) -> tuple[Any, tuple[()]]:
        """Pickle the mark as 0, because an event is only valid in its process."""
        return int, ()


def recorded_event(error: BaseException) -> list[Any] | None:
    """Return the event recorded for an exception or for one of its causes, or None."""
    marks = (_attributes(linked).get(MARK_ATTRIBUTE) for linked in _iter_causes(error))
    return next((mark.event for mark in marks if type(mark) is Mark), None)


def attach_event(error: BaseException, event: list[Any]) -> None:
    """Store a reference to the event that records an exception in the exception itself."""
    _attributes(error)[MARK_ATTRIBUTE] = Mark(event)


def detach_event(error: BaseException) -> None:
    """Remove the reference to the recorded event from an exception, so that the exception can be recorded again."""
    for linked in _iter_causes(error):
        _attributes(linked).pop(MARK_ATTRIBUTE, None)


def _attributes(error: BaseException) -> dict[str, Any]:
    """Return the instance attributes of an exception, without running code from its class."""
    found: dict[str, Any] = BaseException.__getattribute__(error, "__dict__")
    return found


def _iter_causes(error: BaseException) -> Iterator[BaseException]:
    """Yield an exception and its causes. If a group has only one member, the member counts as the group's cause."""
    current: BaseException | None = error
    for _ in range(MAX_SEARCHED_CAUSES):
        if current is None:
            return
        yield current
        inner = getattr(current, "exceptions", None) if type(current).__name__ in EXCEPTION_GROUP_NAMES else None
        current = inner[0] if isinstance(inner, tuple) and len(inner) == 1 else current.__cause__


EXCEPTION_GROUP_NAMES = ("ExceptionGroup", "BaseExceptionGroup")
"""The names of exception groups in Python 3.11, and in the backport `exceptiongroup`."""


def note_error(
    error: BaseException,
    *,
    source: str | None = None,
    frame: str | None = None,
    event_id: str | None = None,
    **facts: Any,
) -> int:
    """Record an exception as an event with its position in the application's code, and return the event's id.

    If the exception, or the one that it was raised from, was already recorded in the same dispatch, new facts are added
    to that event.
    """
    if seam.session_id is None or is_reading.get():
        return 0
    now, position, known = cause.get(), error_positions(error), recorded_event(error)
    number = now[0] if now else None
    # The traceback of an exception reported by a library may not contain any of the application's frames.
    at = position[0] or application_position(sys._getframe(1)) or position[1]  # noqa: SLF001  # the only way to a frame
    tag_values = {
        name: storable_tag(value) for name, value in {"message": safe_message(error), "at": at, **facts}.items()
    }
    if known is not None and _is_stored(known) and (number is None or known[CAUSE] in (None, number)):
        _merge_facts(
            known,
            type(error).__name__,
            tag_values,
            ((FRAME, frame), (EVENT, event_id), (SOURCE, source), (CAUSE, number)),
        )
        event = known
    else:
        event = [next(seam.ids), time.time(), "error", type(error).__name__, frame, event_id, None, source,
                 origin.get(), number, None, tag_values]  # fmt: skip
        seam.events.append(event)
    attach_event(error, event)
    for offer in seam.offers:
        offer(event)
    return int(event[ID])


def _is_stored(event: Event) -> bool:
    """Return whether an event is still in the buffer."""
    oldest = seam.events[0] if seam.events else None
    return oldest is not None and bool(oldest[ID] <= event[ID])


def _merge_facts(event: list[Any], name: str, tags: Json, fields: Iterable[tuple[int, Any]]) -> None:
    """Add facts from another source to an exception's event, without replacing existing ones."""
    for index, value in fields:
        if event[index] is None:
            event[index] = value
        elif index == EVENT and value not in (None, event[index]):
            tags["within"] = value
    if (name, tags["message"]) != (event[NAME], event[TAGS]["message"]):
        tags["raised"] = truncate(f"{name}: {tags['message']}", TAG)
    if event[ORIGIN] is None:
        event[ORIGIN] = origin.get()
    first = event[TAGS]
    better = {"at": tags["at"]} if not is_application_file(first["at"].rpartition(":")[0]) else {}
    # Replace the mapping as a whole, because other threads may be reading it.
    event[TAGS] = {**first, **{name: value for name, value in tags.items() if name not in first}, **better}


def latest_failure(dispatch_id: int) -> list[Any] | None:
    """Return the event of the newest exception in a dispatch, or None."""
    found = [event for event in tuple(seam.events) if type(event) is list and event[CAUSE] == dispatch_id]
    return found[-1] if found else None


def add_facts(event: list[Any], handler_id: str | None = None, **tags: Any) -> None:
    """Add facts that became known later to the event of an exception."""
    event[HANDLER] = event[HANDLER] or handler_id
    event[TAGS] = {**event[TAGS], **{name: value for name, value in tags.items() if name not in event[TAGS]}}


# Positions in source code


def error_positions(error: BaseException) -> tuple[str, str]:
    """Return an exception's innermost position in the application's code, and its innermost position in any code."""
    position, inner, trace = "", "", error.__traceback__
    while trace is not None:
        name = trace.tb_frame.f_code.co_filename
        inner = f"{name}:{trace.tb_lineno}"
        if is_application_file(name):
            position = inner
        trace = trace.tb_next
    return position, inner


def application_position(frame: Any) -> str:
    """Return the nearest position in the application's code, starting at a stack frame and going outwards.

    Returns "" if there is none.
    """
    while frame is not None:
        if is_application_file(frame.f_code.co_filename):
            return f"{frame.f_code.co_filename}:{frame.f_lineno}"
        frame = frame.f_back
    return ""


@functools.lru_cache(maxsize=4096)
def is_application_file(file: str) -> bool:
    """Return whether a file belongs to the application rather than to a library or this package."""
    return not file.startswith(EXCLUDED_PATH_PREFIXES) and "site-packages" not in file and "dist-packages" not in file


PACKAGE_DIRECTORY = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120  # avoids importing `pathlib`
EXCLUDED_PATH_PREFIXES = (
    "<frozen",
    PACKAGE_DIRECTORY,
    os.path.dirname(os.__file__),  # noqa: PTH120  # as above
    *([sys.prefix] if sys.prefix != sys.base_prefix else []),
)
"""The prefixes of files that do not belong to the application.

Without a virtual environment, only standard-library files are excluded, because the application may be below the
interpreter's prefix, as in /usr/src.
"""
