"""The recorder of REPL events, which writes them to the transcripts of evaluations and to the log."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any, Final

from codriver.core import actions
from codriver.core.evaluation_queue import next_evaluation_id
from codriver.core.evaluations import Evaluation, Failure
from codriver.core.records import Recent
from codriver.core.requests import SUMMARIZED_KINDS
from codriver.log.log_entries import UNASSIGNED_LINE, Category, Entry
from codriver.repls.contract.display_data import Display, bundle_text
from codriver.repls.contract.events import (
    Event,
    FeatureReport,
    ForeignCodeFinished,
    ForeignCodeStarted,
    InputNeeded,
    Output,
    SensitiveValues,
    Value,
    ValueStored,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from codriver.core.dispatch import Core
    from codriver.core.effects import WakeWaiters
    from codriver.core.state import Repl
    from codriver.log.evaluation_transcripts import Transcripts
    from codriver.log.logbook import Logbook

MAX_OTHER_EVALUATIONS: Final = 1000
"""Maximum number of other clients' evaluations to which late output is still attributed."""

LATE_VALUE_PREFIX: Final = "a value was received after the evaluation had finished, so it is not in the result: "
"""Prefix of a logged value that was received after its evaluation had finished."""


class EventRecorder:
    """Records events from all of a server's REPLs in the transcripts of evaluations and in the log."""

    def __init__(self, core: Core, logbook: Logbook, transcripts: Transcripts) -> None:
        self._core = core
        self._logbook = logbook
        self._transcripts = transcripts
        self._others: Recent[tuple[str, str], str] = Recent(MAX_OTHER_EVALUATIONS)
        """The ids of evaluations started by other clients, by REPL and the id in its adapter's events."""
        self._updates: dict[str, dict[str, Display]] = {}
        """The last update of each display, by running evaluation and display id."""
        self.listeners: Mapping[str, Callable[[str, str | None, str], None]] = {}
        """The functions that receive reports from REPLs, by report name. See `server_hooks.Report`.

        They are set once, before the server starts listening.
        """

    def receive(self, repl_id: str, evaluation_id: str | None, event: Event) -> None:
        """Record an event from a REPL in the transcript of its evaluation and in the log."""
        event_id = evaluation_id
        if self._others and (repl_id, event_id) in self._others:
            evaluation_id = self._others[repl_id, str(event_id)]
        state = self._core.state
        evaluation = state.evaluations.get(evaluation_id) if evaluation_id else None
        repl = state.repls.get(repl_id)
        match event:
            case Value():
                if repl is not None:
                    resolved = replace(event, text=bundle_text(event.bundle)) if event.bundle else event
                    self._process_value(resolved, repl, evaluation)
            case Output():
                if repl is not None:
                    self._process_output(event, repl, evaluation)
            case Display():
                if repl is not None:
                    self._process_display(event, repl, evaluation)
            case ForeignCodeStarted():
                self._start_foreign_code(repl_id, str(event_id), event.code)
            case FeatureReport() | SensitiveValues():
                self._process_unassigned(event, repl_id, evaluation.id if evaluation is not None else None)
            case _:
                if evaluation is not None:
                    self._process_silent(event, evaluation)

    def _process_silent(self, event: InputNeeded | ValueStored | ForeignCodeFinished, evaluation: Evaluation) -> None:
        """Process an event that contains no text for the log."""
        if isinstance(event, InputNeeded):
            self._core.report(actions.InputRequested(evaluation.id))
        elif isinstance(event, ValueStored):
            self._mark_stored(evaluation, event.cut)
        else:
            failure = event.failure and self.redact_failure(event.failure)
            self._core.report(actions.EvaluationFinished(evaluation.id, event.status, failure=failure))

    def _process_unassigned(
        self, event: FeatureReport | SensitiveValues, repl_id: str, evaluation_id: str | None
    ) -> None:
        """Process an event that may not belong to any evaluation."""
        if isinstance(event, FeatureReport):
            self.listeners[event.name](repl_id, evaluation_id, event.text)
        else:
            self._logbook.add_sensitive_strings(repl_id, event.values)

    def redact_failure(self, failure: Failure) -> Failure:
        """Return a copy of the failure without secrets.

        A failure is stored for longer than the application's secrets are known, so it cannot be redacted later.
        """

        def clear(value: Any) -> Any:
            if isinstance(value, tuple):
                return tuple(map(clear, value))
            return self.redact_failure(value) if isinstance(value, Failure) else self._transcripts.redact(value)

        return replace(failure, **{field.name: clear(getattr(failure, field.name)) for field in fields(failure)})

    def _start_foreign_code(self, repl_id: str, event_id: str, code: str) -> None:
        """Record an evaluation that another client started, which is then treated like one of Codriver's."""
        evaluation = next_evaluation_id(self._core.state)
        self._others[repl_id, event_id] = evaluation
        self._transcripts.open(evaluation, code=code)
        self._core.report(actions.ExternalEvaluationStarted(repl_id, evaluation, code))

    def _process_output(self, event: Output, repl: Repl, evaluation: Evaluation | None) -> None:
        is_error = event.stream == "err"
        transcript = self._transcripts.get(evaluation.id) if evaluation else None
        if transcript is None:
            text = self._logbook.redact_chunk(repl.id, event.stream, event.text)
        else:
            text = (transcript.err if is_error else transcript.out).append(event.text)
        if text:
            self._record_output(text, repl, evaluation, is_error=is_error)

    def _process_value(self, event: Value, repl: Repl, evaluation: Evaluation | None) -> None:
        text = event.text
        if evaluation is not None and (event.is_late or evaluation.is_finished):
            # The result was already returned, or is about to be. A repeated request must get the same answer.
            self._record("otherOutput", LATE_VALUE_PREFIX + text, repl, evaluation, namespace=event.namespace)
            return
        if evaluation is not None and (transcript := self._transcripts.get(evaluation.id)) is not None:
            text = transcript.add_value(text)
            if evaluation.kind in SUMMARIZED_KINDS:
                return  # the log describes its end instead
            transcript.server_cut |= event.truncated
            if event.cut:
                transcript.record_truncation(event.cut, is_stored=event.is_stored)
        self._record("evaluationResults", text, repl, evaluation, namespace=event.namespace)

    def _process_display(self, event: Display, repl: Repl, evaluation: Evaluation | None) -> None:
        """Record display data as a value.

        If a display is updated repeatedly, like a progress bar, only its last state is recorded.
        """
        if evaluation is not None and evaluation.kind == "run-tests":
            text = self._transcripts.redact(bundle_text(event.bundle))
            self._record("evaluationResults", str(text), repl, evaluation)
        elif event.is_update and evaluation is not None and not evaluation.is_finished:
            self._updates.setdefault(evaluation.id, {})[event.display_id] = event
        elif not event.is_update or evaluation is not None:
            self._process_value(Value(bundle_text(event.bundle)), repl, evaluation)

    def _mark_stored(self, evaluation: Evaluation, cut: str) -> None:
        """Record in the transcript that the REPL retains the last value, which was truncated when printed."""
        if (transcript := self._transcripts.get(evaluation.id)) is not None:
            transcript.record_truncation(cut, is_stored=True)

    def _record_output(self, text: str, repl: Repl, evaluation: Evaluation | None, *, is_error: bool) -> None:
        """Record output in the log. If its evaluation is unknown or finished, also queue it as late output."""
        line = self._record(_category(evaluation, is_error=is_error), text, repl, evaluation)
        if repl.phase == "connected" and (evaluation is None or evaluation.is_finished):
            source = evaluation.id if evaluation else repl.key
            self._transcripts.late.add(source, text, line, is_evaluation=evaluation is not None)

    def _record(
        self, category: Category, text: str, repl: Repl, evaluation: Evaluation | None, namespace: str | None = None
    ) -> int:
        """Add a string from a REPL to the log, and return the number of its line."""
        now = self._core.now()
        if evaluation is None:
            return self._logbook.record(
                Entry(UNASSIGNED_LINE, category, text, now, namespace=namespace, session_key=repl.key)
            )
        key = repl.session_key(evaluation.session)
        return self._logbook.record(
            Entry(UNASSIGNED_LINE, category, text, now, evaluation.who, namespace, key, evaluation.id)
        )

    def flush_output(self, repl_id: str) -> None:
        """Record the remaining buffered output from a REPL after its connection has ended."""
        repl = self._core.state.repls.get(repl_id)
        for stream, rest in self._logbook.flush_chunks(repl_id):
            if rest and repl is not None:
                self._record(_category(None, is_error=stream.endswith("err")), rest, repl, None)

    def remove_sensitive_values(self, repl_id: str) -> None:
        """Remove the stored sensitive values of an application after its REPL and evaluations have ended."""
        self._logbook.remove_sensitive_strings(repl_id)

    def wake_waiters(self, effect: WakeWaiters) -> None:
        """Wake all tasks waiting for an evaluation to change.

        If the evaluation has finished, its buffered output is recorded first.
        """
        transcript = self._transcripts.get(effect.evaluation)
        if transcript is None:
            return
        evaluation = self._core.state.evaluations[effect.evaluation]
        if evaluation.is_finished:
            repl = self._core.state.repls.get(evaluation.repl)
            if effect.evaluation in self._updates:
                for update in self._updates.pop(effect.evaluation).values():
                    text = transcript.add_value(bundle_text(update.bundle))
                    if repl is not None:
                        self._record("evaluationResults", text, repl, evaluation)
            for rest, is_error in transcript.end_streams():
                if repl is not None:
                    self._record(_category(evaluation, is_error=is_error), rest, repl, evaluation)
            self._transcripts.mark_finished(effect.evaluation)
        transcript.notify_change()

    def receive_process_output(self, repl_id: str, stream: str, text: str) -> None:
        """Record output that a REPL's process wrote to its own stdout or stderr."""
        repl = self._core.state.repls.get(repl_id)
        text = self._logbook.redact_chunk(repl_id, f"process {stream}", text)
        if repl is None or not text.strip():
            return
        self._record_output(text, repl, None, is_error=stream == "err")
        if repl.phase == "starting":
            self._core.report(actions.ReplProgress(repl_id, text.strip().splitlines()[-1][:300]))


def _category(evaluation: Evaluation | None, *, is_error: bool) -> Category:
    if evaluation is None:
        return "otherErrorOutput" if is_error else "otherOutput"
    return "evaluationErrorOutput" if is_error else "evaluationOutput"
