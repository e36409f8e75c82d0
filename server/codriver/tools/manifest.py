"""The one manifest: every tool there is, in the order clients see them."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

from codriver.tools import (
    community,
    editing,
    evaluate,
    evaluations,
    failures,
    outputlog,
    restarting,
    sessions,
    symbols,
    testing,
    waiting,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from codriver.tools.base import Tool

MANIFEST: tuple[Tool, ...] = (
    *evaluate.TOOLS,
    *evaluations.TOOLS,
    *symbols.TOOLS,
    *community.TOOLS,
    *testing.TOOLS,
    *failures.TOOLS,
    *restarting.TOOLS,
    *sessions.TOOLS,
    *outputlog.TOOLS,
    *waiting.TOOLS,
    *editing.TOOLS,
)

BY_NAME: Mapping[str, Tool] = MappingProxyType({tool.name: tool for tool in MANIFEST})
