"""Notes of an answer: its comparison with earlier evaluations of the same code, and the acts of others meanwhile."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from codriver.core import caller_names, lanes, reported_evaluations
from codriver.core.actions import EvaluationsReported
from codriver.core.state import cautions
from codriver.core.values import MAIN_SESSION
from codriver.errors import cut
from codriver.log.transcripts import read
from codriver.tools.answers.text_parts import is_same
from codriver.tools.calls.client_traits import traits_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from codriver.core.state import Repl, Seen, State
    from codriver.core.values import Evaluation
    from codriver.log.transcripts import Part, Text, Transcript
    from codriver.tools.answers.new_output import Telling
    from codriver.tools.calls.call import Call

PARTS: tuple[Part, ...] = ("result", "stdout", "stderr")
MAX_OTHERS = 5
CODE_CHARACTERS = 60
CAUSE_CHARACTERS = 160
LOADS = ("load-file", "load-forms")
MAX_REPEATS = 5
"""Earlier evaluations of the same code among which a finished one is looked for."""
MAX_SAME_CHARACTERS = 4 * 2**20  # comparing these takes a few milliseconds, in which nobody else is served
MAX_COUNTED_CHARACTERS = 256 * 2**10  # splitting into lines and counting them takes longer


@dataclass(slots=True)
class Asking:
    """The answer that needs notes, and the findings of its advisers."""

    call: Call
    evaluation: Evaluation
    repl: Repl | None
    """The REPL of the evaluation, if that is still known."""
    who: str
    """The caller that asks."""
    session: str
    """The key of the evaluation's session."""
    stands: Seen
    """The generation and namespace that this answer shows the caller."""
    telling: Telling
    left_out: tuple[str, ...] = ()
    """Words about texts that the answer cuts."""
    cell: tuple[str, str] | None = None
    """For a notebook's cell: the cell in words, and a note if its file lacks the outputs."""
    given: tuple[str, ...] = ()
    """Notes of the tool that answers."""
    repetition: list[str] = field(default_factory=list)
    """The comparison with the last evaluation of the same code, once made."""
    is_same: bool = False
    """True if result and output equal the last ones, so that nobody will ask for more."""


def notes_of_others(asking: Asking) -> list[str]:
    """The acts of others since this caller's last call, a line each, the newest last; from now on they count as told.

    From now on the caller knows the session's standing, too.
    """
    call, who, session, stands = asking.call, asking.who, asking.session, asking.stands
    state = call.services.core.state
    told = reported_evaluations.knowledge_of(state, call.client, who)
    theirs = reported_evaluations.unreported_evaluations(state, told, call.client, who) if told else []
    if told is None or theirs or not reported_evaluations.is_up_to_date(state, told, session, stands):
        call.dispatch(EvaluationsReported(session=session, seen=stands), who=who)
    if not theirs:
        return []
    lines = [_line(call, evaluation) for evaluation in theirs[-MAX_OTHERS:]]
    more = len(theirs) - len(lines)
    return [*lines, f"and {more} more by others before these: see repl_output_log"] if more else lines


def notes_of_background(asking: Asking) -> list[str]:
    """The output of background threads and tasks since this caller's last answer, in a line, which counts as told now.

    The output of the evaluation that the answer is about is left out, as the answer shows it.
    """
    call = asking.call
    told = call.services.transcripts.late.tell((call.client, asking.who))
    if not told or not (news := [late for late in told if late.source != asking.evaluation.id]):
        return []
    newest = news[-1]
    of_it = [late for late in news if late.source == newest.source]
    count = sum(late.count for late in of_it)
    others = sum(late.count for late in news) - count
    source = f"evaluation {newest.source}" if newest.is_evaluation else newest.source
    more = f", {others} more from others" if others else ""
    lines = "1 line" if count == 1 else f"{count} lines"
    return [f"{lines} from {source} since{more}: {of_it[0].head} (repl_output_log with since {news[0].first_line - 1})"]


def _line(call: Call, evaluation: Evaluation) -> str:
    code = cut(" ".join(evaluation.head[: 4 * CODE_CHARACTERS].split()), CODE_CHARACTERS)
    how: str = evaluation.status
    if evaluation.failure:
        how += f": {evaluation.failure.type or evaluation.failure.message}"
    return f"meanwhile {evaluation.who} in {call.state.key_of(evaluation)}: {code} ({evaluation.id}, {how})"


def notes_of_place(asking: Asking) -> list[str]:
    """The notes of a caller's first evaluation in a REPL, which may be another REPL than the caller thinks."""
    call, evaluation, repl, state = asking.call, asking.evaluation, asking.repl, asking.call.services.core.state
    if repl is None:
        return []
    own = _of_lanes(state, repl, evaluation) if evaluation.session == MAIN_SESSION else _of_own(state, repl, evaluation)
    notes = [*_of_home(call, repl, evaluation), *own]
    return asking.telling.news(notes) if notes else notes


def notes_of_generation(asking: Asking) -> list[str]:
    """The note of a caller's first answer from a new generation of a REPL: its definitions there are gone, and why.

    While the REPL is on its way back nothing is told: the new generation and the cause are known only when it stands.
    """
    call, repl, places = asking.call, asking.repl, asking.call.services.delivered.repls
    if repl is None or repl.phase != "connected" or not places.is_renewed(call.client, asking.who, repl):
        return []
    why = (
        call.services.transcripts.beginning(repl.end_reason, CAUSE_CHARACTERS, is_whole=True) if repl.end_reason else ""
    )
    since = f"since your last answer ({why})" if why else "since your last answer"
    if repl.owned:
        return [f"{repl.key} was restarted {since}: what was defined in it is gone"]
    return [f"{repl.key} was reconnected {since}: it is a new process, and what was defined in the old one is gone"]


def _of_own(state: State, repl: Repl, evaluation: Evaluation) -> list[str]:
    """The note of the first evaluation in a session of one's own: the things that it shares with the others."""
    if repl.profile is None or not repl.profile.shares or evaluation.is_background:
        return []
    session = repl.sessions.get(evaluation.session)
    if session is not None and session.lane is not None:
        return []
    place = (evaluation.repl, evaluation.generation, evaluation.session)
    is_first = not any(
        (other.repl, other.generation, other.session) == place
        for other in state.evaluations.values()
        if other.number < evaluation.number
    )
    return [f"a session of your own: {repl.profile.shares}"] if is_first else []


def _of_lanes(state: State, repl: Repl, evaluation: Evaluation) -> list[str]:
    """The note of a caller's first evaluation in a REPL without a free lane: the caller shares a session."""
    if evaluation.lane is None or not repl.gives_lanes or not caller_names.is_first_evaluation(state, evaluation):
        return []
    return [f"{repl.key} has {lanes.MAX_LANES} lanes, the most there may be: this session is shared"]


def _of_home(call: Call, repl: Repl, evaluation: Evaluation) -> list[str]:
    """Return the new notes for a caller on a REPL of another project, or without the project's packages."""
    outside = repl.profile.outside if repl.profile else None
    notes = (*cautions(call.services.core.state, repl), outside)
    news = [note for note in notes if note and call.services.delivered.repls.is_new(evaluation, note)]
    remarks = call.services.remarks
    if repl.remark and remarks is not None and remarks.is_for(evaluation.id, repl.remark):
        news.append(repl.remark)
    return news


def with_outside(fields: dict[str, object], repl: Repl | None) -> dict[str, object]:
    """The fields with a note on project packages that the REPL finds outside its working tree, if there are any."""
    outside = repl.profile.outside if repl and repl.profile else None
    return with_notes(fields, [outside] if outside else [])


def with_notes(fields: dict[str, object], more: Sequence[str]) -> dict[str, object]:
    """Return the fields with more notes, if any are given."""
    notes = fields.get("notes")
    return {**fields, "notes": [*(notes if isinstance(notes, list) else ()), *more]} if more else fields


async def notes_of_repetition(asking: Asking) -> list[str]:
    """The comparison of a finished evaluation with the last one of the same code in the same session."""
    call, evaluation, transcript = asking.call, asking.evaluation, asking.telling.transcript
    before, state = transcript.before if transcript is not None else None, call.services.core.state
    if traits_of(call.client_name).reads_whole:  # each of our commands is called anew, and remembers no other
        return asking.repetition
    for _ in range(MAX_REPEATS):
        if transcript is None or before is None:
            break
        earlier, known = call.services.transcripts.get(before), state.evaluations.get(before)
        if earlier is None or known is None:
            break
        # Words could not remind a reader of an evaluation by another client.
        client_of = call.services.delivered.repls.client_of
        if known.status in ("done", "failed") and client_of(evaluation) == client_of(known):
            compare = partial(_compared, evaluation, transcript, known, earlier)
            note, asking.is_same = await read(compare, transcript, earlier)
            asking.repetition = [note] if note else []
            break
        before = earlier.before
    return asking.repetition


def fails_again(call: Call, evaluation: Evaluation, transcript: Transcript) -> bool:
    """True for the second failure in a row of the same code in the same session, of the same client."""
    failures = 0
    state, client_of = call.services.core.state, call.services.delivered.repls.client_of
    before: str | None = transcript.before
    while before is not None and failures < 2:
        known, earlier = state.evaluations.get(before), call.services.transcripts.get(before)
        if known is None or earlier is None or known.status != "failed" or client_of(known) != client_of(evaluation):
            break
        before, failures = earlier.before, failures + 1
    return evaluation.status == "failed" and failures == 1


def _compared(
    evaluation: Evaluation, transcript: Transcript, known: Evaluation, earlier: Transcript
) -> tuple[str, bool]:
    ended_alike = evaluation.status == known.status and not (evaluation.failure and known.failure)
    if ended_alike and not _differing(transcript, earlier):
        if evaluation.kind in LOADS and not transcript.has_printed:
            return "", True  # a load's result is the module's or the last definition's name: no news
        output = " and output" if transcript.has_printed else ""
        return f"same result{output} as {known.id}", True
    return _difference(evaluation, transcript, known, earlier), False


def _difference(evaluation: Evaluation, transcript: Transcript, known: Evaluation, earlier: Transcript) -> str:
    if evaluation.status != known.status:
        if evaluation.kind in LOADS and evaluation.status == "done":
            return ""  # the difference is the reason of the new load
        return f"the same code ended as {known.status} in {known.id}"
    if evaluation.failure and known.failure:
        now, then = evaluation.failure, known.failure
        same = (now.type, now.message) == (then.type, then.message)
        return f"same failure as {known.id}" if same else f"not the same failure as {known.id}"
    changed = _differing(transcript, earlier)
    count, of = _changed_lines(transcript, earlier)
    lines = "1 line" if count == 1 else f"{count} lines"
    if "result" not in changed:
        return f"same result as {known.id}, other output" + (f" in {lines}" if count else "")
    if 0 < count < of:
        return f"same as {known.id} except {lines}"
    return f"not the same result as {known.id}"


def _differing(transcript: Transcript, earlier: Transcript) -> list[Part]:
    """Return the parts that differ; a part too long to compare counts as different."""
    pairs: list[tuple[Part, Text, Text]] = [("result", transcript.result, earlier.result)]
    if transcript.has_printed or earlier.has_printed:
        pairs += [("stdout", transcript.out, earlier.out), ("stderr", transcript.err, earlier.err)]
    return [
        part
        for part, now, then in pairs
        if now.total != then.total or now.total > MAX_SAME_CHARACTERS or (now.total and not is_same(now, then))
    ]


def _changed_lines(transcript: Transcript, earlier: Transcript) -> tuple[int, int]:
    """Return the number of lines that differ, at whatever place, and of all; zeros for too many."""
    if max(transcript.total, earlier.total) > MAX_COUNTED_CHARACTERS:
        return 0, 0
    changed = total = 0
    for part in PARTS:
        now, then = transcript.text(part).all().splitlines(), earlier.text(part).all().splitlines()
        came, left = Counter(now), Counter(then)
        changed += max((came - left).total(), (left - came).total(), 0 if now == then else 1)
        total += max(len(now), len(then))
    return changed, total
