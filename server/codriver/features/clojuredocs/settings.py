"""The settings for ClojureDocs."""

from __future__ import annotations

from typing import Final

from codriver.settings.declared import DeclaredSetting

URL_SETTING: Final = DeclaredSetting(
    "clojuredocs_url",
    "https://clojuredocs.org/clojuredocs-export.json",
    "URL of the ClojureDocs export, or none to disable downloads.",
    grants="any value",
)
"""The setting with the address of the export."""
MAX_AGE_DAYS_SETTING: Final = DeclaredSetting(
    "clojuredocs_max_age_days", 30, "Days after which the ClojureDocs export is fetched again.", least=1, most=3650
)
"""The setting with the number of days after which the export is downloaded again."""
