"""Create the answer about an evaluation, with its result, output or failure so far, and notes."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from codriver.core import caller_names, evaluation_queue
from codriver.core.actions import RunningReported
from codriver.core.evaluations import OCCUPYING_STATUSES
from codriver.core.state import ReportedStatus
from codriver.errors import RefusedError, refused
from codriver.repls.contract.events import NAMESPACE_MISSING_TYPE, READING_PHASES
from codriver.tools.answers.answer_budget import default_budget, shorten
from codriver.tools.answers.answer_images import MAX_IMAGE_BYTES, Images, image_collector, image_files
from codriver.tools.answers.answer_notes import AnswerInProgress, fails_again, with_notes
from codriver.tools.answers.answer_texts import add_text, collect_images
from codriver.tools.answers.drift_notes import may_be_file_of_module
from codriver.tools.answers.evaluation_advice import ADVISERS_BY_STATUS
from codriver.tools.answers.lean_answers import (
    FRAMES_HINT,
    SECOND_FAILURE_PREFIX,
    innermost_location,
    make_reader,
    omit_known_fields,
    wants_detail,
)
from codriver.tools.answers.loaded_code_comparison import drift_or_none
from codriver.tools.answers.new_output import NOTHING_NEW_MESSAGE, START_FIELDS, Delivery
from codriver.tools.answers.source_lines import file_excerpt
from codriver.tools.answers.text_parts import matching_output
from codriver.tools.calls.answer import STRINGS_SCHEMA, Answer
from codriver.tools.calls.ipython_syntax import python_equivalent

if TYPE_CHECKING:
    from collections.abc import Mapping

    from codriver.core.evaluations import Evaluation, Failure
    from codriver.log.evaluation_transcripts import Transcript
    from codriver.tools.answers.lean_answers import Evaluating
    from codriver.tools.calls.arguments import Schema
    from codriver.tools.calls.call import Call


EVALUATION_SCHEMA: dict[str, Schema | str] = {
    "evaluationId": "string",
    "status": "string",
    "result": "string",
    "values": STRINGS_SCHEMA,
    "ns": "string",
    "stdout": "string",
    "stderr": "string",
    "from": "integer",
    "stderrFrom": "integer",
    "stacks": "string",
    "sessionKey": "string",
    "who": "string",
    "elapsedMs": "integer",
    "outputLines": {"type": "object"},
    "generation": "integer",
    "notes": STRINGS_SCHEMA,
    "otherWhosSinceLast": STRINGS_SCHEMA,
    "error": {"type": "object"},
}
"""Schema of the fields of an answer about an evaluation."""

MAX_SOURCE_LINES: Final = 10
"""Maximum number of lines in a function that an answer about an error displays in full."""
SOURCE_CONTEXT_LINES: Final = 2
"""Number of lines displayed before and after the statement in a longer function."""
PARTLY_EVALUATED_HINT: Final = "see error and stderr. The forms before the failing one have taken effect"
MORE_IMAGES_HINT = "get_evaluation with part image-{number} returns it"
"""Hint about how to get more of an evaluation's images."""


async def describe_evaluation(
    call: Call,
    evaluation: Evaluation,
    arguments: Evaluating,
    *,
    max_images: int = 0,
    max_bytes: int | None = None,
    notes: tuple[str, ...] = (),
    default_session: str | None = None,
    grep: str | None = None,
) -> Answer:
    """Return the answer about an evaluation: its status, and its result and output so far.

    Fields that the caller already knows are omitted, unless the arguments request detail. `max_bytes` limits the text.
    None means the usual limit. `default_session` is the key of the session that the caller gets by default, if known.
    With `grep`, only the lines of the output that contain this text or regular expression are included.
    """
    transcript = call.services.transcripts.get(evaluation.id)
    max_bytes = default_budget(call) if max_bytes is None else max_bytes
    described = partial(
        _create_answer,
        call,
        evaluation,
        arguments,
        image_collector(call, max_images, MORE_IMAGES_HINT),
        max_bytes,
        notes,
        default_session,
    )
    delivery = partial(Delivery, call, transcript, arguments, reads_input=evaluation.status == "needs-input", grep=grep)
    if transcript is None or not transcript.has_printed:
        return await described(delivery())
    async with transcript.answer_lock:
        return await described(delivery())


async def _create_answer(
    call: Call,
    evaluation: Evaluation,
    arguments: Evaluating,
    images: Images,
    max_bytes: int,
    notes: tuple[str, ...],
    default_session: str | None,
    delivery: Delivery,
) -> Answer:
    """Create the answer for `describe_evaluation` with the output that `delivery` has not delivered yet."""
    transcript = delivery.transcript
    fields, session = _status_fields(call, evaluation)
    if evaluation.failure:
        fields["error"] = error = _error_field(call, evaluation.failure, max_bytes // 2)
        max_bytes -= min(max_bytes // 2, len(json.dumps(error, ensure_ascii=False)))
    of_outcome: tuple[str, ...] = ()
    for hook in call.services.hooks.describe:
        if (found := await hook(call, evaluation)) is not None:
            fields |= found.fields
            of_outcome += found.notes
    left_out: list[str] = []
    begins_at: dict[str, int] = {}
    if transcript is not None:
        left_out = await _add_text(call, fields, transcript, images, max_bytes, delivery)
        fields |= (begins_at := delivery.start_fields())
    if namespace := evaluation.namespace:
        fields["ns"] = namespace
    if others := other_callers_since(call, evaluation):
        fields["otherWhosSinceLast"] = others
    who = _reader_name(call, evaluation, arguments)
    reader = make_reader(call, arguments, who, evaluation, session, default_session)
    reported_state = ReportedStatus(evaluation.generation, namespace or reader.namespace_seen)
    repl = call.services.core.state.repls.get(evaluation.repl)
    answer = AnswerInProgress(
        call, evaluation, repl, who, session, reported_state, delivery, tuple(left_out), of_outcome, notes
    )
    fields["notes"] = await collect_notes(answer)
    if evaluation.status in OCCUPYING_STATUSES and not evaluation.is_answered and call.belongs_to(evaluation, who):
        call.dispatch(RunningReported(evaluation.id))
    failed = evaluation.status in ("failed", "lost", "interrupted")
    if failed:
        fields["reason"], fields["hint"] = _failure_reason(call, evaluation)
        if transcript is not None and fails_again(call, evaluation, transcript):
            fields["hint"] = second_failure_hint(call, evaluation) or fields["hint"]
    is_named = not answer.is_same or fields["notes"] != answer.repetition
    visible = fields if wants_detail(call, arguments) else omit_known_fields(fields, reader, is_named=is_named)
    if failed and visible is not fields:
        visible = await _with_source(call, evaluation, fields, visible)
    delivery.exclude_omitted(fields, visible)
    if (
        begins_at and not visible.keys() & START_FIELDS.keys()
    ):  # a part was sent before, and this answer has nothing from any stream
        visible = with_notes(visible, [NOTHING_NEW_MESSAGE])
    return Answer(visible, ok=not failed, images=tuple(images.images), handed_out=delivery.on_sent)


async def _add_text(
    call: Call, fields: dict[str, object], transcript: Transcript, images: Images, max_bytes: int, delivery: Delivery
) -> list[str]:
    """Add values and output to the fields of an answer, and return notes about omitted parts."""
    if delivery.grep is None:
        return await add_text(fields, transcript, images, max_bytes, delivery)
    notes = await add_text(fields, transcript, images, max_bytes, delivery, has_output=False)
    try:
        search = partial(matching_output, transcript, delivery.grep, max_bytes=max_bytes)
        matching, notes_on_output = await call.services.work.editing.run(call.client, search)
    except RefusedError as error:  # the code has run, so the answer is still needed
        return [*notes, f"the output is left out: {error}"]
    fields |= matching
    return [*notes, *notes_on_output]


def _reader_name(call: Call, evaluation: Evaluation, arguments: Evaluating) -> str:
    """Return the name of the caller that receives an answer.

    A client that passes no `who` and reads its own evaluation counts as the caller of that evaluation.
    """
    is_by_caller = evaluation.client == call.client and arguments.who is None
    return evaluation.who if is_by_caller else call.who(arguments.who)


async def _with_source(
    call: Call, evaluation: Evaluation, fields: Mapping[str, object], visible: dict[str, object]
) -> dict[str, object]:
    """Add the source lines at which an error was raised to an answer.

    They are left out if the file was edited since it was loaded, because its lines differ from the code that ran.
    """
    error, short = fields.get("error"), visible.get("error")
    if not isinstance(error, dict) or not isinstance(short, dict):
        return visible
    location = innermost_location(error, str(call.services.workspace))
    if location is None or not location[0].endswith(".py") or await is_edited(call, evaluation, Path(location[0])):
        return visible
    text = await raising_lines(call, Path(location[0]), location[1])
    return {**visible, "error": {**short, "source": text}} if text else visible


async def raising_lines(call: Call, file: Path, line: int) -> str:
    """Return the numbered source lines around the line that raised an error, or an empty string if there are none."""
    source = partial(file_excerpt, file, line, most=MAX_SOURCE_LINES, around=SOURCE_CONTEXT_LINES)
    return str(call.services.log.redact(await call.services.work.files.run(call.client, source)))


async def is_edited(call: Call, evaluation: Evaluation, file: Path) -> bool:
    """Return whether a file was edited since the REPL of an evaluation loaded it. If that is unknown, return true."""
    repl = call.state.repls.get(evaluation.repl)
    if repl is None or repl.profile is None or "drift" not in repl.profile.capabilities:
        return True  # unknown
    return any(
        may_be_file_of_module(file, difference.module) for difference in await drift_or_none(call, repl, "edited")
    )


def _error_field(call: Call, failure: Failure, max_bytes: int) -> object:
    """Return a failure as a field of an answer, without secrets and shortened to `max_bytes` bytes."""
    error, _ = shorten(call.services.transcripts.redact(failure_json(failure)), max_bytes)
    return error


def _status_fields(call: Call, evaluation: Evaluation) -> tuple[dict[str, object], str]:
    """Return the fields of an answer that do not depend on an evaluation's text, and the key of its session."""
    call.evaluations.append(evaluation.id)
    state = call.services.core.state
    session = state.evaluation_session_key(evaluation)
    fields: dict[str, object] = {
        "evaluationId": evaluation.id,
        "status": evaluation.status,
        "sessionKey": session,
        "who": evaluation.who,
        "generation": evaluation.generation,
        "elapsedMs": _elapsed_ms(call, evaluation),
    }
    return fields, session


def failure_json(failure: Failure) -> dict[str, object]:
    """Convert a failure to fields of an answer. Fields with unknown values are omitted."""
    pairs = {
        "class": failure.type,
        "message": failure.message,
        "phase": failure.phase,
        "file": failure.file,
        "line": failure.line,
        "column": failure.column,
        "form": failure.form,
        "data": failure.data,
        "notes": list(failure.notes) or None,
        "trace": list(failure.trace) or None,
        "locals": ", ".join(failure.locals) or None,
        "chain": [{"relation": link.relation, **failure_json(link)} for link in failure.chain] or None,
    }
    return {key: value for key, value in pairs.items() if value is not None}


def other_callers_since(call: Call, evaluation: Evaluation) -> list[str]:
    """Return the callers that used this session, or parallel lanes, since the same caller's last evaluation."""
    repl = call.services.core.state.repls.get(evaluation.repl)
    session = repl.sessions.get(evaluation.session) if repl else None
    if repl is None or session is None:
        return []
    newest = repl.with_shared_record(session).last_evaluation_by
    if len(newest) == 1 and evaluation.who in newest:
        return []
    since = {who: number for who, number in newest.items() if who != evaluation.who and number > evaluation.previous}
    return sorted(who for who, number in since.items() if not _is_unnamed(call, evaluation, number))


def _is_unnamed(call: Call, evaluation: Evaluation, number: int) -> bool:
    """Return whether an evaluation was started over the same connection before the caller passed a name."""
    state = call.services.core.state
    other = state.evaluations.get(evaluation_queue.evaluation_id(state, number))
    of = (other.client, other.who) if other is not None else (None, "")
    return caller_names.is_by_caller(state, evaluation.client, evaluation.who, of) and evaluation.client is not None


async def image_answer(call: Call, evaluation: Evaluation, number: int) -> Answer:
    """Return an answer with one image of an evaluation's values, by its number.

    Raises:
        RefusedError: there is no such image.
    """
    transcript = call.services.transcripts.get(evaluation.id)
    most, save = min(1, call.services.live.settings.max_images), image_files(call)
    images = Images(most, "", max_bytes=MAX_IMAGE_BYTES, number=number, save=save)
    if transcript is not None:
        await collect_images(transcript, images)
    if images.files:
        return Answer({"evaluationId": evaluation.id, "status": evaluation.status, "text": images.files[0]})
    if not images.images:
        raise refused(
            "forgotten",
            f"evaluation {evaluation.id} has no image {number} that can be sent. Its values have {images.seen} images",
            hint="If the image is larger than 9 MB, or maxImages forbids it, evaluate code that saves it to a file.",
        )
    return Answer({"evaluationId": evaluation.id, "status": evaluation.status}, images=tuple(images.images))


def second_failure_hint(call: Call, evaluation: Evaluation) -> str:
    """Return a hint for code or a test that has failed twice.

    It is empty if the REPL offers no further means of inspection.
    """
    repl = call.services.core.state.repls.get(evaluation.repl)
    if repl is None or repl.profile is None:
        return ""
    clauses = [FRAMES_HINT] if "frame" in repl.profile.capabilities else []
    clauses += [clause for hint in call.services.hooks.hints if (clause := hint(repl))]
    return SECOND_FAILURE_PREFIX + "; ".join(clauses) if clauses else ""


def _elapsed_ms(call: Call, evaluation: Evaluation) -> int:
    """Return the time for which an evaluation has been running, or ran, in milliseconds."""
    if evaluation.started_at is None:
        return 0
    return max(0, (evaluation.finished_at or call.services.now()) - evaluation.started_at)


def _failure_reason(call: Call, evaluation: Evaluation) -> tuple[str, str]:
    """Return the reason why an evaluation did not succeed, and a hint."""
    match evaluation.status:
        case "lost":
            is_stopping = evaluation.failure is not None and evaluation.failure.type == "server-stopped"
            reason, status_hint = ("stopping", "") if is_stopping else ("repl-disconnected", "see status; ")
            if evaluation.started_at is None:
                return reason, f"{status_hint}the code was not sent. Evaluate it again"
            return reason, f"{status_hint}check what the code did before you repeat it"
        case "interrupted":
            return "interrupted", "the output so far is available. Evaluate the code again when the session is free"
    failure, repl = evaluation.failure, call.state.repls.get(evaluation.repl)
    if failure is not None and failure.type == NAMESPACE_MISSING_TYPE:
        return "evaluation-failed", "nothing was evaluated. Load or require the namespace first, or omit namespace"
    # Python is parsed whole before any of it runs, Lisp form by form.
    reads_all_first = repl is not None and repl.dialect == "python"
    # The server does not know the syntax of a newer Python: then the REPL's own parser finds the error.
    if failure is not None and failure.phase in READING_PHASES and (advice := python_equivalent(failure.source_line)):
        return "syntax-error", f"nothing was evaluated: {advice}"
    if failure is not None and failure.phase in READING_PHASES and (reads_all_first or failure.form == 1):
        return "evaluation-failed", "nothing was evaluated. Correct the code and call again"
    return "evaluation-failed", PARTLY_EVALUATED_HINT


async def collect_notes(answer: AnswerInProgress) -> list[str]:
    """Collect the notes for an answer from all advisers for the evaluation's status."""
    notes: list[str] = []
    for adviser in ADVISERS_BY_STATUS[answer.evaluation.status]:
        if found := adviser(answer):  # most have none
            notes += found if isinstance(found, list | tuple) else await found
    return notes
