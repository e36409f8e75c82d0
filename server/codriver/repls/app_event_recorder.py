"""The recorder of applications' events: into the app log, up to a number of events per second for each REPL."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Final

import anyio

from codriver.core.app_streams import OPS
from codriver.core.records import Recent
from codriver.log.logbook import AppEvent, AppLog, near
from codriver.wire import untrusted
from codriver.wire.untrusted import as_int, as_list, as_number, mapping_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping
    from pathlib import Path

    from codriver.core.dispatch import Core, ReportAppStreamEnd
    from codriver.core.state import Repl

    Later = Callable[[str, Callable[[str], Awaitable[None]], str], None]

MOST_IN_WINDOW: Final = 200
WINDOW_S: Final = 1.0
KNOWN: Final = 2000
"""Maximum number of event ids per REPL that are remembered to find duplicates: as many as the app log stores."""


@dataclass(slots=True)
class _Intake:
    """The events received over one connection of a REPL: their ids, and their number in the current second."""

    generation: int
    known: Recent[int, None] = field(default_factory=partial(Recent, KNOWN))
    is_open: bool = False
    recorded: int = 0
    dropped: Counter[str] = field(default_factory=Counter)


class AppEventRecorder:
    """Records the events of applications, up to a maximum number per second for each REPL.

    One further event reports how many were left out or lost in the application. An event of several streams is recorded
    once.
    """

    def __init__(self, core: Core, log: AppLog, later: Later, workspace: Path) -> None:
        """`later` runs a coroutine function with an argument, in a task of its own, named for its faults.

        Files in the `workspace` are named from there.
        """
        self._core = core
        self._log = log
        self._later = later
        self._workspace = workspace
        self._intakes: dict[str, _Intake] = {}

    def record_frame(self, repl: Repl, frame: Mapping[str, object]) -> None:
        """Record the events of one frame."""
        intake = self._intakes.get(repl.id)
        if intake is None or intake.generation != repl.generation:
            intake = self._intakes[repl.id] = _Intake(repl.generation)
        if not intake.is_open:
            intake.is_open, intake.recorded = True, 0
            self._later("recording the events of an application", self._close, repl.id)
        stream = str(frame.get("sub"))
        intake.dropped[stream] += as_int(frame.get("dropped")) or 0
        for row in as_list(frame.get("events")):
            if (event := read_event(row, repl.key)) is not None:
                self._record(intake, stream, replace(event, text=near(event.text, self._workspace)))

    def _record(self, intake: _Intake, stream: str, event: AppEvent) -> None:
        if event.app_id is not None and event.app_id in intake.known:
            return
        if intake.recorded >= MOST_IN_WINDOW:
            intake.dropped[stream] += 1
            return
        intake.recorded += 1
        if event.app_id is not None:
            intake.known[event.app_id] = None
        self._log.record(event)

    async def _close(self, repl_id: str) -> None:
        """At the end of a second, report the number of events that were left out."""
        await anyio.sleep(WINDOW_S)
        intake, repl = self._intakes[repl_id], self._core.state.repls.get(repl_id)
        intake.is_open = False
        dropped, intake.dropped = intake.dropped, Counter()
        last = next(reversed(intake.known), None)
        for stream, count in dropped.items():
            if count > 0:
                self._log.drop(count)
                text = f"{count} events of {stream} are not kept; the application's trace has the newest"
                text += f": inspect_app trace, filter since {last}" if last is not None else ""
                key = repl.key if repl else None
                now = self._core.now()
                self._log.record(AppEvent(text, now, op="stream", name="not-kept", session_key=key))

    def over(self, effect: ReportAppStreamEnd) -> None:
        """Record that a stream ended, as an event of its topic, which wakes all who wait for its events."""
        stream, repl = effect.stream, self._core.state.repls.get(effect.stream.repl)
        text = f"{stream.id} ({stream.topic}) of {stream.who} is over: {effect.why}; watch_app again once it is back"
        op = "stream" if stream.topic == "trace" else OPS.get(stream.topic, stream.topic)
        key = repl.key if repl else None
        self._log.record(AppEvent(text, self._core.now(), op=op, name="stream-over", session_key=key))


def read_event(row: object, session_key: str) -> AppEvent | None:
    """Return the event that a REPL reported; None for anything else. `AppEvents` describes the shape."""
    if not isinstance(row, dict) or not isinstance(row.get("line"), str):
        return None
    by, time, cause = mapping_of(row, "origin"), as_number(row.get("time")), row.get("dispatchId")
    return AppEvent(
        row["line"],
        round((time or 0) * 1000),
        op=untrusted.text_of(row, "opType") or None,
        name=untrusted.text_of(row, "operation") or None,
        frame=untrusted.text_of(row, "frame") or None,
        cause=cause if isinstance(cause, str) else as_int(cause),
        ms=as_number(row.get("ms")),
        app_id=as_int(row.get("id")),
        who=untrusted.text_of(by, "who") or None,
        evaluation=untrusted.text_of(by, "evaluation") or None,
        session_key=session_key,
    )
