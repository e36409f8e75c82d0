"""The hint for an agent when a tool needs a kernel and no REPL is one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from codriver.repls.kinds import JUPYTER
from codriver.tools.calls.tool import CapabilitySource

if TYPE_CHECKING:
    from codriver.core.state import State

CELLS: Final = "cells"
"""Capability of a REPL that records the outputs of notebook cells, such as a Jupyter kernel."""


def to_have_kernel(state: State, kernelspec: str = "") -> str:
    """Describe how to add a Jupyter kernel to the REPLs that this server starts."""
    started = [repl.origin.text for repl in state.repls.values() if repl.owned and not repl.is_stand_in]
    names = ", ".join(f"'{words}'" for words in (*started, f"{JUPYTER}:{kernelspec}" if kernelspec else JUPYTER))
    return (
        f"set repl = [{names}] in codriver.toml and have the user run codriver trust; a running server then starts it"
    )


KERNELS: Final = CapabilitySource(
    may_have=lambda repl: repl.origin.text.startswith(JUPYTER),
    advice=lambda state: f"a Jupyter kernel has it: {to_have_kernel(state)}",
)
