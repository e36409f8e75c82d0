"""Recognize and read Lisp files that an editor or another tool changed."""

from __future__ import annotations

import difflib
import re
from typing import TYPE_CHECKING, Final

from codriver import files
from codriver.editing.editable_paths import LISP_SUFFIXES
from codriver.editing.file_changes import MAX_FILE_BYTES
from codriver.files import FileRules, Links
from codriver.tools.calls.syntax_check import MAX_FORMS
from codriver_lisp.errors import TooManyFormsError
from codriver_lisp.parinfer import balance_by_indentation
from codriver_lisp.reader import describe_imbalance, read_forms

if TYPE_CHECKING:
    from pathlib import Path


EDITED_FILE_RULES: Final = FileRules(Links.NEVER, MAX_FILE_BYTES)
"""Limits for reading edited files."""
BITBAKE_SUFFIX: Final = ".bb"
"""Suffix shared by babashka scripts and BitBake recipes."""
_LISP_START_PATTERN = re.compile(r"\ufeff?(?:#![^\n]*\n|;[^\n]*\n|[\s,])*(?:[(\[{\"':^@]|#[_?({'\"^:]|\Z)")
"""Matches the beginning of Lisp code, including comments and white space before it."""


def is_lisp(path: Path, text: str) -> bool:
    """Return whether a file contains Lisp code, judging by its suffix.

    The suffix `.bb` is also used for BitBake recipes, so such a file must also start like Lisp code.
    """
    suffix = path.suffix.lower()
    return suffix in LISP_SUFFIXES and (suffix != BITBAKE_SUFFIX or _LISP_START_PATTERN.match(text) is not None)


def read_edited_lisp(workspace: Path, path: Path) -> str | None:
    """Return the text of a Lisp file, or None if the file is not Lisp or cannot be read.

    Reads the file, so it blocks.
    """
    if path.suffix.lower() not in LISP_SUFFIXES:
        return None
    try:
        text = files.read_text(path, EDITED_FILE_RULES, root=workspace)
    except (OSError, ValueError):
        return None
    return text if is_lisp(path, text) else None


def describe_syntax_error(name: str, text: str, most: int) -> str:
    """Describe the syntax error in Lisp code and suggest a fix based on its indentation.

    Returns at most `most` characters, or an empty string if the code can be read.
    """
    try:
        imbalance = read_forms(text, most_forms=MAX_FORMS).imbalance
    except TooManyFormsError:
        return ""
    if imbalance is None:
        return ""
    found = describe_imbalance(text, imbalance)
    description = f"{name}:{found.line}:{found.column} cannot be read: {found.message}."[:most]
    proposal = _suggested_lines(text, most - len(description))
    return description + proposal


def _suggested_lines(text: str, most: int) -> str:
    """Describe the lines to change so that the brackets match the indentation.

    Returns at most `most` characters, or an empty string if no suggestion fits.
    """
    balanced = balance_by_indentation(text)
    if balanced.error is not None or not balanced.changed:
        return ""
    introduction = (
        " Its indentation suggests the following code. Check that it is what you intended, because nothing was "
        "rewritten:"
    )
    lines = [f"\n{number}: {line}" for number, line in _changed_lines(text, balanced.text)]
    lines_that_fit: list[str] = []
    for line in lines:
        if len(introduction) + sum(map(len, lines_that_fit)) + len(line) > most - len("\n…"):
            lines_that_fit.append("\n…")
            break
        lines_that_fit.append(line)
    return introduction + "".join(lines_that_fit) if lines_that_fit and lines_that_fit[0] != "\n…" else ""


def _changed_lines(old: str, new: str) -> list[tuple[int, str]]:
    """Return the number and text of each line of `new` that differs from `old`."""
    before, after = old.splitlines(), new.splitlines()
    if len(before) == len(after):
        return [(n, line) for n, (was, line) in enumerate(zip(before, after, strict=True), 1) if was != line]
    matched = difflib.SequenceMatcher(None, before, after, autojunk=False).get_opcodes()
    return [(n + 1, after[n]) for tag, _, _, low, high in matched if tag != "equal" for n in range(low, high)]
