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
from .values import Egress, Refusal, differences, differences_below, escape_invisible_characters, get_part

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
    """Return the requested frame, or the only one.

    Raises:
        Refusal: the frame does not exist, or there are several and none was requested.
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
    """Parse a text as a Python literal.

    Raises:
        Refusal: the text is not a literal.
    """
    try:
        return ast.literal_eval(str(text))
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        raise Refusal(reason, f"{name} must be a Python literal, but {str(text)[:80]!r} is not one") from None


def _path_of(text: object) -> Path:
    """Parse a path: a list, names and numbers separated by dots, or keywords of Basilisp."""
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
    """Parse a step of a path in Basilisp's notation. `keyword` is Basilisp's function that creates keywords."""
    if word[0] == ":":
        namespace, _, name = word[1:].rpartition("/")
        return keyword(name, namespace or None)
    return int(word) if word.isdigit() else word.strip("'\"")


def _limit(request: Json, most: int) -> int:
    """Return the requested maximum number of rows, which is at most `most`."""
    return max(1, int(request.get("limit") or most))


def origin_who(event_origin: Mapping[str, Any] | None) -> str:
    """Return the caller named in an origin, or `APP_ORIGIN`."""
    return APP_ORIGIN if event_origin is None else str(event_origin.get("who", APP_ORIGIN))


# State


def health(_request: Json) -> Json:
    """Return the state of the seam: frames, counts, and for each group of accessors whether it works, or why not."""
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
        **({} if frames or seam.routes else _way("notes requests and lists the routes")),
    }  # fmt: skip


def _way(gives: str) -> Json:
    """Return a hint on how to watch the loaded web framework and what that `gives`, or {} if no framework is loaded."""
    ways = [way for name, way in FRAMEWORK_WATCH_CALLS.items() if name in sys.modules]
    return {"hint": f"{ways[0]} {gives}"} if ways else {}


def state(request: Json) -> Json:
    """Return the state of a frame, or the part of it at a path."""
    found, path = requested_frame(request), _path_of(request.get("path"))
    hidden = () if request.get("includeSensitive") else found.sensitive
    egress = Egress(hidden, is_whole=bool(request.get("includeLarge")))
    text = egress.show_requested(get_part(found.get(), path), path)
    return {"frame": found.name, "path": repr(list(path)), "value": text, "redacted": egress.redacted,
            "elided": egress.elided}  # fmt: skip


def _row(epoch: Epoch) -> Json:
    """Return the description of an epoch for a list."""
    return {"epochId": epoch.id, "time": epoch.time, "eventId": epoch.event_id, "ms": epoch.ms,
            "origin": origin_who(epoch.origin), "dispatchId": epoch.dispatch_id, "outcome": epoch.outcome}  # fmt: skip


def epochs(request: Json) -> Json:
    """Return the epochs of a frame, newest last.

    With a path, return only those that changed the part at the path, with the changes.
    """
    found, since, filters = requested_frame(request), int(request.get("since") or 0), request.get("filter") or {}
    rows = [(_row(epoch), epoch) for epoch in tuple(found.epochs) if epoch.id > since]
    rows = [row for row in rows if all(str(row[0].get(name)) == str(value) for name, value in filters.items())]
    if path := _path_of(request.get("path")):
        rows = [
            ({**row, "changes": changed}, recorded)
            for row, recorded in rows
            if (changed := _changed(found, recorded, path))
        ]
        if not rows:
            get_part(found.get(), path)
    selected = [row for row, _ in rows[-_limit(request, 20) :]]
    none = {} if found.epochs else {"hint": NO_EPOCH_HINT}
    return {"frame": found.name, "epochs": selected, "count": len(selected), "total": len(rows), **none}


def _changed(found: Frame, epoch: Epoch, path: Path) -> list[Json]:
    """Return the changes that an epoch made at a path, or [] if one of its states could not be read."""
    is_unread = isinstance(epoch.before, Unread) or isinstance(epoch.after, Unread)
    return [] if is_unread else changes_between(found, epoch, epoch, path)[0]


def find_epoch(found: Frame, number: object, reason: str) -> Epoch:
    """Return the epoch with this number, or the newest if the number is None.

    Raises:
        Refusal: the epoch is not stored, with `reason`, or the frame has no epoch.
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
    """Return the changes that an epoch made, or those from one epoch to another."""
    found = requested_frame(request)
    last = find_epoch(found, request.get("to", request.get("epochId")), "no-such-epoch")
    first = find_epoch(found, request["from"], "no-such-epoch") if request.get("from") is not None else last
    rows, redacted = changes_between(found, first, last)
    about = {"frame": found.name, "epochId": last.id, "eventId": last.event_id}
    return {**about, "changes": rows, "count": len(rows), "redacted": redacted}


def changes_between(found: Frame, first: Epoch, last: Epoch, at: Path = ()) -> tuple[list[Json], int]:
    """Return the changes from before one epoch to after another, and the number of hidden values.

    `at` limits them to the part at a path.

    Raises:
        Refusal: the changes are unknown because the state was changed in place or could not be read.
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
    egress, rows = Egress(found.sensitive), []
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
    """Return a function that tests whether an event matches all parts of a filter.

    Raises:
        Refusal: the filter has an unknown part or predicate.
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
    """Return a function that tests whether an event was caused by this origin."""
    return lambda event: expected in (origin_who(event[ORIGIN]), (event[ORIGIN] or {}).get("evaluation"))


def _since_test(number: Any) -> Callable[[Event], Any]:
    """Return a function that tests whether an event is newer than the one with this number."""
    return lambda event: event[ID] > number


def _since_ms_test(epoch_ms: Any) -> Callable[[Event], Any]:
    """Return a function that tests whether an event is newer than a time in milliseconds since the Unix epoch."""
    return lambda event: event[TIME] * 1000 > epoch_ms


def _between(times: Any) -> Callable[[Event], Any]:
    """Return a function that tests whether an event occurred between two times in milliseconds since the Unix epoch."""
    first, last = times
    return lambda event: first <= event[TIME] * 1000 <= last


def _predicate_test(name: Any) -> Callable[[Event], Any]:
    """Return the registered predicate with this name as a test of events.

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
    "between": _between,
    "pred": _predicate_test,
}
"""The functions that create the test of each other filter."""


def event_fields(event: Event) -> Json:
    """Return an event as a mapping, without missing fields."""
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
    """Emit an error for each event that an agent queued and that was not started in time, with the caller's origin."""
    now = time.monotonic()
    for number, (queued_at, context, frame, event_id) in tuple(seam.queued.items()):
        if now < queued_at + OVERDUE_S or seam.queued.pop(number, None) is None:
            continue
        # An event without an epoch may have caused other events.
        if not any(event[CAUSE] == number for event in tuple(seam.events)):
            words = f"not begun in {OVERDUE_S:g} s: what empties the queue has ended, or handles it without bind()"
            context.run(emit, "error", "not-begun", frame=frame, event_id=event_id, source="change", message=words)


def trace(request: Json) -> Json:
    """Return the newest events that match a filter, one line each, newest last."""
    report_overdue_events()
    test = make_event_filter(request.get("filter") or {})
    found = [event for event in tuple(seam.events) if test(event)]
    selected = found[-_limit(request, 50) :]
    rows: Json = (
        {"events": [*map(event_fields, selected)]} if request.get("raw") else {"lines": [*map(format_event, selected)]}
    )
    way = {} if seam.last_id() else _way("notes requests")
    return {**rows, "count": len(selected), "total": len(found), "lastId": seam.last_id(), **way}


def issues(request: Json) -> Json:
    """Return errors and warnings, one line each, newest last. Equal ones are combined in one line with their number."""
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
    """Return the handlers with their positions, including routes."""
    expected = {name: request[name] for name in ("kind", "id") if request.get(name)}
    known = [*tuple(seam.handlers.values()), *(row for list_routes in tuple(seam.routes) for row in list_routes())]
    rows = [entry for entry in known if all(entry[name] == expected[name] for name in expected)]
    return {"handlers": rows, "count": len(rows), **({} if known else _way("lists the routes"))}


def machines(request: Json) -> Json:
    """Return the state of each registered machine."""
    if not seam.machines:
        raise Refusal("band-missing", "no machine is registered: the application must call machine(name, get)")
    expected = [name for name in seam.machines if request.get("id") in (None, name)]
    selected = {name: {"state": Egress().show(seam.machines[name]())} for name in expected}
    return {"machines": selected, "count": len(selected)}


def probe(_request: Json) -> Json:
    """Return how often this accessor was called and how often code was loaded."""
    seam.probes += 1
    return {"probe": seam.probes, "buildTick": seam.loads, "sessionId": seam.session_id}


def reset_for_test(_request: Json) -> Json:
    """End all subscriptions, and reset the counter of `probe`."""
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
