"""Load the settings of a workspace, including those that features declare."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from codriver.app.features import features, repl_kinds
from codriver.settings import layers
from codriver.settings.model import build_settings_model

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from codriver.settings.layers import LoadedSettings
    from codriver.settings.model import Settings


@cache
def settings_model() -> type[Settings]:
    """Return the model for all settings, including those of features."""
    return build_settings_model(
        tuple(setting for feature in features() for setting in feature.settings),
        frozenset(word for kind in repl_kinds() for word in kind.words),
    )


def load_workspace_settings(
    workspace: Path, *, environ: Mapping[str, str], overrides: Mapping[str, object] | None = None
) -> LoadedSettings:
    """Load the settings of a workspace. See `codriver.settings.layers.load_settings`.

    Raises:
        SettingsError: a value is invalid or a file cannot be read.
    """
    return layers.load_settings(workspace, environ=environ, model=settings_model(), overrides=overrides)
