"""Lisp files that somebody else edited: whether they still read, and the load of what changed in them."""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from codriver import files
from codriver.core.values import LIVE
from codriver.editing import FileResult
from codriver.editing.file_changes import MAX_FILE_BYTES, SUFFIXES, Change, Snapshot
from codriver.files import Links, Rules
from codriver.lisp.balance import balance
from codriver.lisp.bracket_errors import explain
from codriver.lisp.reader import TooManyFormsError, read
from codriver.tools.acts.edit_loads import EditLoads, unwatched_save
from codriver.tools.answers.lean_answers import Evaluating
from codriver.tools.calls.syntax_check import MAX_FORMS

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from codriver.tools.calls.base import Call

RULES: Final = Rules(Links.NEVER, MAX_FILE_BYTES)
BITBAKE: Final = ".bb"
"""The ending that scripts of babashka share with the recipes of BitBake."""
_LISP_START = re.compile(r"\ufeff?(?:#![^\n]*\n|;[^\n]*\n|[\s,])*(?:[(\[{\"':^@]|#[_?({'\"^:]|\Z)")
FRAMES: Final = 2


@dataclass(frozen=True, slots=True)
class Edit:
    """The edit of one file as its client tells it. `before`: the text it had; `replaced`: what was taken and put there.

    `is_whole`: the file was written whole.
    """

    path: Path
    shown: str
    before: str | None = None
    replaced: Sequence[tuple[str, str]] = ()
    is_whole: bool = False

    def text_before(self, after: str) -> str:
        """The text before the edit that made it `after`; empty where that cannot be told, as of a new file."""
        if self.before is not None:
            return self.before
        text = after
        for old, new in reversed(self.replaced):
            if not new or new not in text:
                return ""
            text = text.replace(new, old, 1)
        return text if self.replaced and not self.is_whole else ""


def is_lisp(path: Path, text: str) -> bool:
    """Whether a file holds Lisp, by its ending, and where others share it by how its text begins."""
    suffix = path.suffix.lower()
    return suffix in SUFFIXES and (suffix != BITBAKE or _LISP_START.match(text) is not None)


def read_edited(workspace: Path, path: Path) -> str | None:
    """The text of a Lisp file as it is now; None for other files and unreadable ones. Blocks."""
    if path.suffix.lower() not in SUFFIXES:
        return None
    try:
        text = files.read_text(path, RULES, root=workspace)
    except (OSError, ValueError):
        return None
    return text if is_lisp(path, text) else None


def fault_of(shown: str, text: str, most: int) -> str:
    """The fault of a text that does not read: where, why, and what its indentation suggests; empty if it reads."""
    try:
        fault = read(text, most_forms=MAX_FORMS).fault
    except TooManyFormsError:
        return ""
    if fault is None:
        return ""
    found = explain(text, fault)
    said = f"{shown}:{found.line}:{found.column} does not read: {found.message}."[:most]
    proposal = _proposal(text, most - len(said))
    return said + proposal


def _proposal(text: str, most: int) -> str:
    """The lines that balancing by indentation would change, as many as there is room for."""
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
    """The lines of a text that another one has differently, with their numbers."""
    before, after = old.splitlines(), new.splitlines()
    if len(before) == len(after):
        return [(n, line) for n, (was, line) in enumerate(zip(before, after, strict=True), 1) if was != line]
    matched = difflib.SequenceMatcher(None, before, after, autojunk=False).get_opcodes()
    return [(n + 1, after[n]) for tag, _, _, low, high in matched if tag != "equal" for n in range(low, high)]


async def reload(call: Call, who: str, edit: Edit, text: str, *, wait_s: float) -> str:
    """Load the top-level forms that an edit changed where a session serves the file; what failed, in words."""
    services = call.services
    change = Change(edit.path, Snapshot(edit.text_before(text).encode("utf-8", "replace")), text.encode())
    await services.work.files.run(call.client, partial(unwatched_save, services, edit.path))
    loads = EditLoads(call, who, Evaluating(who=who), by="an edit", wait_s=wait_s)
    await loads.run([FileResult(change, edit.shown, {}, "")], {})
    if loads.failure:
        return _failure(edit.shown, loads.failure)
    load = loads.rows.get(0, {}).get("load")
    if isinstance(load, dict) and load.get("status") in LIVE:
        return f"{edit.shown} is still being loaded: get_evaluation {load.get('evaluationId')}"
    return ""


def _failure(shown: str, failure: dict[str, object]) -> str:
    """Why a load failed: the error, its place, and the innermost frames of the project."""
    error = failure.get("error")
    found = error if isinstance(error, dict) else {}
    words = found.get("message") or failure.get("hint") or failure.get("reason")
    kind = f"{found['class']}: " if "class" in found else ""
    place = f" ({found.get('file', shown)}:{found['line']})" if "line" in found else ""
    frames = found.get("frames")
    shown_frames = [str(frame) for frame in frames[:FRAMES]] if isinstance(frames, list) else []
    return "\n  ".join([f"loading {shown} failed: {kind}{words}{place}", *shown_frames])
