"""The setting that lets agents read applications' sensitive values."""

from __future__ import annotations

from typing import Final

from codriver.settings.declared import DeclaredSetting

SENSITIVE_READS_SETTING: Final = DeclaredSetting(
    "allow_sensitive_reads",
    default=False,
    description="Let inspect_app reveal values that an application marks as sensitive, on request.",
    grants="true",
)
