"""`try_code`: several candidate edits, each judged by the same tests, none of them written but the one to keep."""

from __future__ import annotations

from codriver.feature import Feature, ServerHooks


def _server() -> ServerHooks:
    from codriver.features.try_code.tool import TOOLS  # noqa: PLC0415  # a command reads only the declaration

    return ServerHooks(tools=TOOLS)


FEATURE = Feature("try_code", server=_server)
