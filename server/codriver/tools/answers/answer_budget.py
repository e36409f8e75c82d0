"""Budget of an answer: how many bytes of text it has, texts cut to them, and images made content of their own.

A byte of text is a byte of the answer's JSON: a newline is two there.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from json.encoder import encode_basestring
from typing import TYPE_CHECKING

from codriver.core.pictures import DATA, image
from codriver.tools.calls.answer import Image
from codriver.tools.calls.client_traits import ENVELOPE_BYTES, most_bytes, traits_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from codriver.tools.calls.call import Call


MOST_BYTES = 6
"""The most bytes of one character: a control character takes six, any other four at most."""
TORN = re.compile(r"(?<!\\)((?:\\\\)*)\\(?:u[0-9a-f]{0,3})?$")
"""An escape with its end missing, and the whole ones before it."""

MARK_BYTES = 40
"""The bytes of the words on a text's lost part, in place of its end."""

ALWAYS_WHOLE_BYTES = 200
"""Texts of so many bytes are never shortened: they are names, categories, and others bounded by the number of rows."""
OVERVIEW_BYTES = 40
"""The bytes of a flood among rows in an overview."""
FLOODS = 10
"""A text that loses more than so many times its share of bytes is a flood: nobody reads it whole."""
IMAGE_BYTES = 4 * 2**20
"""The base64 of all images of an answer. A model reads at most 5 MB of one."""
MOST_IMAGES = 100
"""Images of an answer to our own commands, which no setting bounds: a person asks, and no model reads them."""
MOST_IMAGE_BYTES = 12 * 2**20
"""The base64 of an image that is asked for alone, and of all in such an answer: a message may have 16 MiB."""


@dataclass(frozen=True, slots=True)
class Cut:
    """A part of a text, and the number of characters left out."""

    text: str
    omitted: int = 0


def budget(call: Call) -> int:
    """Return the bytes of text in an answer for this caller that asks for no more."""
    traits = traits_of(call.client_name)
    most = traits.answer_characters - ENVELOPE_BYTES
    return min(call.services.live.settings.max_text_bytes, most) if traits.has_budget else most


def budget_asked(call: Call, tool: str, asked: int | None = None) -> int:
    """Return the bytes of an answer of `tool` if more is `asked` for, or as many as there are."""
    most = most_bytes(call.client_name, tool)
    return most if asked is None else min(asked, most)


def images_for(call: Call, asked: int, way: str) -> Images:
    """The collector of as many images as a caller asked for and, for a model's client, the setting `maxImages` allows.

    `way`: as `Images` takes it; our own commands know theirs.
    """
    if traits_of(call.client_name).wants_detail:
        return Images(min(asked, MOST_IMAGES), None, max_bytes=MOST_IMAGE_BYTES)
    allowed = call.services.live.settings.max_images
    words = way if allowed else "the setting maxImages allows none"
    return Images(min(asked, allowed), words, keep=image_files(call))


def image_files(call: Call) -> Callable[[str, str], str | None] | None:
    """The keeper of images as files, for a client that hands none on to its model; None for any other."""
    return None if traits_of(call.client_name).shows_images else call.services.image_files.save


def json_bytes(text: str) -> int:
    """Return the length of a text within JSON, in bytes of UTF-8."""
    return len(encode_basestring(text).encode("utf-8", "replace")) - 2


def head(text: str, max_bytes: int) -> Cut:
    """Return the longest beginning of `text` that has at most `max_bytes` in JSON."""
    if len(text) * MOST_BYTES <= max_bytes:
        return Cut(text)
    raw = _escaped(text[: max_bytes + 1])  # a character has at least one byte
    if len(raw) <= max_bytes:
        return Cut(text)
    whole = TORN.sub(r"\1", raw[:max_bytes].decode("utf-8", "ignore"))
    length = len(json.loads(f'"{whole}"'))
    return Cut(text[:length], len(text) - length)


def tail(text: str, max_bytes: int) -> Cut:
    """Return the longest end of `text` that has at most `max_bytes` in JSON."""
    if len(text) * MOST_BYTES <= max_bytes:
        return Cut(text)
    # A character is as long in JSON at any place.
    length = len(head(text[: -max_bytes - 2 : -1], max_bytes).text)
    return Cut(text[len(text) - length :], len(text) - length)


def _escaped(text: str) -> bytes:
    return encode_basestring(text).encode("utf-8", "replace")[1:-1]


def shorten(value: object, max_bytes: int, *, floods: int = 1) -> tuple[object, str | None]:
    """Return the JSON value with its long texts shortened, and a note in words if a part was left out.

    All texts longer than some length are cut to the greatest length with which all have `max_bytes` together, and
    floods to a fixed part of that; a mark in each tells its loss.
    """
    sizes = sorted(json_bytes(text) for text in _texts(value))
    left, cap = max_bytes, 0
    for place, size in enumerate(sizes):
        cap = max(ALWAYS_WHOLE_BYTES, left // (len(sizes) - place))
        if size > cap:
            break
        left = max(0, left - size)
    else:
        return value, None
    return _cut(value, cap, cap // floods, flood=(FLOODS + 1) * cap), _shortened(sum(size > cap for size in sizes), cap)


def overviewed(rows: Sequence[object], *, is_of_all: bool) -> tuple[list[object], str | None]:
    """Rows for an overview: a few words of floods, and if `is_of_all` the beginning of any long text."""
    cap = ALWAYS_WHOLE_BYTES if is_of_all else (FLOODS + 1) * ALWAYS_WHOLE_BYTES
    long = sum(json_bytes(text) > cap for text in _texts(rows))
    shown = _cut(list(rows), cap, OVERVIEW_BYTES, flood=(FLOODS + 1) * ALWAYS_WHOLE_BYTES)
    assert isinstance(shown, list)  # noqa: S101  # as it was given
    return shown, _shortened(long, cap) if long else None


def _shortened(count: int, cap: int) -> str:
    texts = "1 text is" if count == 1 else f"{count} texts are"
    return f"{texts} shortened to {cap} bytes: ask for fewer rows, or with a larger maxTextBytes"


def fit(rows: Sequence[object], max_bytes: int, *, newest: bool = False) -> tuple[list[object], str | None, int]:
    """The first rows, or the `newest`, which are the last, within `max_bytes` as JSON, at least one.

    Before a row is left out, long texts in all of them are shortened. With them come a note in words on shortened
    texts, and the number of rows left out.
    """
    sizes = [_row_bytes(row) for row in rows]
    if sum(sizes) <= max_bytes:
        return list(rows), None, 0
    texts = [json_bytes(text) for row in rows for text in _texts(row)]
    beside = sum(sizes) - sum(texts) + MARK_BYTES * sum(size > ALWAYS_WHOLE_BYTES for size in texts)
    shortened, note = shorten(list(rows), max(max_bytes // 2, max_bytes - beside), floods=3)
    kept: list[object] = []
    left = max_bytes
    assert isinstance(shortened, list)  # noqa: S101  # as it was given
    for row in reversed(shortened) if newest else shortened:
        left -= _row_bytes(row)
        if left < 0 and kept:
            break
        kept.append(row)
    return (kept[::-1] if newest else kept), note, len(rows) - len(kept)


def _row_bytes(row: object) -> int:
    return len(json.dumps(row, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")) + 1


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _texts(item)
    elif isinstance(value, dict):
        for item in value.values():
            yield from _texts(item)


def _cut(value: object, cap: int, of_flood: int, *, flood: int) -> object:
    """The value with its texts cut to `cap`, and those of more than `flood` characters to `of_flood`."""
    if isinstance(value, str):
        cut = head(value, of_flood if len(value) > flood else cap)
        if not cut.omitted:
            return value
        return f"{cut.text}… ({cut.omitted} more characters)"
    if isinstance(value, list | tuple):
        return [_cut(item, cap, of_flood, flood=flood) for item in value]
    if isinstance(value, dict):
        return {key: _cut(item, cap, of_flood, flood=flood) for key, item in value.items()}
    return value


class Images:
    """Takes the images out of the texts of one answer, and leaves a mark in the place of each.

    Up to `most` images, in all `max_bytes` of base64, are `taken`; with a `number`, that one alone. The mark of any
    other describes the image and, in the words of `way`, how to get it: base64 in a text is long and of no use to a
    reader. Without a `way` the mark is that of `codriver.core.pictures`, for programs that know a way.
    """

    def __init__(
        self,
        most: int,
        way: str | None,
        *,
        max_bytes: int = IMAGE_BYTES,
        number: int | None = None,
        keep: Callable[[str, str], str | None] | None = None,
    ) -> None:
        self._most = most
        self._way = way
        self._left_bytes = max_bytes
        self._number = number
        self._keep = keep
        """The function that keeps an image as a file, for a client that shows none; the mark has the path."""
        self._marks: dict[str, str] = {}
        """The mark of each image, by its data: one that is displayed twice, as a figure and as a value, is one."""
        self.files: list[str] = []
        self.seen = 0
        self.taken: list[Image] = []

    def out_of(self, text: str) -> str:
        """Return the text with a mark for each image, numbered through all texts."""
        return DATA.sub(self._mark, text) if "data:image/" in text else text

    def out_of_json(self, value: object) -> object:
        """Return the JSON value with the images taken out of all its texts."""
        if isinstance(value, str):
            return self.out_of(value)
        if isinstance(value, list | tuple):
            return [self.out_of_json(item) for item in value]
        if isinstance(value, dict):
            return {key: self.out_of_json(item) for key, item in value.items()}
        return value

    def _mark(self, match: re.Match[str]) -> str:
        mime_type, data = match[1], match[2]
        if data not in self._marks:
            self.seen += 1
            self._marks[data] = self._new_mark(mime_type, data)
        return self._marks[data]

    def _new_mark(self, mime_type: str, data: str) -> str:
        is_wanted = self._number in (None, self.seen) and len(self.taken) + len(self.files) < self._most
        if is_wanted and len(data) <= self._left_bytes:
            if self._keep is not None:
                return self._in_file(mime_type, data)
            self._left_bytes -= len(data)
            self.taken.append(Image(data, mime_type))
            return f"<<image-{self.seen}>>"
        if self._way is None:
            return image(mime_type, data).mark
        kilobytes = -(-len(data) * 3 // 4 // 1024)
        return f"<<image-{self.seen} left out: {mime_type}, {kilobytes} KB; {self._way.format(number=self.seen)}>>"

    def _in_file(self, mime_type: str, data: str) -> str:
        """Return the mark of an image that is kept as a file."""
        path = self._keep(mime_type, data) if self._keep is not None else None
        if path is None:
            return f"<<image-{self.seen}: {mime_type}, which cannot be kept as a file>>"
        self.files.append(path)
        return f"<<image-{self.seen}: {path}>>"
