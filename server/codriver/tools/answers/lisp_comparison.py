"""Compare the code loaded in a Lisp REPL with its files.

Each REPL's definitions are computed from the log on demand, and changed files are read again. Secrets are removed from
both sides of the comparison, as in the log.
"""

from __future__ import annotations

import os
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from codriver import files
from codriver.core.evaluation_queue import MAX_HEAD_CHARACTERS
from codriver.tools.ledgers.definition_history import DefinitionHistory, LispEvaluation
from codriver.tools.ledgers.lisp_drift import LispDrift, Source
from codriver_lisp.definitions import ONCE_HEADS, read_definitions
from codriver_lisp.errors import TooManyFormsError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from codriver.core.evaluations import Evaluation
    from codriver.core.state import Repl
    from codriver.log.log_entries import Entry
    from codriver.repls.contract.drift import Difference, DriftKind
    from codriver.repls.contract.loaded_code import LoadedCode, LoadedNamespace
    from codriver.tools.calls.call import ReplUser
    from codriver.tools.ledgers.lisp_drift import LispRecords


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
