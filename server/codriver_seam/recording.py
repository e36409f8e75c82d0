"""Recording what an application does: frames of its state, epochs, events, and the origin of each.

All of it lies in rings of one process, for its life. Nothing here locks, writes or raises into the application, and
without `install` nothing is kept but the places of handlers.
"""

from __future__ import annotations

import collections
import contextvars
import copy
import functools
import itertools
import os
import pickle
import sys
import time
import uuid

from .plain import Told
from .values import cut, is_mutable, texts_at, words_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Any

    Json = dict[str, Any]
    Event = tuple[Any, ...]

EVENTS, EPOCHS, SECRETS = 2000, 50, 200
"""The newest that are kept: events in all, epochs of a frame, texts seen at the sensitive paths of a frame."""
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
        self.frames: dict[str, Frame] = {}
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


class Frame:
    """A part of the application's state, by a reference to it.

    `get` gives it, `set` replaces it, `validate` tells in words what is wrong with a value, `dispatch` handles an event
    before it returns, `enqueue` hands it to the application's own loop. `snapshot` says how a state is kept that is
    changed in place: by `pickle`, `deepcopy`, or a function; `none` promises that none ever is. At the `sensitive`
    paths nothing is shown.
    """

    def __init__(  # noqa: PLR0913  # each is named where it is given
        self,
        name: str,
        get: Callable[[], Any],
        set: Callable[[Any], object] | None = None,  # noqa: A002  # the application's word
        *,
        validate: Callable[[Any], Any] | None = None,
        dispatch: Callable[[Any], object] | None = None,
        enqueue: Callable[[Any], object] | None = None,
        sensitive: Iterable[Sequence[Any]] = (),
        snapshot: str | Callable[[Any], Any] | None = None,
        depth: int = EPOCHS,
    ) -> None:
        self.name, self.get, self.set, self.validate = name, get, set, validate
        self.dispatch, self.enqueue = dispatch, enqueue
        copies: dict[Any, Callable[[Any], Any] | None] = {"pickle": _pickled, "deepcopy": copy.deepcopy, "none": None}
        self._copy: Any = copies[snapshot] if isinstance(snapshot, str) else snapshot
        self.is_sure = snapshot == "none"
        """Whether one object is one state."""
        self.sensitive = tuple(tuple(path) for path in sensitive)
        self.epochs: collections.deque[Epoch] = collections.deque(maxlen=depth)
        self.restored = 0
        """The epoch to which the state was restored last."""
        self.draining: dict[object, None] = {}
        """The epochs under way; each comes and goes by one operation, which needs no lock."""
        self.secrets: dict[str, str] = {}
        """Texts that were seen at sensitive paths, the newest last, each with its path."""

    def look(self) -> Any:
        """The state now, whose texts at sensitive paths are remembered. Raises what `get` does."""
        value = self.get()
        if self.sensitive:
            self.note_secrets(value)
        return value

    def keep(self) -> Any:
        """The state now, so that it stays as it is; `Unread` where it cannot be kept."""
        try:
            value = self.look()
            return value if self._copy is None else self._copy(value)
        except Exception as error:  # noqa: BLE001  # the application goes on
            return Unread(f"{type(error).__name__}: {words_of(error)}")

    def thaw(self, kept: Any) -> Any:
        """A state that was kept, as one that the application may have."""
        if type(kept) is _Pickled:
            return pickle.loads(kept)  # noqa: S301  # our own bytes
        return kept if self._copy is None else self._copy(kept)

    @staticmethod
    def read(kept: Any) -> Any:
        """A state that was kept, to be looked at and not to be changed."""
        return pickle.loads(kept) if type(kept) is _Pickled else kept  # noqa: S301  # our own bytes

    def note_secrets(self, value: Any) -> None:
        """Remember the texts at the sensitive paths of a value."""
        is_new = False
        for path in self.sensitive:
            for text in texts_at(value, path):
                is_new = self.secrets.pop(text, None) is None or is_new
                self.secrets[text] = ".".join(map(str, path))
        while len(self.secrets) > SECRETS:
            self.secrets.pop(next(iter(self.secrets)), None)
        if is_new:
            # After the texts: whoever knows this version has seen them. Each thread has a number of its own.
            seam.sensitive_version = next(seam.changes)


class _Pickled(bytes):
    """A state that was kept."""


def _pickled(value: Any) -> _Pickled:
    return _Pickled(pickle.dumps(value, -1))


class Unread:
    """The reason in place of a state that could not be kept."""

    def __init__(self, why: str) -> None:
        self.why = why


def frame(name: str, get: Callable[[], Any], set: Callable[[Any], object] | None = None, **more: Any) -> None:  # noqa: A002
    """Show a part of the application's state under a name. See `Frame`."""
    if seam.session_id is not None:
        seam.frames[name] = Frame(name, get, set, **more)


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
    """A handler as it is told, with its place and the first line of its words; empty where it has no place."""
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
    kept = {name: _tag(value) for name, value in tags.items()} if tags else None
    number = next(seam.ids)
    event = (number, time.time(), op_type, operation, frame, event_id, handler_id, source, origin.get(),
             now[0] if now else None, ms, kept)  # fmt: skip
    seam.events.append(event)
    for offer in seam.offers:
        offer(event)
    return number


def _tag(value: Any) -> Any:
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


class Epoch:
    """One cascade of a frame: the state before and after, its time, its outcome, and who caused it."""

    __slots__ = ("after", "before", "dispatch_id", "event_id", "id", "is_told", "ms", "origin", "outcome", "time")

    def __init__(
        self, found: Frame, event_id: str, before: Any, after: Any, outcome: str = "ok", ms: float = 0.0
    ) -> None:
        now = cause.get()
        self.id, self.time, self.event_id, self.outcome, self.ms = next(seam.ids), time.time(), event_id, outcome, ms
        self.before, self.after = before, after
        self.origin, self.dispatch_id = origin.get(), now[0] if now else None
        self.is_told = before is not after or found.is_sure or not is_mutable(before)
        """Whether before and after can tell what changed: one object that can change cannot."""


class epoch:  # noqa: N801  # it is used as a function is
    """A context in which an event is handled, noted as one epoch of a frame; inside another epoch of it, nothing.

    What is raised in it is noted, and goes on.
    """

    __slots__ = ("_before", "_began", "_event", "_frame", "_tags", "_token", "recorded")

    def __init__(self, frame: str, event_id: str, **tags: Any) -> None:
        self._frame = seam.frames.get(frame) if seam.session_id is not None else None
        self._event, self._tags = event_id, tags
        self.recorded: Epoch | None = None

    def __enter__(self) -> epoch:  # noqa: PYI034  # Python 3.8 has no `Self`
        found, now = self._frame, cause.get()
        if found is None:
            return self
        if now is not None and found.name in now[1]:
            self._frame = None
            return self
        number, inside = now or (next(seam.dispatches), frozenset())
        if seam.queued:
            seam.queued.pop(number, None)
        self._token = cause.set((number, inside | {found.name}))
        self._before = found.keep()
        found.draining[self] = None
        emit("event", "dispatched", frame=found.name, event_id=self._event, **self._tags)
        self._began = time.perf_counter()
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        found = self._frame
        if found is None:
            return
        ms = round((time.perf_counter() - self._began) * 1000, 3)
        if error is not None:
            note_error(error, frame=found.name, event_id=self._event)
        recorded = Epoch(found, self._event, self._before, found.keep(), "ok" if error is None else "error", ms)
        self.recorded = recorded
        found.epochs.append(recorded)
        found.draining.pop(self, None)
        emit("epoch", "snapshotted", frame=found.name, event_id=self._event, ms=ms, epoch=recorded.id)
        cause.reset(self._token)


def note_error(error: BaseException, *, source: str | None = None, **where: Any) -> int:
    """Note an exception, with the innermost place in the application's own code that it came through."""
    place, inner, trace = "", "", error.__traceback__
    while trace is not None:
        name = trace.tb_frame.f_code.co_filename
        inner = f"{name}:{trace.tb_lineno}"
        if is_own(name):
            place = inner
        trace = trace.tb_next
    # A library that tells of it has no frame of the application in its traceback yet.
    at = place or own_place(sys._getframe(1)) or inner  # noqa: SLF001  # it is how a frame is had
    return emit("error", type(error).__name__, source=source, message=words_of(error), at=at, **where)


def own_place(frame: Any) -> str:
    """The innermost place in the application's own code from a frame outwards; nothing where there is none."""
    while frame is not None:
        if is_own(frame.f_code.co_filename):
            return f"{frame.f_code.co_filename}:{frame.f_lineno}"
        frame = frame.f_back
    return ""


@functools.lru_cache(maxsize=4096)
def is_own(file: str) -> bool:
    """Whether a file is the application's: no library's, and not ours."""
    return not file.startswith(OTHERS) and "site-packages" not in file and "dist-packages" not in file


HERE = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120  # `pathlib` would be loaded for it
OTHERS = ("<frozen", HERE, os.path.dirname(os.__file__), *([sys.prefix] if sys.prefix != sys.base_prefix else []))  # noqa: PTH120  # as above
"""Where others' code lies. Of a Python without an environment of its own it is the library alone: an application may
lie beside that, as in /usr/src."""
