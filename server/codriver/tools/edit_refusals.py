"""Refuse edits that would make other programs run code or grant permissions, and edits that features forbid."""

from __future__ import annotations

from pathlib import PurePath
from typing import TYPE_CHECKING, Final

from codriver.editing.editable_paths import LISP_SUFFIXES, PYTHON_SUFFIXES, normalize_file_name
from codriver.editing.guarded_files import guard_reason

if TYPE_CHECKING:
    from pathlib import Path

    from codriver.editing.file_changes import Change
    from codriver.settings.model import Settings
    from codriver.tools.calls.call import Services

NEEDS_HUMAN_HINT: Final = "ask your human to edit it, or to set allowEditsOfClientFiles in their own settings"


def find_refusal_reason(services: Services, who: str, change: Change) -> str:
    """Explain why a caller must not change a file, or return an empty string if it may.

    Features' guards may wait for other programs.
    """
    refusals = (guard(services, who, change) for guard in services.hooks.guards)
    return next(filter(None, refusals), "") or find_general_refusal_reason(
        services.workspace, services.live.settings, change
    )


def find_general_refusal_reason(workspace: Path, settings: Settings, change: Change) -> str:
    """Explain why no caller may make a change, or return an empty string if callers may make it."""
    path, name = change.path, normalize_file_name(change.path.name)
    is_code = PurePath(name).suffix in (*LISP_SUFFIXES, *PYTHON_SUFFIXES)
    if not settings.enable_mcp_repl_evaluation and not is_code:
        return "only Python and Lisp files can be edited while evaluation is switched off"
    if settings.allow_edits_of_client_files or not path.is_relative_to(workspace):
        return ""
    reason = guard_reason(workspace, change)
    return f"{reason}: {NEEDS_HUMAN_HINT}" if reason else ""
