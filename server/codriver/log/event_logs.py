"""Descriptions of the event logs that features keep in addition to the output log."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class EventLog:
    """Describes a feature's event log: its name in queries and answers, and how its events are displayed."""

    category: str
    source: str
    """The name of the log in queries, which starts with `$`."""
    counted_as: str
    """The field of answers about the output log that has the number of the events."""
    usage_as: str
    """The field of `server_health` that has the size of the log."""
    owner: str
    """Whose events these are, in the plural, for messages."""
    color: str
    """The color of events in a terminal, as `click` names it."""
    sign: str
    """The character before the text of an event."""
