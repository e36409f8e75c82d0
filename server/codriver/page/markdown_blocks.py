"""Markdown as blocks of plain texts, as far as notebooks use it. Pure. No link leads anywhere: a program wrote it.

A block is `{"tag", "spans"}`, of a list `{"tag": "ul", "items"}`, of a table `{"tag": "table", "head", "rows"}`, of
code `{"tag": "pre", "text"}`. A span is a tag, empty for none, and a text.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

Block = dict[str, Any]
Span = tuple[str, str]

MOST_LINES: Final = 5000
_SPAN: Final = re.compile(r"`([^`\n]+)`|\*\*([^*\n]+)\*\*|\*([^*\s][^*\n]*)\*|\[([^\]\n]*)\]\(([^)\s]*)\)")
_TAGS: Final = ("code", "strong", "em")
_HEADING: Final = re.compile(r"(#{1,6})\s+(.*)")
_ITEM: Final = re.compile(r"\s*(?:[-*+]|\d+\.)\s+(.*)")
_ROW: Final = re.compile(r"\s*\|.*\|\s*")
_RULE: Final = re.compile(r"[\s|:-]+")


def blocks(text: str) -> list[Block]:
    """The blocks of a text."""
    lines = text.splitlines()[:MOST_LINES]
    found: list[Block] = []
    at = 0
    while at < len(lines):
        if lines[at].startswith("```"):
            block, end = _fenced(lines, at)
        else:
            end = next((n for n in range(at + 1, len(lines)) if not _goes_on(lines[at], lines[n])), len(lines))
            block = _block(lines[at:end])
        if block is not None:
            found.append(block)
        at = end
    return found


def spans(text: str) -> list[Span]:
    """The spans of a line. A link is its words, and its address behind them in brackets."""
    return list(_spans(text))


def _spans(text: str) -> Iterator[Span]:
    at = 0
    for found in _SPAN.finditer(text):
        if found.start() > at:
            yield "", text[at : found.start()]
        tag = next(((tag, words) for tag, words in zip(_TAGS, found.groups(), strict=False) if words is not None), None)
        yield tag or ("", f"{found[4]} ({found[5]})")
        at = found.end()
    if at < len(text):
        yield "", text[at:]


def _goes_on(first: str, line: str) -> bool:
    """True where a line belongs to the block that begins with another: rows of a table, items of a list."""
    return any(kind.fullmatch(first) and kind.fullmatch(line) for kind in (_ROW, _ITEM))


def _fenced(lines: list[str], at: int) -> tuple[Block | None, int]:
    end = next((n for n in range(at + 1, len(lines)) if lines[n].startswith("```")), len(lines))
    return {"tag": "pre", "text": "\n".join(lines[at + 1 : end])}, end + 1


def _block(lines: list[str]) -> Block | None:
    first = lines[0]
    if _ROW.fullmatch(first):
        rows = [
            [cell.strip() for cell in line.strip().strip("|").split("|")] for line in lines if not _RULE.fullmatch(line)
        ]
        return {"tag": "table", "head": rows[0], "rows": rows[1:]} if rows else None
    if _ITEM.fullmatch(first):
        return {"tag": "ul", "items": [spans(_ITEM.sub(r"\1", line)) for line in lines]}
    if heading := _HEADING.fullmatch(first):
        return {"tag": f"h{min(6, len(heading[1]) + 2)}", "spans": spans(heading[2])}
    return {"tag": "p", "spans": spans(first)} if first.strip() else None
