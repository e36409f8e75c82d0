"""Call traces: record the calls that code makes, with arguments and results, and measure where the time goes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from codriver.feature import Feature

if TYPE_CHECKING:
    from codriver.server_hooks import ServerHooks


def _server() -> ServerHooks:
    from codriver.features.traces import hooks  # noqa: PLC0415  # a command only reads the declaration

    return hooks.SERVER


FEATURE = Feature("traces", server=_server)
