"""Accessors that describe the seam itself, and everything that the application has registered with it."""

from __future__ import annotations

import os

from .event_accessors import issues
from .recording import seam
from .values import Refusal, ValueFormatter
from .web_requests import watch_hint

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .recording import Json

CONTRACT_VERSION = 1
"""The version of the accessors' contract."""


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
        **({} if frames or seam.routes else watch_hint("records requests and lists the routes")),
    }  # fmt: skip


def handlers(request: Json) -> Json:
    """Return the application's handlers and routes with their positions in the source."""
    expected = {name: request[name] for name in ("kind", "id") if request.get(name)}
    known = [*tuple(seam.handlers.values()), *(row for list_routes in tuple(seam.routes) for row in list_routes())]
    rows = [entry for entry in known if all(entry[name] == expected[name] for name in expected)]
    return {"handlers": rows, "count": len(rows), **({} if known else watch_hint("lists the routes"))}


def machines(request: Json) -> Json:
    """Return the current state of each registered state machine."""
    if not seam.machines:
        raise Refusal("band-missing", "no machine is registered. The application must call machine(name, get)")
    expected = [name for name in seam.machines if request.get("id") in (None, name)]
    selected = {name: {"state": ValueFormatter().show(seam.machines[name]())} for name in expected}
    return {"machines": selected, "count": len(selected)}


def probe(_request: Json) -> Json:
    """Return the number of calls to this accessor, and the number of times that code has been loaded."""
    seam.probes += 1
    return {"probe": seam.probes, "buildTick": seam.loads, "sessionId": seam.session_id}


def reset_for_test(_request: Json) -> Json:
    """End all subscriptions and reset the call counter of `probe`."""
    if seam.streams is not None:
        seam.streams.clear()
    seam.offers, seam.probes = (), 0
    return {"sessionId": seam.session_id}
