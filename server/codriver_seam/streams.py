"""Streams: subscriptions to the application's events, which are pushed to the subscribers.

Each has a queue that drops its oldest event when full. One daemon thread writes for all of them, and lives only while
there are any: nothing waits, formats or writes on a thread of the application's.
"""

from __future__ import annotations

import collections
import contextlib
import contextvars
import itertools
import json
import os
import sys
import threading
import time
from queue import Empty, SimpleQueue

from . import capture
from .accessors import line_of, matcher, note_overdue, who_of
from .frames import secrets
from .recording import (
    CAUSE,
    EVENT,
    FRAME,
    HANDLER,
    ID,
    MS,
    NAME,
    OP,
    ORIGIN,
    SOURCE,
    TAG,
    TAGS,
    TIME,
    is_reading,
    origin,
    seam,
)
from .values import TEXT, Refusal, cut, one_line, without, words_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from .accessors import Accessor
    from .recording import Event, Json

    Write = Callable[[str], object]
    """Takes the text of a frame. False: no room now, try again. Raises: the reader is gone."""

CALLS = "calls"
"""The topic of a capture, whose subscription ends when it has told enough."""
TOPICS: Mapping[str, str | None] = {"trace": None, "epoch": "epoch", "fx": "fx", "error": "error", CALLS: "call"}
"""By topic, the op-type of its events; None: any."""
MOST = 10
"""Subscriptions at once."""
QUEUED, QUEUED_BYTES = 500, 2**20
"""Events, and bytes of them, that wait for one subscriber at most."""
BATCH, REST_S, LONGEST_REST_S = 100, 0.02, 0.5
"""Events of a frame at most, and the pause after it, which doubles while more come than go."""
FAILURES = 100
"""The number of failures remembered as queued."""
LEASE_S = 60.0
"""The life of a subscription that is not renewed."""
TICK_S = 1.0
"""The longest sleep of the writer: it looks then for what is overdue."""
EVENT_BYTES = 200
"""The approximate bytes of an event without its tags."""
TEXTS = (("operation", NAME), ("frame", FRAME), ("eventId", EVENT), ("handlerId", HANDLER), ("source", SOURCE))


class Subscription:
    """One stream, until it is ended, its lease is over, or nobody reads it.

    While nothing is under way, the `sent`, `dropped` and waiting events add up to those that passed the filter.
    """

    def __init__(self, identity: str, asked: Json, write: Write, wake: Callable[[], object]) -> None:
        topic = asked.get("topic") or "trace"
        if topic not in TOPICS:
            raise Refusal("unknown-topic", f"topics: {', '.join(TOPICS)}")
        self.id, self.topic, self.filter = identity, topic, asked.get("filter") or {}
        self.created, self.origin, self.sent = time.time(), str(asked.get("who") or who_of(origin.get())), 0
        self._lease_s = float(asked.get("leaseS") or LEASE_S)
        self._most_bytes = int(asked.get("maxBytes") or QUEUED_BYTES)
        most = max(1, min(int(asked.get("maxEvents") or QUEUED), QUEUED))
        self._queue: collections.deque[tuple[int, Event]] = collections.deque(maxlen=most)
        self._taken = self._newest = self._told = self.failed = 0
        self.failure = ""
        """The words of its filter's first failure."""
        self._unsent: tuple[str, int] | None = None
        self._failures: collections.deque[int] = collections.deque(maxlen=FAILURES)
        """The last queued failures; some are offered again, with more facts."""
        self._rest_s, self.due = REST_S, 0.0
        """The pause after the next frame, and when that may be written."""
        self.is_awake = False
        """Whether the writer knows of waiting events."""
        self._write = write
        self.capture = capture.Capture(identity, self.filter) if topic == CALLS else None
        """Begun and ended with the subscription, if it is of that topic."""
        self.offer = self._offering(wake)
        """Takes each event of the application, on the application's thread."""
        self.renew()

    def _offering(self, wake: Callable[[], object]) -> Callable[[Event], None]:
        """Return a function that queues an event if it is one of ours; it never waits nor raises."""
        kind, append, numbers = TOPICS[self.topic], self._queue.append, itertools.count(1)
        asked = {name: value for name, value in self.filter.items() if not self.capture or name not in capture.KEYS}
        test = matcher({**asked, "source": self.id} if self.capture else asked) if self.filter else None

        def offer(event: Event) -> None:
            if kind is not None and event[OP] != kind:
                return
            try:
                if test is not None and not test(event):
                    return
            except Exception as error:  # noqa: BLE001  # a predicate is the application's code, which goes on
                self.failed += 1
                self.failure = self.failure or f"{type(error).__name__}: {words_of(error)}"
                return
            if type(event) is list and not self._is_first(event):
                return
            append((next(numbers), event))
            if not self.is_awake:
                self.is_awake = True
                wake()

        return offer

    def _is_first(self, event: list[Any]) -> bool:
        """Return true for a new failure, which rests first, so that later facts go out with it."""
        if event[ID] in self._failures:
            return False
        self._failures.append(event[ID])
        self.due = max(self.due, time.monotonic() + REST_S)
        return True

    def renew(self) -> None:
        """Begin the lease again."""
        self.ends = time.monotonic() + self._lease_s

    @property
    def has_told_all(self) -> bool:
        """Return true for a finished capture with all events written."""
        return self.capture is not None and self.capture.is_over and not self._queue and self._unsent is None

    @property
    def dropped(self) -> int:
        """Return the number of events dropped from the queue."""
        return max(0, self._newest - self._taken)

    def row(self) -> Json:
        """Return the subscription as it is listed."""
        waiting = tuple(self._queue)
        depth = len(waiting) + (self._unsent[1] if self._unsent else 0)
        return {"id": self.id, "topic": self.topic, "filter": self.filter, "origin": self.origin,
                "createdAt": self.created, "queueDepth": depth, "queueBytes": sum(map(_size, waiting)),
                "dropped": self.dropped, "sent": self.sent,
                **({"failed": self.failed, "why": self.failure} if self.failed else {}),
                **({"capture": self.capture.row()} if self.capture else {})}  # fmt: skip

    def flush(self, now: float) -> None:
        """Write the waiting events, at most a batch, once due. Raises the errors of `write`."""
        if not self.is_awake or now < self.due:
            return
        if self._unsent is None and (self._queue or self.dropped > self._told):
            batch = self._take()
            frame = {"sub": self.id, "dropped": max(0, self.dropped - self._told), "depth": len(self._queue),
                     "events": without([row_of(event) for event in batch], secrets())}  # fmt: skip
            self._told = max(self._told, self.dropped)
            self._unsent = json.dumps(frame), len(batch)
        if self._unsent is not None and self._write(self._unsent[0]) is not False:
            self.sent += self._unsent[1]
            self._unsent = None
        is_behind = self._unsent is not None or len(self._queue) >= BATCH
        self._rest_s = min(2 * self._rest_s, LONGEST_REST_S) if is_behind else REST_S
        self.due = now + self._rest_s
        if self._unsent is None and not self._queue:
            self.is_awake = False
            # Events that came since are seen here, if not by their own thread.
            self.is_awake = bool(self._queue)

    def _take(self) -> list[Event]:
        """Return the oldest waiting events, after dropping those without room."""
        queue = self._queue
        batch: list[Event] = []
        if len(queue) > BATCH:
            too_many = sum(map(_size, tuple(queue))) - self._most_bytes
            while too_many > 0 and queue:
                fallen = queue.popleft()
                self._newest = max(self._newest, fallen[0])
                too_many -= _size(fallen)
        while queue and len(batch) < BATCH:
            number, event = queue.popleft()
            self._newest = max(self._newest, number)
            batch.append(event)
        self._taken += len(batch)
        return batch


def _size(queued: tuple[int, Event]) -> int:
    tags = queued[1][TAGS]
    return EVENT_BYTES + (sum(len(tag) for tag in tags.values() if type(tag) is str) if tags else 0)


def row_of(event: Event) -> Json:
    """An event as it is pushed: its fields, each in one line and not long, and its line of the trace."""
    row: Json = {"id": event[ID], "time": event[TIME], "opType": _short(event[OP])}
    row.update([(name, _short(event[place])) for name, place in TEXTS if event[place] is not None])
    held = event[ORIGIN]
    if held:
        row["origin"] = {key: _short(held[key]) for key in ("who", "evaluation") if key in held}
    row.update(
        [(name, event[place]) for name, place in (("dispatchId", CAUSE), ("ms", MS)) if event[place] is not None]
    )
    row["line"] = cut(line_of(event), TEXT)
    return row


def _short(value: Any) -> str:
    return cut(one_line(str(value)), TAG)


class Streams:
    """The subscriptions of this process, and the thread that writes for them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._all: dict[str, Subscription] = {}
        self._numbers = itertools.count(1)
        self._news: SimpleQueue[None] = SimpleQueue()
        self._writer: threading.Thread | None = None
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=_after_fork)

    def add(self, asked: Json, write: Write) -> Subscription:
        """Return a new subscription; the first one starts the writer.

        Raises:
            Refusal: too many subscriptions, or an unknown topic, filter or predicate.
        """
        with self._lock:
            if len(self._all) >= MOST:
                raise Refusal("too-many-subscriptions", f"{MOST} are the most; end one: {', '.join(self._all)}")
            # An id of this process alone.
            identity = f"s{next(self._numbers)}-{str(seam.session_id)[:6]}"
            one = Subscription(identity, asked, write, self._wake)
            if one.capture is not None:
                one.capture.start()
            self._all[identity] = one
            self._set_offers()
            if self._writer is None:
                self._writer = threading.Thread(target=self._run, name="codriver seam", daemon=True)
                self._writer.start()
            return one

    def end(self, identity: str) -> bool:
        """End a subscription; whether there was one."""
        with self._lock:
            one = self._all.get(identity)
            self._leave([one] if one else [])
        self._news.put(None)
        return one is not None

    def clear(self) -> None:
        """End all."""
        for identity in tuple(self._all):
            self.end(identity)

    def renew(self, identities: list[str]) -> None:
        """Begin the leases of these again."""
        for identity in identities:
            one = self._all.get(identity)
            if one is not None:
                one.renew()

    def rows(self) -> list[Json]:
        """Return the subscriptions as they are listed."""
        return [one.row() for one in tuple(self._all.values())]

    def leave_captures(self) -> None:
        """Have captures tell nothing any more."""
        for one in tuple(self._all.values()):
            if one.capture is not None:
                one.capture.is_over = True

    def _set_offers(self) -> None:
        seam.offers = tuple([one.offer for one in self._all.values()])

    def _wake(self) -> None:
        self._news.put(None)

    # On the thread that writes

    def _run(self) -> None:
        """Write until no subscription is left."""
        is_reading.set(True)
        while self._has_any():
            note_overdue()
            now = time.monotonic()
            for one in tuple(self._all.values()):
                self._flush(one, now)
            self._sleep()

    def _flush(self, one: Subscription, now: float) -> None:
        try:
            one.flush(now)
        except Exception:  # noqa: BLE001  # whoever asked is gone
            self.end(one.id)

    def _has_any(self) -> bool:
        """Return true while there is somebody to write to, after those whose lease is over have ended."""
        now = time.monotonic()
        with self._lock:
            self._leave([one for one in self._all.values() if one.ends <= now or one.has_told_all])
            if not self._all:
                self._writer = None
            return bool(self._all)

    def _leave(self, ended: list[Subscription]) -> None:
        """End these, and before them their captures."""
        for one in ended:
            if one.capture is not None:
                one.capture.stop()
        self._all = {name: one for name, one in self._all.items() if one not in ended}
        self._set_offers()

    def _sleep(self) -> None:
        """Sleep until the first event of a subscription comes, its next frame is due, or a lease ends."""
        times = [one.due if one.is_awake or one.has_told_all else one.ends for one in tuple(self._all.values())]
        left = min(times, default=0.0) - time.monotonic()
        with contextlib.suppress(Empty):
            self._news.get(timeout=max(0.001, min(TICK_S, left)))


def _after_fork() -> None:
    """Leave the subscribers to the parent; captures in this child have no reader."""
    if seam.streams is not None:
        seam.streams.leave_captures()
    seam.streams, seam.offers = None, ()


def printing() -> Write:
    """A function that writes frames to the present standard output, each on a line that begins with a record separator.

    Source: RFC 7464.
    """
    context, stream = contextvars.copy_context(), sys.stdout

    def write(text: str) -> None:
        # Many REPLs tell the owner of output by the context.
        context.run(stream.write, f"\x1e{text}\n")
        context.run(stream.flush)

    return write


def _streams() -> Streams:
    if seam.streams is None:
        seam.streams = Streams()
    found: Streams = seam.streams
    return found


def subscribe(asked: Json, write: Write | None = None) -> Json:
    """Have events of a topic pushed, by `write`, or to the caller's standard output."""
    one = _streams().add(asked, write or printing())
    told = {"capture": one.capture.told} if one.capture else {}
    return {"subId": one.id, "topic": one.topic, "lastId": seam.last_id(), **told}


def unsubscribe(asked: Json) -> Json:
    """End a subscription."""
    identity = str(asked.get("subId"))
    return {"subId": identity, "existed": _streams().end(identity)}


def subscriptions(asked: Json) -> Json:
    """Return the subscriptions; the leases of those in `renew` begin again."""
    found = _streams()
    found.renew(list(asked.get("renew") or ()))
    rows = found.rows()
    return {"subs": rows, "count": len(rows)}


STREAMING: Mapping[str, Accessor] = {
    "subscribe": subscribe,
    "unsubscribe": unsubscribe,
    "subscriptions": subscriptions,
}
