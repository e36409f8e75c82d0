"""Accessors that read an application's recorded events."""

from __future__ import annotations

import time

from .arguments import row_limit
from .event_filters import event_fields, make_event_filter
from .recording import CAUSE, EVENT, FRAME, ID, MS, NAME, OP, ORIGIN, SOURCE, TAGS, emit, seam
from .values import escape_invisible_characters
from .web_requests import watch_hint

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .recording import Event, Json

OVERDUE_S = 5.0
"""Seconds after which a queued event without an epoch is reported as overdue."""
REFUSAL_SOURCE = "refusal"
"""The source of the event for a refused change.

The refusal is the agent's mistake, not an issue in the application.
"""


def format_event(event: Event) -> str:
    """Format an event as one line: id, op-type, operation, frame, event, dispatch, time, origin and tags."""
    words = [event[ID], event[OP], event[NAME]]
    if event[FRAME] or event[EVENT]:
        words += [event[FRAME] or "-", *([event[EVENT]] if event[EVENT] else [])]
    words += [f"d{event[CAUSE]}"] if event[CAUSE] else []
    words += [f"{event[MS]:.3g}ms"] if event[MS] is not None else []
    if event[ORIGIN]:
        by = [str(event[ORIGIN][key]) for key in ("who", "evaluation") if key in event[ORIGIN]]
        words.append(f"by={'/'.join(by)}")
    words += [f"{name}={value}" for name, value in (event[TAGS] or {}).items()]
    return escape_invisible_characters(" ".join(map(str, words)))


def report_overdue_events() -> None:
    """Record an error for each event that an agent queued and the application did not handle in time."""
    now = time.monotonic()
    for number, (queued_at, context, frame, event_id) in tuple(seam.queued.items()):
        if now < queued_at + OVERDUE_S or seam.queued.pop(number, None) is None:
            continue
        # An event without an epoch may have caused other events.
        if not any(event[CAUSE] == number for event in tuple(seam.events)):
            words = (
                f"not started within {OVERDUE_S:g} s. The code that empties the queue has ended, or it handles the "
                "event without bind()"
            )
            context.run(emit, "error", "not-begun", frame=frame, event_id=event_id, source="change", message=words)


def trace(request: Json) -> Json:
    """Return the newest events that match a filter, with the newest last.

    Each event is formatted as a line, unless the request asks for raw events.
    """
    report_overdue_events()
    test = make_event_filter(request.get("filter") or {})
    found = [event for event in tuple(seam.events) if test(event)]
    selected = found[-row_limit(request, 50) :]
    rows: Json = (
        {"events": [*map(event_fields, selected)]} if request.get("raw") else {"lines": [*map(format_event, selected)]}
    )
    hint = {} if seam.last_id() else watch_hint("notes requests")
    return {**rows, "count": len(selected), "total": len(found), "lastId": seam.last_id(), **hint}


def issues(request: Json) -> Json:
    """Return the recorded errors and warnings, one per line, newest last.

    Repeated ones are combined into one line with a count.
    """
    test, since = make_event_filter(request.get("filter") or {}), int(request.get("since") or 0)
    report_overdue_events()
    found: dict[object, tuple[int, Event]] = {}
    for event in tuple(seam.events):
        is_failure = event[OP] in ("error", "warning") and event[SOURCE] != REFUSAL_SOURCE
        if is_failure and event[ID] > since and test(event):
            alike = {name: value for name, value in (event[TAGS] or {}).items() if name != "epoch"}
            same = (event[OP], event[NAME], event[FRAME], event[EVENT], str(alike))
            found[same] = found.pop(same, (0, event))[0] + 1, event
    selected = list(found.values())[-row_limit(request, 50) :]
    lines = [
        format_event(event) + (f" \N{MULTIPLICATION SIGN}{times}" if times > 1 else "") for times, event in selected
    ]
    return {"lines": lines, "count": len(lines), "total": len(found), "lastId": seam.last_id()}
