"""Write the notes in an answer: on earlier evaluations of the same code, and on other callers' actions."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

from codriver.core import caller_names, lanes, reported_evaluations
from codriver.core.actions import EvaluationsReported
from codriver.core.requests import MAIN_SESSION
from codriver.core.state import first_answer_warnings
from codriver.errors import format_count, join_first, truncate
from codriver.log.evaluation_transcripts import read_transcripts
from codriver.tools.answers.text_parts import is_same_text
from codriver.tools.calls.client_traits import find_traits
from codriver.tools.ledgers.delivered_notes import COMMANDS_CALLER

if TYPE_CHECKING:
    from collections.abc import Sequence

    from codriver.core.evaluations import Evaluation
    from codriver.core.state import Repl, ReportedStatus, State
    from codriver.log.evaluation_transcripts import GrowingText, Part, Transcript
    from codriver.tools.answers.new_output import Delivery
    from codriver.tools.calls.call import Call

COMPARED_PARTS: tuple[Part, ...] = ("result", "stdout", "stderr")
"""Parts of an evaluation that are compared."""
MAX_OTHER_CALLER_LINES = 5
"""Maximum number of lines in an answer about other callers' actions."""
MAX_CODE_CHARACTERS = 60
"""Maximum number of characters of code in a line."""
MAX_LOADED_FILES = 3
"""Maximum number of loaded files named in a line."""
MAX_CAUSE_CHARACTERS = 160
"""Maximum number of characters in the cause of a restart."""
LOAD_KINDS = ("load-file", "load-forms")
"""Kinds of evaluations that load code."""
MAX_SEARCHED_EVALUATIONS = 5
"""Maximum number of earlier evaluations that are searched for the same code."""
MAX_COMPARED_CHARACTERS = 4 * 2**20
"""Maximum length of texts that are compared, which blocks the server for a few milliseconds."""
MAX_COUNTED_CHARACTERS = 256 * 2**10
"""Maximum length of a text whose lines are counted, which takes longer than comparing."""


@dataclass(slots=True)
class AnswerInProgress:
    """An answer about an evaluation while its notes are collected."""

    call: Call
    evaluation: Evaluation
    repl: Repl | None
    """REPL of the evaluation, if it is still known."""
    who: str
    """The caller that receives the answer."""
    session: str
    """Key of the evaluation's session."""
    reported_state: ReportedStatus
    """Generation and namespace that this answer reports."""
    delivery: Delivery
    left_out: tuple[str, ...] = ()
    """Notes about truncated text."""
    of_outcome: tuple[str, ...] = ()
    """Features' notes about the outcome of the evaluation."""
    given: tuple[str, ...] = ()
    """Notes from the tool that answers."""
    repetition: list[str] = field(default_factory=list)
    """A note that compares this evaluation with the last one of the same code. Empty until they are compared."""
    is_same: bool = False
    """Whether result and output equal the previous ones, in which case no further query is expected."""


def other_caller_notes(answer: AnswerInProgress) -> list[str]:
    """Describe what other callers have done since this caller's last call, and record it as reported.

    Returns one line for each action, newest last. The state of the session in this answer is recorded as well.
    """
    call, who, session, reported_state = answer.call, answer.who, answer.session, answer.reported_state
    state = call.services.core.state
    knowledge = reported_evaluations.caller_knowledge(state, call.client, who)
    theirs = reported_evaluations.unreported_evaluations(state, knowledge, call.client, who) if knowledge else []
    if knowledge is None or theirs or not reported_evaluations.is_up_to_date(state, knowledge, session, reported_state):
        call.dispatch(EvaluationsReported(session=session, seen=reported_state), who=who)
    if not theirs:
        return []
    groups = [list(group) for _, group in groupby(theirs, _load_group)]
    lines = [_describe_group(call, group) for group in groups[-MAX_OTHER_CALLER_LINES:]]
    more = sum(len(group) for group in groups[:-MAX_OTHER_CALLER_LINES])
    return [*lines, f"and {format_count(more, 'earlier evaluation')} by others: see repl_output_log"] if more else lines


def background_output_notes(answer: AnswerInProgress) -> list[str]:
    """Describe output from background threads since the caller's last answer, and record it as reported.

    Output from the answer's own evaluation is left out, because the answer contains it.
    """
    call = answer.call
    late_output = call.services.transcripts.late.report((call.client, answer.who))
    if not late_output or not (recent := [late for late in late_output if late.source != answer.evaluation.id]):
        return []
    newest = recent[-1]
    of_it = [late for late in recent if late.source == newest.source]
    count = sum(late.count for late in of_it)
    others = sum(late.count for late in recent) - count
    source = f"evaluation {newest.source}" if newest.is_evaluation else newest.source
    more = f", {others} more from others" if others else ""
    lines = format_count(count, "new line")
    return [f"{lines} from {source}{more}: {of_it[0].head} (repl_output_log with since {recent[0].first_line - 1})"]


def _load_group(evaluation: Evaluation) -> tuple[object, ...]:
    """Return a key for grouping evaluations that are described in one line.

    Successful loads by the same caller in the same session have equal keys.
    """
    if evaluation.kind not in LOAD_KINDS or evaluation.status != "done":
        return (evaluation.id,)
    return evaluation.who, evaluation.repl, evaluation.session


def _describe_group(call: Call, group: Sequence[Evaluation]) -> str:
    """Describe an evaluation, or consecutive successful loads, in one line."""
    evaluation = group[-1]
    how: str = evaluation.status
    if evaluation.failure:
        how += f": {evaluation.failure.type or evaluation.failure.message}"
    where = f"meanwhile {evaluation.who} in {call.state.evaluation_session_key(evaluation)}"
    if evaluation.kind in LOAD_KINDS and evaluation.file:
        files = [_relative_path(record.file or "", call.services.workspace) for record in group]
        return f"{where} loaded {join_first([*dict.fromkeys(files)], MAX_LOADED_FILES)} ({evaluation.id}, {how})"
    code = truncate(" ".join(evaluation.head[: 4 * MAX_CODE_CHARACTERS].split()), MAX_CODE_CHARACTERS)
    return f"{where}: {code} ({evaluation.id}, {how})"


def _relative_path(file: str, workspace: Path) -> str:
    """Return a path relative to the workspace, or unchanged if it is outside."""
    path = Path(file)
    return path.relative_to(workspace).as_posix() if path.is_relative_to(workspace) else file


def first_use_notes(answer: AnswerInProgress) -> list[str]:
    """Return notes for a caller's first evaluation in a REPL that may differ from what the caller expects."""
    call, evaluation, repl, state = answer.call, answer.evaluation, answer.repl, answer.call.services.core.state
    if repl is None:
        return []
    of_session = (
        _shared_session_notes(state, repl, evaluation)
        if evaluation.session == MAIN_SESSION
        else _isolation_notes(state, repl, evaluation)
    )
    notes = [*_project_notes(call, repl, evaluation), *of_session]
    return answer.delivery.new_notes(notes) if notes else notes


def restart_notes(answer: AnswerInProgress) -> list[str]:
    """Return a note for a caller's first answer after a restart of the REPL, because its definitions are gone.

    There is no note until the REPL is ready, because the cause of the restart may still be unknown.
    """
    call, repl, repl_notes = answer.call, answer.repl, answer.call.services.delivered.repls
    if repl is None or repl.phase != "connected" or not repl_notes.record_generation(call.client, answer.who, repl):
        return []
    why = (
        call.services.transcripts.redact_beginning(repl.end_reason, MAX_CAUSE_CHARACTERS, is_whole=True)
        if repl.end_reason
        else ""
    )
    since = f"since your last answer ({why})" if why else "since your last answer"
    if repl.is_owned:
        return [f"{repl.key} was restarted {since}, so its definitions are gone"]
    return [f"{repl.key} was reconnected {since}. It is a new process, without the previous definitions"]


def _isolation_notes(state: State, repl: Repl, evaluation: Evaluation) -> list[str]:
    """Return a note, for the first evaluation in an isolated session, about what the session shares with others."""
    if repl.profile is None or not repl.profile.shares or evaluation.is_background:
        return []
    session = repl.sessions.get(evaluation.session)
    if session is not None and session.lane is not None:
        return []
    key = (evaluation.repl, evaluation.generation, evaluation.session)
    is_first = not any(
        (other.repl, other.generation, other.session) == key
        for other in state.evaluations.values()
        if other.number < evaluation.number
    )
    return [f"this is a session of your own: {repl.profile.shares}"] if is_first else []


def _shared_session_notes(state: State, repl: Repl, evaluation: Evaluation) -> list[str]:
    """Return a note if a caller's first evaluation in a REPL uses the shared session because no lane is free."""
    if evaluation.lane is None or not repl.supports_lanes or not caller_names.is_first_evaluation(state, evaluation):
        return []
    return [f"{repl.key} has reached its limit of {lanes.MAX_LANES} separate sessions, so this session is shared"]


def _project_notes(call: Call, repl: Repl, evaluation: Evaluation) -> list[str]:
    """Return notes about a REPL that belongs to another project, or lacks the project's packages.

    Notes that the caller has already received are left out.
    """
    outside = repl.profile.outside if repl.profile else None
    notes = (*first_answer_warnings(call.services.core.state, repl), outside)
    new_notes = [note for note in notes if note and call.services.delivered.repls.is_new(evaluation, note)]
    remarks = call.services.remarks
    if repl.remark and remarks is not None and remarks.should_report(evaluation.id, repl.remark):
        new_notes.append(repl.remark)
    return new_notes


def with_outside_packages_note(fields: dict[str, object], repl: Repl | None) -> dict[str, object]:
    """Add a note if the REPL imports the project's packages from outside its working tree."""
    outside = repl.profile.outside if repl and repl.profile else None
    return with_notes(fields, [outside] if outside else [])


def with_notes(fields: dict[str, object], more: Sequence[str]) -> dict[str, object]:
    """Add notes to the fields of an answer."""
    notes = fields.get("notes")
    return {**fields, "notes": [*(notes if isinstance(notes, list) else ()), *more]} if more else fields


async def repetition_notes(answer: AnswerInProgress) -> list[str]:
    """Return notes that compare an evaluation with the previous evaluation of the same code in the same session."""
    call, evaluation, transcript = answer.call, answer.evaluation, answer.delivery.transcript
    before, state = transcript.before if transcript is not None else None, call.services.core.state
    if find_traits(call.client_name).reads_whole:  # each command is a new process, and remembers no other
        return answer.repetition
    for _ in range(MAX_SEARCHED_EVALUATIONS):
        if transcript is None or before is None:
            break
        earlier, known = call.services.transcripts.get(before), state.evaluations.get(before)
        if earlier is None or known is None:
            break
        # The reader does not know other callers' evaluations.
        if known.status in ("done", "failed") and _is_by_same_caller(state, evaluation, known):
            compare = partial(_compare_transcripts, evaluation, transcript, known, earlier)
            note, answer.is_same = await read_transcripts(compare, transcript, earlier)
            answer.repetition = [note] if note else []
            break
        before = earlier.before
    return answer.repetition


def fails_again(call: Call, evaluation: Evaluation, transcript: Transcript) -> bool:
    """Return whether the same code from the same caller has failed twice in a row in the same session."""
    failures, state = 0, call.services.core.state
    before: str | None = transcript.before
    while before is not None and failures < 2:
        known, earlier = state.evaluations.get(before), call.services.transcripts.get(before)
        if known is None or earlier is None or known.status != "failed":
            break
        if not _is_by_same_caller(state, evaluation, known):
            break
        before, failures = earlier.before, failures + 1
    return evaluation.status == "failed" and failures == 1


def _is_by_same_caller(state: State, evaluation: Evaluation, known: Evaluation) -> bool:
    if evaluation.who == known.who == COMMANDS_CALLER:
        return True
    return caller_names.is_by_caller(state, evaluation.client, evaluation.who, (known.client, known.who))


def _compare_transcripts(
    evaluation: Evaluation, transcript: Transcript, known: Evaluation, earlier: Transcript
) -> tuple[str, bool]:
    """Compare an evaluation with an earlier one of the same code.

    Returns a note, and whether both have the same result and output. The note is empty if there is nothing to report.
    """
    has_same_outcome = evaluation.status == known.status and not (evaluation.failure and known.failure)
    if has_same_outcome and not _differing_parts(transcript, earlier):
        if evaluation.kind in LOAD_KINDS and not transcript.has_printed:
            return "", True  # the result of a load is only the name of the module or of the last definition
        output = " and output" if transcript.has_printed else ""
        return f"same result{output} as {known.id}", True
    return _describe_difference(evaluation, transcript, known, earlier), False


def _describe_difference(evaluation: Evaluation, transcript: Transcript, known: Evaluation, earlier: Transcript) -> str:
    """Describe how an evaluation differs from an earlier one of the same code.

    The description is empty for a load that succeeded after one that failed.
    """
    if evaluation.status != known.status:
        if evaluation.kind in LOAD_KINDS and evaluation.status == "done":
            return ""  # the file was loaded again because it changed
        return f"the same code ended with status {known.status} in {known.id}"
    if evaluation.failure and known.failure:
        now, then = evaluation.failure, known.failure
        same = (now.type, now.message) == (then.type, then.message)
        return f"same failure as {known.id}" if same else f"not the same failure as {known.id}"
    changed = _differing_parts(transcript, earlier)
    count, of = _count_changed_lines(transcript, earlier)
    lines = format_count(count, "line")
    if "result" not in changed:
        return f"same result as {known.id}, other output" + (f" in {lines}" if count else "")
    if 0 < count < of:
        return f"same as {known.id} except {lines}"
    return f"not the same result as {known.id}"


def _differing_parts(transcript: Transcript, earlier: Transcript) -> list[Part]:
    """Return the parts in which two transcripts differ. A part that is too long to compare counts as different."""
    pairs: list[tuple[Part, GrowingText, GrowingText]] = [("result", transcript.result, earlier.result)]
    if transcript.has_printed or earlier.has_printed:
        pairs += [("stdout", transcript.out, earlier.out), ("stderr", transcript.err, earlier.err)]
    return [
        part
        for part, now, then in pairs
        if now.total != then.total or now.total > MAX_COMPARED_CHARACTERS or (now.total and not is_same_text(now, then))
    ]


def _count_changed_lines(transcript: Transcript, earlier: Transcript) -> tuple[int, int]:
    """Return the number of differing lines and of all lines, or zeros if the texts are too long to compare."""
    if max(transcript.total_characters, earlier.total_characters) > MAX_COUNTED_CHARACTERS:
        return 0, 0
    changed = total = 0
    for part in COMPARED_PARTS:
        now, then = transcript.text(part).read_all().splitlines(), earlier.text(part).read_all().splitlines()
        added, left = Counter(now), Counter(then)
        changed += max((added - left).total(), (left - added).total(), 0 if now == then else 1)
        total += max(len(now), len(then))
    return changed, total
