"""Record the events of applications in the app log, with a limit per second for each REPL."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Final

import anyio

from codriver.core.records import Recent
from codriver.features.applications.app_log import AppEvent, AppLog, shorten_paths
from codriver.wire import untrusted
from codriver.wire.untrusted import int_or_none, list_or_empty, mapping_at, mapping_or_empty, number_or_none

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from anyio.abc import TaskGroup

    from codriver.core.dispatch import Core
    from codriver.core.state import Repl

MAX_EVENTS_PER_WINDOW: Final = 200
"""Maximum number of events to record per REPL and time window."""
WINDOW_S: Final = 1.0
"""Length of the time window in which a REPL's events are counted together."""
MAX_REMEMBERED_IDS: Final = 2000
"""Maximum number of event ids to remember per REPL to detect duplicates. The app log has the same number of events."""


@dataclass(slots=True)
class _Intake:
    """The events received over one connection to a REPL: their ids, and the counts for the current window."""

    generation: int
    known_ids: Recent[int, None] = field(default_factory=partial(Recent, MAX_REMEMBERED_IDS))
    has_open_window: bool = False
    recorded: int = 0
    dropped: Counter[str] = field(default_factory=Counter)
    """Number of dropped events by subscription."""


class AppEventRecorder:
    """Records the events of applications, at most `MAX_EVENTS_PER_WINDOW` per second for each REPL.

    If events were dropped, an additional event reports their number at the end of the second. An event that is part of
    several streams is recorded once.
    """

    def __init__(self, core: Core, log: AppLog, tasks: TaskGroup, workspace: Path) -> None:
        """Create a recorder. Paths in recorded events are made relative to `workspace`."""
        self._core = core
        self._log = log
        self._tasks = tasks
        self._workspace = workspace
        self._intakes: dict[str, _Intake] = {}

    def receive(self, repl_id: str, _evaluation: str | None, text: str) -> None:
        """Record the events in a JSON frame from a REPL. Ignore invalid frames and frames from removed REPLs."""
        repl = self._core.state.repls.get(repl_id)
        try:
            frame = mapping_or_empty(json.loads(text))
        except (ValueError, RecursionError):
            return
        if repl is not None and frame:
            self.record_frame(repl, frame)

    def record_frame(self, repl: Repl, frame: Mapping[str, object]) -> None:
        """Record the events in a frame.

        The keys of `frame` are `sub`, the subscription; `dropped`, the number of events lost since the previous frame;
        `depth`, the number of queued events; and `events`. Each event has the keys `id`, `time`, `opType`, `operation`
        and `line`, and may have `frame`, `eventId`, `handlerId`, `source`, `origin`, `dispatchId` and `ms`.
        """
        intake = self._intakes.get(repl.id)
        if intake is None or intake.generation != repl.generation:
            intake = self._intakes[repl.id] = _Intake(repl.generation)
        if not intake.has_open_window:
            intake.has_open_window, intake.recorded = True, 0
            self._tasks.start_soon(self._close_window, repl.id)
        stream = str(frame.get("sub"))
        intake.dropped[stream] += int_or_none(frame.get("dropped")) or 0
        for row in list_or_empty(frame.get("events")):
            if (event := parse_event(row, repl.key)) is not None:
                self._record(intake, stream, replace(event, text=shorten_paths(event.text, self._workspace)))

    def _record(self, intake: _Intake, stream: str, event: AppEvent) -> None:
        if event.app_id is not None and event.app_id in intake.known_ids:
            return
        if intake.recorded >= MAX_EVENTS_PER_WINDOW:
            intake.dropped[stream] += 1
            return
        intake.recorded += 1
        if event.app_id is not None:
            intake.known_ids[event.app_id] = None
        self._log.record(event)

    async def _close_window(self, repl_id: str) -> None:
        """Wait until the current window ends, and record how many events were dropped during it."""
        await anyio.sleep(WINDOW_S)
        intake, repl = self._intakes[repl_id], self._core.state.repls.get(repl_id)
        intake.has_open_window = False
        dropped, intake.dropped = intake.dropped, Counter()
        last_id = next(reversed(intake.known_ids), None)
        for stream, count in dropped.items():
            if count > 0:
                self._log.count_dropped(count)
                text = f"{count} events of {stream} were dropped. The newest ones are in the application's trace"
                text += f": inspect_app trace, filter since {last_id}" if last_id is not None else ""
                key = repl.key if repl else None
                timestamp = self._core.now()
                self._log.record(AppEvent(text, timestamp, op="stream", name="not-kept", session_key=key))


def parse_event(row: object, session_key: str) -> AppEvent | None:
    """Parse an event in a frame. Return None if it is invalid. See `AppEventRecorder.record_frame`."""
    if not isinstance(row, dict) or not isinstance(row.get("line"), str):
        return None
    origin, time_s, cause = mapping_at(row, "origin"), number_or_none(row.get("time")), row.get("dispatchId")
    return AppEvent(
        row["line"],
        round((time_s or 0) * 1000),
        op=untrusted.text_at(row, "opType") or None,
        name=untrusted.text_at(row, "operation") or None,
        frame=untrusted.text_at(row, "frame") or None,
        cause=cause if isinstance(cause, str) else int_or_none(cause),
        ms=number_or_none(row.get("ms")),
        app_id=int_or_none(row.get("id")),
        who=untrusted.text_at(origin, "who") or None,
        evaluation=untrusted.text_at(origin, "evaluation") or None,
        session_key=session_key,
    )
