"""Hooks that let features extend the REPLs to which a command connects without a server."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from codriver.repls.contract.evaluation_extensions import AdapterHooks


def adapter_hooks() -> AdapterHooks:
    """Import and return the hooks of all features for REPL adapters."""
    from codriver.app import features  # noqa: PLC0415  # it imports all features

    return features.adapter_hooks()
