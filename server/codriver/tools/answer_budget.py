"""Budget of an answer: long texts lose their end, each no more than it must, and images become content of their own."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from codriver.log.transcripts import head
from codriver.tools.base import Image

if TYPE_CHECKING:
    from collections.abc import Iterator

ALWAYS_WHOLE_BYTES = 200
"""Texts up to here are never shortened: they are names, categories, and what the number of rows bounds."""


def shorten(value: object, max_bytes: int) -> tuple[object, str | None]:
    """The JSON value with its long texts shortened, and a note in words where that left something out.

    All texts longer than some length are cut to that length, the greatest with which they have `max_bytes` of UTF-8
    together; a mark in each says how much it lost.
    """
    sizes = sorted(_size(text) for text in _texts(value))
    left, cap = max_bytes, 0
    for place, size in enumerate(sizes):
        cap = max(ALWAYS_WHOLE_BYTES, left // (len(sizes) - place))
        if size > cap:
            break
        left = max(0, left - size)
    else:
        return value, None
    count = sum(size > cap for size in sizes)
    texts = "1 text is" if count == 1 else f"{count} texts are"
    note = f"{texts} shortened to {cap} bytes: ask for fewer rows, or with a larger maxTextBytes"
    return _cut(value, cap), note


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _texts(item)
    elif isinstance(value, dict):
        for item in value.values():
            yield from _texts(item)


def _cut(value: object, cap: int) -> object:
    if isinstance(value, str):
        if _size(value) <= cap:
            return value
        cut = head(value, cap)
        return f"{cut.text}… ({cut.omitted} more characters)"
    if isinstance(value, list | tuple):
        return [_cut(item, cap) for item in value]
    if isinstance(value, dict):
        return {key: _cut(item, cap) for key, item in value.items()}
    return value


def _size(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "replace"))


IMAGE = re.compile(r"data:(image/[a-z0-9.+-]+);base64,([A-Za-z0-9+/]+={0,2})")


class Images:
    """Takes the images out of the texts of one answer, and leaves a mark in the place of each.

    Up to `most` of them are `taken`. The mark of any other says what it is and, in the words of `way`, how to get it:
    base64 in a text is of no use to who reads it, and long.
    """

    def __init__(self, most: int, way: str) -> None:
        self._most = most
        self._way = way
        self._seen = 0
        self.taken: list[Image] = []

    def out_of(self, text: str) -> str:
        """The text with a mark for each image, numbered through all texts."""
        return IMAGE.sub(self._mark, text) if "data:image/" in text else text

    def out_of_json(self, value: object) -> object:
        """The JSON value with the images taken out of all its texts."""
        if isinstance(value, str):
            return self.out_of(value)
        if isinstance(value, list | tuple):
            return [self.out_of_json(item) for item in value]
        if isinstance(value, dict):
            return {key: self.out_of_json(item) for key, item in value.items()}
        return value

    def _mark(self, match: re.Match[str]) -> str:
        self._seen += 1
        mime_type, data = match[1], match[2]
        if len(self.taken) < self._most:
            self.taken.append(Image(data, mime_type))
            return f"<<image-{self._seen}>>"
        kilobytes = -(-len(data) * 3 // 4 // 1024)
        return f"<<image-{self._seen} left out: {mime_type}, {kilobytes} KB; {self._way}>>"
