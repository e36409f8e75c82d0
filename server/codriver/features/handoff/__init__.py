"""Handoff and conflicts: summarize the work in the REPLs, and warn callers who redefine each other's names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from codriver.feature import Command, Feature

if TYPE_CHECKING:
    from codriver.server_hooks import ServerHooks


def _server() -> ServerHooks:
    from codriver.features.handoff import hooks  # noqa: PLC0415  # a command reads only the declaration

    return hooks.SERVER


FEATURE = Feature("handoff", server=_server, commands=(Command("handoff", "codriver.features.handoff.command"),))
