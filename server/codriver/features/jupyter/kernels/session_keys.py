"""Session keys for kernels, derived from the name of their notebook."""

from __future__ import annotations

import re
from pathlib import Path


def session_key_for_notebook(path: str) -> str | None:
    """Return the session key for the kernel of a notebook, such as `a-ipynb`, or None for a path without a suffix.

    Consoles have such a path, because they have no file.
    """
    name = Path(path).name
    return (re.sub(r"[^A-Za-z0-9_]+", "-", name).strip("-") or None) if Path(name).suffix else None
