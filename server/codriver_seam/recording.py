"""Recording of what an application does: its events, the origin of each, and the handlers that it names.

All of it lies in rings of one process, for its life. Nothing here locks, writes or raises into the application, and
without `install` nothing is kept but the places of handlers.
"""

from __future__ import annotations

import collections
import contextvars
import itertools
import os
import time
import uuid

from .plain import Told
from .values import cut

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    Json = dict[str, Any]
    Event = Sequence[Any]
    """A tuple; of an exception a list, to which its later sightings add."""

EVENTS = 2000
"""The newest that are kept."""
TAG, PARTS = 300, 8
"""Characters of a tag, and elements of one that is a collection."""
WRAPPED = 20
"""Decorators of one function that are looked through."""
SCALARS = (int, float, bool, type(None))
ID, TIME, OP, NAME, FRAME, EVENT, HANDLER, SOURCE, ORIGIN, CAUSE, MS, TAGS = range(12)
"""The places in an event."""

origin: contextvars.ContextVar[Json | None] = contextvars.ContextVar("codriver_seam_origin", default=None)
"""Who caused what happens, and by which evaluation; None: the application."""
cause: contextvars.ContextVar[tuple[int, frozenset[str]] | None] = contextvars.ContextVar(
    "codriver_seam_cause", default=None
)
"""The dispatch under way: its id, and the frames that record an epoch of it."""
is_reading = contextvars.ContextVar("codriver_seam_reading", default=False)
"""Whether we read for an agent, which makes no events."""


class Seam:
    """All that the seam of this process holds, for the life of the process."""

    def __init__(self) -> None:
        self.session_id: str | None = None
        """Made when the seam is installed, and never changed."""
        self.installed_ms = 0
        self.ids, self.dispatches = itertools.count(1), itertools.count(1)
        self.events: collections.deque[Event] = collections.deque(maxlen=EVENTS)
        self.frames: dict[str, Any] = {}
        """By name, each a `Frame`, whose module builds on this one."""
        self.handlers: dict[tuple[str, str], Json] = {}
        self.routes: list[Callable[[], list[Json]]] = []
        """By application that is watched, what gives its routes, as handlers."""
        self.machines: dict[str, Callable[[], Any]] = {}
        self.predicates: dict[str, Callable[[Json], Any]] = {}
        self.offers: tuple[Callable[[Event], object], ...] = ()
        """Whoever wants each event at once; replaced whole, so that `emit` takes no lock."""
        self.streams: Any = None
        """The subscriptions, once there was one."""
        self.queued: dict[int, tuple[float, contextvars.Context, str, str]] = {}
        """By dispatch id, what was queued for an agent and has no epoch yet: when, in which context, frame, event."""
        self.way: Any = None
        """The way to listen to functions, once it was asked for."""
        self.probes = self.loads = 0
        self.changes, self.sensitive_version = itertools.count(1), 0
        """A new one whenever a text was seen at a sensitive path that was not there before."""

    def last_id(self) -> int:
        """The id of the newest event."""
        return int(self.events[-1][ID]) if self.events else 0


seam = Seam()


def forget() -> None:
    """Be as it was when it was imported: for tests of applications."""
    if seam.streams is not None:
        seam.streams.clear()
    vars(seam).update(vars(Seam()))


def install(enabled: bool | None = None) -> bool:  # noqa: FBT001  # it is all that it takes
    """Switch the seam on if `enabled`, or without that if the environment says CODRIVER_SEAM=1; whether it is on."""
    if seam.session_id is None and (os.environ.get("CODRIVER_SEAM") == "1" if enabled is None else enabled):
        seam.installed_ms = int(time.time() * 1000)
        seam.session_id = str(uuid.uuid4())
    return seam.session_id is not None


def loaded() -> None:
    """Note that code was loaded anew."""
    seam.loads += 1


def machine(name: str, get: Callable[[], Any]) -> None:
    """Show a state machine under a name: `get` gives its state."""
    if seam.session_id is not None:
        seam.machines[name] = get


def predicate(name: str, test: Callable[[Json], Any]) -> None:
    """Register a test of events, which the filter `pred` can name."""
    if seam.session_id is not None:
        seam.predicates[name] = test


def handler(kind: str, name: str, **more: Any) -> Callable[[Any], Any]:
    """A decorator by which a function is known, with its place, as a handler of some `kind`: event, effect or other."""

    def note(function: Any) -> Any:
        # Also before `install`, as modules are imported before it is called.
        if row := handler_row(kind, name, function):
            seam.handlers[kind, name] = {**row, **more}
        return function

    return note


def handler_row(kind: str, name: str, function: Any) -> Json:
    """A handler as answers show it, with place and first line of the docstring; empty for one without a place."""
    code = getattr(_unwrapped(function), "__code__", None)
    if code is None:
        return {}
    doc = (getattr(function, "__doc__", None) or "").strip().split("\n")[0]
    place = {"ns": function.__module__, "file": code.co_filename, "line": code.co_firstlineno, "column": 1}
    return {"kind": kind, "id": name, **place, **({"doc": doc} if doc else {})}


def _unwrapped(function: Any) -> Any:
    """The function that decorators which say so have wrapped."""
    for _ in range(WRAPPED):
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
    """Note an event; its id, or 0 where the seam is off or an agent reads."""
    if seam.session_id is None or is_reading.get():
        return 0
    now = cause.get()
    kept = {name: tag(value) for name, value in tags.items()} if tags else None
    number = next(seam.ids)
    event = (number, time.time(), op_type, operation, frame, event_id, handler_id, source, origin.get(),
             now[0] if now else None, ms, kept)  # fmt: skip
    seam.events.append(event)
    for offer in seam.offers:
        offer(event)
    return number


def tag(value: Any) -> Any:
    """A tag as it is kept: no text is long, no object lives on by it, and none is printed."""
    kind = type(value)
    if kind is str:
        return cut(value, TAG)
    if kind in SCALARS or kind is Told:
        return value
    if kind in (list, tuple) and len(value) <= PARTS:
        return tuple([_part(part) for part in value])
    return f"<{kind.__name__}>"


def _part(value: Any) -> Any:
    kind = type(value)
    return cut(value, TAG // PARTS) if kind is str else value if kind in SCALARS else f"<{kind.__name__}>"


def bind(function: Callable[..., Any], *arguments: Any) -> Callable[..., Any]:
    """The function with the origin and the dispatch id of now, wherever it is called: in a queue, or a thread."""
    held, now = origin.get(), cause.get()
    # The epochs that go on now will be over by then.
    none: frozenset[str] = frozenset()
    later = (now[0], none) if now else None

    def bound(*more: Any, **named: Any) -> Any:
        first, second = origin.set(held), cause.set(later)
        try:
            return function(*arguments, *more, **named)
        finally:
            cause.reset(second)
            origin.reset(first)

    return bound
