"""Convert Markdown to blocks of plain text. Only the syntax that notebooks commonly use is supported.

Links are not clickable, because a program wrote them. A block is `{"tag", "spans"}`; a list is `{"tag": "ul",
"items"}`, a table `{"tag": "table", "head", "rows"}`, and code `{"tag": "pre", "text"}`. A span consists of a tag,
which may be empty, and its text.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator


Block = dict[str, Any]


Span = tuple[str, str]


MAX_CONVERTED_LINES: Final = 5000
"""Maximum number of lines of a Markdown text to convert to blocks."""


_SPAN_MARKUP: Final = re.compile(r"`([^`\n]+)`|\*\*([^*\n]+)\*\*|\*([^*\s][^*\n]*)\*|\[([^\]\n]*)\]\(([^)\s]*)\)")
"""Matches code, strong text, emphasized text or a link in a line of Markdown."""


_SPAN_TAGS: Final = ("code", "strong", "em")
"""HTML tags of the first three groups of `_SPAN_MARKUP`."""


_HEADING_LINE: Final = re.compile(r"(#{1,6})\s+(.*)")


_LIST_ITEM: Final = re.compile(r"\s*(?:[-*+]|\d+\.)\s+(.*)")
"""Matches a list item. The first group is the text after its marker."""


_TABLE_ROW: Final = re.compile(r"\s*\|.*\|\s*")


_TABLE_RULE: Final = re.compile(r"[\s|:-]+")
"""Matches the line between the head and the rows of a table."""


def parse_markdown_blocks(text: str) -> list[Block]:
    """Convert a Markdown text to blocks."""
    lines = text.splitlines()[:MAX_CONVERTED_LINES]
    found: list[Block] = []
    at = 0
    while at < len(lines):
        if lines[at].startswith("```"):
            block, end = _fenced_block(lines, at)
        else:
            end = next((n for n in range(at + 1, len(lines)) if not _continues_block(lines[at], lines[n])), len(lines))
            block = _block(lines[at:end])
        if block is not None:
            found.append(block)
        at = end
    return found


def parse_markdown_spans(text: str) -> list[Span]:
    """Convert a line of Markdown to spans. A link becomes its text followed by its URL in parentheses."""
    return list(_spans(text))


def _spans(text: str) -> Iterator[Span]:
    at = 0
    for found in _SPAN_MARKUP.finditer(text):
        if found.start() > at:
            yield "", text[at : found.start()]
        tag = next(
            ((tag, words) for tag, words in zip(_SPAN_TAGS, found.groups(), strict=False) if words is not None), None
        )
        yield tag or ("", f"{found[4]} ({found[5]})")
        at = found.end()
    if at < len(text):
        yield "", text[at:]


def _continues_block(first: str, line: str) -> bool:
    """Return whether a line belongs to the table or list that starts with the line `first`."""
    return any(kind.fullmatch(first) and kind.fullmatch(line) for kind in (_TABLE_ROW, _LIST_ITEM))


def _fenced_block(lines: list[str], at: int) -> tuple[Block | None, int]:
    """Return the code block that starts with the fence at line `at`, and the index of the line after the block."""
    end = next((n for n in range(at + 1, len(lines)) if lines[n].startswith("```")), len(lines))
    return {"tag": "pre", "text": "\n".join(lines[at + 1 : end])}, end + 1


def _block(lines: list[str]) -> Block | None:
    """Create a block from its lines. Return None if there is nothing to display."""
    first = lines[0]
    if _TABLE_ROW.fullmatch(first):
        rows = [
            [cell.strip() for cell in line.strip().strip("|").split("|")]
            for line in lines
            if not _TABLE_RULE.fullmatch(line)
        ]
        return {"tag": "table", "head": rows[0], "rows": rows[1:]} if rows else None
    if _LIST_ITEM.fullmatch(first):
        return {"tag": "ul", "items": [parse_markdown_spans(_LIST_ITEM.sub(r"\1", line)) for line in lines]}
    if heading := _HEADING_LINE.fullmatch(first):
        return {"tag": f"h{min(6, len(heading[1]) + 2)}", "spans": parse_markdown_spans(heading[2])}
    return {"tag": "p", "spans": parse_markdown_spans(first)} if first.strip() else None
