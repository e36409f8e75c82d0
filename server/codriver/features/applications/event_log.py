"""The description of the app log, so that commands need not import the log itself."""

from __future__ import annotations

from typing import Final

from codriver.log.event_logs import EventLog

APP_EVENTS: Final = EventLog("appEvent", "$app", "appEvents", "appLog", "applications", "magenta", "~")
