"""Compare loaded modules with a fresh import to find out what differs in this process, and why.

During a load, the module is described twice: before and after its statements run. Everything else happens on a separate
thread while no evaluation is running. Another process imports the previous and the current source, and the values that
differ between these are compared with those in this process.
"""

from __future__ import annotations

import contextlib
import gc
import os
import sys
import threading
from time import thread_time

from ..basics.connections import start_thread
from .code_texts import code_digest, nested_codes
from .filled_caches import find_filled_caches, make_project_file_check, outdated_caches
from .import_process import HASH_SEEDS, ImportProcess
from .leaf_rules import OTHER, changed_leaves, compare_imports, is_below_any, outermost_rows, stale_leaves
from .leaves import UNKNOWN_TEXT, LeafDescriber, module_dict, split_leaf_path, undoable_names
from .previous_code import previous_code

TYPE_CHECKING = False
if TYPE_CHECKING:
    import types
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
    from typing import Any, Dict, List

    from ..python.loaded_sources import LoadedSources
    from .filled_caches import FilledCache, FilledProperties
    from .leaf_rules import Fresh, Row

    Rows = List[Dict[str, str]]
    Finding = Dict[str, Any]

IMPORT_PROGRAM = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "__main__.py")
"""The program that imports modules in another process."""
LOAD_CHECK_TIME_S = 0.004
"""Maximum processor time for describing a module during a load, in seconds. Other names are described in idle time."""
MAX_CHECKED_LEAVES = 1500
"""Maximum number of values that are described for one name during a load."""
IDLE_CHECK_TIME_S = 0.03
"""Maximum processor time for describing modules in idle time, in seconds."""
CHILD_CHECK_TIME_S = 0.08
"""Maximum processor time for describing modules in each importing process, in seconds."""
REQUESTED_CHECK_TIME_S = 2.0
"""Maximum processor time for describing modules in a comparison that a client requested, in seconds."""
IMPORT_TIMEOUT_S = 15.0
"""Seconds after which an import fails in an automatic comparison."""
REQUESTED_IMPORT_TIMEOUT_S = 60.0
"""Seconds after which an import fails in a comparison that a client requested."""
IDLE_TIMEOUT_S = 1.0
"""Seconds that a requested comparison waits for a running evaluation to end."""
MAX_ROWS = 5
"""Maximum number of findings that an automatic comparison reports."""
MAX_REQUESTED_ROWS = 20
"""Maximum number of findings that a requested comparison reports."""
MAX_WATCHED_PATHS = 2000
"""Maximum number of compared paths to values that loads have changed."""
MAX_ERROR_MESSAGE_CHARACTERS = 200
"""Maximum number of characters reported from an internal error's message."""
NATIVE_CLIENT_LIBRARIES = frozenset(
    (
        "psycopg", "psycopg_c", "psycopg2", "pymssql", "pyodbc", "MySQLdb", "mysql.connector", "oracledb", "cx_Oracle",
        "ibm_db", "grpc", "pycurl", "zmq", "confluent_kafka", "pymemcache", "pylibmc", "cassandra", "couchbase",
        "uvloop", "pyarrow", "duckdb", "h5py", "lmdb", "rocksdb", "plyvel", "polars", "rasterio", "osgeo", "torch",
        "tensorflow", "jax", "cupy", "snowflake", "clickhouse_connect", "apsw", "pysqlcipher3", "_gdbm", "_dbm",
    )
)  # fmt: skip
"""Libraries with native code that connects or writes without raising audit events."""
CODE_NUMBER_PREFIX = "\0"
"""The prefix of the number that represents a code object in a description until its digest is needed."""


class Edit:
    """All loads of one module since the module was last compared, combined into a single edit."""

    def __init__(self, name: str, file: str, previous: bytes) -> None:
        self.name, self.file = name, file
        self.previous = previous
        """The source before the first of these loads."""
        self.before: dict[str, str] | None = None
        self.after: dict[str, str] | None = None
        """Descriptions of all values in the module, by path, before the loads and after them.

        They are None while the loads have only defined functions and classes.
        """
        self.codes: dict[str, types.CodeType] = {}
        """The code objects to which the descriptions refer by number."""
        self.code: types.CodeType | None = None
        """The compiled current source, until `code_digests` has used it. None if the load did not compile it."""
        self._code_digests: frozenset[str] | None = None

    def code_digests(self, source: bytes) -> frozenset[str]:
        """Return the digests of all code objects in the current source, compiling it if the load did not."""
        if self._code_digests is None:
            code = self.code or compile(source, self.file, "exec", dont_inherit=True)
            self._code_digests = frozenset(map(code_digest, nested_codes(code)))
            self.code = None
        return self._code_digests

    def merge_with(self, other: Edit) -> Edit:
        """Return a single edit that combines this edit with a later one of the same module."""
        both = Edit(self.name, self.file, self.previous)
        both.before = other.before if self.before is None else self.before
        both.after = other.after if other.after is not None else self.after
        both.codes = {**self.codes, **other.codes}
        both.code, both._code_digests = other.code, other._code_digests
        return both

    def resolve_code_numbers(self) -> None:
        """Replace the numbers of code objects in the descriptions with digests of the code."""
        codes, self.codes = self.codes, {}

        def text_of(text: str) -> str:
            head, mark, number = text.partition(CODE_NUMBER_PREFIX)
            return head + code_digest(codes[mark + number]) if mark else text

        if codes and self.before is not None and self.after is not None:
            self.before = {path: text_of(text) for path, text in self.before.items()}
            self.after = {path: text_of(text) for path, text in self.after.items()}

    @property
    def undone(self) -> list[str]:
        """Return the paths of values that were changed or removed by the loads."""
        if self.before is None or self.after is None:
            return []
        return list(changed_leaves(self.before, self.after))[:MAX_WATCHED_PATHS]


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
        self._sources, self._roots, self._forks = sources, roots, forks
        self._is_unasked = is_unasked and sys.platform == "linux" and hasattr(os, "posix_spawn")
        self._is_project_file = make_project_file_check(roots)
        self._condition = threading.Condition()
        self._pending: dict[str, Edit] = {}
        self._reported: set[str] = set()
        """Full names already reported by the answers about the pending loads."""
        self._first: dict[str, Edit] = {}
        """All loads of each module so far, merged into one edit."""
        self._caches: list[FilledCache | FilledProperties] = []
        self._running = 0
        """The number of evaluations in progress."""
        self._evaluated = 0
        """The number of evaluations that have started."""
        self._is_busy = False
        """Whether an automatic comparison is in progress."""
        self._process: ImportProcess | None = None
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
        self.idle_s = 0.0
        """The processor time of descriptions in idle time, in seconds."""

    # On the main thread

    def __enter__(self) -> None:
        """Pause the comparison because an evaluation is starting."""
        with self._condition:
            self._running += 1
            self._evaluated += 1
            if self._running == 1 and self._process is not None:
                self._process.pause()

    def __exit__(self, *_error: object) -> None:
        """Resume the comparison if no evaluation is running any longer."""
        with self._condition:
            self._running -= 1
            if not self._running:
                if self._process is not None:
                    self._process.resume()
                self._condition.notify_all()

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
        with _gc_disabled():
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
        with self._condition:
            is_first = not self._pending and self._finding is None and not self._is_busy
            self._may_scan = is_first or (self._may_scan and self._evaluated == self._loaded_at + 1)
            self._is_first, self._loaded_at = is_first, self._evaluated
            known = self._pending.get(edit.name)
            self._pending[edit.name] = edit if known is None else known.merge_with(edit)
            self._reported |= set(names)
            self._is_awaited = edit.before is not None
            if self._finding is not None:  # it was not delivered, and may be out of date
                self._pending = _merge_edits(self._found, self._pending)
                self._finding = None
            if not self._has_thread:
                self._has_thread = True
                start_thread(self._serve)
            self._condition.notify_all()

    def pop_finding(self) -> Finding | None:
        """Return and clear the finding that has not been delivered yet, or return None."""
        with self._condition:
            finding, self._finding = self._finding, None
            return finding

    def wait(self, seconds: float, *, is_patient: bool = False) -> Finding | None:
        """Wait for the finding about the last loads. If it is not ready in time, it is included in a later answer.

        Unless `is_patient` is set, this returns immediately if the last load only ran new code.
        """
        with self._condition:
            if self._is_awaited or is_patient:
                self._condition.wait_for(lambda: not self._pending and not self._is_busy, seconds)
        return self.pop_finding()

    def compare_now(self) -> Finding:
        """Compare all modules that were loaded again, even those that use libraries with undetectable effects.

        Effects that are detected are still refused. Must not be called on the main thread.
        """
        with self._condition:
            # An evaluation counts as running for a moment after its answer was sent.
            if not self._condition.wait_for(lambda: not self._running, IDLE_TIMEOUT_S):
                return {"rows": [], "more": 0, "why": "an evaluation is running: call again when it has finished"}
            edits = _merge_edits(self._first, self._pending)
        if not edits:
            return {"rows": [], "more": 0, "why": "no module has been reloaded with a different source"}
        for edit in edits.values():
            edit.resolve_code_numbers()
        with self._serial:
            return self._compare_edits(edits, (), lambda: True, is_demanded=True) or {"rows": [], "more": 0}

    def stop(self) -> None:
        """Stop comparing, because this is a forked child process."""
        self._is_forgotten = True
        self._condition = threading.Condition()

    # On the thread of comparisons

    def _serve(self) -> None:
        """Compare the scheduled modules whenever the process is idle. This runs in a thread."""
        while True:
            with self._condition:
                self._condition.wait_for(lambda: bool(self._pending) and not self._running)
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
                with self._condition:
                    if self._pending:  # there was another load, so compare both together
                        self._pending = _merge_edits(edits, self._pending)
                        self._reported |= reported
                    else:
                        self._first = _merge_edits(self._first, edits)
                        self._finding = finding if finding is not None and finding["rows"] else None
                        self._found = edits
                    self._is_busy = False
                    self._condition.notify_all()

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
            why, fresh, leaf_rows = self._import_modules(
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
            return not self._running and self._evaluated == self._loaded_at

        if self._is_first:
            self._caches = []
        if self._may_scan and is_idle():
            self._caches = find_filled_caches(self._is_project_file, is_idle)

    def _find_previous_code(
        self, digests: Mapping[str, frozenset[str]], is_requested: Callable[[], bool]
    ) -> list[tuple[str, str, str]]:
        """Return the objects that still have previous code. The scan is repeated if an evaluation interrupts it."""
        while self._wait_until_idle(is_requested):
            found = previous_code(digests, lambda: not self._running and is_requested())
            if found is not None:
                return found
        return []

    def _import_modules(
        self,
        edits: dict[str, Edit],
        previous: dict[str, bytes],
        is_requested: Callable[[], bool],
        started: int,
        *,
        is_demanded: bool,
    ) -> tuple[str, Fresh, list[Row]]:
        """Import the modules in another process, and compare them with the modules in this process.

        Returns the reason why that is not possible, or "", followed by the values that the edits change and the values
        that are wrong in this process.
        """
        watched: list[str] = []
        for edit in edits.values():
            watched += edit.undone
        spec = self._import_spec(edits, previous, watched, is_demanded=is_demanded)
        answer = self._fresh(spec, is_requested, is_demanded=is_demanded)
        if answer is None:
            return (
                NO_LONGER_NEEDED_REASON
                if not is_requested()
                else f"the import of {', '.join(edits)} did not finish in time",
                {},
                [],
            )
        if answer.get("refused") or answer.get("failed"):
            why = answer.get("failed") or f"the import of {', '.join(edits)} would {answer['refused']}"
            return (
                (why, {}, [])
                if len(edits) == 1
                else self._import_one_by_one(edits, previous, is_requested, started, is_demanded)
            )
        fresh = {path: (was, now) for path, (was, now) in answer["fresh"].items()}
        rows = self._find_wrong_leaves(edits, fresh, is_requested, started)
        if rows:  # what differs between two imports of the same source is not a finding
            roots: dict[str, list[str]] = {}
            for path, *_ in rows:
                module, name = split_leaf_path(path, spec["modules"])
                if name not in roots.setdefault(module, []):
                    roots[module].append(name)
            again = self._run({**spec, "roots": roots}, HASH_SEEDS[1], is_requested, is_demanded=is_demanded)
            leaves = (again or {}).get("leaves")
            if leaves is None:
                return (
                    NO_LONGER_NEEDED_REASON
                    if not is_requested()
                    else f"the second import of {', '.join(edits)} failed",
                    {},
                    [],
                )
            rows = [row for row in rows if leaves.get(row[0]) == row[2]]
        return "", fresh, _sort_rows(outermost_rows(rows), edits)

    def _import_one_by_one(
        self,
        edits: dict[str, Edit],
        previous: dict[str, bytes],
        is_requested: Callable[[], bool],
        started: int,
        is_demanded: bool,  # noqa: FBT001  # as in `_import_modules`
    ) -> tuple[str, Fresh, list[Row]]:
        """Import and compare each module separately.

        This way, a module that cannot be compared does not prevent findings about others. The result is like that of
        `_import_modules`.
        """
        reasons: list[str] = []
        fresh: Fresh = {}
        rows: list[Row] = []
        for name, edit in edits.items():
            edited = {edit.file: previous[edit.file]} if edit.file in previous else {}
            why, found, some = self._import_modules(
                {name: edit}, edited, is_requested, started, is_demanded=is_demanded
            )
            if why == NO_LONGER_NEEDED_REASON:
                return why, {}, []
            reasons += [why] if why else []
            fresh.update(found)
            rows += some
        return "; ".join(reasons), fresh, rows

    def _find_wrong_leaves(
        self,
        edits: dict[str, Edit],
        fresh: Fresh,
        is_requested: Callable[[], bool],
        started: int,
    ) -> list[Row]:
        """Return the values that are wrong in this process.

        `fresh` contains the values that the edits change in a fresh import.
        """
        before: dict[str, str] = {}
        after: dict[str, str] = {}
        roots: dict[str, list[str]] = {}
        for path in fresh:
            module, name = split_leaf_path(path, sys.modules)
            edit = edits.get(module)
            if edit is not None and edit.after is not None and _is_known(f"{module}.{name}", edit.after):
                continue
            if name not in roots.setdefault(module, []):
                roots[module].append(name)
        for edit in edits.values():
            if edit.before is not None and edit.after is not None:
                before.update(edit.before)
                after.update(edit.after)
        if roots and not self._wait_until_idle(is_requested):
            return []
        started_s = thread_time()
        with _gc_disabled():
            shapes = LeafDescriber(tuple(edits), IDLE_CHECK_TIME_S)
            for module, names in roots.items():
                found = shapes.describe_module(module, names)
                after.update(found)
                if module in edits and edits[module].before is None:
                    before.update(found)  # only new code ran in it
        self.idle_s += thread_time() - started_s
        has_run = bool(started) and self._evaluated != started
        rows = list(stale_leaves(fresh, before, after))
        return [
            row for row in rows if row[1] != OTHER or not has_run or split_leaf_path(row[0], sys.modules)[0] in edits
        ]

    def _fresh(
        self, spec: dict[str, Any], is_requested: Callable[[], bool], *, is_demanded: bool
    ) -> dict[str, Any] | None:
        """Return the changes that the edits cause in a fresh import.

        If the importing process cannot fork, use two processes.
        """
        answer = self._run(spec, HASH_SEEDS[0], is_requested, is_demanded=is_demanded)
        if self._forks or answer is None or "leaves" not in answer:
            return answer
        sources = {**spec["texts"], **spec["former"]}
        previous = self._run({**spec, "texts": sources}, HASH_SEEDS[0], is_requested, is_demanded=is_demanded)
        if previous is None or "leaves" not in previous:
            return previous
        return {**compare_imports(previous["leaves"], answer["leaves"], spec["edited"], spec["watched"])}

    def _run(
        self, spec: dict[str, Any], hash_seed: str, is_requested: Callable[[], bool], *, is_demanded: bool
    ) -> dict[str, Any] | None:
        """Run one importing process and return its result. Return None if the comparison is no longer needed."""
        if not self._wait_until_idle(is_requested):
            return None
        process = ImportProcess(IMPORT_PROGRAM, hash_seed)
        with self._condition:
            self._process = process
            if self._running:
                process.pause()
        try:
            return process.result(spec, REQUESTED_IMPORT_TIMEOUT_S if is_demanded else IMPORT_TIMEOUT_S, is_requested)
        finally:
            with self._condition:
                self._process = None

    def _import_spec(
        self, edits: Mapping[str, Edit], previous: Mapping[str, bytes], watched: list[str], *, is_demanded: bool
    ) -> dict[str, Any]:
        """Return the specification for an importing process, as JSON data."""
        modules: dict[str, str] = {}
        sources: dict[str, str] = {}
        loads = dict(self._sources.loads)
        for name in list(sys.modules):
            load = loads.get(name)
            if load is None or name == "__main__" or not load.file.endswith(".py"):
                continue
            modules[name] = load.file
            if (name in edits or _may_differ_on_disk(load)) and load.data is not None:
                sources[load.file] = load.data.decode("latin-1")
        return {
            "cwd": os.getcwd(),
            "argv": list(sys.argv),
            "path": [entry for entry in sys.path if type(entry) is str],
            "hashSeed": os.environ.get("PYTHONHASHSEED"),
            "django": _is_django_ready(),
            "folders": [*self._roots, os.environ.get("TMPDIR") or "/tmp"],  # noqa: S108  # as `tempfile` has it
            "needsShield": not is_demanded and not NATIVE_CLIENT_LIBRARIES.isdisjoint(sys.modules),
            "modules": modules,
            "edited": list(edits),
            "texts": sources,
            "former": {file: data.decode("latin-1") for file, data in previous.items()},
            "watched": watched[:MAX_WATCHED_PATHS],
            "roots": {},
            "forks": self._forks,
            "shapeSeconds": REQUESTED_CHECK_TIME_S if is_demanded else CHILD_CHECK_TIME_S,
        }

    def _may_import(self) -> bool:
        return self._is_unasked

    def _loaded_source_of(self, name: str) -> bytes | None:
        load = self._sources.loads.get(name)
        return None if load is None else load.data

    def _wait_until_idle(self, is_requested: Callable[[], bool]) -> bool:
        """Wait until no evaluation is running. Return False if the comparison is no longer needed."""
        with self._condition:
            self._condition.wait_for(lambda: not self._running or not is_requested())
        return is_requested()


NO_LONGER_NEEDED_REASON = "(no longer needed)"


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


def _is_known(root: str, leaves: Mapping[str, str]) -> bool:
    """Return whether `leaves` contain a description of the name `root`."""
    return leaves.get(root, UNKNOWN_TEXT) != UNKNOWN_TEXT


@contextlib.contextmanager
def _gc_disabled() -> Iterator[None]:
    """Disable garbage collection during a description, because it would be slow and might run finalizers."""
    is_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if is_enabled:
            gc.enable()


def _may_differ_on_disk(load: Any) -> bool:
    """Return whether the file may have changed since it was loaded."""
    try:
        status = os.stat(load.file)
    except OSError:
        return True
    return load.stamp is None or (status.st_mtime_ns, status.st_size) != (load.stamp[0], load.stamp[2])


def _is_django_ready() -> bool:
    """Return whether Django has been set up. This does not import or configure it."""
    library = sys.modules.get("django.apps")
    registry = None if library is None else module_dict(library).get("apps")
    return registry is not None and vars(registry).get("ready") is True


def _merge_edits(first: Mapping[str, Edit], later: Mapping[str, Edit]) -> dict[str, Edit]:
    """Return the edits of all modules. If a module has an edit in both mappings, the two are merged."""
    both = {name: first[name].merge_with(edit) if name in first else edit for name, edit in later.items()}
    return {**first, **both}


def _sort_rows(rows: Collection[Row], edited: Collection[str]) -> list[Row]:
    """Sort rows so that those for edited modules come first and each name has one row before any name has a second."""
    first = tuple(f"{name}." for name in edited)
    seen: dict[tuple[str, str], int] = {}
    ranked: list[tuple[int, int, Row]] = []
    for row in sorted(rows, key=lambda row: (not row[0].startswith(first), len(row[0]), row[0])):
        root = split_leaf_path(row[0], sys.modules)
        seen[root] = seen.get(root, 0) + 1
        ranked.append((seen[root], len(ranked), row))
    return [row for _, _, row in sorted(ranked)]


def _leaf_row(row: Row) -> dict[str, str]:
    path, why, now, live = row
    sources = {"fresh": now, "live": live}
    return {
        "kind": "leaf",
        "name": path,
        "why": why,
        **{key: text for key, text in sources.items() if text is not None},
    }
