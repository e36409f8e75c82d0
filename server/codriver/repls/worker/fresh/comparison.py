"""Compare loaded modules with a fresh import to find out what differs in this process, and why.

During a load, the module is described twice: before and after its statements run. Everything else happens on a separate
thread while no evaluation is running. Another process imports the previous and the current source, and the values that
differ between these are compared with those in this process.
"""

from __future__ import annotations

import os
import sys
import threading
from time import thread_time

from ..basics.connections import start_thread
from .collected_objects import gc_disabled
from .filled_caches import find_filled_caches, make_project_file_check, outdated_caches
from .fresh_imports import NO_LONGER_NEEDED_REASON, FreshImports
from .idle_time import IdleTime
from .leaf_rules import is_below_any
from .leaves import LeafDescriber, split_leaf_path, undoable_names
from .previous_code import previous_code
from .uncompared_edits import CODE_NUMBER_PREFIX, Edit, merge_edits

TYPE_CHECKING = False
if TYPE_CHECKING:
    import types
    from collections.abc import Callable, Collection, Mapping, Sequence
    from typing import Any, Dict, List

    from ..python.loaded_sources import LoadedSources
    from .filled_caches import FilledCache, FilledProperties
    from .leaf_rules import Fresh, Row

    Rows = List[Dict[str, str]]
    Finding = Dict[str, Any]

LOAD_CHECK_TIME_S = 0.004
"""Maximum processor time for describing a module during a load, in seconds. Other names are described in idle time."""
MAX_CHECKED_LEAVES = 1500
"""Maximum number of values that are described for one name during a load."""
IDLE_TIMEOUT_S = 1.0
"""Seconds that a requested comparison waits for a running evaluation to end."""
MAX_ROWS = 5
"""Maximum number of findings that an automatic comparison reports."""
MAX_REQUESTED_ROWS = 20
"""Maximum number of findings that a requested comparison reports."""
MAX_ERROR_MESSAGE_CHARACTERS = 200
"""Maximum number of characters reported from an internal error's message."""


class LoadCheck:
    """Descriptions of a module before and after a load, which are compared to find what the load changed."""

    def __init__(self, comparison: Comparison, name: str, file: str, previous: bytes) -> None:
        self._comparison = comparison
        self._edit = Edit(name, file, previous)

    def before(self) -> None:
        """Describe the module before the load runs its statements."""
        self._edit.before = self._comparison.module_leaves(self._edit.name, self._edit.codes)

    def after(self, names: Collection[str], code: types.CodeType | None) -> None:
        """Describe the module after a successful load, and schedule its comparison.

        `names` are the full names that the answer about the load already reports. `code` is the compiled source, if
        the load has compiled it as a whole.
        """
        self._edit.code = code
        if self._edit.before is not None:
            self._edit.after = self._comparison.module_leaves(self._edit.name, self._edit.codes)
        self._comparison.add(self._edit, names)


class Comparison:
    """Compares the modules loaded in this process with fresh imports of the same modules.

    `is_unasked` enables the automatic comparison after each load, on Linux only. `forks` determines whether importing
    processes may fork.
    """

    def __init__(
        self, sources: LoadedSources, roots: Sequence[str], *, is_unasked: bool, forks: bool = hasattr(os, "fork")
    ) -> None:
        self._sources, self._idle = sources, IdleTime()
        self.imports = FreshImports(sources, self._idle, roots, forks=forks)
        self._is_unasked = is_unasked and sys.platform == "linux" and hasattr(os, "posix_spawn")
        self._is_project_file = make_project_file_check(roots)
        self._pending: dict[str, Edit] = {}
        self._reported: set[str] = set()
        """Full names already reported by the answers about the pending loads."""
        self._first: dict[str, Edit] = {}
        """All loads of each module so far, merged into one edit."""
        self._caches: list[FilledCache | FilledProperties] = []
        self._is_busy = False
        """Whether an automatic comparison is in progress."""
        self._finding: Finding | None = None
        self._found: dict[str, Edit] = {}
        """The edits that the finding is about."""
        self._is_awaited = False
        """Whether the answer about the last load waits for the finding, as it does unless the load only ran new code.
        """
        self._loaded_at = 0
        """The number of evaluations started at the last load."""
        self._may_scan = True
        """Whether no other evaluation ran between the pending loads. If so, no cache filled in between is out of date.
        """
        self._is_first = True
        """Whether no earlier load is pending to which the known filled caches belong."""
        self._has_thread = False
        self._serial = threading.Lock()
        self._is_forgotten = False
        self.paused_s = 0.0
        """The processor time of descriptions that blocked the process, in seconds."""

    # On the main thread

    def __enter__(self) -> None:
        """Pause the comparison because an evaluation is starting."""
        self._idle.start_evaluation()

    def __exit__(self, *_error: object) -> None:
        """Resume the comparison if no evaluation is running any longer."""
        self._idle.end_evaluation()

    def check_load(self, name: str, file: str) -> LoadCheck | None:
        """Create a check for a load that is about to start. Return None if the module's current source is unknown."""
        load = None if self._is_forgotten else self._sources.find_load(name)
        previous = load.data if load is not None and load.file == file else None
        return None if previous is None else LoadCheck(self, name, file, previous)

    def module_leaves(self, name: str, codes: dict[str, types.CodeType]) -> dict[str, str]:
        """Return the leaves of a module: paths to the values in it, each with a text that describes the value.

        In the texts, code objects are represented by numbers. `codes` receives the code objects by these numbers.
        """

        def mark(code: types.CodeType) -> str:
            text = f"{CODE_NUMBER_PREFIX}{id(code)}"
            codes[text] = code  # keep the object alive so that its id is not reused
            return text

        started = thread_time()
        with gc_disabled():
            found = LeafDescriber((name,), LOAD_CHECK_TIME_S, mark, MAX_CHECKED_LEAVES).describe_module(
                name, undoable_names(name)
            )
        self.paused_s += thread_time() - started
        return found

    def add(self, edit: Edit, names: Collection[str]) -> None:
        """Schedule a comparison for the next idle time."""
        load = self._sources.loads.get(edit.name)
        if load is None or load.data is None or load.data == edit.previous:
            return
        with self._idle.condition:
            is_first = not self._pending and self._finding is None and not self._is_busy
            self._may_scan = is_first or (self._may_scan and self._idle.evaluated == self._loaded_at + 1)
            self._is_first, self._loaded_at = is_first, self._idle.evaluated
            known = self._pending.get(edit.name)
            self._pending[edit.name] = edit if known is None else known.merge_with(edit)
            self._reported |= set(names)
            self._is_awaited = edit.before is not None
            if self._finding is not None:  # it was not delivered, and may be out of date
                self._pending = merge_edits(self._found, self._pending)
                self._finding = None
            if not self._has_thread:
                self._has_thread = True
                start_thread(self._serve)
            self._idle.condition.notify_all()

    def pop_finding(self) -> Finding | None:
        """Return and clear the finding that has not been delivered yet, or return None."""
        with self._idle.condition:
            finding, self._finding = self._finding, None
            return finding

    def wait(self, seconds: float, *, is_patient: bool = False) -> Finding | None:
        """Wait for the finding about the last loads. If it is not ready in time, it is included in a later answer.

        Unless `is_patient` is set, this returns immediately if the last load only ran new code.
        """
        with self._idle.condition:
            if self._is_awaited or is_patient:
                self._idle.condition.wait_for(lambda: not self._pending and not self._is_busy, seconds)
        return self.pop_finding()

    def compare_now(self) -> Finding:
        """Compare all modules that were loaded again, even those that use libraries with undetectable effects.

        Effects that are detected are still refused. Must not be called on the main thread.
        """
        with self._idle.condition:
            # An evaluation counts as running for a moment after its answer was sent.
            if not self._idle.condition.wait_for(lambda: not self._idle.running, IDLE_TIMEOUT_S):
                return {"rows": [], "more": 0, "why": "an evaluation is running: call again when it has finished"}
            edits = merge_edits(self._first, self._pending)
        if not edits:
            return {"rows": [], "more": 0, "why": "no module has been reloaded with a different source"}
        for edit in edits.values():
            edit.resolve_code_numbers()
        with self._serial:
            return self._compare_edits(edits, (), lambda: True, is_demanded=True) or {"rows": [], "more": 0}

    def stop(self) -> None:
        """Stop comparing, because this is a forked child process."""
        self._is_forgotten = True
        self._idle.condition = threading.Condition()

    # On the thread of comparisons

    def _serve(self) -> None:
        """Compare the scheduled modules whenever the process is idle. This runs in a thread."""
        while True:
            with self._idle.condition:
                self._idle.condition.wait_for(lambda: bool(self._pending) and not self._idle.running)
                edits, self._pending = self._pending, {}
                reported, self._reported = self._reported, set()
                self._is_busy = True
            finding = None
            started = self._loaded_at
            for edit in edits.values():
                edit.resolve_code_numbers()
            try:
                with self._serial:
                    finding = self._compare_edits(edits, reported, lambda: not self._pending, started=started)
            except Exception as error:  # a failed comparison must not fail a load, so it is reported as a finding
                finding = _failure_finding(edits, error)
            finally:
                with self._idle.condition:
                    if self._pending:  # there was another load, so compare both together
                        self._pending = merge_edits(edits, self._pending)
                        self._reported |= reported
                    else:
                        self._first = merge_edits(self._first, edits)
                        self._finding = finding if finding is not None and finding["rows"] else None
                        self._found = edits
                    self._is_busy = False
                    self._idle.condition.notify_all()

    def _compare_edits(
        self,
        edits: dict[str, Edit],
        reported: Collection[str],
        is_requested: Callable[[], bool],
        *,
        started: int = 0,
        is_demanded: bool = False,
    ) -> Finding | None:
        """Return the finding about these edits, or None if the comparison is no longer needed."""
        sources = {name: data for name in edits if (data := self._loaded_source_of(name)) is not None}
        previous = {edit.file: edit.previous for name, edit in edits.items() if name in sources}
        rows: Rows = []
        if not is_demanded:
            self._scan_caches()
        digests = {edits[name].file: edits[name].code_digests(data) for name, data in sources.items()}
        found = self._find_previous_code(digests, is_requested)
        if found:
            modules = {edit.file: name for name, edit in edits.items()}
            rows += [{"kind": "code", "name": f"{modules[file]}.{name}", "of": kind} for file, kind, name in found]
        why = ""
        fresh: Fresh = {}
        leaf_rows: list[Row] = []
        if is_demanded or self._may_import():
            why, fresh, leaf_rows = self.imports.compare(
                edits, previous, is_requested, started, is_demanded=is_demanded
            )
            if why == NO_LONGER_NEEDED_REASON:
                return None
        roots = {split_leaf_path(path, sys.modules) for path, (was, now) in fresh.items() if was != now}
        rows += [
            {"kind": "cache", "name": name, "of": callee, "count": str(count)}
            for name, callee, count in outdated_caches(self._caches, roots)
        ]
        leaf_rows = [row for row in leaf_rows if ".".join(split_leaf_path(row[0], sys.modules)) not in reported]
        paths = [row[0] for row in leaf_rows]
        rows = [_leaf_row(row) for row in leaf_rows] + [row for row in rows if not is_below_any(row["name"], paths)]
        most = MAX_REQUESTED_ROWS if is_demanded else MAX_ROWS
        finding: Finding = {"rows": rows[:most], "more": len(rows[most:])}
        if why:
            finding["why"] = why
        return finding

    def _scan_caches(self) -> None:
        """Record which caches were filled at the time of the load, unless another evaluation has run since."""

        def is_idle() -> bool:
            return not self._idle.running and self._idle.evaluated == self._loaded_at

        if self._is_first:
            self._caches = []
        if self._may_scan and is_idle():
            self._caches = find_filled_caches(self._is_project_file, is_idle)

    def _find_previous_code(
        self, digests: Mapping[str, frozenset[str]], is_requested: Callable[[], bool]
    ) -> list[tuple[str, str, str]]:
        """Return the objects that still have previous code. The scan is repeated if an evaluation interrupts it."""
        while self._idle.wait(is_requested):
            found = previous_code(digests, lambda: not self._idle.running and is_requested())
            if found is not None:
                return found
        return []

    def _may_import(self) -> bool:
        return self._is_unasked

    def _loaded_source_of(self, name: str) -> bytes | None:
        load = self._sources.loads.get(name)
        return None if load is None else load.data


def _failure_finding(edits: Collection[str], error: Exception) -> Finding:
    """Create a finding that reports an error in the comparison itself."""
    traceback = error.__traceback__
    while traceback is not None and traceback.tb_next is not None:
        traceback = traceback.tb_next
    position = "" if traceback is None else f" in {traceback.tb_frame.f_code.co_name}, line {traceback.tb_lineno}"
    row = {
        "kind": "failed",
        "name": ", ".join(edits),
        "of": f"{type(error).__name__}{position}: {error}"[:MAX_ERROR_MESSAGE_CHARACTERS],
    }
    return {"rows": [row], "more": 0}


def _leaf_row(row: Row) -> dict[str, str]:
    path, why, now, live = row
    sources = {"fresh": now, "live": live}
    return {
        "kind": "leaf",
        "name": path,
        "why": why,
        **{key: text for key, text in sources.items() if text is not None},
    }
