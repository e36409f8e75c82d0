"""The answer about an evaluation: its result, output and failure so far, and the notes of its advisers.

An adviser is a function that gives the notes of one kind. The advisers that suit the evaluation's status are asked in
one loop, each with the same arguments, in the order of their notes in an answer.
"""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, get_args

from codriver.core import caller_names, evaluation_queue
from codriver.core.actions import RunningReported
from codriver.core.state import Seen
from codriver.core.values import LIVE, NOT_LISP, OCCUPYING, EvaluationStatus
from codriver.errors import refused
from codriver.repls.contract.adapter_values import LOAD_IT, NAMESPACE_MISSING, READING
from codriver.tools.answers.answer_budget import MOST_IMAGE_BYTES, Images, budget, image_files, images_for, shorten
from codriver.tools.answers.answer_notes import (
    Asking,
    fails_again,
    notes_of_background,
    notes_of_generation,
    notes_of_others,
    notes_of_place,
    notes_of_repetition,
    with_notes,
)
from codriver.tools.answers.answer_texts import fill_in_texts, look_for_images
from codriver.tools.answers.drift_notes import drift_or_none, is_of, notes_of_missing_module, notes_of_use
from codriver.tools.answers.file_editors import with_editor
from codriver.tools.answers.lean_answers import AGAIN, LOOK_IN_FRAMES, innermost_place, lean, reader_of, wants_detail
from codriver.tools.answers.new_output import FROM, NOTHING_NEW, Telling
from codriver.tools.answers.source_lines import excerpt_of
from codriver.tools.calls.answer import STRINGS, Answer
from codriver.tools.calls.evaluation_waits import queue_notes, way_to_end
from codriver.tools.calls.ipython_syntax import python_equivalent

if TYPE_CHECKING:
    from codriver.core.values import Evaluation, Failure
    from codriver.tools.answers.lean_answers import Evaluating
    from codriver.tools.calls.arguments import Schema
    from codriver.tools.calls.call import Call


EVALUATION: dict[str, Schema | str] = {
    "evaluationId": "string",
    "status": "string",
    "result": "string",
    "values": STRINGS,
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
    "notes": STRINGS,
    "otherWhosSinceLast": STRINGS,
    "error": {"type": "object"},
}
"""The schema of an answer about an evaluation, by the keys of its fields."""

SOURCE_LINES: Final = 10
"""Lines of a function that the answer about an error shows whole."""
SOURCE_AROUND: Final = 2
"""Lines shown around the statement in a longer function."""
IMAGE_WAY = "get_evaluation with part image-{number} gives it"
"""The way to get more images of an evaluation."""


async def describe(
    call: Call,
    evaluation: Evaluation,
    asked: Evaluating,
    *,
    max_images: int = 0,
    max_bytes: int | None = None,
    notes: tuple[str, ...] = (),
    own_session: str | None = None,
) -> Answer:
    """Return the answer that tells an evaluation's standing: its result and output so far.

    It leaves out facts that its reader knows, unless `asked` wants detail. `max_bytes`: of text; None: as many as any
    answer has. `own_session`: the key of the session that the reader gets without naming any, if known.
    """
    transcript = call.services.transcripts.get(evaluation.id)
    max_bytes = budget(call) if max_bytes is None else max_bytes
    described = partial(
        _described, call, evaluation, asked, images_for(call, max_images, IMAGE_WAY), max_bytes, notes, own_session
    )
    telling = partial(Telling, call, transcript, asked, reads_input=evaluation.status == "needs-input")
    if transcript is None or not transcript.has_printed:
        return await described(telling())
    async with transcript.turn:
        return await described(telling())


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
    """Return the answer of `describe`, with the news of `telling`."""
    transcript = telling.transcript
    fields, session = _standing(call, evaluation)
    if evaluation.failure:
        fields["error"] = error = _error(call, evaluation.failure, max_bytes // 2)
        max_bytes -= min(max_bytes // 2, len(json.dumps(error, ensure_ascii=False)))
    if cell := await call.services.ledger.cells.describe(evaluation):
        fields["cell"] = cell[0]
    left_out: list[str] = []
    began: dict[str, int] = {}
    if transcript is not None:
        left_out = await fill_in_texts(fields, transcript, images, max_bytes, telling)
        fields |= (began := telling.begins())
    if namespace := evaluation.namespace:
        fields["ns"] = namespace
    if others := others_since(call, evaluation):
        fields["otherWhosSinceLast"] = others
    who = _who_asks(call, evaluation, asked)
    reader = reader_of(call, asked, who, evaluation, session, own_session)
    stands = Seen(evaluation.generation, namespace or reader.namespace_seen)
    repl = call.services.core.state.repls.get(evaluation.repl)
    asking = Asking(call, evaluation, repl, who, session, stands, telling, tuple(left_out), cell, notes)
    fields["notes"] = await notes_for(asking)
    if evaluation.status in OCCUPYING and not evaluation.is_answered and call.belongs_to(evaluation, who):
        call.dispatch(RunningReported(evaluation.id))
    failed = evaluation.status in ("failed", "lost", "interrupted")
    if failed:
        fields["reason"], fields["hint"] = _reason(call, evaluation)
        if transcript is not None and fails_again(call, evaluation, transcript):
            fields["hint"] = hint_again(call, evaluation) or fields["hint"]
    is_named = not asking.is_same or fields["notes"] != asking.repetition
    shown = fields if wants_detail(call, asked) else lean(fields, reader, is_named=is_named)
    if failed and shown is not fields:
        shown = await _with_source(call, evaluation, fields, shown)
    telling.take_back(fields, shown)
    if began and not shown.keys() & FROM.keys():  # a part was told before, and this answer has nothing of any stream
        shown = with_notes(shown, [NOTHING_NEW])
    return Answer(shown, ok=not failed, images=tuple(images.taken), handed_out=telling.handed_out)


def _who_asks(call: Call, evaluation: Evaluation, asked: Evaluating) -> str:
    """The caller of a question: without a `who`, a client that asks about its own evaluation counts as its caller."""
    is_by_caller = evaluation.client == call.client and asked.who is None
    return evaluation.who if is_by_caller else call.who(asked.who)


async def _with_source(
    call: Call, evaluation: Evaluation, fields: Mapping[str, object], shown: dict[str, object]
) -> dict[str, object]:
    """Return an answer with the lines of the project's file in which its error was raised.

    A file that was edited since its load has other lines than the code that ran, and is not shown.
    """
    error, short = fields.get("error"), shown.get("error")
    if not isinstance(error, dict) or not isinstance(short, dict):
        return shown
    place = innermost_place(error, str(call.services.workspace))
    if place is None or not place[0].endswith(".py") or await _is_edited(call, evaluation, Path(place[0])):
        return shown
    source = partial(excerpt_of, Path(place[0]), place[1], most=SOURCE_LINES, around=SOURCE_AROUND)
    text = await call.services.work.files.run(call.client, source)
    return {**shown, "error": {**short, "source": call.services.log.without_secrets(text)}} if text else shown


async def _is_edited(call: Call, evaluation: Evaluation, file: Path) -> bool:
    repl = call.state.repls.get(evaluation.repl)
    if repl is None or repl.profile is None or "drift" not in repl.profile.capabilities:
        return True  # nobody can tell
    return any(is_of(file, one.module) for one in await drift_or_none(call, repl, "edited"))


def _error(call: Call, failure: Failure, max_bytes: int) -> object:
    """Return a failure as the field of an answer, without secrets, shortened to so many bytes."""
    error, _ = shorten(call.services.transcripts.cleared(failure_json(failure)), max_bytes)
    return error


def _standing(call: Call, evaluation: Evaluation) -> tuple[dict[str, object], str]:
    """Return the fields of an evaluation that are known without its texts; the key of its session."""
    call.evaluations.append(evaluation.id)
    state = call.services.core.state
    session = state.key_of(evaluation)
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
    """Return a failure under the keys of an answer; unknown ones are absent."""
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
    """The others who evaluated in this session, or in a lane beside it, since the same caller's last evaluation."""
    repl = call.services.core.state.repls.get(evaluation.repl)
    session = repl.sessions.get(evaluation.session) if repl else None
    if repl is None or session is None:
        return []
    newest = repl.in_common(session).last_evaluation_by
    if len(newest) == 1 and evaluation.who in newest:
        return []
    since = {who: number for who, number in newest.items() if who != evaluation.who and number > evaluation.previous}
    return sorted(who for who, number in since.items() if not _is_unnamed(call, evaluation, number))


def _is_unnamed(call: Call, evaluation: Evaluation, number: int) -> bool:
    """True if the evaluation of this number came over the same connection before the caller had a name."""
    state = call.services.core.state
    other = state.evaluations.get(evaluation_queue.id_of(state, number))
    of = (other.client, other.who) if other is not None else (None, "")
    return caller_names.is_by_caller(state, evaluation.client, evaluation.who, of) and evaluation.client is not None


async def one_image(call: Call, evaluation: Evaluation, number: int) -> Answer:
    """Return the answer that is one image of an evaluation's values, by its number there.

    Raises:
        RefusedError: there is no such image.
    """
    transcript = call.services.transcripts.get(evaluation.id)
    most, keep = min(1, call.services.live.settings.max_images), image_files(call)
    images = Images(most, "", max_bytes=MOST_IMAGE_BYTES, number=number, keep=keep)
    if transcript is not None:
        await look_for_images(transcript, images)
    if images.files:
        return Answer({"evaluationId": evaluation.id, "status": evaluation.status, "text": images.files[0]})
    if not images.taken:
        raise refused(
            "forgotten",
            f"evaluation {evaluation.id} has no image {number} that can be sent: {images.seen} are in its values",
            hint="a larger one than 9 MB, or what the setting maxImages forbids, is saved to a file by code",
        )
    return Answer({"evaluationId": evaluation.id, "status": evaluation.status}, images=tuple(images.taken))


def hint_again(call: Call, evaluation: Evaluation) -> str:
    """The hint at the second failure of the same code or test, by the REPL's abilities; empty for none."""
    repl = call.services.core.state.repls.get(evaluation.repl)
    if repl is None or repl.profile is None:
        return ""
    clauses = [LOOK_IN_FRAMES] if "frame" in repl.profile.capabilities else []
    clauses += [clause for hint in call.services.hooks.hints if (clause := hint(repl))]
    return AGAIN + "; ".join(clauses) if clauses else ""


def _elapsed_ms(call: Call, evaluation: Evaluation) -> int:
    if evaluation.started_at is None:
        return 0
    return max(0, (evaluation.finished_at or call.services.now()) - evaluation.started_at)


def _reason(call: Call, evaluation: Evaluation) -> tuple[str, str]:
    match evaluation.status:
        case "lost":
            is_stopping = evaluation.failure is not None and evaluation.failure.type == "server-stopped"
            reason, look = ("stopping", "") if is_stopping else ("repl-disconnected", "see status; ")
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
    # The server does not know the syntax of a newer Python: then the REPL's own parser finds the error.
    if failure is not None and failure.phase in READING and (way := python_equivalent(failure.source_line)):
        return "syntax-error", f"{way}; nothing was evaluated"
    if failure is not None and failure.phase in READING and (reads_all_first or failure.form == 1):
        return "evaluation-failed", "correct the code and call again; nothing was evaluated"
    return "evaluation-failed", "read error and stderr; what ran before the failing form has taken effect"


STARTS_THREADS: Final = re.compile(r"[Tt]hread|Executor|System/(?:out|err)|Timer|daemon|server|core\.async|log/")
"""Code whose output may come from outside of its evaluation."""
Notes = list[str] | tuple[str, ...]  # by these two types an immediate answer is told from an awaitable
Adviser = Callable[[Asking], Notes | Awaitable[Notes]]


async def _of_its_own(asking: Asking) -> Notes:
    """Return the notes of its REPL or its runner; on files edited since their load, each once."""
    notes, repl = asking.evaluation.notes, asking.repl
    may_use = repl is not None and repl.dialect not in NOT_LISP and asking.evaluation.over
    used = await notes_of_use(asking.call, asking.evaluation) if may_use else []
    if not notes and not used:
        return ()
    own = [note for note in notes if note.endswith(LOAD_IT)]
    edits = [*own, *used]
    told = [await with_editor(asking.call, asking.who, note) for note in asking.telling.news(edits)]
    return [*told, *(note for note in notes if note not in own)]


def _of_cell(asking: Asking) -> Notes:
    """Return the note on outputs on their way into a notebook."""
    return asking.cell[1:] if asking.cell and asking.cell[1] else ()


def _of_texts(asking: Asking) -> Notes:
    """Return the notes on texts that are cut, or forgotten."""
    if asking.telling.transcript is None:
        return ("what it said is forgotten: too much was evaluated since",)
    return asking.left_out


def _of_standing(asking: Asking) -> Notes:
    """Return the note on what to do while an evaluation runs or reads; each caller is told it once."""
    call, evaluation = asking.call, asking.evaluation
    if evaluation.status == "queued":
        return queue_notes(call, evaluation)
    if evaluation.status == "running":
        ends = way_to_end(call, evaluation)
        way = f"it goes on: get_evaluation waits, {ends} ends it"
        profile = asking.repl.profile if asking.repl is not None else None
        way += ", background: true runs code beside it" if profile is not None and profile.runs_concurrently else ""
        return asking.telling.news([way])
    return asking.telling.news([_input_note(call, evaluation)]) if evaluation.status == "needs-input" else ()


def _input_note(call: Call, evaluation: Evaluation) -> str:
    repl = call.state.repls.get(evaluation.repl)
    profile = repl.profile if repl else None
    if profile and "stdin" in profile.capabilities:
        return "the code reads from standard input: give it a line with send_input"
    ends = way_to_end(call, evaluation)
    return f"the code reads from standard input, which this REPL cannot be given: {ends} ends it"


def _of_thread_output(asking: Asking) -> Notes:
    """The note on where threads print to, once for each caller and REPL, of code that seems to start some."""
    repl = asking.repl
    goes_to = repl.profile.thread_output if repl is not None and repl.profile is not None and not repl.owned else ""
    if repl is None or not goes_to or not STARTS_THREADS.search(asking.evaluation.head):
        return ()
    return asking.telling.news([f"what threads and System/out print in {repl.key} goes to {goes_to}"])


def _of_green(asking: Asking) -> Notes:
    """Return the difference of a red test's calls from the previous ones, if found since the last answer."""
    return asking.call.services.ledger.tests.pop_differences(asking.who)


async def _of_missing_module(asking: Asking) -> Notes:
    """Return the note on the workspace's directory with a module that was not found."""
    return await notes_of_missing_module(asking.call, asking.evaluation)


async def _of_features(asking: Asking) -> Notes:
    """Return the notes of features."""
    call, evaluation = asking.call, asking.evaluation
    return [note for hook in call.services.hooks.notes for note in await hook(call, evaluation)]


def _of_tool(asking: Asking) -> Notes:
    """Return the notes of the tool that answers."""
    return asking.given


ADVISERS: Final[tuple[Adviser, ...]] = (
    notes_of_place,
    _of_its_own,
    _of_cell,
    _of_texts,
    notes_of_repetition,
    _of_standing,
    _of_thread_output,
    _of_green,
    notes_of_generation,
    _of_missing_module,
    _of_features,
    _of_tool,
    notes_of_others,
    notes_of_background,
)
"""In the order of an answer's notes: on the subject, then on its outcome, then on events around it."""
_ONLY_OF: Final[Mapping[Adviser, frozenset[EvaluationStatus]]] = MappingProxyType(
    {
        notes_of_repetition: frozenset(get_args(EvaluationStatus)) - LIVE,
        _of_standing: LIVE,
        _of_missing_module: frozenset({"failed"}),
    }
)
ADVISERS_OF: Final[Mapping[EvaluationStatus, tuple[Adviser, ...]]] = MappingProxyType(
    {
        status: tuple(one for one in ADVISERS if status in _ONLY_OF.get(one, (status,)))
        for status in get_args(EvaluationStatus)
    }
)
"""The advisers that may have notes on an evaluation, by its status: the others are not asked."""


async def notes_for(asking: Asking) -> list[str]:
    """Return the notes of an answer."""
    said: list[str] = []
    for adviser in ADVISERS_OF[asking.evaluation.status]:
        found = adviser(asking)
        said += found if isinstance(found, list | tuple) else await found
    return said
