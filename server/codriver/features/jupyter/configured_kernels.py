"""The kernels that the settings name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from codriver.core.actions import ReplFound
from codriver.core.state import Origin
from codriver.features.jupyter.kernel_entries import check_encrypted, named_kernels
from codriver.features.jupyter.kernels.named_kernels import KernelUrl, NamedKernel
from codriver.features.jupyter.settings import KERNELS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from codriver.settings.model import Settings


def kernels_of(settings: Settings, environ: Mapping[str, str]) -> tuple[NamedKernel, ...]:
    """Return the kernels that the settings name."""
    return named_kernels(settings.value_of(KERNELS), environ)


def check_kernels(settings: Settings, environ: Mapping[str, str]) -> None:
    """Check the kernels that the settings name: see `check_encrypted`."""
    check_encrypted(kernels_of(settings, environ))


def repls_named(settings: Settings, environ: Mapping[str, str]) -> tuple[ReplFound, ...]:
    """Return the kernels that the settings name, as REPLs to connect to."""
    return tuple(map(_as_repl, kernels_of(settings, environ)))


def _as_repl(kernel: NamedKernel) -> ReplFound:
    location = kernel.location
    if isinstance(location, KernelUrl):
        address = location.address
        return ReplFound(f"server:{address}", kernel.key or location.key, Origin("server", str(location)), address)
    address, key = f"jupyter://{location}", "jup"
    return ReplFound(f"kernel:{location}", kernel.key or key, Origin("kernel", str(location)), address)
