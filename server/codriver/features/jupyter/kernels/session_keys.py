"""Session keys for kernels, derived from the name of their notebook."""

from __future__ import annotations

import re
from pathlib import Path


def key_of_notebook(path: str) -> str | None:
    """The session key for the kernel of a notebook, such as `a-ipynb`; None for a console, which has no file."""
    name = Path(path).name
    return (re.sub(r"[^A-Za-z0-9_]+", "-", name).strip("-") or None) if Path(name).suffix else None
