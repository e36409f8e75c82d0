"""Truncate the text of an answer to a number of bytes.

Sizes are bytes of the answer's JSON, in which a newline has two bytes.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from itertools import accumulate
from json.encoder import encode_basestring
from typing import TYPE_CHECKING

from codriver.errors import format_count
from codriver.tools.calls.client_traits import ENVELOPE_BYTES, find_traits, max_answer_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from codriver.tools.calls.call import Call


MAX_CHARACTER_BYTES = 6
"""Maximum size of one character in JSON: six bytes for a control character, and at most four for any other."""
TORN_ESCAPE_PATTERN = re.compile(r"(?<!\\)((?:\\\\)*)\\(?:u[0-9a-f]{0,3})?$")
"""Matches an incomplete escape sequence at the end of a string, and the complete ones right before it."""

OMISSION_MARK_BYTES = 40
"""Size of the marker that replaces the omitted end of a string."""

ALWAYS_WHOLE_BYTES = 200
"""Maximum size, in bytes, of text that is never shortened, such as names and categories.

Its total size is limited by the number of rows.
"""
MAX_OVERVIEW_BYTES = 40
"""Maximum number of bytes displayed from a flood in an overview."""
FLOOD_FACTOR = 10
"""Factor by which a string must exceed its share to count as a flood, which is not read in full."""


@dataclass(frozen=True, slots=True)
class Cut:
    """A truncated text, and the number of characters left out of it."""

    text: str
    omitted: int = 0


def default_budget(call: Call) -> int:
    """Return the default limit for the text in an answer to this client, in bytes."""
    traits = find_traits(call.client_name)
    most = traits.answer_characters - ENVELOPE_BYTES
    return min(call.services.live.settings.max_text_bytes, most) if traits.has_budget else most


def requested_budget(call: Call, tool: str, requested: int | None = None) -> int:
    """Return the limit for the text in an answer to a caller that requests more text, in bytes.

    `requested` is the requested number of bytes, or None for as much as possible.
    """
    most = max_answer_bytes(call.client_name, tool)
    return most if requested is None else min(requested, most)


def json_bytes(text: str) -> int:
    """Return the size of a string in JSON, in bytes of UTF-8 and without quotes."""
    return len(encode_basestring(text).encode("utf-8", "replace")) - 2


def cut_to_head(text: str, max_bytes: int) -> Cut:
    """Return the longest prefix of `text` that has at most `max_bytes` bytes in JSON."""
    if len(text) * MAX_CHARACTER_BYTES <= max_bytes:
        return Cut(text)
    raw = _escape(text[: max_bytes + 1])  # a character has at least one byte
    if len(raw) <= max_bytes:
        return Cut(text)
    whole = TORN_ESCAPE_PATTERN.sub(r"\1", raw[:max_bytes].decode("utf-8", "ignore"))
    length = len(json.loads(f'"{whole}"'))
    return Cut(text[:length], len(text) - length)


def cut_to_tail(text: str, max_bytes: int) -> Cut:
    """Return the longest suffix of `text` that has at most `max_bytes` bytes in JSON."""
    if len(text) * MAX_CHARACTER_BYTES <= max_bytes:
        return Cut(text)
    # The size of a character in JSON does not depend on its position.
    length = len(cut_to_head(text[: -max_bytes - 2 : -1], max_bytes).text)
    return Cut(text[len(text) - length :], len(text) - length)


def _escape(text: str) -> bytes:
    """Return a string escaped as in JSON, encoded in UTF-8."""
    return encode_basestring(text).encode("utf-8", "replace")[1:-1]


def shorten(value: object, max_bytes: int, *, floods: int = 1) -> tuple[object, str | None]:
    """Shorten the long strings in a JSON value, and return it with a note, or with None if nothing was shortened.

    The strings are truncated to the greatest length at which all of them together have at most `max_bytes` bytes. A
    string that is much longer than its share counts as a flood and is truncated to a fixed part of it. Each truncated
    string ends with a marker that states how much is missing.
    """
    sizes = sorted(json_bytes(text) for text in _strings(value))
    left, cap = max_bytes, 0
    for index, size in enumerate(sizes):
        cap = max(ALWAYS_WHOLE_BYTES, left // (len(sizes) - index))
        if size > cap:
            break
        left = max(0, left - size)
    else:
        return value, None
    return _cut_strings(value, cap, cap // floods, flood=(FLOOD_FACTOR + 1) * cap), _shortened_note(
        sum(size > cap for size in sizes), cap
    )


def shorten_for_overview(rows: Sequence[object], *, is_of_all: bool) -> tuple[list[object], str | None]:
    """Shorten very long strings in rows for an overview. With `is_of_all`, shorten every long string.

    Returns the rows and a note, or None instead of the note if nothing was shortened.
    """
    cap = ALWAYS_WHOLE_BYTES if is_of_all else (FLOOD_FACTOR + 1) * ALWAYS_WHOLE_BYTES
    long = sum(json_bytes(text) > cap for text in _strings(rows))
    shortened = _cut_strings(list(rows), cap, MAX_OVERVIEW_BYTES, flood=(FLOOD_FACTOR + 1) * ALWAYS_WHOLE_BYTES)
    assert isinstance(shortened, list)  # noqa: S101  # as it was given
    return shortened, _shortened_note(long, cap) if long else None


def _shortened_note(count: int, cap: int) -> str:
    """Return a note that `count` strings were shortened to `cap` bytes, and how to get them in full."""
    strings = format_count(count, "text is", "texts are")
    return f"{strings} shortened to {cap} bytes: request fewer rows, or pass a larger maxTextBytes"


def fit_rows(rows: Sequence[object], max_bytes: int, *, newest: bool = False) -> tuple[list[object], str | None, int]:
    """Return the first rows whose JSON fits in `max_bytes`, or the last ones with `newest`, but at least one row.

    Long strings are shortened before rows are omitted. Also returns a note about shortened strings, if any, and the
    number of omitted rows.
    """
    sizes = [json_size(row) for row in rows]
    if sum(sizes) <= max_bytes:
        return list(rows), None, 0
    text_sizes = [json_bytes(text) for row in rows for text in _strings(row)]
    other_bytes = (
        sum(sizes) - sum(text_sizes) + OMISSION_MARK_BYTES * sum(size > ALWAYS_WHOLE_BYTES for size in text_sizes)
    )
    shortened, note = shorten(list(rows), max(max_bytes // 2, max_bytes - other_bytes), floods=3)
    fitting: list[object] = []
    left = max_bytes
    assert isinstance(shortened, list)  # noqa: S101  # as it was given
    for row in reversed(shortened) if newest else shortened:
        left -= json_size(row)
        if left < 0 and fitting:
            break
        fitting.append(row)
    return (fitting[::-1] if newest else fitting), note, len(rows) - len(fitting)


def leading_rows(rows: Sequence[object], max_bytes: int) -> list[object]:
    """Return as many of the first rows as fit in `max_bytes` as JSON without being shortened."""
    sizes = accumulate(map(json_size, rows))
    return [row for row, size in zip(rows, sizes, strict=True) if size <= max_bytes]


def json_size(row: object) -> int:
    """Return the size of a value in JSON, including one separator, in bytes."""
    return len(json.dumps(row, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")) + 1


def _strings(value: object) -> Iterator[str]:
    """Yield all strings in a JSON value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _strings(item)
    elif isinstance(value, dict):
        for item in value.values():
            yield from _strings(item)


def _cut_strings(value: object, cap: int, of_flood: int, *, flood: int) -> object:
    """Return a JSON value with its strings truncated to `cap` bytes.

    Strings with more than `flood` characters are truncated to `of_flood` bytes.
    """
    if isinstance(value, str):
        cut = cut_to_head(value, of_flood if len(value) > flood else cap)
        if not cut.omitted:
            return value
        return f"{cut.text}… ({cut.omitted} more characters)"
    if isinstance(value, list | tuple):
        return [_cut_strings(item, cap, of_flood, flood=flood) for item in value]
    if isinstance(value, dict):
        return {key: _cut_strings(item, cap, of_flood, flood=flood) for key, item in value.items()}
    return value
