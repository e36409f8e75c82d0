"""The settings for warm test runs."""

from __future__ import annotations

from typing import Any, Final, Literal

from codriver.settings.declared import DeclaredSetting

Preloading = Literal["off", "pytest", "packages"]
"""The modules that the warm process preloads. With `off`, there is no such process."""


def _annotation() -> Any:
    return Preloading


WARM_TESTS_SETTING: Final[DeclaredSetting[Preloading]] = DeclaredSetting(
    "warm_tests",
    default="off",
    description="Start Python test runs as copies of a process that has already imported pytest, or all packages.",
    annotation=_annotation,
)
"""The setting that enables warm test runs."""
MEMORY_MB_SETTING: Final = DeclaredSetting(
    "warm_tests_memory_mb",
    1024,
    "Maximum memory of all warm test processes. If they use more, the least recently used ones are ended.",
    least=16,
    most=1024 * 1024,
)
