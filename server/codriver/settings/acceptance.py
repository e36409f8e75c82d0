"""The user's acceptance of a workspace: of settings that grant permissions, and of its Python environment."""

from __future__ import annotations

from typing import TYPE_CHECKING

from codriver.settings import acceptance_records
from codriver.settings.environment_acceptance import directories_to_accept

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from codriver.settings.layers import LoadedSettings


def accept_workspace(workspace: Path, loaded: LoadedSettings, environ: Mapping[str, str]) -> None:
    """Record that the user accepts the workspace's current settings and Python environment. Blocks on disk I/O.

    Raises:
        CannotRememberError: the record cannot be written.
    """
    python = loaded.settings.python
    if loaded.origins["python"].layer in {"default", "user", "workspace"}:
        python = next((str(setting.value) for setting in loaded.withheld if setting.setting == "python"), python)
    acceptance_records.record_acceptance(workspace, loaded.granting, directories_to_accept(workspace, environ, python))
