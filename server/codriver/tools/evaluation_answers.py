"""The answer about an evaluation: its result, output and failure, as far as they go."""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING

from codriver.core import lanes
from codriver.core.state import Seen
from codriver.errors import RefusedError
from codriver.log.transcripts import Transcript, read
from codriver.repls.contract.adapter_values import NAMESPACE_MISSING
from codriver.tools.answer_budget import Cut, Images, head, json_bytes, shorten, tail
from codriver.tools.answer_notes import notes_of_background, notes_of_others, notes_of_place, notes_of_repetition
from codriver.tools.base import Answer, Call
from codriver.tools.conflicts import notes_of_conflicts
from codriver.tools.evaluation_waits import queue_notes
from codriver.tools.lean_answers import lean, reader_of, wants_detail
from codriver.tools.session_choice import key_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from codriver.core.values import Evaluation, Failure
    from codriver.log.transcripts import Part, Piece, Text
    from codriver.tools.lean_answers import Evaluating

MAX_VALUES = 100
MAX_CUT_NOTES = 3
REPEATED_BYTES = 200
"""The last of several values is the result, and longer than this it is not said twice."""
READING = frozenset({"read", "read-source"})
"""The phases of a failure in which no part of its form has run."""

MAX_READ_CHARACTERS = 32 * 2**20
"""How much of the values is read whole, to take the images out of them; of a longer one only its beginning is."""

MOST_IMAGE_BYTES = 12 * 2**20
"""The base64 of an image that is asked for by itself: a message may have 16 MiB."""

NOTE_BYTES = 250
"""The note on what a text lacks, and the mark in its place."""

SHOWN_STACKS_BYTES = 8000
"""The bytes of a thread dump that an answer shows: about a hundred frames."""


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
) -> Answer:
    """The answer that says how an evaluation stands: its result and output as far as they go.

    It leaves out what its reader knows, unless `asked` wants detail.
    """
    await call.services.cell_writes.settled(evaluation)
    fields, said, session = _standing(call, evaluation)
    if evaluation.failure:
        fields["error"] = error = _error(call, evaluation.failure, max_bytes // 2)
        max_bytes -= min(max_bytes // 2, len(json.dumps(error, ensure_ascii=False)))
    images = _images(max_images, call.services.settings.max_images)
    is_cut = False
    transcript = call.services.transcripts.get(evaluation.id)
    if transcript is None:
        said.append("what it said is forgotten: too much was evaluated since")
    else:
        said_before = len(said)
        await read(partial(_texts, fields, said, transcript, images, max_bytes), transcript)
        is_cut = len(said) > said_before
    if namespace := evaluation.namespace:
        fields["ns"] = namespace
    if others := others_since(call, evaluation):
        fields["otherWhosSinceLast"] = others
    repetition: list[str] = []
    is_same = False
    if evaluation.over and transcript is not None:
        repetition, is_same = await notes_of_repetition(call, evaluation, transcript)
        said += repetition
    said += _notes_of_standing(call, evaluation)
    who = _asking(call, evaluation, asked)
    reader = reader_of(call, asked, who, evaluation, session)
    stands = Seen(evaluation.generation, namespace or reader.namespace_seen)
    said += await notes_of_conflicts(call, evaluation)
    told = [*notes_of_others(call, who, session, stands), *notes_of_background(call, who, evaluation)]
    fields["notes"] = [*said, *notes, *told]
    failed = evaluation.status in ("failed", "lost", "interrupted")
    if failed:
        fields["reason"], fields["hint"] = _reason(call, evaluation)
    is_named = not is_same or fields["notes"] != repetition
    shown = fields if wants_detail(call, asked) else lean(fields, reader, is_cut=is_cut, is_named=is_named)
    return Answer(shown, ok=not failed, images=tuple(images.taken))


def _asking(call: Call, evaluation: Evaluation, asked: Evaluating) -> str:
    """The caller that asks: who evaluated it, where its client asks without saying who."""
    is_own = evaluation.client == call.client and asked.who is None
    return evaluation.who if is_own else call.who(asked.who)


def _error(call: Call, failure: Failure, max_bytes: int) -> object:
    """A failure as the field of an answer, without secrets, shortened to so many bytes."""
    error, _ = shorten(call.services.transcripts.cleared(failure_json(failure)), max_bytes)
    return error


def _standing(call: Call, evaluation: Evaluation) -> tuple[dict[str, object], list[str], str]:
    """The fields and the notes of an evaluation that are known whatever became of its texts; the key of its session."""
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
    said = [*notes_of_place(state, evaluation), *evaluation.notes]
    if cell := call.services.cell_writes.told(evaluation.id):
        fields["cell"] = cell[0]
        said += filter(None, cell[1:])
    return fields, said, session


def _notes_of_standing(call: Call, evaluation: Evaluation) -> list[str]:
    """The way on where an evaluation is not over."""
    if evaluation.status == "queued":
        return queue_notes(call, evaluation)
    if evaluation.status == "running":
        return ["it goes on: call get_evaluation with this evaluationId and waitMs, or interrupt_evaluation"]
    return [_input_note(call, evaluation)] if evaluation.status == "needs-input" else []


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
    return sorted(who for who, number in newest.items() if who != evaluation.who and number > evaluation.previous)


def _images(asked: int, allowed: int) -> Images:
    """The collector of images in the values, for as many as a caller asked for and the setting allows."""
    if allowed == 0:
        return Images(0, "the setting maxImages allows none")
    return Images(min(asked, allowed), "get_evaluation with part image-{number} gives it")


async def one_image(call: Call, evaluation: Evaluation, number: int) -> Answer:
    """The answer that is one image of an evaluation's values, by its number there.

    Raises:
        NoImageError: there is none.
    """
    transcript = call.services.transcripts.get(evaluation.id)
    places = transcript.values() if transcript else []
    images = Images(min(1, call.services.settings.max_images), "", max_bytes=MOST_IMAGE_BYTES, number=number)
    if transcript is not None:
        shown = [*places[-1:], *places[:-1][:MAX_VALUES]]
        await read(partial(_values, transcript, shown, images, 0), transcript)
    if not images.taken:
        raise NoImageError(evaluation.id, number, images.seen)
    return Answer({"evaluationId": evaluation.id, "status": evaluation.status}, images=tuple(images.taken))


def _texts(fields: dict[str, object], said: list[str], transcript: Transcript, images: Images, max_bytes: int) -> None:
    """Fill in values and output, cut to `max_bytes` together with the notes on that; values without their images."""
    values = transcript.values()
    # One more character than can be shown, so that it is noticed where one is left out.
    read_values = _values(transcript, [*values[-1:], *values[:-1][:MAX_VALUES]], images, max_bytes + 1)
    result, *earlier = read_values or [""]
    streams: dict[Part, Text] = {"stderr": transcript.err, "stdout": transcript.out}
    if transcript.stacks:
        stacks = head(transcript.own_stacks or transcript.stacks, min(SHOWN_STACKS_BYTES, max_bytes // 4)).text
        fields["stacks"] = stacks
        max_bytes -= json_bytes(stacks)
        said.append("stacks is where your code was before the interrupt; get_evaluation with part stacks has all of it")
    wanted = {"result": _size(result, max_bytes + 1)}
    ends: dict[Part, Piece] = {}
    for key, text in streams.items():
        if text.total:
            ends[key] = text.last(max_bytes + 1)
            wanted[key] = _size(ends[key].text, max_bytes + 1)
    if earlier:
        wanted["values"] = sum(_size(value, max_bytes + 1) + 3 for value in [*earlier, _repeated(result)])
    is_short = sum(wanted.values()) <= max_bytes
    shares = wanted if is_short else share(_without_notes(max_bytes, wanted), wanted)
    if values:
        cut = head(result, shares["result"]) if wanted["result"] > shares["result"] else Cut(result)
        # Where its images were taken out, what is read is shorter than what is there, and whole.
        unread = len(values[-1]) - len(result) if len(values[-1]) > MAX_READ_CHARACTERS else 0
        dropped = 0 if earlier else transcript.result.dropped
        fields["result"] = cut.text
        if cut.omitted or unread or dropped:
            has_images = not unread and len(values[-1]) != len(result)
            place = values[-1].start + (0 if has_images else len(cut.text))
            said.append(_left_out(transcript, "result", place, cut.omitted + unread, dropped))
    if earlier:
        fields["values"] = _several(said, transcript, earlier, _repeated(result), shares["values"])
    for key, end in ends.items():
        fields[key] = _ends(said, transcript, key, end, shares[key])
    said += _cut_notes(transcript)
    if transcript.server_cut and not transcript.cuts:
        said.append("the REPL itself cut the printed value at its print limits")
    if transcript.first_line is not None:
        fields["outputLines"] = {"first": transcript.first_line, "last": transcript.last_line}


def _without_notes(max_bytes: int, wanted: Mapping[str, int]) -> int:
    """The bytes left for texts of these sizes, which are too long, when there is a note with each that is cut."""
    fair = max_bytes // sum(size > 0 for size in wanted.values())
    return max(max_bytes // 2, max_bytes - NOTE_BYTES * sum(size > fair for size in wanted.values()))


def _values(transcript: Transcript, places: list[range], images: Images, max_characters: int) -> list[str]:
    """The values at these places without their images, or so many characters where it is too much to look through."""
    texts: list[str] = []
    left = MAX_READ_CHARACTERS
    for place in places:
        if len(place) <= left:
            left -= len(place)
            texts.append(images.out_of(transcript.result.read(place.start, place.stop).text))
        else:
            texts.append(transcript.result.read(place.start, min(place.stop, place.start + max_characters)).text)
    return texts


def share(max_bytes: int, wanted: Mapping[str, int]) -> dict[str, int]:
    """The bytes of `max_bytes` that each may have of what it wants: a fair part, and the rest of others, in order."""
    if sum(wanted.values()) <= max_bytes:
        return dict(wanted)
    fair = max_bytes // max(1, sum(size > 0 for size in wanted.values()))
    shares = {name: min(size, fair) for name, size in wanted.items()}
    left = max_bytes - sum(shares.values())
    for name, size in wanted.items():
        more = min(left, size - shares[name])
        shares[name] += more
        left -= more
    return shares


def _size(text: str, most: int) -> int:
    """The length of a text in JSON, `most` where it is longer."""
    return most if len(text) >= most else min(most, json_bytes(text))


def _repeated(result: str) -> str:
    """The last of several values as it stands among them, being the result: itself if short, else a mark."""
    return result if _size(result, REPEATED_BYTES + 1) <= REPEATED_BYTES else "<<result>>"


def _several(said: list[str], transcript: Transcript, earlier: list[str], last: str, max_bytes: int) -> list[str]:
    """The values from the first on, within `max_bytes` together, and a note where that is not all."""
    shown: list[str] = []
    left = max_bytes
    whole = True
    for value in [*earlier, last][:MAX_VALUES]:
        cut = head(value, max(0, left))
        shown.append(cut.text)
        left -= json_bytes(cut.text) + 3  # its quotes and comma
        if cut.omitted or left <= 0:
            whole = not cut.omitted
            break
    count, dropped = len(transcript.values()), transcript.result.dropped
    if len(shown) < count or not whole or dropped:
        short = "" if whole else ", the last of them shortened"
        gone = f"; {dropped} characters of values before these were dropped" if dropped else ""
        where = f"codriver://evaluation/{transcript.evaluation}/result"
        said.append(f"values shows {len(shown)} of {count}{short}{gone}: read the resource {where} for the rest")
    return shown


def _ends(said: list[str], transcript: Transcript, key: Part, last: Piece, max_bytes: int) -> str:
    """A stream whole, or its head and its tail, by whole lines where these are short, and a note on what is between.

    `last`: at least so many of its characters as there may be bytes, and one more where there are more.
    """
    end = tail(last.text, max_bytes)
    shown, place, closing = "", last.start, end.text
    if last.start > last.dropped or end.omitted:
        beginning = transcript.text(key).read(last.dropped, last.dropped + max_bytes // 2)
        shown = head(beginning.text, max_bytes // 2).text
        shown, closing = _whole_lines(shown, tail(last.text, max_bytes // 2).text)
        place = beginning.start + len(shown)
    omitted = last.total - len(closing) - place
    if omitted or last.dropped:
        said.append(_left_out(transcript, key, place, omitted, last.dropped))
    return f"{shown}\n… {omitted} characters left out …\n{closing}" if omitted else closing


def _whole_lines(beginning: str, end: str) -> tuple[str, str]:
    """The head of a text without a broken last line, the tail without a broken first one, where lines are short."""
    cut = beginning.rfind("\n")
    if len(beginning) - cut <= len(beginning) // 4:
        beginning = beginning[:cut]
    cut = end.find("\n") + 1
    return beginning, end[cut:] if 0 < cut <= len(end) // 4 else end


def _left_out(transcript: Transcript, part: Part, place: int, omitted: int, dropped: int) -> str:
    """The length of a part that is left out from a place on, and the call that gives it; how much before it is lost."""
    lost = f"; {dropped} older ones were dropped, {transcript.loss}" if dropped else ""
    way = f": get_evaluation with part {part}, from {place}, length {omitted}" if omitted else ""
    return (
        f"{part}: {omitted} characters are left out{lost}{way}; "
        f"whole in codriver://evaluation/{transcript.evaluation}/{part}"
    )


def _cut_notes(transcript: Transcript) -> list[str]:
    """A note on each value that print limits cut, with the way to the rest."""
    if not transcript.cuts:
        return []
    count, notes = len(transcript.values()), []
    for number, (words, is_kept) in list(transcript.cuts.items())[-MAX_CUT_NOTES:]:
        which, path = ("", "[]") if number == count else (f" of value {number}", f'["${number}"]')
        way = f"get_evaluation path {path}" if is_kept else "maxLength gives more"
        notes.append(f"cut{which}: {words}; {way}")
    return notes


def _elapsed_ms(call: Call, evaluation: Evaluation) -> int:
    if evaluation.started_at is None:
        return 0
    return max(0, (evaluation.ended_at or call.services.now()) - evaluation.started_at)


def _input_note(call: Call, evaluation: Evaluation) -> str:
    repl = call.state.repls.get(evaluation.repl)
    profile = repl.profile if repl else None
    if profile and "stdin" in profile.capabilities:
        return "the code reads from standard input: give it a line with send_input"
    return "the code reads from standard input, which this REPL cannot be given: interrupt_evaluation ends it"


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
