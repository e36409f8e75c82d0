"""The answer about an evaluation: its result, output and failure, as far as they go."""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING

from codriver.core import callers, evaluation_queue, lanes
from codriver.core.actions import RunningTold
from codriver.core.state import Seen
from codriver.core.values import HELD
from codriver.errors import RefusedError
from codriver.repls.contract.adapter_values import NAMESPACE_MISSING, READING
from codriver.tools.answers.advisers import Asking, notes_for
from codriver.tools.answers.answer_budget import MOST_IMAGE_BYTES, Images, image_files, images_for, shorten
from codriver.tools.answers.answer_notes import fails_again, with_notes
from codriver.tools.answers.answer_texts import fill_in_texts, look_for_images
from codriver.tools.answers.lean_answers import AND_TRACE, FAILED_AGAIN, lean, reader_of, wants_detail
from codriver.tools.answers.telling import NOTHING_NEW, Telling
from codriver.tools.calls.base import TEXTS, Answer, Call, Schema
from codriver.tools.calls.session_choice import key_of

if TYPE_CHECKING:
    from codriver.core.values import Evaluation, Failure
    from codriver.tools.answers.lean_answers import Evaluating

EVALUATION: dict[str, Schema | str] = {
    "evaluationId": "string",
    "status": "string",
    "result": "string",
    "values": TEXTS,
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
    "notes": TEXTS,
    "otherWhosSinceLast": TEXTS,
    "error": {"type": "object"},
}
"""The schema of an answer about an evaluation, by the keys of its fields."""

IMAGE_WAY = "get_evaluation with part image-{number} gives it"
"""How more images of an evaluation are had."""


class NoImageError(RefusedError):
    """An image that was asked for is not among the values of its evaluation."""

    reason = "forgotten"

    def __init__(self, evaluation: str, number: int, count: int) -> None:
        super().__init__(
            f"evaluation {evaluation} has no image {number} that can be sent: {count} are in its values",
            hint="a larger one than 9 MB, or what the setting maxImages forbids, is saved to a file by code",
        )


async def describe(
    call: Call,
    evaluation: Evaluation,
    asked: Evaluating,
    *,
    max_images: int,
    max_bytes: int,
    notes: tuple[str, ...] = (),
    own_session: str | None = None,
) -> Answer:
    """The answer that says how an evaluation stands: its result and output as far as they go.

    It leaves out what its reader knows, unless `asked` wants detail. `own_session`: the key of the session that the
    reader gets where it names none, if that is known.
    """
    await call.services.ledger.cells.wait_written(evaluation)
    transcript = call.services.transcripts.get(evaluation.id)
    described = partial(
        _described, call, evaluation, asked, images_for(call, max_images, IMAGE_WAY), max_bytes, notes, own_session
    )
    if transcript is None or not transcript.has_printed:
        return await described(Telling(call, transcript, asked))
    async with transcript.turn:
        return await described(Telling(call, transcript, asked))


async def _described(
    call: Call,
    evaluation: Evaluation,
    asked: Evaluating,
    images: Images,
    max_bytes: int,
    notes: tuple[str, ...],
    own_session: str | None,
    telling: Telling,
) -> Answer:
    """The answer that `describe` gives, with what `telling` has not told before."""
    transcript = telling.transcript
    fields, session = _standing(call, evaluation)
    if evaluation.failure:
        fields["error"] = error = _error(call, evaluation.failure, max_bytes // 2)
        max_bytes -= min(max_bytes // 2, len(json.dumps(error, ensure_ascii=False)))
    left_out: list[str] = []
    if transcript is not None:
        left_out = await fill_in_texts(fields, transcript, images, max_bytes, telling)
        fields.update(telling.begins())
    if namespace := evaluation.namespace:
        fields["ns"] = namespace
    if others := others_since(call, evaluation):
        fields["otherWhosSinceLast"] = others
    who = _asking(call, evaluation, asked)
    reader = reader_of(call, asked, who, evaluation, session, own_session)
    stands = Seen(evaluation.generation, namespace or reader.namespace_seen)
    asking = Asking(call, evaluation, who, session, stands, telling, tuple(left_out), notes)
    fields["notes"] = await notes_for(asking)
    if evaluation.status in HELD and not evaluation.is_answered and call.is_own(evaluation, who):
        call.dispatch(RunningTold(evaluation.id))
    failed = evaluation.status in ("failed", "lost", "interrupted")
    if failed:
        fields["reason"], fields["hint"] = _reason(call, evaluation)
        if transcript is not None and fails_again(call, evaluation, transcript):
            fields["hint"] = hint_again(call, evaluation) or fields["hint"]
    is_named = not asking.is_same or fields["notes"] != asking.repetition
    shown = fields if wants_detail(call, asked) else lean(fields, reader, is_cut=bool(left_out), is_named=is_named)
    telling.take_back(fields, shown)
    if telling.is_nothing_new(shown):
        shown = with_notes(shown, [NOTHING_NEW])
    return Answer(shown, ok=not failed, images=tuple(images.taken), handed_out=telling.handed_out)


def _asking(call: Call, evaluation: Evaluation, asked: Evaluating) -> str:
    """The caller of a question: without a `who`, a client asks about its own evaluation as the one who evaluated."""
    is_own = evaluation.client == call.client and asked.who is None
    return evaluation.who if is_own else call.who(asked.who)


def _error(call: Call, failure: Failure, max_bytes: int) -> object:
    """A failure as the field of an answer, without secrets, shortened to so many bytes."""
    error, _ = shorten(call.services.transcripts.cleared(failure_json(failure)), max_bytes)
    return error


def _standing(call: Call, evaluation: Evaluation) -> tuple[dict[str, object], str]:
    """The fields of an evaluation that are known whatever became of its texts; the key of its session."""
    state = call.services.core.state
    session = key_of(state, evaluation)
    fields: dict[str, object] = {
        "evaluationId": evaluation.id,
        "status": evaluation.status,
        "sessionKey": session,
        "who": evaluation.who,
        "generation": evaluation.generation,
        "elapsedMs": _elapsed_ms(call, evaluation),
    }
    if cell := call.services.ledger.cells.told(evaluation.id):
        fields["cell"] = cell[0]
    return fields, session


def failure_json(failure: Failure) -> dict[str, object]:
    """A failure under the keys of an answer; what is not known is absent."""
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


def others_since(call: Call, evaluation: Evaluation) -> list[str]:
    """The others who evaluated in this session, or a lane beside it, since the same caller's evaluation before."""
    repl = call.services.core.state.repls.get(evaluation.repl)
    session = repl.sessions.get(evaluation.session) if repl else None
    if repl is None or session is None:
        return []
    newest = lanes.in_common(repl, session).last_evaluation_by
    if len(newest) == 1 and evaluation.who in newest:
        return []
    since = {who: number for who, number in newest.items() if who != evaluation.who and number > evaluation.previous}
    return sorted(who for who, number in since.items() if not _is_unnamed(call, evaluation, number))


def _is_unnamed(call: Call, evaluation: Evaluation, number: int) -> bool:
    """True where the evaluation of this number came over the same connection before the caller had a name."""
    state = call.services.core.state
    other = state.evaluations.get(evaluation_queue.id_of(state, number))
    of = (other.client, other.who) if other is not None else (None, "")
    return callers.is_own(state, evaluation.client, evaluation.who, of) and evaluation.client is not None


async def one_image(call: Call, evaluation: Evaluation, number: int) -> Answer:
    """The answer that is one image of an evaluation's values, by its number there.

    Raises:
        NoImageError: there is none.
    """
    transcript = call.services.transcripts.get(evaluation.id)
    most, keep = min(1, call.services.settings.max_images), image_files(call)
    images = Images(most, "", max_bytes=MOST_IMAGE_BYTES, number=number, keep=keep)
    if transcript is not None:
        await look_for_images(transcript, images)
    if images.files:
        return Answer({"evaluationId": evaluation.id, "status": evaluation.status, "text": images.files[0]})
    if not images.taken:
        raise NoImageError(evaluation.id, number, images.seen)
    return Answer({"evaluationId": evaluation.id, "status": evaluation.status}, images=tuple(images.taken))


def hint_again(call: Call, evaluation: Evaluation) -> str:
    """The hint at the second failure of the same code or test, by what the REPL can do; empty without frames."""
    repl = call.services.core.state.repls.get(evaluation.repl)
    if repl is None or repl.profile is None or "frame" not in repl.profile.capabilities:
        return ""
    return FAILED_AGAIN + (AND_TRACE if repl.dialect == "python" else "")


def _elapsed_ms(call: Call, evaluation: Evaluation) -> int:
    if evaluation.started_at is None:
        return 0
    return max(0, (evaluation.ended_at or call.services.now()) - evaluation.started_at)


def _reason(call: Call, evaluation: Evaluation) -> tuple[str, str]:
    match evaluation.status:
        case "lost":
            is_stopping = evaluation.failure is not None and evaluation.failure.type == "server-stopped"
            reason, look = ("stopping", "") if is_stopping else ("repl-disconnected", "see list_sessions; ")
            if evaluation.started_at is None:
                return reason, f"{look}nothing of it was sent: evaluate it again"
            return reason, f"{look}codriver never sends code twice, so check what it did before you repeat it"
        case "interrupted":
            return "interrupted", "its output until then is kept; evaluate again when the session is free"
    failure, repl = evaluation.failure, call.state.repls.get(evaluation.repl)
    if failure is not None and failure.type == NAMESPACE_MISSING:
        return "evaluation-failed", "load or require the namespace first, or leave namespace out; nothing was evaluated"
    # Python is parsed whole before any of it runs, Lisp form by form.
    reads_all_first = repl is not None and repl.dialect == "python"
    if failure is not None and failure.phase in READING and (reads_all_first or failure.form == 1):
        return "evaluation-failed", "correct the code and call again; nothing was evaluated"
    return "evaluation-failed", "read error and stderr; what ran before the failing form has taken effect"
