"""The hint shown to agents when a tool needs a Jupyter kernel and there is none."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from codriver.features.jupyter.kernel_kind import JUPYTER_PROTOCOL
from codriver.tools.calls.tool import CapabilitySource

if TYPE_CHECKING:
    from codriver.core.state import State

CELLS_CAPABILITY: Final = "cells"
"""Capability of REPLs that record the outputs of notebook cells."""


def describe_kernel_setup(state: State, kernelspec: str = "") -> str:
    """Describe how to configure a Jupyter kernel in addition to the REPLs that this server starts."""
    started = [repl.origin.text for repl in state.repls.values() if repl.is_owned and not repl.is_stand_in]
    names = ", ".join(
        f"'{name}'" for name in (*started, f"{JUPYTER_PROTOCOL}:{kernelspec}" if kernelspec else JUPYTER_PROTOCOL)
    )
    return (
        f"set repl = [{names}] in codriver.toml and have the user run `codriver trust`. A running server then starts "
        "the kernel"
    )


KERNEL_SOURCE: Final = CapabilitySource(
    may_have=lambda repl: repl.origin.text.startswith(JUPYTER_PROTOCOL),
    advice=lambda state: f"a Jupyter kernel can do this: {describe_kernel_setup(state)}",
)


def describe_missing_kernel(state: State) -> str | None:
    """Return a note on how to get a kernel for `run_cell`, or None if one exists or is starting."""
    kernels = [repl for repl in state.repls.values() if KERNEL_SOURCE.may_have(repl)]
    if CELLS_CAPABILITY in state.capabilities() or any(repl.is_awaited for repl in kernels):
        return None
    if stopped := next((repl for repl in kernels if repl.phase == "stopped" and repl.note), None):
        return f"run_cell needs a kernel, and {stopped.key} is stopped: {stopped.note}"
    return f"run_cell needs a kernel: {describe_kernel_setup(state)}"
