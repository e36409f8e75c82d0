"""Streams of applications' events: renewed and ended in their REPLs, and their events recorded in the app log."""

from __future__ import annotations

import json
import logging
import math
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

import anyio

from codriver.core.app_streams import OPS
from codriver.errors import CodriverError
from codriver.log.app_log import AppEvent, near
from codriver.repls.contract.errors import OpTimedOutError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping
    from pathlib import Path

    from codriver.core.dispatch import Core
    from codriver.core.effects import EndAppStream, RenewAppStream, TellAppStreamOver
    from codriver.core.state import Repl
    from codriver.log.app_log import AppLog
    from codriver.repls.contract.adapter import Adapter

    Later = Callable[[str, Callable[[str], Awaitable[None]], str], None]

logger = logging.getLogger(__name__)

RENEW_S: Final = 20.0
"""A third of the lease that a stream has in the application: two renewals may come late."""
MOST_IN_WINDOW: Final = 200
WINDOW_S: Final = 1.0
KNOWN: Final = 2000
"""Events of a REPL that are known again when another stream brings them: as many as the app log holds."""


@dataclass(slots=True)
class _Intake:
    """The events taken from one connection of a REPL: those of this second, and which they were."""

    generation: int
    known: dict[int, None] = field(default_factory=dict)
    is_open: bool = False
    kept: int = 0
    unkept: Counter[str] = field(default_factory=Counter)


class AppEventRecorder:
    """Records what applications' streams push, for the life of one server: of each REPL, so many events a second.

    Of the rest, and of what fell out of a queue in the application, one event tells the number. An event that several
    streams bring is recorded once.
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

    def heard(self, repl: Repl, frame: Mapping[str, object]) -> None:
        """Record a frame."""
        intake = self._intakes.get(repl.id)
        if intake is None or intake.generation != repl.generation:
            intake = self._intakes[repl.id] = _Intake(repl.generation)
        if not intake.is_open:
            intake.is_open, intake.kept = True, 0
            self._later("recording the events of an application", self._close, repl.id)
        stream, events = str(frame.get("sub")), frame.get("events")
        intake.unkept[stream] += _whole(frame.get("dropped")) or 0
        for told in events if isinstance(events, list) else ():
            if (event := read_event(told, repl.key)) is not None:
                self._take(intake, stream, replace(event, text=near(event.text, self._workspace)))

    def _take(self, intake: _Intake, stream: str, event: AppEvent) -> None:
        if event.app_id is not None and event.app_id in intake.known:
            return
        if intake.kept >= MOST_IN_WINDOW:
            intake.unkept[stream] += 1
            return
        intake.kept += 1
        if event.app_id is not None:
            intake.known[event.app_id] = None
            if len(intake.known) > KNOWN:
                del intake.known[next(iter(intake.known))]
        self._log.record(event)

    async def _close(self, repl_id: str) -> None:
        """At the end of a second, tell what was not kept in it."""
        await anyio.sleep(WINDOW_S)
        intake, repl = self._intakes[repl_id], self._core.state.repls.get(repl_id)
        intake.is_open = False
        unkept, intake.unkept = intake.unkept, Counter()
        last = next(reversed(intake.known), None)
        for stream, count in unkept.items():
            if count > 0:
                self._log.drop(count)
                text = f"{count} events of {stream} are not kept; the application's trace has the newest"
                text += f": inspect_app trace, filter since {last}" if last is not None else ""
                key = repl.key if repl else None
                now = self._core.now()
                self._log.record(AppEvent(text, now, op="stream", name="not-kept", session_key=key))

    def over(self, effect: TellAppStreamOver) -> None:
        """Record that a stream ended, as an event of its topic: that wakes whoever waits for its events."""
        stream, repl = effect.stream, self._core.state.repls.get(effect.stream.repl)
        text = f"{stream.id} ({stream.topic}) of {stream.who} is over: {effect.why}; watch_app again once it is back"
        op = "stream" if stream.topic == "trace" else OPS.get(stream.topic, stream.topic)
        key = repl.key if repl else None
        self._log.record(AppEvent(text, self._core.now(), op=op, name="stream-over", session_key=key))


def read_event(told: object, session_key: str) -> AppEvent | None:
    """The event in a REPL's words; None for other words. See `AppEvents` for the shape."""
    if not isinstance(told, dict) or not isinstance(told.get("line"), str):
        return None
    origin = told.get("origin")
    by = origin if isinstance(origin, dict) else {}
    time, cause = _number(told.get("time")), told.get("dispatchId")
    return AppEvent(
        told["line"],
        round((time or 0) * 1000),
        op=_text(told.get("opType")),
        name=_text(told.get("operation")),
        frame=_text(told.get("frame")),
        cause=_whole(cause) if isinstance(cause, int) else _text(cause),
        ms=_number(told.get("ms")),
        app_id=_whole(told.get("id")),
        who=_text(by.get("who")),
        evaluation=_text(by.get("evaluation")),
        session_key=session_key,
    )


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _number(value: object) -> float | None:
    """A number that JSON can say."""
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return float(value) if is_number and math.isfinite(value) else None  # type: ignore[arg-type]  # it is one


class AppStreamKeeper:
    """Performs the effects on streams, through the adapters of one server."""

    def __init__(self, core: Core, adapters: Mapping[str, Adapter]) -> None:
        self._core = core
        self._adapters = adapters

    async def renew(self, effect: RenewAppStream) -> None:
        """Renew a stream after a while, and tell whether the application still has it."""
        await anyio.sleep(RENEW_S)
        stream = effect.stream
        if stream not in self._core.state.app_streams:
            return
        repl, adapter = self._core.state.repls.get(stream.repl), self._adapters.get(stream.repl)
        is_there = False
        if repl is not None and adapter is not None and repl.generation == stream.generation:
            try:
                told = json.loads(await adapter.ask_seam("subscriptions", json.dumps({"renew": [stream.id]})))
                is_there = any(row["id"] == stream.id for row in told.get("subs", ()))
            except OpTimedOutError:
                is_there = True  # it is busy, and asked again
            except (CodriverError, ValueError) as error:
                logger.info("renewing the stream %s of %s: %s", stream.id, stream.repl, error)
        self._core.resume(effect, is_there)

    async def end(self, effect: EndAppStream) -> None:
        """End a stream in the application, where that can still be reached."""
        stream = effect.stream
        repl, adapter = self._core.state.repls.get(stream.repl), self._adapters.get(stream.repl)
        if repl is None or adapter is None or repl.generation != stream.generation:
            return
        try:
            await adapter.ask_seam("unsubscribe", json.dumps({"subId": stream.id}))
        except CodriverError as error:
            logger.info("ending the stream %s of %s: %s", stream.id, stream.repl, error)
