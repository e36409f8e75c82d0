"""Edit files: Lisp code by forms, Python code by definitions, and any text by strings.

All edits in a batch are checked before any file is written, and either all or none of them are applied.
"""

from codriver.editing.atomic_batch import BatchRecords
from codriver.editing.batch import HY_SUFFIX, CreateFile, EditRequest, FileResult, SearchLimits
from codriver.editing.diagnostics import Diagnostics, lint
from codriver.editing.edit_transaction import EditTransaction, EditTransactionResult, RestoreResult
from codriver.editing.editor import Editor, Outcome
from codriver.editing.file_languages import FileEdit, FilePart, ReplaceText
from codriver.editing.python_edits import InsertDef, ReplaceDef
from codriver.editing.write_errors import FilesChangedError, FilesUnwritableError

__all__ = [
    "HY_SUFFIX",
    "BatchRecords",
    "CreateFile",
    "Diagnostics",
    "EditRequest",
    "EditTransaction",
    "EditTransactionResult",
    "Editor",
    "FileEdit",
    "FilePart",
    "FileResult",
    "FilesChangedError",
    "FilesUnwritableError",
    "InsertDef",
    "Outcome",
    "ReplaceDef",
    "ReplaceText",
    "RestoreResult",
    "SearchLimits",
    "lint",
]
