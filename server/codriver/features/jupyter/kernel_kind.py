"""Declare Jupyter kernels as a kind of REPL, and create their session keys."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from codriver.repls.kinds import ReplKind

JUPYTER_PROTOCOL: Final = "jupyter"
"""The protocol of kernels that are addressed by a connection file. Also the value of `--repl` that starts a kernel."""


def session_key_for_kernelspec(name: str) -> str:
    """Return the session key for a kernel that has no notebook, derived from the name of its kernelspec.

    Python kernels have the key `jup`, and R kernels the key `r`.
    """
    name = re.sub(r"[^a-z0-9_]+", "-", name.lower()).strip("-")
    if not name or "python" in name or "py" in name.split("-"):
        return "jup"
    return {"ir": "r"}.get(name, name)


def session_key_for_notebook(path: str) -> str | None:
    """Return the session key for the kernel of a notebook, for example `a-ipynb` for `a.ipynb`.

    Return None for a path without a suffix, which belongs to a console.
    """
    name = Path(path).name
    return (re.sub(r"[^A-Za-z0-9_]+", "-", name).strip("-") or None) if Path(name).suffix else None


KERNEL_KIND: Final = ReplKind(
    "Jupyter kernel",
    "jup",
    "python",
    (JUPYTER_PROTOCOL,),
    protocol=JUPYTER_PROTOCOL,
    variant="SPEC",
    key_of_variant=session_key_for_kernelspec,
    launcher="feature",
    needs_project=True,
    by_hand="codriver serve --repl jupyter",
)
