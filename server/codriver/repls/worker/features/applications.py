"""Let clients call the seam of an application (`codriver_seam`), and report the origin of the application's events."""

from __future__ import annotations

import json

from ..basics.connections import start_thread
from ..basics.features import WorkerFeature
from ..basics.sensitive_texts import enabled_seam

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from ..basics.connections import Connection, Message
    from ..basics.dialect import Dialect
    from ..basics.jobs import Job, Session

SEAM_OP = "codriver/seam"
"""The op that calls an accessor of the application's seam, and the field that contains the seam's session id."""
EVENTS_FIELD = "codriver/app-events"
"""The field that contains a frame of events. Frames are sent with the id of the request that subscribed to them."""
ORIGIN_FIELD = "codriver/origin"
"""The request field that identifies the caller in the application's events."""


def seam_field() -> dict[str, str]:
    """Return a field that reports the application's seam to a client, or {} if there is no enabled seam."""
    module = enabled_seam()
    return {SEAM_OP: str(module.session_id)} if module else {}


class attributed_events:  # noqa: N801  # it is used like a function
    """A context manager that attributes events caused by a request to the caller of the request."""

    __slots__ = ("_origin", "_token", "_variable")

    def __init__(self, job: Job, _dialect: Dialect) -> None:
        origin = job.message.get(ORIGIN_FIELD)
        self._origin = origin if isinstance(origin, dict) else None
        self._variable: Any = None

    def __enter__(self) -> None:
        if self._origin:
            self._variable = getattr(enabled_seam(), "origin", None)
        if self._variable is not None:
            self._token = self._variable.set(self._origin)

    def __exit__(self, *_: object) -> None:
        if self._variable is not None:
            self._variable.reset(self._token)


def call_seam(message: Message, connection: Connection, _session: Session) -> None:
    """Call one of the seam's accessors in a new thread, because the application's getters may block."""
    name, arguments = message.get("name") or "", message.get("args") or "{}"

    def call() -> None:
        try:
            if name == "subscribe":
                # Frames are sent with the id of this message until the client disconnects.
                push = connection.make_sender(message, EVENTS_FIELD)
                found = subscribe(arguments, message.get("origin") or "null", push, connection.at_end)
            else:
                found = call_accessor(name, arguments, "null")
        except Exception as error:
            connection.reply_failure(message, "failed", f"{type(error).__name__}: {error}")
            return
        fields = {} if found is None else {"answer": found}
        connection.reply(message, {**fields, **seam_field(), "status": ["done"]})

    start_thread(call)


def call_accessor(name: str, arguments: str, origin: str) -> str | None:
    """Call one of the seam's accessors and return its answer as JSON. Return None if there is no enabled seam."""
    module = enabled_seam()
    return str(module.call(name, arguments, origin)) if module else None


def subscribe(
    arguments: str, origin: str, push: Callable[[str], bool], at_end: list[Callable[[], object]]
) -> str | None:
    """Subscribe to one of the seam's streams. Its frames are passed to `push`.

    Return the seam's answer as JSON, or None if there is no enabled seam. A function that ends the subscription is
    added to `at_end`.
    """
    module = enabled_seam()
    if module is None:
        return None
    found = str(module.call("subscribe", arguments, origin, push))
    identity = json.loads(found).get("subId")
    if identity:
        at_end.append(lambda: call_accessor("unsubscribe", json.dumps({"subId": identity}), "null"))
    return found


def operations(_changed_ms: Callable[..., int]) -> Mapping[str, Callable[..., Any]]:
    """Return no operations, because in a kernel the seam is called by evaluating code."""
    return {}


FEATURE = WorkerFeature((ORIGIN_FIELD,), attributed_events, operations, {SEAM_OP: call_seam}, seam_field)
