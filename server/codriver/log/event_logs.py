"""Declare the event logs that features add to the output log."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class EventLog:
    """Describes a feature's event log: its name in queries and answers, and how its events are displayed."""

    category: str
    source: str
    """The name of the log in queries, which starts with `$`."""
    counted_as: str
    """The name of the field for the number of events, in answers about the output log."""
    usage_as: str
    """The name of the field for the size of the log, in `server_health`."""
    owner: str
    """The plural noun for the events' owners in messages."""
    color: str
    """The color of events in a terminal, by its name in `click`."""
    sign: str
    """The character printed before the text of an event."""
