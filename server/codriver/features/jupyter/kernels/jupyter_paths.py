"""The directories in which Jupyter stores its data and the files of running kernels and servers.

Source: Jupyter documentation, "Common Directories and File Locations".
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


def runtime_directory(environ: Mapping[str, str]) -> Path:
    """Return the directory in which Jupyter stores the files of running kernels and servers."""
    path = environ.get("JUPYTER_RUNTIME_DIR")
    return Path(path) if path else data_directory(environ) / "runtime"


def data_directory(environ: Mapping[str, str]) -> Path:
    """Return the user's Jupyter data directory."""
    if path := environ.get("JUPYTER_DATA_DIR"):
        return Path(path)
    home = Path(environ.get("HOME") or Path.home())
    system = str(sys.platform)  # so that mypy checks the branches of all systems
    if system == "darwin":
        return home / "Library" / "Jupyter"
    if system == "win32":
        return Path(environ.get("APPDATA") or home) / "jupyter"
    return Path(environ.get("XDG_DATA_HOME") or home / ".local" / "share") / "jupyter"
