"""Files that somebody else edited: whether they can be read, and the load of their changes.

Lisp files are read by their brackets, and loaded by the forms that changed. Python's modules whose files were edited
since their load are loaded before a run of tests, and at an edit by others. Names that somebody bound anew in the REPL
are left to them. If a file does not parse, if its load fails, or if a module holds a name that the file has no more,
the tests are for a new process: the REPL's code is neither the present nor the former text of the files.
"""

from __future__ import annotations

import difflib
import re
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

import anyio

from codriver import files
from codriver.core import evaluation_queue
from codriver.core.values import LIVE, MAIN_SESSION, Request
from codriver.editing import FileResult
from codriver.editing.file_changes import MAX_FILE_BYTES, SUFFIXES, Change, Snapshot
from codriver.errors import CodriverError
from codriver.files import Links, Rules
from codriver.lisp.parinfer import balance
from codriver.lisp.reader import TooManyFormsError, explain, read
from codriver.tools.acts.file_loads import EditLoads, read_source, unwatched_save
from codriver.tools.acts.submission import begin
from codriver.tools.answers.drift_notes import (
    EDITED,
    drift_of,
    is_of,
    notes_of_load,
)
from codriver.tools.answers.lean_answers import Evaluating
from codriver.tools.calls.evaluation_waits import wait
from codriver.tools.calls.session_choice import Target, in_lane, server_of
from codriver.tools.calls.syntax_check import MAX_FORMS
from codriver.wire.untrusted import as_map

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from codriver.core.state import Repl
    from codriver.core.values import Evaluation
    from codriver.tools.calls.base import Call


RULES: Final = Rules(Links.NEVER, MAX_FILE_BYTES)
BITBAKE: Final = ".bb"
"""The ending that scripts of babashka share with the recipes of BitBake."""
_LISP_START = re.compile(r"\ufeff?(?:#![^\n]*\n|;[^\n]*\n|[\s,])*(?:[(\[{\"':^@]|#[_?({'\"^:]|\Z)")
FRAMES: Final = 2


@dataclass(frozen=True, slots=True)
class Edit:
    """The edit of one file as its client tells it. `before`: its former text; `replaced`: old and new parts.

    `is_whole`: the file was written whole.
    """

    path: Path
    shown: str
    before: str | None = None
    replaced: Sequence[tuple[str, str]] = ()
    is_whole: bool = False

    def text_before(self, after: str) -> str:
        """The text before the edit that made it `after`; empty if unknown, as for a new file."""
        if self.before is not None:
            return self.before
        text = after
        for old, new in reversed(self.replaced):
            if not new or new not in text:
                return ""
            text = text.replace(new, old, 1)
        return text if self.replaced and not self.is_whole else ""


def is_lisp(path: Path, text: str) -> bool:
    """Whether a file holds Lisp: by its suffix, and if other languages share that, by the beginning of its text."""
    suffix = path.suffix.lower()
    return suffix in SUFFIXES and (suffix != BITBAKE or _LISP_START.match(text) is not None)


def read_edited(workspace: Path, path: Path) -> str | None:
    """The present text of a Lisp file; None for other files and unreadable ones. Blocks."""
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
    """The lines that balancing by indentation would change, as many as fit."""
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
    """The lines of a text that differ from another one, with their numbers."""
    before, after = old.splitlines(), new.splitlines()
    if len(before) == len(after):
        return [(n, line) for n, (was, line) in enumerate(zip(before, after, strict=True), 1) if was != line]
    matched = difflib.SequenceMatcher(None, before, after, autojunk=False).get_opcodes()
    return [(n + 1, after[n]) for tag, _, _, low, high in matched if tag != "equal" for n in range(low, high)]


async def reload(call: Call, who: str, edit: Edit, text: str, *, wait_s: float) -> str:
    """Load the top-level forms that an edit changed if a session serves the file; the failures, in words."""
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
    """The reason of a failed load: the error, its place, and the innermost frames of the project."""
    found = as_map(failure.get("error"))
    words = found.get("message") or failure.get("hint") or failure.get("reason")
    kind = f"{found['class']}: " if "class" in found else ""
    place = f" ({found.get('file', shown)}:{found['line']})" if "line" in found else ""
    frames = found.get("frames")
    shown_frames = [str(frame) for frame in frames[:FRAMES]] if isinstance(frames, list) else []
    return "\n  ".join([f"loading {shown} failed: {kind}{words}{place}", *shown_frames])


TOLD: Final = (*EDITED, "docstring", "order")
"""The kinds of differences that a load removes."""


async def _load(
    call: Call, target: Target, who: str, by: str, module: str, text: str, path: str, wait_s: float
) -> Evaluation:
    """The load of a module by its changes, after `wait_s` at most; `by` names the act behind the load, for the log."""
    request = Request(
        id=evaluation_queue.next_id(call.state),
        code=text,
        session=target.session.name,
        file=path,
        kind="load-file",
        how="keep",
        description=f"{by} loads {module}",
    )
    begin(call, target, who, request)
    return await wait(call, request.id, wait_s)


async def load_saved(call: Call, who: str, path: Path, shown: str, wait_s: float) -> str:
    """Load the module of a file that somebody edited, if the REPL has its former state; the failure, in words.

    A file that no REPL has loaded is nobody's to run.
    """
    ends_at = anyio.current_time() + wait_s
    repl = server_of(path, call.state.repls.values(), call.services.workspace)
    if repl is None or isinstance(repl, str) or not _can_load(repl):
        return ""
    target = in_lane(call, Target(repl, repl.sessions[MAIN_SESSION]), who)
    with suppress(CodriverError):
        found = [one for one in await drift_of(call, repl, "edited") if is_of(path, one.module)]
        broken = [one.of for one in found if one.kind == "unparsable"]
        if broken:
            return f"{shown} does not parse: {broken[0]}"
        for module in dict.fromkeys(one.module for one in found if one.kind in TOLD):
            text = await call.services.work.files.run(call.client, partial(read_source, path))
            await call.services.work.files.run(call.client, partial(unwatched_save, call.services, path))
            left_s = max(0.0, ends_at - anyio.current_time())
            current = await _load(call, target, who, "an edit", module, text, str(path), left_s)
            if not current.over:
                return f"{shown} is still being loaded: get_evaluation {current.id}"
            if current.status != "done":
                return f"loading {shown} failed: {_why(current)}"
            return "; ".join(await notes_of_load(call, repl))
    return ""


def _can_load(repl: Repl) -> bool:
    is_able = repl.profile is not None and {"drift", "load-file"} <= repl.profile.capabilities.keys()
    return repl.dialect == "python" and is_able


def _why(current: Evaluation) -> str:
    failure = current.failure
    return f"{failure.type}: {failure.message}" if failure is not None else current.status
