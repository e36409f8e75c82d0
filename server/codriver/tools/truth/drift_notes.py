"""Notes on drift: what lives on of a former load, what was edited since, and tests that end otherwise elsewhere."""

from __future__ import annotations

import re
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import anyio

from codriver.core.values import NOT_LISP
from codriver.editing.file_languages import is_python
from codriver.errors import CodriverError
from codriver.lisp.rename import namespace_of
from codriver.lisp.source_text import Document
from codriver.repls.contract.adapter_values import LOAD_IT
from codriver.repls.contract.questions import Drift
from codriver.tools.calls.session_choice import server_of
from codriver.tools.truth.lisp_sources import differences

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from codriver.core.state import Repl
    from codriver.editing import FileResult
    from codriver.repls.contract.drift_values import Difference, OnlyOf
    from codriver.tools.calls.base import Asker, Call, Json

    Outcomes = Mapping[tuple[str, str], str]
    """The outcome of each test, by its file or namespace, and its name."""

LOADS: Final = re.compile(r"\b(?:require|use|load|reload|load-file|refresh|requiring-resolve)\b")
"""Words of Lisp code that may load files."""
LOOK_S: Final = 3.0
EDITED: Final = ("edited", "missing", "gone")
"""Kinds of differences of code that was loaded before its file was edited."""
UNREAD: Final = ("order", "deleted", "unparsable", "unknown")
"""Kinds of differences that stand for a whole file."""
PASSES: Final = "pass"
NEVER_LIVE: Final = "no test of these has run in the REPL with this code: call without fresh, too, to see differences"
MOST_STALE: Final = 3
MOST_NAMES: Final = 5
STALE: Final = ("old", "former", "instances", "closures", "kept", "unbound")


async def notes_of_load(call: Call, repl: Repl) -> tuple[str, ...]:
    """Notes for who has just loaded a file: what was renewed elsewhere, and what could not be."""
    found = await _drift(call, repl, "old")
    renewed = [f"{one.of} of {one.full}" if one.of else one.full for one in found if one.kind == "renewed"]
    removed = [one.full for one in found if one.kind == "removed"]
    told = [f"renewed elsewhere: {few(renewed)}"] if renewed else []
    told += [f"removed, as the file has it no more: {few(removed)}"] if removed else []
    same = [one.module for one in found if one.kind == "unchanged"]
    told += [f"nothing of {same[0]} changed since its load, so nothing ran: whole: true runs it"] if same else []
    emptied = [f"{one.full} ({one.of})" for one in found if one.kind == "emptied"]
    told += [f"caches emptied: {few(emptied)}"] if emptied else []
    told += _bounded(f"not renewed: {one.full}, {one.of}" for one in found if one.kind == "stays")
    gone = [one.full for one in found if one.joint == "/" and one.kind == "gone" and not one.evaluated]
    told += [f"not in the file any more: {few(gone)}; prune: true takes that out"] if gone else []
    if any(one.joint == "/" and one.kind in ("old", "former") for one in found):
        told.append("dependents: true loads the namespaces that require it, too")
    return (*told, *_bounded(stale_line(one) for one in found if one.kind in STALE))


async def notes_of_tests(call: Call, repl: Repl) -> tuple[tuple[str, ...], bool]:
    """Notes for who has just run tests on what they may have run that is not what the files say; whether it was that.

    A name that was bound anew in the REPL is told; the code of the files is loaded all the same.
    """
    is_python = repl.dialect == "python"
    found = await _drift(call, repl, "" if is_python else "edited")
    edited: dict[str, list[str]] = {}
    anew: list[str] = []
    for one in found:
        if one.kind not in (*EDITED, *UNREAD, *(["redefined"] if is_python else [])):
            continue
        if is_python and not (one.path or one.kind in UNREAD):
            anew.append(one.full)
        elif one.kind != "deleted":
            edited.setdefault(one.module, []).append(one.name)
    is_current = not edited and not any(one.kind == "deleted" for one in found)
    stale = [f"{module} was edited since its load ({few(names)}){LOAD_IT}" for module, names in edited.items()]
    stale += [f"the file of {one.module} is deleted" for one in found if one.kind == "deleted"]
    stale += [f"bound anew in the REPL, so a new process has it otherwise: {few(anew)}"] if anew else []
    instead = ", or fresh: true" if is_python else ""
    return _bounded([*stale, *(stale_line(one) + instead for one in found if one.kind in STALE)]), is_current


async def notes_of_undo(call: Call, put_back: Iterable[FileResult]) -> tuple[str, ...]:
    """Notes on the files that were put back and whose REPL goes on with the edited code.

    Not where saves are loaded anyway, nor of REPLs that cannot tell.
    """
    found: dict[str, tuple[Difference, ...]] = {}
    notes = []
    for one in put_back if not call.services.settings.watch else ():
        path, data = one.change.path, one.change.after
        repl = server_of(path, call.state.repls.values(), call.services.workspace)
        if data is None or repl is None or isinstance(repl, str):
            continue
        if repl.id not in found:
            found[repl.id] = await _drift(call, repl, "edited")
        modules = {row.module for row in found[repl.id] if row.kind in EDITED and not row.evaluated}
        name = None if is_python(path) else namespace_of(Document(data.decode("utf-8-sig", "replace")))
        if name in modules or any(name is None and is_of(path, module) for module in modules):
            notes.append(f"{repl.key} still runs the edited code: load_file {one.shown}")
    return tuple(notes)


def is_of(path: Path, module: str) -> bool:
    """Whether a module of Python of that name may be from a file."""
    parts = (path.parent if path.name == "__init__.py" else path.with_suffix("")).parts
    names = module.split(".")
    return list(parts[-len(names) :]) == names


async def look_at_load(call: Call, repl: Repl, code: str) -> None:
    """Look at what is loaded, before code that loads files and after it, so that each is known as it was loaded.

    The log has the code and not the files. Other code costs nothing.
    """
    if LOADS.search(code) is not None:
        with anyio.move_on_after(LOOK_S):
            await _drift(call, repl, "old")


def stale_line(one: Difference) -> str:
    """One object of a former load, in words."""
    if one.kind == "instances":
        return f"{one.of} of the former class {one.full} {'lives' if one.of == '1' else 'live'} on"
    if one.kind == "closures":
        some = "1 closure" if one.of == "1" else f"{one.of} closures"
        return f"{some} of the former {one.full} {'lives' if one.of == '1' else 'live'} on: make them anew"
    if one.kind == "unbound":
        return f"{one.full} is of {one.of}, which is gone: the import fails in a new process"
    if one.kind == "kept":
        return f"{one.full} is defined once, and no load renews it: ns-unmap it, then load_file"
    if one.kind == "former":
        return f"{one.full} implements the former protocol {one.of}: load {one.module}, too"
    return f"{one.full} is still the old {one.of}: load {one.module}, too"


def few(names: Sequence[str], most: int = MOST_NAMES) -> str:
    """Some of the names, and how many more there are."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


async def drift_of(call: Asker, repl: Repl, only: OnlyOf = "") -> tuple[Difference, ...]:
    """The differences of what a REPL has loaded from the files. Of Lisp all, whatever is asked for.

    Raises:
        CapabilityMissingError, EvaluationFailedError, OpTimedOutError, ReplDisconnectedError: it cannot tell.
    """
    if repl.dialect not in NOT_LISP:
        found = await differences(call, repl)
        if found is not None:
            return found
    return await call.services.repls.adapter(repl.id).ask(Drift(call.services.workspace, only))


async def _drift(call: Call, repl: Repl, only: OnlyOf) -> tuple[Difference, ...]:
    if repl.profile is not None and "drift" in repl.profile.capabilities:
        with suppress(CodriverError):
            return await drift_of(call, repl, only)
    return ()


def _bounded(lines: Iterable[str]) -> tuple[str, ...]:
    told = tuple(lines)
    more = len(told) - MOST_STALE
    return (*told[:MOST_STALE], f"and {more} more: see what_changed") if more > 0 else told


def outcomes(report: Json) -> dict[tuple[str, str], str]:
    """The outcome of each test of a report, by its file (its namespace where it has none) and name; the worst counts.

    The same file may be named as a module in one run and as a path in another.
    """
    ended: dict[tuple[str, str], str] = {}
    for row in report["results"]:
        known = (row.get("file") or row["ns"], row["test"])
        if ended.get(known, PASSES) == PASSES:
            ended[known] = row["outcome"]
    return ended


def notes_of_fresh(fresh: Outcomes, live: Iterable[Outcomes]) -> tuple[str, ...]:
    """Notes for who ran tests in a new process: which of them ended otherwise in the REPL, at last.

    `live`: the outcomes of the REPL's own runs of the same code, the newest first.
    """
    last: dict[tuple[str, str], str] = {}
    for run in live:
        last = {**run, **last}
    both = [known for known in fresh if known in last]
    if not both:
        return (NEVER_LIVE,) if fresh else ()
    only_live = [name for known in both if last[known] == PASSES != fresh[known] for name in known[1:]]
    only_fresh = [name for known in both if fresh[known] == PASSES != last[known] for name in known[1:]]
    notes = [f"passed in the REPL, not in a new process: {few(only_live)}"] if only_live else []
    notes += [f"passes in a new process, did not in the REPL: {few(only_fresh)}"] if only_fresh else []
    return tuple(notes)
