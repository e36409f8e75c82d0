"""Lisp files that somebody else edited: whether they are Lisp, and whether they can be read."""

from __future__ import annotations

import difflib
import re
from typing import TYPE_CHECKING, Final

from codriver import files
from codriver.editing.editable_paths import SUFFIXES
from codriver.editing.file_changes import MAX_FILE_BYTES
from codriver.files import Links, Rules
from codriver.tools.calls.syntax_check import MAX_FORMS
from codriver_lisp.errors import TooManyFormsError
from codriver_lisp.parinfer import balance
from codriver_lisp.reader import describe_imbalance, read

if TYPE_CHECKING:
    from pathlib import Path


RULES: Final = Rules(Links.NEVER, MAX_FILE_BYTES)
BITBAKE: Final = ".bb"
"""The ending that scripts of babashka share with the recipes of BitBake."""
_LISP_START = re.compile(r"\ufeff?(?:#![^\n]*\n|;[^\n]*\n|[\s,])*(?:[(\[{\"':^@]|#[_?({'\"^:]|\Z)")


def is_lisp(path: Path, text: str) -> bool:
    """Whether a file holds Lisp: by its suffix, and if other languages share that, by the beginning of its text."""
    suffix = path.suffix.lower()
    return suffix in SUFFIXES and (suffix != BITBAKE or _LISP_START.match(text) is not None)


def read_edited(workspace: Path, path: Path) -> str | None:
    """Return the present text of a Lisp file; None for other files and unreadable ones. Blocks."""
    if path.suffix.lower() not in SUFFIXES:
        return None
    try:
        text = files.read_text(path, RULES, root=workspace)
    except (OSError, ValueError):
        return None
    return text if is_lisp(path, text) else None


def fault_of(shown: str, text: str, most: int) -> str:
    """The fault of an unreadable text: its place, its reason, and the indentation's suggestion; empty for none."""
    try:
        fault = read(text, most_forms=MAX_FORMS).imbalance
    except TooManyFormsError:
        return ""
    if fault is None:
        return ""
    found = describe_imbalance(text, fault)
    said = f"{shown}:{found.line}:{found.column} does not read: {found.message}."[:most]
    proposal = _proposal(text, most - len(said))
    return said + proposal


def _proposal(text: str, most: int) -> str:
    """Return the lines that balancing by indentation would change, as many as fit."""
    balanced = balance(text)
    if balanced.error is not None or not balanced.changed:
        return ""
    said = " Its indentation suggests (nothing was rewritten; use it only if it says what you mean):"
    lines = [f"\n{number}: {line}" for number, line in _changed_lines(text, balanced.text)]
    shown: list[str] = []
    for line in lines:
        if len(said) + sum(map(len, shown)) + len(line) > most - len("\n…"):
            shown.append("\n…")
            break
        shown.append(line)
    return said + "".join(shown) if shown and shown[0] != "\n…" else ""


def _changed_lines(old: str, new: str) -> list[tuple[int, str]]:
    """Return the lines of a text that differ from another one, with their numbers."""
    before, after = old.splitlines(), new.splitlines()
    if len(before) == len(after):
        return [(n, line) for n, (was, line) in enumerate(zip(before, after, strict=True), 1) if was != line]
    matched = difflib.SequenceMatcher(None, before, after, autojunk=False).get_opcodes()
    return [(n + 1, after[n]) for tag, _, _, low, high in matched if tag != "equal" for n in range(low, high)]
