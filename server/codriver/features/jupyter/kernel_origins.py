"""Where a kernel was found: in a connection file, or on a Jupyter Server."""

from __future__ import annotations

from typing import Final

from codriver.core.state import Origin
from codriver.features.jupyter.kernel_kind import KERNEL_KIND

KERNEL_FILE: Final = "kernel"
"""The origin kind of a kernel found by its connection file. The origin's text is the path of the file."""
KERNEL_SERVER: Final = "server"
"""The origin kind of a kernel on a Jupyter Server. The origin's text is the URL of the kernel."""


def kernel_of_file(path: object, *, is_discovered_only: bool = False) -> Origin:
    """Return the origin of a kernel that was found by its connection file."""
    return Origin(
        KERNEL_FILE,
        str(path),
        KERNEL_KIND.title,
        is_discovered_only=is_discovered_only,
        is_of_unverified_file=is_discovered_only,
    )


def kernel_of_server(url: object, *, is_discovered_only: bool = False) -> Origin:
    """Return the origin of a kernel that was found by its URL on a Jupyter Server."""
    return Origin(KERNEL_SERVER, str(url), KERNEL_KIND.title, is_discovered_only=is_discovered_only)
