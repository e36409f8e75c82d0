"""Notes about drift, which is any difference between loaded code and its files.

A line describes each module and object of a REPL whose code differs from its files. For Lisp, each REPL's definitions
are computed from the log on demand, and changed files are read again. Secrets are removed from both sides of the
comparison, as in the log.
"""

from __future__ import annotations

import os
import re
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import anyio

from codriver import files
from codriver.core.evaluation_queue import MAX_HEAD_CHARACTERS
from codriver.core.profiles import NON_LISP_DIALECTS
from codriver.editing.source_encoding import is_python
from codriver.errors import CodriverError, join_first
from codriver.repls.contract.events import LOAD_IT_SUFFIX
from codriver.repls.contract.fresh_imports import FreshImport, finding_lines
from codriver.repls.contract.queries import Drift
from codriver.tools.calls.session_choice import find_serving_repl
from codriver.tools.ledgers.definition_history import DefinitionHistory, LispEvaluation
from codriver.tools.ledgers.lisp_drift import LispDrift, Source
from codriver_lisp.definitions import ONCE_HEADS, read_definitions
from codriver_lisp.errors import TooManyFormsError
from codriver_lisp.requirements import declared_namespace
from codriver_lisp.source_text import Document

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from codriver.core.evaluations import Evaluation
    from codriver.core.state import Repl
    from codriver.editing import FileResult
    from codriver.log.log_entries import Entry
    from codriver.repls.contract.drift import Difference, DriftKind, OnlyOf
    from codriver.repls.contract.fresh_imports import FreshFinding
    from codriver.repls.contract.loaded_code import LoadedCode, LoadedNamespace
    from codriver.tools.calls.call import Call, ReplUser
    from codriver.tools.ledgers.lisp_drift import LispRecords

    Outcomes = Mapping[tuple[str, str], str]

    """The outcome of each test, by its file or namespace, and its name."""


LOAD_WORDS_PATTERN: Final = re.compile(r"\b(?:require|use|load|reload|load-file|refresh|requiring-resolve)\b")
"""Matches words in Lisp code that may load files."""
CODE_CATEGORIES: Final = frozenset({"evaluatedCode"})
"""Categories of log entries that contain code sent by callers."""
SYMBOL_PATTERN: Final = re.compile(r"[^\s()\[\]{}\"'`,;@^~#]+")
"""Matches a symbol in Lisp code."""
COMPARE_TIMEOUT_S: Final = 3.0
"""Maximum time to compare loaded code with its files, in seconds."""
WORKER_VERSION_KEY: Final = "codriver-worker"
"""The key in a REPL's versions that identifies the embedded REPL."""
MAX_FRESH_WAIT_MS: Final = 300
"""Maximum time that a load waits for a comparison with a fresh import. The next load reports a later result."""
EDITED_KINDS: Final = ("edited", "missing", "gone")
"""Kinds of differences in code whose file was edited after it was loaded."""
WHOLE_FILE_KINDS: Final = ("order", "deleted", "unparsable", "unknown")
"""Kinds of differences that concern a whole file."""
MAX_STALE_LINES: Final = 3
"""Maximum number of objects from previous loads that the notes describe, one per line."""
MAIN_MODULE: Final = "__main__"
"""Name of the module in which sent code is evaluated. No load changes it."""
STALE_KINDS: Final = ("old", "former", "instances", "closures", "kept", "unbound")
"""Kinds of differences that concern objects from previous loads."""


async def load_notes(call: Call, repl: Repl, *, is_edit: bool = False) -> tuple[str, ...]:
    """Return notes about loading a file.

    They list objects that were updated elsewhere, remains of previous loads, and differences from a fresh import. With
    `is_edit`, a file that has not changed since its last load is not mentioned.
    """
    found = await drift_or_none(call, repl, "old")
    compared = stale_object_notes(
        [difference for difference in found if not (is_edit and difference.kind == "unchanged")]
    )
    finding = await fresh_finding(call, repl, MAX_FRESH_WAIT_MS)
    return compared if finding is None else (*compared, *finding_lines(finding))


async def fresh_finding(call: ReplUser, repl: Repl, wait_ms: int | None = None) -> FreshFinding | None:
    """Compare a Python REPL's last loads with fresh imports, and return the differences.

    Returns None if the comparison is not ready in time, or if the REPL cannot make it.
    """
    if repl.profile is None or WORKER_VERSION_KEY not in repl.profile.versions or repl.dialect != "python":
        return None
    with suppress(CodriverError):
        return await call.services.repls.adapter(repl.id).query(FreshImport(wait_ms))
    return None


def stale_object_notes(found: Collection[Difference]) -> tuple[str, ...]:
    """Describe objects that a load updated, or that remain from previous loads."""
    renewed = [
        f"{difference.of} of {difference.qualified_name}" if difference.of else difference.qualified_name
        for difference in found
        if difference.kind == "renewed"
    ]
    removed = [
        difference.qualified_name for difference in found if difference.kind == "removed" and not difference.holders
    ]
    notes = [f"also updated: {join_first(renewed)}"] if renewed else []
    notes += [f"removed, because the file no longer defines it: {join_first(removed)}"] if removed else []
    notes += _limit_lines(
        f"no longer in the file, but still referenced: {difference.qualified_name} by {difference.holders}"
        for difference in found
        if difference.kind == "removed" and difference.holders
    )
    same = [difference.module for difference in found if difference.kind == "unchanged"]
    notes += (
        [f"{same[0]} has not changed since its load, so nothing ran. To run the whole module again, pass whole: true"]
        if same
        else []
    )
    emptied = [f"{difference.qualified_name} ({difference.of})" for difference in found if difference.kind == "emptied"]
    notes += [f"caches emptied: {join_first(emptied)}"] if emptied else []
    lost = [f"{difference.qualified_name} ({difference.of})" for difference in found if difference.kind == "lost"]
    notes += [f"entries removed that were added at run time: {join_first(lost)}"] if lost else []
    notes += _limit_lines(
        f"not updated: {difference.qualified_name}, {difference.of}"
        for difference in found
        if difference.kind == "stays"
    )
    gone = [
        difference.qualified_name
        for difference in found
        if difference.joint == "/" and difference.kind == "gone" and not difference.evaluated
    ]
    notes += (
        [f"no longer defined in the file: {join_first(gone)}. To remove such names, pass prune: true"] if gone else []
    )
    if any(difference.joint == "/" and difference.kind in ("old", "former") for difference in found):
        notes.append("to load the namespaces that require this one too, pass dependents: true")
    return (
        *notes,
        *_limit_lines(describe_stale_object(difference) for difference in found if difference.kind in STALE_KINDS),
    )


async def outdated_test_notes(call: Call, repl: Repl) -> tuple[str, ...]:
    """Return notes if the code that tests ran in a REPL differed from the files."""
    found = await drift_or_none(call, repl, "edited")
    edited: dict[str, list[str]] = {}
    for difference in found:
        if difference.kind in (*EDITED_KINDS, *WHOLE_FILE_KINDS) and difference.kind != "deleted":
            edited.setdefault(difference.module, []).append(difference.name)
    stale = [
        f"{module} was edited since its load ({join_first(names)}){LOAD_IT_SUFFIX}" for module, names in edited.items()
    ]
    stale += [f"the file of {difference.module} was deleted" for difference in found if difference.kind == "deleted"]
    lives_on = [
        difference for difference in found if difference.kind in STALE_KINDS and difference.module != MAIN_MODULE
    ]  # tests do not use names of evaluated code
    return _limit_lines([*stale, *map(describe_stale_object, lives_on)])


async def undo_notes(call: Call, put_back: Iterable[FileResult]) -> tuple[str, ...]:
    """Return notes about restored files whose edited code is still loaded in a REPL.

    There are none if the file watcher loads saved files, or if the REPL cannot compare its code with files.
    """
    found: dict[str, tuple[Difference, ...]] = {}
    notes = []
    for edited in put_back if not call.services.live.settings.watch else ():
        path, data = edited.change.path, edited.change.after
        repl = find_serving_repl(path, call.state.repls.values(), call.services.workspace)
        if data is None or repl is None or isinstance(repl, str):
            continue
        if repl.id not in found:
            found[repl.id] = await drift_or_none(call, repl, "edited")
        modules = {row.module for row in found[repl.id] if row.kind in EDITED_KINDS and not row.evaluated}
        name = None if is_python(path) else declared_namespace(Document(data.decode("utf-8-sig", "replace")))
        if name in modules or any(name is None and may_be_file_of_module(path, module) for module in modules):
            notes.append(f"{repl.key} still runs the edited code: load_file {edited.display_path}")
    return tuple(notes)


def may_be_file_of_module(path: Path, module: str) -> bool:
    """Return whether a file may be the source of the Python module with this name."""
    parts = (path.parent if path.name == "__init__.py" else path.with_suffix("")).parts
    names = module.split(".")
    return list(parts[-len(names) :]) == names


async def outdated_namespace_notes(call: Call, evaluation: Evaluation) -> list[str]:
    """Return notes if Lisp code uses namespaces whose files were edited since they were loaded.

    There are notes only for a REPL that was compared with its files before. Definitions that were evaluated since the
    edit do not count as outdated.
    """
    repl = call.state.repls.get(evaluation.repl)
    if repl is None or evaluation.kind != "evaluate":
        return []
    found: tuple[Difference, ...] = ()
    with suppress(CodriverError), anyio.move_on_after(COMPARE_TIMEOUT_S):
        found = await updated_differences(call, repl)
    changed = [difference for difference in found if difference.kind in EDITED_KINDS and not difference.evaluated]
    if not changed:
        return []
    code = " ".join(
        entry.text for entry in call.services.log.entries(evaluation=evaluation.id, category=CODE_CATEGORIES)
    )
    used = {symbol.rpartition("/")[2] or symbol for symbol in SYMBOL_PATTERN.findall(code)}
    edited: dict[str, list[str]] = {}
    for difference in changed:
        if difference.name in used:
            edited.setdefault(difference.module, []).append(difference.name)
    return [
        f"{module} was edited since its load ({join_first(names)}){LOAD_IT_SUFFIX}" for module, names in edited.items()
    ]


async def record_loaded_code(call: Call, repl: Repl, code: str) -> None:
    """Compare loaded code with its files before or after code that may load files.

    The log contains the code that callers send, but not the files that this code loads. Comparing records their
    contents. Code that loads no files is ignored.
    """
    if LOAD_WORDS_PATTERN.search(code) is not None:
        with anyio.move_on_after(COMPARE_TIMEOUT_S):
            await drift_or_none(call, repl, "old")


def describe_stale_object(difference: Difference) -> str:
    """Describe an object that remains from a previous load."""
    if difference.kind == "instances":
        holder = f", referenced by {difference.holders}" if difference.holders else ""
        verb = "exists" if difference.of == "1" else "exist"
        return f"{difference.of} of the old class {difference.qualified_name} still {verb}{holder}"
    if difference.kind == "closures":
        some = "1 closure" if difference.of == "1" else f"{difference.of} closures"
        verb = "exists" if difference.of == "1" else "exist"
        return f"{some} of the old {difference.qualified_name} still {verb}. Create them again"
    if difference.kind == "unbound":
        return (
            f"{difference.qualified_name} comes from {difference.of}, which no longer exists, so the import would "
            "fail in a new process"
        )
    if difference.kind == "kept":
        return (
            f"{difference.qualified_name} is defined only once, so a load does not update it. Remove it with "
            "ns-unmap, then call load_file"
        )
    if difference.kind == "former":
        return (
            f"{difference.qualified_name} implements the old protocol {difference.of}. Load {difference.module} as well"
        )
    instead = "bind it again" if difference.module == MAIN_MODULE else f"load {difference.module} as well"
    return f"{difference.qualified_name} is still the old {difference.of}: {instead}"


async def find_drift(call: ReplUser, repl: Repl, only: OnlyOf = "") -> tuple[Difference, ...]:
    """Return the differences between a REPL's loaded code and its files.

    In Python, `only` limits the comparison to one kind of difference. It has no effect in Lisp.

    Raises:
        CapabilityMissingError, EvaluationFailedError, OpTimedOutError, ReplDisconnectedError: the REPL cannot compare
            them.
    """
    if repl.dialect not in NON_LISP_DIALECTS:
        found = await find_differences(call, repl)
        if found is not None:
            return found
    return await call.services.repls.adapter(repl.id).query(Drift(call.services.workspace, only))


async def drift_or_none(call: Call, repl: Repl, only: OnlyOf) -> tuple[Difference, ...]:
    """Return the differences like `find_drift`, or an empty tuple if the REPL cannot compare its code with files."""
    if repl.profile is not None and "drift" in repl.profile.capabilities:
        with suppress(CodriverError):
            return await find_drift(call, repl, only)
    return ()


def _limit_lines(lines: Iterable[str]) -> tuple[str, ...]:
    """Return the first lines, followed by a line with the number of omitted ones, if any."""
    lines_list = tuple(lines)
    more = len(lines_list) - MAX_STALE_LINES
    return (*lines_list[:MAX_STALE_LINES], f"and {more} more: see what_changed") if more > 0 else lines_list


DIFFERENCE_DESCRIPTIONS: Final = {
    "edited": "edited in the file since the load",
    "docstring": "docstring edited in the file since the load",
    "order": "reordered in the file since the load",
    "deleted": "deleted",
    "unparsable": "no longer parses",
    "redefined": "redefined in the REPL",
    "gone": "only in the REPL",
    "missing": "only in the file",
    "unknown": "unknown, because their load was not recorded",
}
"""Descriptions of kinds of differences, for the line about a module."""
MAX_NAMES_IN_LINE: Final = 20
"""Maximum number of names listed in a line for one kind of difference."""
MAX_SEARCHED_ENTRIES: Final = 1000
"""Maximum number of log entries that are searched for the evaluation that defined a name."""


def drift_lines(call: ReplUser, repl: Repl, found: Iterable[Difference]) -> list[str]:
    """Describe all differences in one line for each module, with the callers who made definitions where known."""
    found = tuple(found)
    return [
        *_module_lines(call, repl, found),
        *(describe_stale_object(difference) for difference in found if difference.kind in STALE_KINDS),
    ]


def _module_lines(call: ReplUser, repl: Repl, found: Iterable[Difference]) -> list[str]:
    """Return one line for each module that describes its differences, grouped by kind."""
    modules: dict[str, dict[str, list[str]]] = {}
    for difference in found:
        if difference.kind in DIFFERENCE_DESCRIPTIONS:
            is_searched = difference.evaluated and repl.dialect in NON_LISP_DIALECTS
            by = (
                f" ({difference.by})"
                if difference.by
                else _describe_author(call, repl, difference.name)
                if is_searched
                else ""
            )
            part = f" ({difference.of})" if difference.of and not by else ""
            modules.setdefault(difference.module, {}).setdefault(difference.kind, []).append(
                difference.name + part + by
            )
    return [
        f"{module}: "
        + "; ".join(
            f"{DIFFERENCE_DESCRIPTIONS[kind]}: {join_first(kinds[kind], MAX_NAMES_IN_LINE)}"
            for kind in DIFFERENCE_DESCRIPTIONS
            if kind in kinds
        )
        for module, kinds in modules.items()
    ]


def _describe_author(call: ReplUser, repl: Repl, name: str) -> str:
    """Describe the caller and the evaluation that defined a name, if the log contains them."""
    last = re.escape(name.rpartition(".")[2])
    defines = re.compile(rf"\b(?:def|class)\s+{last}\b|\b{last}\s*=")
    for entry in reversed(call.services.log.entries(category=("evaluatedCode",), limit=MAX_SEARCHED_ENTRIES)):
        evaluation = call.state.evaluations.get(entry.evaluation or "")
        is_of_this_process = evaluation is not None and (evaluation.repl, evaluation.generation) == (
            repl.id,
            repl.generation,
        )
        if (
            is_of_this_process
            and evaluation is not None
            and evaluation.kind == "evaluate"
            and defines.search(entry.text)
        ):
            return f" ({evaluation.who}, {evaluation.id})"
    return ""


READER_FEATURES: Final[Mapping[str, tuple[str, ...]]] = {"basilisp": ("lpy",), "babashka": ("bb", "clj")}
"""Features of reader conditionals, by dialect. All other dialects have the feature `clj`."""
DEFINE_ONCE_HEADS: Final[Mapping[str, tuple[str, ...]]] = {"basilisp": ("defonce",)}
"""Heads of forms that do not redefine an existing name, for dialects that differ from Clojure."""
DEFAULT_NAMESPACE: Final = "user"
"""Namespace of evaluated code that does not name one."""
COMPARED_FILE_RULES: Final = files.FileRules(files.Links.ANY, max_bytes=2**20)
"""Limits for files to compare. Longer files are usually generated."""
LOAD_PREFIX: Final = "load-file "
"""Start of the head of an evaluation that loads a file."""


async def find_differences(call: ReplUser, repl: Repl) -> tuple[Difference, ...] | None:
    """Compare the code loaded in a Lisp REPL with its files. Return None if the REPL compares them itself.

    Raises:
        CapabilityMissingError, EvaluationFailedError, OpTimedOutError, ReplDisconnectedError: the REPL cannot compare
            them.
    """
    features = READER_FEATURES.get(repl.dialect, ("clj",))
    known = call.services.ledger.lisp
    drift = known.drifts.get(repl.id)
    if drift is None or drift.generation != repl.generation:
        drift = known.drifts[repl.id] = LispDrift(
            DefinitionHistory(features, DEFINE_ONCE_HEADS.get(repl.dialect, ONCE_HEADS)), repl.generation
        )
    async with drift.lock:
        services = call.services
        # Code evaluated in the meantime is missing from the ledger. The next comparison includes it.
        new = _new_evaluations(call, repl, drift)
        compared_ms = services.now()
        loaded = await services.repls.adapter(repl.id).changed_namespaces(services.workspace, drift.marks)
        if loaded is None:
            return None
        reads = partial(_read_source, known, features=features, logged=services.log.redact)
        work = partial(_compare, drift, loaded, new, reads, compared_ms)
        return await services.work.files.run(call.client, work)


async def updated_differences(call: ReplUser, repl: Repl) -> tuple[Difference, ...]:
    """Return the differences in a REPL that was compared before, updated if files were written since.

    Raises:
        CapabilityMissingError, EvaluationFailedError, OpTimedOutError, ReplDisconnectedError: the REPL cannot compare
            them.
    """
    drift = call.services.ledger.lisp.drifts.get(repl.id)
    if drift is None or drift.generation != repl.generation or drift.lock.locked():
        return ()
    stamps = await call.services.work.files.run(call.client, partial(_stamps, drift.home_files()))
    if drift.is_written(stamps):
        await find_differences(call, repl)
    return tuple(drift.last_differences())


def _stamps(paths: Iterable[str]) -> dict[str, files.Stamp | None]:
    """Return the stamp of each file by path, or None for a missing file.

    Reads the status of files, so it blocks.
    """
    return {path: _stamp(path) for path in paths}


def _stamp(path: str) -> files.Stamp | None:
    """Return the stamp of a file, or None if the file is missing.

    Reads the status of the file, so it blocks.
    """
    try:
        return files.stamp_from_status(os.stat(path))  # noqa: PTH116  # a third of the time of a path
    except OSError:
        return None


def _read_source(
    known: LispRecords, path: str, *, features: tuple[str, ...], logged: Callable[[str], str]
) -> Source | None:
    """Return the current definitions in a file, or None if the file cannot be read.

    Files that have not changed are not read again. `logged` redacts their text as in the log.
    """
    try:
        status = os.stat(path)  # noqa: PTH116  # a third of the time of a path
        stamp = files.stamp_from_status(status)
        source = known.read.get((path, features))
        if source is None or source.stamp != stamp:
            text = logged(files.read_text(Path(path), COMPARED_FILE_RULES))
            source = Source(path, stamp, read_definitions(text, "", features), partial(_read_text, path))
            known.read[path, features] = source
    except (OSError, ValueError, TooManyFormsError):
        return None
    return source if source.definitions.is_sound else None


def _compare(
    drift: LispDrift,
    loaded: LoadedCode,
    new: Iterable[LispEvaluation],
    reads: Callable[[str], Source | None],
    compared_ms: int,
) -> tuple[Difference, ...]:
    """Record new evaluations, and return the differences between the loaded code and its files.

    Reads files, so it blocks.
    """
    for edit in new:
        drift.ledger.record(replace(edit, file=os.path.realpath(edit.file) if edit.file else ""))
    loaded = replace(loaded, changed=tuple(map(_with_real_paths, loaded.changed)))
    sources = {path: source for path in drift.files(loaded) if (source := reads(path))}
    broken: dict[str, DriftKind] = {
        path: _broken_file_kind(path) for path in drift.files(loaded) if path not in sources
    }
    return drift.compare(loaded, sources, compared_ms, broken)


def _broken_file_kind(path: str) -> DriftKind:
    """Return the kind of difference for a file that is missing or cannot be read."""
    return "unparsable" if Path(path).exists() else "deleted"


def _with_real_paths(namespace: LoadedNamespace) -> LoadedNamespace:
    """Return a loaded namespace with the real paths of its files, which the REPL may have loaded through links."""
    real = {file: os.path.realpath(file) for file in namespace.files}
    found = tuple(replace(var, file=real.get(var.file, var.file)) for var in namespace.vars)
    return replace(namespace, files=tuple(dict.fromkeys(real.values())), vars=found)


def _new_evaluations(call: ReplUser, repl: Repl, drift: LispDrift) -> list[LispEvaluation]:
    """Return the finished evaluations of a REPL's process that were not recorded yet, in the order of the log."""
    waiting, since = drift.waiting, drift.line
    drift.waiting = set()
    found = []
    entries = call.services.log.entries(since=min({since + 1, *waiting}) - 1, category=("evaluatedCode",))
    for entry in entries:
        evaluation = call.state.evaluations.get(entry.evaluation or "")
        drift.line = max(drift.line, entry.line)
        is_new = entry.line > since or entry.line in waiting
        is_of_this_process = evaluation is not None and (evaluation.repl, evaluation.generation) == (
            repl.id,
            repl.generation,
        )
        if evaluation is None or not is_new or not is_of_this_process:
            continue
        if evaluation.is_finished:
            drift.number += 1
            found.append(_to_lisp_evaluation(drift.number, entry, evaluation))
        else:
            drift.waiting.add(entry.line)
    return found


def _to_lisp_evaluation(number: int, entry: Entry, evaluation: Evaluation) -> LispEvaluation:
    """Convert a log entry and its evaluation to a numbered record."""
    head, failure = evaluation.head, evaluation.failure
    is_named = evaluation.kind != "evaluate" and head.startswith(LOAD_PREFIX) and len(head) < MAX_HEAD_CHARACTERS
    file = head.removeprefix(LOAD_PREFIX) if is_named else ""
    is_whole = evaluation.kind == "load-file"
    return LispEvaluation(
        number,
        evaluation.id,
        evaluation.who,
        entry.timestamp,
        entry.text,
        entry.namespace or DEFAULT_NAMESPACE,
        file,
        is_whole=is_whole,
        is_done=evaluation.status == "done",
        forms=failure.form - 1 if failure is not None and failure.form and not is_whole else None,
        before_line=failure.line if failure is not None and is_whole and failure.file == file else None,
    )


def _read_text(path: str) -> str:
    """Return the text of a file, or an empty string if it cannot be read.

    Reads the file, so it blocks.
    """
    try:
        return files.read_text(Path(path), COMPARED_FILE_RULES)
    except (OSError, ValueError):
        return ""
