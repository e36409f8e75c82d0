"""The options of warm test runs, which the settings determine."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Final

from codriver.features.warm_tests import decisions
from codriver.features.warm_tests.known_packages import KNOWN_PACKAGES

IS_FORK_SAFE: Final = sys.platform == "linux"
"""Whether a process that has imported packages can be forked safely on this system."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WarmOptions:
    """The settings for warm test runs, which use forks of a process that has preloaded modules."""

    is_enabled: bool = False
    packages: frozenset[str] = KNOWN_PACKAGES
    """The packages that may be preloaded."""
    memory_mb: int = 1024
    """Maximum total memory of all warm processes, in MiB."""
    min_saving_s: float = decisions.MIN_SAVING_S
    """Minimum time that a warm start has to save for the project to be warmed."""
