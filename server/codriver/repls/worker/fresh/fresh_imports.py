"""Import modules in another process, and find the leaves that are wrong in this process."""

from __future__ import annotations

import os
import sys
from time import thread_time

from .collected_objects import gc_disabled
from .import_process import HASH_SEEDS, ImportProcess
from .leaf_rules import OTHER, compare_imports, outermost_rows, stale_leaves
from .leaves import UNKNOWN_TEXT, LeafDescriber, module_dict, split_leaf_path
from .uncompared_edits import MAX_WATCHED_PATHS, Edit

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence
    from typing import Any

    from ..python.loaded_sources import LoadedSources
    from .idle_time import IdleTime
    from .leaf_rules import Fresh, Row

IMPORT_PROGRAM = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "__main__.py")
"""The program that imports modules in another process."""
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
NATIVE_CLIENT_LIBRARIES = frozenset(
    (
        "psycopg", "psycopg_c", "psycopg2", "pymssql", "pyodbc", "MySQLdb", "mysql.connector", "oracledb", "cx_Oracle",
        "ibm_db", "grpc", "pycurl", "zmq", "confluent_kafka", "pymemcache", "pylibmc", "cassandra", "couchbase",
        "uvloop", "pyarrow", "duckdb", "h5py", "lmdb", "rocksdb", "plyvel", "polars", "rasterio", "osgeo", "torch",
        "tensorflow", "jax", "cupy", "snowflake", "clickhouse_connect", "apsw", "pysqlcipher3", "_gdbm", "_dbm",
    )
)  # fmt: skip
"""Libraries with native code that connects or writes without raising audit events."""
NO_LONGER_NEEDED_REASON = "(no longer needed)"


class FreshImports:
    """Imports of the modules that are loaded in this process, in other processes.

    `forks` determines whether importing processes may fork.
    """

    def __init__(self, sources: LoadedSources, idle: IdleTime, roots: Sequence[str], *, forks: bool) -> None:
        self._sources, self._idle, self._roots, self._forks = sources, idle, roots, forks
        self.idle_s = 0.0
        """The processor time of descriptions in idle time, in seconds."""

    def compare(
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
        is_demanded: bool,  # noqa: FBT001  # as in `compare`
    ) -> tuple[str, Fresh, list[Row]]:
        """Import and compare each module separately.

        This way, a module that cannot be compared does not prevent findings about others. The result is like that of
        `compare`.
        """
        reasons: list[str] = []
        fresh: Fresh = {}
        rows: list[Row] = []
        for name, edit in edits.items():
            edited = {edit.file: previous[edit.file]} if edit.file in previous else {}
            why, found, some = self.compare({name: edit}, edited, is_requested, started, is_demanded=is_demanded)
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
        """Return the values that differ from those of a fresh import.

        `fresh` contains the values that the edits change, as they are in a fresh import.
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
        if roots and not self._idle.wait(is_requested):
            return []
        started_s = thread_time()
        with gc_disabled():
            shapes = LeafDescriber(tuple(edits), IDLE_CHECK_TIME_S)
            for module, names in roots.items():
                found = shapes.describe_module(module, names)
                after.update(found)
                if module in edits and edits[module].before is None:
                    before.update(found)  # only new code ran in it
        self.idle_s += thread_time() - started_s
        has_run = bool(started) and self._idle.evaluated != started
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
        if not self._idle.wait(is_requested):
            return None
        timeout_s = REQUESTED_IMPORT_TIMEOUT_S if is_demanded else IMPORT_TIMEOUT_S
        return self._idle.run_import(ImportProcess(IMPORT_PROGRAM, hash_seed), spec, timeout_s, is_requested)

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


def _is_known(root: str, leaves: Mapping[str, str]) -> bool:
    """Return whether `leaves` contain a description of the name `root`."""
    return leaves.get(root, UNKNOWN_TEXT) != UNKNOWN_TEXT


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
