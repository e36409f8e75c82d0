"""Accessors that change an application.

A change is made completely or refused. A refused change leaves the state as it was, and is recorded as an error.
"""

from __future__ import annotations

import contextvars
import time

from .arguments import read_literal, requested_frame
from .recording import CAUSE, OP, TAGS, cause, emit, origin, origin_who, seam
from .state_accessors import changes_between, find_epoch
from .state_frames import Epoch, Unread, epoch
from .values import ACCESSOR_FAILED_REASON, Refusal, differences, is_mutable, safe_message

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from .recording import Accessor, Json
    from .state_frames import Frame

MAX_QUEUED_EVENTS = 200
"""Maximum number of queued events waiting for their epochs."""
STATE_NOT_STORED_MESSAGE = "the state of this epoch was not stored. The application must pass snapshot= to frame()"
"""Message for an epoch whose state was not stored."""


def dispatch(request: Json) -> Json:
    """Dispatch an event to the application.

    By default, the event is queued for the application's own event loop. With `sync`, it is handled immediately, and
    the changes are returned.
    """
    found, is_sync = requested_frame(request), bool(request.get("sync"))
    deliver = found.dispatch if is_sync else found.enqueue or found.dispatch
    if deliver is None:
        raise Refusal(
            "no-dispatch", f"the frame {found.name} was registered without {('dispatch=' if is_sync else 'enqueue=')}"
        )
    event = read_literal("event", request.get("event"), "not-an-event-vector")
    if not isinstance(event, (list, tuple)) or not event:
        raise Refusal("not-an-event-vector", "an event must be a list that contains its id, followed by its arguments")
    number = next(seam.dispatches)
    token = cause.set((number, frozenset()))
    try:
        done = (
            {"mode": "sync", **_handle_now(found, deliver, event)} if deliver is found.dispatch else {"mode": "queued"}
        )
        if deliver is not found.dispatch:
            deliver(event)
            _record_queued(number, found.name, str(event[0]))
    finally:
        cause.reset(token)
    return {
        "frame": found.name,
        "eventId": str(event[0]),
        "dispatchId": number,
        "origin": origin_who(origin.get()),
        **done,
    }


def _record_queued(number: int, frame: str, event_id: str) -> None:
    """Store when an event was queued, so that an event without any effect can be reported."""
    seam.queued[number] = time.monotonic(), contextvars.copy_context(), frame, event_id
    while len(seam.queued) > MAX_QUEUED_EVENTS:
        seam.queued.pop(next(iter(seam.queued)), None)


def _handle_now(found: Frame, deliver: Callable[[Any], object], event: Any) -> Json:
    """Handle an event by calling `deliver`, and return the changes. On failure, restore the previous state."""
    _check_not_draining(found)
    within, failure = epoch(found.name, str(event[0])), ""
    try:
        with within:
            deliver(event)
    except Exception as error:  # noqa: BLE001  # the answer reports the application's error
        failure = f"{type(error).__name__}: {safe_message(error)}"
    recorded = within.recorded
    if recorded is None:
        return {}
    errors = [entry for entry in tuple(seam.events) if entry[CAUSE] == recorded.dispatch_id and entry[OP] == "error"]
    if failure or errors:
        about = (errors[-1][TAGS] or {}) if errors else {}
        # A swallowed exception is recorded too.
        words = failure or f"the application recorded an error: {about.get('message', '')}"
        recorded.outcome = "error"
        raise Refusal("handler-failed", words + _restore_if_changed(found, recorded.before), at=about.get("at", ""))
    if not recorded.is_comparable:
        return {
            "epochId": recorded.id,
            "unknown": "the changes are not known, because the frame was registered without snapshot=",
        }
    rows, _ = changes_between(found, recorded, recorded)
    undone = {} if found.set is None or not rows else {"undoneBy": -recorded.id}
    return {"epochId": recorded.id, **undone, "changes": rows, "count": len(rows)}


def _restore_if_changed(found: Frame, before: Any) -> str:
    """Restore the previous state if it has changed, and return a clause that describes the outcome.

    The clause completes an error message. It is empty if the state had not changed.
    """
    now = found.copy_state()
    if now is before:
        is_sure = found.is_sure or not is_mutable(now)
        return (
            ""
            if is_sure
            else "; it is not known whether the state has changed, because the frame was registered without snapshot="
        )
    if isinstance(before, Unread) or isinstance(now, Unread):
        return "; the state could not be read"
    if next(differences(found.thaw(before), found.thaw(now)), None) is None:
        return ""
    if found.set is None:
        return "; the state could not be restored, because the frame was registered without set="
    try:
        found.set(found.thaw(before))
    except Exception as error:  # noqa: BLE001  # the application's code may raise anything
        return f"; the state could not be restored: {type(error).__name__}: {safe_message(error)}"
    return "; the state was restored"


def restore(request: Json) -> Json:
    """Restore the state after an epoch. A negative number means the state before that epoch."""
    found, number = _settable_frame(request), request.get("epochId")
    if number is None:
        raise Refusal("unknown-epoch", "epochId is missing. Pass one of the ids that the accessor `epochs` lists")
    recorded = find_epoch(found, abs(number), "unknown-epoch")
    if number < 0:
        return {"frame": found.name, **_replace(found, _state_before(found, recorded), "restored")}
    if not is_restorable(recorded):
        halfway = f"that event failed halfway. The state before it is epoch {-recorded.id}"
        raise Refusal("non-ok-record", STATE_NOT_STORED_MESSAGE if recorded.outcome == "ok" else halfway)
    result = _replace(found, found.thaw(recorded.after), "restored")
    found.restored = recorded.id
    return {"frame": found.name, "epochId": recorded.id, **result}


def _state_before(found: Frame, recorded: Epoch) -> Any:
    """Return the state before an epoch.

    Raises:
        Refusal: the state was not stored.
    """
    if not recorded.is_comparable or isinstance(recorded.before, Unread):
        raise Refusal("non-ok-record", STATE_NOT_STORED_MESSAGE)
    return found.thaw(recorded.before)


def is_restorable(recorded: Epoch) -> bool:
    """Return whether the state after an epoch is stored completely."""
    return recorded.outcome == "ok" and recorded.is_comparable and not isinstance(recorded.after, Unread)


def reset(request: Json) -> Json:
    """Replace the state of a frame with a value. This is recorded as an epoch, so it can be undone."""
    found = _settable_frame(request)
    value = read_literal("value", request.get("value"), "schema-mismatch")
    return {"frame": found.name, **_replace(found, value, "reset")}


def _settable_frame(request: Json) -> Frame:
    """Return the requested frame after checking that its state can be replaced now.

    Raises:
        Refusal: the frame is read-only, or is handling an event.
    """
    found = requested_frame(request)
    if found.set is None:
        raise Refusal("read-only-frame", f"the frame {found.name} is read-only, because it was registered without set=")
    _check_not_draining(found)
    return found


def _check_not_draining(found: Frame) -> None:
    """Check that the frame is not handling an event.

    Raises:
        Refusal: an event is being handled.
    """
    if found.draining:
        raise Refusal("during-drain", "an event is being handled. Call again when its handler has finished")


def _replace(found: Frame, value: Any, operation: str) -> Json:
    """Replace the state of a frame, and return the number of the epoch whose restoration undoes the change."""
    found.remember_secrets(value)
    if (why := _validation_error(found, value)) is not None:
        raise Refusal("schema-mismatch", why)
    before = found.copy_state()
    try:
        found.set(value)  # type: ignore[misc]  # the caller has checked it
    except Exception as error:
        words = f"set failed: {type(error).__name__}: {safe_message(error)}{_restore_if_changed(found, before)}"
        raise Refusal(ACCESSOR_FAILED_REASON, words) from error
    result: Json = {"undoneBy": _ensure_stored(found, before, operation), "origin": origin_who(origin.get())}
    if operation == "reset":
        record = Epoch(found, operation, before, found.copy_state())
        found.epochs.append(record)
        result["epochId"] = record.id
    emit("epoch", operation, frame=found.name, event_id=operation)
    return result


def _ensure_stored(found: Frame, now: Any, operation: str) -> int:
    """Return the number of the epoch that led to the current state.

    If the state was changed outside of epochs, a new epoch is recorded.
    """
    stored = tuple(found.epochs)
    for recorded in [*stored[-1:], *(recorded for recorded in stored if recorded.id == found.restored)]:
        if is_restorable(recorded) and next(differences(found.thaw(recorded.after), found.thaw(now)), None) is None:
            return recorded.id
    left = Epoch(
        found, f"before-{operation}", stored[-1].after if stored else Unread("no earlier state is stored"), now
    )
    found.epochs.append(left)
    return left.id


def _validation_error(found: Frame, value: Any) -> str | None:
    """Return the reason why the application's validator rejects a value, or None if the value is valid."""
    if found.validate is None:
        return None
    try:
        verdict = found.validate(value)
    except Exception as error:  # noqa: BLE001  # validators raise to reject a value
        return f"{type(error).__name__}: {safe_message(error)}"
    if verdict is None or verdict is True or verdict == "":
        return None
    return str(verdict) if verdict else "the value is not valid"


CHANGING_ACCESSORS: Mapping[str, Accessor] = {"dispatch": dispatch, "restore": restore, "reset": reset}
"""The accessors that change the application."""
