"""The one manifest: every tool there is, in the order clients see them."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

from codriver.tools import (
    edit_files,
    evaluate_code,
    get_evaluation,
    inspect_app,
    list_cells,
    list_sessions,
    note_edit,
    repl_output_log,
    run_cell,
    stacktrace,
    symbol_info,
    try_code,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from codriver.tools.calls.base import Tool

MANIFEST: tuple[Tool, ...] = (
    *evaluate_code.TOOLS,
    *get_evaluation.TOOLS,
    *symbol_info.TOOLS,
    *evaluate_code.TESTING,
    *stacktrace.TOOLS,
    *symbol_info.COMPARING,
    *list_sessions.TOOLS,
    *repl_output_log.TOOLS,
    *edit_files.TOOLS,
    *try_code.TOOLS,
    *inspect_app.TOOLS,
    *list_cells.TOOLS,
    *run_cell.TOOLS,
)

BY_NAME: Mapping[str, Tool] = MappingProxyType({tool.name: tool for tool in MANIFEST})

FOR_HOOKS: Mapping[str, Tool] = MappingProxyType({tool.name: tool for tool in note_edit.TOOLS})
"""The tools that only clients' hooks call, by name: they are listed to nobody, so that no model reads of them."""
