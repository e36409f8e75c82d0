"""What every test shares."""

import gc
import signal

import pytest
from hypothesis import HealthCheck, settings

# How long an example takes says more of the machine than of the code.
settings.register_profile("codriver", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("codriver")

# A shell starts what runs in the background with SIGINT ignored, and every process of the tests would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def anyio_backend():
    return "asyncio"


@pytest.fixture(scope="module", autouse=True)
def _left_open_here():
    """What a module leaves to the garbage collector, as a socket, fails there, and not in whatever comes next."""
    yield
    gc.collect()
