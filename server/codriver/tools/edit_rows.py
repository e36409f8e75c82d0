"""Rows that describe the edits of files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from codriver.editing import HY
from codriver.editing.batch import cut
from codriver.editing.editable_paths import SUFFIXES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from codriver.editing import FileResult
    from codriver.tools.edit_arguments import EditArguments
    from codriver_lisp.edit import Done

MAX_DIFF_CHARS = 12_000
"""The characters of all diffs of an answer together: as many as an agent reads at one go."""
MAX_LEFT_LINES = 10
"""Lines that an answer names of the places that a renaming left, for each reason."""
HY_NOTE = (
    "Hy: of scopes, fn, defn, defmacro and let are known; names bound by setv, for, with, except or a comprehension "
    "count as the module's, and are renamed with it"
)

TEXT = "text"
"""The type of edit whose reader gave both the old and the new text."""
OWN_TEXT = frozenset({TEXT, "append", "create", "replace_def", "insert_def"})
"""The types of edits that write what their caller sent, outside of Lisp, where brackets and places are adapted."""


def edit_rows(
    files: Sequence[FileResult], edits: Sequence[EditArguments], *, applied: bool, is_whole: bool = True
) -> list[dict[str, object]]:
    """One row a file; unless `is_whole`, without differences that only repeat the reader's own edits."""
    rows: list[dict[str, object]] = []
    left = MAX_DIFF_CHARS
    for result in files:
        row: dict[str, object] = {"filePath": result.display_path, "applied": applied}
        if result.is_new:
            row["created"] = True
        if result.change.after is None:
            row["deleted"] = True
        if result.done:
            row["edits"] = [_edit_row(index, edits[index].type, done) for index, done in result.done.items()]
            if result.change.path.suffix == HY and any(edits[index].type == "rename" for index in result.done):
                row["note"] = HY_NOTE
        if not is_whole and _is_as_written(result, edits):
            row["edits"] = [{"index": index, "line": done.new_line} for index, done in result.done.items()]
            rows.append(row)
            continue
        diff, is_cut = cut(result.diff, left)
        left = max(0, left - len(diff))
        row["diff"] = diff
        if is_cut:
            row["diffCut"] = True
        rows.append(row)
    return rows


def _is_as_written(result: FileResult, edits: Sequence[EditArguments]) -> bool:
    """Return true of a file whose only differences are text that its reader sent."""
    if len(result.done) == 1 and result.change.path.suffix in SUFFIXES:
        sent, change = (edits[next(iter(result.done))].code or "").encode(), result.change
        if result.is_new:
            return change.after == sent
        if sent.strip() and change.after is not None and sent.strip() in change.after:
            rest = change.after.replace(sent.strip(), b"", 1)
            return rest.split() == (change.before.data or b"").split()
    own = {TEXT} if result.change.path.suffix in SUFFIXES else OWN_TEXT
    return bool(result.done) and all(edits[index].type in own for index in result.done)


def _edit_row(index: int, kind: str, done: Done) -> dict[str, object]:
    """Return the row of one edit: its place, and its changes."""
    row: dict[str, object] = {
        "index": index,
        "type": kind,
        "line": done.line,
        "newLine": done.new_line,
        "changes": done.changes,
    }
    if done.is_of_undefined:
        row["note"] = "this file does not define that name: only its uses here were renamed"
    if done.left:
        row["left"] = [
            {"why": why, "count": len(lines), "lines": sorted(set(lines))[:MAX_LEFT_LINES]}
            for why, lines in done.left.items()
        ]
    return row
