"""Describe edited files in an answer, with one object for each file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from codriver.editing.batch import truncate_diff
from codriver.editing.editable_paths import LISP_SUFFIXES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from codriver.editing import FileResult
    from codriver.tools.edit_arguments import EditArguments
    from codriver_lisp.edit import EditEffect

MAX_DIFF_CHARACTERS = 12_000
"""Maximum total number of characters of the diffs in an answer, about as many as an agent reads at once."""
TEXT_TYPE = "text"
"""Type of an edit whose caller sent both the old and the new text."""
VERBATIM_TYPES = frozenset({TEXT_TYPE, "append", "create", "replace_def", "insert_def"})
"""Types of edits that write exactly the caller's text. For Lisp, indentation and brackets are adapted instead."""


def edit_rows(
    files: Sequence[FileResult], edits: Sequence[EditArguments], *, applied: bool, is_whole: bool = True
) -> list[dict[str, object]]:
    """Describe each edited file in a JSON object for the answer.

    Unless `is_whole` is true, diffs that only repeat the caller's edits are omitted.
    """
    rows: list[dict[str, object]] = []
    left = MAX_DIFF_CHARACTERS
    for result in files:
        row: dict[str, object] = {"filePath": result.display_path, "applied": applied}
        if result.is_new:
            row["created"] = True
        if result.change.after is None:
            row["deleted"] = True
        if result.done:
            row["edits"] = [_edit_row(index, edits[index].type, done) for index, done in result.done.items()]
        if not is_whole and _is_as_written(result, edits):
            if len(edits) == 1:
                del row["edits"]
            else:
                row["edits"] = [{"index": index, "line": done.new_line} for index, done in result.done.items()]
            rows.append(row)
            continue
        diff, is_cut = truncate_diff(result.diff, left)
        left = max(0, left - len(diff))
        row["diff"] = diff
        if is_cut:
            row["diffCut"] = True
        rows.append(row)
    return rows


def _is_as_written(result: FileResult, edits: Sequence[EditArguments]) -> bool:
    """Return whether a file differs from its previous content only by text that the caller sent."""
    if len(result.done) == 1 and result.change.path.suffix in LISP_SUFFIXES:
        sent, change = (edits[next(iter(result.done))].code or "").encode(), result.change
        if result.is_new:
            return change.after == sent
        if sent.strip() and change.after is not None and sent.strip() in change.after:
            rest = change.after.replace(sent.strip(), b"", 1)
            return rest.split() == (change.before.data or b"").split()
    types = {TEXT_TYPE} if result.change.path.suffix in LISP_SUFFIXES else VERBATIM_TYPES
    return bool(result.done) and all(edits[index].type in types for index in result.done)


def _edit_row(index: int, kind: str, done: EditEffect) -> dict[str, object]:
    """Describe one edit in a JSON object, with its position before and after the edit."""
    return {"index": index, "type": kind, "line": done.line, "newLine": done.new_line}
