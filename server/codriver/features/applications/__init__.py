"""Applications: agents read, change and watch the application in a REPL through its seam."""

from __future__ import annotations

from typing import TYPE_CHECKING

from codriver.feature import Feature, Options
from codriver.features.applications.settings import SHOWS_SENSITIVE

if TYPE_CHECKING:
    from codriver.server_hooks import ServerHooks


def _server() -> ServerHooks:
    from codriver.features.applications import hooks  # noqa: PLC0415  # a command reads only the declaration

    return hooks.SERVER


FEATURE = Feature(
    "applications",
    server=_server,
    options=(Options("call", "codriver.features.applications.call_options"),),
    settings=(SHOWS_SENSITIVE,),
)
