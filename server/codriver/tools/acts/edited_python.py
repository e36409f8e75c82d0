"""Loads of Python's modules whose files were edited since their load: before a run of tests, and at an edit by others.

Names that somebody bound anew in the REPL are left to them. Where a file does not parse, or its load fails, the tests
are for a new process: the REPL has neither what the file says nor what it said.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import anyio

from codriver.core import evaluation_queue
from codriver.core.values import MAIN_SESSION, Request
from codriver.editing.changed_statements import imported_names
from codriver.errors import CodriverError, RefusedError
from codriver.tools.acts.edit_loads import unwatched_save
from codriver.tools.acts.file_loads import read_source
from codriver.tools.acts.submission import begin
from codriver.tools.calls.evaluation_waits import wait
from codriver.tools.calls.session_choice import Target, in_lane, server_of
from codriver.tools.truth.conflicts import other_editor
from codriver.tools.truth.drift_notes import EDITED, drift_of, few, is_of, notes_of_load

if TYPE_CHECKING:
    from collections.abc import Mapping

    from codriver.core.state import Repl
    from codriver.core.values import Evaluation
    from codriver.repls.contract.drift_values import Difference
    from codriver.tools.calls.base import Call

TOLD: Final = (*EDITED, "docstring", "order")
"""Kinds of differences that a load removes."""
NEW_PROCESS: Final = "so the tests ran in a new process"


@dataclass(frozen=True, slots=True)
class Loaded:
    """The loads before a run of tests, in notes; whether only a new process runs what the files say."""

    notes: tuple[str, ...] = ()
    needs_new_process: bool = False


async def load_edited(call: Call, target: Target, who: str, wait_s: float) -> Loaded:
    """Load the edited modules of a Python REPL, those first that others import; nothing where none was edited."""
    if not _can_load(target.repl):
        return Loaded()
    found: tuple[Difference, ...] = ()
    with suppress(CodriverError):
        found = await drift_of(call, target.repl, "edited")
    broken = [f"{one.module} does not parse ({one.of})" for one in found if one.kind == "unparsable"]
    if broken:
        return Loaded((f"{few(broken)}, {NEW_PROCESS}",), needs_new_process=True)
    names: dict[str, list[str]] = {}
    for one in found:
        if one.kind in TOLD and one.path:
            names.setdefault(one.module, []).append(one.name)
    paths = {one.module: one.path for one in found if one.module in names and one.path}
    return await _Loads(call, target, who, anyio.current_time() + wait_s).run(names, paths)


class _Loads:
    """The loads before one run of tests, within its time."""

    def __init__(self, call: Call, target: Target, who: str, ends_at: float) -> None:
        self._call, self._target, self._who, self._ends_at = call, target, who, ends_at

    async def run(self, names: Mapping[str, list[str]], paths: Mapping[str, str]) -> Loaded:
        """Load each module from its file, until one fails; `names` are those that were edited."""
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
        for module in ordered(texts):
            left_s = max(0.0, self._ends_at - anyio.current_time())
            current = await _load(
                self._call, self._target, self._who, "run_tests", module, texts[module], paths[module], left_s
            )
            if current.status != "done":
                return Loaded((_failed(module, current), *_said(done), *notes), needs_new_process=True)
            by = other_editor(self._call, self._who, Path(paths[module]))
            done.append(f"{module} ({few(names[module])}{f', by {by}' if by else ''})")
            notes += await notes_of_load(self._call, self._target.repl)
        return Loaded((*_said(done), *dict.fromkeys(notes)))


async def _load(
    call: Call, target: Target, who: str, by: str, module: str, text: str, path: str, wait_s: float
) -> Evaluation:
    """The load of a module by what changed of it, after `wait_s` at most; `by` is what loads, for the log."""
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
    """Load the module of a file that somebody edited, if the REPL has it as before; what failed, in words.

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
    """Modules by their texts, each behind those that it imports; those that import one another as they come."""
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
