"""Write the text of an answer about an evaluation: its values and output, truncated to the size limit."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from codriver.log.evaluation_transcripts import read_transcripts
from codriver.tools.answers.answer_budget import (
    FLOOD_FACTOR,
    MAX_CHARACTER_BYTES,
    Cut,
    cut_to_head,
    cut_to_tail,
    json_bytes,
)
from codriver.tools.answers.new_output import FLOOD_POSITIONS, Delivery

if TYPE_CHECKING:
    from collections.abc import Mapping

    from codriver.log.evaluation_transcripts import Chunk, Part, Transcript
    from codriver.tools.answers.answer_images import Images

MAX_VALUES = 100
"""Maximum number of values in an answer in addition to the last one."""
MAX_CUT_NOTES = 3
"""Maximum number of notes about values that were truncated by print limits."""
MAX_REPEATED_BYTES = 200
"""Maximum size, in bytes, at which the last value is repeated in full in the list of values."""

MAX_READ_CHARACTERS = 32 * 2**20
"""Maximum number of characters in values that are searched for images. Only the beginning of a longer value is read."""

OMISSION_NOTE_BYTES = 250
"""Size of the note about omitted text and of the marker in the text's place, in bytes."""

SLIGHT_EXCESS_SHARE = 12
"""Text is still included in full if it exceeds the answer's size by at most 1 / `SLIGHT_EXCESS_SHARE`.

Omitting so little would save less than the note about the omission and the call that reads the rest would cost.
"""

OUTPUT_STREAMS: tuple[Part, ...] = ("stderr", "stdout")
"""Output streams, in the order of their fields in an answer."""
FLOOD_HEAD_BYTES, FLOOD_TAIL_BYTES = 1000, 2000
"""Number of bytes displayed from the beginning and from the current end of a flood."""
FLOOD_ON_HEAD_BYTES, FLOOD_ON_TAIL_BYTES = 100, 400
"""Number of bytes displayed from both ends of the new part of a flood, if the caller knows its beginning."""

MAX_STACKS_BYTES = 8000
"""Maximum size of a thread dump in an answer, in bytes: about a hundred frames."""


async def add_text(
    fields: dict[str, object],
    transcript: Transcript,
    images: Images,
    max_bytes: int,
    delivery: Delivery,
    *,
    has_output: bool = True,
) -> list[str]:
    """Add values, output and stacks to the fields of an answer, and return notes about omitted parts.

    The text has at most `max_bytes` bytes, or slightly more if that makes it complete. Output and stacks that
    `delivery` has already delivered are left out. Without `has_output`, all output is left out. Images in values are
    collected in `images`.
    """
    if _is_short(transcript, max_bytes):
        _add_short_text(fields, transcript, images, delivery, has_output=has_output)
        return []
    notes: list[str] = []
    add = partial(_add_long_text, fields, notes, transcript, images, max_bytes, delivery, has_output=has_output)
    await read_transcripts(add, transcript)
    return notes


async def collect_images(transcript: Transcript, images: Images) -> None:
    """Collect the images in an evaluation's values, starting with the last value, as in an answer."""
    positions = transcript.values()
    displayed = [*positions[-1:], *positions[:-1][:MAX_VALUES]]
    await read_transcripts(partial(_read_values, transcript, displayed, images, 0), transcript)


def _is_short(transcript: Transcript, max_bytes: int) -> bool:
    """Return whether the text of a transcript certainly fits in an answer, as is usual.

    Transcripts with several values, stacks, or text that was already shortened are not considered.
    """
    is_plain = not (transcript.stacks or transcript.cuts or transcript.server_cut)
    return is_plain and transcript.value_count <= 1 and transcript.total_characters * MAX_CHARACTER_BYTES <= max_bytes


def _add_short_text(
    fields: dict[str, object], transcript: Transcript, images: Images, delivery: Delivery, *, has_output: bool
) -> None:
    """Add the value and the output of a short transcript to the fields of an answer."""
    if transcript.value_count:
        fields["result"] = images.remove_from_text(transcript.result.read_all())
    if transcript.has_printed and has_output:
        for part in OUTPUT_STREAMS:
            text, begin = transcript.text(part), delivery.start_position(part)
            if (end := text.total) > begin:
                fields[part] = text.read(begin, end).text
                delivery.record_delivered(part, end)
    if transcript.first_line is not None:
        fields["outputLines"] = {"first": transcript.first_line, "last": transcript.last_line}


def _add_long_text(
    fields: dict[str, object],
    notes: list[str],
    transcript: Transcript,
    images: Images,
    max_bytes: int,
    delivery: Delivery,
    *,
    has_output: bool,
) -> None:
    """Add text that may have to be shortened to the fields of an answer, and notes about omitted parts to `notes`."""
    values = transcript.values()
    # One character more than fits shows whether anything was omitted.
    most = max_bytes + max_bytes // SLIGHT_EXCESS_SHARE + 1
    read_values = _read_values(transcript, [*values[-1:], *values[:-1][:MAX_VALUES]], images, most)
    result, *earlier = read_values or [""]
    flood = FLOOD_FACTOR * max_bytes
    if transcript.stacks and not delivery.start_position("stacks"):
        delivery.record_delivered("stacks", len(transcript.stacks))
        stacks = cut_to_head(transcript.user_stacks or transcript.stacks, min(MAX_STACKS_BYTES, max_bytes // 4)).text
        fields["stacks"] = stacks
        max_bytes -= json_bytes(stacks)
        notes.append("stacks shows where your code was. get_evaluation with part stacks returns the whole dump")
    most = max_bytes + max_bytes // SLIGHT_EXCESS_SHARE + 1
    sizes: dict[str, int] = {"result": _bounded_size(result, most)}
    ends = _new_ends(transcript, most, delivery) if has_output else {}
    sizes |= {key: _bounded_size(end.text, most) for key, end in ends.items()}
    if earlier:
        sizes["values"] = sum(_bounded_size(value, most) + 3 for value in [*earlier, _repeated_value(result)])
    is_short = sum(sizes.values()) < most
    shares = sizes if is_short else share_budget(_bytes_without_notes(max_bytes, sizes), sizes)
    if values:
        cut = cut_to_head(result, shares["result"]) if sizes["result"] > shares["result"] else Cut(result)
        # Without its images, the value is shorter, but still complete.
        unread = len(values[-1]) - len(result) if len(values[-1]) > MAX_READ_CHARACTERS else 0
        dropped = 0 if earlier else transcript.result.dropped
        fields["result"] = cut.text
        if cut.omitted or unread or dropped:
            has_images = not unread and len(values[-1]) != len(result)
            position = values[-1].start + (0 if has_images else len(cut.text))
            notes.append(_omission_note(transcript, "result", position, cut.omitted + unread, dropped))
    if earlier:
        fields["values"] = _values_that_fit(notes, transcript, earlier, _repeated_value(result), shares["values"])
    for key, end in ends.items():
        is_flood = end.total - delivery.start_position(key) - shares[key] > flood
        full_sizes = _head_and_tail_bytes(shares[key], is_flood=is_flood, goes_on=delivery.is_continued_flood(key))
        fields[key] = _head_and_tail(notes, transcript, key, delivery.start_position(key), end, full_sizes)
        delivery.record_delivered(FLOOD_POSITIONS[key], end.total * is_flood)
    notes += _cut_notes(transcript)
    if transcript.server_cut and not transcript.cuts:
        notes.append("the REPL truncated the printed value at its print limits")
    if transcript.first_line is not None:
        fields["outputLines"] = {"first": transcript.first_line, "last": transcript.last_line}


def _new_ends(transcript: Transcript, most: int, delivery: Delivery) -> dict[Part, Chunk]:
    """Return the ends of the output streams that are new to the caller, with at most `most` characters each."""
    ends: dict[Part, Chunk] = {}
    for key in OUTPUT_STREAMS:
        text, begin = transcript.text(key), delivery.start_position(key)
        if (total := text.total) > begin:
            ends[key] = text.read(max(begin, total - most), total)
            delivery.record_delivered(key, total)
    return ends


def _bytes_without_notes(max_bytes: int, sizes: Mapping[str, int]) -> int:
    """Return the number of bytes left for texts of these sizes, less a note for each text to be shortened."""
    fair = max_bytes // sum(size > 0 for size in sizes.values())
    return max(max_bytes // 2, max_bytes - OMISSION_NOTE_BYTES * sum(size > fair for size in sizes.values()))


def _read_values(transcript: Transcript, positions: list[range], images: Images, max_characters: int) -> list[str]:
    """Return the values at the given positions, without images.

    Values that are too long to be searched for images are truncated to `max_characters`.
    """
    found: list[str] = []
    left = MAX_READ_CHARACTERS
    for position in positions:
        if len(position) <= left:
            left -= len(position)
            found.append(images.remove_from_text(transcript.result.read(position.start, position.stop).text))
        else:
            found.append(
                transcript.result.read(position.start, min(position.stop, position.start + max_characters)).text
            )
    return found


def share_budget(max_bytes: int, sizes: Mapping[str, int]) -> dict[str, int]:
    """Divide `max_bytes` among texts, and return the share of each text by name.

    Each text gets an equal share, and bytes that short texts do not need are given to the others in order.
    """
    if sum(sizes.values()) <= max_bytes:
        return dict(sizes)
    fair = max_bytes // max(1, sum(size > 0 for size in sizes.values()))
    shares = {name: min(size, fair) for name, size in sizes.items()}
    left = max_bytes - sum(shares.values())
    for name, size in sizes.items():
        more = min(left, size - shares[name])
        shares[name] += more
        left -= more
    return shares


def _bounded_size(text: str, most: int) -> int:
    """Return the size of a string in JSON, but at most `most`."""
    return most if len(text) >= most else min(most, json_bytes(text))


def _repeated_value(result: str) -> str:
    """Return the last of several values for the list of values.

    `result` contains this value in full, so a marker replaces it in the list if it is long.
    """
    return result if _bounded_size(result, MAX_REPEATED_BYTES + 1) <= MAX_REPEATED_BYTES else "<<result>>"


def _values_that_fit(
    notes: list[str], transcript: Transcript, earlier: list[str], last: str, max_bytes: int
) -> list[str]:
    """Return the first values that fit in `max_bytes` together, and add a note if some are omitted."""
    displayed: list[str] = []
    left = max_bytes
    whole = True
    for value in [*earlier, last][:MAX_VALUES]:
        cut = cut_to_head(value, max(0, left))
        displayed.append(cut.text)
        left -= json_bytes(cut.text) + 3  # the value's quotes and comma
        if cut.omitted or left <= 0:
            whole = not cut.omitted
            break
    count, dropped = len(transcript.values()), transcript.result.dropped
    if len(displayed) < count or not whole or dropped:
        short = "" if whole else ", the last of them shortened"
        gone = f"; {dropped} characters of values before these were dropped" if dropped else ""
        where = f"codriver://evaluation/{transcript.evaluation}/result"
        notes.append(f"values has {len(displayed)} of {count}{short}{gone}: read the resource {where} for the rest")
    return displayed


def _head_and_tail_bytes(share_bytes: int, *, is_flood: bool, goes_on: bool) -> tuple[int, int, int]:
    """Return the maximum size of a stream that is displayed in full, and the sizes of head and tail of a longer one."""
    flood = FLOOD_HEAD_BYTES, FLOOD_TAIL_BYTES
    head_bytes, tail_bytes = (FLOOD_ON_HEAD_BYTES, FLOOD_ON_TAIL_BYTES) if goes_on else flood
    if (is_flood or goes_on) and share_bytes > head_bytes + tail_bytes:
        return head_bytes + tail_bytes, head_bytes, tail_bytes
    return share_bytes, share_bytes // 2, share_bytes // 2


def _head_and_tail(
    notes: list[str], transcript: Transcript, key: Part, begin: int, last: Chunk, sizes: tuple[int, int, int]
) -> str:
    """Return an output stream from `begin`, or only its head and tail, and add a note if some of it is omitted.

    If the lines are short, only whole lines are included. `last` contains the last characters of the stream, one more
    than fit if the stream is longer. `sizes` is the result of `_head_and_tail_bytes`.
    """
    whole_bytes, head_bytes, tail_bytes = sizes
    end, first = cut_to_tail(last.text, whole_bytes), max(begin, last.dropped)
    displayed, position, closing = "", last.start, end.text
    if last.start > first or end.omitted:
        beginning = transcript.text(key).read(first, first + head_bytes)
        displayed = cut_to_head(beginning.text, head_bytes).text
        displayed, closing = _whole_lines(displayed, cut_to_tail(last.text, tail_bytes).text)
        position = beginning.start + len(displayed)
    omitted, dropped = last.total - len(closing) - position, max(0, last.dropped - begin)
    if omitted or dropped:
        notes.append(_omission_note(transcript, key, position, omitted, dropped))
    return f"{displayed}\n… {omitted} characters left out …\n{closing}" if omitted else closing


def _whole_lines(beginning: str, end: str) -> tuple[str, str]:
    """Remove an incomplete last line from the beginning, and an incomplete first line from the end.

    Text with long lines is returned unchanged.
    """
    cut = beginning.rfind("\n")
    if len(beginning) - cut <= len(beginning) // 4:
        beginning = beginning[:cut]
    cut = end.find("\n") + 1
    return beginning, end[cut:] if 0 < cut <= len(end) // 4 else end


def _omission_note(transcript: Transcript, part: Part, position: int, omitted: int, dropped: int) -> str:
    """Describe an omitted part of an output stream.

    The note states its length, how to get it, and how much of it can no longer be retrieved.
    """
    lost = f"; {dropped} older ones were dropped {transcript.loss_reason}" if dropped else ""
    hint = f": get_evaluation with part {part}, from {position}, length {omitted}" if omitted else ""
    return (
        f"{part}: {omitted} characters are left out{lost}{hint}; "
        f"also in codriver://evaluation/{transcript.evaluation}/{part}"
    )


def _cut_notes(transcript: Transcript) -> list[str]:
    """Return notes about values that were shortened by print limits, and on how to get the rest."""
    if not transcript.cuts:
        return []
    count, notes = len(transcript.values()), []
    for number, (words, is_available) in list(transcript.cuts.items())[-MAX_CUT_NOTES:]:
        which, path = ("", "[]") if number == count else (f" of value {number}", f'["${number}"]')
        way = f"get_evaluation path {path}" if is_available else "maxLength gives more"
        notes.append(f"cut{which}: {words}; {way}")
    return notes
