"""The comparison of loads with a fresh import: what the process should have, and has not, and why.

A load is looked at twice, before and after its statements run. Everything else is done on a thread of its own while no
evaluation runs: another process imports the previous and the present source, and the leaves that differ between these
are looked at in this process.
"""

from __future__ import annotations

import contextlib
import gc
import os
import sys
import threading
from time import thread_time

from ..basics.connections import start_thread
from .code_texts import code_text
from .filled_caches import filled_caches, is_project_file, outdated
from .import_process import HASH_SEEDS, ImportProcess
from .leaf_rules import OTHER, changed, compared, is_below_any, outermost, stale
from .leaves import UNKNOWN, Shapes, root_of, space_of_module, undoable_names
from .previous_code import previous_code

TYPE_CHECKING = False
if TYPE_CHECKING:
    import types
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
    from typing import Any, Dict, List

    from ..python.loaded_texts import LoadedSources
    from .filled_caches import FilledCache, FilledProperties
    from .leaf_rules import Fresh, Row

    Rows = List[Dict[str, str]]
    Finding = Dict[str, Any]

PROGRAM = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "__main__.py")
CHECK_S = 0.004
"""The longest look at a module while a load runs: names beyond it are looked at later, in idle time."""
MOST_CHECKED = 1500
"""The most leaves of one name in such a look."""
IDLE_CHECK_S = 0.03
"""The longest look in idle time."""
CHILD_CHECK_S = 0.08
"""The time for shapes in each importing process."""
DEMANDED_CHECK_S = 2.0
IMPORT_S = 15.0
"""The time for an import that nobody asked for."""
DEMANDED_IMPORT_S = 60.0
IDLE_S = 1.0
"""How long a request waits for the end of an evaluation."""
MOST_ROWS = 5
MOST_DEMANDED_ROWS = 20
MOST_WATCHED = 2000
MOST_MESSAGE = 200
"""Characters of the error of a comparison that failed."""
NATIVE_CLIENTS = frozenset(
    (
        "psycopg", "psycopg_c", "psycopg2", "pymssql", "pyodbc", "MySQLdb", "mysql.connector", "oracledb", "cx_Oracle",
        "ibm_db", "grpc", "pycurl", "zmq", "confluent_kafka", "pymemcache", "pylibmc", "cassandra", "couchbase",
        "uvloop", "pyarrow", "duckdb", "h5py", "lmdb", "rocksdb", "plyvel", "polars", "rasterio", "osgeo", "torch",
        "tensorflow", "jax", "cupy", "snowflake", "clickhouse_connect", "apsw", "pysqlcipher3", "_gdbm", "_dbm",
    )
)  # fmt: skip
"""Libraries whose native code connects or writes unseen by audit events."""
CODE_MARK = "\0"
"""Begins the number of a code object in a text whose digest has not been needed."""


class Edit:
    """The loads of one module since its last comparison."""

    def __init__(self, name: str, file: str, previous: bytes) -> None:
        self.name, self.file = name, file
        self.previous = previous
        """The source before the first of these loads."""
        self.before: dict[str, str] | None = None
        self.after: dict[str, str] | None = None
        """The leaves around the loads; None while nothing ran but new code."""
        self.codes: dict[str, types.CodeType] = {}
        """The code objects that the leaves tell by numbers."""

    def followed_by(self, other: Edit) -> Edit:
        """Both edits as one."""
        both = Edit(self.name, self.file, self.previous)
        both.before = other.before if self.before is None else self.before
        both.after = other.after if other.after is not None else self.after
        both.codes = {**self.codes, **other.codes}
        return both

    def resolve(self) -> None:
        """Put digests in place of the numbers of code objects."""
        codes, self.codes = self.codes, {}

        def text_of(text: str) -> str:
            head, mark, number = text.partition(CODE_MARK)
            return head + code_text(codes[mark + number]) if mark else text

        if codes and self.before is not None and self.after is not None:
            self.before = {path: text_of(text) for path, text in self.before.items()}
            self.after = {path: text_of(text) for path, text in self.after.items()}

    @property
    def undone(self) -> list[str]:
        """The paths at which something else was before the loads."""
        if self.before is None or self.after is None:
            return []
        return list(changed(self.before, self.after))[:MOST_WATCHED]


class LoadCheck:
    """The look at one load, from before its statements run until its end."""

    def __init__(self, comparison: Comparison, name: str, file: str, previous: bytes) -> None:
        self._comparison = comparison
        self._edit = Edit(name, file, previous)

    def before(self) -> None:
        """Look at the module before statements run in it."""
        self._edit.before = self._comparison.shape(self._edit.name, self._edit.codes)

    def after(self, names: Collection[str]) -> None:
        """Look at the module after a load that succeeded. `names`: full names that the load itself reported."""
        if self._edit.before is not None:
            self._edit.after = self._comparison.shape(self._edit.name, self._edit.codes)
        self._comparison.add(self._edit, names)


class Comparison:
    """The comparisons of one process, for its life.

    `is_unasked`: whether a load is compared without a request. `forks`: whether importing processes fork.
    """

    def __init__(
        self, sources: LoadedSources, roots: Sequence[str], *, is_unasked: bool, forks: bool = hasattr(os, "fork")
    ) -> None:
        self._sources, self._roots, self._forks = sources, roots, forks
        self._is_unasked = is_unasked and sys.platform == "linux" and hasattr(os, "posix_spawn")
        self._is_project_file = is_project_file(roots)
        self._condition = threading.Condition()
        self._pending: dict[str, Edit] = {}
        self._reported: set[str] = set()
        """Full names in the reports of the pending loads."""
        self._first: dict[str, Edit] = {}
        """The loads of each module, as one edit."""
        self._caches: list[FilledCache | FilledProperties] = []
        self._running = 0
        """The number of evaluations that run."""
        self._evaluated = 0
        """The number of evaluations that began."""
        self._is_busy = False
        """Whether a comparison that nobody asked for is under way."""
        self._process: ImportProcess | None = None
        self._finding: Finding | None = None
        self._found: dict[str, Edit] = {}
        """The edits that the finding is about."""
        self._is_awaited = False
        """Whether an answer about the last load waits for the finding: not where it ran nothing but new code."""
        self._loaded_at = 0
        """The number of evaluations at the last load."""
        self._may_scan = True
        """Whether no evaluation ran between the pending loads: what it filled in caches is not out of date."""
        self._is_first = True
        """Whether the filled caches that are known belong to no pending load."""
        self._has_thread = False
        self._serial = threading.Lock()
        self._is_forgotten = False
        self.paused_s = 0.0
        """The processor time of looks in which the process could do nothing else."""
        self.idle_s = 0.0
        """That of looks in idle time."""

    # On the main thread

    def __enter__(self) -> None:
        """Note that an evaluation runs: the comparison waits."""
        with self._condition:
            self._running += 1
            self._evaluated += 1
            if self._running == 1 and self._process is not None:
                self._process.pause()

    def __exit__(self, *_error: object) -> None:
        """Note that an evaluation is over."""
        with self._condition:
            self._running -= 1
            if not self._running:
                if self._process is not None:
                    self._process.resume()
                self._condition.notify_all()

    def check_load(self, name: str, file: str) -> LoadCheck | None:
        """The look at a load of a module that is about to begin; None for one whose source is not known."""
        load = None if self._is_forgotten else self._sources.of(name)
        previous = load.data if load is not None and load.file == file else None
        return None if previous is None else LoadCheck(self, name, file, previous)

    def shape(self, name: str, codes: dict[str, types.CodeType]) -> dict[str, str]:
        """The leaves of a module of this process, with code told by numbers, which `codes` gets."""

        def mark(code: types.CodeType) -> str:
            text = f"{CODE_MARK}{id(code)}"
            codes[text] = code  # so that nothing else gets its id
            return text

        started = thread_time()
        with _without_collections():
            found = Shapes((name,), CHECK_S, mark, MOST_CHECKED).of_module(name, undoable_names(name))
        self.paused_s += thread_time() - started
        return found

    def add(self, edit: Edit, names: Collection[str]) -> None:
        """Compare a load as soon as nothing else is to do."""
        load = self._sources.loads.get(edit.name)
        if load is None or load.data is None or load.data == edit.previous:
            return
        with self._condition:
            is_first = not self._pending and self._finding is None and not self._is_busy
            self._may_scan = is_first or (self._may_scan and self._evaluated == self._loaded_at + 1)
            self._is_first, self._loaded_at = is_first, self._evaluated
            known = self._pending.get(edit.name)
            self._pending[edit.name] = edit if known is None else known.followed_by(edit)
            self._reported |= set(names)
            self._is_awaited = edit.before is not None
            if self._finding is not None:  # nobody has got it, and it may be out of date now
                self._pending = _merged(self._found, self._pending)
                self._finding = None
            if not self._has_thread:
                self._has_thread = True
                start_thread(self._serve)
            self._condition.notify_all()

    def next_finding(self) -> Finding | None:
        """The finding that nobody has got yet."""
        with self._condition:
            finding, self._finding = self._finding, None
            return finding

    def wait(self, seconds: float, *, is_patient: bool = False) -> Finding | None:
        """The finding about the last loads, if it is there within the time; otherwise the next answer has it.

        Without `is_patient` nobody waits for the finding about a load that ran nothing but new code.
        """
        with self._condition:
            if self._is_awaited or is_patient:
                self._condition.wait_for(lambda: not self._pending and not self._is_busy, seconds)
        return self.next_finding()

    def demand(self) -> Finding:
        """Compare all modules that were loaded again, now, whatever the imports may do; on any thread but the main one.

        Effects are refused all the same.
        """
        with self._condition:
            # An evaluation is counted until a moment after its answer was sent.
            if not self._condition.wait_for(lambda: not self._running, IDLE_S):
                return {"rows": [], "more": 0, "why": "an evaluation runs: ask again when it is over"}
            edits = _merged(self._first, self._pending)
        if not edits:
            return {"rows": [], "more": 0, "why": "no module was loaded again with another source"}
        for edit in edits.values():
            edit.resolve()
        with self._serial:
            return self._compared(edits, (), lambda: True, is_demanded=True) or {"rows": [], "more": 0}

    def forget(self) -> None:
        """Do nothing any more: this is a fork of the process."""
        self._is_forgotten = True
        self._condition = threading.Condition()

    # On the thread of comparisons

    def _serve(self) -> None:
        while True:
            with self._condition:
                self._condition.wait_for(lambda: bool(self._pending) and not self._running)
                edits, self._pending = self._pending, {}
                reported, self._reported = self._reported, set()
                self._is_busy = True
            finding = None
            started = self._loaded_at
            for edit in edits.values():
                edit.resolve()
            try:
                with self._serial:
                    finding = self._compared(edits, reported, lambda: not self._pending, started=started)
            except Exception as error:  # a comparison never fails a load; its answer reports it
                finding = _failed(edits, error)
            finally:
                with self._condition:
                    if self._pending:  # another load came: both are compared as one
                        self._pending = _merged(edits, self._pending)
                        self._reported |= reported
                    else:
                        self._first = _merged(self._first, edits)
                        self._finding = finding if finding is not None and finding["rows"] else None
                        self._found = edits
                    self._is_busy = False
                    self._condition.notify_all()

    def _compared(
        self,
        edits: dict[str, Edit],
        reported: Collection[str],
        is_requested: Callable[[], bool],
        *,
        started: int = 0,
        is_demanded: bool = False,
    ) -> Finding | None:
        sources = {edit.file: data for name, edit in edits.items() if (data := self._present(name)) is not None}
        previous = {edit.file: edit.previous for edit in edits.values() if edit.file in sources}
        rows: Rows = []
        if not is_demanded:
            self._scan_caches()
        found = self._previous_code(sources, is_requested)
        if found:
            modules = {edit.file: name for name, edit in edits.items()}
            rows += [{"kind": "code", "name": f"{modules[file]}.{name}", "of": kind} for file, kind, name in found]
        why = ""
        fresh: Fresh = {}
        leaf_rows: list[Row] = []
        if is_demanded or self._may_import():
            why, fresh, leaf_rows = self._imported(edits, previous, is_requested, started, is_demanded=is_demanded)
            if why == UNWANTED:
                return None
        roots = {root_of(path, sys.modules) for path, (was, now) in fresh.items() if was != now}
        rows += [
            {"kind": "cache", "name": name, "of": callee, "count": str(count)}
            for name, callee, count in outdated(self._caches, roots)
        ]
        leaf_rows = [row for row in leaf_rows if ".".join(root_of(row[0], sys.modules)) not in reported]
        paths = [row[0] for row in leaf_rows]
        rows = [_leaf_row(row) for row in leaf_rows] + [row for row in rows if not is_below_any(row["name"], paths)]
        most = MOST_DEMANDED_ROWS if is_demanded else MOST_ROWS
        finding: Finding = {"rows": rows[:most], "more": len(rows[most:])}
        if why:
            finding["why"] = why
        return finding

    def _scan_caches(self) -> None:
        """Note the caches that were filled before anything else was evaluated."""

        def is_idle() -> bool:
            return not self._running and self._evaluated == self._loaded_at

        if self._is_first:
            self._caches = []
        if self._may_scan and is_idle():
            self._caches = filled_caches(self._is_project_file, is_idle)

    def _previous_code(self, sources: dict[str, bytes], is_requested: Callable[[], bool]) -> list[tuple[str, str, str]]:
        """The things with previous code, by a scan that no evaluation disturbs."""
        while self._idle(is_requested):
            found = previous_code(sources, lambda: not self._running and is_requested())
            if found is not None:
                return found
        return []

    def _imported(
        self,
        edits: dict[str, Edit],
        previous: dict[str, bytes],
        is_requested: Callable[[], bool],
        started: int,
        *,
        is_demanded: bool,
    ) -> tuple[str, Fresh, list[Row]]:
        """Why the modules cannot be compared, the leaves that the edits change, and those that are wrong here."""
        watched: list[str] = []
        for edit in edits.values():
            watched += edit.undone
        spec = self._spec(edits, previous, watched, is_demanded=is_demanded)
        answer = self._fresh(spec, is_requested, is_demanded=is_demanded)
        if answer is None:
            return UNWANTED if not is_requested() else f"the import of {', '.join(edits)} did not end in time", {}, []
        if answer.get("refused") or answer.get("failed"):
            why = answer.get("failed") or f"the import of {', '.join(edits)} would {answer['refused']}"
            return (
                (why, {}, [])
                if len(edits) == 1
                else self._one_by_one(edits, previous, is_requested, started, is_demanded)
            )
        fresh = {path: (was, now) for path, (was, now) in answer["fresh"].items()}
        rows = self._checked(edits, fresh, is_requested, started)
        if rows:  # what differs between two imports of one source is no finding
            roots: dict[str, list[str]] = {}
            for path, *_ in rows:
                module, name = root_of(path, spec["modules"])
                if name not in roots.setdefault(module, []):
                    roots[module].append(name)
            again = self._run({**spec, "roots": roots}, HASH_SEEDS[1], is_requested, is_demanded=is_demanded)
            leaves = (again or {}).get("leaves")
            if leaves is None:
                return (
                    UNWANTED if not is_requested() else f"the second import of {', '.join(edits)} did not succeed",
                    {},
                    [],
                )
            rows = [row for row in rows if leaves.get(row[0]) == row[2]]
        return "", fresh, _in_order(outermost(rows), edits)

    def _one_by_one(
        self,
        edits: dict[str, Edit],
        previous: dict[str, bytes],
        is_requested: Callable[[], bool],
        started: int,
        is_demanded: bool,  # noqa: FBT001  # as of `_imported`
    ) -> tuple[str, Fresh, list[Row]]:
        """As `_imported` has it, each module by itself: one that cannot be compared hides no other."""
        reasons: list[str] = []
        fresh: Fresh = {}
        rows: list[Row] = []
        for name, edit in edits.items():
            edited = {edit.file: previous[edit.file]} if edit.file in previous else {}
            why, found, some = self._imported({name: edit}, edited, is_requested, started, is_demanded=is_demanded)
            if why == UNWANTED:
                return why, {}, []
            reasons += [why] if why else []
            fresh.update(found)
            rows += some
        return "; ".join(reasons), fresh, rows

    def _checked(
        self,
        edits: dict[str, Edit],
        fresh: Fresh,
        is_requested: Callable[[], bool],
        started: int,
    ) -> list[Row]:
        before: dict[str, str] = {}
        after: dict[str, str] = {}
        roots: dict[str, list[str]] = {}
        for path in fresh:
            module, name = root_of(path, sys.modules)
            edit = edits.get(module)
            if edit is not None and edit.after is not None and _is_known(f"{module}.{name}", edit.after):
                continue
            if name not in roots.setdefault(module, []):
                roots[module].append(name)
        for edit in edits.values():
            if edit.before is not None and edit.after is not None:
                before.update(edit.before)
                after.update(edit.after)
        if roots and not self._idle(is_requested):
            return []
        started_s = thread_time()
        with _without_collections():
            shapes = Shapes(tuple(edits), IDLE_CHECK_S)
            for module, names in roots.items():
                found = shapes.of_module(module, names)
                after.update(found)
                if module in edits and edits[module].before is None:
                    before.update(found)  # nothing ran in it but new code
        self.idle_s += thread_time() - started_s
        has_run = bool(started) and self._evaluated != started
        rows = list(stale(fresh, before, after))
        return [row for row in rows if row[1] != OTHER or not has_run or root_of(row[0], sys.modules)[0] in edits]

    def _fresh(
        self, spec: dict[str, Any], is_requested: Callable[[], bool], *, is_demanded: bool
    ) -> dict[str, Any] | None:
        """What the edits change in a fresh import; by two processes where one cannot fork."""
        answer = self._run(spec, HASH_SEEDS[0], is_requested, is_demanded=is_demanded)
        if self._forks or answer is None or "leaves" not in answer:
            return answer
        sources = {**spec["texts"], **spec["former"]}
        previous = self._run({**spec, "texts": sources}, HASH_SEEDS[0], is_requested, is_demanded=is_demanded)
        if previous is None or "leaves" not in previous:
            return previous
        return {**compared(previous["leaves"], answer["leaves"], spec["edited"], spec["watched"])}

    def _run(
        self, spec: dict[str, Any], hash_seed: str, is_requested: Callable[[], bool], *, is_demanded: bool
    ) -> dict[str, Any] | None:
        if not self._idle(is_requested):
            return None
        process = ImportProcess(PROGRAM, hash_seed)
        with self._condition:
            self._process = process
            if self._running:
                process.pause()
        try:
            return process.result(spec, DEMANDED_IMPORT_S if is_demanded else IMPORT_S, is_requested)
        finally:
            with self._condition:
                self._process = None

    def _spec(
        self, edits: Mapping[str, Edit], previous: Mapping[str, bytes], watched: list[str], *, is_demanded: bool
    ) -> dict[str, Any]:
        modules: dict[str, str] = {}
        sources: dict[str, str] = {}
        loads = dict(self._sources.loads)
        for name in list(sys.modules):
            load = loads.get(name)
            if load is None or name == "__main__" or not load.file.endswith(".py"):
                continue
            modules[name] = load.file
            if (name in edits or _is_written(load)) and load.data is not None:
                sources[load.file] = load.data.decode("latin-1")
        return {
            "cwd": os.getcwd(),
            "argv": list(sys.argv),
            "path": [one for one in sys.path if type(one) is str],
            "hashSeed": os.environ.get("PYTHONHASHSEED"),
            "django": _has_django(),
            "folders": [*self._roots, os.environ.get("TMPDIR") or "/tmp"],  # noqa: S108  # as `tempfile` has it
            "needsShield": not is_demanded and not NATIVE_CLIENTS.isdisjoint(sys.modules),
            "modules": modules,
            "edited": list(edits),
            "texts": sources,
            "former": {file: data.decode("latin-1") for file, data in previous.items()},
            "watched": watched[:MOST_WATCHED],
            "roots": {},
            "forks": self._forks,
            "shapeSeconds": DEMANDED_CHECK_S if is_demanded else CHILD_CHECK_S,
        }

    def _may_import(self) -> bool:
        return self._is_unasked

    def _present(self, name: str) -> bytes | None:
        load = self._sources.loads.get(name)
        return None if load is None else load.data

    def _idle(self, is_requested: Callable[[], bool]) -> bool:
        """Wait until no evaluation runs; False if the comparison is not wanted any more."""
        with self._condition:
            self._condition.wait_for(lambda: not self._running or not is_requested())
        return is_requested()


UNWANTED = "(not wanted any more)"


def _failed(edits: Collection[str], error: Exception) -> Finding:
    """The finding of a comparison that failed itself."""
    traceback = error.__traceback__
    while traceback is not None and traceback.tb_next is not None:
        traceback = traceback.tb_next
    position = "" if traceback is None else f" in {traceback.tb_frame.f_code.co_name}, line {traceback.tb_lineno}"
    row = {
        "kind": "failed",
        "name": ", ".join(edits),
        "of": f"{type(error).__name__}{position}: {error}"[:MOST_MESSAGE],
    }
    return {"rows": [row], "more": 0}


def _is_known(root: str, leaves: Mapping[str, str]) -> bool:
    return leaves.get(root, UNKNOWN) != UNKNOWN


@contextlib.contextmanager
def _without_collections() -> Iterator[None]:
    """Let no garbage be collected: that would take longer than the look, and run finalizers."""
    is_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if is_enabled:
            gc.enable()


def _is_written(load: Any) -> bool:
    """Whether the file of a load may have another source by now."""
    try:
        status = os.stat(load.file)
    except OSError:
        return True
    return load.stamp is None or (status.st_mtime_ns, status.st_size) != (load.stamp[0], load.stamp[2])


def _has_django() -> bool:
    """Whether Django is set up; its registry is only read."""
    library = sys.modules.get("django.apps")
    registry = None if library is None else space_of_module(library).get("apps")
    return registry is not None and vars(registry).get("ready") is True


def _merged(first: Mapping[str, Edit], later: Mapping[str, Edit]) -> dict[str, Edit]:
    """The edits of all modules, those of one module as one."""
    both = {name: first[name].followed_by(edit) if name in first else edit for name, edit in later.items()}
    return {**first, **both}


def _in_order(rows: Collection[Row], edited: Collection[str]) -> list[Row]:
    """The rows with those of the edited modules first, and one of each name before the others of a name."""
    first = tuple(f"{name}." for name in edited)
    seen: dict[tuple[str, str], int] = {}
    ranked: list[tuple[int, int, Row]] = []
    for row in sorted(rows, key=lambda row: (not row[0].startswith(first), len(row[0]), row[0])):
        root = root_of(row[0], sys.modules)
        seen[root] = seen.get(root, 0) + 1
        ranked.append((seen[root], len(ranked), row))
    return [row for _, _, row in sorted(ranked)]


def _leaf_row(row: Row) -> dict[str, str]:
    path, why, now, live = row
    sources = {"fresh": now, "live": live}
    return {"kind": "leaf", "name": path, "why": why, **{key: one for key, one in sources.items() if one is not None}}
