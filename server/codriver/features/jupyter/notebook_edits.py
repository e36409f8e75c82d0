"""Replace strings in notebooks, either in the whole file or in the source of one cell."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from codriver.editing.file_languages import FilePart, apply_string_edits
from codriver.editing.python_source import describe_syntax_error, parse_python
from codriver.errors import RefusedError
from codriver.features.jupyter.notebook_files import parse_notebook, replace_source
from codriver_lisp.edit import EditedText, EditEffect, RefusedEdits
from codriver_lisp.errors import EditError, EditFailedError
from codriver_lisp.splices import check_balanced as check_lisp

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from codriver.editing import ReplaceText

LISP_LANGUAGES: Final = frozenset({"clojure", "clojurescript", "basilisp", "hy"})
"""Notebook languages in which brackets in a cell must be balanced."""


def cell_part(cell: str) -> FilePart:
    """Return the part of a notebook file that consists of the cell with this id or index."""
    return FilePart("cell", cell, "cell is only for notebooks (.ipynb). Omit it for this file")


def apply_to_notebook(path: Path, text: str, edits: Mapping[int, ReplaceText]) -> EditedText | RefusedEdits:
    """Apply numbered edits to the text of a notebook in order. If one of them fails, apply none."""
    edit_errors: list[tuple[int, EditError]] = []
    replacements: dict[int, EditEffect] = {}
    for number, edit in edits.items():
        try:
            result = _apply_edit(path, text, number, edit)
        except RefusedError as error:
            edit_errors.append((number, EditError(str(error))))
            continue
        if isinstance(result, RefusedEdits):
            edit_errors += result.errors
        else:
            text, replacements = result.text, {**replacements, **result.done}
    return RefusedEdits(tuple(edit_errors)) if edit_errors else EditedText(text, replacements)


def _apply_edit(path: Path, text: str, number: int, edit: ReplaceText) -> EditedText | RefusedEdits:
    """Apply one edit to the text of a notebook. Line numbers in the result are relative to the edited cell.

    Raises:
        RefusedError: the text is not a notebook or has no such cell.
    """
    if edit.part is None:
        return apply_string_edits(text, {number: edit})
    notebook = parse_notebook(text.encode("utf-8", "surrogatepass"), path.name)
    cell = notebook.cell(edit.part.name)
    language = notebook.language if cell.type == "code" else ""
    result = apply_string_edits(cell.source, {number: replace(edit, part=None)}, is_python=language == "python")
    if isinstance(result, RefusedEdits):
        return result
    if error := _new_syntax_error(language, cell.source, result.text):
        return RefusedEdits(((number, EditError(error)),))
    return EditedText(replace_source(text, path.name, cell.index, result.text), result.done)


def _new_syntax_error(language: str, old_source: str, new_source: str) -> str:
    """Return the syntax error that an edit introduces into a cell, or an empty string.

    If the old source was already invalid, return no error, so that it can be fixed with several edits.
    """
    errors = []
    for source in (old_source, new_source):
        try:
            if language == "python":
                parse_python(source, compiles=False)
            elif language in LISP_LANGUAGES:
                check_lisp(source)
        except (SyntaxError, EditFailedError) as error:
            errors.append(describe_syntax_error(error) if isinstance(error, SyntaxError) else str(error))
        else:
            errors.append("")
    return f"with this edit the cell {errors[1]}" if errors[1] and not errors[0] else ""
