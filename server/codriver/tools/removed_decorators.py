"""Notes about decorators that an edit of type `replace_def` removed because the new code has none."""

from __future__ import annotations

import ast
import textwrap
from typing import TYPE_CHECKING, Final

from codriver.editing.editable_paths import PYTHON_SUFFIXES
from codriver.editing.python_source import DEFINITION_NODES, PythonSource
from codriver.editing.source_encoding import decode_source
from codriver.errors import join_first
from codriver_lisp.errors import EditFailedError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from codriver.editing import FileResult
    from codriver.tools.edit_arguments import EditArguments

MAX_NAMED_DECORATORS: Final = 3
"""Maximum number of decorators named in a note."""


def removed_decorator_notes(files: Sequence[FileResult], edits: Sequence[EditArguments]) -> list[str]:
    """Return a note for each definition whose decorators were removed. The caller may not have intended that.

    Parses code, so it blocks.
    """
    notes = []
    for result in files:
        for index in result.done if result.change.path.suffix in PYTHON_SUFFIXES else ():
            edit = edits[index]
            if edit.type == "replace_def" and (removed := _removed_decorators(result, edit)):
                notes.append(
                    f"{edit.name} no longer has {join_first(removed, MAX_NAMED_DECORATORS)}, because the new code "
                    "has no decorators"
                )
    return notes


def _removed_decorators(result: FileResult, edit: EditArguments) -> list[str]:
    """Return the decorators of the replaced definition if the new definition has none."""
    code = textwrap.dedent(edit.code or "")
    if "@" in code:
        return []
    try:
        before = PythonSource(decode_source(result.change.path, result.change.before.data or b""), compiles=False)
        node = before.find(edit.name or "", edit.line).node
        new = ast.parse(code).body
    except (EditFailedError, SyntaxError, ValueError, RecursionError):
        return []  # the code is for another version of Python, or in another encoding
    if not isinstance(node, DEFINITION_NODES) or not new or not isinstance(new[-1], DEFINITION_NODES):
        return []
    return [f"@{ast.unparse(decorator)}" for decorator in node.decorator_list]
