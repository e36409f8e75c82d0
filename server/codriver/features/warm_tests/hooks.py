"""The hooks that add warm test runs to a server."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from codriver.features.warm_tests.saved_plans import SavedPlans
from codriver.features.warm_tests.settings import MEMORY_MB_SETTING, WARM_TESTS_SETTING
from codriver.features.warm_tests.starter import WarmTests
from codriver.features.warm_tests.warm_options import WarmOptions
from codriver.files.codriver_paths import cache_directory
from codriver.server_hooks import Part, ServerHooks

if TYPE_CHECKING:
    from anyio.abc import TaskGroup

    from codriver.tools.calls.call import LiveSettings, Services


def _options(live: LiveSettings) -> WarmOptions:
    settings = live.settings
    return WarmOptions(is_enabled=settings.value_of(WARM_TESTS_SETTING), memory_mb=settings.value_of(MEMORY_MB_SETTING))


def _make(services: Services, tasks: TaskGroup) -> WarmTests:
    """Create the owner of the warm processes, and use it for all further test runs."""
    warm = WarmTests(partial(_options, services.live), tasks, SavedPlans(cache_directory() / "warm-tests"))
    services.tests.start, services.tests.start_states = warm, warm.states
    return warm


SERVER: Final = ServerHooks(parts=(Part(WarmTests, _make),))
