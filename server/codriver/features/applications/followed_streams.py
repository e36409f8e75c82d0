"""The stream of events that `watch_app` started, printed until it is over."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from codriver.commands.log import DISPLAY_BYTES, INTERRUPTED, print_entries
from codriver.commands.log_follower import GAP, WHOLE, Follower
from codriver.commands.terminal import echo, reading
from codriver.features.applications.event_log import APP_EVENTS

if TYPE_CHECKING:
    from codriver.net.client import Connection

CALLS: Final = "calls"
"""The topic of streams that end by themselves, and whose events have the op `call`."""
STREAM_OVER: Final = "stream-over"
"""The name of the event that reports the end of an application's stream."""


def follow_stream(connection: Connection, started: dict[str, Any], topic: str, *, as_json: bool) -> int:
    """Print the events of an application's stream until it ends or Ctrl-C, and return the exit status."""
    with reading("watch_app"):
        since, begins = int(started["since"]), f"{started['subId']} "
    # All streams share one database, so ignore events with another op.
    ops = {None} if topic == "trace" else {"call" if topic == CALLS else topic, "stream"}
    max_bytes = WHOLE if as_json else DISPLAY_BYTES
    follower = Follower(connection, since, None, (APP_EVENTS.category,), max_bytes, (APP_EVENTS,))
    try:
        while True:
            entities, gap = follower.next()
            if gap:
                echo(GAP, err=True)
            print_entries([one for one in entities if None in ops or one.get("op") in ops], as_json=as_json)
            if any(one.get("name") == STREAM_OVER and one["text"].startswith(begins) for one in entities):
                return 0 if topic == CALLS else 1
    except KeyboardInterrupt:
        return INTERRUPTED
