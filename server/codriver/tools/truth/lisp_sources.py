"""Lisp as it was loaded and as its files have it, for the life of one server: read anew where something changed.

The ledger of each REPL is computed from the log when it is asked for. What is compared is without secrets on both
sides, as the log is.
"""

from __future__ import annotations

import os
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from codriver import files
from codriver.core.evaluation_queue import HEAD_CHARACTERS
from codriver.lisp.definitions import ONCE, definitions
from codriver.lisp.ledger import Evaluated, Ledger
from codriver.lisp.reader import TooManyFormsError
from codriver.tools.ledgers.lisp_drift import LispDrift, Source

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from codriver.core.state import Repl
    from codriver.core.values import Evaluation
    from codriver.log.output_log import Entry
    from codriver.repls.contract.drift_values import Difference, DriftKind, Loaded, LoadedNamespace
    from codriver.tools.calls.base import Asker
    from codriver.tools.ledgers.lisp_drift import LispKnown

FEATURES: Final[Mapping[str, tuple[str, ...]]] = {"basilisp": ("lpy",), "babashka": ("bb", "clj")}
"""Of reader conditionals, by dialect; of all others `clj`."""
DEFINED_ONCE: Final[Mapping[str, tuple[str, ...]]] = {"basilisp": ("defonce",)}
"""By dialect, where it is not as in Clojure."""
HOME: Final = "user"
"""The namespace of code that is evaluated before any other was named."""
RULES: Final = files.Rules(files.Links.ANY, most_bytes=2**20)
"""Of files to compare: a longer one was made, and not written."""
LOAD: Final = "load-file "


async def differences(call: Asker, repl: Repl) -> tuple[Difference, ...] | None:
    """The differences of a REPL's loaded code from the files; None where the REPL compares by itself.

    Raises:
        CapabilityMissingError, EvaluationFailedError, OpTimedOutError, ReplDisconnectedError: it cannot tell.
    """
    features = FEATURES.get(repl.dialect, ("clj",))
    known = call.services.ledger.lisp
    drift = known.drifts.get(repl.id)
    if drift is None or drift.generation != repl.generation:
        drift = known.drifts[repl.id] = LispDrift(
            Ledger(features, DEFINED_ONCE.get(repl.dialect, ONCE)), repl.generation
        )
    async with drift.lock:
        services = call.services
        # What is evaluated meanwhile is in the REPL then, and not in the ledger: the next look mends that.
        new = _new_evaluations(call, repl, drift)
        asked_ms = services.now()
        loaded = await services.repls.adapter(repl.id).loaded(services.workspace, drift.marks)
        if loaded is None:
            return None
        reads = partial(_source, known, features=features, logged=services.log.without_secrets)
        work = partial(_compare, drift, loaded, new, reads, asked_ms)
        return await services.work.files.run(call.client, work)


def _source(known: LispKnown, path: str, *, features: tuple[str, ...], logged: Callable[[str], str]) -> Source | None:
    """A file as it is now; None where it cannot be read."""
    try:
        status = os.stat(path)  # noqa: PTH116  # a third of the time of a path
        stamp = files.stamp_of(status)
        kept = known.read.get((path, features))
        if kept is None or kept.stamp != stamp:
            text = logged(files.read_text(Path(path), RULES))
            kept = Source(path, stamp, definitions(text, "", features), partial(_text, path))
            known.read[path, features] = kept
    except (OSError, ValueError, TooManyFormsError):
        return None
    return kept if kept.definitions.is_sound else None


def _compare(
    drift: LispDrift,
    loaded: Loaded,
    new: Iterable[Evaluated],
    reads: Callable[[str], Source | None],
    asked_ms: int,
) -> tuple[Difference, ...]:
    for one in new:
        drift.ledger.take(replace(one, file=os.path.realpath(one.file) if one.file else ""))
    loaded = replace(loaded, changed=tuple(map(_real, loaded.changed)))
    sources = {path: source for path in drift.files(loaded) if (source := reads(path))}
    broken: dict[str, DriftKind] = {path: _broken(path) for path in drift.files(loaded) if path not in sources}
    return drift.compare(loaded, sources, asked_ms, broken)


def _broken(path: str) -> DriftKind:
    """The kind of difference of a file that is no source any more: it is gone, or does not read."""
    return "unparsable" if Path(path).exists() else "deleted"


def _real(namespace: LoadedNamespace) -> LoadedNamespace:
    """The namespace with its files by their real paths, as the REPL may have been given others."""
    real = {file: os.path.realpath(file) for file in namespace.files}
    found = tuple(replace(var, file=real.get(var.file, var.file)) for var in namespace.vars)
    return replace(namespace, files=tuple(dict.fromkeys(real.values())), vars=found)


def _new_evaluations(call: Asker, repl: Repl, drift: LispDrift) -> list[Evaluated]:
    """The evaluations of a REPL's life that are over and not in its ledger, in the order of the log."""
    waiting, since = drift.waiting, drift.line
    drift.waiting = set()
    found = []
    entries = call.services.log.entries(since=min({since + 1, *waiting}) - 1, category=("evaluatedCode",))
    for entry in entries:
        evaluation = call.state.evaluations.get(entry.evaluation or "")
        drift.line = max(drift.line, entry.line)
        is_new = entry.line > since or entry.line in waiting
        is_here = evaluation is not None and (evaluation.repl, evaluation.generation) == (repl.id, repl.generation)
        if evaluation is None or not is_new or not is_here:
            continue
        if evaluation.over:
            drift.number += 1
            found.append(_evaluated(drift.number, entry, evaluation))
        else:
            drift.waiting.add(entry.line)
    return found


def _evaluated(number: int, entry: Entry, evaluation: Evaluation) -> Evaluated:
    head, failure = evaluation.head, evaluation.failure
    is_named = evaluation.kind != "evaluate" and head.startswith(LOAD) and len(head) < HEAD_CHARACTERS
    file = head.removeprefix(LOAD) if is_named else ""
    is_whole = evaluation.kind == "load-file"
    return Evaluated(
        number,
        evaluation.id,
        evaluation.who,
        entry.timestamp,
        entry.text,
        entry.namespace or HOME,
        file,
        is_whole=is_whole,
        is_done=evaluation.status == "done",
        forms=failure.form - 1 if failure is not None and failure.form and not is_whole else None,
        before_line=failure.line if failure is not None and is_whole and failure.file == file else None,
    )


def _text(path: str) -> str:
    try:
        return files.read_text(Path(path), RULES)
    except (OSError, ValueError):
        return ""
