"""The records of imports: what each read, its side effects, and the reason why its module must not be preloaded."""

from __future__ import annotations

import os

from .effects import MISSING_VALUE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

NATIVE_VARIABLE_PREFIXES = tuple(
    b"OMP_ GOMP_ KMP_ OPENBLAS_ GOTO_ BLIS_ MKL_ VECLIB_ NUMEXPR_ NUMBA_ NPY_ TF_ XLA_ JAX_ CUDA_ NVIDIA_ NCCL_ TORCH_ "
    b"PYTORCH_ ATEN_ DNNL_ ONEDNN_ MKLDNN_ POLARS_ RAYON_ ARROW_ GRPC_ OPENCV_ HDF5_ GDAL_ PROJ_ QT_ GEVENT_ MALLOC_ "
    b"OPENSSL_ SSL_ LC_ LANG TZ".split()
)
"""Prefixes of environment variables that native code may read. Python code cannot observe such reads."""


class ImportRecord:
    """A record of the events during the import of a module.

    If imports are nested, an event is recorded only for the innermost module.
    """

    __slots__ = (
        "directory", "effects", "environment", "files", "imports", "loader", "missed", "native", "obstacle", "origin",
        "parent_attribute", "stat", "whole_environment",
    )  # fmt: skip

    def __init__(self) -> None:
        self.imports: dict[str, None] = {}
        """The modules that the module imported, in order, including those that were already loaded."""
        self.directory = ""
        """The current directory, if the import read it."""
        self.environment: dict[bytes, bytes | None] = {}
        """The environment variables that the import read, with their values."""
        self.whole_environment: dict[bytes, bytes] | None = None
        """All environment variables, if the import iterated over them."""
        self.native: dict[bytes, bytes] | None = None
        """The variables that native code may read, if this module is native code outside the standard library."""
        self.missed: set[str] = set()
        """Nonexistent top-level modules that the module tried to import."""
        self.files: dict[str, tuple[int, int, int] | None] = {}
        """Other files that the import read or looked for, with their state as returned by `file_stat`."""
        self.effects: list[tuple[str, Any]] = []
        """The effects to repeat when the module is revealed, in order (see `effects`)."""
        self.obstacle = ""
        """The reason why the module must not be preloaded, or an empty string."""
        self.loader = ""
        self.origin = ""
        self.stat: tuple[int, int, int] | None = None
        self.parent_attribute: Any = MISSING_VALUE
        """What the parent had under the module's name until the import replaced it, or `MISSING_VALUE`."""


class ImportRecords:
    """The records of all imports, and the imports in progress."""

    def __init__(self) -> None:
        self.by_name: dict[str, ImportRecord] = {}
        self.in_progress: list[str] = []
        """The modules that are being imported, the innermost last."""
        self.is_draw_allowed = False
        """Whether the import in progress may draw random numbers at the moment."""

    def record(self, name: str) -> ImportRecord:
        """Return the record of a module's import, creating it on the first call."""
        found = self.by_name.get(name)
        if found is None:
            found = self.by_name[name] = ImportRecord()
        return found

    def current(self) -> ImportRecord | None:
        """Return the record of the innermost import in progress, or None."""
        return self.by_name[self.in_progress[-1]] if self.in_progress else None

    def add_effect(self, effect: tuple[str, Any]) -> bool:
        """Add an effect to the innermost import in progress. Return False if there is none."""
        current = self.current()
        if current is not None:
            current.effects.append(effect)
        return current is not None

    def add_obstacle(self, name: str, obstacle: str) -> None:
        """Record the reason why a module must not be preloaded."""
        record = self.record(name)
        record.obstacle = record.obstacle or obstacle

    def add_current_obstacle(self, obstacle: str) -> None:
        """Record the reason why the module that is being imported must not be preloaded."""
        self.add_obstacle(self.in_progress[-1], obstacle)


def native_variables(environment: dict[bytes, bytes]) -> dict[bytes, bytes]:
    """Return the environment variables that native code may read."""
    return {name: value for name, value in environment.items() if name.startswith(NATIVE_VARIABLE_PREFIXES)}


def current_environment() -> dict[bytes, bytes]:
    """Return the encoded environment. The access to `os.environ` is not recorded."""
    return dict(os.environ._data)
