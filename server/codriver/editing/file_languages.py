"""The language of a file that is edited: how its bytes are read, its text is changed, and new text is checked.

Lisp is UTF-8. A Python file is in the encoding that its first lines declare. Source: PEP 263.
"""

from __future__ import annotations

import io
import tokenize
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from codriver.editing import python_edits, text_edits
from codriver.editing.file_changes import PYTHON_SUFFIXES, SUFFIXES
from codriver.editing.notebooks import notebook_in, with_source
from codriver.editing.python_edits import InsertDef, PythonEdit, ReplaceDef
from codriver.editing.python_indentation import Piece
from codriver.editing.python_source import parsed, words_of
from codriver.editing.text_edits import ReplaceText
from codriver.errors import RefusedError
from codriver.lisp import edit as lisp_edits
from codriver.lisp.edit import Append, Done, Edited, Refused, TextEdit
from codriver.lisp.source_text import Document
from codriver.lisp.splices import check_new as check_lisp
from codriver.lisp.targeting import Limits, Problem, ProblemError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

FileEdit = TextEdit | PythonEdit | ReplaceText
"""An edit of a file that is there."""

HY: Final = ".hy"
"""How the name of a file of Hy ends."""
NOTEBOOK: Final = ".ipynb"
UTF_8: Final = "utf-8"
LISPS: Final = frozenset({"clojure", "clojurescript", "basilisp", "hy"})
"""Languages of notebooks whose brackets have to balance."""


def is_python(path: Path) -> bool:
    """Whether a file holds Python, by its name."""
    return path.suffix.lower() in PYTHON_SUFFIXES


def encoding_of(path: Path, data: bytes) -> str:
    """The encoding of a file without its byte order mark.

    Raises:
        ProblemError: it declares one that is not known, or two.
    """
    if not is_python(path):
        return UTF_8
    try:
        found = tokenize.detect_encoding(io.BytesIO(data).readline)[0]
    except SyntaxError as error:
        raise ProblemError(Problem(f"its encoding cannot be told: {error.msg}")) from error
    return UTF_8 if found == "utf-8-sig" else found


def apply(path: Path, text: str, edits: Mapping[int, FileEdit], limits: Limits) -> Edited | Refused:
    """The text of a file after `edits`, all of them or none: those by forms and definitions, then those by words."""
    by_words = {number: edit for number, edit in edits.items() if isinstance(edit, ReplaceText)}
    by_parts = {number: edit for number, edit in edits.items() if number not in by_words}
    first = _by_parts(path, text, by_parts, limits) if by_parts else Edited(text, {})
    if isinstance(first, Refused) or not by_words:
        return first
    if path.suffix == NOTEBOOK:
        return _in_notebook(path, text, by_words)
    found = text_edits.apply(first.text, by_words, is_python=is_python(path))
    if isinstance(found, Refused):
        return found
    words = _broken_by(path, first.text, found.text)
    if words:
        return Refused(tuple((number, Problem(words)) for number in by_words))
    return Edited(found.text, {**first.done, **found.done})


def _in_notebook(path: Path, text: str, edits: Mapping[int, ReplaceText]) -> Edited | Refused:
    """The text of a notebook after edits by words, each of the whole file or of the source of one cell."""
    problems: list[tuple[int, Problem]] = []
    done: dict[int, Done] = {}
    for number, edit in edits.items():
        try:
            found = _edited_notebook(path, text, number, edit)
        except RefusedError as error:
            problems.append((number, Problem(str(error))))
            continue
        if isinstance(found, Refused):
            problems += found.problems
        else:
            text, done = found.text, {**done, **found.done}
    return Refused(tuple(problems)) if problems else Edited(text, done)


def _edited_notebook(path: Path, text: str, number: int, edit: ReplaceText) -> Edited | Refused:
    """The text of a notebook after one edit; lines are those of the cell that it names.

    Raises:
        RefusedError: it is no notebook, or has no such cell.
    """
    if edit.cell is None:
        return text_edits.apply(text, {number: edit})
    notebook = notebook_in(text.encode("utf-8", "surrogatepass"), path.name)
    cell = notebook.cell(edit.cell)
    language = notebook.language if cell.type == "code" else ""
    found = text_edits.apply(cell.source, {number: replace(edit, cell=None)}, is_python=language == "python")
    if isinstance(found, Refused):
        return found
    if words := _broken_cell(language, cell.source, found.text):
        return Refused(((number, Problem(words)),))
    return Edited(with_source(text, path.name, cell.index, found.text), found.done)


def _broken_cell(language: str, before: str, after: str) -> str:
    """Why the code of a cell cannot be read any more; empty where it can, or could not be before either, as magics."""
    faults = []
    for source in (before, after):
        try:
            if language == "python":
                parsed(source, compiles=False)
            elif language in LISPS:
                check_lisp(source)
        except (SyntaxError, ProblemError) as error:
            faults.append(words_of(error) if isinstance(error, SyntaxError) else str(error))
        else:
            faults.append("")
    return f"with this edit the cell {faults[1]}" if faults[1] and not faults[0] else ""


def _broken_by(path: Path, before: str, after: str) -> str:
    """Why code that could be read cannot be read any more; empty where it can, or could not be before either."""
    try:
        check_whole(path, after)
    except ProblemError as error:
        fault = str(error)
    else:
        return ""
    try:
        check_whole(path, before)
    except ProblemError:
        return ""
    return f"with this edit {fault}"


def _by_parts(path: Path, text: str, edits: Mapping[int, FileEdit], limits: Limits) -> Edited | Refused:
    of_python = {number: edit for number, edit in edits.items() if isinstance(edit, PythonEdit)}
    of_lisp = {number: edit for number, edit in edits.items() if isinstance(edit, TextEdit)}
    own, other = (of_python, of_lisp) if is_python(path) else (of_lisp, of_python)
    strange = [number for number, edit in other.items() if number not in own]
    if strange:
        words = "in Python use replace_def, insert_def" if is_python(path) else "it is for Python: use replace, insert"
        return Refused(tuple((number, Problem(f"{words} or append")) for number in strange))
    if is_python(path):
        return python_edits.apply(text, of_python)
    return lisp_edits.apply(Document(text, is_hy=path.suffix == HY), of_lisp, limits)


def check_whole(path: Path, text: str) -> None:
    """Check a text that is to be all of a file.

    Raises:
        ProblemError: it cannot be read as code.
    """
    if path.suffix.lower() in SUFFIXES or not path.suffix:
        check_lisp(text)
    if not is_python(path):
        return
    try:
        parsed(text)
    except SyntaxError as error:
        raise ProblemError(Problem(f"the content {words_of(error)}")) from error


def check_new(edit: FileEdit, path: Path) -> None:
    """Check the new text of an edit alone, where there is nothing yet that it could stand in.

    Raises:
        ProblemError: it cannot be read as code.
    """
    if isinstance(edit, ReplaceDef | InsertDef) or (is_python(path) and isinstance(edit, Append)):
        Piece(edit.new)
    elif isinstance(edit, lisp_edits.Replace | lisp_edits.Insert | Append):
        check_lisp(edit.new)
