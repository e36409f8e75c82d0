"""Logs of features, which grow next to the output log and share its line numbers."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class EventLog:
    """The description of a feature's log. All its entities are events of one category."""

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
