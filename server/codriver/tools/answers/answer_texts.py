"""Texts of an answer about an evaluation: its values and its output, cut to the answer's budget."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from codriver.log.transcripts import read
from codriver.tools.answers.answer_budget import FLOODS, MOST_BYTES, Cut, head, json_bytes, tail
from codriver.tools.answers.new_output import FLOODED, Telling

if TYPE_CHECKING:
    from collections.abc import Mapping

    from codriver.log.transcripts import Chunk, Part, Transcript
    from codriver.tools.answers.answer_budget import Images

MAX_VALUES = 100
MAX_CUT_NOTES = 3
REPEATED_BYTES = 200
"""The last of several values is the result: if longer than this, it is not said twice."""

MAX_READ_CHARACTERS = 32 * 2**20
"""The characters of values that are read whole, to take the images out; of a longer value only the beginning is read.
"""

NOTE_BYTES = 250
"""The bytes of the note on a text's missing part, and of the mark in its place."""

STREAMS: tuple[Part, ...] = ("stderr", "stdout")
FLOOD_HEAD_BYTES, FLOOD_TAIL_BYTES = 1000, 2000
"""The bytes shown of a flood: of its beginning, and of its present end."""
FLOOD_ON_HEAD_BYTES, FLOOD_ON_TAIL_BYTES = 100, 400
"""The bytes shown of a flood that goes on, to a caller who was told its beginning."""

SHOWN_STACKS_BYTES = 8000
"""The bytes of a thread dump that an answer shows: about a hundred frames."""


async def fill_in_texts(
    fields: dict[str, object], transcript: Transcript, images: Images, max_bytes: int, telling: Telling
) -> list[str]:
    """Fill in values, output and stacks, cut to `max_bytes` together with the notes on the cuts, which are given.

    Of output and stacks only the part that `telling` has not told. Images in values become content of their own.
    """
    if _is_short(transcript, max_bytes):
        _short_texts(fields, transcript, images, telling)
        return []
    said: list[str] = []
    await read(partial(_texts, fields, said, transcript, images, max_bytes, telling), transcript)
    return said


async def look_for_images(transcript: Transcript, images: Images) -> None:
    """Take the images out of the values, the last first, as an answer does."""
    places = transcript.values()
    shown = [*places[-1:], *places[:-1][:MAX_VALUES]]
    await read(partial(_values, transcript, shown, images, 0), transcript)


def _is_short(transcript: Transcript, max_bytes: int) -> bool:
    """Return true if all texts can be shown uncut, as nearly always: one value at most, and nothing cut."""
    is_plain = not (transcript.stacks or transcript.cuts or transcript.server_cut)
    return is_plain and transcript.value_count <= 1 and transcript.total * MOST_BYTES <= max_bytes


def _short_texts(fields: dict[str, object], transcript: Transcript, images: Images, telling: Telling) -> None:
    """Fill in the value and the output of a transcript that is short."""
    if transcript.value_count:
        fields["result"] = images.out_of(transcript.result.all())
    if transcript.has_printed:
        for part in STREAMS:
            text, begin = transcript.text(part), telling.begin(part)
            if (end := text.total) > begin:
                fields[part] = text.read(begin, end).text
                telling.reach(part, end)
    if transcript.first_line is not None:
        fields["outputLines"] = {"first": transcript.first_line, "last": transcript.last_line}


def _texts(
    fields: dict[str, object],
    said: list[str],
    transcript: Transcript,
    images: Images,
    max_bytes: int,
    telling: Telling,
) -> None:
    """Fill in texts that are not short, and add the notes on their missing parts to `said`."""
    values = transcript.values()
    # One more character than can be shown reveals an omission.
    read_values = _values(transcript, [*values[-1:], *values[:-1][:MAX_VALUES]], images, max_bytes + 1)
    result, *earlier = read_values or [""]
    flood = FLOODS * max_bytes
    if transcript.stacks and not telling.begin("stacks"):
        telling.reach("stacks", len(transcript.stacks))
        stacks = head(transcript.user_stacks or transcript.stacks, min(SHOWN_STACKS_BYTES, max_bytes // 4)).text
        fields["stacks"] = stacks
        max_bytes -= json_bytes(stacks)
        said.append("stacks is where your code was; get_evaluation with part stacks has all of it")
    wanted: dict[str, int] = {"result": _size(result, max_bytes + 1)}
    ends = _new_ends(transcript, max_bytes + 1, telling)
    wanted |= {key: _size(end.text, max_bytes + 1) for key, end in ends.items()}
    if earlier:
        wanted["values"] = sum(_size(value, max_bytes + 1) + 3 for value in [*earlier, _repeated(result)])
    is_short = sum(wanted.values()) <= max_bytes
    shares = wanted if is_short else share(_without_notes(max_bytes, wanted), wanted)
    if values:
        cut = head(result, shares["result"]) if wanted["result"] > shares["result"] else Cut(result)
        # Without its images the part read is shorter than the text, and whole.
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
        is_flood = end.total - telling.begin(key) - shares[key] > flood
        sizes = _ends_bytes(shares[key], is_flood=is_flood, goes_on=telling.goes_on(key))
        fields[key] = _ends(said, transcript, key, telling.begin(key), end, sizes)
        telling.reach(FLOODED[key], end.total * is_flood)
    said += _cut_notes(transcript)
    if transcript.server_cut and not transcript.cuts:
        said.append("the REPL itself cut the printed value at its print limits")
    if transcript.first_line is not None:
        fields["outputLines"] = {"first": transcript.first_line, "last": transcript.last_line}


def _new_ends(transcript: Transcript, most: int, telling: Telling) -> dict[Part, Chunk]:
    """Return the ends of the streams with news for the caller, so many characters of the news."""
    ends: dict[Part, Chunk] = {}
    for key in STREAMS:
        text, begin = transcript.text(key), telling.begin(key)
        if (total := text.total) > begin:
            ends[key] = text.read(max(begin, total - most), total)
            telling.reach(key, total)
    return ends


def _without_notes(max_bytes: int, wanted: Mapping[str, int]) -> int:
    """The bytes left for texts of these sizes, too long together, beside a note for each that is cut."""
    fair = max_bytes // sum(size > 0 for size in wanted.values())
    return max(max_bytes // 2, max_bytes - NOTE_BYTES * sum(size > fair for size in wanted.values()))


def _values(transcript: Transcript, places: list[range], images: Images, max_characters: int) -> list[str]:
    """Values at these places without their images, or so many characters of values too long to look through."""
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
    """The bytes of `max_bytes` for each text by its wish: a fair part, and the rest of others, in order."""
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
    """Return the length of a text in JSON, and `most` for a longer one."""
    return most if len(text) >= most else min(most, json_bytes(text))


def _repeated(result: str) -> str:
    """The last of several values, which is the result, in its place among them: itself if short, else a mark."""
    return result if _size(result, REPEATED_BYTES + 1) <= REPEATED_BYTES else "<<result>>"


def _several(said: list[str], transcript: Transcript, earlier: list[str], last: str, max_bytes: int) -> list[str]:
    """Return the values from the first on, within `max_bytes` together, and a note if some are left out."""
    shown: list[str] = []
    left = max_bytes
    whole = True
    for value in [*earlier, last][:MAX_VALUES]:
        cut = head(value, max(0, left))
        shown.append(cut.text)
        left -= json_bytes(cut.text) + 3  # the value's quotes and comma
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


def _ends_bytes(share_bytes: int, *, is_flood: bool, goes_on: bool) -> tuple[int, int, int]:
    """Return the bytes of a stream that is shown whole, else of its head and of its tail."""
    flood = FLOOD_HEAD_BYTES, FLOOD_TAIL_BYTES
    head_bytes, tail_bytes = (FLOOD_ON_HEAD_BYTES, FLOOD_ON_TAIL_BYTES) if goes_on else flood
    if (is_flood or goes_on) and share_bytes > head_bytes + tail_bytes:
        return head_bytes + tail_bytes, head_bytes, tail_bytes
    return share_bytes, share_bytes // 2, share_bytes // 2


def _ends(
    said: list[str], transcript: Transcript, key: Part, begin: int, last: Chunk, sizes: tuple[int, int, int]
) -> str:
    """A stream from `begin` on, or its head and its tail, by whole lines where these are short, and a note on the rest.

    `last`: the last characters of the stream, as many as there may be bytes, and one more if there are more.
    """
    whole_bytes, head_bytes, tail_bytes = sizes
    end, first = tail(last.text, whole_bytes), max(begin, last.dropped)
    shown, place, closing = "", last.start, end.text
    if last.start > first or end.omitted:
        beginning = transcript.text(key).read(first, first + head_bytes)
        shown = head(beginning.text, head_bytes).text
        shown, closing = _whole_lines(shown, tail(last.text, tail_bytes).text)
        place = beginning.start + len(shown)
    omitted, dropped = last.total - len(closing) - place, max(0, last.dropped - begin)
    if omitted or dropped:
        said.append(_left_out(transcript, key, place, omitted, dropped))
    return f"{shown}\n… {omitted} characters left out …\n{closing}" if omitted else closing


def _whole_lines(beginning: str, end: str) -> tuple[str, str]:
    """The head of a text without a broken last line, the tail without a broken first one, if lines are short."""
    cut = beginning.rfind("\n")
    if len(beginning) - cut <= len(beginning) // 4:
        beginning = beginning[:cut]
    cut = end.find("\n") + 1
    return beginning, end[cut:] if 0 < cut <= len(end) // 4 else end


def _left_out(transcript: Transcript, part: Part, place: int, omitted: int, dropped: int) -> str:
    """The length of a part left out from a place on, the call that gives it, and how much before it is lost."""
    lost = f"; {dropped} older ones were dropped, {transcript.loss}" if dropped else ""
    way = f": get_evaluation with part {part}, from {place}, length {omitted}" if omitted else ""
    return (
        f"{part}: {omitted} characters are left out{lost}{way}; "
        f"also in codriver://evaluation/{transcript.evaluation}/{part}"
    )


def _cut_notes(transcript: Transcript) -> list[str]:
    """Return a note on each value that print limits cut, with the way to the rest."""
    if not transcript.cuts:
        return []
    count, notes = len(transcript.values()), []
    for number, (words, is_kept) in list(transcript.cuts.items())[-MAX_CUT_NOTES:]:
        which, path = ("", "[]") if number == count else (f" of value {number}", f'["${number}"]')
        way = f"get_evaluation path {path}" if is_kept else "maxLength gives more"
        notes.append(f"cut{which}: {words}; {way}")
    return notes
