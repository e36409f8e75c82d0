"""The setting that enables the web page."""

from __future__ import annotations

from typing import Final

from codriver.settings.declared import DeclaredSetting

ENABLE_PAGE_SETTING: Final = DeclaredSetting(
    "enable_page",
    default=True,
    description="Let `codriver watch --web` open the page.",
    grants="true",
    policy="page",
)
"""The setting that enables the web page."""
