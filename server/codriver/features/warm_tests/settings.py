"""The settings for warm test runs."""

from __future__ import annotations

from typing import Final

from codriver.settings.declared import DeclaredSetting

WARM_TESTS_SETTING: Final = DeclaredSetting(
    "warm_tests",
    default=True,
    description="Start Python test runs as copies of a process that has imported pytest and well-known packages.",
)
"""The setting that enables warm test runs."""
MEMORY_MB_SETTING: Final = DeclaredSetting(
    "warm_tests_memory_mb",
    1024,
    "Maximum memory of all warm test processes. If they use more, the least recently used ones are ended.",
    least=16,
    most=1024 * 1024,
)
