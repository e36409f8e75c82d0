"""Describe the app log to commands, without importing the log itself."""

from __future__ import annotations

from typing import Final

from codriver.log.event_logs import EventLog

APP_EVENTS: Final = EventLog("appEvent", "$app", "appEvents", "appLog", "applications", "magenta", "~")
"""The log of application events."""
