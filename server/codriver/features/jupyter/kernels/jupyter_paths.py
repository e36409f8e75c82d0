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
    """Return the directory in which Jupyter keeps the files of running kernels and servers."""
    given = environ.get("JUPYTER_RUNTIME_DIR")
    return Path(given) if given else data_directory(environ) / "runtime"


def data_directory(environ: Mapping[str, str]) -> Path:
    """Return the user's own data directory of Jupyter."""
    if given := environ.get("JUPYTER_DATA_DIR"):
        return Path(given)
    home = Path(environ.get("HOME") or Path.home())
    system = str(sys.platform)  # each branch is typed on every system
    if system == "darwin":
        return home / "Library" / "Jupyter"
    if system == "win32":
        return Path(environ.get("APPDATA") or home) / "jupyter"
    return Path(environ.get("XDG_DATA_HOME") or home / ".local" / "share") / "jupyter"
