"""Editing files: Lisp by whole forms, as `codriver_lisp.edit` does it, Python by its definitions, any text by words.

All edits of a batch are checked before any file is touched, and all of them are done or none.
"""

from codriver.editing.atomic_batch import BatchRecords
from codriver.editing.batch import HY, Create, FileResult, Limits, Wanted
from codriver.editing.diagnostics import Diagnostics, lint
from codriver.editing.editor import Act, Editor, OnEnd, Outcome, PutBack
from codriver.editing.file_changes import FilesChangedError, FilesUnwritableError
from codriver.editing.file_languages import FileEdit, ReplaceText
from codriver.editing.python_edits import InsertDef, ReplaceDef
from codriver.editing.references import Elsewhere

__all__ = [
    "HY",
    "Act",
    "BatchRecords",
    "Create",
    "Diagnostics",
    "Editor",
    "Elsewhere",
    "FileEdit",
    "FileResult",
    "FilesChangedError",
    "FilesUnwritableError",
    "InsertDef",
    "Limits",
    "OnEnd",
    "Outcome",
    "PutBack",
    "ReplaceDef",
    "ReplaceText",
    "Wanted",
    "lint",
]
