"""Edits of strings in notebooks: in the whole file, or in the source of one cell."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from codriver.editing.file_languages import FilePart, apply_words
from codriver.editing.python_edits import parsed, words_of
from codriver.errors import RefusedError
from codriver.features.jupyter.notebooks import notebook_in, with_source
from codriver_lisp.edit import Done, Edited, Refused
from codriver_lisp.errors import EditError, EditFailedError
from codriver_lisp.splices import check_new as check_lisp

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from codriver.editing import ReplaceText

LISPS: Final = frozenset({"clojure", "clojurescript", "basilisp", "hy"})
"""Languages of notebooks with balanced brackets."""


def part_of_notebook(cell: str) -> FilePart:
    """Return the part of a notebook to which an edit is limited: a cell, by its id or index."""
    return FilePart("cell", cell, "cell is only for notebooks (.ipynb): omit it")


def apply_to_notebook(path: Path, text: str, edits: Mapping[int, ReplaceText]) -> Edited | Refused:
    """Return the text of a notebook after edits of strings, in the whole file or the source of one cell."""
    edit_errors: list[tuple[int, EditError]] = []
    done: dict[int, Done] = {}
    for number, edit in edits.items():
        try:
            found = _edited_notebook(path, text, number, edit)
        except RefusedError as error:
            edit_errors.append((number, EditError(str(error))))
            continue
        if isinstance(found, Refused):
            edit_errors += found.errors
        else:
            text, done = found.text, {**done, **found.done}
    return Refused(tuple(edit_errors)) if edit_errors else Edited(text, done)


def _edited_notebook(path: Path, text: str, number: int, edit: ReplaceText) -> Edited | Refused:
    """Return the text of a notebook after one edit, whose lines count within its cell.

    Raises:
        RefusedError: the text is not a notebook, or has no such cell.
    """
    if edit.part is None:
        return apply_words(text, {number: edit})
    notebook = notebook_in(text.encode("utf-8", "surrogatepass"), path.name)
    cell = notebook.cell(edit.part.name)
    language = notebook.language if cell.type == "code" else ""
    found = apply_words(cell.source, {number: replace(edit, part=None)}, is_python=language == "python")
    if isinstance(found, Refused):
        return found
    if words := _broken_cell(language, cell.source, found.text):
        return Refused(((number, EditError(words)),))
    return Edited(with_source(text, path.name, cell.index, found.text), found.done)


def _broken_cell(language: str, before: str, after: str) -> str:
    """Return why an edit made a cell's code unreadable, or an empty string if it is readable, or was not before."""
    reasons = []
    for source in (before, after):
        try:
            if language == "python":
                parsed(source, compiles=False)
            elif language in LISPS:
                check_lisp(source)
        except (SyntaxError, EditFailedError) as error:
            reasons.append(words_of(error) if isinstance(error, SyntaxError) else str(error))
        else:
            reasons.append("")
    return f"with this edit the cell {reasons[1]}" if reasons[1] and not reasons[0] else ""
