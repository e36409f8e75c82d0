"""Accessors: the queries that agents can send to the seam. They take and return JSON objects.

They run on the caller's thread, and reading causes no events. Paths and values in arguments are parsed as literals and
never evaluated.
"""

from __future__ import annotations

import ast
import itertools
import os
import sys
import time

from .frames import Unread
from .recording import CAUSE, EVENT, FRAME, HANDLER, ID, MS, NAME, OP, ORIGIN, SOURCE, TAGS, TIME, emit, seam
from .values import Refusal, ValueFormatter, differences, differences_below, escape_invisible_characters, get_part

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from .frames import Epoch, Frame
    from .recording import Event, Json
    from .values import Path

    Accessor = Callable[[Json], Json]

CONTRACT_VERSION = 1
"""The version of the accessors' contract."""
MAX_LISTED_CHANGES = 100
"""Maximum number of changes in a diff."""
OVERDUE_S = 5.0
"""Maximum time in seconds from queuing an event to its epoch. After that, the event is reported as overdue."""
NO_EPOCH_HINT = "with seam.epoch(frame, name) around what handles an event, or change_app, makes one"
"""The hint if there is no epoch. Changes that an application makes in place outside of `epoch` are not recorded."""
APP_ORIGIN = "app"
"""The origin of events that no agent caused."""
_ASGI_WATCH_CALL = "app = seam.watch_asgi(app)"
FRAMEWORK_WATCH_CALLS = {"flask": "seam.watch_flask(app)", "fastapi": _ASGI_WATCH_CALL, "starlette": _ASGI_WATCH_CALL}
"""The call that records the requests of a web framework, by the framework's module."""
EVENT_FIELDS = ("id", "time", "opType", "operation", "frame", "eventId", "handlerId", "source", "origin", "dispatchId",
                "ms", "tags")  # fmt: skip
"""The names of an event's fields, in order."""
EQUALITY_FILTERS = {"opType": OP, "operation": NAME, "frame": FRAME, "eventId": EVENT, "handlerId": HANDLER,
                    "source": SOURCE, "dispatchId": CAUSE}  # fmt: skip
"""Filters that compare a field for equality, each with the index of the field."""
FILTER_NAMES = (*EQUALITY_FILTERS, "severity", "origin", "since", "sinceMs", "between", "pred")
"""The names of all filters."""
SEVERITIES = ("error", "warning", "info")
REFUSAL_SOURCE = "refusal"
"""The source of the event for a refused change.

The refusal is a mistake of the agent and not an issue of the application.
"""


# Arguments


def requested_frame(request: Json) -> Frame:
    """Return the frame that a request names. The name may be omitted if there is only one frame.

    Raises:
        Refusal: the frame does not exist, or there are several and the request names none.
    """
    name, frames = request.get("frame"), list(seam.frames)
    chosen = frames[0] if name is None and len(frames) == 1 else name
    found: Frame | None = seam.frames.get(chosen) if isinstance(chosen, str) else None
    if found is not None:
        return found
    names = ", ".join(frames) or "none is registered: the application calls frame(name, get=…)"
    if name is not None:
        raise Refusal("no-such-frame", f"frames: {names}")
    raise Refusal(
        "ambiguous-frame" if frames else "no-frame-resolved",
        (f"name the frame in the argument frame: {names}"),
        frames=frames,
    )


def read_literal(name: str, text: object, reason: str) -> Any:
    """Parse a string as a Python literal. `name` is the argument's name, for the error message.

    Raises:
        Refusal: the string is not a literal.
    """
    try:
        return ast.literal_eval(str(text))
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        raise Refusal(reason, f"{name} must be a Python literal, but {str(text)[:80]!r} is not one") from None


def _parse_path(text: object) -> Path:
    """Parse a path to a part of the state.

    A path is a list, names and numbers separated by dots, or keywords in Basilisp's notation.
    """
    if not text:
        return ()
    if isinstance(text, list):
        return tuple(text)
    try:
        read = ast.literal_eval(str(text))
    except (ValueError, SyntaxError):
        keywords = sys.modules.get("basilisp.lang.keyword")
        if keywords is not None and str(text).lstrip()[:1] in ("[", ":"):
            words = str(text).replace(",", " ").strip("[] ").split()
            return tuple(_parse_lisp_step(word, keywords.keyword) for word in words)
        return tuple(int(part) if part.isdigit() else part for part in str(text).split("."))
    return tuple(read) if isinstance(read, (list, tuple)) else (read,)


def _parse_lisp_step(word: str, keyword: Callable[[str, str | None], Any]) -> Any:
    """Parse one step of a path in Basilisp's notation. `keyword` is Basilisp's function that creates keywords."""
    if word[0] == ":":
        namespace, _, name = word[1:].rpartition("/")
        return keyword(name, namespace or None)
    return int(word) if word.isdigit() else word.strip("'\"")


def _limit(request: Json, most: int) -> int:
    """Return the number of rows requested, or `most` by default."""
    return max(1, int(request.get("limit") or most))


def origin_who(event_origin: Mapping[str, Any] | None) -> str:
    """Return the name of the caller in an event's origin, or `APP_ORIGIN` for an event of the application itself."""
    return APP_ORIGIN if event_origin is None else str(event_origin.get("who", APP_ORIGIN))


# State


def health(_request: Json) -> Json:
    """Return the state of the seam: its frames, counts, and which groups of accessors work.

    A group that does not work has the reason instead of True.
    """
    frames = tuple(seam.frames.values())
    none = "no frame is registered"
    bare = [frame.name for frame in frames if frame.epochs and not frame.epochs[-1].is_comparable]
    can_change = any(frame.set or frame.dispatch or frame.enqueue for frame in frames)
    bands = {
        "inspect": bool(frames) or none,
        "mutate": can_change or (none if not frames else "no frame has set=, dispatch= or enqueue="),
        "stream": True,
        "epochs": f"no snapshots of {', '.join(bare)}" if bare else bool(frames) or none,
        "machines": bool(seam.machines) or "no machine is registered",
    }
    return {
        "contract": CONTRACT_VERSION, "sessionId": seam.session_id, "installedMs": seam.installed_ms,
        "buildTick": seam.loads, "language": "python", "enabled": True, "frames": [frame.name for frame in frames],
        "ambiguousFrame": len(frames) > 1, "pid": os.getpid(), "bands": bands, "lastId": seam.last_id(),
        "events": len(seam.events), "handlers": len(seam.handlers), "issues": issues({})["total"],
        **({} if frames or seam.routes else _watch_hint("notes requests and lists the routes")),
    }  # fmt: skip


def _watch_hint(gives: str) -> Json:
    """Return a hint on how to watch the loaded web framework, or {} if none is loaded.

    `gives` describes what watching it achieves, for example "lists the routes".
    """
    ways = [way for name, way in FRAMEWORK_WATCH_CALLS.items() if name in sys.modules]
    return {"hint": f"{ways[0]} {gives}"} if ways else {}


def state(request: Json) -> Json:
    """Return the state of a frame as text, or the part of the state at a path."""
    found, path = requested_frame(request), _parse_path(request.get("path"))
    hidden = () if request.get("includeSensitive") else found.sensitive
    egress = ValueFormatter(hidden, is_whole=bool(request.get("includeLarge")))
    text = egress.show_requested(get_part(found.get(), path), path)
    return {"frame": found.name, "path": repr(list(path)), "value": text, "redacted": egress.redacted,
            "elided": egress.elided}  # fmt: skip


def _epoch_row(epoch: Epoch) -> Json:
    """Return the fields of an epoch that a list displays."""
    return {"epochId": epoch.id, "time": epoch.time, "eventId": epoch.event_id, "ms": epoch.ms,
            "origin": origin_who(epoch.origin), "dispatchId": epoch.dispatch_id, "outcome": epoch.outcome}  # fmt: skip


def epochs(request: Json) -> Json:
    """Return the epochs of a frame, newest last.

    If the request has a path, only epochs that changed the part at the path are returned, with these changes.
    """
    found, since, filters = requested_frame(request), int(request.get("since") or 0), request.get("filter") or {}
    rows = [(_epoch_row(epoch), epoch) for epoch in tuple(found.epochs) if epoch.id > since]
    rows = [row for row in rows if all(str(row[0].get(name)) == str(value) for name, value in filters.items())]
    if path := _parse_path(request.get("path")):
        rows = [
            ({**row, "changes": changed}, recorded)
            for row, recorded in rows
            if (changed := _changes_at(found, recorded, path))
        ]
        if not rows:
            get_part(found.get(), path)
    selected = [row for row, _ in rows[-_limit(request, 20) :]]
    none = {} if found.epochs else {"hint": NO_EPOCH_HINT}
    return {"frame": found.name, "epochs": selected, "count": len(selected), "total": len(rows), **none}


def _changes_at(found: Frame, epoch: Epoch, path: Path) -> list[Json]:
    """Return the changes that an epoch made at a path. Return [] if a state could not be read."""
    is_unread = isinstance(epoch.before, Unread) or isinstance(epoch.after, Unread)
    return [] if is_unread else changes_between(found, epoch, epoch, path)[0]


def find_epoch(found: Frame, number: object, reason: str) -> Epoch:
    """Return the epoch with this number, or the newest epoch if the number is None.

    Raises:
        Refusal: the epoch is no longer stored, or the frame has no epochs. The refusal has the given `reason`.
    """
    stored = tuple(found.epochs)
    for epoch in reversed(stored):
        if number in (None, epoch.id):
            return epoch
    if not stored:
        words = "none is kept: the application has handled no event since, or not in epoch()"
        raise Refusal("band-missing" if number is None else reason, words)
    raise Refusal(reason, f"only the epochs {stored[0].id} to {stored[-1].id} are stored")


def diff(request: Json) -> Json:
    """Return the changes that an epoch made, or all changes from one epoch to another."""
    found = requested_frame(request)
    last = find_epoch(found, request.get("to", request.get("epochId")), "no-such-epoch")
    first = find_epoch(found, request["from"], "no-such-epoch") if request.get("from") is not None else last
    rows, redacted = changes_between(found, first, last)
    about = {"frame": found.name, "epochId": last.id, "eventId": last.event_id}
    return {**about, "changes": rows, "count": len(rows), "redacted": redacted}


def changes_between(found: Frame, first: Epoch, last: Epoch, at: Path = ()) -> tuple[list[Json], int]:
    """Return the changes between the state before `first` and the state after `last`, and the number of hidden values.

    `at` is a path that limits the changes to one part of the state.

    Raises:
        Refusal: the changes are unknown, because the state was changed in place or could not be read.
    """
    if not (first.is_comparable and last.is_comparable):
        raise Refusal("band-missing",(
            "the changes are unknown, because the state is the same object as before and no snapshot was made; "
            "the application must give frame() snapshot='deepcopy' or 'pickle', or 'none' if no state is ever "
            "changed in place"
        ))  # fmt: skip
    for unread in (first.before, last.after):
        if isinstance(unread, Unread):
            raise Refusal("accessor-failed", f"the state could not be read: {unread.why}")
    egress, rows = ValueFormatter(found.sensitive), []
    all_changes = differences(found.read(first.before), found.read(last.after))
    for op, path, old, new in itertools.islice(differences_below(all_changes, at), MAX_LISTED_CHANGES):
        row = {"op": op, "path": repr(list(path))}
        if op != "added":
            row["before"] = egress.show(old, path)
        if op != "removed":
            row["after"] = egress.show(new, path)
        rows.append(row)
    return rows, egress.redacted


# Events


def make_event_filter(request: Json) -> Callable[[Event], bool]:
    """Return a function that checks whether an event matches all fields of a filter.

    Raises:
        Refusal: the filter has an unknown field, or names an unknown predicate.
    """
    if strange := [name for name in request if name not in FILTER_NAMES]:
        raise Refusal(
            "accessor-failed", f"there is no filter {strange[0]!r}; the filters are {', '.join(FILTER_NAMES)}"
        )
    if request.get("severity", SEVERITIES[0]) not in SEVERITIES:
        raise Refusal("accessor-failed", f"severity must be one of {', '.join(SEVERITIES)}")
    equal = [(EQUALITY_FILTERS[name], request[name]) for name in EQUALITY_FILTERS if name in request]
    equal += [(OP, request["severity"])] if "severity" in request else []
    tests: list[Callable[[Event], Any]] = [
        lambda event, index=index, expected=expected: event[index] == expected  # type: ignore[misc]  # bound early
        for index, expected in equal
    ]
    tests += [_FILTER_TESTS[name](value) for name, value in request.items() if name in _FILTER_TESTS]
    return lambda event: all(test(event) for test in tests)


def _origin_test(expected: Any) -> Callable[[Event], Any]:
    """Return a function that checks whether an event was caused by this caller or evaluation."""
    return lambda event: expected in (origin_who(event[ORIGIN]), (event[ORIGIN] or {}).get("evaluation"))


def _since_test(number: Any) -> Callable[[Event], Any]:
    """Return a function that checks whether an event is newer than the event with this number."""
    return lambda event: event[ID] > number


def _since_ms_test(epoch_ms: Any) -> Callable[[Event], Any]:
    """Return a function that checks whether an event is newer than a time in milliseconds since the Unix epoch."""
    return lambda event: event[TIME] * 1000 > epoch_ms


def _between_test(times: Any) -> Callable[[Event], Any]:
    """Return a function that checks whether an event occurred between two times.

    The times are in milliseconds since the Unix epoch.
    """
    first, last = times
    return lambda event: first <= event[TIME] * 1000 <= last


def _predicate_test(name: Any) -> Callable[[Event], Any]:
    """Return a function that checks events with the registered predicate of this name.

    Raises:
        Refusal: no predicate has this name.
    """
    test = seam.predicates.get(name)
    if test is None:
        raise Refusal(
            "no-such-predicate", (f"there is no such predicate; registered are: {', '.join(seam.predicates) or 'none'}")
        )
    registered = test
    return lambda event: registered(event_fields(event))


_FILTER_TESTS = {
    "origin": _origin_test,
    "since": _since_test,
    "sinceMs": _since_ms_test,
    "between": _between_test,
    "pred": _predicate_test,
}
"""The functions that create the test of each other filter."""


def event_fields(event: Event) -> Json:
    """Convert an event to a mapping of its fields, omitting those that are None."""
    return {name: value for name, value in zip(EVENT_FIELDS, event) if value is not None}


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
            words = f"not begun in {OVERDUE_S:g} s: what empties the queue has ended, or handles it without bind()"
            context.run(emit, "error", "not-begun", frame=frame, event_id=event_id, source="change", message=words)


def trace(request: Json) -> Json:
    """Return the newest events that match a filter, with the newest last.

    Each event is formatted as a line, unless the request asks for raw events.
    """
    report_overdue_events()
    test = make_event_filter(request.get("filter") or {})
    found = [event for event in tuple(seam.events) if test(event)]
    selected = found[-_limit(request, 50) :]
    rows: Json = (
        {"events": [*map(event_fields, selected)]} if request.get("raw") else {"lines": [*map(format_event, selected)]}
    )
    way = {} if seam.last_id() else _watch_hint("notes requests")
    return {**rows, "count": len(selected), "total": len(found), "lastId": seam.last_id(), **way}


def issues(request: Json) -> Json:
    """Return the recorded errors and warnings, one per line, newest last.

    Repeated ones are combined in one line with their number.
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
    selected = list(found.values())[-_limit(request, 50) :]
    lines = [
        format_event(event) + (f" \N{MULTIPLICATION SIGN}{times}" if times > 1 else "") for times, event in selected
    ]
    return {"lines": lines, "count": len(lines), "total": len(found), "lastId": seam.last_id()}


# Other accessors


def handlers(request: Json) -> Json:
    """Return the application's handlers and routes with their positions in the source."""
    expected = {name: request[name] for name in ("kind", "id") if request.get(name)}
    known = [*tuple(seam.handlers.values()), *(row for list_routes in tuple(seam.routes) for row in list_routes())]
    rows = [entry for entry in known if all(entry[name] == expected[name] for name in expected)]
    return {"handlers": rows, "count": len(rows), **({} if known else _watch_hint("lists the routes"))}


def machines(request: Json) -> Json:
    """Return the current state of each registered state machine."""
    if not seam.machines:
        raise Refusal("band-missing", "no machine is registered: the application must call machine(name, get)")
    expected = [name for name in seam.machines if request.get("id") in (None, name)]
    selected = {name: {"state": ValueFormatter().show(seam.machines[name]())} for name in expected}
    return {"machines": selected, "count": len(selected)}


def probe(_request: Json) -> Json:
    """Return how often this accessor has been called, and how often code has been loaded."""
    seam.probes += 1
    return {"probe": seam.probes, "buildTick": seam.loads, "sessionId": seam.session_id}


def reset_for_test(_request: Json) -> Json:
    """End all subscriptions and reset the call counter of `probe`."""
    if seam.streams is not None:
        seam.streams.clear()
    seam.offers, seam.probes = (), 0
    return {"sessionId": seam.session_id}


READING_ACCESSORS: Mapping[str, Accessor] = {
    "health": health,
    "state": state,
    "epochs": epochs,
    "diff": diff,
    "trace": trace,
    "issues": issues,
    "handlers": handlers,
    "machines": machines,
    "probe": probe,
    "reset-for-test": reset_for_test,
}
"""The accessors that only read the state of the application."""
