"""A server for programs that `codriver run` starts, and a client of it."""

import needs
import pytest
from started_programs import Server


@pytest.fixture(scope="module")
def live(request, tmp_path_factory):
    table = getattr(request, "param", "linux")
    if table == "psutil":
        needs.modules("psutil")
    running = Server(tmp_path_factory.mktemp("run"), table)
    yield running
    running.stop()


@pytest.fixture
def client(live):
    with live.client() as connected:
        yield connected
