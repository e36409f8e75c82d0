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
from pathlib import Path
from typing import TYPE_CHECKING, Final

import anyio

from codriver import files
from codriver.core import evaluation_queue
from codriver.core.values import LIVE, MAIN_SESSION, Request
from codriver.editing import FileResult
from codriver.editing.file_changes import MAX_FILE_BYTES, SUFFIXES, Change, Snapshot
from codriver.editing.python_edits import imported_names
from codriver.errors import CodriverError, RefusedError, few
from codriver.files import Links, Rules
from codriver.lisp.parinfer import balance
from codriver.lisp.reader import TooManyFormsError, explain, read
from codriver.tools.acts.file_loads import EditLoads, read_source, unwatched_save
from codriver.tools.acts.submission import begin
from codriver.tools.answers.conflicts import other_editor
from codriver.tools.answers.drift_notes import (
    EDITED,
    NEW_PROCESS,
    drift_of,
    drift_or_none,
    is_of,
    notes_of_load,
    told_of_load,
    told_of_lost,
)
from codriver.tools.answers.lean_answers import Evaluating
from codriver.tools.calls.evaluation_waits import wait
from codriver.tools.calls.session_choice import Target, in_lane, server_of
from codriver.tools.calls.syntax_check import MAX_FORMS
from codriver.wire.untrusted import as_map

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from codriver.core.state import Repl
    from codriver.core.values import Evaluation
    from codriver.repls.contract.questions import Difference
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


@dataclass(frozen=True, slots=True)
class Loaded:
    """The loads before a run of tests, in notes; whether only a new process runs the present files."""

    notes: tuple[str, ...] = ()
    needs_new_process: bool = False


def in_new_process(lost: Sequence[str]) -> tuple[str, ...]:
    """Notes on lost names, for which tests ran in a new process."""
    return tuple([f"{one}, {NEW_PROCESS}" for one in lost])


async def load_edited(call: Call, target: Target, who: str, wait_s: float) -> Loaded:
    """Load the edited modules of a Python REPL, imported ones first; do nothing if none was edited."""
    if not _can_load(target.repl):
        return Loaded()
    found = await drift_or_none(call, target.repl, "edited")
    broken = [f"{one.module} does not parse ({one.of})" for one in found if one.kind == "unparsable"]
    if broken:
        return Loaded((f"{few(broken)}, {NEW_PROCESS}",), needs_new_process=True)
    names: dict[str, list[str]] = {}
    for one in found:
        if one.kind in TOLD and one.path:
            names.setdefault(one.module, []).append(one.name)
    paths = {one.module: one.path for one in found if one.module in names and one.path}
    if not paths:
        lost = told_of_lost(found)
        return Loaded(in_new_process(lost), needs_new_process=bool(lost))
    return await _Loads(call, target, who, anyio.current_time() + wait_s).run(names, paths)


class _Loads:
    """The loads before one run of tests, within its time."""

    def __init__(self, call: Call, target: Target, who: str, ends_at: float) -> None:
        self._call, self._target, self._who, self._ends_at = call, target, who, ends_at

    async def run(self, names: Mapping[str, list[str]], paths: Mapping[str, str]) -> Loaded:
        """Load each module from its file, until one fails; `names` are the edited names."""
        texts: dict[str, str] = {}
        for module, path in paths.items():
            try:
                texts[module] = await self._call.services.work.files.run(
                    self._call.client, partial(read_source, Path(path))
                )
            except RefusedError as error:
                return Loaded((f"{error}, {NEW_PROCESS}",), needs_new_process=True)
        done: list[str] = []
        notes: list[str] = []
        found: tuple[Difference, ...] = ()
        for module in ordered(texts):
            left_s = max(0.0, self._ends_at - anyio.current_time())
            current = await _load(
                self._call, self._target, self._who, "run_tests", module, texts[module], paths[module], left_s
            )
            if current.status != "done":
                return Loaded((_failed(module, current), *_said(done), *notes), needs_new_process=True)
            by = await other_editor(self._call, self._who, Path(paths[module]))
            done.append(f"{module} ({few(names[module])}{f', by {by}' if by else ''})")
            found = await drift_or_none(self._call, self._target.repl, "old")
            notes += told_of_load(found)
        lost = told_of_lost(found)
        told = [one for one in dict.fromkeys(notes) if one not in lost]
        return Loaded((*in_new_process(lost), *_said(done), *told), needs_new_process=bool(lost))


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


def ordered(texts: Mapping[str, str]) -> list[str]:
    """Modules by their texts, each behind those that it imports; modules that import one another keep their order."""
    needs = {module: set(_imports(text)) for module, text in texts.items()}
    waiting, found = list(texts), []
    while waiting:
        lasts = {module: module.rpartition(".")[2] for module in waiting}
        free = [one for one in waiting if not needs[one] & {lasts[other] for other in waiting if other != one}]
        found.append((free or waiting)[0])
        waiting.remove(found[-1])
    return found


def _imports(text: str) -> list[str]:
    with suppress(SyntaxError, ValueError):
        return list(imported_names(text))
    return []


def _said(done: list[str]) -> list[str]:
    return [f"loaded first, as edited since: {few(done)}"] if done else []


def _failed(module: str, current: Evaluation) -> str:
    return f"{module} was edited, and its load failed ({_why(current)}), {NEW_PROCESS}"


def _why(current: Evaluation) -> str:
    failure = current.failure
    return f"{failure.type}: {failure.message}" if failure is not None else current.status
