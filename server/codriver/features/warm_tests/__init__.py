"""Warm test runs: copies of a process that has imported pytest and a project's packages, and nothing of the workspace.

`starter` starts runs, warm or plain, behind the same interface as a plain process. `decisions` says which, `plans` what
to preload, `comparison` whether a warm run reports what a plain one reported; all three are pure. `warm_process` owns
the process, and `child` has the programs that run in it. Without this feature every run is a plain process.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from codriver.feature import Feature
from codriver.features.warm_tests.settings import IS_ON, MEMORY_MB

if TYPE_CHECKING:
    from codriver.server_hooks import ServerHooks


def _server() -> ServerHooks:
    from codriver.features.warm_tests import hooks  # noqa: PLC0415  # a command reads only the declaration

    return hooks.SERVER


FEATURE = Feature("warm_tests", settings=(IS_ON, MEMORY_MB), server=_server)
