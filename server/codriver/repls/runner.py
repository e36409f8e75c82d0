"""The runner of evaluations: starts each in its REPL, bounds its time, records its events, and tells the core its end.

Events go into the transcripts of evaluations and the log, applications' events into the app log. Streams of
applications' events are renewed and ended in their REPLs.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections import Counter
from dataclasses import dataclass, field, fields, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import anyio

from codriver.core import actions, dispatch
from codriver.core.app_streams import OPS
from codriver.core.evaluation_queue import next_id
from codriver.core.records import Recent
from codriver.core.values import TOLD_IN_WORDS, Evaluation, Failure, PrintLimits
from codriver.errors import MAY_HAVE_RUN, CodriverError, ReplDisconnectedError
from codriver.log.logbook import AppEvent, AppLog, Logbook, near
from codriver.log.output_log import NO_LINE, Category, Entry
from codriver.repls.contract.adapter import Adapter, OpTimedOutError, SessionNotOpenError
from codriver.repls.contract.adapter_values import (
    AppEvents,
    Display,
    Ending,
    Event,
    InputNeeded,
    OthersCode,
    OthersEnding,
    Output,
    Reported,
    SeamShown,
    SensitiveSeen,
    Value,
    ValueKept,
    text_of,
)
from codriver.wire import untrusted
from codriver.wire.untrusted import as_int, as_list, as_number, mapping_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping
    from pathlib import Path

    from codriver.core.dispatch import Core, EndAppStream, RenewAppStream, TellAppStreamOver, WakeWaiters
    from codriver.core.state import Repl
    from codriver.log.transcripts import Transcripts
    from codriver.repls.interrupt import Interrupter

    Later = Callable[[str, Callable[[str], Awaitable[None]], str], None]

    Spawn = Callable[[str, Callable[[dispatch.RunEvaluation], Awaitable[None]], dispatch.RunEvaluation], None]


logger = logging.getLogger(__name__)

KEPT_OTHERS: Final = 1000
"""The number of others' evaluations that can still have output: an older one's output belongs to none."""

LATE: Final = "a value came when this was over, and is in no result: "


class EventRecorder:
    """Records the events of all REPLs of one server, for its life."""

    def __init__(self, core: Core, logbook: Logbook, transcripts: Transcripts, app_events: AppEventRecorder) -> None:
        self._core = core
        self._logbook = logbook
        self._transcripts = transcripts
        self._app_events = app_events
        self._others: Recent[tuple[str, str], str] = Recent(KEPT_OTHERS)
        """Our evaluations that stand for others', by REPL and the id in its adapter's events."""
        self._updates: dict[str, dict[str, Display]] = {}
        """The last update of each display, by running evaluation."""
        self.listeners: Mapping[str, Callable[[str, str], None]] = {}
        """By name of a report: the function that takes an evaluation's id and the report, as JSON. Set once, before
        the server listens."""

    def heard(self, repl_id: str, evaluation_id: str | None, event: Event) -> None:
        """Take an event from a REPL: into the transcript of its evaluation, and into the log."""
        told_as = evaluation_id
        if self._others and (repl_id, told_as) in self._others:
            evaluation_id = self._others[repl_id, str(told_as)]
        state = self._core.state
        evaluation = state.evaluations.get(evaluation_id) if evaluation_id else None
        repl = state.repls.get(repl_id)
        match event:
            case Value():
                if repl is not None:
                    told = replace(event, text=text_of(event.bundle)) if event.bundle else event
                    self._value(told, repl, evaluation)
            case Output():
                if repl is not None:
                    self._output(event, repl, evaluation)
            case Display():
                if repl is not None:
                    self._display(event, repl, evaluation)
            case OthersCode():
                self._others_began(repl_id, str(told_as), event.code)
            case SeamShown() | AppEvents() | SensitiveSeen():
                self._app_told(repl_id, event)
            case _:
                if evaluation is not None:
                    self._happened(event, evaluation)

    def _happened(self, event: InputNeeded | ValueKept | OthersEnding | Reported, evaluation: Evaluation) -> None:
        """Report an evaluation's event without text for the log."""
        if isinstance(event, InputNeeded):
            self._core.report(actions.InputWanted(evaluation.id))
        elif isinstance(event, Reported):
            self.listeners[event.name](evaluation.id, event.text)
        elif isinstance(event, ValueKept):
            self._keep(evaluation, event.cut)
        else:
            failure = event.failure and self.cleared(event.failure)
            self._core.report(actions.EvaluationEnded(evaluation.id, event.status, failure=failure))

    def cleared(self, failure: Failure) -> Failure:
        """A failure without secrets: it is kept longer than an application's secrets are known."""

        def clear(value: Any) -> Any:
            if isinstance(value, tuple):
                return tuple(map(clear, value))
            return self.cleared(value) if isinstance(value, Failure) else self._transcripts.cleared(value)

        return replace(failure, **{field.name: clear(getattr(failure, field.name)) for field in fields(failure)})

    def _app_told(self, repl_id: str, event: SeamShown | AppEvents | SensitiveSeen) -> None:
        """Take news of the application in a REPL, which belong to no evaluation."""
        if isinstance(event, SensitiveSeen):
            self._logbook.learn_sensitive(repl_id, event.texts)
            return
        repl = self._core.state.repls.get(repl_id)
        if repl is None:
            return
        if isinstance(event, AppEvents):
            self._app_events.heard(repl, event.frame)
        # The end of each evaluation tells the seam: only a new one is news.
        elif repl.profile is not None and repl.profile.seam != event.session_id:
            self._core.report(actions.SeamSeen(repl.id, event.session_id, event.provider))

    def _others_began(self, repl_id: str, told_as: str, code: str) -> None:
        """Note an evaluation in the REPL by somebody else, past this server; it is then treated like ours."""
        evaluation = next_id(self._core.state)
        self._others[repl_id, told_as] = evaluation
        self._transcripts.open(evaluation, code=code)
        self._core.report(actions.OthersEvaluation(repl_id, evaluation, code))

    def _output(self, event: Output, repl: Repl, evaluation: Evaluation | None) -> None:
        is_error = event.stream == "err"
        transcript = self._transcripts.get(evaluation.id) if evaluation else None
        if transcript is None:
            text = self._logbook.clean_chunk(repl.id, event.stream, event.text)
        else:
            text = (transcript.err if is_error else transcript.out).append(event.text)
        if text:
            self._printed(text, repl, evaluation, is_error=is_error)

    def _value(self, event: Value, repl: Repl, evaluation: Evaluation | None) -> None:
        text = event.text
        if evaluation is not None and (event.is_late or evaluation.over):
            # Its result was given, or is about to be: a second question gets the same answer.
            self._record("otherOutput", LATE + text, repl, evaluation, namespace=event.namespace)
            return
        if evaluation is not None and (transcript := self._transcripts.get(evaluation.id)) is not None:
            text = transcript.add_value(text)
            if evaluation.kind in TOLD_IN_WORDS:
                return  # the log tells its end in words
            transcript.server_cut |= event.truncated
            if event.cut:
                transcript.keep_cut(event.cut, is_kept=event.is_kept)
        self._record("evaluationResults", text, repl, evaluation, namespace=event.namespace)

    def _display(self, event: Display, repl: Repl, evaluation: Evaluation | None) -> None:
        """Take display data as a value; of an updated display, such as a progress bar, only the last state."""
        if evaluation is not None and evaluation.kind == "run-tests":
            text = self._transcripts.cleared(text_of(event.bundle))
            self._record("evaluationResults", str(text), repl, evaluation)
        elif event.is_update and evaluation is not None and not evaluation.over:
            self._updates.setdefault(evaluation.id, {})[event.display_id] = event
        elif not event.is_update or evaluation is not None:
            self._value(Value(text_of(event.bundle)), repl, evaluation)

    def _keep(self, evaluation: Evaluation, cut: str) -> None:
        """Note that the REPL keeps the last value."""
        if (transcript := self._transcripts.get(evaluation.id)) is not None:
            transcript.keep_cut(cut, is_kept=True)

    def _printed(self, text: str, repl: Repl, evaluation: Evaluation | None, *, is_error: bool) -> None:
        """Put output into the log, and note it if nobody waits for its evaluation any more."""
        line = self._record(_category(evaluation, is_error=is_error), text, repl, evaluation)
        if repl.phase == "connected" and (evaluation is None or evaluation.over):
            source = evaluation.id if evaluation else repl.key
            self._transcripts.late.add(source, text, line, is_evaluation=evaluation is not None)

    def _record(
        self, category: Category, text: str, repl: Repl, evaluation: Evaluation | None, namespace: str | None = None
    ) -> int:
        """Put a REPL's text into the log; its line there."""
        now = self._core.now()
        if evaluation is None:
            return self._logbook.record(Entry(NO_LINE, category, text, now, namespace=namespace, session_key=repl.key))
        key = repl.session_key(evaluation.session)
        return self._logbook.record(Entry(NO_LINE, category, text, now, evaluation.who, namespace, key, evaluation.id))

    def end(self, repl_id: str) -> None:
        """Record the held-back output of a REPL that is gone."""
        repl = self._core.state.repls.get(repl_id)
        for stream, rest in self._logbook.flush_chunks(repl_id):
            if rest and repl is not None:
                self._record(_category(None, is_error=stream.endswith("err")), rest, repl, None)

    def forget(self, repl_id: str) -> None:
        """Forget an application's sensitive texts: its REPL is gone, and its evaluations are over."""
        self._logbook.forget_sensitive(repl_id)

    def wake_waiters(self, effect: WakeWaiters) -> None:
        """Wake all who wait for a changed evaluation; after its end, record its held-back output."""
        transcript = self._transcripts.get(effect.evaluation)
        if transcript is None:
            return
        evaluation = self._core.state.evaluations[effect.evaluation]
        if evaluation.over:
            repl = self._core.state.repls.get(evaluation.repl)
            if effect.evaluation in self._updates:
                for update in self._updates.pop(effect.evaluation).values():
                    text = transcript.add_value(text_of(update.bundle))
                    if repl is not None:
                        self._record("evaluationResults", text, repl, evaluation)
            for rest, is_error in transcript.end_streams():
                if repl is not None:
                    self._record(_category(evaluation, is_error=is_error), rest, repl, evaluation)
            self._transcripts.mark_over(effect.evaluation)
        transcript.signal()

    def process_said(self, repl_id: str, stream: str, text: str) -> None:
        """Take output of a REPL's process that came past its connection."""
        repl = self._core.state.repls.get(repl_id)
        text = self._logbook.clean_chunk(repl_id, f"process {stream}", text)
        if repl is None or not text.strip():
            return
        self._printed(text, repl, None, is_error=stream == "err")
        if repl.phase == "starting":
            self._core.report(actions.ReplProgress(repl_id, text.strip().splitlines()[-1][:300]))


def _category(evaluation: Evaluation | None, *, is_error: bool) -> Category:
    if evaluation is None:
        return "otherErrorOutput" if is_error else "otherOutput"
    return "evaluationErrorOutput" if is_error else "evaluationOutput"


class Faults:
    """Latches the faults met in one server, for its life."""

    def __init__(self, core: Core) -> None:
        self._core = core

    def latch(self, what: str, error: Exception) -> str:
        """Remember that codriver itself failed in `what`; the fault in words, for those concerned."""
        text = f"codriver itself failed in {what}: {_words(error)}"
        logger.error("%s", text, exc_info=error)
        try:
            self._core.report(actions.LatchError("internal-error", text), actions.Say(text, error=True))
        except Exception:
            logger.exception("this could not be put into the log")
        return text


def _words(error: BaseException) -> str:
    """The fault in words: of a group of faults, the first."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return f"{type(error).__name__}: {error}"


RENEW_S: Final = 20.0
"""A third of the lease that a stream has in the application: two renewals may come late."""
MOST_IN_WINDOW: Final = 200
WINDOW_S: Final = 1.0
KNOWN: Final = 2000
"""The number of a REPL's events that are recognised in another stream: as many as the app log holds."""


@dataclass(slots=True)
class _Intake:
    """The events taken from one connection of a REPL: their number in this second, and their ids."""

    generation: int
    known: Recent[int, None] = field(default_factory=partial(Recent, KNOWN))
    is_open: bool = False
    kept: int = 0
    unkept: Counter[str] = field(default_factory=Counter)


class AppEventRecorder:
    """Records the events of applications' streams, for the life of one server: so many events a second for each REPL.

    One event tells the number of the rest, and of those lost from a queue in the application. An event that several
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
        stream = str(frame.get("sub"))
        intake.unkept[stream] += as_int(frame.get("dropped")) or 0
        for told in as_list(frame.get("events")):
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
        self._log.record(event)

    async def _close(self, repl_id: str) -> None:
        """At the end of a second, tell the number of events not kept."""
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
        """Record that a stream ended, as an event of its topic, which wakes all who wait for its events."""
        stream, repl = effect.stream, self._core.state.repls.get(effect.stream.repl)
        text = f"{stream.id} ({stream.topic}) of {stream.who} is over: {effect.why}; watch_app again once it is back"
        op = "stream" if stream.topic == "trace" else OPS.get(stream.topic, stream.topic)
        key = repl.key if repl else None
        self._log.record(AppEvent(text, self._core.now(), op=op, name="stream-over", session_key=key))


def read_event(told: object, session_key: str) -> AppEvent | None:
    """The event in a REPL's words; None for other words. See `AppEvents` for the shape."""
    if not isinstance(told, dict) or not isinstance(told.get("line"), str):
        return None
    by, time, cause = mapping_of(told, "origin"), as_number(told.get("time")), told.get("dispatchId")
    return AppEvent(
        told["line"],
        round((time or 0) * 1000),
        op=untrusted.text_of(told, "opType") or None,
        name=untrusted.text_of(told, "operation") or None,
        frame=untrusted.text_of(told, "frame") or None,
        cause=cause if isinstance(cause, str) else as_int(cause),
        ms=as_number(told.get("ms")),
        app_id=as_int(told.get("id")),
        who=untrusted.text_of(by, "who") or None,
        evaluation=untrusted.text_of(by, "evaluation") or None,
        session_key=session_key,
    )


class AppStreamKeeper:
    """Performs the effects on streams, through the adapters of one server."""

    def __init__(self, core: Core, adapters: Mapping[str, Adapter]) -> None:
        self._core = core
        self._adapters = adapters

    async def renew(self, effect: RenewAppStream) -> None:
        """Renew a stream after a while, and report whether the application still has it."""
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
                is_there = True  # the REPL is busy, and is asked again
            except (CodriverError, ValueError) as error:
                logger.info("renewing the stream %s of %s: %s", stream.id, stream.repl, error)
        self._core.resume(effect, is_there)

    async def end(self, effect: EndAppStream) -> None:
        """End a stream in the application, if the application can still be reached."""
        stream = effect.stream
        repl, adapter = self._core.state.repls.get(stream.repl), self._adapters.get(stream.repl)
        if repl is None or adapter is None or repl.generation != stream.generation:
            return
        try:
            await adapter.ask_seam("unsubscribe", json.dumps({"subId": stream.id}))
        except CodriverError as error:
            logger.info("ending the stream %s of %s: %s", stream.id, stream.repl, error)


MAX_VALUE_BYTES: Final = 32 * 2**20
"""The length at which a REPL is asked to stop printing: far above an answer's length, as callers can ask for more."""


class Runner:
    """Runs the evaluations of one server, for its life. `adapters` are the connected ones at any moment.

    `spawn` runs a function in a task of its own; its faults end only that task. `clear` takes secrets out.
    """

    def __init__(
        self,
        core: Core,
        faults: Faults,
        adapters: Mapping[str, Adapter],
        interrupter: Interrupter,
        spawn: Spawn,
        clear: Callable[[Failure], Failure],
    ) -> None:
        self._core = core
        self._faults = faults
        self._adapters = adapters
        self._interrupter = interrupter
        self._spawn = spawn
        self._clear = clear
        self._running: dict[str, asyncio.TimerHandle] = {}
        """The time limit of each evaluation."""
        self._overlong: dict[str, str] = {}
        """The reason in words for each evaluation being ended for its time."""

    def begin(self, effect: dispatch.RunEvaluation) -> None:
        """Run an evaluation. Its end is always reported; by the life of the connection if that ends first."""
        evaluation = effect.request.id
        adapter = self._adapters.get(effect.repl)
        if adapter is None:
            return
        loop = asyncio.get_running_loop()
        self._running[evaluation] = loop.call_later(effect.max_run_ms / 1000, self._overdue, effect)
        ended = partial(self._ended, evaluation)
        try:
            adapter.start_evaluation(effect.request, ended, _limits(effect))
        except SessionNotOpenError as error:
            if self._opens_session(effect):
                self._spawn(f"opening a session for the evaluation {evaluation}", self._begin_in_session, effect)
            else:
                asyncio.get_running_loop().call_soon(ended, error)
        except Exception as error:  # noqa: BLE001  # all who wait for the end must be told, whatever happened
            # The dispatch that asked for this is not over yet.
            asyncio.get_running_loop().call_soon(ended, error)

    def _opens_session(self, effect: dispatch.RunEvaluation) -> bool:
        """Whether its first evaluation opens its session in the REPL, as for lanes."""
        if effect.request.background:
            return True
        repl = self._core.state.repls.get(effect.repl)
        session = repl.sessions.get(effect.request.session) if repl else None
        return session is not None and session.lane is not None

    async def _begin_in_session(self, effect: dispatch.RunEvaluation) -> None:
        """Open the evaluation's session, and run it there."""
        evaluation, adapter = effect.request.id, self._adapters.get(effect.repl)
        if adapter is None:
            return
        ended = partial(self._ended, evaluation)
        try:
            await adapter.open_session(effect.request.session, shares_names=True)
            if evaluation in self._running:
                adapter.start_evaluation(effect.request, ended, _limits(effect))
        except Exception as error:  # noqa: BLE001  # as in `begin`
            ended(error)

    def _ended(self, evaluation: str, how: Ending | Exception) -> None:
        self._running.pop(evaluation).cancel()
        why = self._overlong.pop(evaluation, None)
        if isinstance(how, ReplDisconnectedError):
            return  # the life of the connection ends all its evaluations at once, with the cause
        try:
            self._core.report(_ending(evaluation, how, self._clear, notes=(why,) if why else ()))
        except Exception as error:  # noqa: BLE001  # as above
            text = self._faults.latch(f"the evaluation {evaluation}", error)
            failure = Failure("internal-error", f"{text}; the code was sent and {MAY_HAVE_RUN}")
            self._core.report(actions.EvaluationEnded(evaluation, "failed", failure=failure))

    def _overdue(self, effect: dispatch.RunEvaluation) -> None:
        self._spawn(f"ending the evaluation {effect.request.id}", self._end_overlong, effect)

    async def _end_overlong(self, effect: dispatch.RunEvaluation) -> None:
        """Interrupt an evaluation that ran too long, and say so, whatever the outcome."""
        evaluation = effect.request.id
        session = self._core.state.evaluations[evaluation].place
        why = f"it ran longer than the run limit of {effect.max_run_ms / 1000:g} s"
        await self._interrupter.keep_stacks(evaluation, effect.repl, session)
        adapter = self._adapters.get(effect.repl)
        if adapter is None or evaluation not in self._running:
            return
        self._overlong[evaluation] = f"{why} and was interrupted"
        try:
            done = await adapter.interrupt(session)
        except CodriverError as error:
            text = f"{why} and could not be interrupted: {error}"
            if evaluation in self._overlong:  # the evaluation may still end by itself
                self._overlong[evaluation] = text
            self._core.report(actions.LatchError("run-limit", text), actions.Say(text, error=True))
            return
        notes = (f"{why} and was interrupted ({done.outcome})", *([done.note] if done.note else []))
        self._core.report(actions.EvaluationEnded(evaluation, "interrupted", notes=notes))


def _limits(effect: dispatch.RunEvaluation) -> PrintLimits:
    """The limits of the request, else those for such callers, else those of the settings."""
    length, depth = effect.request.max_length, effect.request.max_depth
    default = effect.request.default_limits or PrintLimits(effect.max_length, effect.max_depth)
    return PrintLimits(
        length or default.max_length, depth or default.max_depth, MAX_VALUE_BYTES, length is not None, depth is not None
    )


def _ending(
    evaluation: str, how: Ending | Exception, clear: Callable[[Failure], Failure], *, notes: tuple[str, ...]
) -> actions.EvaluationEnded:
    """The action that reports an end. A fault of ours is raised again; its words are in the latch."""
    if isinstance(how, CodriverError):
        failure = Failure(getattr(how, "reason", type(how).__name__), str(how))
        return actions.EvaluationEnded(evaluation, "failed", failure=failure, notes=notes)
    if isinstance(how, Exception):
        raise how
    notes = (*how.notes, *notes)
    cleared = how.failure and clear(how.failure)
    return actions.EvaluationEnded(evaluation, how.status, how.namespace, cleared, notes, how.said)
