"""Attribute events to the cells or evaluations that caused them, in Jupyter kernels and with hy-nrepl.

Each library is found among the loaded modules and never imported.
"""

from __future__ import annotations

import sys

from .recording import origin

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


WATCHED_ATTRIBUTE = "_codriver_seam"
"""The attribute that marks a shell as already watched."""


def watch_cells() -> None:
    """Set the origin of events in a Jupyter cell to the origin that its execution request contains.

    Source: IPython's callbacks `pre_run_cell` and `post_run_cell`; ipykernel's `Kernel.get_parent`.
    """
    ipython: Any = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None and hasattr(ipython, "get_ipython") else None
    kernel: Any = getattr(shell, "kernel", None)
    if shell is None or not hasattr(kernel, "get_parent") or getattr(shell, WATCHED_ATTRIBUTE, None) is not None:
        return

    def begins(_about: object) -> None:
        metadata = (kernel.get_parent("shell") or {}).get("metadata") or {}
        named = metadata.get("codriver/origin")
        origin.set(named if isinstance(named, dict) else None)

    def ends(_about: object) -> None:
        origin.set(None)

    setattr(shell, WATCHED_ATTRIBUTE, begins)
    shell.events.register("pre_run_cell", begins)
    shell.events.register("post_run_cell", ends)


def watch_hy() -> None:
    """Set the origin of events in an evaluation by hy-nrepl to the origin that its request contains.

    Source: hy-nrepl 1.0.4, `ops/eval.hy`: each evaluation runs in its own thread, which stores the request.
    """
    evaluation: Any = getattr(sys.modules.get("hy_nrepl.ops.eval"), "InterruptibleEval", None)
    run = getattr(evaluation, "run", None)
    if run is None or hasattr(run, WATCHED_ATTRIBUTE):
        return

    def run_with_origin(thread: Any) -> None:
        message = getattr(thread, "msg", None)
        named = message.get("codriver/origin") if isinstance(message, dict) else None
        origin.set(named if isinstance(named, dict) else None)
        run(thread)

    setattr(run_with_origin, WATCHED_ATTRIBUTE, run)
    evaluation.run = run_with_origin
