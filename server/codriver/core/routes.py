"""Which handler serves which namespace: the one table."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

from codriver.core import app, db, log, mcp, repl

if TYPE_CHECKING:
    from collections.abc import Mapping

    from codriver.core.dispatch import Handler

HANDLERS: Mapping[str, Handler] = MappingProxyType(
    {"app": app.handle, "mcp": mcp.handle, "repl": repl.handle, "log": log.handle, "db": db.handle}
)
