"""The connectors of the protocols that Codriver supports without extra features."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

from codriver.repls.kinds import JUPYTER, NREPL
from codriver.repls.nrepl.nrepl_adapter import connect_nrepl

if TYPE_CHECKING:
    from collections.abc import Mapping
    from contextlib import AbstractAsyncContextManager
    from pathlib import Path

    from codriver.repls.contract.adapter import Adapter, Connector
    from codriver.repls.contract.adapter_values import Listener


def connect_jupyter(
    address: str, *, listener: Listener, workspace: Path | None, is_remote: bool, found_by: Path | None = None
) -> AbstractAsyncContextManager[Adapter]:
    """Return a context manager for the adapter of a kernel.

    The Jupyter modules are imported on first use. They take a megabyte that most workspaces never need.
    """
    from codriver.repls.jupyter import jupyter_adapter  # noqa: PLC0415  # see above

    return jupyter_adapter.connect_jupyter(
        address, listener=listener, workspace=workspace, is_remote=is_remote, found_by=found_by
    )


CONNECTORS: Mapping[str, Connector] = MappingProxyType(
    {
        NREPL: connect_nrepl,
        JUPYTER: connect_jupyter,
    }
)
"""The connectors by the protocol that a kind of REPL names. Features add others with `Repls.connect_by`."""
