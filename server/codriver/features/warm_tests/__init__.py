"""Warm test runs: forked copies of a process that has imported pytest and well-known packages, but no project code.

`starter` starts warm and plain runs, with the same interface for both, and `warm_run` is one such run. `decisions`
chooses between the two, `plans` determines what to preload, and `comparison` checks whether warm runs report the same
results as plain ones. These three are pure, and `learning` applies them to each finished run. `known_packages` lists
the packages that may be preloaded. `process_pool` owns the warm processes, `warm_process` is one of them, and `child`
contains the programs that run in it. Without this feature, every run uses a plain process.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from codriver.feature import Feature
from codriver.features.warm_tests.settings import MEMORY_MB_SETTING, WARM_TESTS_SETTING

if TYPE_CHECKING:
    from codriver.server_hooks import ServerHooks


def _server() -> ServerHooks:
    from codriver.features.warm_tests import hooks  # noqa: PLC0415  # a command only reads the declaration

    return hooks.SERVER


FEATURE = Feature("warm_tests", settings=(WARM_TESTS_SETTING, MEMORY_MB_SETTING), server=_server)
