"""Editing files of Lisp code: the thin shell around `codriver.lisp.edit` that touches the file system.

All edits of a batch are checked before any file is touched, and all of them are done or none.
"""

from codriver.editing.batch import HY, Create, EditsRefusedError, FileResult, Limits, Wanted
from codriver.editing.diagnostics import Diagnostics, lint
from codriver.editing.editor import Editor, NothingToUndoError, Outcome
from codriver.editing.file_changes import FilesChangedError, FilesUnwritableError
from codriver.editing.other_files import Elsewhere

__all__ = [
    "HY",
    "Create",
    "Diagnostics",
    "Editor",
    "EditsRefusedError",
    "Elsewhere",
    "FileResult",
    "FilesChangedError",
    "FilesUnwritableError",
    "Limits",
    "NothingToUndoError",
    "Outcome",
    "Wanted",
    "lint",
]
