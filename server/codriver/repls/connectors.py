"""The connectors of the protocols that Codriver supports without extra features."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

from codriver.repls.kinds import NREPL
from codriver.repls.nrepl.nrepl_adapter import connect_nrepl

if TYPE_CHECKING:
    from collections.abc import Mapping

    from codriver.repls.contract.adapter import Connector


CONNECTORS: Mapping[str, Connector] = MappingProxyType(
    {
        NREPL: connect_nrepl,
    }
)
"""The connectors by the protocol that a kind of REPL names. Features add others with `Repls.connect_by`."""
