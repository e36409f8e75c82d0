"""Subscriptions to an application's events, which are pushed to the subscribers.

Each subscription has a queue that drops its oldest event when it is full. While there are subscriptions, one daemon
thread writes the events of all of them, so the application's threads never wait, format or write.
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

from .event_accessors import format_event, report_overdue_events
from .event_filters import make_event_filter
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
    origin_who,
    seam,
)
from .state_frames import secrets
from .values import TEXT, Refusal, escape_invisible_characters, remove_secrets, safe_message, truncate

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from .recording import Accessor, Event, Json

    Write = Callable[[str], object]
    """Writes a frame as text. Returns False if there is no space yet, and raises if the reader is gone."""

CALLS_TOPIC = "calls"
"""The topic for calls to a function, which only seams for other languages support."""
NO_CALLS_HINT = "in Python 3.12 and later, the tool watch_calls records calls to a function"
"""The hint if the topic `calls` is requested."""
OP_TYPE_BY_TOPIC: Mapping[str, str | None] = {"trace": None, "epoch": "epoch", "fx": "fx", "error": "error"}
"""The op-type of each topic's events, or None for all events."""
MAX_SUBSCRIPTIONS = 10
"""Maximum number of subscriptions in a process."""
QUEUED, QUEUED_BYTES = 500, 2**20
"""Maximum number and total size of queued events per subscription."""
BATCH, REST_S, LONGEST_REST_S = 100, 0.02, 0.5
"""Maximum number of events in a frame, and the minimum and maximum seconds between two frames.

Under load, the time between frames doubles each time, up to the maximum.
"""
MAX_QUEUED_FAILURES = 100
"""Maximum number of exceptions whose events are remembered as already queued."""
LEASE_S = 60.0
"""Number of seconds after which a subscription ends unless it is renewed."""
MAX_WRITER_SLEEP_S = 1.0
"""Maximum number of seconds that the writer sleeps before it checks for overdue events."""
APPROXIMATE_EVENT_BYTES = 200
"""The approximate size of an event without its tags."""
TEXT_FIELDS = (("operation", NAME), ("frame", FRAME), ("eventId", EVENT), ("handlerId", HANDLER), ("source", SOURCE))
"""The fields of an event that are pushed as text."""


class Subscription:
    """A subscription to events of one topic. It ends on request, when its lease expires, or when its reader is gone.

    While nothing is being written, `sent`, `dropped` and the number of queued events add up to the number of events
    that matched the filter.
    """

    def __init__(self, identity: str, request: Json, write: Write, wake: Callable[[], object]) -> None:
        topic = request.get("topic") or "trace"
        if topic == CALLS_TOPIC:
            raise Refusal("capability-missing", NO_CALLS_HINT)
        if topic not in OP_TYPE_BY_TOPIC:
            raise Refusal("unknown-topic", f"topic must be one of {', '.join(OP_TYPE_BY_TOPIC)}")
        self.id, self.topic, self.filter = identity, topic, request.get("filter") or {}
        self.created, self.origin, self.sent = time.time(), str(request.get("who") or origin_who(origin.get())), 0
        self._lease_s = float(request.get("leaseS") or LEASE_S)
        self._most_bytes = int(request.get("maxBytes") or QUEUED_BYTES)
        most = max(1, min(int(request.get("maxEvents") or QUEUED), QUEUED))
        self._queue: collections.deque[tuple[int, Event]] = collections.deque(maxlen=most)
        self._removed = self._newest = self._reported_drops = self.failed = 0
        self.failure = ""
        """The message of the filter's first error."""
        self._unsent: tuple[str, int] | None = None
        self._failures: collections.deque[int] = collections.deque(maxlen=MAX_QUEUED_FAILURES)
        """The ids of queued exceptions, which may be offered again with more facts."""
        self._rest_s, self.due = REST_S, 0.0
        """The seconds between frames, and when the next one may be written."""
        self.is_awake = False
        """Whether the writer has been notified of queued events."""
        self._write = write
        self.offer = self._make_offer(wake)
        """Receives each of the application's events on the application's thread."""
        self.renew()

    def _make_offer(self, wake: Callable[[], object]) -> Callable[[Event], None]:
        """Return a function that queues events that match the filter. The function never blocks or raises."""
        kind, append, numbers = OP_TYPE_BY_TOPIC[self.topic], self._queue.append, itertools.count(1)
        test = make_event_filter(self.filter) if self.filter else None

        def offer(event: Event) -> None:
            if kind is not None and event[OP] != kind:
                return
            try:
                if test is not None and not test(event):
                    return
            except Exception as error:  # noqa: BLE001  # predicates are the application's code
                self.failed += 1
                self.failure = self.failure or f"{type(error).__name__}: {safe_message(error)}"
                return
            if type(event) is list and not self._is_first(event):
                return
            append((next(numbers), event))
            if not self.is_awake:
                self.is_awake = True
                wake()

        return offer

    def _is_first(self, event: list[Any]) -> bool:
        """Return whether this is the first time that an exception's event is offered.

        The first event is delayed, so that it includes facts that become known later.
        """
        if event[ID] in self._failures:
            return False
        self._failures.append(event[ID])
        self.due = max(self.due, time.monotonic() + REST_S)
        return True

    def renew(self) -> None:
        """Renew the lease, so that the subscription does not expire."""
        self.ends = time.monotonic() + self._lease_s

    @property
    def dropped(self) -> int:
        """Return the number of events that were dropped from the queue."""
        return max(0, self._newest - self._removed)

    def row(self) -> Json:
        """Return the fields that represent the subscription in a list."""
        waiting = tuple(self._queue)
        depth = len(waiting) + (self._unsent[1] if self._unsent else 0)
        return {"id": self.id, "topic": self.topic, "filter": self.filter, "origin": self.origin,
                "createdAt": self.created, "queueDepth": depth, "queueBytes": sum(map(_size, waiting)),
                "dropped": self.dropped, "sent": self.sent,
                **({"failed": self.failed, "why": self.failure} if self.failed else {})}  # fmt: skip

    def flush(self, now: float) -> None:
        """Write a batch of queued events if one is due. Exceptions from `write` propagate."""
        if not self.is_awake or now < self.due:
            return
        if self._unsent is None and (self._queue or self.dropped > self._reported_drops):
            batch = self._next_batch()
            frame = {"sub": self.id, "dropped": max(0, self.dropped - self._reported_drops), "depth": len(self._queue),
                     "events": remove_secrets([pushed_row(event) for event in batch], secrets())}  # fmt: skip
            self._reported_drops = max(self._reported_drops, self.dropped)
            self._unsent = json.dumps(frame), len(batch)
        if self._unsent is not None and self._write(self._unsent[0]) is not False:
            self.sent += self._unsent[1]
            self._unsent = None
        is_behind = self._unsent is not None or len(self._queue) >= BATCH
        self._rest_s = min(2 * self._rest_s, LONGEST_REST_S) if is_behind else REST_S
        self.due = now + self._rest_s
        if self._unsent is None and not self._queue:
            self.is_awake = False
            # Events that were queued in the meantime may not have notified the writer.
            self.is_awake = bool(self._queue)

    def _next_batch(self) -> list[Event]:
        """Remove and return the oldest queued events. If the queue exceeds its size limit, drop events first."""
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
        self._removed += len(batch)
        return batch


def _size(queued: tuple[int, Event]) -> int:
    """Return the approximate size of a queued event in characters."""
    tags = queued[1][TAGS]
    return APPROXIMATE_EVENT_BYTES + (sum(len(tag) for tag in tags.values() if type(tag) is str) if tags else 0)


def pushed_row(event: Event) -> Json:
    """Convert an event to the form that is sent to subscribers: short, printable fields and a formatted line."""
    row: Json = {"id": event[ID], "time": event[TIME], "opType": _shorten(event[OP])}
    row.update([(name, _shorten(event[index])) for name, index in TEXT_FIELDS if event[index] is not None])
    event_origin = event[ORIGIN]
    if event_origin:
        row["origin"] = {key: _shorten(event_origin[key]) for key in ("who", "evaluation") if key in event_origin}
    row.update(
        [(name, event[index]) for name, index in (("dispatchId", CAUSE), ("ms", MS)) if event[index] is not None]
    )
    row["line"] = truncate(format_event(event), TEXT)
    return row


def _shorten(value: Any) -> str:
    return truncate(escape_invisible_characters(str(value)), TAG)


class Streams:
    """All subscriptions of this process, and the thread that writes their events."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._all: dict[str, Subscription] = {}
        self._numbers = itertools.count(1)
        self._wakeups: SimpleQueue[None] = SimpleQueue()
        self._writer: threading.Thread | None = None
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=_after_fork)

    def add(self, request: Json, write: Write) -> Subscription:
        """Create a subscription, and start the writer thread if it is the first one.

        Raises:
            Refusal: there are too many subscriptions, or the topic, filter or predicate is unknown.
        """
        with self._lock:
            if len(self._all) >= MAX_SUBSCRIPTIONS:
                raise Refusal(
                    "too-many-subscriptions",
                    f"there are already {MAX_SUBSCRIPTIONS} subscriptions, which is the maximum. End one of these: "
                    f"{', '.join(self._all)}",
                )
            # The id must be unique across processes.
            identity = f"s{next(self._numbers)}-{str(seam.session_id)[:6]}"
            subscription = Subscription(identity, request, write, self._wake)
            self._all[identity] = subscription
            self._update_offers()
            if self._writer is None:
                self._writer = threading.Thread(target=self._run, name="codriver seam", daemon=True)
                self._writer.start()
            return subscription

    def end(self, identity: str) -> bool:
        """End the subscription with this id, and return whether it existed."""
        with self._lock:
            subscription = self._all.get(identity)
            self._remove([subscription] if subscription else [])
        self._wakeups.put(None)
        return subscription is not None

    def clear(self) -> None:
        """End all subscriptions."""
        for identity in tuple(self._all):
            self.end(identity)

    def renew(self, identities: list[str]) -> None:
        """Renew the leases of the subscriptions with these ids."""
        for identity in identities:
            subscription = self._all.get(identity)
            if subscription is not None:
                subscription.renew()

    def describe_all(self) -> list[Json]:
        """Return the descriptions of all subscriptions."""
        return [subscription.row() for subscription in tuple(self._all.values())]

    def _update_offers(self) -> None:
        seam.offers = tuple([subscription.offer for subscription in self._all.values()])

    def _wake(self) -> None:
        self._wakeups.put(None)

    # On the writer's thread

    def _run(self) -> None:
        """Write events until no subscriptions are left."""
        is_reading.set(True)
        while self._end_expired():
            report_overdue_events()
            now = time.monotonic()
            for subscription in tuple(self._all.values()):
                self._flush(subscription, now)
            self._sleep()

    def _flush(self, subscription: Subscription, now: float) -> None:
        """Write a subscription's queued events. End the subscription if its reader is gone."""
        try:
            subscription.flush(now)
        except Exception:  # noqa: BLE001  # the reader is gone
            self.end(subscription.id)

    def _end_expired(self) -> bool:
        """End subscriptions with expired leases, and return whether any subscriptions are left."""
        now = time.monotonic()
        with self._lock:
            self._remove([subscription for subscription in self._all.values() if subscription.ends <= now])
            if not self._all:
                self._writer = None
            return bool(self._all)

    def _remove(self, subscriptions: list[Subscription]) -> None:
        """Remove subscriptions. The caller must hold the lock."""
        self._all = {
            name: subscription for name, subscription in self._all.items() if subscription not in subscriptions
        }
        self._update_offers()

    def _sleep(self) -> None:
        """Sleep until an event is queued, a batch is due, or a lease expires."""
        times = [
            subscription.due if subscription.is_awake else subscription.ends
            for subscription in tuple(self._all.values())
        ]
        left = min(times, default=0.0) - time.monotonic()
        with contextlib.suppress(Empty):
            self._wakeups.get(timeout=max(0.001, min(MAX_WRITER_SLEEP_S, left)))


def _after_fork() -> None:
    """Discard the subscriptions in a forked process, because their readers are connected to the parent."""
    seam.streams, seam.offers = None, ()


def standard_output_writer() -> Write:
    """Return a function that writes text to the current standard output, as a line after a record separator.

    Source: RFC 7464.
    """
    context, stream = contextvars.copy_context(), sys.stdout

    def write(text: str) -> None:
        # Many REPLs determine the owner of output from the context.
        context.run(stream.write, f"\x1e{text}\n")
        context.run(stream.flush)

    return write


def _streams() -> Streams:
    """Return the subscriptions of this process, creating them on first use."""
    if seam.streams is None:
        seam.streams = Streams()
    found: Streams = seam.streams
    return found


def subscribe(request: Json, write: Write | None = None) -> Json:
    """Subscribe to the events of a topic. `write` receives them, or the caller's standard output by default."""
    subscription = _streams().add(request, write or standard_output_writer())
    return {"subId": subscription.id, "topic": subscription.topic, "lastId": seam.last_id()}


def unsubscribe(request: Json) -> Json:
    """End a subscription. The answer states whether it existed."""
    identity = str(request.get("subId"))
    return {"subId": identity, "existed": _streams().end(identity)}


def subscriptions(request: Json) -> Json:
    """Return all subscriptions. The leases of those in the request's list `renew` are renewed first."""
    found = _streams()
    found.renew(list(request.get("renew") or ()))
    rows = found.describe_all()
    return {"subs": rows, "count": len(rows)}


STREAMING_ACCESSORS: Mapping[str, Accessor] = {
    "subscribe": subscribe,
    "unsubscribe": unsubscribe,
    "subscriptions": subscriptions,
}
"""The accessors for subscriptions."""
