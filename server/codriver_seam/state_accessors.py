"""Accessors that read an application's state and epochs."""

from __future__ import annotations

import itertools

from .arguments import parse_path, requested_frame, row_limit
from .recording import origin_who
from .state_frames import Unread
from .values import ACCESSOR_FAILED_REASON, Refusal, ValueFormatter, differences, differences_below, get_part

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .recording import Json
    from .state_frames import Epoch, Frame
    from .values import Path

MAX_LISTED_CHANGES = 100
"""Maximum number of changes in a diff."""
NO_EPOCH_HINT = "to record an epoch, handle an event inside `with seam.epoch(frame, name)`, or call change_app"
"""The hint if there is no epoch. Changes that an application makes in place outside of `epoch` are not recorded."""


def state(request: Json) -> Json:
    """Return the state of a frame as text, or the part of the state at a path."""
    found, path = requested_frame(request), parse_path(request.get("path"))
    hidden = () if request.get("includeSensitive") else found.sensitive
    egress = ValueFormatter(hidden, is_whole=bool(request.get("includeLarge")))
    text = egress.show_requested(get_part(found.get(), path), path)
    return {"frame": found.name, "path": repr(list(path)), "value": text, "redacted": egress.redacted,
            "elided": egress.elided}  # fmt: skip


def _epoch_row(epoch: Epoch) -> Json:
    """Return the fields that represent an epoch in a list."""
    return {"epochId": epoch.id, "time": epoch.time, "eventId": epoch.event_id, "ms": epoch.ms,
            "origin": origin_who(epoch.origin), "dispatchId": epoch.dispatch_id, "outcome": epoch.outcome}  # fmt: skip


def epochs(request: Json) -> Json:
    """Return the epochs of a frame, newest last.

    If the request has a path, only epochs that changed the part at the path are returned, with these changes.
    """
    found, since, filters = requested_frame(request), int(request.get("since") or 0), request.get("filter") or {}
    rows = [(_epoch_row(epoch), epoch) for epoch in tuple(found.epochs) if epoch.id > since]
    rows = [row for row in rows if all(str(row[0].get(name)) == str(value) for name, value in filters.items())]
    if path := parse_path(request.get("path")):
        rows = [
            ({**row, "changes": changed}, recorded)
            for row, recorded in rows
            if (changed := _changes_at(found, recorded, path))
        ]
        if not rows:
            get_part(found.get(), path)
    selected = [row for row, _ in rows[-row_limit(request, 20) :]]
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
        words = (
            "no epoch is stored, because the application has not handled an event yet, or did not handle it in epoch()"
        )
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
            "the changes are unknown, because the state is the same object as before and no snapshot was made. The "
            "application must pass snapshot='deepcopy' or 'pickle' to frame(), or 'none' if it never changes its "
            "state in place"
        ))  # fmt: skip
    for unread in (first.before, last.after):
        if isinstance(unread, Unread):
            raise Refusal(ACCESSOR_FAILED_REASON, f"the state could not be read: {unread.why}")
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
