"""The doctor's checks for Jupyter kernels."""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING, Any, Final

from codriver.errors import install_command
from codriver.features.jupyter.kernels.jupyter_paths import runtime_directory
from codriver.features.jupyter.kernels.workspace_kernels import KernelSearch
from codriver.setup.doctor_checks import Check, FeatureChecks

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from codriver.setup.environment import Environment

INSTALL_COMMAND: Final = install_command("jupyter")


def _has_jupyter() -> bool:
    return importlib.util.find_spec("jupyter_client") is not None


def suggest_kernel_fix(repl: Mapping[str, Any]) -> str | None:
    """Return a suggested fix for a kernel that is not connected. Return None for other kinds of REPL."""
    if repl.get("kind") not in ("kernel", "server"):
        return None
    return f"rm {repl.get('origin')}, if its kernel has ended" if _has_jupyter() else INSTALL_COMMAND


def check_kernels(workspace: Path, environment: Environment) -> Iterator[Check]:
    """Yield a note for each running kernel that `codriver serve` would connect to in this workspace."""
    fix = "codriver serve connects to this kernel" if _has_jupyter() else INSTALL_COMMAND
    directory = runtime_directory({"HOME": str(environment.home), **environment.variables})
    for kernel in KernelSearch(workspace.resolve(), directory).find().kernels:
        name = f"the kernel of {kernel.notebook}" if kernel.notebook else f"a kernel ({kernel.key})"
        yield Check("REPLs", "note", f"{name} is running, found by {kernel.origin.text}", fix)


CHECKS: Final = FeatureChecks(("jupyter_client",), without_server=check_kernels, fix_for=suggest_kernel_fix)
