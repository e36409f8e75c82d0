"""Read the Jupyter kernels in the settings as REPLs to connect to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from codriver.core.actions import AddRepl
from codriver.features.jupyter.kernel_entries import check_encrypted, named_kernels
from codriver.features.jupyter.kernel_kind import JUPYTER_PROTOCOL, KERNEL_KIND
from codriver.features.jupyter.kernel_origins import kernel_of_file, kernel_of_server
from codriver.features.jupyter.kernels.named_kernels import KernelUrl, NamedKernel
from codriver.features.jupyter.settings import KERNELS_SETTING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from codriver.settings.model import Settings


def configured_kernels(settings: Settings, environ: Mapping[str, str]) -> tuple[NamedKernel, ...]:
    """Return the kernels in the settings. Tokens in environment variables are read from `environ`."""
    return named_kernels(settings.value_of(KERNELS_SETTING), environ)


def check_configured_kernels(settings: Settings, environ: Mapping[str, str]) -> None:
    """Check that connections to the kernels in the settings are encrypted where required.

    Raises:
        UnencryptedError: a connection to another machine is unencrypted, and the settings do not allow this.
    """
    check_encrypted(configured_kernels(settings, environ))


def configured_repls(settings: Settings, environ: Mapping[str, str]) -> tuple[AddRepl, ...]:
    """Return the kernels in the settings as REPLs to connect to."""
    return tuple(map(_as_repl, configured_kernels(settings, environ)))


def _as_repl(kernel: NamedKernel) -> AddRepl:
    location = kernel.location
    if isinstance(location, KernelUrl):
        address = location.address
        return AddRepl(f"server:{address}", kernel.key or location.key, kernel_of_server(location), address)
    address = f"{JUPYTER_PROTOCOL}://{location}"
    return AddRepl(f"kernel:{location}", kernel.key or KERNEL_KIND.key, kernel_of_file(location), address)
