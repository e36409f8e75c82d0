"""Print the events of a stream that `watch_app` started, until it ends."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from codriver.commands.log import INTERRUPTED_STATUS, MAX_DISPLAY_BYTES, print_entries
from codriver.commands.log_follower import GAP_MESSAGE, MAX_TEXT_BYTES, Follower
from codriver.commands.terminal import convert_field_errors, echo
from codriver.features.applications.event_log import APP_EVENTS

if TYPE_CHECKING:
    from codriver.net.client import Connection

CALLS_TOPIC: Final = "calls"
"""The topic of call traces, whose streams end after a maximum number of events. The op type of its events is `call`."""
STREAM_OVER_EVENT: Final = "stream-over"
"""The name of the event that reports the end of a stream."""


def follow_stream(connection: Connection, started: dict[str, Any], topic: str, *, as_json: bool) -> int:
    """Print the events of a stream until it ends or Ctrl-C is pressed. Return the exit status.

    `started` is the answer of `watch_app`, and `topic` is the topic of the stream.
    """
    with convert_field_errors("watch_app"):
        since, prefix = int(started["since"]), f"{started['subId']} "
    # The app log contains the events of all streams, so ignore those with a different op type.
    ops = {None} if topic == "trace" else {"call" if topic == CALLS_TOPIC else topic, "stream"}
    max_bytes = MAX_TEXT_BYTES if as_json else MAX_DISPLAY_BYTES
    follower = Follower(connection, since, None, (APP_EVENTS.category,), max_bytes, (APP_EVENTS,))
    try:
        while True:
            entities, gap = follower.next_entries()
            if gap:
                echo(GAP_MESSAGE, err=True)
            print_entries([entity for entity in entities if None in ops or entity.get("op") in ops], as_json=as_json)
            if any(
                entity.get("name") == STREAM_OVER_EVENT and entity["text"].startswith(prefix) for entity in entities
            ):
                return 0 if topic == CALLS_TOPIC else 1
    except KeyboardInterrupt:
        return INTERRUPTED_STATUS
