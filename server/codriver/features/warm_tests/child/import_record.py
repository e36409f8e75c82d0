"""The record of one module's import: what it read, what it did besides defining names, what stands against it."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

NATIVE_VARIABLES = tuple(
    b"OMP_ GOMP_ KMP_ OPENBLAS_ GOTO_ BLIS_ MKL_ VECLIB_ NUMEXPR_ NUMBA_ NPY_ TF_ XLA_ JAX_ CUDA_ NVIDIA_ NCCL_ TORCH_ "
    b"PYTORCH_ ATEN_ DNNL_ ONEDNN_ MKLDNN_ POLARS_ RAYON_ ARROW_ GRPC_ OPENCV_ HDF5_ GDAL_ PROJ_ QT_ GEVENT_ MALLOC_ "
    b"OPENSSL_ SSL_ LC_ LANG TZ".split()
)
"""How the names of variables begin that native code reads, which nothing in Python can see."""


class ImportRecord:
    """What the import of one module did. Only the innermost module being imported is charged with what happens."""

    __slots__ = (
        "effects", "environment", "files", "imports", "loader", "missed", "native", "obstacle", "origin", "stat",
        "whole_environment",
    )  # fmt: skip

    def __init__(self) -> None:
        self.imports: dict[str, None] = {}
        """The modules that it imported, loaded or already there, in order."""
        self.environment: dict[bytes, bytes | None] = {}
        """The variables that it read, with their values."""
        self.whole_environment: dict[bytes, bytes] | None = None
        """All variables, if it went through them."""
        self.native: dict[bytes, bytes] | None = None
        """The variables that native code reads, if this is native code outside the standard library."""
        self.missed: set[str] = set()
        """Top-level modules that it looked for and that did not exist."""
        self.files: dict[str, tuple[int, int, int] | None] = {}
        """Other files that it read or looked for, with their stats; None for what did not exist."""
        self.effects: list[tuple[str, Any]] = []
        """What to repeat when the module appears, in order: see `effects`."""
        self.obstacle = ""
        """Why the module must not be preloaded; empty if nothing stands against it."""
        self.loader = ""
        self.origin = ""
        self.stat: tuple[int, int, int] | None = None


def native_variables(environment: dict[bytes, bytes]) -> dict[bytes, bytes]:
    """Return those of the variables that native code reads."""
    return {name: value for name, value in environment.items() if name.startswith(NATIVE_VARIABLES)}


def current_environment() -> dict[bytes, bytes]:
    """Return the encoded variables of this process, without being noticed by whoever watches `os.environ`."""
    return dict(os.environ._data)
