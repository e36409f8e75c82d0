"""`try_code`: test several alternative edits with the same tests, and apply only the one to keep."""

from __future__ import annotations

from typing import TYPE_CHECKING

from codriver.feature import Feature

if TYPE_CHECKING:
    from codriver.server_hooks import ServerHooks


def _server() -> ServerHooks:
    from codriver.features.try_code.tool import TOOLS  # noqa: PLC0415  # a command only reads the declaration
    from codriver.server_hooks import ServerHooks  # noqa: PLC0415  # as above

    return ServerHooks(tools=TOOLS)


FEATURE = Feature("try_code", server=_server)
