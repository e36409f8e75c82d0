"""An answer's texts within bounds: short ones stay whole, long ones lose their end, each no more than it must."""

from __future__ import annotations

from typing import TYPE_CHECKING

from codriver.log.transcripts import head

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
