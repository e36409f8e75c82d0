"""Parts of what an evaluation said: a range, the lines that contain a text, or the difference to another evaluation."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

from codriver.errors import RefusedError
from codriver.transcripts import head

if TYPE_CHECKING:
    from codriver.transcripts import Part, Transcript

DIFF_LINES = 2000
"""Longest texts that are compared: the time a comparison takes can grow with their product."""


class ForgottenError(RefusedError):
    """What the evaluation said is not held any more."""

    reason = "forgotten"

    def __init__(self, evaluation: str) -> None:
        super().__init__(
            f"what evaluation {evaluation} said is forgotten: too much was evaluated since",
            hint="the newest of it may still be in repl_output_log",
        )


def excerpt(transcript: Transcript, part: Part, *, start: int, length: int | None, max_bytes: int) -> dict[str, object]:
    """Characters `start` to `start + length` of a part, within `max_bytes`; `next` is where to go on.

    Places count from the beginning of all that was said, so they stay what they are when the oldest is dropped.
    """
    piece = transcript.piece(part, start, length)
    text = head(piece.text, max_bytes).text
    end = piece.start + len(text)
    fields: dict[str, object] = {"part": part, "text": text, "from": piece.start, "totalCharacters": piece.total}
    if end < piece.total:
        fields["next"] = end
    if piece.dropped:
        fields["droppedCharacters"] = piece.dropped
    return fields


def matching(transcript: Transcript, wanted: str, *, max_bytes: int) -> dict[str, object]:
    """The lines of all parts that contain the text `wanted`, each with its part and its number from 1."""
    found: list[dict[str, object]] = []
    left = max_bytes
    count = 0
    parts: tuple[Part, ...] = ("result", "stdout", "stderr")
    for part in parts:
        for number, line in enumerate(transcript.part(part).splitlines(), 1):
            if wanted not in line:
                continue
            count += 1
            if left > 0:
                shown = head(line, min(left, 2000)).text
                left -= len(shown)
                found.append({"part": part, "line": number, "text": shown})
    return {"matches": found, "count": count}


def difference(transcript: Transcript, other: Transcript, *, max_bytes: int) -> dict[str, object]:
    """What changed from the other evaluation to this one, part by part, as a unified diff."""
    lines: list[str] = []
    parts: tuple[Part, ...] = ("result", "stdout", "stderr")
    for part in parts:
        before, after = other.part(part).splitlines(), transcript.part(part).splitlines()
        if before == after:
            continue
        cut = len(before) > DIFF_LINES or len(after) > DIFF_LINES
        names = f"{other.evaluation} {part}", f"{transcript.evaluation} {part}"
        lines += difflib.unified_diff(before[:DIFF_LINES], after[:DIFF_LINES], *names, lineterm="", n=2)
        if cut:
            lines.append(f"(only the first {DIFF_LINES} lines of {part} were compared)")
    return {"same": not lines, "diff": head("\n".join(lines), max_bytes).text}
