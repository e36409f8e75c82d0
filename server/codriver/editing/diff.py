"""What changed between two texts, as people and `patch` read it."""

from __future__ import annotations

import difflib
import re

_LINE = re.compile(r"[^\n]*\n|[^\n]+")

MARGIN = 20
"""Equal lines that are compared too: a change among repeated lines may be told some lines higher up."""
MAX_COMPARED_LINES = 20_000
"""Beyond this, finding the least difference takes too long, and nobody reads it."""


def unified(before: str, after: str, name: str, *, is_new: bool = False, is_gone: bool = False) -> str:
    """The unified diff of a file called `name`, with three lines around; empty when nothing changed."""
    old, new = _LINE.findall(before), _LINE.findall(after)
    if old == new and not is_new and not is_gone:
        return ""
    head = f"--- {'/dev/null' if is_new else f'a/{name}'}\n+++ {'/dev/null' if is_gone else f'b/{name}'}\n"
    first = _common(old, new)
    last = _common(old[first:][::-1], new[first:][::-1])
    begin, end = max(0, first - MARGIN), max(0, last - MARGIN)
    old, new = old[begin : len(old) - end], new[begin : len(new) - end]
    return head + "".join(_hunks(old, new, begin))


def cut(diff: str, max_chars: int) -> tuple[str, bool]:
    """As many whole lines of `diff` as `max_chars` hold, and whether that is less than all."""
    if len(diff) <= max_chars:
        return diff, False
    end = diff.rfind("\n", 0, max_chars) + 1
    left = diff.count("\n", end)
    return f"{diff[:end]}… {left} more lines\n", True


def _common(one: list[str], other: list[str]) -> int:
    """How many lines both begin with."""
    count = 0
    for line, counterpart in zip(one, other, strict=False):
        if line != counterpart:
            break
        count += 1
    return count


def _hunks(old: list[str], new: list[str], offset: int) -> list[str]:
    """The hunks for the lines `old` that became `new`, which stand behind `offset` lines that are the same."""
    if len(old) + len(new) > MAX_COMPARED_LINES:
        codes = [("replace", 0, len(old), 0, len(new))]
        groups = [codes]
    else:
        groups = [list(group) for group in difflib.SequenceMatcher(None, old, new).get_grouped_opcodes(3)]
    parts = []
    for group in groups:
        _, old_start, _, new_start, _ = group[0]
        _, _, old_end, _, new_end = group[-1]
        ranges = _range(old_start, old_end, offset), _range(new_start, new_end, offset)
        parts.append(f"@@ -{ranges[0]} +{ranges[1]} @@\n")
        for kind, i, j, k, m in group:
            if kind == "equal":
                parts += [_shown(" ", line) for line in old[i:j]]
                continue
            parts += [_shown("-", line) for line in old[i:j]]
            parts += [_shown("+", line) for line in new[k:m]]
    return parts


def _range(start: int, end: int, offset: int) -> str:
    """Lines as a hunk's head names them; an empty range is named by the line before it."""
    length = end - start
    first = start + offset + (1 if length else 0)
    return f"{first}" if length == 1 else f"{first},{length}"


def _shown(mark: str, line: str) -> str:
    return mark + line if line.endswith("\n") else f"{mark}{line}\n\\ No newline at end of file\n"
