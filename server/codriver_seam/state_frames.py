"""Frames, which are the named parts of an application's state, and their epochs, which record changes.

Values that are or were at the sensitive paths of frames are collected for redaction.
"""

from __future__ import annotations

import collections
import contextlib
import copy
import pickle
import time

from .recording import add_facts, cause, emit, is_reading, note_error, origin, recorded_event, seam
from .values import is_mutable, safe_message, sensitive_strings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from collections.abc import Set as AbstractSet
    from typing import Any

    from .recording import Json


EPOCHS, SECRETS = 50, 200
"""Maximum number of epochs per frame, and of remembered values at its sensitive paths."""


class Frame:
    """A named part of the application's state, with functions to read and change it.

    `get` returns the state, and `set` replaces it. `validate` returns what is wrong with a value. `dispatch` handles an
    event before it returns, and `enqueue` passes an event to the application's event loop. `snapshot` specifies how to
    copy a state that is changed in place: `pickle`, `deepcopy`, or a function. `none` promises that states are never
    changed in place. Values at the `sensitive` paths are never displayed. `depth` is the number of epochs to store.

    Raises:
        ValueError: `snapshot` is any other string.
    """

    def __init__(  # noqa: PLR0913  # callers name each argument
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
        copies: dict[Any, Callable[[Any], Any] | None] = {
            "pickle": _pickle_state,
            "deepcopy": copy.deepcopy,
            "none": None,
        }
        if isinstance(snapshot, str) and snapshot not in copies:
            raise ValueError(
                f"snapshot= must be one of {', '.join(map(repr, copies))}, or a function, not {snapshot!r}"
            )
        self._copy: Any = copies[snapshot] if isinstance(snapshot, str) else snapshot
        self.is_sure = snapshot == "none"
        """Whether the same object always represents the same state, because states are never changed in place."""
        self.sensitive = tuple(tuple(path) for path in sensitive)
        self.epochs: collections.deque[Epoch] = collections.deque(maxlen=depth)
        self.restored = 0
        """The epoch to which the state was last restored."""
        self.draining: dict[object, None] = {}
        """The epochs in progress. Adding and removing one are atomic operations, so no lock is needed."""
        self.secrets: dict[str, str] = {}
        """The values seen at sensitive paths, newest last, each with its path."""
        self._last_secrets: AbstractSet[str] = frozenset()
        """The sensitive values at the last check."""

    def read_state(self) -> Any:
        """Return the current state, and store its sensitive values for redaction.

        Exceptions from `get` propagate.
        """
        value = self.get()
        if self.sensitive:
            self.remember_secrets(value)
        return value

    def copy_state(self) -> Any:
        """Return a copy of the current state that is independent of later changes, or `Unread` if copying fails."""
        try:
            value = self.read_state()
            return value if self._copy is None else self._copy(value)
        except Exception as error:  # noqa: BLE001  # must not affect the application
            return Unread(f"{type(error).__name__}: {safe_message(error)}")

    def thaw(self, stored: Any) -> Any:
        """Return a copy of a stored state, which the application may modify."""
        if type(stored) is _PickledState:
            return pickle.loads(stored)  # noqa: S301  # created by this module
        return stored if self._copy is None else self._copy(stored)

    @staticmethod
    def read(stored: Any) -> Any:
        """Return a stored state for reading. The caller must not modify it."""
        return pickle.loads(stored) if type(stored) is _PickledState else stored  # noqa: S301  # our own bytes

    def remember_secrets(self, value: Any) -> None:
        """Store the strings at the sensitive paths of a value, so that they can be redacted."""
        found: dict[str, str] = {}
        for path in self.sensitive:
            found.update(dict.fromkeys(sensitive_strings(value, path), ".".join(map(str, path))))
        if found.keys() == self._last_secrets:
            return
        new, self._last_secrets = found.keys() - self.secrets.keys(), found.keys()
        if new:
            # The current values are the newest.
            for text in found:
                self.secrets.pop(text, None)
            self.secrets.update(found)
        while len(self.secrets) > SECRETS:
            self.secrets.pop(next(iter(self.secrets)), None)
        if new:
            # Set this last, so that a reader of the new version sees the values. Each thread uses its own number.
            seam.sensitive_version = next(seam.changes)


class _PickledState(bytes):
    """A state serialized with `pickle`."""


def _pickle_state(value: Any) -> _PickledState:
    return _PickledState(pickle.dumps(value, -1))


class Unread:
    """A placeholder for a state that could not be copied. It contains the reason."""

    def __init__(self, why: str) -> None:
        self.why = why


def frame(name: str, get: Callable[[], Any], set: Callable[[Any], object] | None = None, **more: Any) -> None:  # noqa: A002
    """Register a part of the application's state under a name. Do nothing unless the seam is installed.

    `get` returns the state, and `set` replaces it. The other keyword arguments are those of `Frame`: `validate`,
    `dispatch` and `enqueue` are functions, `sensitive` contains paths whose values are never displayed, `snapshot` is
    'pickle', 'deepcopy', 'none' or a function, and `depth` is the number of epochs to store.

    Raises:
        ValueError: `snapshot` is any other string.
    """
    if seam.session_id is not None:
        seam.frames[name] = Frame(name, get, set, **more)


class Epoch:
    """The effect of one event on a frame: the state before and after it, its duration, outcome and origin."""

    __slots__ = ("after", "before", "dispatch_id", "event_id", "id", "is_comparable", "ms", "origin", "outcome", "time")

    def __init__(
        self, found: Frame, event_id: str, before: Any, after: Any, outcome: str = "ok", ms: float = 0.0
    ) -> None:
        now = cause.get()
        self.id, self.time, self.event_id, self.outcome, self.ms = next(seam.ids), time.time(), event_id, outcome, ms
        self.before, self.after = before, after
        self.origin, self.dispatch_id = origin.get(), now[0] if now else None
        self.is_comparable = before is not after or found.is_sure or not is_mutable(before)
        """Whether the change is known, unlike when both states are the same object, possibly changed in place."""


class epoch:  # noqa: N801  # it is used like a function
    """A context manager that records an event and its effect on a frame as an epoch.

    Nested epochs of the same frame are ignored. Exceptions are recorded and propagate.
    """

    __slots__ = ("_before", "_event", "_frame", "_started_at", "_tags", "_token", "recorded")

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
        self._before = found.copy_state()
        found.draining[self] = None
        emit("event", "dispatched", frame=found.name, event_id=self._event, **self._tags)
        self._started_at = time.perf_counter()
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        found = self._frame
        if found is None:
            return
        ms = round((time.perf_counter() - self._started_at) * 1000, 3)
        noted = 0 if error is None else note_error(error, frame=found.name, event_id=self._event)
        recorded = Epoch(found, self._event, self._before, found.copy_state(), "ok" if error is None else "error", ms)
        self.recorded = recorded
        found.epochs.append(recorded)
        found.draining.pop(self, None)
        if error is not None and noted and (failure := recorded_event(error)) is not None:
            add_facts(failure, epoch=recorded.id)
        emit("epoch", "snapshotted", frame=found.name, event_id=self._event, ms=ms, epoch=recorded.id)
        cause.reset(self._token)


def look() -> None:
    """Collect the values at sensitive paths before anything can display them. This causes no events and never fails."""
    if is_reading.get():
        return  # a getter that prints would cause another check
    token = is_reading.set(True)
    try:
        for registered in _frames():
            # An error in a getter is reported when its frame is queried.
            with contextlib.suppress(Exception):
                registered.read_state()
    finally:
        is_reading.reset(token)


def secrets() -> list[str]:
    """Return all values that are or were at sensitive paths, longest first."""
    found: dict[str, None] = {}
    for registered in _frames():
        with contextlib.suppress(Exception):
            registered.read_state()
        found.update(dict.fromkeys(tuple(registered.secrets)))
    return sorted(found, key=len, reverse=True)


def sensitive_texts(known: int) -> tuple[int, list[tuple[str, str]]]:
    """Return a version number, and the names and values seen at sensitive paths.

    If the version is `known`, the list is empty, because the caller already has it. This reads only stored values and
    calls no getters.
    """
    version = seam.sensitive_version
    if version == known:
        return version, []
    return version, [
        (f"{registered.name} {path}", text)
        for registered in _frames()
        for text, path in registered.secrets.copy().items()
    ]


def sensitive(_request: Json) -> Json:
    """Return all values that are or were at sensitive paths, with their names.

    Only the caller's redactor may receive this answer.
    """
    secrets()
    return {"texts": sensitive_texts(-1)[1]}


def _frames() -> list[Frame]:
    return [registered for registered in tuple(seam.frames.values()) if registered.sensitive]
